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

// proofs contains for each of upstream's flags the test of its effect, or of the warning that it has no effect.
var proofs = map[string]string{
	// all components
	"kubeconfig": "TestPodfit_undisturbedCluster_sizesPods", "address": "TestPodfit_undisturbedCluster_sizesPods",
	"kube-api-qps": "TestClients_negativeQPS_isUnlimited", "kube-api-burst": "TestCommon_negativeQPSAndFractionalBurst_areAccepted",
	"profiling":            "TestObservation_profilingFlag_controlsPprof",
	"vpa-object-namespace": "TestWorld_namespaceOptions_areAppliedByTheServer", "ignored-vpa-object-namespaces": "TestWorld_namespaceOptions_areAppliedByTheServer",
	"feature-gates": "TestUpdater_featureGates_enableTheirActions",
	"v":             "TestLogConfig_flags_selectDestinationAndLevel", "log-file": "TestLogConfig_flags_selectDestinationAndLevel",
	"logtostderr": "TestLogConfig_flags_selectDestinationAndLevel", "alsologtostderr": "TestLogConfig_flags_selectDestinationAndLevel",
	"leader-elect": "TestLead_electionFlags_areApplied", "leader-elect-resource-name": "TestLead_electionFlags_areApplied",
	"leader-elect-resource-namespace": "TestLead_electionFlags_areApplied", "leader-elect-lease-duration": "TestLead_electionFlags_areApplied",
	"leader-elect-retry-period": "TestLead_electionFlags_areApplied", "leader-elect-renew-deadline": "TestValidate_invalidFlags_nameFlagAndRemedy",
	"leader-elect-resource-lock": "TestLead_electionFlags_areApplied",

	// recommender
	"recommender-name": "TestRecommender_recommenderNameIsSet_profileNamesAreIgnored", "recommender-interval": "TestPodfit_replacesUpstream_continuesFromItsState",
	"storage": "TestRecommender_prometheusHistory_isLearned", "checkpoints-gc-interval": "TestFlags_checkpointsGCInterval_isTheTimeBetweenCollections",
	"checkpoints-timeout": "TestFlags_checkpointsTimeout_limitsThePass", "min-checkpoints": "TestFlags_deprecated_logWarning",
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
	"updater-interval": "TestUpdater_flagIsSet_limitsActions", "min-replicas": "TestUpdater_flagIsSet_limitsActions",
	"eviction-tolerance": "TestUpdater_flagIsSet_limitsActions", "eviction-rate-limit": "TestUpdater_flagIsSet_limitsActions",
	"eviction-rate-burst": "TestUpdater_rateBurst_limitsFirstEvictions", "pod-update-threshold": "TestUpdater_flagIsSet_limitsActions",
	"in-recommendation-bounds-eviction-lifetime-threshold": "TestUpdater_flagIsSet_limitsActions",
	"evict-after-oom-threshold":                            "TestUpdater_flagIsSet_limitsActions", "in-place-skip-disruption-budget": "TestUpdater_flagIsSet_limitsActions",
	"concurrent-cpu-startup-boost-syncs": "TestUpdater_boostSyncs_limitsConcurrentResizes", "use-admission-controller-status": "TestUpdater_flagIsSet_limitsActions",
	"admission-controller-status-lease-name":      "TestUpdater_leaseFlags_selectTheLease",
	"admission-controller-status-lease-namespace": "TestUpdater_leaseFlags_selectTheLease",
	"admission-controller-status-lease-timeout":   "TestUpdater_leaseFlags_selectTheLease",

	// admission controller
	"client-ca-file": "TestPodfit_replacesUpstream_continuesFromItsState", "tls-cert-file": "TestPodfit_replacesUpstream_continuesFromItsState", "tls-private-key": "TestPodfit_replacesUpstream_continuesFromItsState",
	"reload-cert": "TestServer_changedCertificateFiles_areReloaded", "tls-ciphers": "TestTLSConfig_versionAndCiphers_areApplied", "min-tls-version": "TestTLSConfig_versionAndCiphers_areApplied",
	"port": "TestPodfit_replacesUpstream_continuesFromItsState", "register-by-url": "TestPodfit_replacesUpstream_continuesFromItsState", "webhook-address": "TestPodfit_replacesUpstream_continuesFromItsState", "webhook-port": "TestPodfit_replacesUpstream_continuesFromItsState",
	"webhook-service": "TestRegistrar_changedFlags_updateTheConfiguration", "register-webhook": "TestServer_registrationDisabled_needsNoCA",
	"webhook-timeout-seconds": "TestRegistrar_changedFlags_updateTheConfiguration", "webhook-failure-policy-fail": "TestRegistrar_changedFlags_updateTheConfiguration",
	"webhook-labels": "TestRegistrar_changedFlags_updateTheConfiguration", "status-lease-name": "TestPodfit_undisturbedCluster_sizesPods",
	"status-lease-namespace": "TestUpdater_leaseFlags_selectTheLease", "status-lease-update-interval": "TestPodfit_replacesUpstream_continuesFromItsState",
	"max-allowed-cpu-boost": "TestBoost_startupBoost_raisesCPU",
}

// testNames returns the names of all tests of podfit.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, root := range []string{"../../internal", "../../test", "../../tools"} {
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
	return tests
}

func TestProofs_upstreamFlags_haveATest(t *testing.T) {
	tests := testNames(t)
	proven := map[string]bool{}
	for _, c := range components {
		for _, f := range c.flags() {
			proof := proofs[f.Name]
			if klogIgnores(command(t, c.name).Flags().Lookup(f.Name)) {
				proof = "TestLogConfig_klogFlagsWithoutEffect_logWarning"
			}
			if !tests[proof] {
				t.Errorf("%s --%s: the test of its effect, %q, does not exist", c.name, f.Name, proof)
			}
			proven[f.Name] = true
		}
	}
	for name := range proofs {
		if !proven[name] {
			t.Errorf("--%s is not one of upstream's flags", name)
		}
	}
}

// klogIgnores reports whether a flag is one of klog's flags that have no effect in podfit.
func klogIgnores(f *pflag.Flag) bool {
	return f != nil && strings.HasSuffix(f.Usage, " Accepted for compatibility; has no effect.")
}
