// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
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
	"storage": "TestRecommender_prometheusHistory_isLearned", "checkpoints-gc-interval": "TestFlags_checkpointsGCInterval_isTheTimeBetweenCollections",
	"checkpoints-timeout": "TestFlags_checkpointsTimeout_limitsThePass", "min-checkpoints": "TestDeprecatedFlagsAreAnsweredWithAWarning",
	"update-worker-count": "TestFlags_updateWorkerCount_isTheNumberOfConcurrentWrites", "memory-saver": "TestFlags_memorySaver_keepsOnlyPodsThatAVPATargets",
	"memory-aggregation-interval-count":  "TestSizingFlags_memoryIntervalCount_limitsTheHistory",
	"cpu-integer-post-processor-enabled": "TestFlags_integerCPU_roundsWhereTheAnnotationAsks",
	"use-external-metrics":               "TestFlags_useExternalMetrics_selectsTheSource", "external-metrics-cpu-metric": "TestFlags_useExternalMetrics_selectsTheSource",
	"external-metrics-memory-metric": "TestFlags_useExternalMetrics_selectsTheSource",

	"confidence-interval-cpu":                      "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"confidence-interval-memory":                   "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"container-recommendation-max-allowed-cpu":     "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"container-recommendation-max-allowed-memory":  "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"cpu-histogram-decay-half-life":                "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"humanize-memory":                              "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"memory-aggregation-interval":                  "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"memory-histogram-decay-half-life":             "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"oom-bump-up-ratio":                            "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"oom-min-bump-up-bytes":                        "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"pod-recommendation-min-cpu-millicores":        "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"pod-recommendation-min-memory-mb":             "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"recommendation-lower-bound-cpu-percentile":    "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"recommendation-lower-bound-memory-percentile": "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"recommendation-margin-fraction":               "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"recommendation-upper-bound-cpu-percentile":    "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"recommendation-upper-bound-memory-percentile": "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"round-cpu-millicores":                         "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"round-memory-bytes":                           "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"target-cpu-percentile":                        "TestSizingFlags_eachFlag_changesOnlyItsNumbers",
	"target-memory-percentile":                     "TestSizingFlags_eachFlag_changesOnlyItsNumbers",

	"prometheus-address": "TestFlags_historyFlags_determineTheQueries", "prometheus-cadvisor-job-name": "TestFlags_historyFlags_determineTheQueries",
	"prometheus-query-timeout": "TestFlags_historyFlags_determineTheQueries", "history-length": "TestFlags_historyFlags_determineTheQueries",
	"history-resolution": "TestFlags_historyFlags_determineTheQueries", "history-cpu-metric": "TestFlags_historyFlags_determineTheQueries",
	"history-memory-metric": "TestFlags_historyFlags_determineTheQueries",
	"prometheus-insecure":   "TestRecommender_prometheusHistory_isLearned", "prometheus-bearer-token": "TestRecommender_prometheusHistory_isLearned",
	"prometheus-bearer-token-file": "TestRecommender_prometheusHistory_isLearned", "username": "TestRecommender_prometheusHistory_isLearned", "password": "TestRecommender_prometheusHistory_isLearned",
	"pod-label-prefix": "TestRecommender_prometheusHistory_isLearned", "metric-for-pod-labels": "TestRecommender_prometheusHistory_isLearned", "pod-namespace-label": "TestRecommender_prometheusHistory_isLearned",
	"pod-name-label": "TestRecommender_prometheusHistory_isLearned", "container-pod-name-label": "TestRecommender_prometheusHistory_isLearned", "container-name-label": "TestRecommender_prometheusHistory_isLearned",
	"container-namespace-label": "TestFlags_containerNamespaceLabel_isUsedInQueries",

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
			if klogIgnores(command(t, c.name).Flags().Lookup(f.Name)) {
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

// klogIgnores reports whether a flag is one of klog's that have no effect here.
func klogIgnores(f *pflag.Flag) bool {
	return f != nil && strings.HasSuffix(f.Usage, " Accepted for compatibility; has no effect.")
}
