// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/rescue"
	"podfit.dev/podfit/internal/edge/kube"
)

// granted answers with the rights that it contains, and fails while it contains the right "fail".
type granted map[string]bool

func (g granted) Has(_ context.Context, r kube.Right) (bool, error) {
	if g["fail"] {
		return false, errors.New("the server is busy")
	}
	return g[r.String()], nil
}

func TestRights_missing_areLoggedOnceAndTheFeatureIsOff(t *testing.T) {
	var log bytes.Buffer
	have := granted{"create pods": true}
	u := &updater{config: Defaults(), log: slog.New(slog.NewTextHandler(&log, nil)), rights: rights{checker: have, missing: map[int]bool{}, reported: map[int]bool{}}, ledger: ledger.New()}
	u.budget = u.config.budget()
	now := time.Date(2026, 3, 2, 14, 0, 0, 0, time.UTC)
	check := func(want rescue.Mode, what string) {
		t.Helper()
		u.checkRights(t.Context(), now)
		now = now.Add(rightsInterval)
		if u.budget.Rescue != want {
			t.Errorf("%s: the rescue mode is %v, want %v", what, u.budget.Rescue, want)
		}
	}
	for range 3 {
		check(rescue.ByEviction, "no rights")
	}
	for _, right := range []string{"rescue pods", "patch deployments.apps", "patch horizontalpodautoscalers.autoscaling"} {
		if n := strings.Count(log.String(), `about="`+right+`"`); n != 1 {
			t.Errorf("%s is logged %d times, want once:\n%s", right, n, &log)
		}
	}
	if strings.Contains(log.String(), "create pods") {
		t.Errorf("a right that exists is logged as missing:\n%s", &log)
	}
	if !u.rights.missing[featureSurges] || !u.rights.missing[featureTargets] || u.rights.missing[featureDryRuns] {
		t.Errorf("missing are %v", u.rights.missing)
	}

	have["rescue pods"] = true // the component was added
	check(rescue.ByDeletion, "right added")
	have["fail"] = true
	check(rescue.ByDeletion, "no answer: the last one applies")
	delete(have, "fail")
	delete(have, "rescue pods")
	check(rescue.ByEviction, "right removed")
}

// What is switched off by a flag needs no right.
func TestRights_featureIsOff_isNotLogged(t *testing.T) {
	var log bytes.Buffer
	u := &updater{config: given(t, "--oom-rescue=off", "--mover=evict", "--hpa=ignore", "--node-guard=false"), log: slog.New(slog.NewTextHandler(&log, nil)),
		rights: rights{checker: granted{"create pods": true}, missing: map[int]bool{}, reported: map[int]bool{}}, ledger: ledger.New()}
	u.budget = u.config.budget()
	u.checkRights(t.Context(), time.Now())
	if log.Len() > 0 || u.budget.Rescue != rescue.Off {
		t.Errorf("rescue mode %v, and the log\n%s", u.budget.Rescue, &log)
	}
}

// The log names a component that exists and has the right.
func TestRights_components_grantThem(t *testing.T) {
	for i := range features {
		f := &features[i]
		text, err := os.ReadFile("../../../deploy/rights/" + f.component + "/" + f.component + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		rule := "resources: [" + f.right.Resource + "]\n  verbs: ["
		_, verbs, found := strings.Cut(string(text), rule)
		verbs, _, _ = strings.Cut(verbs, "]")
		if !found || !strings.Contains(verbs, f.right.Verb) {
			t.Errorf("deploy/rights/%s does not grant %s", f.component, f.right)
		}
	}
}
