// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The peaks are kept for minutes, and an hour may begin meanwhile. Then the oldest one is no longer shown, nor counted.
func TestHistory_anHourBeginsAfterTheReading_noteCountsWhatIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := refined(t, &fake{}, &recordedServer{})
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour - time.Minute)))
		for _, wait := range []time.Duration{0, 2 * time.Minute} {
			time.Sleep(wait)
			h, err := s.History(t.Context(), shown("web"))
			if err != nil || len(h.Containers) != 1 {
				t.Fatalf("got %+v, %v", h, err)
			}
			if c := &h.Containers[0]; c.CPURecorded != len(c.CPU) || c.MemoryRecorded != len(c.Memory) || len(c.CPU) == 0 {
				t.Errorf("after %v: %d and %d peaks, of which %d and %d are from Prometheus", wait, len(c.CPU), len(c.Memory), c.CPURecorded, c.MemoryRecorded)
			}
		}
	})
}

// Thanos without one of its stores answers with the series of the others.
func TestHistory_answerIsPartial_pageSaysSo(t *testing.T) {
	for name, with := range map[string]string{
		"Thanos":          `"warnings":["no store matched: secret address"],`,
		"VictoriaMetrics": `"isPartial":true,`,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &recordedServer{with: with}
			s := refined(t, &fake{}, p)
			h, err := s.History(t.Context(), shown("web"))
			if err != nil || len(h.Containers) != 1 || h.Containers[0].CPURecorded == 0 {
				t.Fatalf("%s: got %+v, %v", name, h, err)
			}
			if !strings.Contains(h.Unrecorded, "part of the series") || strings.Contains(h.Unrecorded, "secret") {
				t.Errorf("%s: got %q", name, h.Unrecorded)
			}
		})
	}
}

// The first viewer goes away. The others get what was read for it.
func TestHistory_firstViewerLeaves_othersGetThePeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &recordedServer{delay: 500 * time.Millisecond}
		s := refined(t, &fake{}, p)
		first, leave := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if h, _ := s.History(first, shown("web")); !strings.Contains(h.Unrecorded, "has not answered yet") {
				t.Errorf("the first viewer got %q", h.Unrecorded)
			}
		}()
		synctest.Wait()
		second := make(chan string)
		go func() {
			h, _ := s.History(t.Context(), shown("web"))
			second <- h.Unrecorded
		}()
		synctest.Wait()
		leave()
		<-done
		if h, _ := s.History(t.Context(), shown("other")); h.Unrecorded != "" {
			t.Errorf("a page of another workload got %q", h.Unrecorded)
		}
		if got := <-second; got != "" {
			t.Errorf("the second viewer got %q", got)
		}
		if p.asked() != 6 {
			t.Errorf("%d queries, want 6", p.asked())
		}
	})
}

// Two namespaces have a workload of the same name.
func TestHistory_sameNameInTwoNamespaces_eachHasItsPeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &recordedServer{}
		s := refined(t, &fake{}, p)
		for i, namespace := range []string{"shop", "pay", "shop"} {
			row := shown("web")
			row.Workload.Namespace = namespace
			if h, _ := s.History(t.Context(), row); h.Unrecorded != "" {
				t.Errorf("got %q", h.Unrecorded)
			}
			last := p.queries[len(p.queries)-1].Get("query")
			if want := []string{"shop", "pay", "pay"}[i]; !strings.Contains(last, `namespace="`+want+`"`) {
				t.Errorf("the last query is %s, want namespace %s", last, want)
			}
		}
	})
}

// A viewer who opens the pages of one namespace all the time does not take the charts from viewers of others.
func TestHistory_oneNamespaceIsOpenedAllTheTime_othersAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &recordedServer{delay: 300 * time.Millisecond}
		s := refined(t, &fake{}, p)
		ctx, stop := context.WithCancel(t.Context())
		for i := range 2 * maxWaiting { // many more only make work for the race detector, whose counters of events overflow
			go func() {
				for n := 0; ctx.Err() == nil; n++ {
					_, _ = s.History(ctx, shown(fmt.Sprint("w-", i, "-", n)))
					time.Sleep(time.Second) // a busy page is there at once
				}
			}()
		}
		time.Sleep(10 * time.Second)
		row := shown("web")
		row.Workload.Namespace = "pay"
		_, _ = s.History(t.Context(), row)
		time.Sleep(10 * time.Second)
		if h, _ := s.History(t.Context(), row); h.Unrecorded != "" || len(h.Containers) != 1 {
			t.Errorf("got %q", h.Unrecorded)
		}
		stop()
		time.Sleep(time.Minute) // until all readings have ended
	})
}

// What is kept for the viewers of one namespace is not displaced by the viewers of another one.
func TestRecordings_oneNamespaceHasManyWorkloads_otherIsKept(t *testing.T) {
	s := refined(t, &fake{}, &recordedServer{})
	row := shown("web")
	row.Workload.Namespace = "pay"
	first, _ := s.recordings.of(row.Workload)
	s.recordings.keep(first, 336)
	for i := range 2 * maxRecordings {
		one, _ := s.recordings.of(shown(fmt.Sprint("w-", i)).Workload)
		s.recordings.keep(one, maxHours/10)
	}
	total := 0
	for _, one := range s.recordings.all {
		total += one.size
	}
	if again, _ := s.recordings.of(row.Workload); again != first || total > maxHours || len(s.recordings.all) > maxRecordings {
		t.Errorf("kept: %v; %d hours of %d workloads", again == first, total, len(s.recordings.all))
	}
}
