// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"os"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// Profiles without packed recommend the same, to the byte, as at the commit that testdata/unchanged.txt names, before packed was added: target and
// bounds of each hour of 20 days, for usage with a daily pattern, growth, spikes, OOM kills and a day without samples.
func TestWorkload_otherProfiles_recommendTheSameAsBeforePacked(t *testing.T) {
	data, err := os.ReadFile("testdata/unchanged.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if name, sum, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			want[name] = sum
		}
	}
	tested := 0
	for _, profile := range BacktestProfiles() {
		if profile.Name == "packed" {
			continue
		}
		tested++
		sum := sha256.New()
		recommendHourly(profile, sum)
		if got := fmt.Sprintf("%x", sum.Sum(nil)); got != want[profile.Name] {
			t.Errorf("%s %s: the recommendations differ from those with the digest %q", profile.Name, got, want[profile.Name])
		}
	}
	if tested != len(want) {
		t.Errorf("tested %d profiles, want %d", tested, len(want))
	}
}

// recommendHourly writes the recommendations of a profile for four workloads.
func recommendHourly(profile Profile, to hash.Hash) {
	store := usage.NewStore(usage.DefaultConfig())
	var workloads []cluster.Workload
	for _, name := range []string{"daily", "growing", "spiky", "idle"} {
		w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
		workloads = append(workloads, w)
		store.Configure(w, nil)
		if profile.Extend != nil {
			store.Extend(w, profile.Extend)
		}
		containers := []cluster.Container{{Name: "app", Requests: cluster.Amounts(500, 1<<29)}}
		store.Track(&cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Top: w, Phase: cluster.Running, Containers: containers})
	}
	noise := uint32(2463534242)
	for i := range 20 * 288 {
		at := noon.Add(time.Duration(i) * 5 * time.Minute)
		store.Tick(at)
		for n, w := range workloads {
			noise ^= noise << 13
			noise ^= noise >> 17
			noise ^= noise << 5
			if i/288 == 9 && n == 2 {
				continue // a day without samples
			}
			cores, bytes := sampleOf(w.Name, i, int(noise>>8))
			key := cluster.Key{Namespace: "shop", Name: w.Name}
			store.Observe(usage.Sample{Pod: key, Container: "app", At: at, CPU: cores, Memory: bytes, Has: cluster.Both})
			if n == 2 && i%1500 == 1499 {
				store.ObserveOOM(usage.OOM{Pod: key, Container: "app", At: at, Memory: int64(bytes)})
			}
		}
		if i%12 != 0 {
			continue
		}
		for _, w := range workloads {
			for _, a := range Workload(profile.Params, profile.Estimator, store, new(cluster.Autoscaler), w, at) {
				for _, r := range []cluster.Resources{a.Target, a.Lower, a.Upper, a.Uncapped} {
					fmt.Fprintf(to, "%d %s %s %d %d %d\n", i, w.Name, a.Container, r.Has, r.CPU, r.Memory)
				}
			}
		}
	}
}

// sampleOf returns the usage of a workload in an interval of five minutes, made of whole numbers.
func sampleOf(workload string, i, noise int) (cores, bytes float64) {
	hour := i / 12 % 24
	millicores, mebibytes := 200+noise%100, 400+noise%40
	switch workload {
	case "daily":
		millicores += 150 * min(hour, 24-hour)
		mebibytes += 90 * min(hour, 24-hour)
	case "growing":
		millicores += i / 8
		mebibytes += i / 4
	case "spiky":
		if noise%97 == 0 {
			millicores += noise % 4000
			mebibytes += noise % 3000
		}
	case "idle":
		millicores = noise % 4
		mebibytes = 6 + noise%2
	}
	return float64(millicores) / 1000, float64(mebibytes << 20)
}
