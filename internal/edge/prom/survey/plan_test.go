// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
)

// The queries of a plan contain each hour of each namespace exactly once per measure, and each is within the budget unless it is the
// smallest possible.
func TestPlan_randomClusters_queriesCoverEverythingOnceWithinTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Plan{
			From: now.Truncate(day).AddDate(0, 0, -rapid.IntRange(0, 3).Draw(t, "days")), To: now.Truncate(time.Hour),
			Interval:   time.Duration(rapid.SampledFrom([]int{1, 15, 60, 7200}).Draw(t, "interval")) * time.Second,
			MaxSamples: rapid.SampledFrom([]int{1, 50_000, 500_000, defaultMaxSamples}).Draw(t, "maxSamples"), Series: map[string]int{},
		}
		var namespaces []string
		for i := range rapid.IntRange(0, 60).Draw(t, "namespaces") {
			name := fmt.Sprintf("namespace-%03d-%s", i, strings.Repeat("x", rapid.IntRange(0, 40).Draw(t, "length")))
			namespaces = append(namespaces, name)
			p.Series[name] = rapid.SampledFrom([]int{0, 1, 30, 400, 22_500}).Draw(t, "series")
			if rapid.Bool().Draw(t, "byPod") {
				p.ByPod = append(p.ByPod, name)
			}
		}
		p.layout(namespaces)
		type key struct {
			namespace string
			measure   Measure
			hour      time.Time
		}
		seen := map[key]int{}
		count := 0
		for _, g := range p.groups {
			for d := range p.days() {
				for _, q := range p.queries(g, d, p.budget()) {
					count++
					if q.samples() > p.budget() && (len(q.namespaces) > 1 || q.to-q.from > 1) {
						t.Fatalf("%+v needs %d samples, and %d are allowed", q, q.samples(), p.budget())
					}
					if n := len(q.measure.expression(selector{namespaces: q.namespaces}, q.joined, windowOf(p.Interval))); n > 5*maxNames {
						t.Fatalf("a query has %d bytes", n)
					}
					sum := 0
					from, to := q.span()
					for _, name := range q.namespaces {
						sum += p.perHour(name)
						if q.joined == slices.Contains(p.ByPod, name) {
							t.Fatalf("%s is read in the wrong way", name)
						}
						for at := from; at.Before(to); at = at.Add(time.Hour) {
							seen[key{name, q.measure, at}]++
						}
					}
					if sum != q.perHour {
						t.Fatalf("%+v: namespaces need %d samples per hour", q, sum)
					}
				}
			}
		}
		want := len(namespaces) * int(measureCount) * int(p.To.Sub(p.From)/time.Hour)
		if len(seen) != want || count != p.Queries {
			t.Fatalf("%d hours in %d queries, want %d in %d", len(seen), count, want, p.Queries)
		}
		for k, n := range seen {
			if n != 1 {
				t.Fatalf("%v is read %d times", k, n)
			}
		}
	})
}

func TestPlan_limitOfPrometheus_isRead(t *testing.T) {
	for name, tt := range map[string]struct {
		flag string
		want int
	}{
		"reported":     {"500000", 500_000},
		"not reported": {"", defaultMaxSamples},
		"invalid":      {"many", defaultMaxSamples},
	} {
		f := newFake(map[string]int{"shop": 1})
		f.maxSamples = tt.flag
		plan, err := f.survey(t).Plan(t.Context(), nil, now.AddDate(0, 0, -1), now)
		if err != nil || plan.MaxSamples != tt.want {
			t.Errorf("%s: got %d, error %v, want %d", name, plan.MaxSamples, err, tt.want)
		}
	}
}

// 5,000 workloads with 22,500 series at a scrape interval of 30 s.
func TestPlan_fiveThousandWorkloads_needsFewQueries(t *testing.T) {
	f := newFake(map[string]int{})
	for i := range 100 {
		f.containers[fmt.Sprintf("namespace-%d", i)] = 225
	}
	plan, err := f.survey(t).Plan(t.Context(), nil, now.AddDate(0, 0, -14), now)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Interval != 30*time.Second || plan.Queries != 7*15*5 || len(f.probes) > 9 {
		t.Errorf("interval %v, %d queries, %d before them, want 30s, 525 and at most 9", plan.Interval, plan.Queries, len(f.probes))
	}
}

// A namespace may have no pods now, and its past usage is still read.
func TestPlan_namespaceWithoutPods_isRead(t *testing.T) {
	f := newFake(map[string]int{"shop": 3})
	plan, err := f.survey(t).Plan(t.Context(), []string{"nightly"}, now.AddDate(0, 0, -1), now)
	if err != nil || plan.Queries != 10 || !strings.Contains(f.probes[0], `namespace="nightly"`) {
		t.Errorf("error %v, %d queries, the first probe is %s", err, plan.Queries, f.probes[0])
	}
}

func TestPlan_ownersTooExpensive_podsAreReadOneByOne(t *testing.T) {
	f := newFake(map[string]int{"shop": 3, "pay": 1})
	f.noOwners = status(http.StatusUnprocessableEntity)
	plan, err := f.survey(t).Plan(t.Context(), nil, now.AddDate(0, 0, -1), now)
	if err != nil || !slices.Equal(plan.ByPod, []string{"pay", "shop"}) {
		t.Errorf("error %v, by pod %v, want both", err, plan.ByPod)
	}
	f.noOwners = reply(http.StatusUnauthorized, "text/plain", "expired")
	if _, err := f.survey(t).Plan(t.Context(), nil, now.AddDate(0, 0, -1), now); causeOf(err) != Unauthorized {
		t.Errorf("error %v, want that the credentials are wrong", err)
	}
}

func TestPlan_severalClusters_aLabelMustSelectOne(t *testing.T) {
	f := newFake(map[string]int{"shop": 3})
	f.clusters = []string{"eu", "us"}
	_, err := f.survey(t).Plan(t.Context(), nil, now.AddDate(0, 0, -1), now)
	checkFailure(t, err, SeveralClusters, `"eu" "us"`)
	one := f.survey(t, func(c *Config) { c.Labels = []Label{{"cluster", "eu"}} })
	if plan, err := one.Plan(t.Context(), nil, now.AddDate(0, 0, -1), now); err != nil || plan.Series["shop"] != 5 {
		t.Errorf("error %v with a label", err)
	}
}

func TestPlan_invalidTime_isAnError(t *testing.T) {
	f := newFake(map[string]int{"shop": 1})
	if _, err := f.survey(t).Plan(t.Context(), nil, now, now.Add(-24*time.Hour)); err == nil {
		t.Error("no error for a period that ends before it starts")
	}
}

func TestWindow_scrapeInterval_fourScrapes(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{
		15 * time.Second: 5 * time.Minute, time.Minute: 5 * time.Minute, 2 * time.Minute: 8 * time.Minute, 10 * time.Minute: 40 * time.Minute,
	} {
		p := Plan{Interval: interval}
		if got := windowOf(p.Interval); got != want {
			t.Errorf("%v: window %v, want %v", interval, got, want)
		}
	}
}

func TestMerge_gaps_adjacentOnesOfANamespaceAreJoined(t *testing.T) {
	at := func(h int) time.Time { return now.Truncate(day).Add(time.Duration(h) * time.Hour) }
	got := Merge([]Gap{
		{Namespace: "b", From: at(0), To: at(3)}, {Namespace: "a", From: at(5), To: at(6)}, {Namespace: "a", From: at(0), To: at(2)},
		{Namespace: "a", From: at(1), To: at(5)}, {Namespace: "a", From: at(7), To: at(8)}, {Namespace: "a", From: at(6), To: at(7), Measure: Memory},
	})
	want := []Gap{
		{Namespace: "a", From: at(0), To: at(6)}, {Namespace: "a", From: at(7), To: at(8)},
		{Namespace: "a", From: at(6), To: at(7), Measure: Memory}, {Namespace: "b", From: at(0), To: at(3)},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestWorkload_typesOfTheRecordingRule_areKinds(t *testing.T) {
	for id, want := range map[identity]cluster.Workload{
		{workload: "web", kind: "deployment"}:       {Group: "apps", Kind: "Deployment", Name: "web"},
		{workload: "db", kind: "StatefulSet"}:       {Group: "apps", Kind: "StatefulSet", Name: "db"},
		{workload: "backup-29384760", kind: "job"}:  {Group: "batch", Kind: "CronJob", Name: "backup"},
		{workload: "import", kind: "job"}:           {Group: "batch", Kind: "Job", Name: "import"},
		{workload: "etcd-master", kind: "barepod"}:  {Kind: "Pod", Name: "etcd-master"},
		{workload: "kafka", kind: "StrimziPodSet"}:  {Kind: "StrimziPodSet", Name: "kafka"},
		{workload: "canary", kind: "replicaset"}:    {Group: "apps", Kind: "ReplicaSet", Name: "canary"},
		{workload: "kube-proxy", kind: "daemonset"}: {Group: "apps", Kind: "DaemonSet", Name: "kube-proxy"},
	} {
		if got := workload(&id); got != want {
			t.Errorf("%+v: got %+v, want %+v", id, got, want)
		}
	}
}

// FuzzAnswer decodes arbitrary answers. The table must contain only valid values of the namespaces that were asked for.
func FuzzAnswer(f *testing.F) {
	const one = `{"metric":{"namespace":"shop","pod":"web-0","container":"app"},"values":`
	matrix := func(series string) []byte {
		return []byte(`{"status":"success","data":{"resultType":"matrix","result":[` + series + `]}}`)
	}
	f.Add(matrix(one + `[[944787600,"0.25"],[944791200.0,"NaN"],[944794800,"-1"],[1e300,"+Inf"],[-5,"1e400"]]}`))
	f.Add(matrix(one + `[[],[1],["x"],[null,null],[[1,"2"]]]}`))
	f.Add(matrix(one + `null},` + one + `{}},` + one + `5},` + one + `"["}`))
	f.Add(matrix(`{"metric":null,"histograms":[[1,{}]]},null,[1,"2"]`))
	f.Add([]byte(`{"data":{"result":[` + one + `[[944787600,"7"]]}]},"status":"success","warnings":["w"],"isPartial":true}`))
	f.Add([]byte(`{"status":"success","data":[]}`))
	f.Add([]byte(`{"status":"error","error":"no"}`))
	f.Add([]byte(`<html>`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := New(Config{Address: "http://prometheus.invalid", Transport: answering(func(*http.Request) (*http.Response, error) {
			return reply(http.StatusOK, "application/json", string(data)), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		start := now.Truncate(day)
		for m := range measureCount {
			q := query{measure: m, group: group{namespaces: []string{"shop"}}, day: start, from: 1, to: 5}
			got := newTable(start)
			_, err = s.span(t.Context(), "up", start, start, func(one *series) error { return got.add(&q, one) })
			if err != nil && !strings.HasPrefix(err.Error(), "read usage from Prometheus at ") {
				t.Errorf("the error has no address: %v", err)
			}
			part := Part{table: got}
			for h := range part.Hours() {
				if h.Namespace != "shop" || h.Pod == "" || h.Container == "" || !(h.CPU >= 0 && h.CPU <= 1e5) || !(h.Memory >= 0 && h.Memory <= 1e14) ||
					h.Kills < 0 || !(h.Throttled >= 0 && h.Throttled <= 1) || h.End.Before(start.Add(2*time.Hour)) || h.End.After(start.Add(5*time.Hour)) {
					t.Errorf("got %+v", h)
				}
			}
		}
		_, _ = s.instant(t.Context(), "up", start, func(map[string]string, float64) {})
	})
}

// On 32-bit machines, an int has at most two billions, and a namespace with 30,000 containers that are scraped each second has more samples in a day.
// Fails on such machines only: GOARCH=386 go test.
func TestLayout_moreSamplesThanAnIntHas_queriesStayWithinTheBudget(t *testing.T) {
	start := now.Truncate(day).Add(-day)
	for name, series := range map[string]map[string]int{
		"one large namespace": {"batch": 30_000, "shop": 3, "web": 7},
		"strange counts":      {"batch": math.MaxInt32, "shop": math.MaxInt32, "web": 7},
	} {
		p := &Plan{From: start, To: start.Add(day), Interval: time.Second, MaxSamples: defaultMaxSamples, Series: series, ByPod: []string{"batch", "shop", "web"}}
		p.layout([]string{"batch", "shop", "web"})
		for _, g := range p.groups {
			if len(g.namespaces) > 1 && slices.Contains(g.namespaces, "batch") {
				t.Errorf("%s: read together: %v", name, g.namespaces)
			}
			for _, q := range p.queries(g, start, p.budget()) {
				if n := q.samples(); n <= 0 || n > p.budget() && q.to-q.from > 1 {
					t.Errorf("%s: a query of %v for %d hours reads %d samples, budget %d", name, q.namespaces, q.to-q.from, n, p.budget())
				}
			}
		}
	}
}
