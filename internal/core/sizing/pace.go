// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// The largest relative difference of a bound in the status from the present one: at any time, and after the interval of Pace.
const (
	looseBound = 0.05
	closeBound = 0.01
)

// Pace saves writes of statuses. The bounds of most containers change a little in each pass. The status keeps its bounds while the targets are the
// same, the bounds have moved little, and no running pod has a request between a stored bound and the new one: no pod is changed because of them.
type Pace struct {
	// Interval is how long a stored bound may differ from the new one by up to 5 %; after that, by up to 1 %. 0: each change is written.
	Interval time.Duration

	Before, Now time.Time // the last pass, zero if there was none, and the present one
}

// Keeps reports whether the recommendation before stays, instead of the one after. pods are the pods of the target.
func (p *Pace) Keeps(a *cluster.Autoscaler, after []cluster.Advice, pods []*cluster.Pod) bool {
	before := a.Advice
	if p.Interval <= 0 || len(before) == 0 || len(before) != len(after) {
		return false
	}
	most := looseBound
	if p.isDue(a) {
		most = closeBound
	}
	for i := range after {
		b := &before[i]
		bounds := *b // of after, but with the former bounds
		bounds.Lower, bounds.Upper = after[i].Lower, after[i].Upper
		if !bounds.Equal(after[i]) || !isNear(b.Lower, after[i].Lower, most) || !isNear(b.Upper, after[i].Upper, most) {
			return false
		}
		if bounds.Equal(*b) {
			continue
		}
		if slices.ContainsFunc(pods, func(p *cluster.Pod) bool { return liesBetween(p, b, &after[i]) }) {
			return false
		}
	}
	return true
}

// isDue reports whether the interval of an autoscaler has ended since the last pass. The ends are spread, so that not all are written in one pass.
func (p *Pace) isDue(a *cluster.Autoscaler) bool {
	h := fnv.New32a()
	h.Write([]byte(a.Key.String())) // never fails
	offset := p.Interval / 1000 * time.Duration(h.Sum32()%1000)
	return !p.Before.IsZero() && !p.Before.Add(offset).Truncate(p.Interval).Equal(p.Now.Add(offset).Truncate(p.Interval))
}

func isNear(before, after cluster.Resources, most float64) bool {
	for _, r := range cluster.All {
		x, had := before.Get(r)
		y, has := after.Get(r)
		if had != has || math.Abs(float64(y)-float64(x)) > most*float64(x) {
			return false
		}
	}
	return true
}

// liesBetween reports whether a request of a live pod is on another side of a bound than before.
func liesBetween(p *cluster.Pod, before, after *cluster.Advice) bool {
	c := p.Container(before.Container)
	if c == nil || !p.Live() {
		return false
	}
	for _, r := range cluster.All {
		request, has := c.Requests.Get(r)
		differs := func(x, y cluster.Resources) bool {
			return cmp.Compare(request, x.Amount(r)) != cmp.Compare(request, y.Amount(r))
		}
		if has && (differs(before.Lower, after.Lower) || differs(before.Upper, after.Upper)) {
			return true
		}
	}
	return false
}
