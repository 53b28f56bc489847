// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// Span is the time over which changes are added up.
const Span = time.Hour

// A Change is the requests of the pods that were changed in one minute, before the change.
type Change struct {
	At       time.Time         `stored:"time,seconds,required"` // start of the minute
	Requests cluster.Resources `stored:"requests"`
}

// MaxChanges is the maximum length of a list of Record.
const MaxChanges = 62

// Record adds the change of a pod to a list, and drops what is older than an hour. The list is sorted, the oldest change first. Changes
// after now, because the clock was set back, count as now.
func Record(list []Change, now time.Time, requests cluster.Resources) []Change {
	list = Recent(list, now)
	minute := now.Truncate(time.Minute)
	if n := len(list); n > 0 && !list[n-1].At.Before(minute) {
		last := list[n-1]
		last.Requests = last.Requests.Add(requests)
		return append(slices.Clone(list[:n-1]), last)
	}
	return append(slices.Clone(list), Change{At: minute, Requests: requests})
}

// Recent returns the changes of a list that count.
func Recent(list []Change, now time.Time) []Change {
	var out []Change
	for _, c := range list[max(0, len(list)-MaxChanges):] {
		if c.At.After(now) {
			c.At = now.Truncate(time.Minute)
		}
		if now.Before(c.expires()) {
			out = append(out, c)
		}
	}
	return out
}

// Capped returns the newest changes of a list, the oldest first, so that their sum is at most a maximum. The last one may be a part of a
// change. A namespace whose pods are changed twice in an hour counts once, and an amount in a stored object that a user has changed counts
// at most as much as the namespace has.
func Capped(list []Change, most cluster.Resources) []Change {
	ordered := slices.SortedStableFunc(slices.Values(list), func(a, b Change) int { return b.At.Compare(a.At) })
	var out []Change
	for _, c := range ordered {
		c.Requests = cluster.Amounts(min(c.Requests.CPU, most.CPU), min(c.Requests.Memory, most.Memory))
		most = cluster.Amounts(most.CPU-c.Requests.CPU, most.Memory-c.Requests.Memory)
		if c.Requests.CPU > 0 || c.Requests.Memory > 0 {
			out = append(out, c)
		}
	}
	slices.Reverse(out)
	return out
}

func (c Change) expires() time.Time { return c.At.Add(Span + time.Minute) }

// A Radius limits the share of requests that is changed in an hour.
type Radius struct {
	Share   float64           // of Total, from 0 to 1
	Total   cluster.Resources // requests of all live pods
	Changes []Change          // in the last hour
	Planned cluster.Resources // changes that are decided and not recorded yet
}

// Exceeded reports whether the change of one more pod would exceed the limit, the share in percent with it, and when the change is
// possible. The first change of an hour is always possible, because otherwise large pods would never be changed.
func (r *Radius) Exceeded(pod cluster.Resources) (percent int, until time.Time, exceeded bool) {
	sum := r.Planned
	for _, c := range r.Changes {
		sum = sum.Add(c.Requests)
	}
	if sum.CPU <= 0 && sum.Memory <= 0 {
		return 0, time.Time{}, false
	}
	share := r.shareOf(sum.Add(pod))
	if share <= r.Share {
		return 0, time.Time{}, false
	}
	ordered := slices.SortedFunc(slices.Values(r.Changes), func(a, b Change) int { return a.At.Compare(b.At) })
	for _, c := range ordered {
		sum = cluster.Resources{CPU: sum.CPU - c.Requests.CPU, Memory: sum.Memory - c.Requests.Memory, Has: sum.Has}
		if none := sum.CPU <= 0 && sum.Memory <= 0; none || r.shareOf(sum.Add(pod)) <= r.Share {
			return toPercent(share), c.expires(), true
		}
	}
	return toPercent(share), time.Time{}, true
}

// shareOf returns the largest share of the total over the resources.
func (r *Radius) shareOf(amount cluster.Resources) float64 {
	share := 0.0
	for _, res := range cluster.All {
		if total := r.Total.Amount(res); total > 0 {
			share = max(share, float64(amount.Amount(res))/float64(total))
		}
	}
	return share
}

func toPercent(share float64) int { return int(min(share*100+0.5, 1e6)) }
