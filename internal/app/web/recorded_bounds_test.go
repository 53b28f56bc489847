// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/prom/survey"
)

// slowFor answers all queries but those of one workload.
type slowFor struct {
	recordedServer
	name string
}

func (p *slowFor) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Query().Get("query"), p.name) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return p.recordedServer.RoundTrip(r)
}

func recordingsFrom(t *testing.T, transport http.RoundTripper, log *slog.Logger) *recordings {
	t.Helper()
	r, err := newRecordings(survey.Config{Address: "http://prometheus.example:9090", Transport: transport}, log)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A workload with so many pods that its query takes too long must not take the charts from others.
func TestHistory_queryOfOneWorkloadTimesOut_othersAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slowFor{name: "heavy"}
		s := refined(t, &fake{}, &p.recordedServer)
		s.recordings = recordingsFrom(t, p, s.log)
		_, _ = s.History(t.Context(), shown("heavy"))
		time.Sleep(freshRecording.limit)
		synctest.Wait()
		_, _ = s.History(t.Context(), shown("web")) // without patience: the page may come before the peaks
		synctest.Wait()
		if h, _ := s.History(t.Context(), shown("web")); h.Unrecorded != "" || len(h.Containers) != 1 {
			t.Errorf("got %q, want peaks", h.Unrecorded)
		}
	})
}

// A page that waited for its turn only does not say that Prometheus is slow.
func TestHistory_othersAreReadFirst_pageSaysThatManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slowFor{name: "heavy"}
		s := refined(t, &fake{}, &p.recordedServer)
		s.recordings = recordingsFrom(t, p, s.log)
		for i := range maxQueries {
			go func() { _, _ = s.History(t.Context(), shown(fmt.Sprint("heavy-", i))) }()
		}
		synctest.Wait()
		if h, _ := s.History(t.Context(), shown("web")); !strings.Contains(h.Unrecorded, "Too many pages are waiting") {
			t.Errorf("got %q", h.Unrecorded)
		}
		time.Sleep(freshRecording.limit) // the others have timed out, and it had its turn
		synctest.Wait()
		if h, _ := s.History(t.Context(), shown("web")); h.Unrecorded != "" || len(h.Containers) != 1 {
			t.Errorf("got %q, want peaks", h.Unrecorded)
		}
		if last := s.recordings.all[len(s.recordings.all)-1]; last.size != len(last.hours) || last.size == 0 {
			t.Errorf("%d hours are counted, want %d", last.size, len(last.hours))
		}
	})
}

// The pods of a Job that has ended have no names that podfit can know.
func TestHistory_namesOfPodsAreNotKnown_prometheusIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &recordedServer{}
		row := shown("once")
		row.Workload.Kind = "Job"
		h, _ := refined(t, &fake{}, p).History(t.Context(), row)
		if !strings.HasPrefix(h.Unrecorded, "The names of its pods are not known") {
			t.Errorf("got %q", h.Unrecorded)
		}
	})
}

// The usage of a VPA that was removed a year ago, or that was stored while the clock was ahead, does not make the chart a year long.
func TestHistory_storedUsageIsOldOrOfTheFuture_chartHasItsDaysOnly(t *testing.T) {
	for name, age := range map[string]time.Duration{"old": 365 * 24 * time.Hour, "future": -365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			profile, _ := recommend.Builtin("balanced")
			state := profile.Extend()
			at := time.Now().Add(-age)
			state.Observe(usage.Sample{At: at, CPU: 2, Memory: 9e8, Has: cluster.Both}, cluster.Both)
			data, err := state.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			s := refined(t, &fake{histories: []usage.History{{Container: "app", Form: state.Form(), Data: data, LastSample: at}}}, &recordedServer{})
			row := shown("web")
			row.VPA = "web"
			h, err := s.History(t.Context(), row)
			if err != nil || len(h.Containers) != 1 {
				t.Fatalf("%s: got %+v, %v", name, h, err)
			}
			for _, peaks := range [][]overview.Peak{h.Containers[0].CPU, h.Containers[0].Memory} {
				if span := peaks[len(peaks)-1].At.Sub(peaks[0].At); span > chartDays*24*time.Hour {
					t.Errorf("%s: the chart has %v, want %d days", name, span, chartDays)
				}
			}
		})
	}
}

// Workloads with many containers must not fill the memory: 128 of them would have 1.5 GB.
func TestHistory_manyContainers_memoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := refined(t, &fake{}, &recordedServer{})
		for i := range 20 {
			one, _ := s.recordings.of(shown(fmt.Sprint("w-", i)).Workload)
			one.hours = make([]survey.Hour, 200*chartDays*24)
			s.recordings.keep(one, len(one.hours)) // as read does
		}
		total := 0
		for _, one := range s.recordings.all {
			total += len(one.hours)
		}
		if total > maxHours || total == 0 {
			t.Errorf("%d hours are kept, want at most %d", total, maxHours)
		}
	})
}
