// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"podfit.dev/podfit/test/e2e/bed"
)

// Each command of podfit runs with the rights of deploy/, those of the components of deploy/rights that a test names, and nothing else. The audit log of each
// cluster shows what they are used for: no request is refused unless a test expects it, and every right is used by a test.

// needs are the components of deploy/rights that tests need on the shared cluster, by the name of the test and of its case. The cluster has those of all
// tests that run. A test with a cluster of its own names them in bed.Options.
var needs = map[string][]string{
	busiest + "/beside-hpa":         {"hpa-targets"},
	busiest + "/oom-kill-loops":     {"oom-rescue"},
	busiest + "/requests-reset":     {"placeholders"}, // dry runs of replacements create pods
	busiest + "/surge":              {"surges"},
	busiest + "/webhook-not-called": {"placeholders"},
	busiest + "/" + initRuns:        {"kubelet-metrics"},

	"TestExplain_hundredRandomStates_updaterDoesWhatNextSays":              {"placeholders"}, // explain assumes this right
	"TestExplain_singleReplica_nextAndYouAreWhatHappens":                   {"placeholders"},
	"TestNamespaceOptIn_lifeOfTheLabel_VPAsFollow":                         {"namespace-opt-in"},
	"TestNamespaceOptIn_noRight_isLoggedOnceAndPolicyHolds":                {"namespace-opt-in"},
	"TestPodfit_recommendationFitsNoNode_podIsScaledDownUntilANodeIsAdded": {"node-groups"},
	"TestRecommender_rightForKubeletsMissing_remedyHelps":                  {"kubelet-metrics"},
	"TestRecommender_runsWithoutSamples_areMeasuredByKubelets":             {"kubelet-metrics"},
	"TestUpdater_killedAtStepsOfAPlaceholder_noPlaceholderIsLeft":          {"placeholders"},
	"TestUpdater_killedAtStepsOfASurge_noReplicaIsLeft":                    {"surges"},
	"TestUpdater_noRightToWriteHPAs_changesNeitherRequestNorTarget":        {"hpa-targets"},
	"TestUpdater_nodeIsFull_evictsWhenPlaceholderHasNode":                  {"placeholders"},
	"TestUpdater_nodeIsFull_evictsWhenRequestIsProvisioned":                {"provisioning-requests"},
}

// needed returns the components that the tests need that the flags -run and -skip of this process select, sorted.
func needed(run, skip string) []string {
	var all []string
	for test, components := range needs {
		skipped := skip != "" && strings.Count(skip, "/") <= strings.Count(test, "/") && matches(skip, test) // else only cases of it are skipped
		if matches(run, test) && !skipped {
			all = append(all, components...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// matches reports whether a pattern of -run selects a test, or cases of it.
func matches(pattern, test string) bool {
	names := strings.Split(test, "/")
	for i, element := range strings.Split(pattern, "/") {
		if i < len(names) && !regexp.MustCompile(element).MatchString(names[i]) {
			return false
		}
	}
	return true
}

func TestNeeded_patterns_selectTheComponentsOfTests(t *testing.T) {
	all, err := bed.Components(filepath.Join(shared.root, "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	for test, components := range needs {
		_, name, _ := strings.Cut(test, "/")
		if strings.HasPrefix(test, busiest) && undisturbedCases[name] == nil {
			t.Errorf("%s is not a case", test)
		}
		for _, component := range components {
			if !slices.Contains(all, component) {
				t.Errorf("%s needs %s, which is not one of %q", test, component, all)
			}
		}
	}
	for _, tt := range []struct {
		run, skip string
		want      []string
	}{
		{"^TestRoom", "", nil},
		{"^(" + busiest + ")$", "", []string{"hpa-targets", "kubelet-metrics", "oom-rescue", "placeholders", "surges"}},
		{"^" + busiest + "$/^(surge|daemonset)$", "", []string{"surges"}},
		{busiest + "/daemonset", "", nil},
		{busiest, "/surge|beside", []string{"kubelet-metrics", "oom-rescue", "placeholders"}},
		{"killedAtSteps", "", []string{"placeholders", "surges"}},
		{"killedAtSteps", "OfASurge/case", []string{"placeholders", "surges"}},
		{"killedAtSteps", "OfASurge", []string{"placeholders"}},
	} {
		if got := needed(tt.run, tt.skip); !slices.Equal(got, tt.want) {
			t.Errorf("-run %s -skip %s needs %q, want %q", tt.run, tt.skip, got, tt.want)
		}
	}
}

// install installs podfit as the cluster has it.
func (w *world) install(ctx context.Context) error {
	return w.Install(ctx, filepath.Join(w.root, "deploy"))
}

// rightsFolder is the name of the environment variable with the folder for the rights that were used. Each cluster writes one file, a right in each line.
const rightsFolder = "PODFIT_E2E_RIGHTS"

// unusedOnPurpose are rights that no test uses, without the account, and why they are granted.
var unusedOnPurpose = map[string]string{
	"get daemonsets.apps":        kindsOfTargets,
	"get jobs.batch":             kindsOfTargets,
	"get replicasets.apps":       kindsOfTargets,
	"get replicationcontrollers": kindsOfTargets,
	"get statefulsets.apps":      kindsOfTargets,

	"get leases.coordination.k8s.io named vpa-recommender in kube-system":      namesOfLeases,
	"update leases.coordination.k8s.io named vpa-recommender in kube-system":   namesOfLeases,
	"get leases.coordination.k8s.io named vpa-updater-lease in kube-system":    namesOfLeases,
	"update leases.coordination.k8s.io named vpa-updater-lease in kube-system": namesOfLeases,

	"get usagehistories.podfit.dev":                           afterConflicts,
	"get updatestates.podfit.dev":                             afterConflicts,
	"get verticalpodautoscalercheckpoints.autoscaling.k8s.io": afterConflicts,

	"get /metrics": "read from Kubernetes 1.37 on",
	"rescue pods":  "a verb of the ValidatingAdmissionPolicy, not of a request",
}

const (
	kindsOfTargets = "the pod template of a target of this kind; the tests have the same request for other kinds"
	namesOfLeases  = "the other name that upstream's charts give the lease"
	afterConflicts = "an object that another client has written in between is read again"
)

// checkRights returns an error if a request of podfit was refused that no test expects to be, and writes down the rights that were used.
func (w *world) checkRights() error {
	rights, err := w.Rights(filepath.Join(w.root, "deploy"))
	if err != nil {
		return err
	}
	for _, refused := range slices.Sorted(maps.Keys(rights.Refused)) {
		err = errors.Join(err, fmt.Errorf("%d requests were refused, and no test expects it: %s", rights.Refused[refused], refused))
	}
	if dir := os.Getenv(rightsFolder); dir != "" {
		text := strings.Join(slices.Sorted(maps.Keys(rights.Used)), "\n")
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, filepath.Base(w.Dir)+".rights"), []byte(text), 0o600))
	}
	return err
}

// grants returns the rights of deploy/ and of all components.
func grants(deploy string) ([]bed.Grant, error) {
	components, err := bed.Components(deploy)
	if err != nil {
		return nil, err
	}
	manifests, err := bed.Manifests(deploy, components...)
	if err != nil {
		return nil, err
	}
	return bed.Granted(manifests)
}

// everyRightIsUsed returns an error if a right of deploy/ was used in none of the clusters that wrote to the folder.
func everyRightIsUsed(deploy, dir string) error {
	granted, err := grants(deploy)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.rights"))
	if err != nil {
		return err
	}
	used := map[string]bool{} // by any account: a role may be shared
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for right := range strings.Lines(string(text)) {
			used[withoutAccount(strings.TrimSpace(right))] = true
		}
	}
	for _, g := range granted {
		text := withoutAccount(g.String())
		isUsed := used[text]
		if resource, isList := strings.CutPrefix(text, "list "); isList { // for API servers without streaming lists
			isUsed = isUsed || used["watch "+resource]
		}
		switch why := unusedOnPurpose[text]; {
		case !isUsed && why == "":
			err = errors.Join(err, fmt.Errorf("deploy/ grants a right that no test uses: %s", g))
		case isUsed && why != "":
			err = errors.Join(err, fmt.Errorf("rights_test.go says that no test uses a right, but one does: %s", g))
		}
	}
	return err
}

func withoutAccount(right string) string {
	_, text, _ := strings.Cut(right, ": ")
	return text
}
