// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// A canary is the first pod of a workload that gets a new size. The others follow if it runs well for a time. If it does not, the pods
// with the new size get the previous size, and the recommendation is held back for a cool-down.
//
//	          a pod is chosen              it was changed             it ran well for the duration
//	Idle ──────────────────────▶ Starting ───────────────▶ Watching ───────────────────────────────▶ Accepted
//	 ▲ ▲                            │                       │    │                                        │
//	 │ └── not carried out ─────────┘     the canary is gone│    │ it was OOM-killed, restarted,          │ a target that
//	 ├──────────────────────────────────────────────────────┘    │ is throttled or is not ready           │ differs much
//	 │                     the cool-down has ended               ▼                                        │
//	 ├──────────────────────────────────────────────────────── Held                                       │
//	 └────────────────────────────────────────────────────────────────────────────────────────────────────┘
//
// A canary whose resize waits, for example for room on its node, goes back to Starting until the resize is carried out.
//
// Starting is stored before the canary is changed, so that an updater that starts after a crash finds out what was done. The cool-down
// doubles with each revert in a row, so that a size that never works costs fewer and fewer attempts.

// Phase is the state of the canary of a workload.
type Phase uint8

// The phases.
const (
	Idle     Phase = iota // there is no canary
	Starting              // the change of a canary is decided, and its outcome is not known, or its resize is not carried out yet
	Watching              // the canary has the new size, or its replacement will
	Accepted              // pods may get the size of the canary
	Held                  // the size was reverted; the previous size applies until the end of the cool-down
)

// Cause is why a size was reverted.
type Cause uint8

// The causes.
const (
	NoCause Cause = iota
	OOMKilled
	Restarted
	NotReady
	Throttled
)

// Times of a canary.
const (
	// DefaultWatch is how long a canary is watched if the autoscaler does not set it.
	DefaultWatch = 10 * time.Minute
	// startTimeout is how long the watch may take to show a change whose outcome is not known.
	startTimeout = 5 * time.Minute
	// skew is how much the clock of the API server, which sets the creation time of pods, may differ from the one of the updater.
	skew = time.Minute
	// Cooldown is how long a recommendation is held back after the first revert. It doubles with each revert in a row.
	Cooldown    = 24 * time.Hour
	maxCooldown = 32 * 24 * time.Hour
)

// closeTo is the relative difference up to which a target counts as the accepted size.
const closeTo = 0.25

// A Size is the requests of a container, and before a change its memory limit.
type Size struct {
	Container   string            `stored:"container,required"`
	Requests    cluster.Resources `stored:"requests"`
	MemoryLimit int64             `stored:"memoryLimit,bytes"` // bytes; 0 if there was none, in State.After, and in records of earlier releases
}

// State is the state of the canary of a workload. The zero value is Idle.
type State struct {
	Phase      Phase            `stored:"phase,required"`
	Pod        string           `stored:"pod"`           // name of the pod that was chosen
	UID        string           `stored:"uid"`           // of that pod
	Controller cluster.Workload `stored:"controller"`    // its direct controller, which changes with the revision of a Deployment
	Since      time.Time        `stored:"sinceTime"`     // when the canary was chosen; in phase Held, when it was reverted
	Until      time.Time        `stored:"untilTime"`     // end of the cool-down, in phase Held
	Before     []Size           `stored:"before,max=32"` // its size before the change
	After      []Size           `stored:"after,max=32"`  // its requests after the change
	Restarts   int32            `stored:"restarts"`      // restarts of its containers before the change, and those that the change causes; wasDown if it was not ready
	Cause      Cause            `stored:"cause"`
	Reverts    int              `stored:"reverts"` // in a row

	Comparison Comparison `stored:"throttling"` // of the CPU throttling

	Missed string // why the objective of a canary that has run well does not hold, as the end of a sentence; "" if nothing waits for it. It is not stored
	Detail string // a further sentence about that, "" if there is none. It is not stored

	// With cause Throttled: the percentages of throttled CPU periods that were compared.
	ThrottledBefore int `stored:"throttledBeforePercent"`
	Throttled       int `stored:"throttledPercent"`
}

// wasDown is the value of State.Restarts if the canary was not ready before the change: then its restarts, and that it is not ready, are no
// evidence against the size.
const wasDown = math.MaxInt32

// Start returns the state in which a pod is the canary.
func (s State) Start(now time.Time, p *cluster.Pod, after []Size, causesRestart bool) State {
	next := State{Phase: Starting, Pod: p.Name, UID: p.UID, Controller: p.Controller, Since: now, After: after, Restarts: restartsOf(p), Reverts: s.Reverts}
	switch {
	case !p.Ready:
		next.Restarts = wasDown
	case causesRestart:
		next.Restarts += int32(len(after))
	}
	for _, a := range after {
		if c := p.Container(a.Container); c != nil {
			requests, limits := c.Running()
			next.Before = append(next.Before, Size{a.Container, requests, limits.Memory})
		}
	}
	return next
}

// Changed returns the state after the canary was changed.
func (s State) Changed() State {
	s.Phase = Watching
	return s
}

// Cancel returns the state after the canary was not changed.
func (s State) Cancel() State { return State{Reverts: s.Reverts} }

// Observe returns the state after an observation of all pods of the workload.
func (s State) Observe(now time.Time, watch time.Duration, pods []*cluster.Pod) State {
	s = s.Present(now)
	switch s.Phase {
	case Starting:
		return s.observeStart(now, pods)
	case Watching:
		return s.observeCanary(now, watch, pods)
	case Held:
		if !now.Before(s.Until) || s.Until.Sub(now) > maxCooldown {
			return s.Cancel()
		}
	case Idle, Accepted:
	}
	return s
}

// Present returns the state without times that a clock was ahead for. A cool-down keeps its length.
func (s State) Present(now time.Time) State {
	if now.Before(s.Since) { // the clock was set back
		if s.Phase == Held {
			s.Until = now.Add(s.Until.Sub(s.Since))
		}
		s.Since = now
	}
	return s
}

// observeStart finds out whether a change was carried out. Pods with the new size and a missing canary show that it was. If a resize took
// long, the watch begins now.
func (s State) observeStart(now time.Time, pods []*cluster.Pod) State {
	i := slices.IndexFunc(pods, func(p *cluster.Pod) bool { return p.UID == s.UID && p.Live() })
	switch {
	case i < 0:
		return s.Changed()
	case HasSize(pods[i], s.After):
		if now.Sub(s.Since) > skew {
			s.Since = now
		}
		return s.Changed()
	case len(s.canaries(pods)) > 0:
		return s.Changed()
	case now.Sub(s.Since) >= startTimeout && !s.isResizing(pods[i]):
		return s.Cancel()
	}
	return s
}

// isResizing reports whether a pod asks for the new size, and the kubelet is going to carry that out. No eviction ends the wait of a protected pod
// for room on its node, so the other pods do not wait for it.
func (s State) isResizing(p *cluster.Pod) bool {
	if p.Resize == nil || p.Resize.State != cluster.ResizeInProgress && (p.Resize.State != cluster.ResizeDeferred || p.IsProtected()) {
		return false
	}
	return !HasSize(p, s.After) && hasSize(p, s.After, func(c *cluster.Container) cluster.Resources { return c.Requests })
}

func (s State) observeCanary(now time.Time, watch time.Duration, pods []*cluster.Pod) State {
	canaries := s.canaries(pods)
	if slices.ContainsFunc(pods, func(p *cluster.Pod) bool {
		return p.Live() && p.Controller != s.Controller && !p.Created.Before(s.Since.Truncate(time.Second))
	}) {
		return s.Cancel() // another revision is rolled out, so nothing is known about the size
	}
	if len(canaries) == 0 {
		switch {
		case slices.ContainsFunc(pods, func(p *cluster.Pod) bool { return p.UID == s.UID && p.Live() && s.isResizing(p) }):
			s.Phase = Starting
		case now.Sub(s.Since) >= watch:
			return s.Cancel()
		}
		return s
	}
	// Pods that are created later, for example by an HPA, are watched too. But they delay the end only if they are created in the time of
	// the watch, because otherwise a workload that is scaled often would wait without end.
	good, waiting := 0, 0
	for _, p := range canaries {
		end := cluster.Latest(s.Since, p.Created).Add(watch)
		late := !now.Before(end)
		// While an objective holds a canary, it may run for days: a pod that was ready long after the end has failed only if it stays so.
		isDown := !p.Ready && late && (now.Sub(p.ReadySince) >= watch || !p.ReadySince.After(end.Add(watch)))
		switch {
		case s.isOOMKilled(p):
			return s.revert(now, OOMKilled)
		case s.hasRestarted(p):
			return s.revert(now, Restarted)
		case isDown && s.Restarts == wasDown:
			return s.Cancel()
		case isDown:
			return s.revert(now, NotReady)
		case p.Ready && late && (now.Sub(p.ReadySince) >= watch || !p.ReadySince.After(s.Since)):
			good++
		case p.Created.Before(s.Since.Add(watch)):
			waiting++
		}
	}
	if good == 0 || waiting > 0 {
		return s
	}
	s.Phase = Accepted
	s.Reverts = 0
	return s
}

// canaries returns the live pods with the new size that were changed or created since the canary was chosen.
func (s State) canaries(pods []*cluster.Pod) []*cluster.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *cluster.Pod) bool {
		isOlder := p.UID != s.UID && p.Created.Before(s.Since.Truncate(time.Second).Add(-skew))
		return !p.Live() || isOlder || !HasSize(p, s.After)
	})
}

// isOOMKilled reports whether a container was OOM-killed since the change. A container that was OOM-killed again and again before counts only
// if it was started after the change: it may have been killed once more before the kubelet carried that out. In a pod that was created after
// the change, every OOM kill counts: the times of kills have whole seconds, so they do not show the order within a second.
func (s State) isOOMKilled(p *cluster.Pod) bool {
	return slices.ContainsFunc(p.Containers, func(c cluster.Container) bool {
		if c.Exit == nil || !c.Exit.OOM {
			return false
		}
		killed := c.Exit.Finished
		if s.Restarts == wasDown {
			killed = c.Exit.Started
		}
		return (p.UID != s.UID || killed.After(s.Since)) && slices.ContainsFunc(s.After, func(a Size) bool { return a.Container == c.Name })
	})
}

// hasRestarted reports whether a container restarted since the change. A new pod may restart once, for example because it starts before
// what it depends on.
func (s State) hasRestarted(p *cluster.Pod) bool {
	allowed := s.Restarts
	if p.UID != s.UID && s.Restarts != wasDown {
		allowed = 1
	}
	return restartsOf(p) > allowed
}

func restartsOf(p *cluster.Pod) int32 {
	sum := int32(0)
	for i := range p.Containers {
		if p.Containers[i].IsSized() {
			sum += int32(p.Containers[i].Restarts)
		}
	}
	return sum
}

// revert returns the state in which the previous size applies again.
func (s State) revert(now time.Time, why Cause) State {
	s.Phase = Held
	s.Since = now
	s.Cause = why
	s.Reverts++
	s.Until = now.Add(attempt.Doubled(Cooldown, maxCooldown, s.Reverts))
	return s
}

// Accepts reports whether pods may get a size because a canary ran well with it, or with about the same.
func (s State) Accepts(target []Size) bool {
	if s.Phase != Accepted || len(target) == 0 {
		return false
	}
	for _, t := range target {
		at := slices.IndexFunc(s.After, func(a Size) bool { return a.Container == t.Container })
		if at < 0 {
			return false
		}
		for _, res := range cluster.All {
			from, had := s.After[at].Requests.Get(res)
			to, has := t.Requests.Get(res)
			if has && (!had || math.Abs(float64(to)-float64(from)) > closeTo*math.Max(float64(from), 1)) {
				return false
			}
		}
	}
	return true
}

// HasSize reports whether a pod runs with a size, apart from rounding, and from the CPU of containers with a startup boost.
func HasSize(p *cluster.Pod, size []Size) bool {
	return hasSize(p, size, func(c *cluster.Container) cluster.Resources {
		requests, _ := c.Running()
		return requests
	})
}

// hasSize reports whether some requests of the containers of a pod are a size, apart from rounding.
func hasSize(p *cluster.Pod, size []Size, of func(*cluster.Container) cluster.Resources) bool {
	for _, s := range size {
		c := p.Container(s.Container)
		if c == nil {
			return false
		}
		requests := of(c)
		for _, res := range cluster.All {
			if res == cluster.CPU && c.Boosted != nil {
				continue
			}
			rounding := cluster.Pick(res, 1.0, 4096) // a difference up to it does not count
			want, set := s.Requests.Get(res)
			if has := requests.Amount(res); set && math.Abs(float64(has)-float64(want)) > rounding {
				return false
			}
		}
	}
	return len(size) > 0
}

// Hold returns the autoscaler with the recommendation that applies to its pods: the previous size if its own was reverted, or else its own. A memory
// target above both sizes is kept, because it comes from a need that neither of them meets. So is a memory limit by peaks above the previous one: it costs
// no room on nodes, and usage may have risen. The previous limit is at most that for the maximum memory of the policy, which may be lower now.
func (s State) Hold(now time.Time, a *cluster.Autoscaler) *cluster.Autoscaler {
	if s.Phase != Held || !a.Canary.On || !now.Before(s.Until) || s.Until.Sub(now) > maxCooldown {
		return a
	}
	held := *a
	held.Advice = slices.Clone(a.Advice)
	for i := range held.Advice {
		adv := &held.Advice[i]
		before := slices.IndexFunc(s.Before, func(b Size) bool { return b.Container == adv.Container })
		if before < 0 {
			continue
		}
		size, limit := s.Before[before].Requests, s.Before[before].MemoryLimit
		after := slices.IndexFunc(s.After, func(b Size) bool { return b.Container == adv.Container })
		if to, ok := adv.Target.Get(cluster.Memory); ok && after >= 0 && to > max(size.Memory, s.After[after].Requests.Memory) {
			size = size.Set(cluster.Memory, to)
			if adv.MemoryLimit == 0 {
				limit = 0 // in proportion to the larger request it is higher
			}
		}
		allowed := float64(cmp.Or(a.Policy(adv.Container), &cluster.ContainerPolicy{}).MaxAllowed.Memory)
		if allowed > 0 && float64(limit) > policy.LimitOf(allowed) {
			limit = int64(policy.LimitOf(allowed))
		}
		adv.Target = size
		adv.Lower = size
		adv.Upper = size
		adv.MemoryLimit = max(adv.MemoryLimit, limit)
	}
	return &held
}

// Text returns why a size was reverted, as the end of a sentence.
func (s State) Text() string {
	switch s.Cause {
	case OOMKilled:
		return fmt.Sprintf("a container of pod %s, or of its replacement, was OOM-killed", s.Pod)
	case Restarted:
		return fmt.Sprintf("a container of pod %s, or of its replacement, restarted", s.Pod)
	case NotReady:
		return fmt.Sprintf("pod %s, or its replacement, was not ready", s.Pod)
	case Throttled:
		return fmt.Sprintf("the CPU of pod %s, or of its replacement, was throttled in %d%% of its periods, and in %d%% before or in other pods", s.Pod, s.Throttled, s.ThrottledBefore)
	case NoCause:
	}
	return ""
}
