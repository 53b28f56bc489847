// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/contention"
)

// part is one value about a container of a pod.
func part(pod, container, name, value string) any {
	return map[string]any{"metric": map[string]string{"pod_name": pod, "name": container, partLabel: name}, "value": []any{1, value}}
}

func TestContainerThrottling_allParts_areReadWithOneQuery(t *testing.T) {
	var queries []string
	c := serve(t, func(_ *http.Request, query string) (string, any) {
		queries = append(queries, query)
		return "vector", []any{
			part("web-2", "app", "throttled", "400"), part("web-2", "app", "all", "1000"), part("web-2", "app", "p95", "0.9"), part("web-2", "app", "mean", "0.5"),
			part("web-1", "app", "all", "NaN"), part("web-1", "agent", "throttled", "+Inf"), part("", "app", "all", "1"), part("web-1", "", "all", "1"), part("web-2", "app", "other", "1"),
		}
	})
	got, err := c.ContainerThrottling(t.Context(), contention.ThrottlingQuery{Namespace: "shop", Pods: []string{"web.1", "web-2"}}, time.Unix(1e9, 0))
	if err != nil || len(queries) != 1 || len(got) != 3 {
		t.Fatalf("%d queries, result %+v, error %v", len(queries), got, err)
	}
	if want := (contention.Throttling{Pod: "web-2", Container: "app", Throttled: 400, All: 1000, P95: 0.9, Mean: 0.5}); got[2] != want {
		t.Errorf("got %+v, want %+v", got[2], want)
	}
	if agent := got[0]; agent.Pod != "web-1" || agent.Container != "agent" || !math.IsInf(agent.Throttled, 1) || !math.IsNaN(agent.Mean) {
		t.Errorf("got %+v, want unknown values of the agent", agent)
	}
	first := `label_replace(sum by (pod_name, name) (increase(container_cpu_cfs_throttled_periods_total{namespace="shop", pod_name=~"web\\.1|web-2", name!="", name!="POD"}[1800s])), "podfit_part", "throttled", "", "")`
	if q := queries[0]; !strings.HasPrefix(q, first+" or ") || strings.Count(q, " or ") != 3 {
		t.Errorf("query %s", q)
	}
}

func TestContainerThrottling_wrongType_isAnError(t *testing.T) {
	c := serve(t, func(*http.Request, string) (string, any) { return "scalar", []any{1, "7"} })
	if _, err := c.ContainerThrottling(t.Context(), contention.ThrottlingQuery{Namespace: "shop"}, time.Unix(1e9, 0)); err == nil || !strings.Contains(err.Error(), "must be a vector, got a scalar") {
		t.Errorf("error %v", err)
	}
}
