// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package usage keeps what containers have used: samples go in, a Series per container of a workload comes out.
//
// History belongs to the workload, the topmost controller, and not to a pod or a set of labels: rollouts,
// StatefulSet ordinals and Jobs add to one Series. What a Series holds is upstream's to the last bit where
// upstream is right; docs/migrate.md lists where it is not.
//
// A Book is not safe for concurrent use: one goroutine owns it. It knows no clock, and never fails because of
// a sample: what makes no sense is rejected and counted.
package usage

import (
	"math"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
)

// A Sample is what one container used at one time.
type Sample struct {
	Pod       cluster.Key
	Container string
	At        time.Time   // when it was measured; the end of the measuring window
	CPU       float64     // cores
	Memory    float64     // bytes
	Has       cluster.Set // which of the two were measured

	Ran Ran // what the container ran with; the Book fills it in when it passes the sample on
}

// Ran is what a container ran with when it was measured; 0 for none.
type Ran struct {
	CPURequest, CPULimit int32 // millicores
	MemoryLimit          int64 // bytes
}

// What no machine has, a hundred times the highest bucket: nothing but a broken source reports more.
const (
	maxCores = 1e5
	maxBytes = 1e14
)

// SampleWeight is the weight of a CPU sample, unless an Extension sets another one (CPUWeight). Upstream weighed samples by the
// request until 1.3.
const SampleWeight = 0.1

// A Book keeps the Series of every workload.
type Book struct {
	cfg       Config
	rules     rules // of containers whose autoscaler sets none
	pods      map[cluster.Key]*pod
	workloads map[cluster.Workload]*workload
	now       int64 // Unix nanoseconds; 0 until the first Tick
	latest    int64 // the latest of what now has been since times were last drawn to it
	rejected  [rejections]uint64
	steps     uint64 // how many series and instances were looked at, ever: a test holds that it grows linearly
}

// A workload is one that has tracked pods, history or an autoscaler.
type workload struct {
	key      cluster.Workload
	series   []*Series // sorted by container
	policies []cluster.ContainerPolicy
	extend   func() Extension // nil unless asked for
	edition  uint32           // how often it was asked for
	pods     int32            // tracked
	live     int32            // of these, live
	governed bool             // an autoscaler sizes it
}

// A pod is one whose samples are taken.
type pod struct {
	workload  *workload
	instances []instance // never appended to: series point into it
	uid       uint64     // hash
	live      bool
}

// newPod returns a pod with room for n instances. Most pods have one: it stands beside its pod in memory.
func newPod(n int) *pod {
	if n == 1 {
		one := new(struct {
			pod
			only [1]instance
		})
		one.instances = one.only[:0]
		return &one.pod
	}
	return &pod{instances: make([]instance, 0, n)}
}

// NewBook returns an empty Book.
func NewBook(c Config) *Book {
	return &Book{
		cfg:       c,
		rules:     c.rules(),
		pods:      make(map[cluster.Key]*pod),
		workloads: make(map[cluster.Workload]*workload),
	}
}

// Tick says what time it is. Samples from the future are refused from then on; without it nothing is. Where the clock has been
// set back, what was learnt is drawn to the present.
func (b *Book) Tick(now time.Time) {
	at, ok := nanos(now)
	if !ok {
		return
	}
	b.now = at
	b.latest = max(b.latest, at)
	if b.latest-at > int64(b.cfg.MaxAhead) { // in one step or several
		b.latest = at
		b.rewind()
	}
}

// Track says that a pod exists, and as what. Call it for every new and changed pod; nothing happens when nothing
// changed. It returns whether the pod is tracked: a pod whose topmost owner is not known yet is not, one whose
// owner cannot be found any more stays with the owner it had.
func (b *Book) Track(observed *cluster.Pod) bool {
	tracked := b.pods[observed.Key]
	uid := hash(observed.UID)
	if tracked != nil && (tracked.uid != uid || !observed.Top.IsZero() && tracked.workload.key != observed.Top || !b.sameContainers(tracked, observed)) {
		b.drop(tracked)
		delete(b.pods, observed.Key)
		tracked = nil
	}
	if tracked == nil {
		if observed.Top.IsZero() {
			return false
		}
		tracked = b.enter(observed, uid)
		b.pods[observed.Key] = tracked
	}
	b.note(tracked, observed)
	tracked.setLive(observed.Live())
	return true
}

// Forget says that a pod is gone. What it used stays in its workload's history.
func (b *Book) Forget(key cluster.Key) {
	if t := b.pods[key]; t != nil {
		b.drop(t)
		delete(b.pods, key)
	}
}

// Tracked reports whether samples of a pod are taken.
func (b *Book) Tracked(key cluster.Key) bool { return b.pods[key] != nil }

// Observe takes a sample and returns which of its resources were accepted. It does not allocate.
func (b *Book) Observe(sample Sample) cluster.Set {
	instance, at := b.find(sample.Pod, sample.Container, sample.At)
	if instance == nil {
		return 0
	}
	var taken cluster.Set
	if sample.Has.Has(cluster.CPU) && b.observeCPU(instance, sample.CPU, at) {
		taken = taken.With(cluster.CPU)
	}
	if sample.Has.Has(cluster.Memory) && b.observeMemory(instance, sample.Memory, at) {
		taken = taken.With(cluster.Memory)
	}
	if taken != 0 {
		instance.series.version++
		if e := instance.series.extension; e != nil && !instance.series.told(sample.At) {
			sample.Ran = instance.ran
			e.Observe(sample, taken)
		}
	}
	return taken
}

func (b *Book) observeCPU(instance *instance, cores float64, at int64) bool {
	switch {
	case !b.plausible(cores, maxCores):
		return false
	case at == instance.lastCPU:
		return b.reject(Repeated)
	case at < instance.lastCPU:
		return b.reject(OutOfOrder)
	}
	s := instance.series
	if s.alignCPU {
		s.alignCPU = false
		s.CPU.Align(stamp(at))
	}
	weight := SampleWeight
	if s.extension != nil {
		weight = s.extension.CPUWeight(float64(instance.ran.CPURequest) / 1000)
	}
	s.CPU.AddNanos(cores, weight, at)
	s.cpu.add(at)
	instance.lastCPU = at
	return true
}

func (b *Book) observeMemory(instance *instance, bytes float64, at int64) bool {
	switch {
	case !b.plausible(bytes, maxBytes):
		return false
	case bytes < 1:
		return b.reject(NoMemory)
	case at < instance.lastMemory:
		return b.reject(OutOfOrder)
	}
	repeated := at == instance.lastMemory
	instance.addMemory(int64(bytes), at, false)
	if repeated { // it may have raised the peak, but is not one more sample
		return b.reject(Repeated)
	}
	instance.series.memory.add(at)
	return true
}

// plausible reports whether a container can use so much, and counts it when not.
func (b *Book) plausible(v, limit float64) bool {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return b.reject(NotANumber)
	case v < 0:
		return b.reject(Negative)
	case v > limit:
		return b.reject(TooLarge)
	}
	return true
}

// find returns the instance a sample is from and the sample's time, or counts why there is none.
func (b *Book) find(key cluster.Key, container string, when time.Time) (*instance, int64) {
	p := b.pods[key]
	if p == nil {
		b.reject(UnknownPod)
		return nil, 0
	}
	instance := p.instance(container)
	if instance == nil {
		b.reject(UnknownContainer)
		return nil, 0
	}
	at, ok := nanos(when)
	if !ok {
		b.reject(BadTime)
		return nil, 0
	}
	if b.now != 0 && at > b.now+int64(b.cfg.MaxAhead) {
		b.reject(Ahead)
		return nil, 0
	}
	return instance, at
}

// reject counts a rejection. It returns false, so that a check can end with it.
func (b *Book) reject(r Rejection) bool {
	b.rejected[r]++
	return false
}

// Configure says that an autoscaler sizes a workload, and with which policies. What policies set of the rules by
// which samples are kept holds from now on; what they no longer set is as in the Config again.
func (b *Book) Configure(w cluster.Workload, policies []cluster.ContainerPolicy) {
	wl := b.workload(w)
	wl.governed = true
	wl.policies = nil
	for i := range policies {
		if overrides(&policies[i]) {
			wl.policies = policies
			break
		}
	}
	b.rule(wl)
}

// Release says that no autoscaler sizes a workload any more.
func (b *Book) Release(w cluster.Workload) {
	if wl := b.workloads[w]; wl != nil {
		wl.governed = false
		wl.policies = nil
		b.rule(wl)
	}
}

// Extend asks for an extension of every Series of a workload, now and later. A nil function ends that.
func (b *Book) Extend(w cluster.Workload, extension func() Extension) {
	wl := b.workload(w)
	wl.extend = extension
	wl.edition++
	for _, s := range wl.series {
		if extension == nil {
			s.extension = nil
		} else if s.extension == nil {
			_ = s.extend(extension) // what cannot be read begins anew
		}
	}
}

// Series returns what is known of a container of a workload, or nil.
func (b *Book) Series(w cluster.Workload, container string) *Series {
	if wl := b.workloads[w]; wl != nil {
		if i, ok := wl.find(container); ok {
			return wl.series[i]
		}
	}
	return nil
}

// All returns every Series of a workload, sorted by container, stale ones included. The slice is the Book's own:
// it must not be changed, nor be kept over the next call.
func (b *Book) All(w cluster.Workload) []*Series {
	if wl := b.workloads[w]; wl != nil {
		return wl.series
	}
	return nil
}

// Containers returns the names of a workload's containers, sorted: those its live pods have, or, when it has no
// live pod, those it last had.
func (b *Book) Containers(w cluster.Workload) []string {
	var names []string
	for _, s := range b.All(w) {
		if !s.stale {
			names = append(names, s.container)
		}
	}
	return names
}

// Size returns how many pods are tracked and how many Series are kept.
func (b *Book) Size() (pods, series int) {
	for _, wl := range b.workloads {
		series += len(wl.series)
	}
	return len(b.pods), series
}

// Pods returns how many pods of a workload are tracked, and how many of these are live.
func (b *Book) Pods(w cluster.Workload) (tracked, live int) {
	if wl := b.workloads[w]; wl != nil {
		return int(wl.pods), int(wl.live)
	}
	return 0, 0
}

func (b *Book) workload(key cluster.Workload) *workload {
	wl := b.workloads[key]
	if wl == nil {
		wl = &workload{key: key}
		b.workloads[key] = wl
	}
	return wl
}

func (wl *workload) find(container string) (int, bool) {
	return slices.BinarySearchFunc(wl.series, container, func(s *Series, name string) int {
		return strings.Compare(s.container, name)
	})
}

// series returns the Series of a container, made if there is none.
func (b *Book) series(wl *workload, container string) *Series {
	i, ok := wl.find(container)
	b.steps += uint64(1 + len(wl.series)/4)
	if ok {
		return wl.series[i]
	}
	created := &Series{
		CPU:       histogram.New(histogram.CPU, b.cfg.CPUHalfLife),
		Memory:    histogram.New(histogram.Memory, b.cfg.MemoryHalfLife),
		container: container,
		load:      wl,
		rules:     &b.rules,
		stale:     wl.live > 0,
	}
	if wl.extend != nil {
		created.extension = wl.extend()
	}
	wl.series = slices.Insert(wl.series, i, created)
	b.ruleSeries(wl, created)
	return created
}

// rule makes the policies of a workload hold for its Series.
func (b *Book) rule(wl *workload) {
	for _, s := range wl.series {
		b.ruleSeries(wl, s)
	}
}

func (b *Book) ruleSeries(wl *workload, s *Series) {
	before := s.rules
	after := b.rules.with(policyFor(wl.policies, s.container))
	switch after {
	case *before:
		return
	case b.rules:
		s.rules = &b.rules
	default:
		own := after
		s.rules = &own
	}
	for in := s.instances; in != nil; in = in.next {
		in.rewindow(int64(before.interval), int64(after.interval))
	}
}

// sized reports whether usage of a container is kept.
func (b *Book) sized(c *cluster.Container) bool {
	return c.Role == cluster.Regular || c.Role == cluster.Sidecar && b.cfg.Sidecars
}

func (b *Book) sameContainers(tracked *pod, p *cluster.Pod) bool {
	i := 0
	for c := range p.Containers {
		if !b.sized(&p.Containers[c]) {
			continue
		}
		if i == len(tracked.instances) || tracked.instances[i].series.container != p.Containers[c].Name {
			return false
		}
		i++
	}
	b.steps += uint64(i)
	return i == len(tracked.instances)
}

// enter makes a new tracked pod, not live yet.
func (b *Book) enter(observed *cluster.Pod, uid uint64) *pod {
	n := 0
	for i := range observed.Containers {
		if b.sized(&observed.Containers[i]) {
			n++
		}
	}
	tracked := newPod(n)
	tracked.workload = b.workload(observed.Top)
	tracked.uid = uid
	tracked.workload.pods++
	for i := range observed.Containers {
		if c := &observed.Containers[i]; b.sized(c) {
			tracked.instances = append(tracked.instances, instance{pod: tracked})
			in := &tracked.instances[len(tracked.instances)-1]
			s := b.series(tracked.workload, c.Name)
			s.link(in)
			s.resume(in)
			b.steps++
		}
	}
	return tracked
}

// note keeps what the containers of a tracked pod run with.
func (b *Book) note(t *pod, p *cluster.Pod) {
	next := 0
	for i := range p.Containers {
		c := &p.Containers[i]
		if !b.sized(c) {
			continue
		}
		requests, limits := c.Running()
		t.instances[next].ran = Ran{
			CPURequest:  int32(min(requests.CPU, math.MaxInt32)),
			CPULimit:    int32(min(limits.CPU, math.MaxInt32)),
			MemoryLimit: limits.Memory,
		}
		next++
	}
}

// drop ends the links of a pod.
func (b *Book) drop(t *pod) {
	t.setLive(false)
	for i := range t.instances {
		in := &t.instances[i]
		in.series.unlink(in)
		b.steps++
	}
	t.workload.pods--
}

func (p *pod) instance(container string) *instance {
	for i := range p.instances {
		if p.instances[i].series.container == container {
			return &p.instances[i]
		}
	}
	return nil
}

// setLive keeps the counts of live pods and what follows from them: which Series are stale.
func (p *pod) setLive(live bool) {
	if p.live == live {
		return
	}
	p.live = live
	wl := p.workload
	if !live {
		wl.live--
		for i := range p.instances {
			s := p.instances[i].series
			s.live--
			if s.live == 0 {
				s.stale = wl.live > 0
			}
		}
		return
	}
	wl.live++
	if wl.live == 1 {
		for _, s := range wl.series {
			s.stale = true
		}
	}
	for i := range p.instances {
		s := p.instances[i].series
		s.live++
		s.stale = false
	}
}

// hash is FNV-1a: short and stable, because hashes of UIDs stand in checkpoints.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
