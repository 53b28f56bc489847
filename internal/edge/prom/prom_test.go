// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/usage"
)

// History reads the configured length.
func (c *Client) History(ctx context.Context, namespace string, now time.Time) iter.Seq2[usage.Sample, error] {
	return c.HistorySince(ctx, namespace, now.Add(-c.Length()), now)
}

func config(address string) Config {
	return Config{
		Address: address, Timeout: 5 * time.Second, Job: "kubernetes-cadvisor",
		CPUMetric: "container_cpu_usage_seconds_total", MemoryMetric: "container_memory_working_set_bytes",
		Length: 48 * time.Hour, Resolution: time.Hour,
		NamespaceLabel: "namespace", PodLabel: "pod_name", ContainerLabel: "name",
		LabelsMetric: `up{job="kubernetes-pods"}`, LabelPrefix: "pod_label_",
		LabelsNamespaceLabel: "kubernetes_namespace", LabelsPodLabel: "kubernetes_pod_name",
	}
}

// serve returns a client of a server that responds to each query with the result of do.
func serve(t *testing.T, do func(r *http.Request, query string) (kind string, result any)) *Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		kind, result := do(r, r.Form.Get("query"))
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": kind, "result": result}})
	}))
	t.Cleanup(srv.Close)
	c, err := New(config(srv.URL))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestHistory_twoDays_queriedByDayAndSortedByTime(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	var spans []string
	c := serve(t, func(r *http.Request, query string) (string, any) {
		from, _ := strconv.ParseFloat(r.Form.Get("start"), 64)
		to, _ := strconv.ParseFloat(r.Form.Get("end"), 64)
		if strings.Contains(query, "rate(") {
			spans = append(spans, fmt.Sprintf("%.0fh", (to-from)/3600))
		}
		value := "0.2509"
		if strings.Contains(query, "memory") {
			value = "104857600"
		}
		return "matrix", []any{map[string]any{
			"metric": map[string]string{"namespace": "shop", "pod_name": "web-1", "name": "app"},
			"values": []any{[]any{from, value}, []any{from + 3600, value}},
		}}
	})
	var got []usage.Sample
	if err := each(c.History(t.Context(), "shop", now), func(s usage.Sample) { got = append(got, s) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"23h", "23h", "0h"}, spans); diff != "" {
		t.Errorf("time ranges (-want +got):\n%s", diff)
	}
	for i := 1; i < len(got); i++ {
		if got[i].At.Before(got[i-1].At) {
			t.Fatalf("sample %d at %v follows one at %v", i, got[i].At, got[i-1].At)
		}
	}
	first := got[0]
	first.At = first.At.UTC()
	want := usage.Sample{Pod: cluster.Key{Namespace: "shop", Name: "web-1"}, Container: "app",
		At: now.Add(-48 * time.Hour), CPU: 0.25, Has: cluster.Of(cluster.CPU)}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("first sample (-want +got):\n%s", diff)
	}
	if len(got) != 3*4 {
		t.Errorf("got %d samples, want 12", len(got))
	}
}

func TestHistory_queries_selectTheSeriesThatUpstreamSelects(t *testing.T) {
	var queries []string
	c := serve(t, func(_ *http.Request, query string) (string, any) {
		queries = append(queries, query)
		return "matrix", []any{}
	})
	c.config.Length = 30 * time.Minute
	if err := each(c.History(t.Context(), `sh"op`, time.Now()), func(usage.Sample) {}); err != nil {
		t.Fatal(err)
	}
	by := "max by (pod_name, name, namespace) "
	want := []string{
		by + `(rate(container_cpu_usage_seconds_total{job="kubernetes-cadvisor", pod_name=~".+", name!="POD", name!="", namespace="sh\"op"}[3600s]))`,
		by + `(container_memory_working_set_bytes{job="kubernetes-cadvisor", pod_name=~".+", name!="POD", name!="", namespace="sh\"op"})`,
	}
	if diff := cmp.Diff(want, queries); diff != "" {
		t.Errorf("queries (-want +got):\n%s", diff)
	}
}

func TestPodLabels_vectorOrMatrix_areFoundByOriginalNames(t *testing.T) { // W-29
	tests := map[string]struct{ metric, query, kind string }{
		"default, without a range":              {`up{job="kubernetes-pods"}`, `last_over_time(up{job="kubernetes-pods"}[172800s])`, "vector"},
		"with a range, which upstream requires": {`kube_pod_labels{}[8d]`, `kube_pod_labels{}[8d]`, "matrix"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			metric := map[string]string{
				"kubernetes_namespace": "shop", "kubernetes_pod_name": "web-1", "job": "kubernetes-pods",
				"pod_label_app_kubernetes_io_name": "web", "pod_label_tier": "front",
			}
			var query string
			c := serve(t, func(_ *http.Request, q string) (string, any) {
				query = q
				if tt.kind == "vector" {
					return "vector", []any{map[string]any{"metric": metric, "value": []any{1.0, "1"}}}
				}
				return "matrix", []any{map[string]any{"metric": metric, "values": []any{[]any{1.0, "1"}}}}
			})
			c.config.LabelsMetric = tt.metric
			labels, err := c.PodLabels(t.Context(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			l := labels[cluster.Key{Namespace: "shop", Name: "web-1"}]
			if l.Get("app.kubernetes.io/name") != "web" || l.Get("tier") != "front" || l.Has("job") {
				t.Errorf("got labels %v", l)
			}
			if query != tt.query {
				t.Errorf("got query %s, want %s", query, tt.query)
			}
		})
	}
}

func TestHistory_credentialsConfigured_areSent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		config func(*Config)
		want   string
	}{
		"none":       {func(*Config) {}, ""},
		"token":      {func(c *Config) { c.Token = "secret" }, "Bearer secret"},
		"token file": {func(c *Config) { c.TokenFile = file }, "Bearer from-file"},
		"password":   {func(c *Config) { c.Username, c.Password = "me", "pw" }, "Basic bWU6cHc="},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r.Header.Get("Authorization")
				_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"matrix","result":[]}}`))
			}))
			defer srv.Close()
			cfg := config(srv.URL)
			tt.config(&cfg)
			c, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := each(c.History(t.Context(), "shop", time.Now()), func(usage.Sample) {}); err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got Authorization %q, want %q", got, tt.want)
			}
		})
	}
}

func TestHistory_failedQuery_errorHasQueryAndCause(t *testing.T) {
	tests := map[string]struct {
		code        int
		reply, want string
	}{
		"forbidden":         {http.StatusForbidden, "no", "read the cpu history of namespace shop"},
		"not JSON":          {http.StatusOK, "<html>", "read the cpu history of namespace shop"},
		"other result type": {http.StatusOK, `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`, "must be a matrix"},
		"an error":          {http.StatusUnprocessableEntity, `{"status":"error","errorType":"execution","error":"too many samples"}`, "too many samples"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.code)
				_, _ = w.Write([]byte(tt.reply))
			}))
			defer srv.Close()
			c, err := New(config(srv.URL))
			if err != nil {
				t.Fatal(err)
			}
			err = each(c.History(t.Context(), "shop", time.Now()), func(usage.Sample) { t.Error("got a sample") })
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}

// FuzzReply sends arbitrary replies. The client must not panic, errors must contain the query, and invalid samples must not change the
// history of a container.
func FuzzReply(f *testing.F) {
	matrix := func(labels string, values ...string) []byte {
		points := make([]string, len(values))
		for i, v := range values {
			points[i] = fmt.Sprintf("[%d,%q]", 1e9+60*i, v)
		}
		return fmt.Appendf(nil, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":%s,"values":[%s]}]}}`, labels, strings.Join(points, ","))
	}
	const app = `{"namespace":"n","pod_name":"p","name":"c"}`
	f.Add(matrix(app, "0", "1e-9", "9223372036854775807", "NaN", "-1", "+Inf", "-Inf", "1e400", "0x1p-2", "1_0", ""))
	f.Add(matrix(`{"pod_name":"p","name":"c"}`, "0.1", "200000000"))
	f.Add(matrix(`{"namespace":"n","pod_name":"p","name":"POD"}`, "0.1"))
	f.Add(matrix(`{"namespace":"other","pod_name":"p","name":"c","\u0000":"\uffff"}`, "0.1"))
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":` + app + `,"values":[[1e300,"1"],[-1e300,"1"],["x","1"],[null,null],[1]]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"kubernetes_namespace":"n","kubernetes_pod_name":"p","pod_label_":"x"},"value":[1,"1"]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"histograms":[[1,{}]]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`))
	f.Add([]byte(`{"status":"success","data":null}`))
	f.Add([]byte(`{"status":"success","warnings":["w"],"data":{"resultType":"matrix","result":null}}`))
	f.Add([]byte(`{"status":"error","errorType":"timeout","error":"query timed out"}`))
	f.Add([]byte(`{"status":"error"}`))
	f.Add([]byte(`<html>`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, reply []byte) {
		cfg := config("http://prometheus.invalid")
		cfg.Length = time.Minute
		c, err := NewWithTransport(cfg, canned(reply))
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1e9, 0)
		w := cluster.Workload{Name: "w"}
		store := usage.NewStore(usage.DefaultConfig())
		store.Tick(now)
		store.Track(&cluster.Pod{Key: cluster.Key{Namespace: "n", Name: "p"}, Top: w, Containers: []cluster.Container{{Name: "c"}}})
		good := usage.Sample{Pod: cluster.Key{Namespace: "n", Name: "p"}, Container: "c", At: now.Add(-time.Hour), CPU: 0.3, Memory: 2e8, Has: cluster.Both}
		store.Observe(good)
		histograms := func() []histogram.Checkpoint {
			return []histogram.Checkpoint{store.Series(w, "c").CPU.Checkpoint(), store.Series(w, "c").Memory.Checkpoint()}
		}
		before := histograms()
		read := 0
		taken := cluster.Set(0)
		err = each(c.History(t.Context(), "n", now), func(s usage.Sample) {
			read++
			if s.Pod.Namespace != "n" || s.Pod.Name == "" || s.Container == "" || s.Has.Empty() {
				t.Errorf("got an incomplete sample: %+v", s)
			}
			accepted := store.Observe(s)
			taken |= accepted
			if accepted.Has(cluster.CPU) && !(s.CPU >= 0 && s.CPU <= 1e5) || accepted.Has(cluster.Memory) && !(s.Memory >= 1 && s.Memory <= 1e14) {
				t.Errorf("the store accepted %+v", s)
			}
		})
		if err != nil && !strings.Contains(err.Error(), "history of namespace n from 2001-09-09T") {
			t.Errorf("the error does not contain the query: %v", err)
		}
		after := store.Series(w, "c")
		if taken.Empty() {
			if diff := cmp.Diff(before, histograms()); diff != "" && read == 0 {
				t.Errorf("history changed, although there were no samples:\n%s", diff)
			}
		}
		for _, h := range []*histogram.Histogram{&after.CPU, &after.Memory} {
			if p := h.Percentile(0.9); math.IsNaN(p) || math.IsInf(p, 0) || p <= 0 {
				t.Errorf("got percentile %v, want a positive number", p)
			}
		}
		if _, err = c.PodLabels(t.Context(), now); err != nil && !strings.Contains(err.Error(), "read the labels of pods") {
			t.Errorf("the error does not contain the query: %v", err)
		}
	})
}

// each calls do for each sample up to the first error, and returns the error.
func each(samples iter.Seq2[usage.Sample, error], do func(usage.Sample)) error {
	for s, err := range samples {
		if err != nil {
			return err
		}
		do(s)
	}
	return nil
}

// canned is a transport that responds to each request with the same bytes.
type canned []byte

// RoundTrip implements http.RoundTripper.
func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(c)
	res := w.Result()
	res.Request = r
	return res, nil
}

func TestIsTimeout_serverHangs_isTrue(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release); srv.Close() })
	c := config(srv.URL)
	c.Timeout = 50 * time.Millisecond
	client, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.PodLabels(t.Context(), time.Now())
	if !IsTimeout(err) {
		t.Errorf("got error %v, want a timeout", err)
	}
	if err := each(client.History(t.Context(), "shop", time.Now()), func(usage.Sample) {}); !IsTimeout(err) {
		t.Errorf("got error %v, want a timeout", err)
	}
	if IsTimeout(nil) || IsTimeout(errors.New("no such metric")) || IsTimeout(context.Canceled) {
		t.Error("another error is reported as a timeout")
	}
}

// CronJobs may end before the next sample of usage. Only the names of their pods match.
func TestPeaksSince_cronJobs_haveTheHighestMemoryOfEachStep(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	fails := false
	c := serve(t, func(r *http.Request, query string) (string, any) {
		if want := `max by (pod_name, name, namespace) (max_over_time(container_memory_max_usage_bytes{job="kubernetes-cadvisor", pod_name=~".+-[0-9]{8,11}-[a-z0-9]{5}", name!="POD", name!="", namespace="shop"}[3600s]))`; query != want {
			t.Errorf("query %s, want %s", query, want)
		}
		if fails {
			return "vector", []any{}
		}
		return "matrix", []any{map[string]any{
			"metric": map[string]string{"namespace": "shop", "pod_name": "report-29384756-x7k2p", "name": "app"},
			"values": []any{[]any{float64(now.Unix()), "104857600"}},
		}}
	})
	var got []usage.Sample
	if err := each(c.PeaksSince(t.Context(), "shop", now.Add(-time.Hour), now), func(s usage.Sample) { got = append(got, s) }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !got[0].Peak || got[0].Memory != 100<<20 || got[0].Pod.Name != "report-29384756-x7k2p" {
		t.Errorf("samples %+v", got)
	}
	fails = true
	if err := each(c.PeaksSince(t.Context(), "shop", now.Add(-time.Hour), now), func(usage.Sample) {}); err == nil || !strings.Contains(err.Error(), "peak memory of CronJobs of namespace shop") {
		t.Errorf("error %v", err)
	}
}
