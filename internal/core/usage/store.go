// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package usage aggregates the usage samples of containers into one ContainerHistory per container of a workload.
//
// History belongs to the workload, the topmost controller, and not to a pod or a set of labels: rollouts,
// StatefulSet ordinals and Jobs add to one ContainerHistory. Histograms equal upstream's bit for bit, except for the
// differences that docs/migrate.md lists.
//
// A Store is not safe for concurrent use: one goroutine owns it. It has no clock. A sample never makes it fail:
// invalid samples are rejected and counted.
package usage

import (
	"math"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/startup"
)

// A Sample is the usage of one container at one time.
type Sample struct {
	Pod       cluster.Key
	Container string
	At        time.Time   // when it was measured; the end of the measuring window
	CPU       float64     // cores
	Memory    float64     // bytes
	Has       cluster.Set // which of the two were measured
	Peak      bool        // Memory is the highest of a run that has ended (runs.Run.Peak), and no sample of usage
	Earlier   bool        // it was read before the history was restored, which may contain it
	Reading   bool        // it is only for the run, and CPU is the mean since its start (runs.Run.Read)

	Ran Ran // requests, limits and start of the container; the Store sets it for extensions
}

// A PodContainer is a container of a pod.
type PodContainer struct {
	Pod       cluster.Key
	Container string
}

// Of returns the container that the sample is of.
func (s *Sample) Of() PodContainer { return PodContainer{s.Pod, s.Container} }

// Substitute returns a pod of a workload with this container only, to track for the samples of a pod that is gone: its other containers are not known.
func (c PodContainer) Substitute(of cluster.Workload) *cluster.Pod {
	key := cluster.Key{Namespace: c.Pod.Namespace, Name: c.Pod.Name + "/" + c.Container} // not a valid pod name, so it is unique
	return &cluster.Pod{Key: key, UID: key.String(), Top: of, Phase: cluster.Succeeded, Containers: []cluster.Container{{Name: c.Container}}}
}

// Present returns what the sample says about the present usage of the container: nothing if it is older than ten minutes, and no impossible amounts.
func (s *Sample) Present(now time.Time) (used cluster.Resources) {
	const outdated = 10 * time.Minute
	if now.Sub(s.At) > outdated {
		return used
	}
	if s.Has.Has(cluster.CPU) && s.CPU >= 0 && s.CPU <= MaxCores { // false for NaN
		used = used.Set(cluster.CPU, int64(s.CPU*1000+0.5))
	}
	if s.Has.Has(cluster.Memory) && s.Memory >= 0 && s.Memory <= MaxBytes {
		used = used.Set(cluster.Memory, int64(s.Memory))
	}
	return used
}

// Ran has the requests and limits of a container when it was measured, 0 for none, and its last start.
type Ran struct {
	CPURequest, CPULimit int32 // millicores
	MemoryLimit          int64 // bytes
	Started              int64 // Unix seconds (cluster.Container.Started); 0: not known
}

// Samples above these limits are rejected: no machine has more. They are 100 times the highest bucket of the histograms.
const (
	MaxCores = 1e5
	MaxBytes = 1e14
)

// SampleWeight is the weight of a CPU sample, unless an Extension sets another one (CPUWeight). Upstream weighed samples by the
// request until 1.3.
const SampleWeight = 0.1

// KnownStart is the time without samples before the first sample of a container after which that sample shows its start: several times the
// usual interval of samples. It is for recorded usage.
const KnownStart = 10 * time.Minute

// A Store keeps the ContainerHistory of each container of each workload.
type Store struct {
	HoldKills bool // OOM kills are not added yet

	cfg       Config
	rules     rules // of containers without rules of their own
	pods      map[cluster.Key]*pod
	workloads map[cluster.Workload]*workload
	clock
	rejected rejected
	most     struct{ cores, bytes float64 } // the largest plausible usage of a container
	steps    uint64                         // number of series and instances visited; a test checks that it grows linearly
}

// A workload has tracked pods, history or an autoscaler.
type workload struct {
	key      cluster.Workload
	series   []*ContainerHistory // sorted by container
	policies []cluster.ContainerPolicy
	extend   func() Extension // nil without an extension
	edition  uint32           // incremented each time extend is set
	pods     int32            // tracked
	live     int32            // of these, live
	governed bool             // an autoscaler sizes it
	starts   bool             // the starts of its containers are kept (LearnStarts)
	runs     bool             // the runs of its containers are kept (Config.Runs)
}

// A pod is tracked: its samples are accepted.
type pod struct {
	workload  *workload
	instances []instance // never appended to: series point into it
	uid       uint64     // hash
	live      bool
}

// newPod returns a pod with capacity for n instances. The single instance of most pods is allocated together with the pod.
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

// NewStore returns an empty Store.
func NewStore(c Config) *Store {
	b := &Store{
		cfg:       c,
		rules:     rules{interval: c.MemoryInterval, count: c.MemoryCount, ratio: c.OOMBumpRatio, minBump: c.OOMMinBump},
		pods:      make(map[cluster.Key]*pod),
		workloads: make(map[cluster.Workload]*workload),
	}
	b.BoundBy(nil)
	return b
}

// BoundBy rejects samples above the largest of the nodes, with a tenth for errors of measurement, from now on. A broken source of metrics would else
// fill the largest node. Without nodes, MaxCores and MaxBytes are the bounds.
func (b *Store) BoundBy(nodes []cluster.Node) {
	const tolerance = 1.1
	var largest cluster.Resources
	for i := range nodes {
		largest = largest.Highest(nodes[i].Capacity)
	}
	b.most.cores, b.most.bytes = MaxCores, MaxBytes
	if largest.CPU > 0 {
		b.most.cores = min(tolerance*float64(largest.CPU)/1000, MaxCores)
	}
	if largest.Memory > 0 {
		b.most.bytes = min(tolerance*float64(largest.Memory), MaxBytes)
	}
}

// Tick sets the current time. Samples from the future are rejected from the first Tick on. If the clock has been set back, stored
// times in the future are moved to the present.
func (b *Store) Tick(now time.Time) {
	if !b.clock.set(now) {
		return
	}
	for _, wl := range b.workloads {
		for _, s := range wl.series {
			s.rewind(&b.clock)
		}
	}
}

// Track adds or updates a pod. Call it for every new and changed pod; it is idempotent. It returns whether the pod is tracked:
// a pod whose topmost owner is not known yet is not tracked, and a pod whose owner is no longer found keeps the owner it had.
func (b *Store) Track(observed *cluster.Pod) bool {
	tracked := b.pods[observed.Key]
	uid := hash(observed.UID)
	if tracked != nil && (tracked.uid != uid || !observed.Top.IsZero() && tracked.workload.key != observed.Top || !b.sameContainers(tracked, observed)) {
		b.Forget(observed.Key)
		tracked = nil
	}
	if tracked == nil {
		if observed.Top.IsZero() {
			return false
		}
		tracked = b.enter(observed, uid)
		b.pods[observed.Key] = tracked
	}
	tracked.note(&b.cfg, observed, seconds(b.now))
	tracked.setLive(observed.Live())
	return true
}

// Forget removes a pod. Its usage stays in the history of the workload.
func (b *Store) Forget(key cluster.Key) {
	t := b.pods[key]
	if t == nil {
		return
	}
	delete(b.pods, key)
	t.setLive(false)
	for i := range t.instances {
		in := &t.instances[i]
		in.series.unlink(in)
		b.steps++
	}
	t.workload.pods--
}

// Tracked reports whether a pod is tracked, so that its samples are accepted.
func (b *Store) Tracked(key cluster.Key) bool { return b.pods[key] != nil }

// Observe adds a sample and returns which of its resources were accepted. It does not allocate.
func (b *Store) Observe(sample Sample) cluster.Set {
	if sample.Earlier && !lacks(b, &sample) {
		return 0
	}
	instance, at := b.find(sample.Pod, sample.Container, sample.At)
	if instance == nil {
		return 0
	}
	if sample.Peak || sample.Reading {
		if !b.rejected.plausible(sample.Memory, b.most.bytes) || !b.rejected.plausible(sample.CPU, b.most.cores) {
			return 0
		}
		return instance.observeOfRun(&sample)
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
		instance.pod.workload.observeRun(instance.series, &sample, taken)
		if e := instance.series.extension; e != nil && !instance.series.alreadyObserved(sample.At) {
			sample.Ran = instance.ran
			e.Observe(sample, taken)
		}
	}
	return taken
}

// lacks reports whether the restored history cannot contain a sample: it is newer than the last one of the pod or, if none of the pod was stored, than the
// history itself.
func lacks(b *Store, sample *Sample) bool {
	p := b.pods[sample.Pod]
	if p == nil || !p.workload.governed {
		return false
	}
	in, at := p.instance(sample.Container), sample.At.UnixNano()
	return in != nil && at > max(in.lastCPU, in.lastMemory) && (in.lastCPU > 0 || at > in.series.savedAt)
}

func (b *Store) observeCPU(instance *instance, cores float64, at int64) bool {
	switch {
	case !b.rejected.plausible(cores, b.most.cores):
		return false
	case at == instance.lastCPU:
		return b.rejected.add(Repeated)
	case at < instance.lastCPU:
		return b.rejected.add(OutOfOrder)
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
	if instance.starting != nil {
		instance.observeStart(cores, at, b.now)
	}
	return true
}

func (b *Store) observeMemory(instance *instance, bytes float64, at int64) bool {
	switch {
	case !b.rejected.plausible(bytes, b.most.bytes):
		return false
	case bytes < 1:
		return b.rejected.add(NoMemory)
	case at < instance.lastMemory:
		return b.rejected.add(OutOfOrder)
	}
	repeated := at == instance.lastMemory
	instance.addMemory(int64(bytes), at, false)
	if repeated { // the peak may be raised, but the sample is not counted
		return b.rejected.add(Repeated)
	}
	instance.series.memory.add(at)
	return true
}

// find returns the instance and the time of a sample, or counts a rejection and returns nil.
func (b *Store) find(key cluster.Key, container string, when time.Time) (*instance, int64) {
	p := b.pods[key]
	if p == nil {
		b.rejected.add(UnknownPod)
		return nil, 0
	}
	instance := p.instance(container)
	at, ok := nanos(when)
	switch {
	case instance == nil:
		b.rejected.add(UnknownContainer)
	case !ok:
		b.rejected.add(BadTime)
	case b.lead(at) > 0:
		b.rejected.add(Ahead)
	default:
		return instance, at
	}
	return nil, 0
}

// Configure records that an autoscaler sizes a workload, and its policies. Aggregation rules in the policies apply from now on;
// rules that are no longer set return to those of the Config.
func (b *Store) Configure(w cluster.Workload, policies []cluster.ContainerPolicy) {
	wl := b.workload(w)
	wl.governed = true
	wl.policies = nil
	if slices.ContainsFunc(policies, overrides) {
		wl.policies = policies
	}
	wl.rule(&b.rules)
}

// Release records that no autoscaler sizes a workload.
func (b *Store) Release(w cluster.Workload) {
	if wl := b.workloads[w]; wl != nil {
		wl.governed = false
		wl.policies = nil
		wl.rule(&b.rules)
	}
}

// Extend sets how extensions are created for the current and later histories of the containers of a workload. Nil removes the extensions.
func (b *Store) Extend(w cluster.Workload, extension func() Extension) {
	wl := b.workload(w)
	wl.extend = extension
	wl.edition++
	for _, s := range wl.series {
		if extension == nil {
			s.extension = nil
		} else if s.extension == nil && !s.runs.IsInit() {
			_ = s.extend(extension) // if stored state cannot be decoded, the extension starts empty
		}
	}
}

// Series returns the history of a container, or nil.
func (b *Store) Series(w cluster.Workload, container string) *ContainerHistory {
	if wl := b.workloads[w]; wl != nil {
		if i, ok := wl.find(container); ok {
			return wl.series[i]
		}
	}
	return nil
}

// All returns every ContainerHistory of a workload, sorted by container, including stale ones. The slice belongs to the Store: do not change
// it, and do not keep it until the next call.
func (b *Store) All(w cluster.Workload) []*ContainerHistory {
	if wl := b.workloads[w]; wl != nil {
		return wl.series
	}
	return nil
}

// Containers returns the names of the containers of a workload's live pods, sorted, without ordinary init containers. If there is no live pod, it
// returns those of the last live pods.
func (b *Store) Containers(w cluster.Workload) []string {
	var names []string
	for _, s := range b.All(w) {
		if !s.stale && !s.runs.IsInit() {
			names = append(names, s.container)
		}
	}
	return names
}

// Size returns how many pods are tracked and how many container histories are kept.
func (b *Store) Size() (pods, series int) {
	for _, wl := range b.workloads {
		series += len(wl.series)
	}
	return len(b.pods), series
}

func (b *Store) workload(key cluster.Workload) *workload {
	return cluster.Memo(&b.workloads, key, func() *workload { return &workload{key: key, runs: b.cfg.Runs && HasRuns(key)} })
}

func (wl *workload) find(container string) (int, bool) {
	return slices.BinarySearchFunc(wl.series, container, func(s *ContainerHistory, name string) int {
		return strings.Compare(s.container, name)
	})
}

// series returns the ContainerHistory of a container. It creates it if necessary.
func (b *Store) series(wl *workload, container string) *ContainerHistory {
	i, ok := wl.find(container)
	b.steps += uint64(1 + len(wl.series)/4)
	if ok {
		return wl.series[i]
	}
	created := &ContainerHistory{
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
	created.rule(&b.rules)
	return created
}

// rule applies the policies of a workload to the histories of its containers. The usual rules are those of the Store.
func (wl *workload) rule(usual *rules) {
	for _, s := range wl.series {
		s.rule(usual)
	}
}

func (s *ContainerHistory) rule(usual *rules) {
	before := s.rules
	all := cluster.Autoscaler{Policies: s.load.policies}
	after := usual.with(all.Policy(s.container))
	switch after {
	case *before:
		return
	case *usual:
		s.rules = usual
	default:
		s.rules = new(after)
	}
	for in := s.instances; in != nil; in = in.next {
		in.rewindow(int64(before.interval), int64(after.interval))
	}
}

func (b *Store) sameContainers(tracked *pod, p *cluster.Pod) bool {
	i := 0
	for c := range p.Containers {
		if !b.cfg.measures(&p.Containers[c]) {
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

// enter creates a tracked pod that is not live yet.
func (b *Store) enter(observed *cluster.Pod, uid uint64) *pod {
	n := 0
	for i := range observed.Containers {
		if b.cfg.measures(&observed.Containers[i]) {
			n++
		}
	}
	tracked := newPod(n)
	tracked.workload = b.workload(observed.Top)
	tracked.uid = uid
	tracked.workload.pods++
	for i := range observed.Containers {
		if c := &observed.Containers[i]; b.cfg.measures(c) {
			tracked.instances = append(tracked.instances, instance{pod: tracked})
			in := &tracked.instances[len(tracked.instances)-1]
			if tracked.workload.starts && b.now != 0 && c.IsSized() {
				in.starting = startup.NewObserver(observed.Started, stamp(b.now))
			}
			s := b.series(tracked.workload, c.Name)
			tracked.workload.setInit(s, c.Role == cluster.Init)
			s.link(in)
			s.resume(in)
			b.steps++
		}
	}
	return tracked
}

// note records requests, limits and starts of the containers of a tracked pod. now is in Unix seconds.
func (t *pod) note(cfg *Config, p *cluster.Pod, now int64) {
	next := 0
	for i := range p.Containers {
		c := &p.Containers[i]
		if !cfg.measures(c) {
			continue
		}
		requests, limits := c.Running()
		in := &t.instances[next]
		in.ran = Ran{
			CPURequest:  int32(min(requests.CPU, math.MaxInt32)),
			CPULimit:    int32(min(limits.CPU, math.MaxInt32)),
			MemoryLimit: limits.Memory,
			Started:     p.StartOf(c),
		}
		if in.starting != nil && !in.starting.Note(p, c) {
			in.starting = nil
		}
		t.workload.noteRun(in.series, p, c, now)
		next++
	}
}

func (t *pod) instance(container string) *instance {
	return cluster.Find(t.instances, func(in *instance) bool { return in.series.container == container })
}

// setLive updates the counts of live pods, and which container histories are stale.
func (t *pod) setLive(live bool) {
	if t.live == live {
		return
	}
	t.live = live
	wl := t.workload
	by := int32(-1)
	if live {
		by = 1
	}
	wl.live += by
	if live && wl.live == 1 {
		for _, s := range wl.series {
			s.stale = true
		}
	}
	for i := range t.instances {
		s := t.instances[i].series
		s.live += by
		if live || s.live == 0 {
			s.stale = !live && wl.live > 0
		}
	}
}

// hash is FNV-1a. It must not change, because checkpoints contain hashes of UIDs.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// Prune removes expired container histories and returns them, sorted, so that their checkpoints can be deleted. A ContainerHistory expires if no tracked
// pod has the container, and
//
//   - it has neither samples nor runs, or
//   - its last sample is older than the length of history (8 days by default).
//
// The containers of the last pods of a workload with an autoscaler do not expire: a monthly job starts its next run with the
// history of the last one.
func (b *Store) Prune(now time.Time) []Ref {
	var gone []Ref
	for key, wl := range b.workloads {
		wl.series = slices.DeleteFunc(wl.series, func(history *ContainerHistory) bool {
			history.forgetWindows(now.UnixNano())
			last := history.lastKnown()
			switch {
			case history.instances != nil:
				return false
			case last == 0 && len(history.runs.All()) == 0: // no samples
			case wl.governed && !history.stale:
				return false
			case now.UnixNano()-last < int64(history.rules.keep()):
				return false
			}
			gone = append(gone, Ref{key, history.container})
			return true
		})
		if len(wl.series) == 0 {
			wl.series = nil
			if wl.pods == 0 && !wl.governed && wl.extend == nil {
				delete(b.workloads, key)
			}
		}
	}
	slices.SortFunc(gone, Ref.Compare)
	return gone
}

// forgetWindows removes restored windows that have ended, and the protection against observing samples twice when it is no longer
// needed.
func (s *ContainerHistory) forgetWindows(now int64) {
	if s.restored == nil {
		return
	}
	s.restored.windows = slices.DeleteFunc(s.restored.windows, func(w window) bool {
		return w.used || s.awaits(&w) <= now
	})
	if s.lastSeen() != 0 && len(s.restored.windows) == 0 && len(s.restored.history.Data) == 0 && now-s.restored.observedUntil > int64(time.Hour) {
		s.restored = nil
	}
}
