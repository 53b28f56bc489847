// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/histogram"
)

// restart returns the Store after a restart at a time at which all checkpoints had been saved.
func restart(t rapid.TB, old *Store, now time.Time) *Store {
	t.Helper()
	b := newBook()
	b.Tick(now)
	for key, wl := range old.workloads {
		if wl.governed {
			b.Configure(key, wl.policies)
		}
		for _, s := range wl.series {
			if c, ok := old.Checkpoint(key, s.container, now); ok {
				if err := b.Restore(key, s.container, c); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return b
}

func TestCheckpoint_currentWindows_areLeftOut(t *testing.T) {
	b := newBook()
	one, two := podOf(cart, "cart-1", "app"), podOf(cart, "cart-2", "app")
	b.Track(one)
	b.Track(two)
	b.Observe(sample(one, "app", noon, 0.1, 300*mib))
	b.Observe(sample(two, "app", noon.Add(time.Hour), 0.1, 200*mib))
	peaks := func(now time.Time) int {
		c, ok := b.Checkpoint(cart, "app", now)
		if !ok {
			t.Fatal("no checkpoint")
		}
		if c.Version != "v3" || c.Samples != 2 || !c.FirstSample.Equal(noon) || !c.LastSample.Equal(noon.Add(time.Hour)) || !c.Updated.Equal(now) {
			t.Errorf("checkpoint is %+v", c)
		}
		return len(c.Memory.Weights)
	}
	if got := peaks(noon.Add(2 * time.Hour)); got != 0 {
		t.Errorf("%d peaks while both windows are under way", got)
	}
	if got := peaks(noon.Add(day)); got != 1 {
		t.Errorf("%d peaks when one window has ended, want 1", got)
	}
	b.Forget(two.Key)
	if got := peaks(noon.Add(2 * time.Hour)); got != 1 {
		t.Errorf("%d peaks when one pod is gone, want its one", got)
	}
}

// W-08: upstream loses these at a restart.
func TestRestore_windowsAndOOMKills_areKept(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-1", "app")
	b.Track(p)
	b.Observe(sample(p, "app", noon, 0.1, 300*mib))
	oom := OOM{Pod: p.Key, Container: "app", At: noon.Add(time.Hour), Memory: 400 * mib}
	b.ObserveOOM(oom)

	b = restart(t, b, noon.Add(2*time.Hour))
	s := b.Series(cart, "app")
	wantPeaks(t, s, noon.Add(day), map[float64]float64{500 * mib: 1})
	if at, needed, _ := s.LastOOM(); !at.Equal(oom.At) || needed != 500*mib {
		t.Errorf("last OOM kill was at %v and needed %d", at, needed)
	}
	b = restart(t, b, noon.Add(3*time.Hour)) // and another, before the pod has been seen again
	b.Track(p)
	if b.ObserveOOM(oom) {
		t.Error("the OOM kill counts again")
	}
	if b.Observe(sample(p, "app", noon, 0.1, 300*mib)) != 0 {
		t.Error("the sample counts again")
	}
	s = b.Series(cart, "app")
	wantPeaks(t, s, noon.Add(day), map[float64]float64{500 * mib: 1})
	b.Tick(noon.Add(day))
	b.Observe(sample(p, "app", noon.Add(4*time.Hour), 0.1, 700*mib))
	wantPeaks(t, s, noon.Add(day), map[float64]float64{700 * mib: 1})
	b.Observe(sample(p, "app", noon.Add(day), 0.1, 200*mib))
	wantPeaks(t, s, noon.Add(2*day), map[float64]float64{700 * mib: 0.5, 200 * mib: 1})
}

func TestRestore_podGoneMeanwhile_keepsItsLastPeak(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-1", "app")
	b.Track(p)
	b.Observe(sample(p, "app", noon, 0.1, 300*mib))
	b = restart(t, b, noon.Add(time.Hour))
	b.Track(podOf(cart, "cart-2", "app"))
	b.Prune(noon.Add(day))
	wantPeaks(t, b.Series(cart, "app"), noon.Add(day), map[float64]float64{300 * mib: 1})
	if b.Series(cart, "app").restored != nil {
		t.Error("its window is still kept")
	}
}

func TestRestore_samplesBeforeTheCheckpointIsRead_shareTheWindow(t *testing.T) {
	old := newBook()
	p := podOf(cart, "cart-1", "app")
	old.Track(p)
	old.Observe(sample(p, "app", noon, 0.1, 300*mib))
	c, _ := old.Checkpoint(cart, "app", noon.Add(time.Minute))
	for _, later := range []float64{200 * mib, 400 * mib} {
		b := newBook()
		b.Track(p)
		b.Observe(sample(p, "app", noon.Add(time.Hour), 0.1, later))
		if err := b.Restore(cart, "app", c); err != nil {
			t.Fatal(err)
		}
		wantPeaks(t, b.Series(cart, "app"), noon.Add(day), map[float64]float64{max(300*mib, later): 1})
		if got := b.Series(cart, "app").Seen(cluster.Memory); got.Count != 2 || !got.First.Equal(noon) {
			t.Errorf("seen %v", got)
		}
	}
}

// After a switch to upstream and back, the status that upstream wrote is used, and the older Extra is not.
func TestRestore_extraOlderThanTheStatus_isIgnored(t *testing.T) {
	old := newBook()
	p := podOf(cart, "cart-1", "app")
	old.Track(p)
	old.Observe(sample(p, "app", noon, 0.1, 300*mib))
	old.Observe(sample(p, "app", noon.Add(day), 0.1, 300*mib))
	c, _ := old.Checkpoint(cart, "app", noon.Add(day+time.Minute))
	c.Updated = c.Updated.Add(time.Minute)
	b := newBook()
	if err := b.Restore(cart, "app", c); err != nil {
		t.Fatal(err)
	}
	s := b.Series(cart, "app")
	wantPeaks(t, s, noon.Add(day), map[float64]float64{300 * mib: 1})
	if got, want := s.Seen(cluster.Memory), s.Seen(cluster.CPU); got != want || got.Count != 2 {
		t.Errorf("memory seen %v, want what CPU has: %v", got, want)
	}
}

func TestRestore_brokenExtra_restoresTheRest(t *testing.T) {
	old := newBook()
	p := podOf(cart, "cart-1", "app")
	old.Track(p)
	old.Observe(sample(p, "app", noon, 0.1, 300*mib))
	c, _ := old.Checkpoint(cart, "app", noon.Add(day))
	c.Extra = append(c.Extra, 7)
	b := newBook()
	if err := b.Restore(cart, "app", c); !errors.Is(err, ErrExtra) {
		t.Errorf("error is %v", err)
	}
	wantPeaks(t, b.Series(cart, "app"), noon.Add(day), map[float64]float64{300 * mib: 1})
}

func TestRestore_invalidCheckpoint_restoresNothing(t *testing.T) {
	good := func() Checkpoint {
		b := newBook()
		p := podOf(cart, "cart-1", "app")
		b.Track(p)
		b.Observe(sample(p, "app", noon, 0.1, 300*mib))
		c, _ := b.Checkpoint(cart, "app", noon.Add(day))
		return c
	}
	tests := map[string]struct {
		change func(*Checkpoint)
		want   string
	}{
		"old version":          {func(c *Checkpoint) { c.Version = "v2" }, `unsupported checkpoint version "v2"`},
		"no version":           {func(c *Checkpoint) { c.Version = "" }, "unsupported checkpoint version"},
		"negative CPU total":   {func(c *Checkpoint) { c.CPU.Total = -1 }, "cpu histogram: total weight"},
		"memory total is NaN":  {func(c *Checkpoint) { c.Memory.Total = math.NaN() }, "memory histogram: total weight"},
		"negative samples":     {func(c *Checkpoint) { c.Samples = -1 }, "number of samples"},
		"too many samples":     {func(c *Checkpoint) { c.Samples = math.MaxInt64 }, "number of samples must be at most"},
		"first after last":     {func(c *Checkpoint) { c.FirstSample = c.LastSample.Add(1) }, "later than last sample"},
		"last long past":       {func(c *Checkpoint) { c.LastSample = time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC) }, "last sample"},
		"CPU in the future":    {func(c *Checkpoint) { c.CPU.Reference = noon.Add(9 * day) }, "reference of the cpu histogram"},
		"memory in the future": {func(c *Checkpoint) { c.Memory.Reference = noon.Add(9 * day) }, "reference of the memory histogram"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := good()
			tt.change(&c)
			b := newBook()
			b.Tick(noon.Add(day))
			if err := b.Restore(cart, "app", c); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one about %q", err, tt.want)
			}
			if b.Series(cart, "app") != nil {
				t.Error("something was restored all the same")
			}
		})
	}
	b := newBook()
	if err := b.Restore(cart, "app", good()); err != nil {
		t.Fatal(err)
	}
	if err := b.Restore(cart, "app", good()); err == nil {
		t.Error("one checkpoint can be restored twice")
	}
}

func TestPending_unchangedSeries_isNotPending(t *testing.T) {
	b := newBook()
	p, q := podOf(cart, "cart-1", "app", "proxy"), podOf(cluster.Workload{Kind: "Job", Namespace: "shop", Name: "free"}, "free-1", "app")
	for _, pod := range []*cluster.Pod{p, q} {
		b.Track(pod)
		b.Observe(sample(pod, "app", noon, 0.1, 300*mib))
	}
	b.Configure(cart, nil)
	app, proxy := Ref{cart, "app"}, Ref{cart, "proxy"}
	want := func(when string, by time.Time, refs ...Ref) {
		t.Helper()
		if got := b.Pending(by); len(got) != len(refs) || len(got) > 0 && !reflect.DeepEqual(got, refs) {
			t.Errorf("%s: pending are %v, want %v", when, got, refs)
		}
	}
	want("after a sample", noon, app)
	b.Observe(sample(p, "proxy", noon, 0.1, 300*mib))
	want("after another", noon, app, proxy)

	c, _ := b.Checkpoint(cart, "app", noon.Add(time.Minute))
	b.Observe(sample(p, "app", noon.Add(time.Minute), 0.1, 300*mib))
	b.Saved(cart, "app", c)
	want("changed between reading and saving", noon.Add(time.Minute), proxy, app)
	want("saved too short ago", noon, proxy)

	c, _ = b.Checkpoint(cart, "app", noon.Add(2*time.Minute))
	b.Saved(cart, "app", c)
	want("saved", noon.Add(day), proxy)
	b.ObserveOOM(OOM{Pod: p.Key, Container: "app", At: noon.Add(time.Hour), Memory: mib})
	want("after an OOM kill", noon.Add(day), proxy, app)
	if r := restart(t, b, noon.Add(2*time.Hour)); len(r.Pending(noon.Add(day))) != 0 {
		t.Errorf("after a restart: pending are %v", r.Pending(noon.Add(day)))
	}
}

func TestCheckpoint_containerWithoutSamples_isNotStored(t *testing.T) {
	b := newBook()
	b.Track(podOf(cart, "cart-1", "app"))
	if _, ok := b.Checkpoint(cart, "app", noon); ok {
		t.Error("there is a checkpoint without samples")
	}
	if _, ok := b.Checkpoint(cart, "other", noon); ok {
		t.Error("there is a checkpoint of a container that does not exist")
	}
}

// A restart at any time changes weights by rounding only, by 1/10,000.
func TestRestore_restartAtAnyTime_equalsNoRestart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		rnd := rand.New(rand.NewPCG(seed, 0))
		pods := make([]*cluster.Pod, rapid.IntRange(1, 4).Draw(t, "pods"))
		for i := range pods {
			pods[i] = podOf(cart, fmt.Sprint("cart-", i), "app")
		}
		always, restarted := newBook(), newBook()
		now := noon
		restarts := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(1+rnd.IntN(8*3600)) * time.Second)
			if rnd.IntN(8) == 0 {
				restarts++
				restarted = restart(t, restarted, now)
			}
			i := rnd.IntN(len(pods))
			s := sample(pods[i], "app", now, rnd.ExpFloat64()*0.2, (1+rnd.ExpFloat64())*200*mib)
			o := OOM{Pod: pods[i].Key, Container: "app", At: now, Memory: int64(s.Memory)}
			kill := rnd.IntN(20) == 0
			replace := rnd.IntN(15) == 0
			for _, b := range []*Store{always, restarted} {
				b.Tick(now)
				for _, p := range pods {
					b.Track(p)
				}
				if kill {
					b.ObserveOOM(o)
				} else {
					b.Observe(s)
				}
				if replace {
					b.Forget(pods[i].Key)
				}
			}
			if replace {
				pods[i] = podOf(cart, fmt.Sprint("cart-", i), "app")
				pods[i].UID = fmt.Sprint(rnd.Uint64())
			}
		}
		want, got := always.Series(cart, "app"), restarted.Series(cart, "app")
		for _, r := range cluster.All {
			if want.Seen(r) != got.Seen(r) {
				t.Fatalf("%v: seen %v, want %v", r, got.Seen(r), want.Seen(r))
			}
		}
		wantAt, wantOOM, _ := want.LastOOM()
		if gotAt, gotOOM, _ := got.LastOOM(); gotOOM != wantOOM || !gotAt.Equal(wantAt) {
			t.Fatalf("last OOM kill was %v %v, want %v %v", gotAt, gotOOM, wantAt, wantOOM)
		}
		alike(t, &got.CPU, &want.CPU, restarts)
		alike(t, &got.Memory, &want.Memory, restarts)
	})
}

// alike checks that two histograms have the same distribution, up to the rounding of a number of checkpoints.
func alike(t *rapid.T, got, want *histogram.Histogram, checkpoints int) {
	t.Helper()
	share := func(h *histogram.Histogram) []float64 {
		shares := make([]float64, h.Options().Buckets())
		for b, w := range h.All() {
			shares[b] = w / h.Total()
		}
		return shares
	}
	tolerance := 1e-9 + 5e-4*float64(checkpoints)
	g, w := share(got), share(want)
	for b := range g {
		if math.Abs(g[b]-w[b]) > tolerance {
			t.Fatalf("bucket %d has %v of the weight, want %v", b, g[b], w[b])
		}
	}
}

func TestExtra_manyPods_staysSmall(t *testing.T) {
	b := newBook()
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		p := podOf(cart, fmt.Sprint("cart-", i), "app")
		b.Track(p)
		b.Observe(sample(p, "app", noon.Add(time.Duration(rnd.IntN(3600))*time.Second), 0.1, rnd.ExpFloat64()*1e9))
	}
	c, _ := b.Checkpoint(cart, "app", noon.Add(time.Hour))
	if n := len(c.Extra); n > 24*maxWindows {
		t.Errorf("the extra of 3000 pods takes %d bytes", n)
	}
	x, err := decodeExtra(c.Extra)
	if err != nil || len(x.windows) != maxWindows {
		t.Errorf("%d windows, %v", len(x.windows), err)
	}
}

// Decoding any bytes does not panic, and accepted data is encoded to the same value.
func FuzzExtra(f *testing.F) {
	f.Add([]byte{})
	f.Add(extra{}.encode())
	f.Add(extra{
		updated: noon.Unix(), memory: seen{noon.UnixNano(), noon.Add(day).UnixNano(), 7}, oomAt: noon.UnixNano(), oomBytes: 5e8,
		windows: []window{
			{uid: 1, observed: observed{windowEnd: noon.Add(day).UnixNano(), lastMemory: noon.UnixNano(), lastCPU: noon.UnixNano(), memoryPeak: 1e8}},
			{uid: 2, observed: observed{lastOOM: noon.UnixNano()}},
			{uid: 3, observed: observed{windowEnd: noon.Add(day).UnixNano(), lastMemory: noon.UnixNano(), oomPeak: 2e8}},
		},
		extension: []byte("more"),
	}.encode())
	f.Add(extra{updated: noon.Unix(), form: "adaptive/1", extension: []byte("more")}.encode())
	f.Add(extra{updated: noon.Unix(), form: "adaptive/1", extension: []byte("more"), starts: someStarts()}.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := decodeExtra(data)
		if err != nil {
			return
		}
		again, err := decodeExtra(x.encode())
		if err != nil {
			t.Fatalf("what was written is refused: %v", err)
		}
		if len(again.extension) == 0 && len(x.extension) == 0 {
			again.extension = x.extension
		}
		if !reflect.DeepEqual(again, x) {
			t.Fatalf("became %+v, was %+v", again, x)
		}
		b := newBook()
		p := podOf(cart, "cart-1", "app")
		b.Track(p)
		b.Observe(sample(p, "app", noon, 0.1, 300*mib))
		c, _ := b.Checkpoint(cart, "app", noon.Add(time.Hour))
		c.Extra, c.Updated = data, time.Unix(x.updated, 0).UTC()
		b = newBook()
		if err := b.Restore(cart, "app", c); err != nil && x.updated > 0 && x.updated < codec.MaxSecond {
			t.Fatalf("not restored: %v", err)
		}
		b.Track(p)
		b.Observe(sample(p, "app", noon.Add(2*time.Hour), 0.1, 400*mib))
	})
}
