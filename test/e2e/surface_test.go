// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/test/contract"
	"podfit.dev/podfit/test/e2e/bed"
)

// A queryClient is a Prometheus that scrapes the components and runs the queries of dashboards.
type queryClient struct {
	*place
	url, dir string
	targets  []target
}

// A target is an entry of a Prometheus target file.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

func (p *place) startLens() *queryClient {
	p.Helper()
	l := &queryClient{place: p, dir: p.TempDir()}
	const config = "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: vpa, file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]}]\n"
	if err := os.WriteFile(filepath.Join(l.dir, "prometheus.yaml"), []byte(config), 0o600); err != nil {
		p.Fatal(err)
	}
	l.write()
	port, err := bed.FreePort()
	if err != nil {
		p.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	l.url = "http://" + address
	process, err := bed.Start(bed.Command{
		Name: "prometheus", Path: p.buildPrometheus(), Dir: l.dir, Log: filepath.Join(p.Dir, "prometheus-of-dashboards.log"),
		Args: []string{"--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--web.listen-address=" + address, "--log.level=warn"},
	})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if p.Failed() {
			p.Logf("prometheus\n%s", process.Tail(20))
		}
		if err := process.Stop(); err != nil {
			p.Error(err)
		}
	})
	return l
}

func (l *queryClient) write() {
	l.Helper()
	b, err := json.Marshal(l.targets)
	if err != nil {
		l.Fatal(err)
	}
	// Renamed into place, so that Prometheus reads only complete files.
	if err := errors.Join(os.WriteFile(filepath.Join(l.dir, "new"), b, 0o600), os.Rename(filepath.Join(l.dir, "new"), filepath.Join(l.dir, "targets.json"))); err != nil {
		l.Fatal(err)
	}
}

// follow adds the components of an installation to the scrape targets, with a label for the installation.
func (l *queryClient) follow(name string, c *installation) {
	l.Helper()
	for component, one := range map[string]*bed.Podfit{"recommender": c.recommender, "updater": c.updater, "admission-controller": c.admission} {
		l.targets = append(l.targets, target{[]string{one.Address}, map[string]string{"installation": name, "component": component}})
	}
	l.write()
}

// get requests a page of Prometheus' API and decodes its data.
func (l *queryClient) get(ctx context.Context, page string, query url.Values, data any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+"/api/v1/"+page+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s %v: %s", page, query, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// dashboards are typical queries of dashboards and alerts, by kind of metric; %s is the selector of the installation.
func dashboards(m contract.Metric) []string {
	by := strings.Join(m.Labels, ", ")
	switch m.Type {
	case "gauge":
		// The maximum, because a value of one pass is often gone in the next.
		return []string{"sum by (" + by + ") (max_over_time(" + m.Name + `{installation="%s"}[1h]))`}
	case "counter":
		return []string{"sum by (" + by + ") (rate(" + m.Name + `{installation="%s"}[1h]))`}
	}
	return []string{
		"histogram_quantile(0.9, sum by (" + strings.Join(append([]string{"le"}, m.Labels...), ", ") + ") (rate(" + m.Name + `_bucket{installation="%s"}[1h])))`,
		"sum by (" + by + ") (rate(" + m.Name + `_sum{installation="%[1]s"}[1h])) / sum by (` + by + ") (rate(" + m.Name + `_count{installation="%[1]s"}[1h]))`,
	}
}

// A view is what users see of an installation: results of dashboard queries, the output of kubectl get, events, and annotations of
// pods.
type view struct {
	answers     map[string]map[string]bool // label sets by query
	types       map[string]string          // by metric
	columns     []string
	cells       map[string][]string // by VPA
	events      map[string]bool
	annotations map[string]bool
}

// see returns the view of an installation, with the events since a time.
func (l *queryClient) see(name string, c *installation) *view {
	l.Helper()
	v := &view{answers: map[string]map[string]bool{}, types: map[string]string{}}
	scraped := time.Now()
	l.eventually("every component is scraped twice more", time.Minute, func(ctx context.Context) error {
		var r struct{ Result []struct{ Value []any } }
		q := url.Values{"query": {fmt.Sprintf(`min_over_time(timestamp(up{installation=%q} == 1)[10s:1s])`, name)}}
		if err := l.get(ctx, "query", q, &r); err != nil {
			return err
		}
		if len(r.Result) != 3 {
			return fmt.Errorf("%d components were scraped", len(r.Result))
		}
		if time.Since(scraped) < 5*time.Second {
			return errors.New("not yet")
		}
		return nil
	})
	for _, m := range slices.Concat(contract.RecommenderMetrics(), contract.UpdaterMetrics(), contract.AdmissionMetrics()) {
		for _, query := range dashboards(m) {
			var r struct {
				Result []struct{ Metric map[string]string }
			}
			if err := l.get(l.Context(), "query", url.Values{"query": {fmt.Sprintf(query, name)}}, &r); err != nil {
				l.Fatal(err)
			}
			v.answers[query] = map[string]bool{}
			for _, series := range r.Result {
				v.answers[query][labelSet(series.Metric)] = true
			}
		}
	}
	var all []struct {
		Metric, Type string
		Target       map[string]string
	}
	if err := l.get(l.Context(), "targets/metadata", url.Values{"match_target": {fmt.Sprintf(`{installation=%q}`, name)}}, &all); err != nil {
		l.Fatal(err)
	}
	for _, m := range all {
		v.types[m.Metric] = m.Type
	}
	v.columns, v.cells = l.table()
	v.events = l.eventsSince(c.since)
	v.annotations = l.written()
	return v
}

func labelSet(m map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		value := m[name]
		if name == "vpa_size_log2" {
			value = "any" // the number of pods varies while one is being replaced
		}
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, " ")
}

// table requests the VPAs like kubectl get, and returns the columns and the cells without the age.
func (p *place) table() (columns []string, cells map[string][]string) {
	p.Helper()
	raw, err := p.Discovery().RESTClient().Get().AbsPath("/apis/autoscaling.k8s.io/v1/namespaces/"+p.ns+"/verticalpodautoscalers").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	var t metav1.Table
	if err := json.Unmarshal(raw, &t); err != nil {
		p.Fatal(err)
	}
	age := -1
	for i, c := range t.ColumnDefinitions {
		columns = append(columns, fmt.Sprintf("%s %s %s %d", c.Name, c.Type, c.Format, c.Priority))
		if c.Name == "Age" {
			age = i
		}
	}
	cells = map[string][]string{}
	for _, r := range t.Rows {
		var row []string
		for i, c := range r.Cells {
			if i != age {
				row = append(row, fmt.Sprintf("%T %v", c, c))
			}
		}
		cells[fmt.Sprint(r.Cells[0])] = row
	}
	return columns, cells
}

// Names of pods have random parts.
var podNames = regexp.MustCompile(`\b(evicted|resized)-[a-z0-9]+-[a-z0-9]{5}\b`)

// eventsSince returns the events of pods and VPAs since a time, with their sources.
func (p *place) eventsSince(since time.Time) map[string]bool {
	p.Helper()
	l, err := p.CoreV1().Events(p.ns).List(p.Context(), metav1.ListOptions{})
	if err != nil {
		p.Fatal(err)
	}
	out := map[string]bool{}
	for _, e := range l.Items {
		if strings.HasPrefix(e.Source.Component, "vpa-") && !e.LastTimestamp.Time.Before(since.Truncate(time.Second)) {
			out[fmt.Sprintf("%s %s %s from %s: %s", e.InvolvedObject.Kind, e.Type, e.Reason, e.Source.Component, podNames.ReplaceAllString(e.Message, "$1-POD"))] = true
		}
	}
	return out
}

// written returns the annotations of pods with upstream's keys.
func (p *place) written() map[string]bool {
	p.Helper()
	pods, err := p.pods(p.Context(), "")
	if err != nil {
		p.Fatal(err)
	}
	out := map[string]bool{}
	for _, pod := range pods {
		for k, v := range pod.Annotations {
			if strings.HasPrefix(k, "vpa") {
				head, list, _ := strings.Cut(v, ": container 0: ")
				parts := strings.Split(list, ", ")
				// A pod may be created before or after the recommendation for a new policy, and upstream lists resources in
				// random order.
				parts = slices.DeleteFunc(parts, func(part string) bool { return part == "cpu capped to minAllowed" })
				slices.Sort(parts)
				out[fmt.Sprintf("%s: %s: %s: %s", pod.Labels["app"], k, head, strings.Join(parts, ", "))] = true
			}
		}
	}
	return out
}

// raise increases the minimum CPU of VPAs and waits until all pods have it.
func (p *place) raise(to string, evicted, resized spec) {
	p.Helper()
	atLeast := "  resourcePolicy: {containerPolicies: [{containerName: \"*\", minAllowed: {cpu: " + to + "}}]}"
	p.apply(autoscaler(evicted.Name, "", evicted.Name, "Recreate", atLeast), autoscaler(resized.Name, "", resized.Name, "InPlaceOrRecreate", atLeast))
	for _, name := range []string{evicted.Name, resized.Name} {
		p.eventually(name+" has the CPU of its policy", 2*time.Minute, func(ctx context.Context) error {
			a, err := p.Autoscaler(ctx, p.ns, name)
			if err != nil {
				return err
			}
			if a.Status.Recommendation == nil {
				return errors.New("no recommendation")
			}
			if got := a.Status.Recommendation.ContainerRecommendations[0].Target[corev1.ResourceCPU]; got.String() != to {
				return fmt.Errorf("the recommendation is %s", &got)
			}
			return p.carriesItsTarget(name)(ctx)
		})
	}
}

// Metrics that only a recommender without history has: usage without a recommendation, or above it. Upstream recommends the
// minimum before it has samples. Podfit takes over the history here, so it always has a recommendation that covers the usage.
var beginning = []string{
	"vpa_quality_usage_sample_missing_recommendation_count",
	"vpa_quality_cpu_recommendation_lower_equal_usage_diffs_cores", "vpa_quality_mem_recommendation_lower_equal_usage_diffs_bytes",
}

// looksLike checks that a view has everything that upstream's view has.
func (v *view) looksLike(p *place, upstream *view) {
	p.Helper()
	answered := 0
	for _, m := range slices.Concat(contract.RecommenderMetrics(), contract.UpdaterMetrics(), contract.AdmissionMetrics()) {
		if slices.Contains(beginning, m.Name) {
			continue
		}
		if want, ok := upstream.types[m.Name]; ok && v.types[m.Name] != want {
			p.Errorf("%s is a %q, upstream's a %q", m.Name, v.types[m.Name], want)
		}
		for _, query := range dashboards(m) {
			if len(upstream.answers[query]) == 0 {
				continue // upstream has no result either
			}
			answered++
			for set := range upstream.answers[query] {
				if !v.answers[query][set] {
					p.Errorf("%s\nhas no result for {%s}, only\n%s", query, set, strings.Join(slices.Sorted(maps.Keys(v.answers[query])), "\n"))
				}
			}
		}
	}
	p.Logf("%d query results compared", answered)
	if answered < 30 {
		p.Errorf("only %d query results of upstream", answered)
	}
	if !slices.Equal(v.columns, upstream.columns) {
		p.Errorf("columns of kubectl get: %v, with upstream %v", v.columns, upstream.columns)
	}
	for name, want := range upstream.cells {
		if got := v.cells[name]; !slices.Equal(got, want) {
			p.Errorf("kubectl get %s: %q, with upstream %q", name, got, want)
		}
	}
	for what, maps := range map[string][2]map[string]bool{
		"event": {v.events, upstream.events}, "annotation": {v.annotations, upstream.annotations},
	} {
		if len(maps[1]) == 0 {
			p.Errorf("upstream has no %s", what)
		}
		for one := range maps[1] {
			if !maps[0][one] {
				p.Errorf("%s %q of upstream is missing; there are %q", what, one, keys(maps[0]))
			}
		}
		for one := range maps[0] {
			if !maps[1][one] {
				p.Errorf("%s %q does not exist in upstream", what, one)
			}
		}
	}
}

func keys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
