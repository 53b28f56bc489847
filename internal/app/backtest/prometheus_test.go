// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

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
		if got := cluster.OwnerByName(cluster.Key{Namespace: "shop", Name: pod}).String(); got != want {
			t.Errorf("pod %s: got workload %s, want %s", pod, got, want)
		}
	}
}

// serveHistory answers range queries for two pods of one Deployment.
func serveHistory(t *testing.T) (url string, queries *[]string) {
	t.Helper()
	return serveLimited(t, 1<<30)
}

// serveLimited is serveHistory with a maximum number of steps in a query, as Prometheus has one for samples.
func serveLimited(t *testing.T, most float64) (url string, queries *[]string) {
	t.Helper()
	var asked []string
	refusals := map[string]bool{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/label/namespace/values") {
			_, _ = fmt.Fprint(w, `{"status":"success","data":["shop"]}`)
			return
		}
		asked = append(asked, r.Form.Get("query"))
		from, _ := strconv.ParseFloat(r.Form.Get("start"), 64)
		to, _ := strconv.ParseFloat(r.Form.Get("end"), 64)
		step, err := strconv.ParseFloat(r.Form.Get("step"), 64)
		if err != nil {
			t.Error(err)
		}
		if (to-from)/step+1 > most {
			refused := r.Form.Encode()
			if refusals[refused] {
				t.Errorf("the query %s is repeated although it was refused", refused)
			}
			refusals[refused] = true
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = fmt.Fprint(w, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`)
			return
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

// Row 14 of docs/decisions/0007.
func TestBacktest_prometheusRefusesLongQueries_readsTheSameInShorterOnes(t *testing.T) {
	args := []string{"--namespace", "shop", "--until", "2026-03-20", "--history-length", "12d", "--recommenders", "balanced", "--output", "csv"}
	url, _ := serveHistory(t)
	want, wantTimeline := runBacktest(t, append([]string{"--prometheus", url}, args...)...)
	for _, most := range []float64{200, 40, 1} {
		url, queries := serveLimited(t, most)
		got, timeline := runBacktest(t, append([]string{"--prometheus", url}, args...)...)
		if got != want || timeline != wantTimeline {
			t.Errorf("with at most %g steps in a query, the results differ:\n%s\nwant\n%s", most, got, want)
		}
		if n := float64(len(*queries)); n > 2*(12*288/most*2+20) {
			t.Errorf("with at most %g steps in a query, %g queries were sent", most, n)
		}
	}
}

// Row 14 of docs/decisions/0007.
func TestBacktest_prometheusRefusesEachQuery_errorHasRemedyAndQueryOnRequest(t *testing.T) {
	url, queries := serveLimited(t, 0)
	for _, args := range [][]string{nil, {"-v"}} {
		cmd := NewCommand()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append([]string{"--prometheus", url, "--namespace", "shop", "--until", "2026-03-20"}, args...))
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "too many samples") || !strings.Contains(err.Error(), "; read less") {
			t.Fatalf("got error %v", err)
		}
		if shown := strings.Contains(err.Error(), "max by"); shown != (args != nil) {
			t.Errorf("with %v, the error is %v", args, err)
		}
		if hinted := strings.Contains(err.Error(), "(-v shows the query)"); hinted == (args != nil) {
			t.Errorf("with %v, the error is %v", args, err)
		}
		if len(*queries) > 12 {
			t.Errorf("%d queries were sent", len(*queries))
		}
		*queries = nil
		url, queries = serveLimited(t, 0)
	}
}

// Row 13 of docs/decisions/0007.
func TestBacktest_prometheusAllNamespaces_areThoseThatItKnows(t *testing.T) {
	url, queries := serveHistory(t)
	out, _ := runBacktest(t, "--prometheus", url, "-A", "--until", "2026-03-20", "--history-length", "12d", "--recommenders", "balanced")
	if !strings.HasPrefix(out, "all namespaces of "+url+": 1 workload") || !strings.Contains((*queries)[0], `namespace="shop"`) {
		t.Errorf("asked for %s, and got\n%s", (*queries)[0], out)
	}
}

// Row 18 of docs/decisions/0007.
func TestCompletion_namespacesOfBacktest_areThoseOfItsSource(t *testing.T) {
	url, _ := serveHistory(t)
	t.Setenv("KUBECONFIG", "/nowhere/config")
	for line, want := range map[string]string{
		"--prometheus " + url:                "shop\n",
		"--trace " + writeTrace(t, 2, 1):     "lab\n",
		"--prometheus http://127.0.0.1:1":    "",
		"--trace /nowhere.csv":               "",
		"--recommenders default --mode what": "",
	} {
		root := &cobra.Command{Use: "podfit"}
		root.AddCommand(NewCommand())
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&bytes.Buffer{})
		root.SetArgs(append(append([]string{"__complete", "backtest"}, strings.Fields(line)...), "--namespace", ""))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := strings.Cut(out.String(), ":"); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
