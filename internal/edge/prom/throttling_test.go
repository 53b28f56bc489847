// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/rollout"
)

// point is one series of a vector about a container.
func point(container, part, value string) any {
	return map[string]any{"metric": map[string]string{"name": container, partLabel: part}, "value": []any{1, value}}
}

func throttlingOf(now time.Time) rollout.ThrottlingQuery {
	return rollout.ThrottlingQuery{
		Namespace: "shop", Canaries: []string{"web.1"}, Others: []string{"web-2", "web-3"}, Changed: "web-0",
		Since: now.Add(-5 * time.Minute), Change: now.Add(-6 * time.Minute), Before: 10 * time.Minute,
	}
}

func TestThrottling_allParts_areReadWithOneQuery(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	var queries []string
	c := serve(t, func(_ *http.Request, query string) (string, any) {
		queries = append(queries, query)
		return "vector", []any{
			point("app", "canaries throttled", "400"), point("app", "canaries all", "1000"), point("app", "others throttled", "10"),
			point("app", "others all", "2000"), point("app", "before throttled", "5"), point("app", "before all", "900"),
			point("agent", "canaries all", "NaN"), point("", "canaries all", "7"), point("app", "unknown", "7"),
		}
	})
	got, err := c.Throttling(t.Context(), throttlingOf(now), now)
	if err != nil || len(queries) != 1 {
		t.Fatalf("%d queries, error %v", len(queries), err)
	}
	want := rollout.ContainerThrottling{Container: "app", Canaries: rollout.Periods{Throttled: 400, All: 1000},
		Others: rollout.Periods{Throttled: 10, All: 2000}, Before: rollout.Periods{Throttled: 5, All: 900}}
	if len(got) != 2 || got[0].Container != "agent" {
		t.Fatalf("result %+v", got)
	}
	if diff := cmp.Diff(want, got[1]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	first := `label_replace(sum by (name) (increase(container_cpu_cfs_throttled_periods_total{namespace="shop", pod_name=~"web\\.1", name!="", name!="POD"}[300s])), "podfit_part", "canaries throttled", "", "")`
	last := `label_replace(sum by (name) (increase(container_cpu_cfs_periods_total{namespace="shop", pod_name=~"web-0", name!="", name!="POD"}[600s] offset 360s)), "podfit_part", "before all", "", "")`
	if q := queries[0]; !strings.HasPrefix(q, first+" or ") || !strings.HasSuffix(q, " or "+last) || strings.Count(q, " or ") != 5 || !strings.Contains(q, `"web-2|web-3"`) {
		t.Errorf("query %s", q)
	}
}

func TestThrottling_noOtherPods_leavesOutTheirParts(t *testing.T) {
	now := time.Now()
	var query string
	c := serve(t, func(_ *http.Request, q string) (string, any) {
		query = q
		return "vector", []any{}
	})
	q := throttlingOf(now)
	q.Others, q.Changed = nil, ""
	got, err := c.Throttling(t.Context(), q, now)
	if err != nil || len(got) != 0 || strings.Count(query, " or ") != 1 {
		t.Errorf("result %+v, error %v, query %s", got, err, query)
	}
}

func TestThrottling_serverFails_isAnError(t *testing.T) {
	now := time.Now()
	wrong := serve(t, func(*http.Request, string) (string, any) { return "scalar", []any{1, "7"} })
	if _, err := wrong.Throttling(t.Context(), throttlingOf(now), now); err == nil || !strings.Contains(err.Error(), "must be a vector, got a scalar") {
		t.Errorf("error %v", err)
	}
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer srv.Close()
	defer close(release)
	slow, err := New(config(srv.URL))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := slow.Throttling(ctx, throttlingOf(now), now); !IsTimeout(err) {
		t.Errorf("error %v, want a timeout", err)
	}
}
