// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/metrics"
	"podfit.dev/podfit/internal/edge/prom/survey"
	"podfit.dev/podfit/test/kubetest"
)

// refuse makes an API server refuse requests, with status 403.
func refuse(f *kubetest.FakeAPI, refuses func(*http.Request) bool) {
	f.Handle(func(w http.ResponseWriter, r *http.Request, _ kubetest.Request) bool {
		if !refuses(r) {
			return false
		}
		kubetest.Respond(w, http.StatusForbidden, kubetest.Failure(http.StatusForbidden, "Forbidden", "the user cannot do that"))
		return true
	})
}

// serviceProxy makes a handler respond to requests through the service proxy of an API server.
func serviceProxy(f *kubetest.FakeAPI, h http.Handler) {
	f.Handle(func(w http.ResponseWriter, r *http.Request, q kubetest.Request) bool {
		if q.Sub != "proxy" {
			return false
		}
		h.ServeHTTP(w, r)
		return true
	})
}

// A prometheus answers the queries of a survey: each container uses 0.25 cores and 256 MiB, and cart 1.1 GiB.
type prometheus struct {
	mu      sync.Mutex
	methods map[string]int
	headers http.Header // of the last request

	parameters url.Values // of the last request
	extra      string     // more fields of the answers to range queries, in JSON
	queries    []string
	fails      func(query string) bool // status 400
	pods       []string                // "namespace pod"
	entered    chan struct{}           // closed at the first range query, if not nil
	hold       bool                    // range queries are not answered
	since      time.Time               // the first sample
	idle       bool                    // no container is throttled
	memory     map[string][2]int       // by namespace: usual memory usage and that of one hour a day in MiB, if they are others
}

func (p *prometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query().Get("query")
	p.mu.Lock()
	if p.methods == nil {
		p.methods = map[string]int{}
	}
	p.methods[r.Method]++
	p.headers, p.parameters = r.Header.Clone(), r.URL.Query()
	p.queries = append(p.queries, query)
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/status/flags"):
		fmt.Fprint(w, `{"status":"success","data":{"query.max-samples":"50000000"}}`)
	case strings.HasSuffix(r.URL.Path, "/query"):
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, p.instant(query))
	case p.fails != nil && p.fails(query):
		w.WriteHeader(http.StatusBadRequest)
	case p.hold:
		close(p.entered)
		<-r.Context().Done()
	default:
		result, _ := json.Marshal(p.matrix(r.URL.Query()))
		extra := ""
		if p.extra != "" {
			extra = "," + p.extra
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":%s}%s}`, result, extra)
	}
}

func (p *prometheus) instant(query string) string {
	switch {
	case strings.Contains(query, "hourly_cost"):
		return ""
	case strings.Contains(query, "unless"): // no owners of pods are stored
		return `{"metric":{"namespace":"shop"},"value":[1,"3"]},{"metric":{"namespace":"ml"},"value":[1,"2"]},{"metric":{"namespace":"web"},"value":[1,"1"]}`
	case strings.HasPrefix(query, "count by (namespace"):
		return `{"metric":{"namespace":"shop"},"value":[1,"3"]},{"metric":{"namespace":"ml"},"value":[1,"2"]},{"metric":{"namespace":"web"},"value":[1,"1"]}`
	}
	return `{"metric":{},"value":[1,"20"]}`
}

func (p *prometheus) matrix(v url.Values) []any {
	query := v.Get("query")
	from, _ := strconv.ParseInt(v.Get("start"), 10, 64)
	to, _ := strconv.ParseInt(v.Get("end"), 10, 64)
	result := []any{}
	for _, name := range p.pods {
		namespace, pod, _ := strings.Cut(name, " ")
		value := "0.25"
		switch {
		case !strings.Contains(query, namespace), strings.Contains(query, "restarts_total"):
			continue
		case strings.Contains(query, "throttled"):
			value = "0.5"
			if p.idle {
				value = "0"
			}
		case strings.Contains(query, "memory"):
			value = strconv.Itoa(256 << 20)
			if strings.HasPrefix(pod, "cart") {
				value = strconv.Itoa(1000 << 20)
			}
		}
		var values []any
		for at := from; at <= to; at += 3600 {
			if at < p.since.Unix() {
				continue
			}
			if of, ok := p.memory[namespace]; ok && strings.Contains(query, "memory") {
				value = strconv.Itoa(of[0] << 20)
				if at/3600%24 == 0 {
					value = strconv.Itoa(of[1] << 20)
				}
			}
			values = append(values, []any{at, value})
		}
		result = append(result, map[string]any{"metric": map[string]string{"namespace": namespace, "pod": pod, "container": "app"}, "values": values})
	}
	return result
}

// recordedPods are the pods of the cluster of shop, and one that is gone.
func recordedPods() []string {
	return []string{
		"shop cart-7d4b9c6f5d-x2k9b", "shop cart-7d4b9c6f5d-x2k9c", "shop cart-7d4b9c6f5d-x2k9d", "shop cart-55d4b9c6f5-zzzzz",
		"ml feature-store-7d4b9c6f5d-x2k9b", "ml feature-store-7d4b9c6f5d-x2k9c", "web front-7d4b9c6f5d-x2k9b",
	}
}

func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// Two weeks of usage in Prometheus are enough to call requests waste. Usage of minutes from the Metrics API is not.
func TestRecommend_prometheus_listsWasteAndTheMetricsAPIDoesNot(t *testing.T) {
	f := shop(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", serve(t, &prometheus{pods: recordedPods(), idle: true}))
	_, waste, found := strings.Cut(r.out, "\nWASTE")
	if r.code != 0 || !found || !strings.Contains(waste, "ml/deploy/feature-store") {
		t.Errorf("got exit code %d, error %s and report\n%s", r.code, r.errs, r.out)
	}
	f.Reply("GET /apis/metrics.k8s.io/v1beta1/pods", http.StatusOK, podMetrics(time.Now()))
	var out bytes.Buffer
	j := newTestJob(t, f)
	j.Source, j.streams.Out = sourceMetrics, &out
	if err := j.run(t.Context()); err != nil || strings.Contains(out.String(), "WASTE") || !strings.Contains(out.String(), "feature-store") {
		t.Errorf("error %v and report\n%s", err, out.String())
	}
}

// podfit recommend sends only requests that read, whatever the source and the format are.
func TestRecommend_eachSource_sendsOnlyRequestsThatRead(t *testing.T) {
	f := shop(t)
	f.Reply("GET /apis/metrics.k8s.io/v1beta1/pods", http.StatusOK, podMetrics(time.Now()))
	f.Apply("/api/v1/namespaces", `{"metadata":{"name":"kube-system","uid":"0b0e5b9e-1f6d-4f0e-9a39-2f6f0ad7f6a1"}}`)
	f.Apply("/api/v1/services", `{"metadata":{"namespace":"monitoring","name":"prometheus-k8s","labels":{"app.kubernetes.io/name":"prometheus","app.kubernetes.io/component":"prometheus"}},
		"spec":{"ports":[{"name":"web","port":9090,"protocol":"TCP"}]}}`)
	p := &prometheus{pods: recordedPods()}
	serviceProxy(f, p)
	config := kubeconfig(t, f.URL())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	direct := &prometheus{pods: recordedPods()}
	for name, args := range map[string][]string{
		"cluster":    {"--source", "cluster", "-o", "kustomize"},
		"discovered": {"-o", "vpa"},
		"prometheus": {"--prometheus", serve(t, direct), "--group-by", "label=app", "-l", "app"},
	} {
		if r := runCommand(t.Context(), append([]string{"--kubeconfig", config}, args...)...); r.code != 0 {
			t.Errorf("%s: got exit code %d and error %s", name, r.code, r.errs)
		}
	}
	j := newTestJob(t, f)
	j.Kube.Kubeconfig, j.Source = config, sourceMetrics
	if err := j.run(t.Context()); err != nil {
		t.Errorf("metrics: %v", err)
	}
	for who, methods := range map[string]map[string]int{"Prometheus through the API server": p.methods, "Prometheus": direct.methods} {
		if len(methods) != 1 || methods[http.MethodGet] == 0 {
			t.Errorf("%s: got requests %v, want only GET", who, methods)
		}
	}
	sent := f.Log()
	for _, q := range sent {
		if !strings.HasPrefix(q.String(), "GET ") {
			t.Errorf("the API server got %s", q)
		}
	}
	if len(sent) == 0 {
		t.Error("the API server got no request")
	}
}

// Without the UID of the cluster, its cache cannot be found. Each run reads all days then, which takes minutes in a large cluster.
func TestRecommend_clusterWithoutUID_noteSaysThatCacheIsNotUsed(t *testing.T) {
	f := shop(t) // it has no namespace kube-system
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var report struct{ Notes []string }
	r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", serve(t, &prometheus{pods: recordedPods()}), "-o", "json")
	if r.code != 0 {
		t.Fatalf("got exit code %d and error %s", r.code, r.errs)
	}
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(report.Notes, "\n")
	if strings.Count(notes, "The cache is not used: ") != 1 || !strings.Contains(notes, "kube-system") {
		t.Errorf("got notes %q", notes)
	}
}

func TestRecommend_prometheus_usesUsageOfLiveAndDeletedPods(t *testing.T) {
	f := shop(t)
	p := &prometheus{pods: recordedPods()}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", serve(t, p), "--prometheus-header", "X-Scope-OrgID: shop", "--cluster-label", "cluster=prod",
		"--no-cache", "--profile", "balanced", "--profile", "default", "-o", "json", "--sort", "name")
	if r.code != 0 {
		t.Fatalf("got exit code %d and error %s", r.code, r.errs)
	}
	var report struct {
		Source, Window string
		Complete       bool
		Containers     []struct {
			Name, Confidence, Risk string
			Days                   int
			Memory                 struct{ Target string }
			Profiles               []struct {
				Profile string
				Target  struct{ CPU, Memory string }
			}
			Findings []struct{ Reason string }
		}
	}
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatal(err)
	}
	if !report.Complete || len(report.Containers) != 3 || report.Window != "14 days" || !strings.HasPrefix(report.Source, "Prometheus http://") {
		t.Fatalf("got %+v", report)
	}
	for _, c := range report.Containers {
		if c.Confidence != "high" || c.Days < 14 || len(c.Profiles) != 2 || c.Profiles[0].Target.Memory == "" || c.Profiles[0].Target == c.Profiles[1].Target {
			t.Errorf("got %+v", c)
		}
		if c.Risk != "high" || c.Findings[len(c.Findings)-1].Reason == "" {
			t.Errorf("%s: throttled in half of the periods: got risk %s", c.Name, c.Risk)
		}
	}
	if p.headers.Get("X-Scope-Orgid") != "shop" || !strings.Contains(strings.Join(p.queries, " "), `cluster="prod"`) {
		t.Errorf("got headers %v and query %s", p.headers, p.queries[0])
	}
}

// The usage of pods that are gone counts for the workload whose pods have such names.
func TestRecommend_allRecordedPodsOfAWorkloadAreGone_theirUsageCounts(t *testing.T) {
	f := shop(t)
	var pods []string
	for _, name := range recordedPods() {
		if !strings.HasPrefix(name, "shop ") || strings.HasSuffix(name, "-zzzzz") {
			pods = append(pods, name)
		}
	}
	pods = append(pods, "shop other-55d4b9c6f5-zzzzz") // of no workload that exists
	r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", serve(t, &prometheus{pods: pods}), "--no-cache", "--history", "3d", "-o", "csv", "deploy/cart")
	if r.code != 0 || !strings.Contains(r.out, "\nshop,Deployment,cart,app,cart,3,high,high,medium,3,") || strings.Contains(r.out, "other") {
		t.Errorf("got exit code %d, error %s and report\n%s", r.code, r.errs, r.out)
	}
}

// A window of 3 days has 3 days whatever the time of the day is, although Prometheus is read in whole days of UTC.
func TestReadHistory_timesOfDay_daysAreThoseOfTheWindow(t *testing.T) {
	from, err := survey.New(survey.Config{
		Address: serve(t, &prometheus{pods: []string{"shop cart-55d4b9c6f5-zzzzz"}}), Transport: http.DefaultTransport, Parallel: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, clock := range []string{"00:00", "06:30", "14:40", "23:59"} {
		now, err := time.Parse(time.RFC3339, "2028-02-29T"+clock+":00Z")
		if err != nil {
			t.Fatal(err)
		}
		key := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}
		cart := &workload{key: key, containers: []string{"app"}}
		s := &scene{
			Config: review.Config{Now: now}, snapshot: cluster.NewSnapshot(nil, nil), catalog: sizing.NewCatalog(recommend.DefaultParams(), false),
			workloads: []*workload{cart}, byKey: map[cluster.Workload]*workload{key: cart},
		}
		j := &job{Config: Defaults(), streams: process.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}}
		j.History = "3d"
		subjects, err := j.readHistory(t.Context(), from, s)
		if err != nil {
			t.Fatal(err)
		}
		if e := subjects[0].Evidence; e.Days() != 3 || e.Hours != 3*24 {
			t.Errorf("at %s: %d days and %d hours, want 3 and 72", clock, e.Days(), e.Hours)
		}
	}
}

// touchAll gives all files the present time: with make test-clock, the clock of the file system differs from that of the test.
func touchAll(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, time.Now(), time.Now()))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A second run reads one day instead of fifteen: the others are in the cache of this cluster, which is in the user's cache folder.
func TestRecommend_secondRun_readsThePresentDayOnly(t *testing.T) {
	f := shop(t)
	const uid = "0b0e5b9e-1f6d-4f0e-9a39-2f6f0ad7f6a1"
	f.Apply("/api/v1/namespaces", `{"metadata":{"name":"kube-system","uid":"`+uid+`"}}`)
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	p := &prometheus{pods: recordedPods()}
	args := []string{"--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", serve(t, p), "-o", "json"}
	var reports []string
	var queries []int
	for range 2 {
		p.queries = nil
		r := runCommand(t.Context(), args...)
		if r.code != 0 {
			t.Fatalf("got exit code %d and error %s", r.code, r.errs)
		}
		_, containers, _ := strings.Cut(r.out, `"containers"`)
		reports, queries = append(reports, containers), append(queries, len(p.queries))
		touchAll(t, cache)
	}
	if queries[1] > queries[0]/3 || reports[0] != reports[1] || reports[0] == "" {
		t.Errorf("%d and %d queries; the reports are\n%s\n%s", queries[0], queries[1], reports[0], reports[1])
	}
	if days, err := filepath.Glob(filepath.Join(cache, "podfit", uid, "*")); err != nil || len(days) == 0 {
		t.Errorf("nothing is stored for the cluster: %v", err)
	}
}

func TestRecommend_prometheusFails_reportNamesGapsAndExitCodeIs3(t *testing.T) {
	f := shop(t)
	p := &prometheus{pods: recordedPods(), fails: func(query string) bool { return strings.Contains(query, "throttled") }}
	r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", serve(t, p), "--no-cache", "--history", "1d")
	if r.code != exitPartial || !strings.Contains(r.out, "Incomplete: CPU throttling of namespace") || !strings.Contains(r.errs, "the report is incomplete") {
		t.Errorf("got exit code %d, error %s and report\n%s", r.code, r.errs, r.out)
	}
}

// The confidence follows the usage that there is, not the time that was asked for.
func TestRecommend_prometheusHasAPartOfTheTime_confidenceFollowsIt(t *testing.T) {
	config := kubeconfig(t, shop(t).URL())
	for hours, want := range map[int]string{4 * 24: "medium", 30: "low", 3: "none"} {
		p := &prometheus{pods: recordedPods(), since: time.Now().Add(-time.Duration(hours) * time.Hour)}
		r := runCommand(t.Context(), "--kubeconfig", config, "--prometheus", serve(t, p), "--no-cache", "-o", "json")
		var report struct {
			Containers []struct {
				Confidence, Why string
				CPU, Memory     struct{ Target string }
			}
		}
		if err := json.Unmarshal([]byte(r.out), &report); err != nil || r.code != 0 || len(report.Containers) != 3 {
			t.Fatalf("%d hours: exit code %d, %v, %s", hours, r.code, err, r.errs)
		}
		for _, c := range report.Containers {
			if c.Confidence != want || (want == "none") != (c.Memory.Target == "") || want == "none" && c.Why == "" {
				t.Errorf("%d hours: %+v, want confidence %s", hours, c, want)
			}
		}
	}
}

func TestRecommend_interrupted_reportsWhatWasReadAndExitCodeIs3(t *testing.T) {
	f := shop(t)
	p := &prometheus{pods: recordedPods(), hold: true, entered: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-p.entered
		cancel()
	}()
	r := runCommand(ctx, "--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", serve(t, p), "--no-cache")
	if r.code != exitPartial || !strings.Contains(r.out, "3 workloads") || !strings.Contains(r.out, ": interrupted") {
		t.Errorf("got exit code %d, error %s and report\n%s", r.code, r.errs, r.out)
	}
}

func TestRecommend_prometheusUnreachable_errorHasCauseAndRemedy(t *testing.T) {
	f := shop(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	login := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>please log in</html>") }))
	for address, want := range map[string]string{gone.URL: "no connection", login: "not from Prometheus"} {
		r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", address, "--no-cache")
		if r.code != 1 || !strings.Contains(r.errs, want) || !strings.Contains(r.errs, "; ") || r.out != "" {
			t.Errorf("%s: got exit code %d and error %s", address, r.code, r.errs)
		}
	}
}

// A tenant of the user replaces the tenant of Mimir without tenants. A result that may lack series makes the report incomplete.
func TestRecommend_mimirInTheCluster_usesTheTenantAndParametersAndReportsPartialResults(t *testing.T) {
	f := shop(t)
	f.Apply("/api/v1/services", `{"metadata":{"namespace":"mimir","name":"query-frontend","labels":{"app.kubernetes.io/name":"mimir","app.kubernetes.io/component":"query-frontend"}},
		"spec":{"ports":[{"name":"http-metrics","port":8080,"protocol":"TCP"}]}}`)
	p := &prometheus{pods: recordedPods(), extra: `"warnings":["ingester-2 is down"]`}
	serviceProxy(f, p)
	config := kubeconfig(t, f.URL())
	for name, args := range map[string][]string{
		"anonymous": nil,
		"shop":      {"--prometheus-header", "x-scope-orgid: shop", "--prometheus-param", "max_source_resolution=5m"},
	} {
		r := runCommand(t.Context(), append([]string{"--kubeconfig", config, "--no-cache", "--history", "1d"}, args...)...)
		if got := p.headers.Values("X-Scope-Orgid"); len(got) != 1 || got[0] != name {
			t.Errorf("%s: got tenants %v", name, got)
		}
		if sent := p.parameters.Get("max_source_resolution"); (sent == "5m") != (len(args) > 0) {
			t.Errorf("%s: got parameters %v", name, p.parameters)
		}
		if r.code != exitPartial || !strings.Contains(r.out, "Mimir mimir/query-frontend") || strings.Count(r.out, "Incomplete: the server may have omitted series: ingester-2 is down") != 1 {
			t.Errorf("%s: got exit code %d, error %s and report\n%s", name, r.code, r.errs, r.out)
		}
	}
}

func TestRecommend_severalPrometheuses_areListed(t *testing.T) {
	f := shop(t)
	for _, namespace := range []string{"monitoring", "other"} {
		f.Apply("/api/v1/services", fmt.Sprintf(`{"metadata":{"namespace":%q,"name":"prometheus-k8s","labels":{"app.kubernetes.io/name":"prometheus","app.kubernetes.io/component":"prometheus"}},
			"spec":{"ports":[{"name":"web","port":9090,"protocol":"TCP"}]}}`, namespace))
	}
	r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()))
	if r.code != 1 || !strings.Contains(r.errs, "monitoring/prometheus-k8s") || !strings.Contains(r.errs, "other/prometheus-k8s") {
		t.Errorf("got exit code %d and error %s", r.code, r.errs)
	}
}

// podMetrics returns a list of the Metrics API.
func podMetrics(at time.Time) string {
	var items []string
	for _, name := range recordedPods()[:7] {
		namespace, pod, _ := strings.Cut(name, " ")
		items = append(items, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q},"timestamp":%q,"window":"15s","containers":[{"name":"app","usage":{"cpu":"50m","memory":"1500Mi"}}]}`,
			namespace, pod, at.UTC().Format(time.RFC3339)))
	}
	return `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[` + strings.Join(items, ",") + `]}`
}

// newTestJob returns a job that reads the Metrics API for some milliseconds.
func newTestJob(t testing.TB, f *kubetest.FakeAPI) *job {
	t.Helper()
	c := Defaults()
	c.Kube.Kubeconfig, c.Source, c.For = kubeconfig(t, f.URL()), sourceMetrics, 30*time.Millisecond
	return &job{Config: c, streams: process.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, interval: 10 * time.Millisecond}
}

// Without --source, the Metrics API is read for a quarter of an hour: the user must know that, and why.
func TestRecommend_noUsableSource_saysBeforeReadingTheMetricsAPI(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	deployment{"web", "front", 1, `{"cpu":"100m","memory":"128Mi"}`, `{}`, "", 0}.apply(f)
	f.Reply("GET /apis/metrics.k8s.io/v1beta1/pods", http.StatusOK, podMetrics(time.Now()))
	f.Apply("/api/v1/services", `{"metadata":{"namespace":"monitoring","name":"prometheus-k8s","labels":{"app.kubernetes.io/name":"prometheus","app.kubernetes.io/component":"prometheus"}},
		"spec":{"ports":[{"name":"web","port":9090,"protocol":"TCP"}]}}`)
	serviceProxy(f, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no right", http.StatusForbidden) }))
	asked := newTestJob(t, f)
	var said, printed bytes.Buffer
	asked.streams.Err, asked.streams.Out = &said, &printed
	if err := asked.run(t.Context()); err != nil || !strings.Contains(said.String(), "Reading the Metrics API for 30ms (--for). The report is printed at the end.") ||
		strings.Count(printed.String(), "1 workload,") != 1 || strings.Contains(printed.String(), "\x1b") {
		t.Errorf("--source metrics in a pipe: error %v, said %q, printed\n%s", err, said.String(), printed.String())
	}
	for _, quiet := range []bool{false, true} {
		j := newTestJob(t, f)
		var errs bytes.Buffer
		j.streams.Err = &errs
		j.Kube.Kubeconfig, j.Source, j.Quiet, j.NoCache = kubeconfig(t, f.URL()), sourceAuto, quiet, true
		if err := j.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := errs.String()
		if said := strings.Contains(got, "Reading the Metrics API for 30ms") && strings.Contains(got, "monitoring/prometheus-k8s was found, but cannot be read"); said == quiet {
			t.Errorf("quiet %v: got %q", quiet, got)
		}
	}
}

// A readings is a Metrics API with usage at times of its own.
type readings struct {
	at     time.Time
	n      int
	cancel func() // called at the third reading, if not nil
	err    error
	failed int // the reading that fails, if not 0
}

func (r *readings) Read(context.Context) (metrics.Reading, error) {
	r.n++
	if r.cancel != nil && r.n == 3 {
		r.cancel()
	}
	if r.failed == r.n {
		return metrics.Reading{}, errors.New("the server is currently unable to handle the request")
	}
	at := r.at.Add(time.Duration(r.n) * time.Minute)
	var out metrics.Reading
	for _, name := range recordedPods() {
		namespace, pod, _ := strings.Cut(name, " ")
		out.Samples = append(out.Samples, usage.Sample{
			Pod: cluster.Key{Namespace: namespace, Name: pod}, Container: "app", At: at, CPU: 0.05, Memory: 1500 << 20, Has: cluster.Both,
		})
	}
	return out, r.err
}

// metricsSubjects reads a Metrics API and returns the subjects by workload.
func metricsSubjects(ctx context.Context, t *testing.T, from sampler, length time.Duration, flags ...func(*Config)) (map[string]*review.Row, *scene, error) {
	t.Helper()
	f := shop(t)
	j := newTestJob(t, f)
	j.For = length
	for _, set := range flags {
		set(&j.Config)
	}
	clients, err := kube.NewClients(j.Kube)
	if err != nil {
		t.Fatal(err)
	}
	s, err := j.readScene(t.Context(), clients)
	if err != nil {
		t.Fatal(err)
	}
	subjects, err := j.readMetrics(ctx, from, s)
	if err != nil {
		return nil, s, err
	}
	rows := map[string]*review.Row{}
	r := review.New(review.Config{Now: s.Now, Profiles: []string{"balanced"}}, subjects)
	for i := range r.Rows {
		rows[r.Rows[i].Workload.Name] = r.Rows[i]
	}
	return rows, s, nil
}

func TestMetrics_shortUsage_isProvisionalAndLowersNothing(t *testing.T) {
	rows, _, err := metricsSubjects(t.Context(), t, &readings{at: time.Now().Add(-10 * time.Minute)}, 30*time.Millisecond, func(c *Config) { c.IncludeYoung = true })
	if err != nil {
		t.Fatal(err)
	}
	// Each container uses 50m and 1,500 MiB: cart and front have less memory, all have more CPU.
	for name, tt := range map[string]struct{ raised, kept cluster.Set }{
		"cart":          {cluster.Of(cluster.Memory), cluster.Of(cluster.CPU)},
		"feature-store": {0, cluster.Both},
		"front":         {cluster.Of(cluster.Memory), cluster.Of(cluster.CPU)},
	} {
		row := rows[name]
		if row.Confidence != review.Low || !row.Evidence.Provisional {
			t.Errorf("%s: got confidence %v", name, row.Confidence)
		}
		for i, res := range cluster.All {
			before, after := row.Requests.Amount(res), row.Request.Amount(res)
			if after < before || tt.raised.Has(res) != (after > before) || tt.kept.Has(res) != (row.Kept[i].Reason == review.Provisional) {
				t.Errorf("%s: %s changes from %d to %d, kept %v", name, res, before, after, row.Kept[i])
			}
		}
	}
}

// Without --include-young, usage of minutes changes no request. The number is shown.
func TestMetrics_shortUsage_isShownAndChangesNothing(t *testing.T) {
	rows, _, err := metricsSubjects(t.Context(), t, &readings{at: time.Now().Add(-10 * time.Minute)}, 30*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cart", "feature-store", "front"} {
		for _, res := range cluster.All {
			if row := rows[name]; row.Request.Amount(res) != row.Requests.Amount(res) || row.Young.Amount(res) == 0 || row.Freed.Amount(res) != 0 {
				t.Errorf("%s: %s changes from %d to %d and frees %d; the young number is %d", name, res, row.Requests.Amount(res), row.Request.Amount(res), row.Freed.Amount(res), row.Young.Amount(res))
			}
		}
	}
}

func TestMetrics_interrupted_keepsReadings(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	rows, s, err := metricsSubjects(ctx, t, &readings{at: time.Now().Add(-10 * time.Minute), cancel: cancel}, time.Minute)
	if err != nil || len(s.Missing) != 1 || rows["cart"].Evidence.Samples == 0 {
		t.Errorf("got error %v, missing %v", err, s.Missing)
	}
}

func TestMetrics_oneReadingFails_keepsTheOthers(t *testing.T) {
	rows, s, err := metricsSubjects(t.Context(), t, &readings{at: time.Now().Add(-10 * time.Minute), failed: 2}, 30*time.Millisecond)
	if err != nil || rows["cart"].Evidence.Samples == 0 {
		t.Fatalf("got error %v", err)
	}
	if len(s.Missing) != 1 || !strings.Contains(s.Missing[0], "1 of ") || !strings.Contains(s.Missing[0], "unable to handle the request") {
		t.Errorf("missing: %v", s.Missing)
	}
}

func TestMetrics_unavailable_errorHasRemedy(t *testing.T) {
	_, _, err := metricsSubjects(t.Context(), t, &readings{err: errors.New("the server could not find the requested resource")}, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "install metrics-server") {
		t.Errorf("got error %v", err)
	}
}

func TestRecommend_trace_printsWhatToRequest(t *testing.T) {
	var b strings.Builder
	b.WriteString("time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n")
	for i := range 24 * 8 {
		fmt.Fprintf(&b, "%d,shop,Deployment,cart,cart-0,app,0.2,3e8\n", 1782000000+3600*i)
	}
	path := filepath.Join(t.TempDir(), "usage.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runCommand(t.Context(), "--trace", path)
	if r.code != 0 || !strings.Contains(r.out, "shop/deploy/cart") || !strings.Contains(r.out, "high, 8 d") || !strings.Contains(r.out, "Requests are not known") {
		t.Errorf("got exit code %d, error %s and report\n%s", r.code, r.errs, r.out)
	}
}
