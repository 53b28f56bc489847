// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
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
	var text strings.Builder
	part := func(name string, r cluster.Resources) {
		text.WriteString(`"` + name + `":{`)
		separator := ""
		for _, res := range cluster.All {
			if v, ok := r.Get(res); ok {
				text.WriteString(separator + `"` + res.String() + `":"` + quantity(res, v) + `"`)
				separator = ","
			}
		}
		text.WriteString("}")
	}
	text.WriteString("{")
	part("requests", o.Requests)
	text.WriteString(",")
	part("limits", o.Limits)
	text.WriteString("}")
	return text.String()
}

// quantity writes an amount exactly, as a Kubernetes quantity.
func quantity(res cluster.Resource, amount int64) string {
	if res == cluster.CPU {
		if amount%1000 == 0 {
			return strconv.FormatInt(amount/1000, 10)
		}
		return strconv.FormatInt(amount, 10) + "m"
	}
	units := [...]string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
	i := 0
	for amount != 0 && amount%1024 == 0 && i < len(units)-1 {
		amount /= 1024
		i++
	}
	return strconv.FormatInt(amount, 10) + units[i]
}

// Boost applies the CPU startup boost to a pod that is being created. It returns the sizes of the containers, in the order of the pod,
// and the original of each boosted container.
//
// Fits is the result of Fit for the pod. It is empty if the update mode is Off, in which a boost applies, too. A boost multiplies or
// is added to the recommended CPU request, or to the request of the container if none is recommended. The result is at most most
// millicores, if most is above zero. The limit changes in proportion. If the policy keeps limits, the request stays 1m below the
// limit, so that the QoS class of the pod does not change.
func Boost(autoscaler *cluster.Autoscaler, pod *cluster.Pod, fits []Fitted, most int64) ([]Fitted, []Original) {
	var out []Fitted
	var originals []Original
	next := 0
	for i := range pod.Containers {
		container := &pod.Containers[i]
		if container.Role != cluster.Regular {
			continue
		}
		fit := Fitted{Container: container.Name, Index: int(container.Index), Inserted: true}
		fitted := next < len(fits) && fits[next].Container == container.Name
		if fitted {
			fit = fits[next]
			next++
		}
		if boosted, ok := boost(autoscaler, container, fit, most); ok {
			originals = append(originals, Original{Container: container.Name, Requests: container.Requests, Limits: container.Limits})
			out = append(out, boosted)
		} else if fitted {
			out = append(out, fit)
		}
	}
	return out, originals
}

// boost returns fit with more CPU, and false if the container has no boost.
func boost(autoscaler *cluster.Autoscaler, container *cluster.Container, fit Fitted, most int64) (Fitted, bool) {
	rule := BoostOf(autoscaler, container.Name)
	if rule == nil {
		return fit, false
	}
	base := fit.Requests.CPU
	if base <= 0 {
		base = container.Requests.CPU
	}
	cpu := sum(base, rule.Quantity)
	if !rule.ByQuantity {
		if rule.Factor < 1 || base <= 0 {
			return fit, false
		}
		cpu, _ = scaled(base, int64(rule.Factor), 1)
	}
	if most > 0 {
		cpu = min(cpu, most)
	}
	if cp := autoscaler.Policy(container.Name); cp != nil && cp.RequestsOnly {
		fit.LimitsKept = true
		if limit, ok := container.Limits.Get(cluster.CPU); ok && cpu > limit {
			cpu = limit
			if limit > 1 {
				cpu--
			}
		}
	} else if limit, _, ok := proportionalLimit(container.Limits.CPU, container.Requests.CPU, cpu, 0); ok {
		fit.Limits = fit.Limits.Set(cluster.CPU, limit)
	}
	fit.Requests = fit.Requests.Set(cluster.CPU, cpu)
	return fit, true
}

// BoostOf returns the startup boost of a container: the boost of its policy, else that of the autoscaler. It is nil if the policy of the
// container is Off.
func BoostOf(a *cluster.Autoscaler, container string) *cluster.Boost {
	if cp := a.Policy(container); cp != nil {
		switch {
		case cp.Off:
			return nil
		case cp.Boost != nil:
			return cp.Boost
		}
	}
	return a.Boost
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
			if until.IsZero() || end.Before(until) {
				until = end
			}
			continue
		}
		unboosted := Fitted{
			Container: container.Name, Index: int(container.Index), Inserted: true,
			Requests: container.Boosted.Requests, Limits: container.Boosted.Limits,
		}
		for _, fit := range fits {
			if fit.Container == container.Name {
				unboosted = fit
				unboosted.Requests, unboosted.Limits = fit.Requests.Or(container.Boosted.Requests), fit.Limits.Or(container.Boosted.Limits)
			}
		}
		over = append(over, unboosted)
	}
	return over, until
}
