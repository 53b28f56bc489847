// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
)

// A Store that observes the present and absorbs a fork that observed the past equals one that observed both in order.
func TestAbsorb_historyReadBesideNewSamples_equalsReadingInSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		pods := make([]*cluster.Pod, rapid.IntRange(1, 3).Draw(t, "pods"))
		for i := range pods {
			pods[i] = podOf(cart, fmt.Sprint("cart-", i), "app")
		}
		hours := rapid.IntRange(1, 9*24).Draw(t, "hours of history")
		live := rapid.IntRange(0, 59).Draw(t, "minutes until it arrives") // no memory window ends meanwhile: its peak cannot be split
		draw := func(at time.Time) (ss []Sample) {
			for _, p := range pods {
				ss = append(ss, sample(p, "app", at, 0.1+rnd.Float64(), (1+rnd.Float64())*200*mib))
			}
			return ss
		}
		var past, present []Sample
		for h := range hours {
			past = append(past, draw(noon.Add(time.Duration(h-hours)*time.Hour))...)
		}
		for m := range live {
			present = append(present, draw(noon.Add(time.Duration(m+1)*time.Minute))...)
		}
		begin := func() *Store {
			b := newBook()
			b.Tick(noon)
			b.Configure(cart, nil)
			return b
		}
		one, two := begin(), begin()
		fork := two.Fork(cart.Namespace)
		for _, b := range []*Store{one, two, fork} {
			for _, p := range pods {
				b.Track(p)
			}
		}
		tell := func(b *Store, ss []Sample, tick bool) {
			for _, s := range ss {
				if tick {
					b.Tick(s.At)
				}
				b.Observe(s)
			}
		}
		tell(one, past, false)
		tell(one, present, true)
		tell(two, present, true)
		tell(fork, past, false)
		if err := two.Absorb(fork); err != nil {
			t.Fatal(err)
		}
		for m := range 3 { // and go on alike
			more := draw(noon.Add(time.Duration(live+1+m*7*60) * time.Minute))
			tell(one, more, true)
			tell(two, more, true)
		}
		want, got := one.Series(cart, "app"), two.Series(cart, "app")
		for _, r := range cluster.All {
			if want.Seen(r) != got.Seen(r) {
				t.Fatalf("%v: seen %v, want %v", r, got.Seen(r), want.Seen(r))
			}
		}
		alike(t, &got.CPU, &want.CPU, 0)
		alike(t, &got.Memory, &want.Memory, 0)
	})
}

// The process had the lease, lost it, and has it again: it absorbs the samples of the gap.
func TestAbsorb_gapInHistory_isFilled(t *testing.T) {
	for _, gap := range []time.Duration{3 * time.Hour, 30 * time.Hour, 5 * day} {
		t.Run(gap.String(), func(t *testing.T) {
			p := podOf(cart, "cart-1", "app")
			one, two := newBook(), newBook()
			for _, b := range []*Store{one, two} {
				b.Configure(cart, nil)
				during(b, p, noon.Add(-2*day), 2*day, 0, 0.3, 400*mib)
			}
			again := noon.Add(gap)
			for _, b := range []*Store{one, two} {
				b.Tick(again)
			}
			fork := two.Fork(cart.Namespace)
			fork.Track(p)
			for at := noon; at.Before(again); at = at.Add(time.Hour) {
				one.Observe(sample(p, "app", at, 0.5, 300*mib))
				fork.Observe(sample(p, "app", at, 0.5, 300*mib))
			}
			for _, b := range []*Store{one, two} {
				during(b, p, again.Add(time.Second), 10*time.Minute, 0, 0.4, 350*mib)
			}
			if err := two.Absorb(fork); err != nil {
				t.Fatal(err)
			}
			want, got := one.Series(cart, "app"), two.Series(cart, "app")
			if want.Seen(cluster.CPU) != got.Seen(cluster.CPU) {
				t.Errorf("seen %v, want %v", got.Seen(cluster.CPU), want.Seen(cluster.CPU))
			}
			wantCPU, wantMemory := percentiles(want)
			if cpu, memory := percentiles(got); cpu != wantCPU || memory != wantMemory {
				t.Errorf("the percentiles are %v cores and %v bytes, want %v and %v", cpu, memory, wantCPU, wantMemory)
			}
		})
	}
}

func TestAbsorb_extension_keepsThatOfTheFork(t *testing.T) {
	b := newBook()
	b.Tick(noon)
	b.Extend(cart, newDiary)
	p := podOf(cart, "cart-1", "app")
	b.Track(p)
	fork := b.Fork(cart.Namespace)
	fork.Track(p)
	for s := range 3 {
		fork.Observe(sample(p, "app", noon.Add(time.Duration(10+s)*time.Second), 0.1, 200*mib))
	}
	live(b, 30)
	if err := b.Absorb(fork); err != nil {
		t.Fatal(err)
	}
	live(b, 40)
	if got := diaryOf(t, b); !slices.Equal(got, []int{10, 11, 12, 40}) {
		t.Errorf("remembers %v", got)
	}
	if got := b.Series(cart, "app").Seen(cluster.CPU).Count; got != 5 {
		t.Errorf("%d samples, want 5", got)
	}
	if other := b.Fork("another"); len(other.workloads) != 0 {
		t.Error("workloads were forked that were not asked for")
	}
}

// tagged is a diary with a parameter.
type tagged struct {
	diary
	parameter int
}

// The parameters of a profile change while history is read.
func TestAbsorb_modelStateReplacedMeanwhile_hasTheNewParameters(t *testing.T) {
	b := newBook()
	b.Tick(noon)
	with := func(parameter int) func() Extension {
		return func() Extension { return &tagged{parameter: parameter} }
	}
	b.Extend(cart, with(1))
	p := podOf(cart, "cart-1", "app")
	b.Track(p)
	fork := b.Fork(cart.Namespace)
	fork.Track(p)
	fork.Observe(sample(p, "app", noon.Add(10*time.Second), 0.1, 200*mib))
	b.Replace(cart, with(2))
	if err := b.Absorb(fork); err != nil {
		t.Fatal(err)
	}
	live(b, 40)
	e, ok := b.Series(cart, "app").Extension().(*tagged)
	if !ok || e.parameter != 2 || !slices.Equal(e.seconds, []int{10, 40}) {
		t.Errorf("the extension is %+v", e)
	}
}

// The memory interval of a workload changes while history is read. Each peak is in the histogram once.
func TestAbsorb_memoryIntervalChangedMeanwhile_keepsEachPeakOnce(t *testing.T) {
	for _, after := range []time.Duration{time.Hour, 6 * time.Hour, 48 * time.Hour} {
		b := newBook()
		b.Tick(noon)
		b.Configure(cart, nil)
		p := podOf(cart, "cart-1", "app")
		b.Track(p)
		fork := b.Fork(cart.Namespace)
		fork.Track(p)
		for h := range 48 {
			fork.Observe(sample(p, "app", noon.Add(time.Duration(h-48)*time.Hour), 0.1, 200*mib))
		}
		b.Observe(sample(p, "app", noon.Add(time.Minute), 0.1, 100*mib))
		b.Configure(cart, []cluster.ContainerPolicy{{Container: "app", MemoryInterval: after}})
		if err := b.Absorb(fork); err != nil {
			t.Fatal(err)
		}
		b.Observe(sample(p, "app", noon.Add(2*time.Minute), 0.1, 150*mib))
		buckets := 0
		for range b.Series(cart, "app").Memory.All() {
			buckets++
		}
		if got := b.Series(cart, "app").Memory.Percentile(0.9); got < 200*mib || got > 220*mib || buckets > 2 {
			t.Errorf("interval %v: the percentile is %v, of %d buckets", after, got/mib, buckets)
		}
	}
}

// Histories that cannot be merged are an internal error, which must not end the process or change a half of the history.
func TestAbsorb_otherHalfLife_returnsErrorAndChangesNothing(t *testing.T) {
	config := DefaultConfig()
	config.MemoryHalfLife *= 2
	other := NewStore(config)
	b := newBook()
	p, q := podOf(cart, "cart-1", "app"), podOf(cart, "cart-2", "proxy")
	for _, store := range []*Store{b, other} {
		store.Tick(noon)
		store.Track(p)
		store.Track(q)
		store.Observe(sample(p, "app", noon, 0.1, 200*mib))
	}
	other.Observe(sample(q, "proxy", noon, 0.1, 200*mib))
	s := b.Series(cart, "app")
	s.Memory.AddNanos(1e8, 1, noon.UnixNano())
	before := s.CPU.Checkpoint()
	other.Series(cart, "app").Memory.AddNanos(1e8, 1, noon.UnixNano())
	if err := b.Absorb(other); !errors.Is(err, histogram.ErrMismatch) || !strings.Contains(err.Error(), "app") {
		t.Errorf("got error %v, want ErrMismatch with the container", err)
	}
	if after := s.CPU.Checkpoint(); !reflect.DeepEqual(before, after) || s.Seen(cluster.CPU).Count != 1 {
		t.Errorf("the history changed from %v to %v", before, after)
	}
	if b.Series(cart, "proxy") == nil {
		t.Error("the history of another container is lost")
	}
}
