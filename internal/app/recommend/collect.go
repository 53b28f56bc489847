// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
)

// A collector adds samples to the books, and collects what they show of each container.
type collector struct {
	scene    *scene
	books    []*book
	podOf    map[cluster.Key]cluster.Workload
	tracked  map[usage.PodContainer]trackedAs
	evidence map[usage.Ref]*collected

	throttling bool // the source measures throttling
}

// trackedAs is the pod in the stores that gets the samples of a container of a pod. Without a pod, the samples are not needed.
type trackedAs struct {
	pod cluster.Key
	to  *collected
}

// newCollector returns a collector whose books track the live pods.
func newCollector(s *scene, books []*book) *collector {
	c := &collector{
		scene: s, books: books, podOf: map[cluster.Key]cluster.Workload{},
		tracked: map[usage.PodContainer]trackedAs{}, evidence: map[usage.Ref]*collected{},
	}
	for _, p := range s.snapshot.Pods {
		c.podOf[p.Key] = p.Top
	}
	for _, b := range books {
		b.track()
	}
	return c
}

// observe adds a sample. owner is the workload of the pod if the source knows it, else zero.
func (c *collector) observe(s usage.Sample, owner cluster.Workload) {
	key := s.Of()
	as, known := c.tracked[key]
	if !known {
		as = c.track(key, owner)
		c.tracked[key] = as
	}
	if as.to == nil {
		return
	}
	s.Pod = as.pod
	var taken cluster.Set
	for _, b := range c.books {
		taken = b.store.Observe(s)
	}
	if !taken.Empty() {
		as.to.add(&s, taken, c.scene.Now)
	}
}

// track returns where the samples of a container of a pod belong. A pod that is gone is represented by one substitute per container,
// because its other containers are not known.
func (c *collector) track(of usage.PodContainer, owner cluster.Workload) trackedAs {
	pod := of.Pod
	top, exists := c.podOf[pod]
	if !exists {
		top = cmp.Or(owner, cluster.OwnerByName(pod))
	}
	if c.scene.byKey[top] == nil {
		return trackedAs{}
	}
	ref := usage.Ref{Workload: top, Container: of.Container}
	as := trackedAs{pod: pod, to: cluster.Memo(&c.evidence, ref, func() *collected { return &collected{ref: ref} })}
	if exists && c.books[0].store.Tracked(pod) {
		return as
	}
	substitute := of.Substitute(top)
	as.pod = substitute.Key
	for _, b := range c.books {
		b.store.Track(substitute)
	}
	return as
}

// finish adds the OOM kills in the status of pods, unless they are recorded, and evictions for lack of memory. Samples before these may no
// longer be added.
func (c *collector) finish() {
	for _, b := range c.books {
		for _, p := range c.scene.snapshot.Pods {
			if b.store.Tracked(p.Key) {
				b.store.ObserveExits(c.withoutRecorded(p))
			}
		}
		for _, e := range c.scene.evictions {
			b.store.ObserveOOM(e)
		}
	}
}

// withoutRecorded returns a pod without the OOM kills that the source of usage has recorded. A source that knows only the usage of all pods of
// a workload has recorded them for another instance.
func (c *collector) withoutRecorded(p *cluster.Pod) *cluster.Pod {
	out := *p
	out.Containers = slices.Clone(p.Containers)
	for i := range out.Containers {
		of := &out.Containers[i]
		e := c.evidence[usage.Ref{Workload: p.Top, Container: of.Name}]
		if of.Exit != nil && of.Exit.OOM && e != nil && !e.KilledLast.Before(of.Exit.Finished) {
			of.Exit = nil
		}
	}
	return &out
}

// A collected is what the samples of one container show.
type collected struct {
	review.Evidence
	ref   usage.Ref
	hours map[int64]uint64 // bit sets of 64 hours with samples each
	sum   [len(cluster.All)]float64
	count [len(cluster.All)]int

	throttled      float64 // sum of the shares of the hours
	throttledHours int
}

// add adds a sample of which some resources were accepted.
func (e *collected) add(s *usage.Sample, taken cluster.Set, now time.Time) {
	e.From = cluster.Earliest(e.From, s.At)
	e.To = cluster.Latest(e.To, s.At)
	e.Samples++
	hour := s.At.Unix() / 3600
	if at, bit := hour/64, uint64(1)<<(uint64(hour)%64); e.hours[at]&bit == 0 {
		cluster.Put(&e.hours, at, e.hours[at]|bit)
		e.Hours++
	}
	if taken.Has(cluster.CPU) {
		e.sum[0] += s.CPU * 1000
		e.count[0]++
	}
	if !taken.Has(cluster.Memory) {
		return
	}
	e.sum[1] += s.Memory
	e.count[1]++
	if d := int(now.Sub(s.At) / (24 * time.Hour)); d >= 0 && d < review.PeakDays {
		e.DayPeaks[d] = max(e.DayPeaks[d], int64(s.Memory))
	}
}

func (e *collected) result() review.Evidence {
	out := e.Evidence
	if e.throttledHours > 0 {
		out.Throttled = e.throttled / float64(e.throttledHours)
		out.ThrottledKnown = true
	}
	for i, res := range cluster.All {
		if e.count[i] > 0 {
			out.Used = out.Used.Set(res, int64(e.sum[i]/float64(e.count[i])))
		}
	}
	return out
}

// includes reports whether a workload is reviewed according to the flags and arguments.
func (c *Config) includes(w cluster.Workload) bool {
	switch {
	case process.MatchesNamespace(c.Excluded, w.Namespace), len(c.Namespaces) > 0 && !process.MatchesNamespace(c.Namespaces, w.Namespace):
		return false
	case len(c.Kinds) > 0 && !slices.ContainsFunc(c.Kinds, func(k string) bool { return isKind(k, w.Kind) }):
		return false
	}
	return len(c.Names) == 0 || slices.ContainsFunc(c.Names, func(name string) bool { return isNamed(name, w) })
}

// isNamed reports whether an argument KIND/NAME means a workload.
func isNamed(name string, w cluster.Workload) bool {
	kind, rest, _ := strings.Cut(name, "/")
	return rest == w.Name && isKind(kind, w.Kind)
}

// shortKinds are kubectl's short names of kinds, in lower case.
var shortKinds = map[string]string{
	"deploy": "deployment", "sts": "statefulset", "ds": "daemonset", "rs": "replicaset", "rc": "replicationcontroller", "cj": "cronjob", "po": "pod",
}

// isKind reports whether a name that a user wrote, such as deploy, deployments or Deployment, means a kind.
func isKind(written, kind string) bool {
	written, kind = strings.ToLower(written), strings.ToLower(kind)
	written, _, _ = strings.Cut(written, ".")
	written = cmp.Or(shortKinds[written], written)
	return written == kind || written == kind+"s"
}

// onlyNamespace returns the namespace if exactly one is reviewed, so that no right for other namespaces is needed.
func (c *Config) onlyNamespace() string {
	if len(c.Namespaces) == 1 && !strings.ContainsAny(c.Namespaces[0], `*?[\`) {
		return c.Namespaces[0]
	}
	return ""
}
