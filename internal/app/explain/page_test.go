// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/web"
)

func TestPage_otherExplanationRuns_viewerWaitsForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPage(nil, nil, true, nil, slog.New(slog.DiscardHandler))
		p.turn <- struct{}{} // another viewer's
		began := time.Now()
		_, err := p.Explain(t.Context(), cluster.Workload{Name: "cart"}, true)
		if took := time.Since(began); !errors.Is(err, errBusy) || took != patience {
			t.Errorf("error %v after %v", err, took)
		}
	})
}

func TestPage_panic_returnsErrorAndCachesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		p := NewPage(nil, func() Running { calls++; panic("broken") }, true, nil, slog.New(slog.DiscardHandler))
		for range 3 {
			if _, err := p.Explain(t.Context(), cluster.Workload{Name: "cart"}, true); err == nil {
				t.Error("no error after a panic")
			}
		}
		if calls != 1 {
			t.Errorf("%d attempts, want 1", calls)
		}
		time.Sleep(keepFor)
		_, _ = p.Explain(t.Context(), cluster.Workload{Name: "cart"}, true)
		if calls != 2 {
			t.Errorf("%d attempts after %v, want 2", calls, keepFor)
		}
	})
}

func TestPage_manyExplanations_memoryIsBounded(t *testing.T) {
	p := NewPage(nil, nil, true, nil, slog.New(slog.DiscardHandler))
	now := time.Now()
	for i := range 10 * maxKept {
		q := question{cluster.Workload{Name: fmt.Sprint(i)}, true}
		p.keep(q, answer{explanation: web.Explanation{Text: "x"}, until: now.Add(keepFor)}, now)
		if a, ok := p.recall(q, now); !ok || a.explanation.Text != "x" || len(p.kept) > maxKept {
			t.Fatalf("explanation %d is kept: %v, of %d", i, ok, len(p.kept))
		}
	}
	if _, ok := p.recall(question{cluster.Workload{Name: fmt.Sprint(10*maxKept - 1)}, false}, now); ok {
		t.Error("an explanation of the whole cluster is shown to a viewer who may not see it")
	}
}

func TestPage_otherExplanationIsKept_onlyOldOnesAreDeleted(t *testing.T) {
	p := NewPage(nil, nil, true, nil, slog.New(slog.DiscardHandler))
	now := time.Now()
	old, current := question{workload: cluster.Workload{Name: "old"}}, question{workload: cluster.Workload{Name: "current"}}
	p.keep(old, answer{until: now}, now.Add(-time.Second))
	p.keep(current, answer{until: now.Add(time.Second)}, now.Add(-time.Second))
	p.keep(question{}, answer{until: now.Add(keepFor)}, now)
	if _, ok := p.kept[old]; ok || len(p.kept) != 2 {
		t.Errorf("%d explanations are kept, the old one: %t; want 2 without the old one", len(p.kept), ok)
	}
}
