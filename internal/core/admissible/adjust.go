// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admissible

import (
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// Adjust changes fits in place where the API server would refuse the pod because of them. For each resource it applies:
//
//  1. to each fitted container: the request is within the container LimitRange and not above the limit. A limit that fits
//     sets is within the LimitRange and its maxLimitRequestRatio;
//  2. to the pod-level resources, if the pod has them: fitPodLevel;
//  3. to the sums over the pod: they are within the pod LimitRange and its maxLimitRequestRatio.
//
// It does not change sizes that the API server admits. Amounts that fits does not set stay unset. If no change makes the pod
// valid, Refused returns the reason afterwards.
func Adjust(limits Limits, pod *cluster.Pod, fits []Fitted) {
	if len(fits) == 0 {
		return
	}
	if !pod.Fractions && !limits.Range.Fractions {
		adjust(limits, pod, fits, lean{})
		return
	}
	before := slices.Clone(fits)
	for i := range before {
		before[i].Notes = slices.Clip(before[i].Notes)
	}
	for _, by := range leans {
		copy(fits, before)
		adjust(limits, pod, fits, by)
		if !Refused(limits, pod, fits).Refused() {
			return
		}
	}
	copy(fits, before)
	adjust(limits, pod, fits, lean{})
}

// A lean is the correction that is added to amounts whose exact value is not known, because they are not whole bytes.
type lean struct{ request, limit, level int64 }

// leans are tried in this order until the API server certainly admits the pod.
var leans = [...]lean{{}, {request: 1, limit: 1, level: -1}, {request: -1, limit: 1, level: -1}, {request: -1, limit: -1, level: -1}}

func adjust(limits Limits, pod *cluster.Pod, fits []Fitted, by lean) {
	var level cluster.PodResources
	var few [fewContainers]size
	for _, res := range cluster.All {
		amounts := sizesOf(few[:0], limits, pod, fits, res)
		amounts.lean(by)
		for i := range amounts.containers {
			amounts.containers[i].bound()
		}
		before := amounts.level
		amounts.fitPodLevel()
		amounts.fitPodRange()
		for i := range amounts.containers {
			amounts.containers[i].write(res)
		}
		if !amounts.level.request.equal(before.request) {
			level.Requests = level.Requests.Set(res, amounts.level.request.v)
		}
		if !amounts.level.limit.equal(before.limit) {
			level.Limits = level.Limits.Set(res, amounts.level.limit.v)
		}
	}
	for i := range fits {
		fits[i].PodLevel = nil
		if level != (cluster.PodResources{}) {
			fits[i].PodLevel = &cluster.PodResources{Requests: level.Requests, Limits: level.Limits}
		}
	}
}

// lean adds a correction to the amounts that are not exactly known.
func (s *sizes) lean(by lean) {
	if by == (lean{}) {
		return
	}
	add := func(a *value, v int64) {
		if a.off > 0 {
			a.v = max(a.v+v, 0)
		}
	}
	for i := range s.containers {
		z := &s.containers[i]
		add(&z.request, by.request)
		add(&z.limit, by.limit)
		z.before = z.pair
	}
	add(&s.level.request, by.level)
	add(&s.level.limit, by.level)
}

// bound moves the size of a container into the container LimitRange, and its request to at most its limit.
func (z *size) bound() {
	if !z.sets.request || z.high.set && !z.limit.set {
		return // a maximum refuses a container without limit for any request
	}
	request := z.bounded(z.request.v)
	if z.limit.set && !z.sets.limit {
		request = min(max(request, z.atLeast(z.limit.v)), z.limit.v)
	}
	z.resize(request)
}

// resize changes the request. A limit that fits sets keeps its ratio to the request, within the LimitRange. So Fit gives the same
// result for the created pod, whose running ratio it uses, as at creation.
func (z *size) resize(request int64) {
	if z.sets.limit {
		limit := z.limit.v
		if request != z.request.v {
			limit, _ = integer.Scaled(limit, request, z.request.v)
		}
		z.limit.v = max(min(z.bounded(limit), z.atMost(request)), request)
	}
	z.request.v = request
}

func (z *size) write(res cluster.Resource) {
	if z.pair == z.before || z.fit == nil {
		return
	}
	if z.sets.request {
		z.fit.Requests = z.fit.Requests.Set(res, z.request.v)
	}
	if z.sets.limit {
		z.fit.Limits = z.fit.Limits.Set(res, z.limit.v)
	}
	z.fit.Notes = append(z.fit.Notes, Note{Resource: res, Kind: HeldToAdmitted})
}

// fitPodLevel adapts the pod-level resources to the containers. If all containers get requests, the pod-level request is their sum.
// Else it changes by the sum of the changes of container requests, because the containers without recommendation use the rest, and a
// container that had no request gets one out of that rest. The pod-level request is never below the sum of the requests of the
// containers. The pod-level limit keeps its ratio to the request. If limits are kept, the containers share the pod-level limit.
func (s *sizes) fitPodLevel() {
	if !s.level.request.set && !s.level.limit.set {
		return
	}
	own, _ := s.aggregate(func(own, _ pair) value { return own.request })
	before := s.level
	if !before.request.set { // the default of the API server
		before.request = before.limit
		if own.set {
			before.request = own
		}
	}
	moved := int64(0)
	for i := range s.containers {
		if z := &s.containers[i]; z.sets.request && z.own.request.set {
			moved += z.request.v - z.own.request.v // on overflow, the sum below applies
		}
	}
	sum, _ := s.requests()
	want := max(before.request.v+moved, sum.v)
	switch {
	case s.levelFixed:
		want = max(before.request.v, sum.v)
	case s.allRequest():
		want = sum.v
	}
	if !before.limit.set {
		s.level.request = fittedValue(want)
		return
	}
	limit := before.limit.v
	if s.limitsKept {
		s.lowerRequests(limit)
		sum, _ = s.requests()
		want = max(min(want, limit), sum.v)
	} else {
		if before.request.v > 0 && !s.levelFixed {
			limit, _ = integer.Scaled(limit, want, before.request.v)
		}
		for i := range s.containers {
			if z := &s.containers[i]; z.role == cluster.Regular && z.limit.set && !z.sets.limit {
				limit = max(limit, z.limit.v)
			}
		}
		limit = max(limit, want)
		if before.request == before.limit {
			want = limit // the pod stays Guaranteed
		}
	}
	s.level = pair{fittedValue(want), fittedValue(limit)}
	s.boundByLevel()
}

// allRequest reports whether fits sets the request of each container, and each sidecar has one, so that no container uses a part of
// the pod-level request beyond their sum.
func (s *sizes) allRequest() bool {
	for i := range s.containers {
		switch z := &s.containers[i]; z.role {
		case cluster.Regular:
			if !z.sets.request || z.fit.Inserted {
				return false
			}
		case cluster.Sidecar, cluster.FixedSidecar:
			if !z.request.set {
				return false
			}
		case cluster.Init:
		}
	}
	return true
}

// boundByLevel lowers limits that fits sets to at most the pod-level limit.
func (s *sizes) boundByLevel() {
	for i := range s.containers {
		if z := &s.containers[i]; z.sets.limit && s.level.limit.set {
			z.limit.v = max(min(z.limit.v, s.level.limit.v), z.request.v)
		}
	}
}

// fitPodRange moves the sums over the pod into the pod LimitRange. If the pod has pod-level resources, they replace the sums.
func (s *sizes) fitPodRange() {
	if s.high.set {
		s.lowerRequestTo(s.high.v)
	}
	if s.low.set {
		s.raiseRequestTo(s.low.v)
	}
	if s.high.set {
		s.lowerLimitTo(s.high.v)
	}
	if s.low.set {
		s.raiseLimitTo(s.low.v)
	}
	if total := s.total(); s.ratio.set && total.request.set && total.limit.set {
		s.lowerLimitTo(max(s.atMost(total.request.v), total.request.v))
		s.raiseRequestTo(s.atLeast(s.total().limit.v))
	}
}

func (s *sizes) lowerRequestTo(most int64) {
	if s.level.request.set && s.level.request.v <= most {
		return
	}
	s.lowerRequests(most)
	if s.level.request.set {
		sum, _ := s.requests()
		s.level.request.v = max(most, sum.v)
	}
}

// lowerLimitTo lowers the limits that fits sets, and the requests in proportion. If that is not sufficient, it lowers limits further
// without requests.
func (s *sizes) lowerLimitTo(most int64) {
	switch {
	case !s.level.limit.set:
		_, running := s.limits()
		left := s.spread(running-most, limitDown)
		s.spread(left, limitDownAlone)
	case !s.limitsKept && s.level.limit.v > most:
		s.level.limit.v = max(most, s.level.request.v)
		s.boundByLevel()
	}
}

func (s *sizes) raiseRequestTo(least int64) {
	switch {
	case !s.level.request.set:
		if total, running := s.requests(); total.set && total.v < least {
			s.spread(least-running, requestUp)
		}
	case s.level.request.v >= least:
	case s.level.limit.set && s.limitsKept:
		s.level.request.v = max(min(least, s.level.limit.v), s.level.request.v)
	default:
		s.level.request.v = least
		s.level.limit.v = max(s.level.limit.v, least)
	}
}

// raiseLimitTo raises the limits that fits sets, and the requests in proportion.
func (s *sizes) raiseLimitTo(least int64) {
	switch {
	case !s.level.limit.set:
		if total, running := s.limits(); total.set && total.v < least {
			s.spread(least-running, limitUp)
		}
	case !s.limitsKept:
		s.level.limit.v = max(s.level.limit.v, least)
	}
}

// lowerRequests lowers the requests that fits sets until their sum over the pod is at most the given amount, as far as their own
// bounds allow.
func (s *sizes) lowerRequests(most int64) {
	_, running := s.requests()
	s.spread(running-most, requestDown)
}

// A move is a way to change the size of a container.
type move uint8

const (
	requestDown move = iota
	requestUp
	limitDown
	limitDownAlone // the request falls only as far as its bounds allow
	limitUp
)

// room returns the maximum amount of a move for a container. It is zero unless the Inserted field of the
// container equals inserted.
func (z *size) room(m move, inserted bool) int64 {
	onlyRequest := m == requestDown || m == requestUp
	if !z.sets.request || !onlyRequest && !z.sets.limit || z.fit.Inserted != inserted {
		return 0
	}
	most := int64(math.MaxInt64)
	if z.high.set {
		most = z.high.v
	}
	switch m {
	case requestDown:
		return z.request.v - z.leastRequest()
	case requestUp:
		if z.limit.set && !z.sets.limit {
			most = min(most, z.limit.v)
		}
		return most - z.request.v
	case limitDown:
		least, _ := integer.ScaledUp(z.limit.v, z.leastRequest(), z.request.v)
		return z.limit.v - least
	case limitDownAlone:
		return z.limit.v - z.leastRequest() // which is not below the minimum of the LimitRange
	default: // limitUp
		return most - z.limit.v
	}
}

func (z *size) apply(m move, by int64) {
	if m == requestDown || m == limitDown || m == limitDownAlone {
		by = -by
	}
	if m == requestDown || m == requestUp {
		z.resize(z.request.v + by)
		return
	}
	limit := z.limit.v + by
	request, _ := integer.Scaled(z.request.v, limit, z.limit.v)
	request = max(request, z.atLeast(limit), z.leastRequest())
	z.request.v = min(request, limit)
	z.limit.v = limit
}

// leastRequest returns the minimum of a request, at least 1.
func (z *size) leastRequest() int64 {
	least := int64(1)
	if z.low.set {
		least = max(least, z.low.v)
	}
	if z.limit.set && !z.sets.limit {
		least = max(least, z.atLeast(z.limit.v))
	}
	return min(least, z.request.v)
}

// spread distributes a change over the containers that have room for it, in proportion to their requests, and returns the rest.
// Containers without recommendation come last, because later passes start from their requests.
func (s *sizes) spread(change int64, m move) (left int64) {
	left = s.spreadOver(change, m, false)
	return s.spreadOver(left, m, true)
}

func (s *sizes) spreadOver(change int64, kind move, inserted bool) (left int64) {
	left = change
	for left > 0 {
		weights := int64(0)
		for i := range s.containers {
			if sized := &s.containers[i]; sized.room(kind, inserted) > 0 {
				weights = integer.Sum(weights, max(sized.request.v, 1))
			}
		}
		if weights == 0 {
			return left
		}
		share := left
		for i := range s.containers {
			sized := &s.containers[i]
			has := sized.room(kind, inserted)
			if has <= 0 || left == 0 {
				continue
			}
			by, _ := integer.ScaledUp(share, max(sized.request.v, 1), weights)
			by = min(max(by, 1), has, left)
			sized.apply(kind, by)
			left -= by
		}
	}
	return left
}
