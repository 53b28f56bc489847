// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// BoostAnnotation is the prefix of the key of the annotation of a boosted container. The name of the container follows.
const BoostAnnotation = "vpaCpuStartupBoost/"

// Original contains the requests and limits in the spec of a container before its boost.
type Original struct {
	Container        string
	Requests, Limits cluster.Resources
}

// Key returns the key of the annotation that contains the original.
func (o Original) Key() string { return BoostAnnotation + o.Container }

// Value returns the value of the annotation: a JSON object of quantities.
func (o Original) Value() string {
	quantities := func(r cluster.Resources) map[string]string {
		out := map[string]string{}
		for _, res := range cluster.All {
			if v, ok := r.Get(res); ok {
				out[res.String()] = cluster.Quantity(res, v)
			}
		}
		return out
	}
	text, _ := json.Marshal(struct { // which does not fail for texts
		Requests map[string]string `json:"requests"`
		Limits   map[string]string `json:"limits"`
	}{quantities(o.Requests), quantities(o.Limits)})
	return string(text)
}

// boostBy applies a share of the CPU startup boost, in parts of wholeBoost, to a pod that is being created. It returns the sizes of the
// containers, in the order of the pod, and the original of each boosted container.
//
// Fits is the result of Fit for the pod. It is empty if the update mode is Off, in which a boost applies, too. A boost multiplies or
// is added to the recommended CPU request, or to the request of the container if none is recommended. The result is at most most
// millicores, if most is above zero. The limit changes in proportion. If the policy keeps limits, the request stays 1m below the
// limit, so that the QoS class of the pod does not change.
//
// A learnt boost multiplies only the recommended CPU request, and maxAllowed bounds it. Without a recommendation it has no effect.
func boostBy(a *cluster.Autoscaler, p *cluster.Pod, fits []Fitted, most, share int64) Boosted {
	var out Boosted
	next := 0
	for i := range p.Containers {
		c := &p.Containers[i]
		if !c.IsSized() {
			continue
		}
		f := Fitted{Container: c.Name, Index: int(c.Index), Sidecar: c.Role == cluster.Sidecar, Inserted: true}
		fitted := next < len(fits) && fits[next].Container == c.Name
		if fitted {
			f = fits[next]
			next++
		}
		b := BoostOf(a, c.Name)
		switch {
		case b != nil && b.Percent > 0:
			if boosted := boost(a, b, c, f, most, share); f.Requests.CPU > 0 && boosted.Requests.CPU > f.Requests.CPU {
				out.Originals = append(out.Originals, Original{Container: c.Name, Requests: c.Requests, Limits: c.Limits})
				out.Fits = append(out.Fits, boosted)
				out.learnt = true
				continue
			}
		case b != nil && !b.ByQuantity && boostBase(c, f) <= 0:
			out.NoBase = append(out.NoBase, c.Name)
		case b != nil && (b.ByQuantity || b.Factor >= 1):
			out.configured = true
			out.Originals = append(out.Originals, Original{Container: c.Name, Requests: c.Requests, Limits: c.Limits})
			out.Fits = append(out.Fits, boost(a, b, c, f, most, share))
			continue
		}
		if fitted {
			out.Fits = append(out.Fits, f)
		}
	}
	return out
}

// boostBase returns the CPU request that a boost multiplies or is added to: the recommended one, or else that of the container.
func boostBase(c *cluster.Container, f Fitted) int64 {
	if f.Requests.CPU > 0 {
		return f.Requests.CPU
	}
	return c.Requests.CPU
}

func boost(a *cluster.Autoscaler, b *cluster.Boost, c *cluster.Container, f Fitted, most, share int64) Fitted {
	base := boostBase(c, f)
	cpu := integer.Sum(base, b.Quantity)
	switch {
	case b.Percent > 0:
		cpu, _ = integer.Scaled(base, int64(b.Percent), 100)
		if cp := a.Policy(c.Name); cp != nil && cp.MaxAllowed.Has.Has(cluster.CPU) {
			cpu = min(cpu, max(cp.MaxAllowed.CPU, base))
		}
	case !b.ByQuantity:
		cpu, _ = integer.Scaled(base, int64(b.Factor), 1)
	}
	if most > 0 {
		cpu = min(cpu, most)
	}
	if share < wholeBoost && cpu > base {
		extra, _ := integer.Scaled(cpu-base, share, wholeBoost)
		cpu = integer.Sum(base, extra)
	}
	if cp := a.Policy(c.Name); cp != nil && cp.RequestsOnly {
		f.LimitsKept = true
		if limit, ok := c.Limits.Get(cluster.CPU); ok && cpu > limit {
			cpu = limit
			if limit > 1 {
				cpu--
			}
		}
	} else if limit, _, ok := proportionalLimit(c.Limits.CPU, c.Requests.CPU, cpu, 0); ok {
		f.Limits = f.Limits.Set(cluster.CPU, limit)
	}
	f.Requests = f.Requests.Set(cluster.CPU, cpu)
	return f
}

// BoostOf returns the startup boost of a container: the boost of its policy, else that of the autoscaler, else the learnt one. It is nil if
// the policy of the container is Off.
func BoostOf(a *cluster.Autoscaler, container string) *cluster.Boost {
	if cp := a.Policy(container); cp != nil {
		switch {
		case cp.Off:
			return nil
		case cp.Boost != nil:
			return cp.Boost
		}
	}
	if a.Boost != nil {
		return a.Boost
	}
	return a.LearntBoostOf(container)
}

// Unboost returns the sizes of the boosted containers whose boost is over: those in fits, and the originals of containers without
// recommendation. A boost is over when the pod has been Ready for longer than the duration of the boost. Until is the time at which
// the next boost of the pod ends, zero if it is not known.
func Unboost(autoscaler *cluster.Autoscaler, pod *cluster.Pod, fits []Fitted, now time.Time) (over []Fitted, until time.Time) {
	if !pod.Ready {
		return nil, time.Time{}
	}
	for i := range pod.Containers {
		container := &pod.Containers[i]
		if container.Boosted == nil {
			continue
		}
		var d time.Duration
		if b := BoostOf(autoscaler, container.Name); b != nil {
			d = b.Duration
		}
		if end := pod.ReadySince.Add(d); d > 0 && !now.After(end) {
			until = cluster.Earliest(until, end)
			continue
		}
		unboosted := Fitted{
			Container: container.Name, Index: int(container.Index), Sidecar: container.Role == cluster.Sidecar, Inserted: true,
			Requests: container.Boosted.Requests, Limits: container.Boosted.Limits,
		}
		if fit := cluster.Find(fits, func(f *Fitted) bool { return f.Container == container.Name }); fit != nil {
			unboosted = *fit
			limits := container.Boosted.Limits
			if autoscaler.MemoryLimits.Keep { // it stays
				limits = limits.Only(cluster.Of(cluster.CPU))
			}
			unboosted.Requests, unboosted.Limits = fit.Requests.Or(container.Boosted.Requests), fit.Limits.Or(limits)
		}
		over = append(over, unboosted)
	}
	return over, until
}

// KeepBoost returns fits in which boosted containers keep their CPU.
func KeepBoost(pod *cluster.Pod, fits []Fitted) []Fitted {
	out := slices.Clone(fits)
	cpu := cluster.Of(cluster.CPU)
	for i := range out {
		if c := pod.Container(out[i].Container); c.Boosted != nil {
			requests, limits := c.Running()
			out[i].Requests = out[i].Requests.Unset(cluster.CPU).Or(requests.Only(cpu))
			out[i].Limits = out[i].Limits.Unset(cluster.CPU).Or(limits.Only(cpu))
		}
	}
	return out
}
