// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The benchmark itself, with fewer VPAs and with PodDisruptionBudgets. It checks that all pods get the recommended requests, that no
// budget is broken and that the invariants hold, and not how long that takes.
func TestMeasure_thirtyVPAs_allPodsAreRightAndBudgetsHold(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	o := options{VPAs: 30, Budgets: true, Starts: time.Second, Updater: podfits, Audit: true, Deadline: 5 * time.Minute, Args: limitFlags}
	var out bytes.Buffer
	r, err := measure(t.Context(), o, &out)
	if r != nil {
		r.print(&out)
	}
	t.Log(out.String())
	if err != nil {
		t.Fatal(err)
	}
	evictions, _ := r.requests.evictions()
	if len(r.seconds) != 60 || r.least != minReady || evictions != 60 {
		t.Errorf("%d pods are satisfied after %d evictions, with at least %d ready pods of each workload; want 60, 60 and %d", len(r.seconds), evictions, r.least, minReady)
	}
}

func TestTracker_podsAreReplaced_countsSatisfiedReplicasAndReadyPods(t *testing.T) {
	start := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	type event struct {
		after time.Duration
		sight
	}
	before := []event{{0, sight{UID: "1", Workload: "web", Ready: true}}, {0, sight{UID: "2", Workload: "web", Ready: true}}}
	at := func(seconds int, s sight) event {
		s.Workload = "web"
		return event{time.Duration(seconds) * time.Second, s}
	}
	rollover := []event{
		at(1, sight{UID: "1"}), // is being deleted
		at(2, sight{UID: "3", Right: true}), at(2, sight{UID: "1", Gone: true}),
		at(4, sight{UID: "3", Right: true, Ready: true}),
		at(5, sight{UID: "2"}), at(5, sight{UID: "4", Right: true}), at(5, sight{UID: "2", Gone: true}),
		at(8, sight{UID: "4", Right: true, Ready: true}),
	}
	for name, c := range map[string]struct {
		events  []event
		seconds []float64
		least   int
		done    bool
		broken  bool
	}{
		"nothing happens":          {nil, nil, 2, false, false},
		"one after the other":      {rollover, []float64{4, 8}, 1, true, false},
		"the last is not ready":    {rollover[:len(rollover)-1], []float64{4}, 1, false, false},
		"a pod is unready again":   {append(slices.Clone(rollover[:4]), at(6, sight{UID: "3", Right: true}), at(7, sight{UID: "3", Right: true, Ready: true})), []float64{4}, 1, false, false},
		"both are deleted at once": {append([]event{at(1, sight{UID: "2"})}, rollover...), []float64{4, 8}, 0, true, true},
		"a wrong pod is left":      {append(slices.Clone(rollover), at(9, sight{UID: "5"})), []float64{4, 8}, 1, false, false},
	} {
		tr := newTracker(2, 1)
		for _, e := range before {
			tr.saw(start, e.sight)
		}
		tr.begin(start)
		for _, e := range c.events {
			tr.saw(start.Add(e.after), e.sight)
		}
		if !slices.Equal(tr.seconds, c.seconds) || tr.least != c.least || tr.done(1) != c.done || (tr.violation() != nil) != c.broken {
			t.Errorf("%s: seconds %v, at least %d ready, done %v, violation %v; want %+v", name, tr.seconds, tr.least, tr.done(1), tr.violation(), c)
		}
	}
}

func TestTracker_podsAreCreated_breakNoBudget(t *testing.T) {
	tr := newTracker(2, 1)
	tr.saw(time.Time{}, sight{UID: "1", Workload: "web"})
	if tr.violation() != nil || tr.least != 2 {
		t.Errorf("at least %d ready, violation %v; want 2 and none before the start", tr.least, tr.violation())
	}
}

func TestCounts_metricsOfTheAPIServer_areSubtractedAndSummed(t *testing.T) {
	const metrics = `# HELP apiserver_request_total Counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="policy",resource="pods",scope="resource",subresource="eviction",verb="POST",version="v1"} 7
apiserver_request_total{code="429",component="apiserver",dry_run="",group="policy",resource="pods",scope="resource",subresource="eviction",verb="POST",version="v1"} 2
apiserver_request_total{code="200",resource="pods",subresource="",verb="LIST"} 3
apiserver_request_total{code="200",resource="pods",subresource="",verb="DELETE"} 5
other{code="200"} 9
`
	after := parseCounts(metrics)
	c := after.minus(counts{{"POST", "pods", "eviction", "201"}: 3, {"DELETE", "pods", "", "200"}: 5})
	done, refused := c.evictions()
	if done != 4 || refused != 2 || c.writes() != 6 {
		t.Errorf("%d evictions, %d refused, %d writes; want 4, 2 and 6", done, refused, c.writes())
	}
	if got := c.largest(1); len(got) != 1 || got[0].String() != "POST   pods/eviction: 201" {
		t.Errorf("the largest kind is %v", got)
	}
}

func TestEach_callFails_endsWithTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	var calls atomic.Int32
	err := each(t.Context(), 10000, func(context.Context, int) error {
		calls.Add(1)
		return broken
	})
	if !errors.Is(err, broken) || calls.Load() == 10000 {
		t.Errorf("%d calls, error %v", calls.Load(), err)
	}
	if err := each(t.Context(), 100, func(context.Context, int) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestParse_flags_areChecked(t *testing.T) {
	for args, want := range map[string]string{
		"":                        "",
		"-vpas 30 -budgets":       "",
		"-vpas 0":                 "-vpas must be between 1 and 5000, got 0",
		"-updater other":          `-updater must be podfit or upstream, got "other"`,
		"-updater upstream":       "",
		"-- --min-replicas=1":     "",
		"-start-time 2s -audit=0": "",
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != want {
			t.Errorf("%q: error %q, want %q", args, text, want)
		}
		if strings.HasPrefix(args, "-- ") && o.Args[len(o.Args)-1] != "--min-replicas=1" {
			t.Errorf("%q: the flags of the updater are %v", args, o.Args)
		}
	}
	if len(limitFlags) != 3 {
		t.Errorf("the common flags were changed: %v", limitFlags)
	}
}

func TestPrint_result_showsRequestsAndCPUTimePerEviction(t *testing.T) {
	r := &result{
		tracker: newTracker(2, 1), cpu: cpuTimes{"kube-apiserver": 9, updaterProcess: 3}.minus(cpuTimes{"kube-apiserver": 1, updaterProcess: 2}),
		requests: counts{{"POST", "pods", "eviction", "201"}: 10, {"POST", "events", "", "201"}: 25, {"LIST", "poddisruptionbudgets", "", "200"}: 5},
	}
	var out bytes.Buffer
	r.print(&out)
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"They used 9.0 CPU seconds", "8.0 800.00 kube-apiserver 1.0 100.00 updater",
		"25 2.50 POST events: 201 10 1.00 POST pods/eviction: 201 5 0.50 LIST poddisruptionbudgets: 200",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}
