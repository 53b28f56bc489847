// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/core/wording"
)

// facts returns what the first line contains besides the subject.
func facts(in *Input) []string {
	var out []string
	switch {
	case in.Subject.Kind == OfNode:
		return nodeFacts(in)
	case in.Subject.Kind == OfPod:
		if !in.Subject.Workload.IsZero() {
			out = append(out, "of "+in.Subject.Workload.Kind+" "+in.Subject.Workload.Name)
		}
	case in.Replicas.Known:
		out = append(out, fmt.Sprintf("×%d", in.Replicas.Replicas))
	case len(in.Pods) > 0:
		out = append(out, fmt.Sprintf("×%d", len(in.Pods)))
	}
	switch {
	case in.Autoscaler == nil && in.NoAutoscalers:
		return append(out, "VPA not known")
	case in.Autoscaler == nil:
		return append(out, "no VPA")
	}
	out = append(out, "VPA "+in.Autoscaler.Name, in.Autoscaler.Mode.String())
	switch {
	case in.Vendor:
		out = append(out, "recommender "+in.Autoscaler.Recommender)
	case in.Autoscaler.Recommender != "":
		out = append(out, "profile "+in.Autoscaler.Recommender)
	}
	return out
}

func nodeFacts(in *Input) []string {
	n := in.nodeNamed(in.Subject.Name)
	if n == nil {
		return []string{"not known"}
	}
	out := []string{"allocatable " + short(n.Allocatable)}
	if !n.Ready {
		out = append(out, "not ready")
	}
	if n.Cordoned {
		out = append(out, "cordoned")
	}
	if n.LowMemory {
		out = append(out, "memory pressure")
	}
	return out
}

func (in *Input) nodeNamed(name string) *cluster.Node {
	return cluster.Find(in.Nodes, func(n *cluster.Node) bool { return n.Name == name })
}

// now returns what has happened, the most urgent first.
func now(in *Input) []string {
	var out []string
	if by := in.frozenBy(); by != "" && in.Autoscaler != nil && in.Autoscaler.Mode.Updates() {
		out = append(out, "Changes of running pods are frozen by the "+by+".")
	}
	out = slices.Concat(out, kills(in), unready(in), resizes(in))
	if why := in.unjudged(); why != "" {
		out = append(out, "The recommendation is not judged yet: "+why+".")
	}
	out = slices.Concat(out, progress(in), sizes(in), recorded(in), events(in))
	out = append(out, conditions(in, out)...)
	if in.Subject.Kind == OfNode {
		out = append(out, occupancy(in))
	}
	switch {
	case len(in.Pods) > 0 || in.Subject.Kind == OfNode:
	case in.Subject.Kind == OfPod:
		out = append(out, "The pod has ended, or is being deleted.")
	default:
		out = append(out, "There are no pods.")
	}
	return out
}

// frozenBy returns the switch that stops changes of running pods by the rules, or "".
func (in *Input) frozenBy() string {
	if in.Rules.Autoscaler == nil {
		return ""
	}
	by, _ := rollout.Frozen(in.Rules)
	return by
}

// unjudged returns why the recommendation cannot be relied on yet, by the rule of podfit recommend; "" if it can.
func (in *Input) unjudged() string {
	for _, h := range in.histories() {
		e := review.StoredEvidence(in.Autoscaler, h.Container(), h, in.Now)
		if in.Autoscaler.AdviceFor(h.Container()) != nil && e.Lacking() != "" {
			return e.Lacking()
		}
	}
	return in.Lack
}

// histories returns the stored usage of the containers that are shown; none if it is not known.
func (in *Input) histories() []*usage.ContainerHistory {
	if in.Sizing == nil || in.Lack != "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(in.Sizing.Histories), func(h *usage.ContainerHistory) bool { return !in.shows(h.Container()) })
}

func (in *Input) shows(container string) bool { return in.Container == "" || in.Container == container }

// kills describes the recent OOM kills of each container. A pod shows only its last one, so there may have been as many as restarts.
func kills(in *Input) []string {
	const recently = 24 * time.Hour // how long an OOM kill is reported
	type of struct {
		pods, times, restarts int

		last  time.Time
		limit int64
		down  bool
	}
	var found map[string]*of
	for _, p := range in.Pods {
		for _, c := range p.Containers {
			if !in.shows(c.Name) || c.Exit == nil || !c.Exit.OOM || in.Now.Sub(c.Exit.Finished) > recently {
				continue
			}
			k := cluster.Memo(&found, c.Name, func() *of { return new(of) })
			k.pods++
			k.times += max(1, int(c.Exit.Kills))
			k.restarts += int(c.Restarts)
			k.down = k.down || c.Exit.Now
			if c.Exit.Finished.After(k.last) {
				k.last = c.Exit.Finished
				_, limits := c.Running()
				k.limit = limits.Memory
			}
		}
	}
	var out []string
	for _, name := range sortedKeys(found) {
		k := found[name]
		text := fmt.Sprintf("%s was OOM-killed at least %s in %s",
			name, wording.Form(k.times, "once", fmt.Sprintf("%d times", k.times)), wording.Count(k.pods, "pod"))
		if k.restarts > k.times {
			text += " with " + wording.Count(k.restarts, "restart")
		}
		text += ", last at " + clock(in.Now, k.last)
		if k.limit > 0 {
			text += " with a limit of " + cluster.Format(cluster.Memory, k.limit)
		}
		if k.down {
			text += ", and has not restarted since"
		}
		out = append(out, text+".")
	}
	return append(out, storedKills(in)...)
}

// storedKills describes the OOM kills of each container in the stored usage, if no pod shows one. A pod shows only how it ended last.
func storedKills(in *Input) (out []string) {
	for _, h := range in.histories() {
		e := review.StoredEvidence(in.Autoscaler, h.Container(), h, in.Now)
		shown := slices.ContainsFunc(in.Pods, func(p *cluster.Pod) bool {
			c := p.Container(h.Container())
			return c != nil && c.Exit != nil && c.Exit.OOM
		})
		if !shown && e.Kills > 0 {
			killed := review.Finding{Kind: review.Killed, Count: e.Kills, Since: e.KilledFrom}
			out = append(out, h.Container()+" was "+killed.Text(in.Now)+": a high risk, but no running pod shows it.")
		}
	}
	return out
}

func unready(in *Input) []string {
	pending, broken := 0, 0
	for _, p := range in.Pods {
		switch {
		case !p.Live():
		case p.Node == "":
			pending++
		case !p.Serves():
			broken++
		}
	}
	total := len(in.Pods)
	var out []string
	if pending > 0 {
		out = append(out, wording.Form(total, "The pod has", wording.Count(pending, "pod")+wording.Form(pending, " has", " have"))+" no node.")
	}
	if broken > 0 {
		several := fmt.Sprintf("%d of %s %s", broken, wording.Count(total, "pod"), wording.Form(broken, "is", "are"))
		out = append(out, wording.Form(total, "The pod is", several)+" not ready.")
	}
	return out
}

var resizeStates = map[cluster.ResizeState]string{
	cluster.ResizeDeferred: "Deferred", cluster.ResizeInfeasible: "Infeasible", cluster.ResizeInProgress: "InProgress",
	cluster.ResizeError: "Error", cluster.ResizeUnknown: "unknown",
}

// resizingPods returns the pods with a resize that is not done.
func (in *Input) resizingPods() []*cluster.Pod {
	return slices.DeleteFunc(slices.Clone(in.Pods), func(p *cluster.Pod) bool { return !p.IsResizing() || !p.Live() })
}

// bySince orders pods whose resize is not done by how long that has been so.
func bySince(a, b *cluster.Pod) int { return a.Resize.Since.Compare(b.Resize.Since) }

// resizes describes the resizes that are not done, by state.
func resizes(in *Input) []string {
	byState := cluster.GroupBy(in.resizingPods(), func(p *cluster.Pod) cluster.ResizeState { return p.Resize.State })
	var out []string
	for _, state := range sortedKeys(byState) {
		pods := byState[state]
		oldest := slices.MinFunc(pods, bySince)
		text := "Resize of " + oldest.Name + " " + resizeStates[state] + since(in.Now, " since ", oldest.Resize.Since)
		if len(pods) > 1 {
			text = "Resizes of " + wording.Count(len(pods), "pod") + " " + resizeStates[state] + since(in.Now, ", the first since ", oldest.Resize.Since)
		}
		if m := strings.TrimRight(strings.TrimSpace(oldest.Resize.Message), "."); m != "" {
			text += ": " + m
		}
		out = append(out, text+".")
	}
	return out
}

// progress describes how many pods have the recommended size.
func progress(in *Input) []string {
	total, sized, kept := 0, 0, 0
	for _, d := range in.Decisions {
		if len(d.With) == 0 {
			continue
		}
		total++
		switch {
		case change.SameSize(d.Pod, d.With) || d.Reason.Code == decision.Fits:
			sized++
		case d.Do == decision.Leave && d.Wanted.Code == decision.Fits:
			kept++
		}
	}
	single := total == 1 && len(in.Pods) == 1 && in.Subject.Kind != OfNode
	switch {
	case total == 0:
		return nil
	case single && sized == total:
		return []string{"The pod has the recommended size."}
	case single && kept == 1:
		return []string{"The pod is close enough to the recommended size."}
	case single:
		return []string{"The pod does not have the recommended size."}
	}
	out := fmt.Sprintf("%d of %s %s the recommended size.", sized, wording.Count(total, "pod"), wording.Form(sized, "has", "have"))
	if kept > 0 {
		out += fmt.Sprintf(" %d %s close enough to it.", kept, wording.Form(kept, "is", "are"))
	}
	return []string{out}
}

// sizes describes the recommendation of each container of the first pod that differs from it.
func sizes(in *Input) []string {
	d := cluster.Find(in.Decisions, func(d *decision.Decision) bool { return len(d.With) > 0 && !change.SameSize(d.Pod, d.With) })
	if d == nil || in.Subject.Kind == OfNode {
		return nil
	}
	var out []string
	for _, f := range d.With {
		if f.Inserted || !in.shows(f.Container) {
			continue
		}
		requests, _ := d.Pod.Container(f.Container).Running()
		if text := arrows(requests, f.Requests); text != "" {
			out = append(out, f.Container+": "+text+".")
		}
	}
	return append(out, podLevel(d)...)
}

// podLevel describes how the pod-level resources change with those of the containers.
func podLevel(d *decision.Decision) []string {
	before, after := d.Pod.PodLevel, admissible.PodLevelOf(d.Pod, d.With)
	if before == nil {
		return nil
	}
	var out []string
	for _, of := range []struct {
		name     string
		from, to cluster.Resources
	}{{"Pod-level requests", before.Requests, after.Requests}, {"Pod-level limits", before.Limits, after.Limits}} {
		if text := arrows(of.from, of.to); text != "" {
			out = append(out, of.name+" of all containers together: "+text+".")
		}
	}
	if d.Autoscaler == nil {
		return out
	}
	whole, sum := d.Autoscaler.Shares(d.Pod)
	for _, res := range cluster.All {
		if amount, ok := whole.Get(res); ok {
			out = append(out, fmt.Sprintf("The pod as a whole needs %s of %s; the sum of its containers would be %s. They do not need their targets at the same time.",
				wording.Amount(res, amount), wording.Name(res), wording.Amount(res, sum.Amount(res))))
		}
	}
	return out
}

// arrows returns how amounts change, such as "cpu 500m → 633m, memory stays 1Gi".
func arrows(from, to cluster.Resources) string {
	var parts []string
	for _, res := range cluster.All {
		had, known := from.Get(res)
		v, set := to.Get(res)
		switch {
		case !set:
		case !known:
			parts = append(parts, res.String()+" none → "+wording.Amount(res, v))
		case change.Compare(res, had, v) == 0:
			parts = append(parts, res.String()+" stays "+wording.Amount(res, had))
		default:
			parts = append(parts, res.String()+" "+wording.Amount(res, had)+" → "+wording.Amount(res, v))
		}
	}
	return strings.Join(parts, ", ")
}

// recorded describes the pods that the running updater left.
func recorded(in *Input) []string {
	if in.Subject.Kind == OfNode || in.Subject.Kind == OfPod {
		return nil
	}
	var out []string
	for _, s := range in.Waiting {
		text := fmt.Sprintf("The running updater recorded that %s %s for %s, the first is %s",
			wording.Count(s.Pods, "pod"), wording.Form(s.Pods, "waits", "wait"), s.Reason, s.First)
		if s.NotBefore.After(in.Now) {
			text += "; not before " + clock(in.Now, s.NotBefore)
		}
		out = append(out, text+".")
	}
	return out
}

// badWhenTrue are the conditions of a VPA that report a problem while they are true. HorizontalPodAutoscaler and TargetConflict are
// among the situations, and Updating is what the decisions say.
var badWhenTrue = map[string]bool{
	"ConfigUnsupported": true, "ConfigDeprecated": true, "NoPodsMatched": true, "LowConfidence": true, "FetchingHistory": true,
	"RecommendationNotAdmitted": true, "NeedsLargerNode": true, "AnnotationInvalid": true, "DisruptiveProfile": true, "HistoryIncomplete": true,
	"MemoryLeakSuspected": true, "OOMKillLoop": true, "OOMRescue": true, "Reverted": true, "NeedsMoreReplicas": true, "CriticalityInvalid": true,
	"PackingNotPossible": true, "UsageAboveRequest": true, "CPUThrottled": true, "NoCPURequest": true, "JVMSeesAllCores": true, "MemoryLimitInProportion": true,
}

// badWhenFalse are the conditions that report a problem while they are false.
var badWhenFalse = map[string]bool{"RecommendationProvided": true, "SizingProfileUsable": true, "OOMRescue": true, "NeedsMoreReplicas": true}

// conditions describes the conditions of the VPA that report a problem, without those whose message an event has already.
func conditions(in *Input, said []string) []string {
	var out []string
	for _, c := range in.Conditions {
		if !(c.True && badWhenTrue[c.Type] || !c.True && badWhenFalse[c.Type]) {
			continue
		}
		if c.Message != "" && slices.ContainsFunc(said, func(line string) bool { return strings.Contains(line, c.Message) }) {
			continue
		}
		status := "False"
		if c.True {
			status = "True"
		}
		text := "VPA " + c.Type + "=" + status + since(in.Now, " since ", c.Since)
		if m := cmp.Or(c.Message, c.Reason); m != "" {
			text += ": " + m
		}
		out = append(out, text)
	}
	return out
}

// occupancy describes the requests on the node of the subject.
func occupancy(in *Input) string {
	n := in.nodeNamed(in.Subject.Name)
	if n == nil {
		return "The node does not exist, or nodes cannot be read."
	}
	if in.AllPods == nil {
		return "Its free room is not known, because the pods of all namespaces cannot be read."
	}
	used := in.requested(n.Name)
	free := cluster.Amounts(n.Allocatable.CPU-used.CPU, n.Allocatable.Memory-used.Memory)
	return fmt.Sprintf("Requested: %s. Free: %s.", short(used), short(free))
}

func (in *Input) requested(node string) cluster.Resources {
	sum := cluster.Amounts(0, 0)
	for _, p := range in.AllPods {
		if p.Node == node && !p.HasFinished() {
			sum = sum.Add(change.Total(p, nil))
		}
	}
	return sum
}
