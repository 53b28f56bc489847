// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender/history"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/watcher"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/kubetest"
)

// given returns the default configuration with these flags.
func given(t *testing.T, args ...string) Config {
	t.Helper()
	c := Defaults()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.SetNormalizeFunc(process.Dashes)
	c.Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := c.Compatibility.Apply(fs); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// figures returns the numbers of a recommendation, by bound and resource.
func figures(a *cluster.Advice) map[string]int64 {
	out := map[string]int64{}
	for bound, r := range map[string]cluster.Resources{"lower": a.Lower, "target": a.Target, "upper": a.Upper} {
		for _, res := range cluster.All {
			out[bound+" "+res.String()] = r.Amount(res)
		}
	}
	return out
}

// recommended returns the recommendation after five days of varying usage with an OOM kill on the fourth day.
func recommended(t *testing.T, args ...string) map[string]int64 {
	t.Helper()
	b := newBench(t)
	b.config = given(t, append([]string{"--status-interval=0s"}, args...)...)
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	w := b.deployment("web", 1, "app", "idle")
	b.autoscale("web", w).Created = start
	source := &fixedUsage{}
	d := b.dependencies()
	d.source = always(source)
	r := newRecommender(b.config, d)
	for m := 0; m < 5*24*60; m += 20 {
		now := start.Add(time.Duration(m) * time.Minute)
		phase := float64(m%700) / 700
		*source = fixedUsage{
			{Pod: b.pods[0].Key, Container: "app", At: now, CPU: 0.2 + 2*phase*phase, Memory: []float64{4e8, 9e8, 3e8, 8e8, 3e8}[m/(24*60)], Has: cluster.Both},
			{Pod: b.pods[0].Key, Container: "idle", At: now, CPU: 0.001, Memory: 1e6, Has: cluster.Both},
		}
		if m == 3*24*60+600 {
			p := *b.pods[0]
			p.Containers = slices.Clone(p.Containers)
			p.Containers[0].Exit = &cluster.Exit{OOM: true, Started: now.Add(-time.Hour), Finished: now}
			b.pods[0] = &p
		}
		r.pass(t.Context(), now)
	}
	out := figures(b.advice("web", "app"))
	for k, v := range figures(b.advice("web", "idle")) {
		out["idle "+k] = v
	}
	return out
}

var (
	cpuNumbers    = []string{"lower cpu", "target cpu", "upper cpu"}
	memoryNumbers = []string{"lower memory", "target memory", "upper memory"}
)

// sizingFlags contains the flags that change recommendations, and the amounts that each changes.
var sizingFlags = map[string][]string{
	"recommendation-margin-fraction=0.5":              slices.Concat(cpuNumbers, memoryNumbers),
	"pod-recommendation-min-cpu-millicores=100":       {"idle lower cpu", "idle target cpu", "idle upper cpu"},
	"pod-recommendation-min-memory-mb=400":            {"idle lower memory", "idle target memory", "idle upper memory"},
	"target-cpu-percentile=0.6":                       {"target cpu"},
	"recommendation-lower-bound-cpu-percentile=0.2":   {"lower cpu"},
	"recommendation-upper-bound-cpu-percentile=1":     {"upper cpu"},
	"target-memory-percentile=0.3":                    {"target memory"},
	"recommendation-lower-bound-memory-percentile=.9": {"lower memory"},
	"recommendation-upper-bound-memory-percentile=.3": {"upper memory"},
	"confidence-interval-cpu=100h":                    {"lower cpu", "upper cpu"},
	"confidence-interval-memory=100h":                 {"lower memory", "upper memory"},
	"memory-aggregation-interval=1h":                  memoryNumbers,
	"memory-histogram-decay-half-life=1h":             memoryNumbers,
	"cpu-histogram-decay-half-life=1h":                cpuNumbers,
	"oom-bump-up-ratio=3":                             memoryNumbers,
	"oom-min-bump-up-bytes=3000000000":                memoryNumbers,
	"round-cpu-millicores=1000":                       cpuNumbers,
	"round-memory-bytes=1000000000":                   memoryNumbers,
	"humanize-memory":                                 memoryNumbers,
	"container-recommendation-max-allowed-cpu=300m":   cpuNumbers,
	"container-recommendation-max-allowed-memory=1Mi": memoryNumbers,
	"container-recommendation-max-allowed-cpu=1000":   {},
	"size-by-run=false":                               {}, // of a Deployment
	"role-history=0s":                                 {}, // without a role label
}

func TestSizingFlags_allFlags_areInTheTable(t *testing.T) {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c := Defaults()
	c.Sizing.flags(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		known := f.Name == "memory-aggregation-interval-count" // TestSizingFlags_memoryIntervalCount_limitsTheHistory
		for flag := range sizingFlags {
			name, _, _ := strings.Cut(flag, "=")
			known = known || name == f.Name
		}
		if !known {
			t.Errorf("--%s is not in the table", f.Name)
		}
	})
}

// Each flag changes the numbers that it is for, and no others.
func TestSizingFlags_eachFlag_changesOnlyItsNumbers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	defaults := recommended(t)
	for flag, changes := range sizingFlags {
		t.Run(flag, func(t *testing.T) {
			got := recommended(t, "--"+flag)
			changed := 0
			for name, was := range defaults {
				expected := slices.Contains(changes, name)
				switch {
				case got[name] == was:
				case expected:
					changed++
				case strings.HasPrefix(name, "idle ") && slices.Contains(changes, strings.TrimPrefix(name, "idle ")):
				default:
					t.Errorf("%s changed from %d to %d", name, was, got[name])
				}
			}
			if changed == 0 && len(changes) > 0 {
				t.Errorf("none of %v changed: %v", changes, got)
			}
		})
	}
}

func TestSizingFlags_memoryIntervalCount_limitsTheHistory(t *testing.T) {
	for flag, kept := range map[string]bool{"--memory-aggregation-interval-count=8": true, "--memory-aggregation-interval-count=1": false} {
		rc := given(t, flag)
		c := rc.Sizing.usage()
		b := usage.NewStore(c)
		start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		w := cluster.Workload{Kind: "Deployment", Name: "web"}
		pod := &cluster.Pod{Key: cluster.Key{Name: "web-0"}, UID: "1", Top: w, Phase: cluster.Running, Containers: []cluster.Container{{Name: "app"}}}
		b.Track(pod)
		b.Observe(usage.Sample{Pod: pod.Key, Container: "app", At: start, CPU: 1, Memory: 1e9, Has: cluster.Both})
		b.Forget(pod.Key)
		b.Release(w)
		b.Prune(start.Add(3 * 24 * time.Hour))
		if got := b.Series(w, "app") != nil; got != kept {
			t.Errorf("%s: history after three days: %t, want %t", flag, got, kept)
		}
	}
}

func TestFlags_memorySaver_keepsOnlyPodsThatAVPATargets(t *testing.T) {
	for flag, want := range map[string]int{"--memory-saver=false": 5, "--memory-saver": 3} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.config = given(t, flag)
			b.use["app"] = cluster.Amounts(300, 200<<20)
			b.autoscale("web", b.deployment("web", 3, "app"))
			b.deployment("other", 2, "app")
			if pods, _ := b.run(5 * time.Minute).usageStore.Size(); pods != want {
				t.Errorf("%s: %d pods are tracked, want %d", flag, pods, want)
			}
		})
	}
}

func TestFlags_integerCPU_roundsWhereTheAnnotationAsks(t *testing.T) {
	for flag, want := range map[string]int64{"--cpu-integer-post-processor-enabled=false": 350, "--cpu-integer-post-processor-enabled": 1000} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.config = given(t, flag)
			b.use["app"] = cluster.Amounts(300, 200<<20)
			b.autoscale("web", b.deployment("web", 1, "app")).IntegerCPU = []string{"app"}
			b.run(5 * time.Minute)
			if got := b.advice("web", "app").Target.CPU; got != want {
				t.Errorf("%s: target %d, want %d", flag, got, want)
			}
		})
	}
}

// concurrencyWorld is a cluster with slow writes of statuses. It records how many run at the same time.
type concurrencyWorld struct {
	*bench
	now  atomic.Int32 // running writes
	most atomic.Int32 // the maximum of now
}

func (s *concurrencyWorld) WriteStatus(ctx context.Context, a *cluster.Autoscaler, adv []cluster.Advice, now time.Time, cs ...watcher.Condition) (bool, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	time.Sleep(time.Second)
	return s.bench.WriteStatus(ctx, a, adv, now, cs...)
}

func TestFlags_updateWorkerCount_isTheNumberOfConcurrentWrites(t *testing.T) {
	for _, workers := range []int32{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.config = given(t, fmt.Sprint("--update-worker-count=", workers))
			b.use["app"] = cluster.Amounts(300, 200<<20)
			for i := range 9 {
				name := fmt.Sprint("web-", i)
				b.autoscale(name, b.deployment(name, 1, "app"))
			}
			s := &concurrencyWorld{bench: b}
			d := b.dependencies()
			d.world = s
			r := newRecommender(b.config, d)
			r.pass(t.Context(), time.Now())
			if got := s.most.Load(); got != workers {
				t.Errorf("%d concurrent writes, want %d", got, workers)
			}
		})
	}
}

// hangingStore is a checkpoint store whose writes end only with their context.
type hangingStore struct{ *bench }

func (hangingStore) Write(ctx context.Context, _ checkpoint.Key, _ usage.Checkpoint) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestFlags_checkpointsTimeout_limitsThePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.config = given(t, "--checkpoints-timeout=7s")
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app"))
		d := b.dependencies()
		d.storage.Checkpoints = hangingStore{b}
		r := newRecommender(b.config, d)
		start := time.Now()
		r.pass(t.Context(), start)
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("the pass took %v, want 7s", took)
		}
	})
}

func TestFlags_checkpointsGCInterval_isTheTimeBetweenCollections(t *testing.T) {
	for flag, left := range map[string]int{"--checkpoints-gc-interval=30m": 2, "--checkpoints-gc-interval=2m": 1} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.config = given(t, flag)
			b.use["app"] = cluster.Amounts(300, 200<<20)
			b.autoscale("web", b.deployment("web", 1, "app"))
			b.autoscale("api", b.deployment("api", 1, "app"))
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute-time.Second)
			defer cancel()
			r := newRecommender(b.config, b.dependencies())
			process.Every(ctx, b.config.Interval, func(ctx context.Context, now time.Time) {
				if len(b.stored) == 2 && len(b.autoscalers) == 2 && now.Minute()%30 >= 5 {
					b.autoscalers = b.autoscalers[:1]
				}
				r.pass(ctx, now)
			})
			if len(b.autoscalers) != 1 || len(b.stored) != left {
				t.Errorf("%s: %d checkpoints of %d VPAs remain, want %d of 1", flag, len(b.stored), len(b.autoscalers), left)
			}
		})
	}
}

func TestFlags_historyFlags_determineTheQueries(t *testing.T) {
	var queries []string
	var spans []float64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		queries = append(queries, r.Form.Get("query")+" step "+r.Form.Get("step"))
		var from, to float64
		fmt.Sscan(r.Form.Get("start"), &from)
		fmt.Sscan(r.Form.Get("end"), &to)
		spans = append(spans, to-from)
		if strings.Contains(r.Form.Get("query"), "slow_metric") {
			<-r.Context().Done()
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": []any{}}})
	}))
	defer srv.Close()
	query := func(args ...string) error {
		queries = nil
		spans = nil
		c := given(t, append([]string{"--storage=prometheus", "--prometheus-address=" + srv.URL}, args...)...)
		client, err := c.History.Client(history.NewMetrics(prometheus.NewRegistry()))
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		return readAll(client.HistorySince(t.Context(), "shop", now.Add(-client.Length()), now))
	}
	if err := query("--prometheus-cadvisor-job-name=kubelet", "--history-cpu-metric=cores", "--history-memory-metric=ram",
		"--history-length=4h", "--history-resolution=2m"); err != nil {
		t.Fatal(err)
	}
	if len(queries) != 2 || !strings.Contains(queries[0], `rate(cores{job="kubelet",`) || !strings.Contains(queries[0], "[120s]))") ||
		!strings.HasSuffix(queries[0], "step 120") || !strings.Contains(queries[1], `ram{job="kubelet",`) {
		t.Errorf("queries %q", queries)
	}
	if len(spans) != 2 || spans[0] != 4*3600 {
		t.Errorf("the queries cover %v seconds, want 4 hours each", spans)
	}
	if err := query("--history-length=1h", "--prometheus-cadvisor-job-name="); err != nil || strings.Contains(strings.Join(queries, " "), "job=") {
		t.Errorf("without a job: error %v, queries %q", err, queries)
	}
	if err := query("--history-cpu-metric=slow_metric", "--prometheus-query-timeout=50ms"); err == nil {
		t.Error("a query that does not end within --prometheus-query-timeout returns no error")
	}
}

func TestFlags_containerNamespaceLabel_isUsedInQueries(t *testing.T) {
	var query string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		query = r.Form.Get("query")
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": []any{}}})
	}))
	defer srv.Close()
	c := given(t, "--prometheus-address="+srv.URL, "--container-namespace-label=project", "--history-length=1h")
	client, err := c.History.Client(history.NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	if err := readAll(client.HistorySince(t.Context(), "shop", time.Now().Add(-client.Length()), time.Now())); err != nil || !strings.Contains(query, `project="shop"`) {
		t.Errorf("query %q, error %v", query, err)
	}
}

func TestFlags_useExternalMetrics_selectsTheSource(t *testing.T) {
	path := kubetest.Kubeconfig(t, "http://127.0.0.1:1")
	for name, tt := range map[string]struct {
		flags []string
		want  any
	}{
		"default":          {nil, &meteredClient{}},
		"external":         {[]string{"--use-external-metrics", "--external-metrics-cpu-metric=cores"}, &externalUsage{}},
		"external, memory": {[]string{"--use-external-metrics", "--external-metrics-memory-metric=ram"}, &externalUsage{}},
		"no metric":        {[]string{"--use-external-metrics"}, nil},
	} {
		c := given(t, append(tt.flags, "--kubeconfig="+path)...)
		clients, _, err := c.Connect(t.Context(), process.New(slog.New(slog.DiscardHandler), prometheus.NewRegistry()), "test", watcher.Options{})
		if err != nil {
			t.Fatal(err)
		}
		source, err := c.source(clients, nil, NewMetrics(prometheus.NewRegistry()), nil)
		if tt.want == nil {
			if err == nil || !strings.Contains(err.Error(), "--external-metrics-cpu-metric") {
				t.Errorf("%s: error %v, want one that names the flag", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := source(nil); fmt.Sprintf("%T", got) != fmt.Sprintf("%T", tt.want) {
			t.Errorf("%s: %T", name, got)
		}
	}
}

// The updater and the webhook have tests of their own for the effect of the gate.
func TestFeatureGates_perVPAConfig_selectsTheOOMBumpOfTheVPA(t *testing.T) {
	for set, want := range map[string]float64{"": 1.2, "PerVPAConfig=true": 3} {
		b := newBench(t)
		b.config = given(t, "--feature-gates="+set, "--oom-min-bump-up-bytes=0", "--pod-recommendation-min-memory-mb=1")
		a := b.autoscale("web", b.deployment("web", 1, "app"))
		a.Policies = []cluster.ContainerPolicy{{Container: "app", OOMBumpRatio: 3}}
		d := b.dependencies()
		d.source = always(&fixedUsage{})
		r := newRecommender(b.config, d)
		now := time.Now()
		r.pass(t.Context(), now)
		b.pods[0].Containers[0].Exit = &cluster.Exit{OOM: true, Started: now.Add(-time.Hour), Finished: now.Add(time.Second)}
		r.pass(t.Context(), now.Add(time.Minute))
		if _, got, _ := r.usageStore.Series(a.Target, "app").LastOOM(); float64(got) != want*50*(1<<20) {
			t.Errorf("gates %q: the OOM kill needs %d bytes, want %v times the request", set, got, want)
		}
	}
}
