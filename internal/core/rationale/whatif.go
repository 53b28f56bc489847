// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rationale

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
)

// An If is one changed input. ParseIf and UsualIfs create it.
type If struct {
	Key   IfKey
	Value string // as written

	resource cluster.Resource // of IfMinAllowed and IfMaxAllowed; 0 for other keys
	amount   int64            // of the resource, in millicores or bytes
	day      time.Time        // of IfWithout: the start of the day, UTC; zero for the day of the highest peak
}

// String returns the If as ParseIf reads it.
func (i If) String() string {
	if i.resource == 0 {
		return string(i.Key) + "=" + i.Value
	}
	return fmt.Sprintf("%s.%s=%s", i.Key, i.resource, i.Value)
}

// IfKey is the input that is changed.
type IfKey string

// The keys.
const (
	IfProfile          IfKey = "profile"
	IfWithout          IfKey = "without"
	IfDecide           IfKey = "decide"
	IfMinAllowed       IfKey = "minAllowed"
	IfMaxAllowed       IfKey = "maxAllowed"
	IfControlledValues IfKey = "controlledValues"
	IfHPA              IfKey = "hpa"
)

// Values of keys that have a fixed set.
const (
	peakValue       = "peak"
	requestsOnly    = "RequestsOnly"
	ignoreValue     = "ignore"
	scalePointValue = "preserve-scale-point"
)

// A KeyHelp describes a key of ParseIf, for help texts.
type KeyHelp struct {
	Key     IfKey
	Form    string
	Meaning string
	values  []string // all that it accepts; nil if these are no fixed set
}

// IfKeys returns the keys that ParseIf accepts.
func IfKeys() []KeyHelp {
	return []KeyHelp{
		{IfProfile, "profile=NAME", "the workload has another profile", nil},
		{IfWithout, "without=peak or without=YYYY-MM-DD", "the day of the highest peak, or a day (UTC), was not there", nil},
		{
			IfDecide, "decide=anew", "the request is decided now, instead of kept because the difference is small or a decrease waits",
			[]string{"anew"},
		},
		{IfMaxAllowed, "maxAllowed.memory=1Gi, maxAllowed.cpu=500m", "the container policy has another maximum; 0: none", nil},
		{IfMinAllowed, "minAllowed.memory=1Gi, minAllowed.cpu=500m", "the container policy has another minimum; 0: none", nil},
		{
			IfControlledValues, "controlledValues=RequestsOnly or RequestsAndLimits", "limits are kept, or follow the requests",
			[]string{requestsOnly, "RequestsAndLimits"},
		},
		{
			IfHPA, "hpa=ignore or hpa=preserve-scale-point", "HPAs do not scale by the request, or podfit changes their target with the request",
			[]string{ignoreValue, scalePointValue},
		},
	}
}

// ParseIf reads KEY=VALUE. The error has the accepted keys and values.
func ParseIf(text string) (If, error) {
	key, value, found := strings.Cut(text, "=")
	key = strings.TrimSpace(key)
	value = strings.TrimSpace(value)
	if !found || value == "" {
		return If{}, fmt.Errorf("condition must have the form KEY=VALUE, got %q; keys: %s", text, keyNames())
	}
	name, suffix, hasSuffix := strings.Cut(key, ".")
	out := If{Key: IfKey(name), Value: value}
	isBound := out.Key == IfMinAllowed || out.Key == IfMaxAllowed
	known := cluster.Find(IfKeys(), func(k *KeyHelp) bool { return k.Key == out.Key })
	switch {
	case known == nil, hasSuffix && !isBound:
		return If{}, fmt.Errorf("unknown key %q; keys: %s", key, keyNames())
	case isBound:
		return parseBound(out, suffix, hasSuffix)
	case known.values != nil && !slices.Contains(known.values, value):
		return If{}, fmt.Errorf("%s must be %s, got %q", out.Key, strings.Join(known.values, " or "), value)
	case out.Key != IfWithout || value == peakValue:
		return out, nil
	}
	day, err := time.Parse(time.DateOnly, value)
	if err != nil {
		return If{}, fmt.Errorf("without must be %q or a day such as 2026-11-21, got %q", peakValue, value)
	}
	out.day = day.UTC()
	return out, nil
}

func keyNames() string {
	return strings.Join(cluster.Each(IfKeys(), func(k *KeyHelp) string { return string(k.Key) }), ", ")
}

// parseBound reads minAllowed and maxAllowed, with or without the resource as a suffix of the key. Without it, the unit determines the resource.
func parseBound(out If, suffix string, hasSuffix bool) (If, error) {
	res, isResource := cluster.ParseResource(suffix)
	switch last := out.Value[len(out.Value)-1]; {
	case hasSuffix && !isResource:
		return If{}, fmt.Errorf("%s must be followed by .cpu or .memory, got %q", out.Key, "."+suffix)
	case hasSuffix:
	case last == 'm':
		res = cluster.CPU
	case last >= '0' && last <= '9' || last == '.':
		return If{}, fmt.Errorf("%s=%s does not say which resource: write %[1]s.cpu=%[2]s or %[1]s.memory=%[2]s", out.Key, out.Value)
	default:
		res = cluster.Memory
	}
	v, err := cluster.ParseAmount(res, out.Value)
	if err != nil {
		return If{}, fmt.Errorf("%s.%s: %w", out.Key, res, err)
	}
	out.resource = res
	out.amount = v
	return out, nil
}

// A Counterfactual is the size of one resource of a container under a changed input, by the code that computes the real one. If the day has
// hours with a lower request, it is the size in the others.
type Counterfactual struct {
	If        If
	Container string
	Resource  cluster.Resource

	Known  bool   // the history is enough to compute it
	Reason string // why not, as a full sentence; "" if Known

	Target int64   // the recommendation
	Size   Amounts // of the pod; not set if podfit does not set it or there is no pod

	// Without is the day that IfWithout left out.
	Without time.Time

	// DaysAbove is the number of the last Days days whose peak was above the request.
	DaysAbove, Days int

	// Killed is whether the container would be OOM-killed by what was observed; of memory only. What was observed before an OOM kill is less
	// than what the container needed, so No is not a promise. Unknown includes a limit that is close to the highest peak.
	Killed Answer
}

// An Answer may be unknown.
type Answer uint8

// The answers.
const (
	Unknown Answer = iota
	No
	Yes
)

// String returns a word.
func (a Answer) String() string { return [...]string{"unknown", "no", "yes"}[min(a, Yes)] }

// UsualIfs returns the changes that are of interest without a request: the profiles balanced, cost, critical and default, a history
// without the highest peak, and after an OOM kill the memory that was not enough.
func UsualIfs(in *Sizing) []If {
	var out []If
	for _, name := range []string{"balanced", "cost", "critical", "default"} {
		known := slices.ContainsFunc(in.Profiles, func(p recommend.Profile) bool { return p.Name == name })
		if known && name != in.Profile.Name {
			out = append(out, If{Key: IfProfile, Value: name})
		}
	}
	if slices.ContainsFunc(in.Histories, func(h *usage.ContainerHistory) bool { return recommend.PeaksOf(h, cluster.Memory) != nil }) {
		out = append(out, If{Key: IfWithout, Value: peakValue})
	}
	if memory := slices.Max(slices.AppendSeq([]int64{0}, maps.Values(in.Kills))); memory > 0 {
		out = append(out, If{Key: IfMaxAllowed, Value: cluster.Format(cluster.Memory, memory), resource: cluster.Memory, amount: memory})
	}
	return out
}

// WhatIf returns the sizes under each of the changed inputs, one input at a time, for each resource of each container that has a size now. A
// change applies to all containers of the workload.
func WhatIf(in *Sizing, changes []If) []Counterfactual {
	var out []Counterfactual
	now := WhyOf(in)
	for _, change := range changes {
		var byResource map[cluster.Resource]*alternative
		for _, w := range now {
			if !change.concerns(&w) {
				continue
			}
			res := cluster.Resource(0)
			if change.Key == IfWithout { // each resource has its own peaks
				res = w.Resource
			}
			alternative := cluster.Memo(&byResource, res, func() *alternative { return in.alternative(change, res) })
			out = append(out, in.counterfactual(change, &w, alternative))
		}
	}
	return out
}

// concerns reports whether the change may have an effect on a size.
func (i If) concerns(w *Why) bool {
	if i.Key == IfHPA {
		return w.Horizontal != policy.NotScaled
	}
	return i.resource == 0 || i.resource == w.Resource
}

// An alternative has the sizes under a changed input.
type alternative struct {
	reason  string                 // why there are no sizes; "" if there are some
	known   map[string]cluster.Set // by container: the resources that the history is enough for
	without map[string]time.Time   // by container: the day that IfWithout leaves out; zero if there is none
	sizes   []Why
}

// alternative computes the sizes with a changed input. The resource is that of IfWithout.
func (in *Sizing) alternative(change If, res cluster.Resource) *alternative {
	out := &alternative{known: map[string]cluster.Set{}, without: map[string]time.Time{}}
	profile := in.Profile
	a := *in.Autoscaler
	switch change.Key {
	case IfProfile:
		i := slices.IndexFunc(in.Profiles, func(p recommend.Profile) bool { return p.Name == change.Value })
		if i < 0 {
			names := cluster.Each(in.Profiles, func(p *recommend.Profile) string { return p.Name })
			out.reason = fmt.Sprintf("There is no profile %s. Profiles: %s.", change.Value, strings.Join(names, ", "))
			return out
		}
		profile = in.Profiles[i]
	case IfMinAllowed, IfMaxAllowed, IfControlledValues:
		a.Policies = in.policies(change)
	case IfHPA:
		a.PreserveScalePoint = change.Value == scalePointValue
		if change.Value == ignoreValue {
			a.Horizontal = nil
		}
	case IfDecide, IfWithout:
	}
	histories := make([]*usage.ContainerHistory, len(in.Histories))
	for i, h := range in.Histories {
		known := cluster.Both
		switch change.Key {
		case IfProfile, IfDecide:
			histories[i], known = recommend.Anew(h, profile)
		case IfWithout:
			day := cmp.Or(change.day, highestDay(h, res, in.Now))
			out.without[h.Container()] = day
			histories[i], known = recommend.AnewWithout(h, profile, res, day, day.AddDate(0, 0, 1))
		case IfMinAllowed, IfMaxAllowed, IfControlledValues, IfHPA:
			histories[i] = recommend.OutsideLowHours(h)
		}
		out.known[h.Container()] = known
	}
	out.sizes = in.sized(profile, histories, &a)
	return out
}

// counterfactual returns the size of one resource of a container in an alternative.
func (in *Sizing) counterfactual(change If, now *Why, alternative *alternative) Counterfactual {
	out := Counterfactual{
		If: change, Container: now.Container, Resource: now.Resource, Reason: alternative.reason, Without: alternative.without[now.Container],
	}
	i := slices.IndexFunc(alternative.sizes, func(w Why) bool { return w.Container == now.Container && w.Resource == now.Resource })
	switch {
	case out.Reason != "":
	case change.Key == IfWithout && out.Without.IsZero():
		out.Reason = "The model state of profile " + in.Profile.Name + " has no peaks of days."
	case !alternative.known[now.Container].Has(now.Resource):
		out.Reason = fmt.Sprintf("The history of profile %s is not enough for this. podfit backtest can compute it from Prometheus.", in.Profile.Name)
	case i < 0:
		out.Reason = "No recommendation can be computed from the history."
	default:
		in.judge(&out, alternative.sizes[i].Size, alternative.sizes[i].Range.Target)
	}
	return out
}

// policies returns the changed policies of all containers, followed by those of the autoscaler: the first one with the name of a container
// counts.
func (in *Sizing) policies(change If) []cluster.ContainerPolicy {
	out := make([]cluster.ContainerPolicy, 0, len(in.Histories)+len(in.Autoscaler.Policies))
	for _, h := range in.Histories {
		var policy cluster.ContainerPolicy
		if p := in.Autoscaler.Policy(h.Container()); p != nil {
			policy = *p
		}
		policy.Container = h.Container()
		switch change.Key {
		case IfMinAllowed:
			policy.MinAllowed = policy.MinAllowed.Set(change.resource, change.amount)
		case IfMaxAllowed:
			policy.MaxAllowed = policy.MaxAllowed.Set(change.resource, change.amount)
		case IfControlledValues:
			policy.RequestsOnly = change.Value == requestsOnly
		case IfProfile, IfWithout, IfDecide, IfHPA: // no policies
		}
		out = append(out, policy)
	}
	return append(out, in.Autoscaler.Policies...)
}

// highestDay returns the start of the day (UTC) with the highest peak of the last days; zero if there is none. The newest of several
// counts.
func highestDay(history *usage.ContainerHistory, res cluster.Resource, now time.Time) time.Time {
	var highest Day
	for _, d := range days(recommend.PeaksOf(history, res), res, now) {
		if d.Known && d.Peak >= highest.Peak {
			highest = d
		}
	}
	return highest.At.Truncate(24 * time.Hour)
}

// judge sets the size of a counterfactual, and compares it with what was observed.
func (in *Sizing) judge(c *Counterfactual, size Amounts, target int64) {
	c.Known = true
	c.Target = target
	c.Size = size
	history := HistoryOf(in.Histories, c.Container)
	request := size.requestOr(target)
	for _, d := range days(recommend.PeaksOf(history, c.Resource), c.Resource, in.Now) {
		if d.Known {
			c.Days++
			if d.Peak > float64(request) {
				c.DaysAbove++
			}
		}
	}
	if c.Resource != cluster.Memory {
		return
	}
	peak, least := in.observed(history, c.Container)
	switch {
	case peak == 0 || !c.Size.HasRequest:
		c.Killed = Unknown
	case !c.Size.HasLimit:
		c.Killed = No // only the memory of the node limits it
	case float64(c.Size.Limit) <= least:
		c.Killed = Yes
	case float64(c.Size.Limit) > peak:
		c.Killed = No
	}
}

// observed returns the highest memory that was observed, and the amount that it was at least. The two are the same for a known OOM kill.
// Hourly peaks near the limit were raised (recommend.LeastUsage), and a histogram only has ranges, and amounts that an OOM kill raised.
func (in *Sizing) observed(history *usage.ContainerHistory, container string) (peak, least float64) {
	if peaks := recommend.PeaksOf(history, cluster.Memory); peaks != nil {
		level := peaks.Max(0, peaks.Newest()+1)
		peak = level.Amount()
		least = recommend.LeastUsage(level)
	} else if !history.Memory.IsEmpty() {
		peak = history.Memory.Max()
		if killed, _, _ := history.LastOOM(); killed.IsZero() {
			o := history.Memory.Options()
			least = o.Start(o.Bucket(math.Nextafter(peak, 0)))
		}
	}
	if limit := float64(in.Kills[container]); limit > least {
		return max(peak, limit), limit
	}
	return peak, least
}

// Present returns the present recommendation of each resource of each container, compared with the observed usage in the same way as
// the sizes of WhatIf.
func Present(in *Sizing) []Counterfactual {
	return cluster.Each(WhyOf(in), func(w *Why) Counterfactual {
		c := Counterfactual{Container: w.Container, Resource: w.Resource}
		in.judge(&c, w.Size, w.Published.Target)
		return c
	})
}
