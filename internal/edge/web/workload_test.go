// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"math"
	"slices"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/wording"
)

// The API server refuses a request above its limit, and a change of the template of a Job.
func TestPatch_isAcceptedByTheAPIServer(t *testing.T) {
	const mib = 1 << 20
	row := &overview.Row{Workload: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}, Containers: []*overview.Container{{
		Row: review.Row{
			Subject: review.Subject{Container: "app", Limits: cluster.Amounts(500, 1024*mib)}, Target: cluster.Amounts(200, 1276*mib),
		},
		Outside: cluster.Amounts(100, 1024*mib),
	}}}
	const want = `spec:
  template:
    spec:
      containers:
      - name: app
        resources:
          limits:
            memory: 1276Mi
          requests:
            cpu: 200m
            memory: 1276Mi
`
	if got := patchOf(row); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	sidecar := *row.Containers[0]
	sidecar.Container, sidecar.Sidecar, sidecar.Limits = "mesh", true, cluster.Resources{}
	row.Containers = []*overview.Container{&sidecar, row.Containers[0]}
	const more = "      initContainers:\n      - name: mesh\n        resources:\n          requests:\n            cpu: 200m\n            memory: 1276Mi\n"
	if got := patchOf(row); got != want+more {
		t.Errorf("with a sidecar: got\n%swant\n%s", got, want+more)
	}
	row.Containers = row.Containers[1:]
	row.Containers[0].Limits = cluster.Resources{}
	if got := patchOf(row); got != strings.Replace(want, "          limits:\n            memory: 1276Mi\n", "", 1) {
		t.Errorf("without limits: got\n%s", got)
	}
	row.Containers[0].Outside = cluster.Amounts(200, 1024*mib) // the pods have the CPU already, but the manifest may not
	if got := patchOf(row); !strings.Contains(got, "cpu: 200m\n") || !strings.Contains(got, "memory: 1276Mi\n") {
		t.Errorf("pods with a part of it: got\n%s", got)
	}
	row.Containers[0].Container = "true"
	if got := patchOf(row); !strings.Contains(got, `name: "true"`) {
		t.Errorf("a container whose name is another value in YAML: got\n%s", got)
	}
	row.Workload.Group = "example.com"
	if got := patchOf(row); got != "" {
		t.Errorf("of a Deployment of another API group: got\n%s", got)
	}
	row.Workload.Group, row.Workload.Kind = "batch", "Job"
	if got := patchOf(row); got != "" {
		t.Errorf("of a Job: got\n%s", got)
	}
}

func TestRounded_anyNumber_staysANumber(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, 0.123456: 0.1235, 98765.4: 98770, math.SmallestNonzeroFloat64: math.SmallestNonzeroFloat64, math.MaxFloat64: math.MaxFloat64} {
		if got := rounded(v); got != want {
			t.Errorf("%v: got %v, want %v", v, got, want)
		}
	}
}

func TestNumber_halves_areRoundedUp(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1.255: "1.25", 12.04: "12", 99.96: "100", 100.5: "101", 250.5: "251", 1234.5: "1,235"} {
		if got := wording.Number(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}

// Events name only the pod. The pods of web-api are not those of web.
func TestOwnsPod_namesOfWorkloadsBeginAlike_eachHasItsOwn(t *testing.T) {
	workload := func(kind, name string) cluster.Workload {
		return cluster.Workload{Kind: kind, Namespace: "shop", Name: name}
	}
	o := &overview.Overview{}
	for _, w := range []cluster.Workload{
		workload("Deployment", "web"), workload("Deployment", "web-api"), workload("StatefulSet", "web"), workload("DaemonSet", "web"), workload("CronJob", "web"),
		workload("Pod", "web"), workload("Job", "web"), workload("Rollout", "pay"), workload("Rollout", "pay-api"), workload("Postgres", "db"),
	} {
		o.Rows = append(o.Rows, &overview.Row{Workload: w})
	}
	for _, c := range []struct {
		pod  string
		want []string
	}{
		{"web-7d4b9c6f5d-x2k9b", []string{"Deployment web", "Job web"}}, // the pods of a Job have no form of their own
		{"web-api-7d4b9c6f5d-x2k9b", []string{"Deployment web-api"}},
		{"web-gone-7d4b9c6f5d-x2k9b", []string{"Job web"}},
		{"web-0", []string{"StatefulSet web", "Job web"}},
		{"web-x2k9b", []string{"DaemonSet web", "Job web"}},
		{"web-29384756-x2k9b", []string{"CronJob web", "Job web"}},
		{"web", []string{"Pod web"}},
		{"pay-7d4b9c6f5d-x2k9b", []string{"Rollout pay"}},
		{"pay-api-7d4b9c6f5d-x2k9b", []string{"Rollout pay-api"}},
		{"db-primary-0", []string{"Postgres db"}},
		{"webshop-7d4b9c6f5d-x2k9b", nil},
	} {
		var got []string
		for i := range o.Rows {
			if ownsPod(o, o.Rows[i], cluster.Key{Namespace: "shop", Name: c.pod}) {
				got = append(got, o.Rows[i].Workload.Kind+" "+o.Rows[i].Workload.Name)
			}
			if ownsPod(o, o.Rows[i], cluster.Key{Namespace: "pay", Name: c.pod}) {
				t.Errorf("%s of another namespace belongs to %v", c.pod, o.Rows[i].Workload)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s belongs to %q, want %q", c.pod, got, c.want)
		}
	}
}
