// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// Admissible changes fits in place where the API server would refuse the pod because of them. For each resource it applies:
//
//  1. to each fitted container: the request is within the container LimitRange and not above the limit. A limit that fits
//     sets is within the LimitRange and its maxLimitRequestRatio;
//  2. to the pod-level resources, if the pod has them: fitPodLevel;
//  3. to the sums over the pod: they are within the pod LimitRange and its maxLimitRequestRatio.
//
// It does not change sizes that the API server admits. Amounts that fits does not set stay unset. If no change makes the pod
// valid, Refused returns the reason afterwards.
func Admissible(limits Limits, pod *cluster.Pod, fits []Fitted) {
	if len(fits) == 0 {
		return
	}
	if !pod.Fractions && !limits.Range.Fractions {
		admissible(limits, pod, fits, lean{})
		return
	}
	before := slices.Clone(fits)
	for i := range before {
		before[i].Notes = slices.Clip(before[i].Notes)
	}
	for _, by := range leans {
		copy(fits, before)
		admissible(limits, pod, fits, by)
		if !Refused(limits, pod, fits).Refused() {
			return
		}
	}
	copy(fits, before)
	admissible(limits, pod, fits, lean{})
}

// A lean is the correction that is added to amounts whose exact value is not known, because they are not whole bytes.
type lean struct{ request, limit, level int64 }

// leans are tried in this order until the API server certainly admits the pod.
var leans = [...]lean{{}, {request: 1, limit: 1, level: -1}, {request: -1, limit: 1, level: -1}, {request: -1, limit: -1, level: -1}}

func admissible(limits Limits, pod *cluster.Pod, fits []Fitted, by lean) {
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

// fewContainers is a number of containers that most pods do not exceed. The sizes of these pods need no allocation.
const fewContainers = 6

// A value is an amount of one resource, which may be absent.
type value struct {
	v      int64
	set    bool
	fitted bool  // fits sets it or an amount that it depends on
	off    int64 // the exact amount differs from v by less than this; 0 if v is exact
}

func valueOf(r cluster.Resources, res cluster.Resource) value {
	v, ok := r.Get(res)
	return value{v: v, set: ok}
}

func (a value) equal(b value) bool { return a.v == b.v && a.set == b.set }

// above reports whether a is above b. If the exact amounts are not known, it reports for values that fits sets whether a may be above
// b, and for other values whether a is certainly above b, because the API server has admitted them.
func (a value) above(b value) bool {
	if a.fitted || b.fitted {
		return a.v+a.off > b.v-b.off
	}
	return a.v-a.off > b.v+b.off
}

// A pair is a request and a limit of one resource.
type pair struct{ request, limit value }

// A rule contains the bounds of a LimitRange for a pair.
type rule struct{ low, high, ratio value }

// atMost returns the highest limit that the ratio allows for a request.
func (r rule) atMost(request int64) int64 {
	if !r.ratio.set {
		return math.MaxInt64
	}
	v, _ := integer.Scaled(request, r.ratio.v, 1000)
	if v > request && r.ratioBroken(pair{value{v: request, set: true}, value{v: v, set: true}}) {
		v-- // the API server divides floating-point numbers
	}
	return v
}

// atLeast returns the lowest request that the ratio allows for a limit.
func (r rule) atLeast(limit int64) int64 {
	if !r.ratio.set {
		return 0
	}
	v, _ := integer.ScaledUp(limit, 1000, r.ratio.v)
	if v < limit && r.ratioBroken(pair{value{v: v, set: true}, value{v: limit, set: true}}) {
		v++
	}
	return v
}

func (r rule) ratioBroken(p pair) bool {
	limit, request := p.limit.v-p.limit.off, p.request.v+p.request.off
	if p.limit.fitted || p.request.fitted {
		limit, request = p.limit.v+p.limit.off, max(p.request.v-p.request.off, 0)
	}
	return float64(limit)/float64(request)*1000 > float64(r.ratio.v)
}

// isBelowMin reports whether an amount is below the minimum. Bounds are rounded inwards, so that they are exact for whole amounts.
func (r rule) isBelowMin(a value) bool {
	low := r.low
	if a.fitted {
		low.off = 0
	}
	return low.set && low.above(a)
}

// isAboveMax reports whether an amount is above the maximum.
func (r rule) isAboveMax(a value) bool {
	high := r.high
	if a.fitted {
		high.off = 0
	}
	return high.set && a.above(high)
}

// A size is the request and limit of one container for one resource, with fits set on the pod.
type size struct {
	pair
	rule
	role        cluster.ContainerRole
	name        string
	own, before pair     // own: in the spec; before: with fits, before changes
	fit         *Fitted  // nil if the container is not in fits
	sets        struct { // the amounts that fits sets, which may be changed
		request, limit bool
	}
}

// sizes contains the requests and limits of a pod for one resource.
type sizes struct {
	rule       // of the pod LimitRange
	level      pair
	containers []size
	limitsKept bool // the policy of a container keeps limits, so the pod-level limit is kept, too
}

// sizesOf returns the sizes for one resource as the API server computes them. It uses the capacity of buffer if that is sufficient. An
// absent request is set to the limit, and amounts that are still absent to the default of the container LimitRange.
func sizesOf(buffer []size, limits Limits, pod *cluster.Pod, fits []Fitted, res cluster.Resource) sizes {
	var off, boundOff int64
	if res == cluster.Memory {
		off, boundOff = offOf(pod.Fractions || limits.Range.Fractions), offOf(limits.Range.Fractions)
	}
	amounts := sizes{
		rule: rule{
			low:   valueOf(limits.Range.Pod.Min, res).within(boundOff),
			high:  valueOf(limits.Range.Pod.Max, res).within(boundOff),
			ratio: valueOf(limits.Range.PodRatio, res),
		},
		containers: slices.Grow(buffer, len(pod.Containers)),
	}
	of := rule{
		low:   valueOf(limits.Range.Container.Min, res).within(boundOff),
		high:  valueOf(limits.Range.Container.Max, res).within(boundOff),
		ratio: valueOf(limits.Range.ContainerRatio, res),
	}
	for i := range pod.Containers {
		container := &pod.Containers[i]
		amounts.containers = append(amounts.containers, size{name: container.Name, role: container.Role, rule: of})
		sized := &amounts.containers[i]
		written := pair{valueOf(container.Requests, res), valueOf(container.Limits, res)}
		sized.own = defaulted(written, limits.Range, res)
		sized.pair = written
		for j := range fits {
			if f := &fits[j]; container.Role == cluster.Regular && f.Container == container.Name {
				sized.fit = f
				sized.setBy(f, res)
				amounts.limitsKept = amounts.limitsKept || f.LimitsKept
			}
		}
		sized.pair = defaulted(sized.pair, limits.Range, res)
		sized.request, sized.limit = sized.request.within(off), sized.limit.within(off)
		sized.before = sized.pair
	}
	if pod.PodLevel != nil {
		amounts.level = pair{valueOf(pod.PodLevel.Requests, res).within(off), valueOf(pod.PodLevel.Limits, res).within(off)}
	}
	return amounts
}

func offOf(rounded bool) int64 {
	if rounded {
		return 1
	}
	return 0
}

// within returns a value that differs from the exact amount by less than this, unless fits sets it.
func (a value) within(off int64) value {
	if a.set && !a.fitted {
		a.off = off
	}
	return a
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

func (z *size) setBy(f *Fitted, res cluster.Resource) {
	if request := valueOf(f.Requests, res); request.set {
		request.fitted = true
		z.request, z.sets.request = request, true
	}
	if limit := valueOf(f.Limits, res); limit.set {
		limit.fitted = true
		z.limit, z.sets.limit = limit, true
	}
}

// Defaulted returns the requests and limits of a container after the API server has added defaults, which it also does at each
// resize: an absent request is set to the limit, and amounts that are still absent to the default of the LimitRange.
func (l Limits) Defaulted(requests, limits cluster.Resources) (cluster.Resources, cluster.Resources) {
	for _, res := range cluster.All {
		p := defaulted(pair{valueOf(requests, res), valueOf(limits, res)}, l.Range, res)
		if p.request.set {
			requests = requests.Set(res, p.request.v)
		}
		if p.limit.set {
			limits = limits.Set(res, p.limit.v)
		}
	}
	return requests, limits
}

func defaulted(p pair, l cluster.LimitRange, res cluster.Resource) pair {
	if !p.request.set {
		p.request = p.limit
	}
	if !p.limit.set {
		p.limit = valueOf(l.Container.Default, res)
	}
	if !p.request.set {
		p.request = valueOf(l.DefaultRequest, res)
	}
	return p
}

// bound moves the size of a container into the container LimitRange, and its request to at most its limit.
func (z *size) bound() {
	if !z.sets.request || z.high.set && !z.limit.set {
		return // a maximum refuses a container without limit for any request
	}
	request := z.request.v
	if z.low.set {
		request = max(request, z.low.v)
	}
	if z.high.set {
		request = min(request, z.high.v)
	}
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
		z.limit.v = z.inLimit(limit, request)
	}
	z.request.v = request
}

// inLimit returns the nearest limit that is within the LimitRange and not below the request.
func (z *size) inLimit(limit, request int64) int64 {
	if z.low.set {
		limit = max(limit, z.low.v)
	}
	if z.high.set {
		limit = min(limit, z.high.v)
	}
	return max(min(limit, z.atMost(request)), request)
}

// write writes changes to the fitted container.
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
	note(&z.fit.Notes, res, HeldToAdmitted)
}

// fitPodLevel adapts the pod-level resources to the containers. The pod-level request changes by the sum of the changes of container
// requests. A container that had no request gets one out of the part of the pod-level request that the other containers do not use.
// The pod-level request is never below the sum of the requests of the containers. The pod-level limit keeps its ratio to the request.
// If limits are kept, the containers share the pod-level limit.
func (s *sizes) fitPodLevel() {
	if !s.level.request.set && !s.level.limit.set {
		return
	}
	own, _ := s.aggregate(ownRequest)
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
		if before.request.v > 0 {
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

func fittedValue(v int64) value { return value{v: v, set: true, fitted: true} }

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
	if !s.level.request.set {
		s.lowerRequests(most)
		return
	}
	if s.level.request.v <= most {
		return
	}
	s.lowerRequests(most)
	sum, _ := s.requests()
	s.level.request.v = max(most, sum.v)
}

func (s *sizes) lowerLimitTo(most int64) {
	switch {
	case !s.level.limit.set:
		s.lowerLimits(most)
	case !s.limitsKept && s.level.limit.v > most:
		s.level.limit.v = max(most, s.level.request.v)
		s.boundByLevel()
	}
}

func (s *sizes) raiseRequestTo(least int64) {
	switch {
	case !s.level.request.set:
		s.raiseRequests(least)
	case s.level.request.v >= least:
	case s.level.limit.set && s.limitsKept:
		s.level.request.v = max(min(least, s.level.limit.v), s.level.request.v)
	default:
		s.level.request.v = least
		s.level.limit.v = max(s.level.limit.v, least)
	}
}

func (s *sizes) raiseLimitTo(least int64) {
	switch {
	case !s.level.limit.set:
		s.raiseLimits(least)
	case !s.limitsKept:
		s.level.limit.v = max(s.level.limit.v, least)
	}
}

// total returns the request and limit of the pod.
func (s *sizes) total() pair {
	var total pair
	total.request, _ = s.requests()
	total.limit, _ = s.limits()
	if s.level.request.set {
		total.request = s.level.request
	}
	if s.level.limit.set {
		total.limit = s.level.limit
	}
	return total
}

func (s *sizes) requests() (total value, running int64) {
	return s.aggregate(fittedRequest)
}

func (s *sizes) limits() (total value, running int64) {
	return s.aggregate(fittedLimit)
}

// A part is a part of a size that can be added up.
type part uint8

const (
	ownRequest part = iota
	fittedRequest
	fittedLimit
)

func (z *size) part(p part) value {
	switch p {
	case ownRequest:
		return z.own.request
	case fittedRequest:
		return z.request
	default: // fittedLimit
		return z.limit
	}
}

// aggregate returns the total of a pod as the API server computes it: the maximum of the sum over containers and sidecars, and of each
// init container plus the sidecars before it. It also returns the sum over containers and sidecars.
func (s *sizes) aggregate(of part) (total value, running int64) {
	var sidecars, first int64
	var off, sidecarsOff, firstOff int64
	for i := range s.containers {
		sized := &s.containers[i]
		amount := sized.part(of)
		if !amount.set {
			continue
		}
		total.set = true
		total.fitted = total.fitted || amount.fitted
		switch sized.role {
		case cluster.Regular:
			running, off = integer.Sum(running, amount.v), off+amount.off
		case cluster.Sidecar:
			running, sidecars = integer.Sum(running, amount.v), integer.Sum(sidecars, amount.v)
			off, sidecarsOff = off+amount.off, sidecarsOff+amount.off
		case cluster.Init:
			first, firstOff = max(first, integer.Sum(sidecars, amount.v)), max(firstOff, sidecarsOff+amount.off)
		}
	}
	total.v = max(running, first)
	total.off = max(max(integer.Sum(running, off), integer.Sum(first, firstOff))-total.v, total.v-max(running-off, first-firstOff))
	return total, running
}

// lowerRequests lowers the requests that fits sets until their sum over the pod is at most the given amount, as far as their own
// bounds allow.
func (s *sizes) lowerRequests(most int64) {
	_, running := s.requests()
	s.spread(running-most, requestDown)
}

// lowerLimits lowers the limits that fits sets until their sum over the pod is at most the given amount, and the requests in
// proportion. If that is not sufficient, it lowers limits further without requests.
func (s *sizes) lowerLimits(most int64) {
	_, running := s.limits()
	left := s.spread(running-most, limitDown)
	s.spread(left, limitDownAlone)
}

// raiseRequests raises the requests that fits sets until their sum over the pod is at least the given amount.
func (s *sizes) raiseRequests(least int64) {
	if total, running := s.requests(); total.set && total.v < least {
		s.spread(least-running, requestUp)
	}
}

// raiseLimits raises the limits that fits sets until their sum over the pod is at least the given amount, and the requests in
// proportion.
func (s *sizes) raiseLimits(least int64) {
	if total, running := s.limits(); total.set && total.v < least {
		s.spread(least-running, limitUp)
	}
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

// apply makes a move.
func (z *size) apply(m move, by int64) {
	var limit int64
	switch m {
	case requestDown:
		z.resize(z.request.v - by)
		return
	case requestUp:
		z.resize(z.request.v + by)
		return
	case limitDown, limitDownAlone:
		limit = z.limit.v - by
	case limitUp:
		limit = z.limit.v + by
	}
	request, _ := integer.Scaled(z.request.v, limit, z.limit.v)
	request = max(request, z.atLeast(limit), z.leastRequest())
	z.request.v, z.limit.v = min(request, limit), limit
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

// PodLevelOf returns the pod-level resources of a pod with fits set on it; nil if it has none.
func PodLevelOf(p *cluster.Pod, fits []Fitted) *cluster.PodResources {
	if p.PodLevel == nil || len(fits) == 0 || fits[0].PodLevel == nil {
		return p.PodLevel
	}
	to := fits[0].PodLevel
	return &cluster.PodResources{Requests: to.Requests.Or(p.PodLevel.Requests), Limits: to.Limits.Or(p.PodLevel.Limits)}
}
