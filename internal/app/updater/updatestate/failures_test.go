// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updatestate

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/edge/kube"
)

// web is the workload of these tests.
var web = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}

// refusedOnce returns a ledger with a refused eviction of a pod of web.
func refusedOnce() *ledger.Ledger {
	record := ledger.New()
	p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "web-1"}, UID: "u", Top: web, Controller: web}
	record.Refused(time.Now(), ledger.Attempt{Pod: p, Do: decision.Evict}, decision.Refusal{Kind: decision.DeniedByBudget, Text: "no"}, 0)
	return record
}

// logged returns a Recorder that does not write in parallel, and its log.
func logged(store Store) (*Recorder, *bytes.Buffer) {
	var text bytes.Buffer
	return New(store, false, NewMetrics(prometheus.NewRegistry()), slog.New(slog.NewTextHandler(&text, nil))), &text
}

func TestRecorder_withoutStore_keepsNothing(t *testing.T) {
	r, text := logged(nil)
	stored, err := r.Load(t.Context())
	r.Begin(time.Now(), refusedOnce(), delays, map[cluster.Workload]time.Time{web: {}})
	r.Announce(t.Context(), time.Now(), web)
	r.Save(t.Context(), time.Now(), refusedOnce(), delays, true)
	if err != nil || stored != nil || r.LoadAgain(t.Context()) != nil || r.IsActive() || text.Len() > 0 {
		t.Errorf("states %v, error %v, active %t, log %q", stored, err, r.IsActive(), text.String())
	}
}

func TestRecorder_loadFails_isRepeatedUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemoryStates()
		store.objects[web] = ledger.State{Workload: web, ActingSince: time.Now()}
		store.loadErr = errors.New("timeout")
		r, text := logged(store)
		go func() {
			time.Sleep(10 * time.Minute)
			store.mu.Lock()
			defer store.mu.Unlock()
			store.loadErr = nil
		}()
		began := time.Now()
		stored, err := r.Load(t.Context())
		if took := time.Since(began); err != nil || len(stored) != 1 || took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("states %v, error %v after %v", stored, err, took)
		}
		if n := strings.Count(text.String(), "no pods are changed until they are loaded"); n != store.loads-1 || n < 2 || n > 30 {
			t.Errorf("%d warnings for %d attempts, want one for each failed one", n, store.loads)
		}
	})
}

// Without the CRD or a right, nothing is stored, and the updater checks from time to time whether it is there.
func TestRecorder_crdOrRightMissing_isReportedOnceAndCheckedAgain(t *testing.T) {
	for remedy, cause := range map[string]error{"podfit crds": kube.ErrUnsupported, "deploy/10-rbac.yaml": kube.ErrForbidden} {
		synctest.Test(t, func(t *testing.T) {
			store := newMemoryStates()
			store.loadErr = fmt.Errorf("list: %w", cause)
			r, text := logged(store)
			if _, err := r.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			record := refusedOnce()
			for range 60 { // passes
				r.LoadAgain(t.Context())
				r.Begin(time.Now(), record, delays, map[cluster.Workload]time.Time{web: {}})
				r.Announce(t.Context(), time.Now(), web)
				r.Save(t.Context(), time.Now(), record, delays, false)
				time.Sleep(time.Minute)
			}
			if n := strings.Count(text.String(), "UpdateStates cannot be stored"); n != 1 || !strings.Contains(text.String(), remedy) {
				t.Errorf("logged %d times, want once with the remedy %s:\n%s", n, remedy, text.String())
			}
			if available := testutil.ToFloat64(r.metrics.available); available != 0 || store.loads > 8 || store.writes > 0 {
				t.Errorf("the metric is %v, %d loads and %d writes in an hour", available, store.loads, store.writes)
			}
			store.loadErr = nil
			store.objects[web] = ledger.State{Workload: web, ActingSince: time.Now()}
			if stored := r.LoadAgain(t.Context()); len(stored) != 1 || !r.IsActive() || testutil.ToFloat64(r.metrics.available) != 1 {
				t.Errorf("states %v, active %t, want the stored one", stored, r.IsActive())
			}
			if !strings.Contains(text.String(), "UpdateStates can be stored again") {
				t.Error("the recovery is not logged")
			}
		})
	}
}

// The CRD is deleted while the updater runs.
func TestRecorder_crdDisappears_nothingIsWrittenFromThenOn(t *testing.T) {
	store := newMemoryStates()
	store.writeErr = kube.ErrUnsupported
	r, _ := logged(store)
	r.Save(t.Context(), time.Now(), refusedOnce(), delays, false)
	if r.IsActive() {
		t.Error("states are stored without the CRD")
	}
}

func TestRecorder_writesFail_areRepeatedWithBackoffAndForgottenWithTheWorkload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemoryStates()
		store.writeErr = errors.New("etcd is full")
		r, text := logged(store)
		record := refusedOnce()
		for range 600 { // passes
			r.Save(t.Context(), time.Now(), record, delays, false)
			time.Sleep(time.Second)
		}
		if n := testutil.ToFloat64(r.metrics.writes.WithLabelValues(resultError)); n < 3 || n > 10 {
			t.Errorf("%v failed writes in 10m, want a few", n)
		}
		if n := strings.Count(text.String(), "Cannot store an UpdateState"); n != 1 || len(r.failures) != 1 {
			t.Errorf("logged %d times, %d failures are kept; want 1", n, len(r.failures))
		}
		r.Save(t.Context(), time.Now(), ledger.New(), delays, false)
		if n := len(r.failures); n != 0 {
			t.Errorf("%d failures of workloads without state are kept", n)
		}
		store.writeErr = nil
		r.Save(t.Context(), time.Now(), record, delays, true)
		if !strings.Contains(text.String(), "UpdateStates are stored again") || len(store.objects) != 1 {
			t.Errorf("%d objects; the recovery is not logged:\n%s", len(store.objects), text.String())
		}
		store.writeErr = errors.New("etcd is full")
		r.Save(t.Context(), time.Now(), ledger.New(), delays, true)
		if len(r.failures) != 1 {
			t.Error("a failed deletion is not tried again after a pause")
		}
	})
}
