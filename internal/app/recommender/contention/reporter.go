// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package contention reports containers that compete for CPU in conditions of VPAs: UsageAboveRequest, CPUThrottled, NoCPURequest and
// JVMSeesAllCores. An Observer reads the CPU throttling from Prometheus, in parallel to the passes of the recommender. The package does not
// judge what it reads: the package of the core with the same name does.
package contention

import (
	"maps"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	judge "podfit.dev/podfit/internal/core/contention"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// holdText is how long the reason and the message of a condition stay as they are, although for example another pod uses most now. So the
// status of a VPA is written at most twice an hour for each condition. A change of the spec of the VPA ends it.
const holdText = 30 * time.Minute

type world interface{ Nodes() []cluster.Node }

// A Reporter determines the conditions of VPAs about contention for CPU. One goroutine owns it.
type Reporter struct {
	world     world
	observer  *Observer // nil: there is no Prometheus
	whole     bool      // the pods and samples are those of the whole cluster
	monitor   *judge.Monitor
	throttled map[cluster.Workload]throttling // workloads whose last result was a finding
	texts     map[textKey]*text

	// Of the current pass.
	problems map[cluster.Workload]*problems
	samples  []usage.Sample
	lacks    []judge.Lack
	nodes    map[string]judge.NodeUse // nil: not determined yet
	kernels  map[string]string        // by node; nil: not determined yet
}

type textKey struct {
	key  cluster.Key
	kind string
}

// A text is what a condition says.
type text struct {
	judge.Finding
	uid        string
	generation int64
	since      time.Time
	isUsed     bool // in the current pass
}

type problems struct {
	isGone        bool // there is no live pod
	above         []judge.Excess
	missing       judge.Groups
	misread       judge.Groups
	throttling    judge.Finding
	isUnthrottled bool // it is known, or not possible, that containers are throttled
}

// NewReporter returns a reporter without usage. The observer is nil if there is no Prometheus. whole is true if snapshots have the pods of all
// namespaces, and samples their usage.
func NewReporter(w world, observer *Observer, whole bool) *Reporter {
	return &Reporter{
		world: w, observer: observer, whole: whole, monitor: judge.NewMonitor(),
		throttled: map[cluster.Workload]throttling{}, texts: map[textKey]*text{}, problems: map[cluster.Workload]*problems{},
	}
}

// Tick begins a pass.
func (r *Reporter) Tick(now time.Time) {
	r.forget() // the last pass may have no end, because it panicked
	r.monitor.Tick(now)
}

// Observe adds the CPU usage of a container of a pod that a VPA targets.
func (r *Reporter) Observe(p *cluster.Pod, s *usage.Sample) { r.monitor.Add(p, s.Container, s.CPU) }

// Observed ends the samples of a pass, which are those of all pods. pods are those that a VPA targets; others are forgotten.
func (r *Reporter) Observed(samples []usage.Sample, pods map[cluster.Key]*cluster.Pod) {
	r.samples = samples
	r.monitor.Keep(pods)
}

// End ends a pass. It replaces the workloads whose throttling is read, and releases what belongs to the pass.
func (r *Reporter) End(s *cluster.Snapshot, workloads map[cluster.Workload]bool) {
	if r.observer != nil {
		queries := make(map[cluster.Workload]judge.ThrottlingQuery, len(workloads))
		for w := range workloads {
			if q, ok := judge.Limited(w.Namespace, s.PodsOf(w)); ok {
				queries[w] = q
			}
		}
		r.observer.Ask(queries)
	}
	maps.DeleteFunc(r.throttled, func(w cluster.Workload, _ throttling) bool { return !workloads[w] })
	for key, t := range r.texts {
		if !t.isUsed {
			delete(r.texts, key)
		}
		t.isUsed = false
	}
	r.forget()
}

// forget releases what belongs to a pass.
func (r *Reporter) forget() {
	r.samples = nil
	r.lacks = nil
	r.nodes = nil
	r.kernels = nil
	clear(r.problems)
}

// Conditions returns the conditions of an autoscaler. A condition that is not known yet is not among them, so it stays as it is in the status.
func (r *Reporter) Conditions(now time.Time, s *cluster.Snapshot, situation judge.Situation) []watcher.Condition {
	a := situation.Autoscaler
	p := &problems{isGone: true, isUnthrottled: true} // none, if another autoscaler is applied to the pods
	if situation.Governs || !a.Mode.Applies() {
		p = r.problemsOf(now, s, a.Target)
	}
	out := make([]watcher.Condition, 0, 4)
	if len(p.above) > 0 {
		finding, lacks := judge.AboveRequest(p.above, &situation, r.nodeUses(s))
		out = append(out, r.condition(now, a, v1alpha1.ConditionUsageAboveRequest, finding))
		r.lacks = append(r.lacks, lacks...)
	} else if p.isGone || r.monitor.Warm() {
		out = append(out, r.condition(now, a, v1alpha1.ConditionUsageAboveRequest, judge.Finding{}))
	}
	if p.throttling != (judge.Finding{}) || p.isUnthrottled {
		out = append(out, r.condition(now, a, v1alpha1.ConditionCPUThrottled, p.throttling))
	}
	return append(out,
		r.condition(now, a, v1alpha1.ConditionNoCPURequest, judge.WithoutRequest(p.missing, &situation)),
		r.condition(now, a, v1alpha1.ConditionJVMSeesAllCores, judge.AllCores(p.misread, a.Guards.CPU)))
}

// problemsOf returns the problems of a workload. They are determined once in a pass, however many autoscalers reference the workload.
func (r *Reporter) problemsOf(now time.Time, s *cluster.Snapshot, w cluster.Workload) *problems {
	if p := r.problems[w]; p != nil {
		return p
	}
	pods := s.PodsOf(w)
	p := &problems{isGone: !slices.ContainsFunc(pods, (*cluster.Pod).Live), above: r.monitor.Excesses(pods, now), missing: judge.Unrequested(pods, now), misread: judge.Misread(pods)}
	p.throttling, p.isUnthrottled = r.throttlingOf(now, w, pods)
	r.problems[w] = p
	return p
}

// A throttling is the last finding about the throttling of a workload, and when it was measured.
type throttling struct {
	finding judge.Finding
	at      time.Time
}

// throttlingOf returns the finding about the throttling of a workload, and whether it is known. Pods that are gone are not throttled, but their
// replacements may be: until these are measured, the last finding counts for some time.
func (r *Reporter) throttlingOf(now time.Time, w cluster.Workload, pods []*cluster.Pod) (finding judge.Finding, known bool) {
	if r.observer == nil {
		return judge.Finding{}, true
	}
	if _, ok := judge.Limited(w.Namespace, pods); !ok && slices.ContainsFunc(pods, isRunning) {
		delete(r.throttled, w)
		return judge.Finding{}, true
	}
	answer := r.observer.Answer(w)
	last, lasting := r.throttled[w]
	measured := cluster.SetOf(answer.Containers, func(t judge.Throttling) string { return t.Pod })
	if lasting && now.Sub(last.at).Abs() < keepFor && !slices.ContainsFunc(pods, func(p *cluster.Pod) bool { return p.Live() && measured[p.Name] }) {
		return last.finding, true
	}
	if len(answer.Containers) > 0 {
		finding = judge.Throttled(answer.Containers, pods, r.kernelVersions(), lasting)
	}
	if finding.Reason == "" {
		delete(r.throttled, w)
	} else {
		r.throttled[w] = throttling{finding, answer.at}
	}
	return finding, answer.Known || len(answer.Containers) > 0 || !slices.ContainsFunc(pods, isRunning)
}

func isRunning(p *cluster.Pod) bool { return p.Live() && p.Phase == cluster.Running }

// condition returns a condition with a finding. It keeps the text of the same condition for some time.
func (r *Reporter) condition(now time.Time, a *cluster.Autoscaler, kind string, f judge.Finding) watcher.Condition {
	out := watcher.Condition{Type: v1.VerticalPodAutoscalerConditionType(kind), Status: watcher.Removed}
	if f.Reason == "" {
		return out
	}
	key := textKey{a.Key, kind}
	last := r.texts[key]
	isNew := last == nil || last.uid != a.UID || last.generation != a.Generation || now.Sub(last.since) >= holdText || now.Before(last.since)
	if isNew && (last == nil || last.Finding != f || last.generation != a.Generation || last.uid != a.UID) {
		last = &text{Finding: f, uid: a.UID, generation: a.Generation, since: now}
		r.texts[key] = last
	}
	last.isUsed = true
	out.Status = watcher.True
	out.Reason = string(last.Reason)
	out.Message = last.Message
	return out
}

// MostLacking returns the containers of the present pass that would lack most CPU on a busy node.
func (r *Reporter) MostLacking() []judge.Lack { return judge.MostLacking(r.lacks) }

func (r *Reporter) nodeUses(s *cluster.Snapshot) map[string]judge.NodeUse {
	if !r.whole || r.samples == nil {
		return nil
	}
	if r.nodes == nil {
		used := make(map[cluster.Key]int64, len(s.Pods))
		for i := range r.samples {
			if v := &r.samples[i]; v.Has.Has(cluster.CPU) && v.CPU >= 0 && v.CPU <= usage.MaxCores {
				used[v.Pod] += int64(math.Round(v.CPU * 1000))
			}
		}
		r.nodes = judge.Uses(r.world.Nodes(), s.Pods, used)
	}
	return r.nodes
}

func (r *Reporter) kernelVersions() map[string]string {
	if r.kernels == nil {
		nodes := r.world.Nodes()
		r.kernels = make(map[string]string, len(nodes))
		for i := range nodes {
			r.kernels[nodes[i].Name] = nodes[i].Kernel
		}
	}
	return r.kernels
}
