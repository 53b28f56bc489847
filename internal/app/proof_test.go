// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/metrics"
)

// proofs name, for each flag of upstream's, the test that shows its effect, or the warning that there is none.
var proofs = map[string]string{
	// all components
	"kubeconfig": "TestPodfit_undisturbedCluster_sizesPods", "address": "TestPodfit_undisturbedCluster_sizesPods",
	"kube-api-qps": "TestNegativeRatesAreNotLimited", "kube-api-burst": "TestTheRateOfRequestsMayBeWithoutLimitAndInFractions",
	"profiling":            "TestProfilesAreServedOnlyWhenAskedFor",
	"vpa-object-namespace": "TestNamespacesAreScopedByTheServer", "ignored-vpa-object-namespaces": "TestNamespacesAreScopedByTheServer",
	"feature-gates": "TestGatesOpenWhatTheyAreFor",
	"v":             "TestTheLogGoesWhereTheFlagsSay", "log-file": "TestTheLogGoesWhereTheFlagsSay",
	"logtostderr": "TestTheLogGoesWhereTheFlagsSay", "alsologtostderr": "TestTheLogGoesWhereTheFlagsSay",
	"leader-elect": "TestElectionIsHeldAsTheFlagsSay", "leader-elect-resource-name": "TestElectionIsHeldAsTheFlagsSay",
	"leader-elect-resource-namespace": "TestElectionIsHeldAsTheFlagsSay", "leader-elect-lease-duration": "TestElectionIsHeldAsTheFlagsSay",
	"leader-elect-retry-period": "TestElectionIsHeldAsTheFlagsSay", "leader-elect-renew-deadline": "TestBadConfigurationNamesTheFlagAndTheRemedy",
	"leader-elect-resource-lock": "TestElectionIsHeldAsTheFlagsSay",

	// recommender
	"recommender-name": "TestRecommenderNameKeepsUpstreamsMeaningWhenItIsGiven", "recommender-interval": "TestPodfit_replacesUpstream_continuesFromItsState",
	"storage": "TestRecommender_prometheusHistory_isLearned", "checkpoints-gc-interval": "TestOrphansAreLookedForAsOftenAsTheFlagSays",
	"checkpoints-timeout": "TestStoringTakesNoLongerThanTheFlagSays", "min-checkpoints": "TestDeprecatedFlagsAreAnsweredWithAWarning",
	"update-worker-count": "TestAsManyWritersAsTheFlagSays", "memory-saver": "TestMemorySaverKeepsOnlyPodsThatAreGoverned",
	"memory-aggregation-interval-count":  "TestMemoryIsForgottenAfterTheIntervalsThatAreCounted",
	"cpu-integer-post-processor-enabled": "TestWholeCoresWhereTheFlagAndTheAnnotationAskForThem",
	"use-external-metrics":               "TestUsageComesFromWhereTheFlagsSay", "external-metrics-cpu-metric": "TestUsageComesFromWhereTheFlagsSay",
	"external-metrics-memory-metric": "TestUsageComesFromWhereTheFlagsSay",

	"prometheus-address": "TestPrometheusIsAskedWhatTheFlagsSay", "prometheus-cadvisor-job-name": "TestPrometheusIsAskedWhatTheFlagsSay",
	"prometheus-query-timeout": "TestPrometheusIsAskedWhatTheFlagsSay", "history-length": "TestPrometheusIsAskedWhatTheFlagsSay",
	"history-resolution": "TestPrometheusIsAskedWhatTheFlagsSay", "history-cpu-metric": "TestPrometheusIsAskedWhatTheFlagsSay",
	"history-memory-metric": "TestPrometheusIsAskedWhatTheFlagsSay",
	"prometheus-insecure":   "TestRecommender_prometheusHistory_isLearned", "prometheus-bearer-token": "TestRecommender_prometheusHistory_isLearned",
	"prometheus-bearer-token-file": "TestRecommender_prometheusHistory_isLearned", "username": "TestRecommender_prometheusHistory_isLearned", "password": "TestRecommender_prometheusHistory_isLearned",
	"pod-label-prefix": "TestRecommender_prometheusHistory_isLearned", "metric-for-pod-labels": "TestRecommender_prometheusHistory_isLearned", "pod-namespace-label": "TestRecommender_prometheusHistory_isLearned",
	"pod-name-label": "TestRecommender_prometheusHistory_isLearned", "container-pod-name-label": "TestRecommender_prometheusHistory_isLearned", "container-name-label": "TestRecommender_prometheusHistory_isLearned",
	"container-namespace-label": "TestNamespacesOfUsageHaveTheirLabel",

	// updater
	"updater-interval": "TestUpdaterFlagsBoundWhatIsDone", "min-replicas": "TestUpdaterFlagsBoundWhatIsDone",
	"eviction-tolerance": "TestUpdaterFlagsBoundWhatIsDone", "eviction-rate-limit": "TestUpdaterFlagsBoundWhatIsDone",
	"eviction-rate-burst": "TestTheBurstOfEvictionsIsTheFlags", "pod-update-threshold": "TestUpdaterFlagsBoundWhatIsDone",
	"in-recommendation-bounds-eviction-lifetime-threshold": "TestUpdaterFlagsBoundWhatIsDone",
	"evict-after-oom-threshold":                            "TestUpdaterFlagsBoundWhatIsDone", "in-place-skip-disruption-budget": "TestUpdaterFlagsBoundWhatIsDone",
	"concurrent-cpu-startup-boost-syncs": "TestAsManyBoostsEndAtATimeAsTheFlagSays", "use-admission-controller-status": "TestUpdaterFlagsBoundWhatIsDone",
	"admission-controller-status-lease-name":      "TestTheUpdaterAsksForTheLeaseOfTheFlags",
	"admission-controller-status-lease-namespace": "TestTheUpdaterAsksForTheLeaseOfTheFlags",
	"admission-controller-status-lease-timeout":   "TestTheUpdaterAsksForTheLeaseOfTheFlags",

	// admission controller
	"client-ca-file": "TestPodfit_replacesUpstream_continuesFromItsState", "tls-cert-file": "TestPodfit_replacesUpstream_continuesFromItsState", "tls-private-key": "TestPodfit_replacesUpstream_continuesFromItsState",
	"reload-cert": "TestCertificateFilesAreReadAgainWhenTheyChange", "tls-ciphers": "TestTLSFlags", "min-tls-version": "TestTLSFlags",
	"port": "TestPodfit_replacesUpstream_continuesFromItsState", "register-by-url": "TestPodfit_replacesUpstream_continuesFromItsState", "webhook-address": "TestPodfit_replacesUpstream_continuesFromItsState", "webhook-port": "TestPodfit_replacesUpstream_continuesFromItsState",
	"webhook-service": "TestTheRegistrationFollowsTheConfiguration", "register-webhook": "TestWhoRegistersElsewhereIsNotAskedForItsCA",
	"webhook-timeout-seconds": "TestTheRegistrationFollowsTheConfiguration", "webhook-failure-policy-fail": "TestTheRegistrationFollowsTheConfiguration",
	"webhook-labels": "TestTheRegistrationFollowsTheConfiguration", "status-lease-name": "TestPodfit_undisturbedCluster_sizesPods",
	"status-lease-namespace": "TestTheUpdaterAsksForTheLeaseOfTheFlags", "status-lease-update-interval": "TestPodfit_replacesUpstream_continuesFromItsState",
	"max-allowed-cpu-boost": "TestBoost",
}

func TestEveryFlagHasItsProof(t *testing.T) {
	tests := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, root := range []string{"../../internal", "../../test"} {
		if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range function.FindAllSubmatch(text, -1) {
				tests[string(m[1])] = true
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	proven := map[string]bool{}
	for _, c := range components {
		for _, f := range c.flags() {
			proof := proofs[f.Name]
			switch {
			case slices.ContainsFunc(sizingFlags, func(s string) bool { return strings.HasPrefix(s, f.Name+"=") || s == f.Name }):
				proof = "TestSizingFlagsMoveTheirNumbers"
			case klogIgnores(f.Name):
				proof = "TestKlogFlagsWithoutEffectAreAnsweredWithAWarning"
			}
			if !tests[proof] {
				t.Errorf("%s --%s: there is no test %q of its effect", c.name, f.Name, proof)
			}
			proven[f.Name] = true
		}
	}
	for name := range proofs {
		if !proven[name] {
			t.Errorf("--%s is no flag of upstream's", name)
		}
	}
}

func klogIgnores(name string) bool {
	for _, k := range klogFlags {
		if k.name == name {
			return true
		}
	}
	return false
}

func TestTheLogGoesWhereTheFlagsSay(t *testing.T) {
	for name, c := range map[string]struct {
		flags              []string
		stderr, file, deep bool
	}{
		"by default":          {nil, true, false, false},
		"to a file":           {[]string{"--logtostderr=false"}, false, true, false},
		"to both":             {[]string{"--alsologtostderr"}, true, true, false},
		"with a file in vain": {[]string{"--logtostderr"}, true, false, false},
		"in depth":            {[]string{"-v=5"}, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			args := c.flags
			if name != "by default" {
				args = append(args, "--log-file="+path)
			}
			var stderr bytes.Buffer
			config := recommenderGiven(t, args...)
			log, closer, err := config.Log.Open(&stderr)
			if err != nil {
				t.Fatal(err)
			}
			log.Info("something")
			log.Debug("a detail")
			if err := closer.Close(); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil && c.file {
				t.Fatal(err)
			}
			for where, x := range map[string]struct {
				text string
				want bool
			}{"standard error": {stderr.String(), c.stderr}, "the file": {string(text), c.file}} {
				if got := strings.Contains(x.text, "something"); got != x.want {
					t.Errorf("%s has %q", where, x.text)
				}
				if got := strings.Contains(x.text, "a detail"); got != (x.want && c.deep) {
					t.Errorf("%s has %q", where, x.text)
				}
			}
		})
	}
}

func TestElectionIsHeldAsTheFlagsSay(t *testing.T) {
	api := fake.NewClientset()
	c := recommenderGiven(t, "--leader-elect", "--leader-elect-resource-name=mine", "--leader-elect-resource-namespace=infra",
		"--leader-elect-lease-duration=44s", "--leader-elect-renew-deadline=33s", "--leader-elect-retry-period=50ms", "--leader-elect-resource-lock=leases")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	worked := false
	if err := lead(ctx, quietProcess(), c.Election, api, func(ctx context.Context) error {
		worked = true
		l, err := api.CoordinationV1().Leases("infra").Get(ctx, "mine", metav1.GetOptions{})
		if err != nil {
			t.Error(err)
		} else if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || *l.Spec.LeaseDurationSeconds != 44 {
			t.Errorf("the lease is %+v", l.Spec)
		}
		cancel()
		return nil
	}); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	if !worked {
		t.Error("nobody was elected")
	}
	api = fake.NewClientset()
	if err := lead(t.Context(), quietProcess(), recommenderGiven(t).Election, api, func(context.Context) error { return nil }); err != nil || len(api.Actions()) > 0 {
		t.Errorf("without election: %v, %v", err, api.Actions())
	}
}

func TestUsageComesFromWhereTheFlagsSay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		flags []string
		want  any
	}{
		"by default":       {nil, &metrics.Client{}},
		"external":         {[]string{"--use-external-metrics", "--external-metrics-cpu-metric=cores"}, &externalUsage{}},
		"external, memory": {[]string{"--use-external-metrics", "--external-metrics-memory-metric=ram"}, &externalUsage{}},
		"of no name":       {[]string{"--use-external-metrics"}, nil},
	} {
		c := recommenderGiven(t, append(tt.flags, "--kubeconfig="+path)...)
		clients, err := c.connect(slog.New(slog.DiscardHandler), "test")
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.source(clients, nil, newRecommenderMetrics(prometheus.NewRegistry()))
		if tt.want == nil {
			if err == nil || !strings.Contains(err.Error(), "--external-metrics-cpu-metric") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || fmt.Sprintf("%T", got) != fmt.Sprintf("%T", tt.want) {
			t.Errorf("%s: %T, %v", name, got, err)
		}
	}
}

func TestTheBurstOfEvictionsIsTheFlags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(cluster.Recreate)
		y.config = updaterGiven(t, "--eviction-rate-limit=0.0001", "--eviction-rate-burst=2")
		y.run(t, time.Hour)
		if n := y.count("evict "); n != 2 {
			t.Errorf("%d evictions", n)
		}
	})
}

// slowly is a yard in which a resize takes a while.
type slowly struct {
	*yard
	now, most atomic.Int32
}

func (s *slowly) Resize(ctx context.Context, p *cluster.Pod, with []policy.Fitted) error {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	time.Sleep(time.Second)
	return s.yard.Resize(ctx, p, with)
}

func TestAsManyBoostsEndAtATimeAsTheFlagSays(t *testing.T) {
	for _, syncs := range []int32{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			y := newYard(cluster.InPlaceOrRecreate)
			y.config = updaterGiven(t, fmt.Sprint("--concurrent-cpu-startup-boost-syncs=", syncs), "--feature-gates=CPUStartupBoost=true",
				"--eviction-tolerance=1")
			y.autoscalers[0].Boost = &cluster.Boost{Factor: 2}
			for _, p := range y.pods {
				p.Containers[0].Requests = cluster.Amounts(700, 250<<20)
				p.Containers[0].Boosted = &cluster.Applied{Requests: cluster.Amounts(350, 250<<20)}
				p.ReadySince = time.Now().Add(-time.Minute)
			}
			s := &slowly{yard: y}
			u := newUpdater(y.config, y, s, y, y, newUpdaterMetrics(prometheus.NewRegistry()), NewHealth(time.Hour), slog.New(slog.DiscardHandler))
			u.pass(t.Context(), time.Now())
			if got := s.most.Load(); got != syncs {
				t.Errorf("%d boosts ended at a time, the flag says %d: %v", got, syncs, y.did)
			}
		})
	}
}

// asked is a lease that notes what it is asked.
type asked struct{ timeout time.Duration }

func (a *asked) IsFresh(_ context.Context, timeout time.Duration, _ time.Time) (bool, error) {
	a.timeout = timeout
	return false, nil
}

func TestTheUpdaterAsksForTheLeaseOfTheFlags(t *testing.T) {
	y := newYard(cluster.Recreate)
	y.config = updaterGiven(t, "--admission-controller-status-lease-timeout=33s", "--admission-controller-status-lease-name=mine",
		"--admission-controller-status-lease-namespace=infra")
	var out bytes.Buffer
	a := &asked{}
	u := newUpdater(y.config, y, y, y, a, newUpdaterMetrics(prometheus.NewRegistry()), NewHealth(time.Hour), slog.New(slog.NewTextHandler(&out, nil)))
	u.pass(t.Context(), time.Now())
	if a.timeout != 33*time.Second || !strings.Contains(out.String(), "infra/mine") || len(y.did) > 0 {
		t.Errorf("asked for %v, and said %q", a.timeout, out.String())
	}
	t.Setenv("NAMESPACE", "there")
	if ownNamespace("") != "there" || ownNamespace("infra") != "infra" {
		t.Error("the variable NAMESPACE does not count, or counts too much")
	}
}
