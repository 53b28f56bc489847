// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestPack_historyOfAGroup_isRestored(t *testing.T) {
	group := cart.InGroup("leader")
	b := newBook()
	p := podOf(group, "cart-1", "app")
	b.Configure(group, nil)
	b.Track(p)
	for i := range 90 {
		at := noon.Add(time.Duration(i) * time.Minute)
		b.Tick(at)
		b.Observe(sample(p, "app", at, 2, 900*mib))
	}
	if !b.ObserveOOM(OOM{Pod: p.Key, Container: "app", At: noon.Add(89 * time.Minute), Memory: 950 * mib}) {
		t.Fatal("the OOM kill was not accepted")
	}
	now := noon.Add(90 * time.Minute)
	packed, _, ok := b.Pack(group, "app", now)
	if !ok || packed.Container != "app" || len(packed.Data) > 2000 {
		t.Fatalf("%v, %d bytes", ok, len(packed.Data))
	}
	restored := newBook()
	restored.Tick(now)
	restored.Configure(group, nil)
	if err := restored.Unpack(group, &packed); err != nil {
		t.Fatal(err)
	}
	want, got := b.Series(group, "app"), restored.Series(group, "app")
	for _, res := range cluster.All {
		if w, g := want.Seen(res), got.Seen(res); w.Count != g.Count || !w.First.Equal(g.First) {
			t.Errorf("%v: %+v, want %+v", res, g, w)
		}
	}
	if w, g := want.CPU.Percentile(0.9), got.CPU.Percentile(0.9); w != g {
		t.Errorf("CPU %v, want %v", g, w)
	}
	if w, g := want.Memory.Percentile(0.9), got.Memory.Percentile(0.9); w != g {
		t.Errorf("memory %v, want %v", g, w)
	}
	if at, _, _ := got.LastOOM(); !at.Equal(noon.Add(89 * time.Minute)) {
		t.Errorf("OOM kill at %v", at)
	}
	if _, _, ok := b.Pack(group, "other", now); ok {
		t.Error("a container without samples has a history")
	}
}

func FuzzUnpack(f *testing.F) {
	b := newBook()
	p := podOf(cart, "cart-1", "app")
	b.Track(p)
	b.Observe(sample(p, "app", noon, 2, 900*mib))
	packed, _, _ := b.Pack(cart, "app", noon)
	f.Add(packed.Data, packedForm)
	f.Add([]byte(`{"CPU":{"Weights":{"-1":1,"9999":1}},"Version":"v3"}`), packedForm)
	f.Add([]byte(`null`), packedForm)
	f.Add(packed.Data, "autopilot/1")
	f.Add(make([]byte, maxHistory+1), packedForm)
	f.Fuzz(func(t *testing.T, data []byte, form string) {
		b := newBook()
		b.Tick(noon)
		err := b.Unpack(cart, &History{Container: "app", Form: form, Data: data})
		if s := b.Series(cart, "app"); err == nil && (s == nil || s.Seen(cluster.CPU).Count < 0) {
			t.Errorf("history %+v", s)
		}
	})
}
