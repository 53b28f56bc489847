// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package rationale explains for a person how the size of a container comes about, step by step from the usage to the amount, and what it
// would be under other conditions.
//
// It computes no sizes of its own: they come from packages recommend and policy.
package rationale

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
)

// Sizing is what the sizes of a workload are computed from.
type Sizing struct {
	Now        time.Time
	Profile    recommend.Profile         // of the workload, with the Params that apply to it
	Profiles   []recommend.Profile       // those that could be selected instead, with the Params that would apply
	Histories  []*usage.ContainerHistory // of the workload, sorted by container (usage.Store.All)
	Autoscaler *cluster.Autoscaler       // its Advice is the recommendation in the status
	Global     cluster.Resources         // maxAllowed of the recommender's flags
	Pod        *cluster.Pod              // a pod that represents the others; nil if there is none
	Limits     policy.Limits             // of the pod
	Kills      map[string]int64          // by container: its memory limit in bytes at an OOM kill, the highest of several
	Pods       []*cluster.Pod            // of the workload, from which steps are measured
}

// Why is how the size of one resource of a container comes about. Amounts are in millicores or bytes.
type Why struct {
	Container string
	Resource  cluster.Resource
	Profile   string

	Steps    derivation.Steps  // to the estimate, by the algorithm
	Estimate int64             // the target before bounds: the result of Steps
	Bounds   []policy.Bound    // of the recommendation, then of the pod
	Node     cluster.NodeShare // what policy.NodeShare is a bound of
	Range    Range             // the recommendation
	Usual    int64             // the target outside of low hours, if this is a time with a lower one; otherwise 0

	Published Published

	Size    Amounts // of a pod that is created or resized now; not set if podfit does not set it or there is no pod
	Present Amounts // of the pod

	LimitsKept bool // the policy keeps limits

	// Limits are what the rules for limits do, other than the ratio of the limit to the request.
	Limits struct {
		CPU    policy.CPULimits       // of a new pod like the present one; only for CPU
		Memory policy.MemoryLimitKind // how the memory limit follows; only for memory
		Peak   int64                  // the highest usage of 14 days, in bytes, if the limit follows it
	}

	// Horizontal is what podfit does because an HPA scales by the request, and Metric the first metric that depends on it.
	Horizontal policy.HorizontalState
	Metric     cluster.Horizontal

	Runtime  *cluster.Runtime // of the container; nil if it is not known
	Restarts bool             // a resize of the resource restarts the container

	StartupBoost StartupBoost // what is learnt for new pods, only for CPU

	Days []Day // the peaks of the last 7 days, the oldest first; nil if they are not known
}

// StartupBoost is what is known about the learnt startup boost of a container.
type StartupBoost struct {
	Learning   bool                // boosts are learnt for the VPA
	Learnt     cluster.LearntBoost // in the status of the VPA
	Applied    *cluster.Boost      // what new pods get of it; nil for nothing
	Configured bool                // the VPA configures a boost, which has precedence
	Off        bool                // the update mode of the VPA is Off
	GateOff    bool                // the feature gate CPUStartupBoost is disabled
}

// Published is what the status of the VPA has.
type Published struct {
	Target    int64               // that of Why.Range if the status has none
	Groups    []cluster.GroupSize // the sizes of pods with some roles
	RoleLabel string              // the label with the role; "" if roles do not matter
	Whole     int64               // what the pod needs as a whole, 0 if its containers do not share headroom
	Sum       int64               // of the targets of its containers
}

// Range is a recommendation: pods with requests between Lower and Upper are not changed.
type Range struct{ Lower, Target, Upper int64 }

// Amounts are a request and a limit, each of which may be absent.
type Amounts struct {
	Request, Limit       int64
	HasRequest, HasLimit bool
}

// requestOr returns the request, or the target if the request is not set.
func (a Amounts) requestOr(target int64) int64 {
	if a.HasRequest {
		return a.Request
	}
	return target
}

// A Day is the peak of 24 hours.
type Day struct {
	From  time.Time `json:"from"`
	Peak  float64   `json:"peak"` // millicores or bytes
	At    time.Time `json:"at"`   // the hour of the peak
	Known bool      `json:"-"`    // there are samples
}

const shownDays = 7

// WhyOf returns the explanations of all containers with a recommendation, in the order of the histories, CPU before memory, and ordinary init
// containers last. Without a VPA or an algorithm there are none.
func WhyOf(in *Sizing) []Why {
	if in.Autoscaler == nil || in.Profile.Estimator == nil {
		return nil
	}
	out := in.sized(in.Profile, in.Histories, in.Autoscaler)
	usual := cluster.Each(in.Histories, func(h **usage.ContainerHistory) *usage.ContainerHistory { return recommend.OutsideLowHours(*h) })
	outside := in.sized(in.Profile, usual, in.Autoscaler)
	for i := range out {
		w := &out[i]
		if i < len(outside) && outside[i].Range.Target != w.Range.Target {
			w.Usual = outside[i].Range.Target
		}
		w.Days = days(recommend.PeaksOf(HistoryOf(in.Histories, w.Container), w.Resource), w.Resource, in.Now)
	}
	return out
}

// sized computes the sizes, without the days. One input may be another than that of the workload.
func (in *Sizing) sized(p recommend.Profile, histories []*usage.ContainerHistory, a *cluster.Autoscaler) []Why {
	advice, records := recommend.Explain(p.Params, p.Estimator, histories, a, in.Now)
	capped, bounds := policy.CapBounds(a, advice, in.Global, p.Node)
	running := policy.Running{Pods: in.Pods, Now: in.Now}
	running.Step(a, in.Global, capped, bounds)
	advised := *a
	advised.Advice = capped
	for i := range capped {
		if published := a.AdviceFor(capped[i].Container); published != nil {
			capped[i].Shared, capped[i].MemoryLimit, capped[i].MemoryPeak = published.Shared, published.MemoryLimit, published.MemoryPeak
		}
	}
	var fits []policy.Fitted
	var looked [][]policy.Bound
	var limits policy.CPULimits
	var whole, sum cluster.Resources
	if in.Pod != nil {
		fits, looked = policy.FitBounds(advised.For(in.Pod), in.Limits, in.Pod)
		whole, sum = a.Shares(in.Pod)
		_, limits = policy.WithoutCPULimits(&advised, in.Limits, in.Pod, cluster.Standing{})
	}
	init, initRecords := recommend.InitContainers(p.Params, histories, a, in.Now)
	initCapped, initBounds := policy.CapBounds(a, init, in.Global, cluster.NodeShare{})
	advice, records, capped, bounds = append(advice, init...), append(records, initRecords...), append(capped, initCapped...), append(bounds, initBounds...)
	if in.Pod != nil {
		advised.Advice = capped
		initFits := policy.FitInit(&advised, in.Limits, in.Pod, fits)
		fits, looked = append(fits, initFits...), append(looked, make([][]policy.Bound, len(initFits))...)
	}
	var out []Why
	for i := range capped {
		c := &capped[i]
		for _, res := range cluster.All {
			target, ok := c.Target.Get(res)
			if !ok {
				continue
			}
			w := Why{
				Container: c.Container, Resource: res, Profile: p.Name, Node: p.Node,
				Steps: *records[i].Of(res), Estimate: advice[i].Target.Amount(res), Bounds: boundsFor(bounds[i], res),
				Range: Range{Lower: c.Lower.Amount(res), Target: target, Upper: c.Upper.Amount(res)}, Published: Published{Target: target},
			}
			w.Horizontal, w.Metric = policy.HorizontalOf(a, c.Container, res)
			w.fit(in.Pod, fits, looked)
			if published := a.AdviceFor(c.Container); published != nil && published.Target.Has.Has(res) {
				w.Published = Published{published.Target.Amount(res), published.Groups, a.RoleLabel(), whole.Amount(res), sum.Amount(res)}
			}
			if res == cluster.CPU {
				w.Limits.CPU = limits
				w.StartupBoost = startupBoostOf(a, p.Learning, c.Container)
			} else if in.Pod != nil {
				if own := in.Pod.Container(c.Container); own != nil {
					w.Limits.Memory = policy.MemoryLimitOf(&advised, in.Limits, in.Pod, own)
					w.Limits.Peak = c.MemoryPeak
				}
			}
			out = append(out, w)
		}
	}
	return out
}

// fit sets what the pod runs with and should get.
func (w *Why) fit(pod *cluster.Pod, fits []policy.Fitted, looked [][]policy.Bound) {
	if pod == nil {
		return
	}
	container := pod.Container(w.Container)
	if container == nil {
		return
	}
	w.Runtime = pod.Runtime(container)
	w.Restarts = container.Restart.Has(w.Resource)
	requests, limits := container.Running()
	w.Present = amountsOf(requests, limits, w.Resource)
	for i := range fits {
		f := &fits[i]
		if f.Container != w.Container {
			continue
		}
		w.LimitsKept = f.LimitsKept
		w.Size = amountsOf(f.Requests, f.Limits, w.Resource)
		if w.Size.HasRequest && !w.Size.HasLimit { // the pod keeps its own limit, if it has one
			w.Size.Limit = w.Present.Limit
			w.Size.HasLimit = w.Present.HasLimit
		}
		w.Bounds = append(w.Bounds, boundsFor(looked[i], w.Resource)...)
	}
}

// startupBoostOf returns what is known about the learnt boost of a container whose VPA is sized by a profile.
func startupBoostOf(a *cluster.Autoscaler, profile cluster.BoostLearning, container string) StartupBoost {
	with := *a
	with.Learning = a.Learning.Under(profile)
	out := StartupBoost{Learning: with.Learning.On, Configured: a.HasBoost(container), Off: !a.Mode.Applies(), Applied: with.LearntBoostOf(container)}
	if published := a.AdviceFor(container); published != nil && published.Learnt.Valid() {
		out.Learnt = published.Learnt
	}
	return out
}

func amountsOf(requests, limits cluster.Resources, res cluster.Resource) Amounts {
	var x Amounts
	x.Request, x.HasRequest = requests.Get(res)
	x.Limit, x.HasLimit = limits.Get(res)
	return x
}

func boundsFor(bounds []policy.Bound, res cluster.Resource) []policy.Bound {
	return slices.DeleteFunc(slices.Clone(bounds), func(b policy.Bound) bool { return b.Resource != res })
}

// HistoryOf returns the history of a container, nil if there is none.
func HistoryOf(histories []*usage.ContainerHistory, container string) *usage.ContainerHistory {
	if h := cluster.Find(histories, func(h **usage.ContainerHistory) bool { return (*h).Container() == container }); h != nil {
		return *h
	}
	return nil
}

// days returns the peaks of the last days, of 24 hours each, the last of which ends with the present hour.
func days(peaks *hourly.Peaks, res cluster.Resource, now time.Time) []Day {
	if peaks == nil {
		return nil
	}
	out := make([]Day, 0, shownDays)
	end := int(now.Unix()/3600) + 1
	for i := range shownDays {
		from := end - 24*(shownDays-i)
		day := Day{From: hourAt(from)}
		if level := peaks.Max(from, from+24); level > 0 {
			day.Peak = level.Amount() * cluster.Pick(res, 1000.0, 1) // in millicores or bytes
			day.Known = true
			for h := from; h < from+24; h++ {
				if peaks.At(h) == level {
					day.At = hourAt(h)
				}
			}
		}
		out = append(out, day)
	}
	return out
}

func hourAt(hour int) time.Time { return time.Unix(int64(hour)*3600, 0).UTC() }
