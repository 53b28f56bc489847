// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

var update = flag.Bool("update", false, "rewrite testdata")

// The transcript contains each combination of an older and a younger autoscaler of one target.
func TestGoverning_everyPairOfAutoscalers_asInTranscript(t *testing.T) {
	type kind struct {
		name  string
		mode  cluster.Mode
		boost bool
	}
	var kinds []kind
	for mode := cluster.Recreate; mode <= cluster.InPlace; mode++ {
		kinds = append(kinds, kind{mode.String(), mode, false}, kind{mode.String() + "+boost", mode, true})
	}
	autoscaler := func(name string, created int64, k kind) *cluster.Autoscaler {
		a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: name}, Created: time.Unix(created, 0), Mode: k.mode}
		if k.boost {
			a.Policies = []cluster.ContainerPolicy{{Container: "app", Boost: &cluster.Boost{Factor: 2}}}
		}
		return a
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%-26s%-26s%-18s%s\n", "older", "younger", "gate off", "gate on")
	for _, older := range kinds {
		for _, younger := range kinds {
			fmt.Fprintf(&out, "%-26s%-26s", older.name, younger.name)
			a, b := autoscaler("older", 1, older), autoscaler("younger", 2, younger)
			for _, gate := range []bool{false, true} {
				governing := "none"
				if g := cluster.Governing([]*cluster.Autoscaler{b, a}, gate); g != nil {
					governing = g.Name
				}
				if again := cluster.Governing([]*cluster.Autoscaler{a, b}, gate); again != cluster.Governing([]*cluster.Autoscaler{b, a}, gate) {
					t.Errorf("%s and %s: the result depends on the order of the input", older.name, younger.name)
				}
				if gate {
					fmt.Fprintf(&out, "%s\n", governing)
				} else {
					fmt.Fprintf(&out, "%-18s", governing)
				}
			}
		}
	}
	const file = "testdata/governing.txt"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("%s differs from the result below; go test -update writes it\n%s", file, out.String())
	}
}

func TestGoverning_sameAge_nameDecides(t *testing.T) {
	at := time.Unix(1, 0)
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "a"}, Created: at}
	b := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "b"}, Created: at}
	if g := cluster.Governing([]*cluster.Autoscaler{b, a}, false); g != a {
		t.Errorf("%v governs", g)
	}
	if g := cluster.Governing(nil, false); g != nil {
		t.Errorf("%v governs", g)
	}
}
