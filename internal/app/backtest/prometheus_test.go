// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestOwnerByName_generatedPodNames_giveWorkload(t *testing.T) {
	for pod, want := range map[string]string{
		"web-7d4b9c6f5d-x2k9p":       "shop/Deployment/web",
		"web-api-7d4b9c6f5d-x2k9p":   "shop/Deployment/web-api",
		"db-12":                      "shop/StatefulSet/db",
		"log-x2k9p":                  "shop/DaemonSet/log",
		"report-28391040-x2k9p":      "shop/CronJob/report",
		"alone":                      "shop/Pod/alone",
		"with-vowels-aeiou-aeiouaei": "shop/Pod/with-vowels-aeiou-aeiouaei",
	} {
		if got := ownerByName(cluster.Key{Namespace: "shop", Name: pod}).String(); got != want {
			t.Errorf("pod %s: got workload %s, want %s", pod, got, want)
		}
	}
}

// serveHistory answers range queries for two pods of one Deployment.
func serveHistory(t *testing.T) (url string, queries *[]string) {
	t.Helper()
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		asked = append(asked, r.Form.Get("query"))
		from, _ := strconv.ParseFloat(r.Form.Get("start"), 64)
		to, _ := strconv.ParseFloat(r.Form.Get("end"), 64)
		step, err := strconv.ParseFloat(r.Form.Get("step"), 64)
		if err != nil {
			t.Error(err)
		}
		var result []any
		for i := range 2 {
			var values []any
			for at := from; at <= to; at += step {
				v := 0.2
				if strings.Contains(r.Form.Get("query"), "memory") {
					v = 2e8
				}
				values = append(values, []any{at, fmt.Sprint(v * float64(i+1))})
			}
			result = append(result, map[string]any{
				"metric": map[string]string{"namespace": "shop", "pod": fmt.Sprintf("web-7d4b9c6f5d-x2k9%d", i+4), "container": "app"},
				"values": values,
			})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": result}})
	}))
	t.Cleanup(srv.Close)
	return srv.URL, &asked
}

func TestBacktest_prometheus_replaysHistory(t *testing.T) {
	url, queries := serveHistory(t)
	out, timeline := runBacktest(t, "--prometheus", url, "--namespace", "shop", "--until", "2026-03-20", "--history-length", "12d",
		"--recommenders", "balanced", "--output", "json")
	var r struct {
		From, To  string
		Workloads []struct {
			Kind, Name   string
			Recommenders []struct {
				Memory struct {
					Days int     `json:"container_days"`
					Free float64 `json:"exceed_free_days"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Workloads) != 1 || r.Workloads[0].Kind != "Deployment" || r.Workloads[0].Name != "web" {
		t.Fatalf("got workloads %+v", r.Workloads)
	}
	if m := r.Workloads[0].Recommenders[0].Memory; m.Days != 4 || m.Free != 1 {
		t.Errorf("got memory %+v", m)
	}
	if !strings.HasPrefix(r.From, "2026-03-08") || !strings.Contains(timeline, "shop,Deployment,web,app,balanced,memory,") {
		t.Errorf("got a replay from %s with timeline\n%s", r.From, timeline)
	}
	if q := (*queries)[0]; !strings.Contains(q, `namespace="shop"`) || strings.Contains(q, "job=") {
		t.Errorf("got query %s", q)
	}
}

func TestBacktest_prometheusSinceAndUntil_limitQueries(t *testing.T) {
	url, queries := serveHistory(t)
	out, _ := runBacktest(t, "--prometheus", url, "--namespace", "shop", "--since", "2026-03-10", "--until", "2026-03-20", "--recommenders", "balanced", "--output", "json")
	var r struct{ From, To string }
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.From, "2026-03-10T00:00") || !strings.HasPrefix(r.To, "2026-03-19T23:5") {
		t.Errorf("got a replay from %s to %s", r.From, r.To)
	}
	if n := len(*queries); n != 2*10 && n != 2*11 {
		t.Errorf("got %d queries for ten days of CPU and memory", n)
	}
}
