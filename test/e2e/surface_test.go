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

	"podfit.dev/podfit/internal/contract"
	"podfit.dev/podfit/test/e2e/bed"
)

// A lens is a real Prometheus that scrapes the components, and asks what dashboards ask.
type lens struct {
	*place
	url, dir string
	targets  []target
}

// A target is what a Prometheus scrapes, as its file of targets writes it.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

func (p *place) startLens() *lens {
	p.Helper()
	l := &lens{place: p, dir: p.TempDir()}
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

func (l *lens) write() {
	l.Helper()
	b, err := json.Marshal(l.targets)
	if err != nil {
		l.Fatal(err)
	}
	// By renaming, so that no half of it is ever read.
	if err := errors.Join(os.WriteFile(filepath.Join(l.dir, "new"), b, 0o600), os.Rename(filepath.Join(l.dir, "new"), filepath.Join(l.dir, "targets.json"))); err != nil {
		l.Fatal(err)
	}
}

// follow scrapes a crew from now on, under a name.
func (l *lens) follow(name string, c *crew) {
	l.Helper()
	for component, one := range map[string]*bed.Podfit{"recommender": c.recommender, "updater": c.updater, "admission-controller": c.admission} {
		l.targets = append(l.targets, target{[]string{one.Address}, map[string]string{"crew": name, "component": component}})
	}
	l.write()
}

// get asks a page of Prometheus' API, and reads its data.
func (l *lens) get(ctx context.Context, page string, query url.Values, data any) error {
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

// dashboards are the queries that dashboards and alerts make of a metric, with %s for whose it is.
func dashboards(m contract.Metric) []string {
	by := strings.Join(m.Labels, ", ")
	switch m.Type {
	case "gauge":
		// The most of it: what a pass has found is often gone in the next.
		return []string{"sum by (" + by + ") (max_over_time(" + m.Name + `{crew="%s"}[1h]))`}
	case "counter":
		return []string{"sum by (" + by + ") (rate(" + m.Name + `{crew="%s"}[1h]))`}
	}
	return []string{
		"histogram_quantile(0.9, sum by (" + strings.Join(append([]string{"le"}, m.Labels...), ", ") + ") (rate(" + m.Name + `_bucket{crew="%s"}[1h])))`,
		"sum by (" + by + ") (rate(" + m.Name + `_sum{crew="%[1]s"}[1h])) / sum by (` + by + ") (rate(" + m.Name + `_count{crew="%[1]s"}[1h]))`,
	}
}

// A view is what people and programs see of a crew: what the queries of dashboards answer, what kubectl get and describe
// are told, and what is written on pods.
type view struct {
	answers     map[string]map[string]bool // by query, the label sets
	types       map[string]string          // of metrics
	columns     []string
	cells       map[string][]string // by autoscaler
	events      map[string]bool
	annotations map[string]bool
}

// see looks at a crew, whose events are those from a time on.
func (l *lens) see(name string, c *crew) *view {
	l.Helper()
	v := &view{answers: map[string]map[string]bool{}, types: map[string]string{}}
	scraped := time.Now()
	l.eventually("every component is scraped twice more", time.Minute, func(ctx context.Context) error {
		var r struct{ Result []struct{ Value []any } }
		q := url.Values{"query": {fmt.Sprintf(`min_over_time(timestamp(up{crew=%q} == 1)[10s:1s])`, name)}}
		if err := l.get(ctx, "query", q, &r); err != nil {
			return err
		}
		if len(r.Result) != 3 {
			return fmt.Errorf("%d components are scraped", len(r.Result))
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
	if err := l.get(l.Context(), "targets/metadata", url.Values{"match_target": {fmt.Sprintf(`{crew=%q}`, name)}}, &all); err != nil {
		l.Fatal(err)
	}
	for _, m := range all {
		v.types[m.Metric] = m.Type
	}
	v.columns, v.cells = l.table()
	v.events = l.told(c.since)
	v.annotations = l.written()
	return v
}

func labelSet(m map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		value := m[name]
		if name == "vpa_size_log2" {
			value = "any" // how many pods there are while one is being replaced is a matter of luck
		}
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, " ")
}

// table asks for the autoscalers as kubectl get does, and returns the columns and the cells of each but their age.
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

// told returns the events since a time that kubectl describe shows of pods and autoscalers, and who they are from.
func (p *place) told(since time.Time) map[string]bool {
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

// written returns the annotations of pods that are upstream's.
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
				// Whether a pod came before or after the recommendation that follows from a new policy is a matter of luck;
				// so is the order in which upstream names resources.
				parts = slices.DeleteFunc(parts, func(part string) bool { return part == "cpu capped to minAllowed" })
				slices.Sort(parts)
				out[fmt.Sprintf("%s: %s: %s: %s", pod.Labels["app"], k, head, strings.Join(parts, ", "))] = true
			}
		}
	}
	return out
}

// raise has autoscalers ask for more CPU than before, and waits until all pods have it.
func (p *place) raise(to string, evicted, resized spec) {
	p.Helper()
	atLeast := "  resourcePolicy: {containerPolicies: [{containerName: \"*\", minAllowed: {cpu: " + to + "}}]}"
	p.apply(autoscaler(evicted.Name, "", evicted.Name, "Recreate", atLeast), autoscaler(resized.Name, "", resized.Name, "InPlaceOrRecreate", atLeast))
	for _, name := range []string{evicted.Name, resized.Name} {
		p.eventually(name+" gets the CPU that its policy asks for", 2*time.Minute, func(ctx context.Context) error {
			a, err := p.Autoscaler(ctx, p.ns, name)
			if err != nil {
				return err
			}
			if a.Status.Recommendation == nil {
				return errors.New("no recommendation")
			}
			if got := a.Status.Recommendation.ContainerRecommendations[0].Target[corev1.ResourceCPU]; got.String() != to {
				return fmt.Errorf("it is recommended %s", &got)
			}
			return p.carriesItsTarget(name)(ctx)
		})
	}
}

// What only happens to a recommender that has to begin: usage where there is no recommendation yet, or above one. Upstream
// recommends the least there is before it knows any usage; podfit, which takes over what has been learnt, is never without a
// recommendation here, nor with one below usage.
var beginning = []string{
	"vpa_quality_usage_sample_missing_recommendation_count",
	"vpa_quality_cpu_recommendation_lower_equal_usage_diffs_cores", "vpa_quality_mem_recommendation_lower_equal_usage_diffs_bytes",
}

// looksLike checks that whoever knows how upstream looks finds the same here.
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
				continue // what did not happen there need not have happened here
			}
			answered++
			for set := range upstream.answers[query] {
				if !v.answers[query][set] {
					p.Errorf("%s\nhas no answer for {%s}; it has\n%s", query, set, strings.Join(slices.Sorted(maps.Keys(v.answers[query])), "\n"))
				}
			}
		}
	}
	p.Logf("%d queries answered", answered)
	if answered < 30 {
		p.Errorf("only %d queries have an answer of upstream's", answered)
	}
	if !slices.Equal(v.columns, upstream.columns) {
		p.Errorf("kubectl get has the columns %v, with upstream %v", v.columns, upstream.columns)
	}
	for name, want := range upstream.cells {
		if got := v.cells[name]; !slices.Equal(got, want) {
			p.Errorf("kubectl get shows of %s %q, with upstream %q", name, got, want)
		}
	}
	for what, maps := range map[string][2]map[string]bool{
		"event": {v.events, upstream.events}, "annotation": {v.annotations, upstream.annotations},
	} {
		if len(maps[1]) == 0 {
			p.Errorf("upstream leaves no %s", what)
		}
		for one := range maps[1] {
			if !maps[0][one] {
				p.Errorf("the %s %q of upstream's is missing; there are %q", what, one, keys(maps[0]))
			}
		}
		for one := range maps[0] {
			if !maps[1][one] {
				p.Errorf("the %s %q is not one of upstream's", what, one)
			}
		}
	}
}

func keys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
