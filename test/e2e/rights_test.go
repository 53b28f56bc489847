// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"podfit.dev/podfit/test/e2e/bed"
)

// Each command of podfit runs with the rights of deploy/ and deploy/rights, and nothing else. The audit log of each cluster shows what they are used for: no
// request is refused for want of a right, and every right is used by a test.

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

	"get /metrics": "the pods that wait for preemption are counted at a scheduler, in test/e2e/overbooking",
	"rescue pods":  "a verb of the ValidatingAdmissionPolicy, not of a request",
}

const (
	kindsOfTargets = "the pod template of a target of this kind; the tests have the same request for other kinds"
	namesOfLeases  = "the other name that upstream's charts give the lease"
	afterConflicts = "an object that another client has written in between is read again"
)

// checkRights returns an error if a request of podfit was refused for want of a right, and writes down the rights that were used.
func (w *world) checkRights() error {
	granted, err := grants(filepath.Join(w.root, "deploy"))
	if err != nil {
		return err
	}
	rights, err := w.Rights(granted)
	if err != nil {
		return err
	}
	for _, refused := range slices.Sorted(maps.Keys(rights.Refused)) {
		err = errors.Join(err, fmt.Errorf("%d requests were refused: deploy/ does not grant %s", rights.Refused[refused], refused))
	}
	if dir := os.Getenv(rightsFolder); dir != "" {
		text := strings.Join(slices.Sorted(maps.Keys(rights.Used)), "\n")
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, filepath.Base(w.Dir)+".rights"), []byte(text), 0o600))
	}
	return err
}

func grants(deploy string) ([]bed.Grant, error) {
	manifests, err := bed.Manifests(deploy)
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
