// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/fragments"
	"podfit.dev/podfit/test/kubetest"
)

const (
	budgetsPath     = "/apis/policy/v1/poddisruptionbudgets"
	replicaSetsPath = "/apis/apps/v1/replicasets"
)

// fragmented is a cluster of four nodes with 8 cores: moves can free one, and each of the others has a pod that stays.
func fragmented(t testing.TB) *kubetest.FakeAPI {
	f := kubetest.NewFakeAPI(t)
	fragment(f)
	return f
}

func fragment(f *kubetest.FakeAPI) {
	for i := range 4 {
		f.Apply(nodesPath, fmt.Sprintf(`{"metadata":{"name":"n%d","labels":{"node-role.kubernetes.io/worker":""}},"spec":{},"status":{"capacity":{"cpu":"8","memory":"32Gi"},
			"allocatable":{"cpu":"8","memory":"32Gi","pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}}`, i+1))
	}
	for _, p := range []struct{ name, node, cpu, extra string }{
		{"web-a", "n1", "2", ""}, {"web-b", "n2", "2", ""}, {"web-c", "n4", "2", ""},
		{"api-a", "n1", "1", ""}, {"api-b", "n4", "1", ""},
		{"db-a", "n1", "3", `,"volumes":[{"name":"data","emptyDir":{}}]`}, {"db-b", "n2", "3", `,"volumes":[{"name":"data","emptyDir":{}}]`},
		{"cache-a", "n2", "1", ""}, {"cache-b", "n3", "3", ""},
		{"job-a", "n3", "2", ""},
	} {
		workload, _, _ := strings.Cut(p.name, "-")
		f.Apply(kubetest.PodsPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":%q,"creationTimestamp":"2026-11-01T00:00:00Z","labels":{"app":%q},"ownerReferences":[
			{"apiVersion":"apps/v1","kind":"ReplicaSet","name":%q,"uid":"u","controller":true}]},
			"spec":{"nodeName":%q,"containers":[{"name":"app","resources":{"requests":{"cpu":%q,"memory":"4Gi"}}}]%s},
			"status":{"phase":"Running","startTime":"2026-11-01T00:00:00Z","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-11-01T00:00:00Z"}]}}`,
			p.name, p.name, workload, workload, p.node, p.cpu, p.extra))
	}
	for name, replicas := range map[string]int{"web": 3, "api": 2, "db": 2, "cache": 2, "job": 1} {
		f.Apply(replicaSetsPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"spec":{"replicas":%d}}`, name, replicas))
	}
	f.Apply(budgetsPath, `{"metadata":{"namespace":"shop","name":"cache","generation":1},"spec":{"selector":{"matchLabels":{"app":"cache"}}},
		"status":{"observedGeneration":1,"currentHealthy":2,"desiredHealthy":2}}`)
}

type amounts struct{ CPU, Memory float64 } // cores and bytes

type plan struct {
	Proven bool
	Node   string
	Moves  []struct{ Size amounts }
}

func TestFragments_fourNodes_printsMovesAndWhatHoldsNodes(t *testing.T) {
	f := fragmented(t)
	config := kubeconfig(t, f.URL())
	r := run(t, "--kubeconfig", config, "--fragments", "--for", "cpu=6,memory=8Gi")
	if r.code != 0 {
		t.Fatalf("exit code %d: %s", r.code, r.errs)
	}
	for _, request := range f.Requests() {
		if !strings.HasPrefix(request, "GET") {
			t.Errorf("the command sent %s", request)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "capacity.md"))
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(r.out, "POOL    FREE")
	if at < 0 || !strings.Contains(string(page), strings.TrimRight(r.out[at:], "\n")) {
		t.Errorf("docs/capacity.md does not have this example:\n%s", r.out)
	}
	r = run(t, "--kubeconfig", config, "--fragments", "-o", "json")
	var doc struct {
		Fragments []struct {
			Name    string
			Counted int `json:"countedNodes"`
			Free    amounts
			Empty   plan             `json:"freeNode"`
			Room    *plan            `json:"makeRoom"`
			Nodes   []fragments.Node `json:"clusterAutoscalerNodes"`
		}
	}
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || len(doc.Fragments) != 1 {
		t.Fatalf("%v in %s", err, r.out)
	}
	if p := doc.Fragments[0]; p.Name != "worker" || p.Empty.Node != "n4" || len(p.Empty.Moves) != 2 || !p.Empty.Proven || p.Room != nil || p.Free != (amounts{12, 88 << 30}) || p.Counted != 4 || p.Empty.Moves[0].Size != (amounts{2, 4 << 30}) || p.Nodes[1].Holds[0].Cause != "NoEviction" {
		t.Errorf("JSON: %+v", p)
	}
}

func TestFragments_budgetsForbidden_movesAreNotKnownToBePermitted(t *testing.T) {
	f := fragmented(t)
	f.Reply("GET "+budgetsPath, http.StatusForbidden, `{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"forbidden"}`)
	r := run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--fragments")
	if r.code != exitPartial || !strings.Contains(r.errs, "no right to list poddisruptionbudgets") || !strings.Contains(r.out, "PodDisruptionBudgets could not be read: it is not known whether moves are permitted") {
		t.Errorf("exit code %d, %s\n%s", r.code, r.errs, r.out)
	}
	if strings.Contains(r.out, "could remove it") {
		t.Errorf("a node could be removed although PodDisruptionBudgets are not known:\n%s", r.out)
	}
}

func TestFragments_withoutFlag_budgetsAreNotRead(t *testing.T) {
	f := fragmented(t)
	r := run(t, "--kubeconfig", kubeconfig(t, f.URL()))
	if r.code != 0 || strings.Contains(r.out, "STRANDED") {
		t.Errorf("exit code %d, %s\n%s", r.code, r.errs, r.out)
	}
	for _, request := range f.Requests() {
		if strings.Contains(request, "poddisruptionbudgets") {
			t.Errorf("the command sent %s", request)
		}
	}
}

func TestFragments_safeToEvict_isNoHold(t *testing.T) {
	f := fragmented(t)
	f.Apply(kubetest.PodsPath, `{"metadata":{"namespace":"shop","name":"alone","uid":"alone","annotations":{"cluster-autoscaler.kubernetes.io/safe-to-evict":"true"}},
		"spec":{"nodeName":"n4","containers":[{"name":"app"}],"volumes":[{"name":"data","emptyDir":{}}]},"status":{"phase":"Running"}}`)
	r := run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--fragments")
	if !strings.Contains(r.out, "n4    3     38 %       could remove it") {
		t.Errorf("%s", r.out)
	}
}

func TestFragments_html_hasTheTables(t *testing.T) {
	f := fragmented(t)
	r := run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--fragments", "-o", "html")
	for _, want := range []string{"STRANDED", "CLUSTER AUTOSCALER", "to free n4"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestFragments_wrongSize_exitsWithTwo(t *testing.T) {
	config := kubeconfig(t, fragmented(t).URL())
	for args, want := range map[string]string{
		"--for cpu=8":                      "--for needs --fragments",
		"--fragments --for gpu=1":          "--for must be a size such as cpu=8,memory=32Gi, got gpu=1",
		"--fragments --for cpu=0":          "got cpu=0",
		"--fragments --for cpu=8,memory=x": "got memory=x",
		"--fragments --for 8":              "8 must be formatted as key=value",
	} {
		if r := run(t, append([]string{"--kubeconfig", config}, strings.Fields(args)...)...); r.code == 0 || !strings.Contains(r.errs, want) {
			t.Errorf("%s: exit code %d, %s", args, r.code, r.errs)
		}
	}
}

// The scheduler gives room to pods that wait for a node before it gives it to replacements.
func TestFragments_newPodWithoutNode_itsRoomIsTaken(t *testing.T) {
	f := fragmented(t)
	for i := range 2 {
		f.Apply(kubetest.PodsPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"new%d","uid":"new%d","creationTimestamp":%q},
			"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"2"}}}]},"status":{"phase":"Pending"}}`, i, i, time.Now().UTC().Format(time.RFC3339)))
	}
	r := run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--fragments")
	if !strings.Contains(r.out, "worker  8 cores") {
		t.Errorf("%s", r.out)
	}
}

func TestFragments_nodesThatDoNotCount_areNamed(t *testing.T) {
	f := fragmented(t)
	f.Apply(nodesPath, `{"metadata":{"name":"n5","labels":{"node-role.kubernetes.io/worker":""},"annotations":{"cluster-autoscaler.kubernetes.io/scale-down-disabled":"true"}},
		"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	f.Apply(kubetest.PodsPath, `{"metadata":{"namespace":"shop","name":"last","uid":"last"},"spec":{"nodeName":"n5","containers":[{"name":"app","resources":{"requests":{"cpu":"2"}}}]},"status":{"phase":"Running"}}`)
	for _, args := range []string{"--for cpu=1", "--pool worker --for memory=1Gi,cpu=1 --for cpu=1", "-o html"} {
		r := run(t, append([]string{"--kubeconfig", kubeconfig(t, f.URL()), "--fragments"}, strings.Fields(args)...)...)
		if r.code != 0 || !strings.Contains(r.out, "on 4 of 5 nodes") || !strings.Contains(r.out, "scale-down-disabled: true") || strings.Contains(r.out, " 1 cores") || strings.Contains(r.out, ", 0 GiB") {
			t.Errorf("%d %s %s", r.code, r.errs, r.out)
		}
	}
}

func TestFragments_noMovesAndNoPods_areReported(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Apply(nodesPath, `{"metadata":{"name":"n1"},"status":{"capacity":{"cpu":"8","memory":"32Gi"},"allocatable":{"cpu":"8","memory":"32Gi"},"conditions":[{"type":"Ready","status":"True"}]}}`)
	r := run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--fragments")
	if r.code != 0 || !strings.Contains(r.out, "--fragments needs pods, and the cluster runs none") {
		t.Errorf("no pods: %d %s %s", r.code, r.errs, r.out)
	}
	f.Apply(kubetest.PodsPath, `{"metadata":{"namespace":"shop","name":"last","uid":"last"},"spec":{"nodeName":"n1","containers":[{"name":"app"}]},"status":{"phase":"Running"}}`)
	r = run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--fragments")
	if r.code != 0 || !strings.Contains(r.out, "no moves found") || strings.Contains(r.out, "Moves,") {
		t.Errorf("one pod: %d %s %s", r.code, r.errs, r.out)
	}
	for _, size := range []string{"", "cpu=NaN", "cpu=1e30", "cpu=-1", "cpu=99999999999999999999", "memory=0.0000000001", "cpu"} {
		if r := run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--fragments", "--for", size); r.code == 0 {
			t.Errorf("--for %q: %s", size, r.out)
		}
	}
}
