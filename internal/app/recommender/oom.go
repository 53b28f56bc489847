// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

const (
	// oomLoopTerminations is the minimum number of terminations of a container in its pod for an OOM kill loop. The last
	// termination must be an OOM kill.
	oomLoopTerminations = 2
	// oomLoopWindow is the longest run before an OOM kill that counts as part of a loop, and the time after the last OOM kill
	// until the loop counts as ended.
	oomLoopWindow = 30 * time.Minute
	// oomLoopMessages is the maximum number of containers that the condition describes.
	oomLoopMessages = 3
)

// inOOMLoop reports whether a container is in an OOM kill loop: it is OOM-killed repeatedly in its pod.
func inOOMLoop(c *cluster.Container, now time.Time) bool {
	e := c.Exit
	if e == nil || !e.OOM {
		return false
	}
	terminations := int(c.Restarts)
	if e.Now { // terminated and not restarted yet
		terminations++
	}
	return terminations >= oomLoopTerminations && e.Finished.Sub(e.Started) < oomLoopWindow && (e.Now || now.Sub(e.Finished) < oomLoopWindow)
}

// An oomLoop is a container that is in an OOM kill loop in one or more pods of a VPA, and the reason why it does not have more
// memory.
type oomLoop struct {
	container string
	pod       *cluster.Pod // the first pod by name
	pods      int          // number of pods in which the container is in a loop
	reason    string       // reason of the condition
	request   int64        // bytes, in pod
	limit     int64        // bytes, in pod; 0: no limit
	target    int64        // bytes
}

// sayOOMLoops sets the condition OOMKillLoop if containers are in an OOM kill loop and do not have the recommended memory. The
// updater reports the same in events, which expire; the condition stays as long as the loop.
func (a *advice) sayOOMLoops() {
	var loops []oomLoop
	if a.governing || !a.to.Mode.Applies() {
		loops = oomLoops(a.to, a.containers, a.now, a.seen.looping)
	}
	reason := ""
	if len(loops) > 0 {
		reason = loops[0].reason
	}
	sentences := cluster.Each(loops[:min(len(loops), oomLoopMessages)], func(l *oomLoop) string { return l.message(a.to, a.seen.live) })
	if more := len(loops) - oomLoopMessages; more > 0 {
		sentences = append(sentences, fmt.Sprintf("Number of other containers that are OOM-killed repeatedly: %d.", more))
	}
	a.report(v1alpha1.ConditionOOMKillLoop, reason, strings.Join(sentences, " "))
}

// oomLoops returns the containers that are in a loop and either have less memory than recommended or have a recommendation that is
// capped. They are sorted by name. pods are the live pods with a container in a loop (podsSeen).
func oomLoops(a *cluster.Autoscaler, recommended []cluster.Advice, now time.Time, pods []*cluster.Pod) []oomLoop {
	found := map[string]oomLoop{}
	for _, p := range pods {
		for i := range p.Containers {
			c := &p.Containers[i]
			if !inOOMLoop(c, now) || !a.Policy(c.Name).Controls().Has(cluster.Memory) {
				continue
			}
			loop, ok := loopOf(a, recommended, p, c)
			if !ok {
				continue
			}
			other, ofOthers := found[c.Name]
			total := loop.pods + other.pods
			if ofOthers && other.pod.Key.Compare(p.Key) <= 0 {
				loop = other
			}
			loop.pods = total
			found[c.Name] = loop
		}
	}
	return slices.SortedFunc(maps.Values(found), func(x, y oomLoop) int { return cmp.Compare(x.container, y.container) })
}

// loopOf returns the reason why a container in a loop does not get the memory that it needs. It returns false if there is no
// such reason: without a memory recommendation, or if the container has what is recommended and the recommendation is not capped.
func loopOf(a *cluster.Autoscaler, recommended []cluster.Advice, p *cluster.Pod, c *cluster.Container) (oomLoop, bool) {
	adv := cluster.Find(recommended, func(x *cluster.Advice) bool { return x.Container == c.Name })
	if adv == nil || !adv.Target.Has.Has(cluster.Memory) {
		return oomLoop{}, false
	}
	target := adv.Target.Memory
	requests, limits := c.Running()
	l := oomLoop{container: c.Name, pod: p, pods: 1, request: requests.Memory, limit: limits.Memory, target: target}
	policy := a.Policy(c.Name)
	switch {
	case (policy != nil && policy.RequestsOnly || a.MemoryLimits.Keep) && l.limit > 0 && target >= l.limit:
		l.reason = v1alpha1.ReasonLimitFixed
	case l.request < target:
		l.reason = v1alpha1.ReasonRequestBelowTarget
	case adv.Uncapped.Amount(cluster.Memory) > target:
		l.reason = v1alpha1.ReasonTargetAtMaximum
	default: // the container has the recommended memory; its next OOM kill raises the recommendation
		return oomLoop{}, false
	}
	return l, true
}

// message returns the text of the condition for one container: what happens, why, and a remedy. It is the same in each pass
// while the pods do not change. live is the number of live pods of the workload.
func (l *oomLoop) message(a *cluster.Autoscaler, live int) string {
	target := cluster.Format(cluster.Memory, l.target)
	where := fmt.Sprintf("pod %s", l.pod.Name)
	switch {
	case l.pods >= maxLooping:
		where = fmt.Sprintf("%d or more pods, such as %s", maxLooping, l.pod.Name)
	case l.pods > 1:
		where = fmt.Sprintf("%d pods, such as %s", l.pods, l.pod.Name)
	}
	has := "no memory request"
	if l.request > 0 {
		has = "a memory request of " + cluster.Format(cluster.Memory, l.request)
	}
	if l.limit > 0 {
		has += " and a limit of " + cluster.Format(cluster.Memory, l.limit)
	}
	return fmt.Sprintf("Container %s is OOM-killed repeatedly in %s. It has %s; the recommendation is %s. %s",
		l.container, where, has, target, l.remedy(a, live, target))
}

// remedy returns the sentences of a message about the cause and the remedy.
func (l *oomLoop) remedy(a *cluster.Autoscaler, live int, target string) string {
	minReplicas := cmp.Or(int(a.MinReplicas), process.DefaultMinReplicas)
	switch {
	case l.reason == v1alpha1.ReasonLimitFixed && a.MemoryLimits.Keep:
		return "With the rule keep for memory limits podfit does not change its limit. Raise the limit in the pod template, or set the rule peaks (docs/limits.md)."
	case l.reason == v1alpha1.ReasonLimitFixed:
		return "With controlledValues RequestsOnly podfit does not change its limit. Raise the limit in the pod template, or set controlledValues RequestsAndLimits."
	case l.reason == v1alpha1.ReasonTargetAtMaximum:
		return "The recommendation is capped by maxAllowed. Raise maxAllowed, or find out why the container needs more memory."
	case !a.Mode.Applies():
		return fmt.Sprintf("With updateMode Off the recommendation is not applied. Set the memory request to at least %s in the pod template, or set another updateMode.", target)
	case a.Mode.OnlyNewPods():
		return "With updateMode Initial only new pods get the recommendation. Delete the pod, or set another updateMode."
	case live < minReplicas:
		return fmt.Sprintf("The workload has %d live pods. The updater evicts a ready pod only if there are at least %d, unless its flag --min-replicas has another value, "+
			"and a pod that is not ready unless its flag --oom-rescue is off. "+
			"Set spec.updatePolicy.minReplicas to %d, or delete the pod.", live, minReplicas, max(live, 1))
	}
	return fmt.Sprintf("The updater has not updated the pod yet; a disruption budget or another limit may prevent it. See the UpdateHeld events: "+
		"kubectl describe vpa -n %s %s", a.Namespace, a.Name)
}

// quality records the difference between one usage sample and the current recommendation. accepted is the set of resources that the usage
// store accepted. oom is true if the sample is the request of an OOM-killed container.
func (r *recommender) quality(v *view, p *cluster.Pod, sample *usage.Sample, accepted cluster.Set, oom bool) {
	a := r.elected(v, p.Top)
	if a == nil {
		return
	}
	controls := a.Policy(sample.Container).Controls()
	adv := cmp.Or(a.OfRole(p).AdviceFor(sample.Container), new(cluster.Advice))
	for _, res := range cluster.All {
		if !accepted.Has(res) || !controls.Has(res) {
			continue
		}
		target, known := adv.Target.Get(res)
		r.metrics.quality.sample(a.Mode, res, cluster.Pick(res, sample.CPU, sample.Memory), res.InUnits(target), known, oom)
	}
}

// qualityOfOOM records, for each OOM-killed container of a pod, the difference between its memory request and the current
// recommendation.
func (r *recommender) qualityOfOOM(v *view, p *cluster.Pod) {
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Exit == nil || !c.Exit.OOM {
			continue
		}
		requests, _ := c.Running()
		r.quality(v, p, &usage.Sample{Container: c.Name, Memory: float64(requests.Memory)}, cluster.Of(cluster.Memory), true)
	}
}
