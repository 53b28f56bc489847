// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// A Risk is how likely a workload suffers from requests that are too small.
type Risk uint8

// The risks.
const (
	NoRisk Risk = iota
	MediumRisk
	HighRisk
)

// String returns the name of the risk.
func (r Risk) String() string {
	switch r {
	case HighRisk:
		return "high"
	case MediumRisk:
		return "medium"
	case NoRisk:
		return "none"
	}
	return "none"
}

// The bounds of the risks.
const (
	killWindow   = 7 * 24 * time.Hour // an OOM kill in this time is a high risk
	limitPercent = 95                 // memory usage above this share of the limit is a high risk
	missPercent  = 10                 // a request below the target by more than this, and by more than the amounts below, is a medium risk
	missCPU      = 50                 // millicores
	missMemory   = 64 << 20           // bytes
)

// judge sets the risk and its cause. The first cause that applies is the most important one.
func (r *Row) judge(now time.Time) {
	for order, rule := range [...]struct {
		risk Risk
		why  func(*Row, *Container, time.Time) string
	}{
		{HighRisk, killed},
		{HighRisk, nearLimit},
		{MediumRisk, belowTarget},
		{MediumRisk, withoutRequest},
	} {
		for i := range r.Containers {
			if why := rule.why(r, &r.Containers[i], now); why != "" {
				r.Risk = rule.risk
				r.Why = why
				r.cause = order
				return
			}
		}
	}
}

// killed explains OOM kills of the last days.
func killed(r *Row, c *Container, now time.Time) string {
	n := 0
	var last time.Time
	for _, at := range c.Kills {
		if now.Sub(at) < killWindow {
			n++
			last = at
		}
	}
	if n == 0 {
		return ""
	}
	why := fmt.Sprintf("Container %s was OOM-killed in %s, last on %s", c.Name, counted(n, "pod"), last.UTC().Format("2 Jan at 15:04"))
	if r.VPA != "" && r.Sized < r.Pods {
		why += fmt.Sprintf("; %d of %s the new size", r.Sized, have(r.Pods))
	}
	return why
}

// nearLimit explains memory usage that is close to the limit.
func nearLimit(_ *Row, c *Container, _ time.Time) string {
	used, known := c.Used.Get(cluster.Memory)
	limit, limited := c.Limits.Get(cluster.Memory)
	if !known || !limited || limit <= 0 || used*100 < limit*limitPercent {
		return ""
	}
	return fmt.Sprintf("Container %s uses %d %% of its memory limit", c.Name, used*100/limit)
}

// belowTarget explains a request that is much smaller than the target.
func belowTarget(_ *Row, c *Container, _ time.Time) string {
	for _, res := range [...]cluster.Resource{cluster.Memory, cluster.CPU} {
		target, ok := c.Estimate.Target.Get(res)
		request, requested := c.Outside.Get(res)
		least := int64(missMemory)
		if res == cluster.CPU {
			least = missCPU
		}
		if !ok || !requested || c.Kept.Has(res) || target-request <= least || (target-request)*100 <= target*missPercent {
			continue
		}
		return fmt.Sprintf("The %s request of container %s is %d %% below the target", names[res], c.Name, (target-request)*100/target)
	}
	return ""
}

// withoutRequest explains a recommended resource that has no request.
func withoutRequest(r *Row, c *Container, _ time.Time) string {
	for _, res := range [...]cluster.Resource{cluster.Memory, cluster.CPU} {
		if _, ok := c.Estimate.Target.Get(res); ok && !c.Outside.Has.Has(res) && !c.Kept.Has(res) && r.Pods > 0 {
			return fmt.Sprintf("Container %s has no %s request", c.Name, names[res])
		}
	}
	return ""
}

var names = map[cluster.Resource]string{cluster.CPU: "CPU", cluster.Memory: "memory"}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func have(pods int) string {
	if pods == 1 {
		return "1 pod has"
	}
	return fmt.Sprintf("%d pods have", pods)
}
