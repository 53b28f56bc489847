// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
)

const (
	day = 24 * time.Hour
	mib = 1 << 20
)

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cart = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}
)

// podOf returns a running pod of a workload. Its containers request 100m and 256 MiB.
func podOf(w cluster.Workload, name string, containers ...string) *cluster.Pod {
	p := &cluster.Pod{
		Key:   cluster.Key{Namespace: w.Namespace, Name: name},
		UID:   "uid-" + name,
		Top:   w,
		Phase: cluster.Running,
	}
	for i, c := range containers {
		p.Containers = append(p.Containers, cluster.Container{Name: c, Index: uint8(i), Requests: cluster.Amounts(100, 256*mib)})
	}
	return p
}

func sample(p *cluster.Pod, container string, at time.Time, cores, bytes float64) Sample {
	return Sample{Pod: p.Key, Container: container, At: at, CPU: cores, Memory: bytes, Has: cluster.Both}
}

func newBook() *Store { return NewStore(DefaultConfig()) }

// weightAt returns the weight of the bucket of an amount of memory, in peaks of a time.
func weightAt(h *histogram.Histogram, bytes float64, at time.Time) float64 {
	one := math.Exp2(float64(at.Sub(h.Checkpoint().Reference)) / float64(h.HalfLife()))
	for b, w := range h.All() {
		if b == h.Options().Bucket(bytes) {
			return w / one
		}
	}
	return 0
}

func wantPeaks(t *testing.T, s *ContainerHistory, at time.Time, peaks map[float64]float64) {
	t.Helper()
	total := 0.0
	for bytes, want := range peaks {
		if got := weightAt(&s.Memory, bytes, at); math.Abs(got-want) > 1e-6 {
			t.Errorf("a peak of %v MiB counts %v times, want %v", bytes/mib, got, want)
		}
		total += want
	}
	n := 0
	for range s.Memory.All() {
		n++
	}
	if n != len(peaks) {
		t.Errorf("%d buckets are in use, want %d", n, len(peaks))
	}
}

func TestObserve_podsOfOneWorkload_shareOneHistory(t *testing.T) {
	b := newBook()
	one, two := podOf(cart, "cart-1", "app", "proxy"), podOf(cart, "cart-2", "app", "proxy")
	b.Track(one)
	b.Track(two)
	for i := range 3 {
		at := noon.Add(time.Duration(i) * time.Minute)
		for _, p := range []*cluster.Pod{one, two} {
			if got := b.Observe(sample(p, "app", at, 0.3, 200*mib)); got != cluster.Both {
				t.Fatalf("accepted %v", got)
			}
		}
	}
	s := b.Series(cart, "app")
	for _, r := range cluster.All {
		want := Span{First: noon, Last: noon.Add(2 * time.Minute), Count: 6}
		if got := s.Seen(r); got != want {
			t.Errorf("%v: seen %v, want %v", r, got, want)
		}
	}
	wantPeaks(t, s, noon.Add(day), map[float64]float64{200 * mib: 2})
	if got, want := b.Containers(cart), []string{"app", "proxy"}; !slices.Equal(got, want) {
		t.Errorf("containers are %v, want %v", got, want)
	}
	if s.Workload() != cart || s.Container() != "app" {
		t.Errorf("series is of %v %v", s.Workload(), s.Container())
	}
}

// A source whose unit is wrong reports 10^6 times the usage. Most of that is below the limits for all machines, so the nodes bound it.
func TestObserve_aboveTheLargestNode_isRejected(t *testing.T) {
	nodes := []cluster.Node{{Capacity: cluster.Amounts(4000, 64<<30)}, {Capacity: cluster.Amounts(16000, 32<<30)}}
	for name, c := range map[string]struct {
		nodes  []cluster.Node
		cores  float64
		bytes  float64
		taken  cluster.Set
		wanted uint64 // rejections
	}{
		"as much as the largest nodes": {nodes, 16, 64 << 30, cluster.Both, 0},
		"a little more":                {nodes, 17, 66 << 30, cluster.Both, 0},
		"more cores":                   {nodes, 18, 1 << 30, cluster.Of(cluster.Memory), 1},
		"more of both":                 {nodes, 50000, 1 << 46, 0, 2},
		"no node is known":             {nil, 50000, 1 << 46, cluster.Both, 0},
		"sizes are not known":          {[]cluster.Node{{Name: "n"}}, 50000, 1 << 46, cluster.Both, 0},
	} {
		b := newBook()
		b.Tick(noon.Add(time.Minute))
		b.Track(podOf(cart, "cart-1", "app"))
		b.BoundBy(nodes)
		b.BoundBy(c.nodes)
		got := b.Observe(Sample{Pod: cluster.Key{Namespace: "shop", Name: "cart-1"}, Container: "app", At: noon, CPU: c.cores, Memory: c.bytes, Has: cluster.Both})
		if got != c.taken || b.Rejected(TooLarge) != c.wanted {
			t.Errorf("%s: accepted %v and rejected %d, want %v and %d", name, got, b.Rejected(TooLarge), c.taken, c.wanted)
		}
	}
}

func TestObserve_invalidSamples_areRejectedAndCounted(t *testing.T) {
	good := func() Sample {
		return Sample{Pod: cluster.Key{Namespace: "shop", Name: "cart-1"}, Container: "app", At: noon, CPU: 0.3, Memory: 200 * mib, Has: cluster.Both}
	}
	tests := map[string]struct {
		change func(*Sample)
		taken  cluster.Set
		counts map[Rejection]uint64
	}{
		"good":                {func(*Sample) {}, cluster.Both, nil},
		"no CPU":              {func(s *Sample) { s.Has = cluster.Of(cluster.Memory); s.CPU = math.NaN() }, cluster.Of(cluster.Memory), nil},
		"no memory":           {func(s *Sample) { s.Has = cluster.Of(cluster.CPU); s.Memory = -1 }, cluster.Of(cluster.CPU), nil},
		"nothing":             {func(s *Sample) { s.Has = 0 }, 0, nil},
		"idle":                {func(s *Sample) { s.CPU = 0 }, cluster.Both, nil},
		"unknown pod":         {func(s *Sample) { s.Pod.Name = "cart-2" }, 0, map[Rejection]uint64{UnknownPod: 1}},
		"unknown container":   {func(s *Sample) { s.Container = "init" }, 0, map[Rejection]uint64{UnknownContainer: 1}},
		"no time":             {func(s *Sample) { s.At = time.Time{} }, 0, map[Rejection]uint64{BadTime: 1}},
		"time in the year 9k": {func(s *Sample) { s.At = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC) }, 0, map[Rejection]uint64{BadTime: 1}},
		"time ahead":          {func(s *Sample) { s.At = noon.Add(time.Hour) }, 0, map[Rejection]uint64{Ahead: 1}},
		"CPU NaN":             {func(s *Sample) { s.CPU = math.NaN() }, cluster.Of(cluster.Memory), map[Rejection]uint64{NotANumber: 1}},
		"both infinite":       {func(s *Sample) { s.CPU, s.Memory = math.Inf(1), math.Inf(-1) }, 0, map[Rejection]uint64{NotANumber: 2}},
		"negative":            {func(s *Sample) { s.CPU, s.Memory = -0.1, -1 }, 0, map[Rejection]uint64{Negative: 2}},
		"huge":                {func(s *Sample) { s.CPU, s.Memory = 1e6, 1e15 }, 0, map[Rejection]uint64{TooLarge: 2}},
		"zero memory":         {func(s *Sample) { s.Memory = 0 }, cluster.Of(cluster.CPU), map[Rejection]uint64{NoMemory: 1}},
		"once more":           {func(s *Sample) { s.At = noon.Add(-time.Minute) }, 0, map[Rejection]uint64{Repeated: 2}},
		"earlier":             {func(s *Sample) { s.At = noon.Add(-time.Hour) }, 0, map[Rejection]uint64{OutOfOrder: 2}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBook()
			b.Tick(noon.Add(time.Minute))
			b.Track(podOf(cart, "cart-1", "app"))
			first := good()
			first.At = noon.Add(-time.Minute)
			b.Observe(first)
			s := good()
			tt.change(&s)
			if got := b.Observe(s); got != tt.taken {
				t.Errorf("accepted %v, want %v", got, tt.taken)
			}
			for _, r := range Rejections() {
				if got := b.Rejected(r); got != tt.counts[r] {
					t.Errorf("%q is counted %d times, want %d", r, got, tt.counts[r])
				}
			}
			series := b.Series(cart, "app")
			for _, r := range cluster.All {
				want := 1
				if tt.taken.Has(r) {
					want = 2
				}
				if got := series.Seen(r).Count; got != want {
					t.Errorf("%d samples of %v, want %d", got, r, want)
				}
			}
		})
	}
}

func TestObserve_memorySamplesOfOneWindow_addOnePeak(t *testing.T) {
	type use struct {
		after time.Duration
		bytes float64
	}
	tests := map[string]struct {
		uses []use
		at   time.Time // the end of the last window
		want map[float64]float64
	}{
		"rising in one window":   {[]use{{0, 100 * mib}, {time.Hour, 300 * mib}, {2 * time.Hour, 200 * mib}}, noon.Add(day), map[float64]float64{300 * mib: 1}},
		"two windows":            {[]use{{0, 100 * mib}, {day, 300 * mib}}, noon.Add(2 * day), map[float64]float64{100 * mib: 0.5, 300 * mib: 1}},
		"just before the end":    {[]use{{0, 100 * mib}, {day - time.Second, 300 * mib}}, noon.Add(day), map[float64]float64{300 * mib: 1}},
		"after a gap of windows": {[]use{{0, 100 * mib}, {3*day + time.Hour, 300 * mib}}, noon.Add(4 * day), map[float64]float64{100 * mib: 0.125, 300 * mib: 1}},
		"falling":                {[]use{{0, 300 * mib}, {time.Hour, 100 * mib}}, noon.Add(day), map[float64]float64{300 * mib: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBook()
			p := podOf(cart, "cart-1", "app")
			b.Track(p)
			for _, u := range tt.uses {
				b.Observe(sample(p, "app", noon.Add(u.after), 0.1, u.bytes))
			}
			wantPeaks(t, b.Series(cart, "app"), tt.at, tt.want)
		})
	}
}

// W-05, kubernetes/autoscaler#8982: upstream ignores all later values of a window whose first value is zero, as after a gap in
// the metrics.
func TestObserve_firstMemorySampleIsZero_windowFollowsLaterSamples(t *testing.T) {
	for name, first := range map[string]Sample{
		"zero":    {CPU: 0.1, Memory: 0, Has: cluster.Both},
		"missing": {CPU: 0.1, Has: cluster.Of(cluster.CPU)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook()
			p := podOf(cart, "cart-1", "app")
			b.Track(p)
			first.Pod, first.Container, first.At = p.Key, "app", noon
			b.Observe(first)
			if !b.Series(cart, "app").Memory.IsEmpty() {
				t.Error("a container without usage has a peak")
			}
			b.Observe(sample(p, "app", noon.Add(time.Minute), 0.1, 300*mib))
			wantPeaks(t, b.Series(cart, "app"), noon.Add(day+time.Minute), map[float64]float64{300 * mib: 1})
		})
	}
}

// W-06, kubernetes/autoscaler#10211.
func TestSeen_cpuAndMemory_areCountedSeparately(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-1", "app")
	b.Track(p)
	b.Observe(Sample{Pod: p.Key, Container: "app", At: noon, Memory: 200 * mib, Has: cluster.Of(cluster.Memory)})
	s := b.Series(cart, "app")
	if got := s.Seen(cluster.CPU); got != (Span{}) {
		t.Errorf("CPU: seen %v", got)
	}
	if got := s.Seen(cluster.Memory).Count; got != 1 {
		t.Errorf("memory: %d samples", got)
	}
	b.Forget(p.Key)
	if gone := b.Prune(noon.Add(7 * day)); len(gone) != 0 {
		t.Errorf("history of memory alone was dropped: %v", gone)
	}
}

func TestTrack_unknownOwner_isNotTracked(t *testing.T) {
	b := newBook()
	p := podOf(cluster.Workload{}, "cart-1", "app")
	p.Namespace = "shop"
	if b.Track(p) || b.Tracked(p.Key) {
		t.Error("a pod without a known owner is tracked")
	}
	p.Top = cart
	if !b.Track(p) || !b.Tracked(p.Key) {
		t.Error("a pod with a known owner is not tracked")
	}
}

// W-03, kubernetes/autoscaler#9891.
func TestTrack_ownerTemporarilyUnknown_keepsHistory(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-1", "app")
	b.Track(p)
	b.Observe(sample(p, "app", noon, 0.3, 200*mib))
	lost := *p
	lost.Top = cluster.Workload{}
	if !b.Track(&lost) {
		t.Error("the pod is not tracked any more")
	}
	b.Observe(sample(p, "app", noon.Add(time.Minute), 0.3, 200*mib))
	if got := b.Series(cart, "app").Seen(cluster.CPU).Count; got != 2 {
		t.Errorf("%d samples, want 2", got)
	}
	b.Release(cart) // nor when its autoscaler is away for a while
	b.Prune(noon.Add(2 * time.Minute))
	b.Configure(cart, nil)
	if got := b.Series(cart, "app").Seen(cluster.CPU).Count; got != 2 {
		t.Errorf("%d samples after the autoscaler came back, want 2", got)
	}
}

// W-04: upstream starts a new history with every set of labels.
func TestSeries_rollout_keepsHistory(t *testing.T) {
	b := newBook()
	b.Configure(cart, nil)
	for generation := range 50 {
		at := noon.Add(time.Duration(generation) * time.Hour)
		p := podOf(cart, fmt.Sprintf("cart-%d", generation), "app")
		b.Track(p)
		b.Observe(sample(p, "app", at, 0.3, 200*mib))
		b.Forget(p.Key)
	}
	if pods, series := b.Size(); pods != 0 || series != 1 {
		t.Errorf("%d pods and %d series are kept", pods, series)
	}
	if got := b.Series(cart, "app").Seen(cluster.CPU).Count; got != 50 {
		t.Errorf("%d samples, want 50", got)
	}
}

func TestTrack_sameNameOtherUID_isANewPod(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-0", "app")
	b.Track(p)
	b.Observe(sample(p, "app", noon, 0.3, 200*mib))
	p.UID = "another"
	b.Track(p)
	b.Observe(sample(p, "app", noon.Add(-time.Minute), 0.3, 100*mib))
	s := b.Series(cart, "app")
	if got := s.Seen(cluster.CPU); got.Count != 2 || !got.First.Equal(noon.Add(-time.Minute)) {
		t.Errorf("seen %v", got)
	}
	if of := b.workloads[cart]; of.pods != 1 || of.live != 1 {
		t.Errorf("%d pods tracked, %d live, want 1", of.pods, of.live)
	}
}

func TestTrack_ownerChanges_movesThePod(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-0", "app")
	b.Track(p)
	b.Observe(sample(p, "app", noon, 0.3, 200*mib))
	other := cart
	other.Name = "basket"
	moved := *p
	moved.Top = other
	b.Track(&moved)
	b.Observe(sample(p, "app", noon.Add(time.Minute), 0.3, 200*mib))
	if got := b.Series(other, "app").Seen(cluster.CPU).Count; got != 1 {
		t.Errorf("%d samples at the new owner", got)
	}
	if got := b.Series(cart, "app").Seen(cluster.CPU).Count; got != 1 {
		t.Errorf("%d samples at the old owner", got)
	}
}

func TestTrack_sizedContainers_areTracked(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-0", "app", "migrate", "mesh", "log")
	p.Containers[1].Role, p.Containers[2].Role, p.Containers[3].Role = cluster.Init, cluster.Sidecar, cluster.FixedSidecar
	b.Track(p)
	if got := b.Containers(cart); !slices.Equal(got, []string{"app", "mesh"}) {
		t.Errorf("containers are %v, want app and mesh", got)
	}
}

// W-10, kubernetes/autoscaler#6744.
func TestContainers_withLivePods_returnsTheirContainers(t *testing.T) {
	b := newBook()
	check := func(when string, want ...string) {
		t.Helper()
		if got := b.Containers(cart); !slices.Equal(got, want) {
			t.Errorf("%s: containers are %v, want %v", when, got, want)
		}
	}
	check("before any pod")
	before, after := podOf(cart, "cart-1", "app", "old"), podOf(cart, "cart-2", "app", "new")
	b.Track(before)
	check("at first", "app", "old")
	b.Track(after)
	check("during the rollout", "app", "new", "old")
	ending := *before
	ending.Deleting = true
	b.Track(&ending)
	check("when the old pod ends", "app", "new")
	b.Forget(before.Key)
	check("after the rollout", "app", "new")
	b.Forget(after.Key)
	check("scaled to zero", "app", "new")
	done := podOf(cart, "cart-3", "app", "new", "other")
	done.Phase = cluster.Succeeded
	b.Track(podOf(cart, "cart-4", "app"))
	b.Track(done)
	check("a pod that has ended does not count", "app")
}

func TestContainers_restoredWithoutPods_returnsRestoredContainers(t *testing.T) {
	old := newBook()
	p := podOf(cart, "cart-1", "app", "gone")
	old.Track(p)
	old.Observe(sample(p, "app", noon, 0.3, 200*mib))
	old.Observe(sample(p, "gone", noon, 0.3, 200*mib))
	b := newBook()
	for _, c := range []string{"app", "gone"} {
		cp, ok := old.Checkpoint(cart, c, noon)
		if !ok {
			t.Fatal("no checkpoint")
		}
		if err := b.Restore(cart, c, cp); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := b.Containers(cart), []string{"app", "gone"}; !slices.Equal(got, want) {
		t.Errorf("after the restart: %v, want %v", got, want)
	}
	b.Track(podOf(cart, "cart-2", "app"))
	if got, want := b.Containers(cart), []string{"app"}; !slices.Equal(got, want) {
		t.Errorf("with a pod: %v, want %v", got, want)
	}
	b.Forget(cluster.Key{Namespace: "shop", Name: "cart-2"})
	if got, want := b.Containers(cart), []string{"app"}; !slices.Equal(got, want) {
		t.Errorf("without pods again: %v, want %v", got, want)
	}
}

// W-09: a rule that a policy no longer sets is reset.
func TestConfigure_policyOfAnAutoscaler_appliesUntilRelease(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-1", "app", "proxy")
	b.Track(p)
	b.Configure(cart, []cluster.ContainerPolicy{
		{Container: "*", MemoryInterval: time.Hour},
		{Container: "app", OOMBumpRatio: 2, OOMMinBumpSet: true, MemoryCount: 3},
	})
	app, proxy := b.Series(cart, "app"), b.Series(cart, "proxy")
	if got, want := *app.rules, (rules{interval: day, count: 3, ratio: 2}); got != want {
		t.Errorf("rules of app are %v, want %v", got, want)
	}
	if got, want := *proxy.rules, (rules{interval: time.Hour, count: 8, ratio: 1.2, minBump: 100 * mib}); got != want {
		t.Errorf("rules of proxy are %v, want %v", got, want)
	}
	b.Track(podOf(cart, "cart-2", "late"))
	if got := b.Series(cart, "late").rules.interval; got != time.Hour {
		t.Errorf("a container that came later has the interval %v", got)
	}
	b.Configure(cart, nil)
	for _, s := range b.All(cart) {
		if *s.rules != b.rules {
			t.Errorf("rules of %s are still %v", s.container, *s.rules)
		}
	}
	b.Configure(cart, []cluster.ContainerPolicy{{Container: "app", OOMBumpRatio: 2}})
	b.Release(cart)
	if *app.rules != b.rules {
		t.Error("rules outlive the autoscaler")
	}
}

func TestConfigure_otherInterval_changesTheCurrentWindow(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-1", "app")
	b.Track(p)
	b.Observe(sample(p, "app", noon, 0.1, 300*mib))
	b.Observe(sample(p, "app", noon.Add(90*time.Minute), 0.1, 200*mib))
	b.Configure(cart, []cluster.ContainerPolicy{{Container: "*", MemoryInterval: time.Hour}})
	s := b.Series(cart, "app")
	wantPeaks(t, s, noon.Add(2*time.Hour), map[float64]float64{300 * mib: 1})
	b.Observe(sample(p, "app", noon.Add(2*time.Hour), 0.1, 200*mib)) // the next window
	wantPeaks(t, s, noon.Add(3*time.Hour), map[float64]float64{300 * mib: math.Exp2(-1. / 24), 200 * mib: 1})
	b.Configure(cart, nil)
	wantPeaks(t, s, noon.Add(26*time.Hour), map[float64]float64{300 * mib: math.Exp2(-1), 200 * mib: 1})
}

func TestPrune_unusedHistory_isRemoved(t *testing.T) {
	newPod := func(b *Store, name string, containers ...string) *cluster.Pod {
		p := podOf(cart, name, containers...)
		b.Track(p)
		return p
	}
	tests := map[string]struct {
		prepare func(*Store)
		after   time.Duration
		gone    []string
	}{
		"a live pod's": {func(b *Store) {
			b.Observe(sample(newPod(b, "cart-1", "app"), "app", noon, 0.1, mib))
		}, 30 * day, nil},
		"a live pod's without samples": {func(b *Store) { newPod(b, "cart-1", "app") }, 30 * day, nil},
		"without pods and samples": {func(b *Store) {
			b.Forget(newPod(b, "cart-1", "app").Key)
		}, 0, []string{"app"}},
		"without pods, a week old": {func(b *Store) {
			p := newPod(b, "cart-1", "app")
			b.Observe(sample(p, "app", noon, 0.1, mib))
			b.Forget(p.Key)
		}, 7 * day, nil},
		"without pods, eight days old": {func(b *Store) {
			p := newPod(b, "cart-1", "app")
			b.Observe(sample(p, "app", noon, 0.1, mib))
			b.Forget(p.Key)
		}, 8 * day, []string{"app"}},
		"eight days old, two days kept": {func(b *Store) {
			b.Configure(cart, []cluster.ContainerPolicy{{Container: "app", MemoryCount: 2}})
			p := newPod(b, "cart-1", "app", "keep")
			b.Observe(sample(p, "app", noon, 0.1, mib))
			b.Observe(sample(p, "keep", noon, 0.1, mib))
			b.Forget(p.Key)
			newPod(b, "cart-2", "other")
		}, 3 * day, []string{"app"}},
		"two days old, more kept than a duration can be": {func(b *Store) {
			b.Configure(cart, []cluster.ContainerPolicy{{Container: "app", MemoryCount: 200_000}})
			p := newPod(b, "cart-1", "app", "keep")
			b.Observe(sample(p, "app", noon, 0.1, mib))
			b.Forget(p.Key)
			newPod(b, "cart-2", "other")
		}, 2 * day, []string{"keep"}},
		"last known of a workload under an autoscaler": {func(b *Store) {
			b.Configure(cart, nil)
			p := newPod(b, "cart-1", "app")
			b.Observe(sample(p, "app", noon, 0.1, mib))
			b.Forget(p.Key)
		}, 40 * day, nil},
		"container that has left a workload under an autoscaler": {func(b *Store) {
			b.Configure(cart, nil)
			p := newPod(b, "cart-1", "app", "left")
			b.Observe(sample(p, "app", noon, 0.1, mib))
			b.Observe(sample(p, "left", noon, 0.1, mib))
			newPod(b, "cart-2", "app")
			b.Forget(p.Key)
		}, 8 * day, []string{"left"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBook()
			tt.prepare(b)
			var gone []string
			for _, r := range b.Prune(noon.Add(tt.after)) {
				gone = append(gone, r.Container)
				if b.Series(r.Workload, r.Container) != nil {
					t.Errorf("%v is still there", r)
				}
			}
			if !slices.Equal(gone, tt.gone) {
				t.Errorf("gone is %v, want %v", gone, tt.gone)
			}
		})
	}
}

func TestPrune_workloadWithoutSeries_isRemoved(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-1", "app")
	b.Configure(cart, nil)
	b.Track(p)
	b.Forget(p.Key)
	b.Release(cart)
	b.Prune(noon)
	if len(b.workloads) != 0 || len(b.pods) != 0 {
		t.Errorf("%d workloads and %d pods are left", len(b.workloads), len(b.pods))
	}
}

// recorder is an extension that records its calls.
type recorder struct {
	stateless
	observed []string
}

// stateless are the methods of an Extension without a form and times.
type stateless struct{}

func (stateless) CPUWeight(float64) float64 { return SampleWeight }
func (stateless) Form() string              { return "" }
func (stateless) Since() time.Time          { return time.Time{} }
func (stateless) Latest() time.Time         { return time.Time{} }

func (r *recorder) Observe(s Sample, taken cluster.Set) {
	r.observed = append(r.observed, fmt.Sprintf("%s %v %v", s.Container, s.CPU, taken))
}
func (r *recorder) ObserveOOM(o OOM, needed int64) {
	r.observed = append(r.observed, fmt.Sprintf("%s oom %d", o.Container, needed/mib))
}
func (r *recorder) AppendBinary(b []byte) ([]byte, error) {
	return append(b, fmt.Sprint(len(r.observed))...), nil
}
func (r *recorder) UnmarshalBinary(data []byte) error {
	r.observed = append(r.observed, "restored "+string(data))
	return nil
}

func TestExtension_acceptedSamples_areObservedAndRestored(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-1", "app", "proxy")
	b.Track(p)
	b.Observe(sample(p, "app", noon, 0.1, 200*mib))
	if b.Series(cart, "app").Extension() != nil {
		t.Error("the store has an extension that was not requested")
	}
	b.Extend(cart, func() Extension { return new(recorder) })
	b.Observe(sample(p, "app", noon.Add(time.Minute), 0.2, 0))
	b.Observe(sample(p, "app", noon.Add(time.Minute), 0.3, 0))
	b.ObserveOOM(OOM{Pod: p.Key, Container: "app", At: noon.Add(2 * time.Minute), Memory: 256 * mib})
	got := b.Series(cart, "app").Extension().(*recorder).observed
	if want := []string{"app 0.2 1", "app oom 356"}; !reflect.DeepEqual(got, want) {
		t.Errorf("it was observed %q, want %q", got, want)
	}
	if got := b.Series(cart, "proxy").Extension().(*recorder).observed; len(got) != 0 {
		t.Errorf("the other container's was observed %q", got)
	}
	c, _ := b.Checkpoint(cart, "app", noon.Add(3*time.Minute))

	for name, extendFirst := range map[string]bool{"extended, then restored": true, "restored, then extended": false} {
		t.Run(name, func(t *testing.T) {
			b := newBook()
			if extendFirst {
				b.Extend(cart, func() Extension { return new(recorder) })
			}
			if err := b.Restore(cart, "app", c); err != nil {
				t.Fatal(err)
			}
			if !extendFirst {
				b.Extend(cart, func() Extension { return new(recorder) })
			}
			if got, want := b.Series(cart, "app").Extension().(*recorder).observed, []string{"restored 2"}; !reflect.DeepEqual(got, want) {
				t.Errorf("it was observed %q, want %q", got, want)
			}
			b.Extend(cart, nil)
			if b.Series(cart, "app").Extension() != nil {
				t.Error("it cannot be ended")
			}
		})
	}
}
