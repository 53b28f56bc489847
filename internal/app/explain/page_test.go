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
		p.turn.TryAcquire(1) // another viewer's
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
		time.Sleep(keepFor + time.Nanosecond)
		_, _ = p.Explain(t.Context(), cluster.Workload{Name: "cart"}, true)
		if calls != 2 {
			t.Errorf("%d attempts after %v, want 2", calls, keepFor)
		}
	})
}

func TestPage_manyExplanations_memoryIsBounded(t *testing.T) {
	p := NewPage(nil, nil, true, nil, slog.New(slog.DiscardHandler))
	for i := range 10 * maxKept {
		q := question{cluster.Workload{Name: fmt.Sprint(i)}, true}
		p.kept.Add(q, answer{explanation: web.Explanation{Text: "x"}}, keepFor)
		if a, ok := p.recall(q); !ok || a.explanation.Text != "x" || len(p.kept.Keys()) > maxKept {
			t.Fatalf("explanation %d is kept: %v, of %d", i, ok, len(p.kept.Keys()))
		}
	}
	if _, ok := p.recall(question{cluster.Workload{Name: fmt.Sprint(10*maxKept - 1)}, false}); ok {
		t.Error("an explanation of the whole cluster is shown to a viewer who may not see it")
	}
}

func TestPage_otherExplanationIsKept_onlyOldOnesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPage(nil, nil, true, nil, slog.New(slog.DiscardHandler))
		old, current := question{workload: cluster.Workload{Name: "old"}}, question{workload: cluster.Workload{Name: "current"}}
		p.kept.Add(old, answer{}, keepFor)
		time.Sleep(keepFor - time.Second)
		p.kept.Add(current, answer{}, keepFor)
		time.Sleep(time.Second + time.Nanosecond)
		p.kept.Add(question{}, answer{}, keepFor)
		if _, ok := p.recall(old); ok {
			t.Errorf("an explanation is shown after %v", keepFor)
		}
		if _, ok := p.recall(current); !ok {
			t.Errorf("an explanation is not shown after %v", time.Second)
		}
	})
}
