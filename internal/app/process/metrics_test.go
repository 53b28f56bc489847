// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// requestsServed returns the value of rest_client_requests_total for a host, or -1 if the registry does not serve it.
func requestsServed(t *testing.T, reg *prometheus.Registry, host string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "rest_client_requests_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "host" && label.GetValue() == host {
					return m.GetCounter().GetValue()
				}
			}
		}
	}
	return -1
}

func TestNewRegistry_secondRegistry_firstStillCountsRequests(t *testing.T) {
	const host = "second-registry.example"
	first := newRegistry()
	clientmetrics.RequestResult.Increment(t.Context(), "200", "GET", host)
	second := newRegistry()
	clientmetrics.RequestResult.Increment(t.Context(), "200", "GET", host)
	for name, reg := range map[string]*prometheus.Registry{"first": first, "second": second} {
		if got := requestsServed(t, reg, host); got != 2 {
			t.Errorf("rest_client_requests_total of the %s registry = %v, want 2", name, got)
		}
	}
}

// TestTally_scrapeDuringPublish_seesAllValuesOfOnePass scrapes while passes publish 20 classes with the same value.
func TestTally_scrapeDuringPublish_seesAllValuesOfOnePass(t *testing.T) {
	reg := prometheus.NewRegistry()
	gauge := NewSnapshotGauge(reg, "", "pods", "Number of pods.", "vpa_size_log2")
	publish := func(pass int) {
		tally := NewTally(gauge)
		for class := range maxSizeLog2 {
			tally.Add(SizeLog2(1<<class), "", pass)
		}
		tally.Publish()
	}
	publish(1)
	published := make(chan struct{})
	go func() {
		defer close(published)
		for pass := range 5000 {
			publish(pass)
		}
	}()
	for running := true; running; {
		select {
		case <-published:
			running = false
		default:
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		values := map[float64]int{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				values[m.GetGauge().GetValue()]++
			}
		}
		if counts := slices.Collect(maps.Values(values)); !slices.Equal(counts, []int{maxSizeLog2}) {
			t.Fatalf("a scrape has these values and counts: %v, want one value %d times", values, maxSizeLog2)
		}
	}
}

func TestTally_classNotCountedAgain_isRemoved(t *testing.T) {
	reg := prometheus.NewRegistry()
	gauge := NewSnapshotGauge(reg, "", "pods", "Number of pods.", "vpa_size_log2", "update_mode")
	for _, mode := range []string{"Auto", "Recreate"} {
		tally := NewTally(gauge)
		tally.Add("3", mode, 9)
		tally.Publish()
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 1 || len(families[0].GetMetric()) != 1 || !strings.Contains(families[0].String(), "Recreate") {
		t.Errorf("served metrics = %v, want only those of the last pass", families)
	}
}

func TestTry_withoutHealth_panicIsAnError(t *testing.T) {
	if err := Try(slog.New(slog.DiscardHandler), nil, "x", func() error { panic("defect") }); !errors.Is(err, ErrInternal) {
		t.Errorf("error %v", err)
	}
}
