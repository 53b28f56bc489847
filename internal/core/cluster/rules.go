// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"math"
	"time"

	"podfit.dev/podfit/internal/core/integer"
)

// ChangeRules are a user's rules for changes of running pods: the annotations of an autoscaler or of a namespace. The zero value
// has no rules.
type ChangeRules struct {
	Frozen bool // no running pod is changed (podfit.dev/freeze)

	// Windows are the times in which running pods may be changed (podfit.dev/change-window). None means at any time.
	Windows []ChangeWindow

	// WindowProblem is the error in the annotation with the windows, "" if there is none. With an error, there are no windows, and no
	// pod is changed.
	WindowProblem string

	Settings
}

// Settings override flags for the pods of an autoscaler (annotations; rollout.ParseSettings).
type Settings struct {
	EvictionTolerance Setting[float64]       // the fraction of replicas that may be unavailable (podfit.dev/eviction-tolerance)
	MinChange         Setting[float64]       // the least relative difference for a change within the bounds (podfit.dev/min-change)
	InitialDelay      Setting[time.Duration] // how long after the first recommendation no running pod is changed (podfit.dev/initial-delay)
	MaxStep           Setting[MaxStep]       // how far a target may be from the requests of the running pods (podfit.dev/max-step)
	MemoryPerCPU      Setting[MemoryPerCPU]  // the memory for each core that a pod is to have (podfit.dev/memory-per-cpu)
	IgnoreProtection  string                 // which changes disregard Marks.Protection: rescue or always, none, or "" for none, too (podfit.dev/ignore-do-not-disrupt)
	Continues         string                 // the former workload whose usage history the target continues, of its kind and namespace (podfit.dev/continues)
	RoleLabel         string                 // the label of pods by whose values they are sized apart (podfit.dev/role-label)
	Followers         string                 // own: the sizes of groups have memory, too; same or "": only CPU (podfit.dev/followers)
	SettingProblem    string                 // the errors in the annotations, "" if there is none. Invalid annotations have no effect.
}

// Under returns the settings of an autoscaler whose namespace has settings. Each one of the autoscaler replaces that of the namespace.
func (s Settings) Under(namespace Settings) Settings {
	s.EvictionTolerance = s.EvictionTolerance.under(namespace.EvictionTolerance)
	s.MinChange = s.MinChange.under(namespace.MinChange)
	s.InitialDelay = s.InitialDelay.under(namespace.InitialDelay)
	s.MaxStep = s.MaxStep.under(namespace.MaxStep)
	s.MemoryPerCPU = s.MemoryPerCPU.under(namespace.MemoryPerCPU)
	s.IgnoreProtection = cmp.Or(s.IgnoreProtection, namespace.IgnoreProtection)
	s.RoleLabel = cmp.Or(s.RoleLabel, namespace.RoleLabel)
	s.Followers = cmp.Or(s.Followers, namespace.Followers)
	return s
}

// A MaxStep is the largest change of a request at once. The smaller of its limits counts. The zero value has none.
type MaxStep struct {
	Percent int64     // of the present request; 0: no limit
	Amount  Resources // an amount that is not set is no limit
}

// Of returns the largest change of a request, in its unit; the largest int64 if there is no limit.
func (s MaxStep) Of(res Resource, request int64) int64 {
	step := int64(math.MaxInt64)
	if v, ok := s.Amount.Get(res); ok {
		step = v
	}
	if s.Percent > 0 {
		part, _ := integer.ScaledUp(request, s.Percent, 100)
		step = min(step, part)
	}
	return step
}

// A MemoryPerCPU is a range of the memory for each core, in bytes. An end that is 0 has no effect.
type MemoryPerCPU struct{ Least, Most int64 }

// A Setting is a value that overrides another one if it is set.
type Setting[T any] struct {
	Value T
	Set   bool
}

// Or returns the value if it is set, otherwise the other one.
func (s Setting[T]) Or(otherwise T) T { return s.under(Setting[T]{Value: otherwise}).Value }

func (s Setting[T]) under(other Setting[T]) Setting[T] {
	if s.Set {
		return s
	}
	return other
}

// HasWindows reports whether there is a rule about the time of changes, valid or not.
func (r *ChangeRules) HasWindows() bool { return len(r.Windows) > 0 || r.WindowProblem != "" }

// A ChangeWindow starts whenever a cron schedule fires in a time zone, and ends after a duration. Bit n of a set stands for the value n.
type ChangeWindow struct {
	Minutes, Hours, Days, Months, Weekdays uint64 // minutes from 0, hours from 0, days and months from 1, weekdays from Sunday = 0

	// If neither is true, the window starts on days that are in Days or in Weekdays, as cron defines it. If one of them is true, only
	// the other set counts.
	AnyDay, AnyWeekday bool

	Duration time.Duration
	Zone     *time.Location
}

// A Freeze is the switch that stops all changes of running pods in the cluster.
type Freeze struct {
	On     bool
	By     Key    // the ConfigMap that is the switch
	Reason string // what the user wrote there, "" if nothing
}

// Canary is how the changes of a workload are rolled out (annotations podfit.dev/rollout and podfit.dev/canary-duration, or a SizingProfile).
type Canary struct {
	On        bool
	Set       bool          // the autoscaler has the annotation podfit.dev/rollout, so its profile does not apply
	Watch     time.Duration // how long the first pod is watched before the others are changed; 0 if it is not On and not set
	Objective Objective     // what must hold before the others are changed (annotation podfit.dev/canary-query)
	Problem   string        // the error in the annotations or the profile, "" if there is none
}

// An Objective is a comparison of a value in Prometheus with a number. The zero value is none.
type Objective struct {
	Query    string        // in PromQL, "" if there is none
	Operator string        // <, <=, > or >=; "" if the query is invalid
	Limit    float64       // the number
	Span     time.Duration // how far back from the time of the query it reads
}

// Holds reports whether the value is as it must be.
func (o Objective) Holds(value float64) bool {
	switch o.Operator {
	case "<":
		return value < o.Limit
	case "<=":
		return value <= o.Limit
	case ">":
		return value > o.Limit
	}
	return o.Operator == ">=" && value >= o.Limit
}

// Under returns how the changes of an autoscaler are rolled out whose profile has a rollout. Each annotation overrides the field of the
// profile with the same meaning.
func (c Canary) Under(profile Canary) Canary {
	if c.Set || !profile.On {
		return c
	}
	if c.Watch > 0 {
		profile.Watch = c.Watch
	}
	profile.Objective = c.Objective
	profile.Problem = cmp.Or(c.Problem, profile.Problem)
	return profile
}

// A LimitRule is what podfit does with a limit (annotations podfit.dev/cpu-limits and podfit.dev/memory-limits, or a SizingProfile). With the zero
// value it keeps its ratio to the request, as in upstream.
type LimitRule struct {
	Remove  bool   // CPU: new pods have none
	Keep    bool   // memory: it is not changed
	Peaks   bool   // memory: it is Advice.MemoryLimit
	Set     bool   // the autoscaler has the annotation, so its profile does not apply
	Problem string // the error in the annotation or the profile, "" if there is none
}

// Under returns the rule of an autoscaler whose profile has a rule. The annotation overrides the profile; an invalid one has no effect.
func (r LimitRule) Under(profile LimitRule) LimitRule {
	if r.Set {
		return r
	}
	profile.Problem = cmp.Or(r.Problem, profile.Problem)
	return profile
}
