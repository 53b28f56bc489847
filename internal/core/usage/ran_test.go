// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// lastRan is an Extension that records Ran of the last sample.
type lastRan struct {
	stateless
	ran Ran
}

func (l *lastRan) Observe(s Sample, _ cluster.Set)            { l.ran = s.Ran }
func (l *lastRan) ObserveOOM(OOM, int64)                      {}
func (l *lastRan) AppendBinary(b []byte) ([]byte, error)      { return b, nil }
func (l *lastRan) UnmarshalBinary([]byte) error               { return nil }
func (l *lastRan) CPUWeight(request float64) (weight float64) { return request }
func (l *lastRan) want(t *testing.T, what string, expected Ran) {
	t.Helper()
	if l.ran != expected {
		t.Errorf("%s: %+v, want %+v", what, l.ran, expected)
	}
}

func TestObserve_extension_receivesRequestsAndLimitsOfTheContainer(t *testing.T) {
	b, got := newBook(), &lastRan{}
	b.Extend(cart, func() Extension { return got })
	p := podOf(cart, "cart-1", "app", "sidecar")
	p.Containers[0].Limits = cluster.Amounts(2000, 512*mib)
	p.Started, p.Containers[0].Delay = time.Unix(990, 0), 11
	at := noon
	observe := func() {
		at = at.Add(time.Minute)
		s := sample(p, "app", at, 0.5, 300*mib)
		s.Ran = Ran{CPURequest: 7} // what a caller says does not count
		if b.Observe(s) != cluster.Both {
			t.Fatal("the sample was refused")
		}
	}
	b.Track(p)
	observe()
	got.want(t, "a new pod", Ran{CPURequest: 100, CPULimit: 2000, MemoryLimit: 512 * mib, Started: 1000})

	// A resize that is not actuated yet changes nothing.
	p.Containers[0].Applied = &cluster.Applied{Requests: p.Containers[0].Requests, Limits: p.Containers[0].Limits}
	p.Containers[0].Exit = &cluster.Exit{Resumed: 2000} // a restart in place
	p.Containers[0].Requests, p.Containers[0].Limits = cluster.Amounts(400, 256*mib), cluster.Resources{}
	b.Track(p)
	observe()
	got.want(t, "a pod that waits for its resize", Ran{CPURequest: 100, CPULimit: 2000, MemoryLimit: 512 * mib, Started: 2000})
	p.Containers[0].Applied = nil
	b.Track(p)
	observe()
	got.want(t, "a resized pod without limits", Ran{CPURequest: 400, Started: 2000})

	// Weights by request: 0.1 + 0.1 + 0.4. Constant weights: 3 · 0.1.
	plain := newBook()
	plain.Track(p)
	for i := range 3 {
		plain.Observe(sample(p, "app", noon.Add(time.Duration(i+1)*time.Minute), 0.5, 300*mib))
	}
	weighed, alike := b.Series(cart, "app").CPU.Total(), plain.Series(cart, "app").CPU.Total()
	if r := weighed / alike; r < 1.999 || r > 2.001 {
		t.Errorf("by the request the samples weigh %.3f times what they weigh all alike, want 2", r)
	}
}
