// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

const (
	// oomLoopKills is how many times a container must have terminated in its pod, the last time killed for memory, to be in a loop.
	oomLoopKills = 2
	// oomLoopWindow is how long a container may run between two kills, and how long after the last one it counts as in a loop.
	oomLoopWindow = 30 * time.Minute
	// oomLoopsTold is how many containers a condition names.
	oomLoopsTold = 3
)

// inOOMLoop reports whether a container is killed for memory again and again in its pod.
func inOOMLoop(c *cluster.Container, now time.Time) bool {
	e := c.Exit
	if e == nil || !e.OOM {
		return false
	}
	kills := int(c.Restarts)
	if e.Now {
		kills++
	}
	return kills >= oomLoopKills && e.Finished.Sub(e.Started) < oomLoopWindow && (e.Now || now.Sub(e.Finished) < oomLoopWindow)
}

// An oomLoop is a container of an autoscaler's pods that is in a loop, and why it is not helped.
type oomLoop struct {
	container string
	pod       *cluster.Pod // the first of those where it is
	pods      int
	reason    string
	request   int64 // bytes, in that pod
	limit     int64 // bytes, in that pod; 0: none
	target    int64 // bytes
}

// sayOOMLoops says which containers are killed for memory again and again, and what keeps them from the memory that is
// recommended. The updater tells the same in events, which end; this stands as long as it is so.
func (r *recommender) sayOOMLoops(adv *advice, governing bool, now time.Time, seen podsSeen) {
	a := adv.to
	var loops []oomLoop
	if governing || a.Mode == cluster.Off {
		loops = oomLoops(a, adv.containers, now, seen.looping)
	}
	if len(loops) == 0 {
		adv.say(v1alpha1.ConditionOOMKillLoop, watcher.Removed, "", "")
		return
	}
	var text []string
	for i := range loops[:min(len(loops), oomLoopsTold)] {
		text = append(text, loops[i].message(a, seen.live))
	}
	if more := len(loops) - oomLoopsTold; more > 0 {
		text = append(text, fmt.Sprintf("The same is the case for %d more containers.", more))
	}
	adv.say(v1alpha1.ConditionOOMKillLoop, watcher.True, loops[0].reason, strings.Join(text, " "))
}

// oomLoops returns the containers in a loop that the recommendation has more memory for, or as much as it may have, by name.
// The pods live and have such a container (podsSeen).
func oomLoops(a *cluster.Autoscaler, recommended []cluster.Advice, now time.Time, pods []*cluster.Pod) []oomLoop {
	found := map[string]*oomLoop{}
	for _, p := range pods {
		for i := range p.Containers {
			c := &p.Containers[i]
			if !inOOMLoop(c, now) || !a.Policy(c.Name).Controls().Has(cluster.Memory) {
				continue
			}
			l, ok := loopOf(a, recommended, p, c)
			if !ok {
				continue
			}
			before := found[c.Name]
			if before != nil {
				l.pods += before.pods
			}
			if before == nil || p.Key.Compare(before.pod.Key) < 0 {
				found[c.Name] = &l
			} else {
				before.pods = l.pods
			}
		}
	}
	out := make([]oomLoop, 0, len(found))
	for _, l := range found {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(x, y oomLoop) int { return cmp.Compare(x.container, y.container) })
	return out
}

// loopOf says why a container in a loop does not get the memory that it needs; not ok when that is not known.
func loopOf(a *cluster.Autoscaler, recommended []cluster.Advice, p *cluster.Pod, c *cluster.Container) (oomLoop, bool) {
	i := slices.IndexFunc(recommended, func(x cluster.Advice) bool { return x.Container == c.Name })
	if i < 0 {
		return oomLoop{}, false
	}
	adv := &recommended[i]
	target, ok := adv.Target.Get(cluster.Memory)
	if !ok {
		return oomLoop{}, false
	}
	requests, limits := c.Running()
	l := oomLoop{container: c.Name, pod: p, pods: 1, request: requests.Memory, limit: limits.Memory, target: target}
	policy := a.Policy(c.Name)
	switch {
	case policy != nil && policy.RequestsOnly && l.limit > 0 && target >= l.limit:
		l.reason = v1alpha1.ReasonLimitFixed
	case l.request < target:
		l.reason = v1alpha1.ReasonRequestBelowTarget
	case adv.Uncapped.Amount(cluster.Memory) > target:
		l.reason = v1alpha1.ReasonTargetAtMaximum
	default: // it runs with what is recommended; the next kill raises that
		return oomLoop{}, false
	}
	return l, true
}

// message says what is the case, its cause, and what to do. It does not change from pass to pass.
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
	return fmt.Sprintf("Container %s is killed for lack of memory again and again in %s. It has %s; %s is recommended. %s",
		l.container, where, has, target, l.remedy(a, live, target))
}

func (l *oomLoop) remedy(a *cluster.Autoscaler, live int, target string) string {
	least := int(a.MinReplicas)
	if least == 0 {
		least = process.DefaultMinReplicas
	}
	switch {
	case l.reason == v1alpha1.ReasonLimitFixed:
		return "With controlledValues RequestsOnly its limit stays as it is. Raise the limit in the pod template, or set controlledValues RequestsAndLimits."
	case l.reason == v1alpha1.ReasonTargetAtMaximum:
		return "The recommendation is capped by maxAllowed. Raise maxAllowed, or find out why the container needs more."
	case a.Mode == cluster.Off:
		return fmt.Sprintf("With updateMode Off nothing is applied. Set the memory request to at least %s in the pod template, or set another updateMode.", target)
	case a.Mode == cluster.Initial:
		return "With updateMode Initial only new pods get the recommendation. Delete the pod, or set another updateMode."
	case live < least:
		return fmt.Sprintf("The workload has %d live pods, and the updater does not disrupt one with fewer than %d, unless its flag --min-replicas says otherwise. "+
			"Set spec.updatePolicy.minReplicas to %d, or delete the pod.", live, least, max(live, 1))
	}
	return fmt.Sprintf("The pod has not been updated yet; a disruption budget or another obstacle may hold it. See the UpdateHeld events: "+
		"kubectl describe vpa -n %s %s", a.Namespace, a.Name)
}
