// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/test/kubetest"
)

const (
	nodesPath      = "/api/v1/nodes"
	horizontalPath = "/apis/autoscaling/v2/horizontalpodautoscalers"
	deployments    = "/apis/apps/v1/deployments"
)

// kubeconfig writes a kubeconfig for an API server and returns its path.
func kubeconfig(t testing.TB, url string) string {
	t.Helper()
	return kubetest.Context{Name: "prod-eu"}.Kubeconfig(t, url)
}

// result is what a run of the command wrote.
type result struct {
	out, errs string
	code      int
}

// runCommand runs podfit recommend.
func runCommand(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	s := process.Streams{Out: &out, Err: &errs}
	cmd := NewCommand(s)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	r := result{out: out.String()}
	var exit process.ExitError
	switch {
	case err == nil:
	case errors.As(err, new(process.UsageError)):
		r.code = 2
	case errors.As(err, &exit):
		r.code = exit.Code
	default:
		r.code = 1
	}
	r.errs = errs.String()
	if err != nil {
		r.errs += err.Error()
	}
	return r
}

// A deployment is a Deployment with pods in a test.
type deployment struct {
	namespace, name  string
	replicas         int
	requests, limits string // JSON
	status           string // JSON of the status of the container, without its name; "" for none
	nodes            int    // pods are on node-0, node-1 and so on; 0: no node
}

func (d deployment) apply(f *kubetest.FakeAPI) {
	applyTemplate(f, d.namespace, d.name, d.replicas, "app", d.requests, d.limits)
	set := d.name + "-7d4b9c6f5d"
	f.Apply(kubetest.ReplicaSetsPath, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"ownerReferences":[
		{"apiVersion":"apps/v1","kind":"Deployment","name":%q,"uid":"u","controller":true}]},"spec":{"replicas":%d}}`, d.namespace, set, d.name, d.replicas))
	for i := range d.replicas {
		name := fmt.Sprintf("%s-x2k9%c", set, "bcdfghjklm"[i])
		node, status := "", ""
		if d.nodes > 0 {
			node = fmt.Sprintf(`"nodeName":"node-%d",`, i%d.nodes)
		}
		if d.status != "" {
			status = fmt.Sprintf(`,"containerStatuses":[{"name":"app",%s}]`, d.status)
		}
		f.Apply(kubetest.PodsPath, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":"uid of %s","creationTimestamp":"2026-11-01T00:00:00Z","labels":{"app":%q},"ownerReferences":[
			{"apiVersion":"apps/v1","kind":"ReplicaSet","name":%q,"uid":"u","controller":true}]},
			"spec":{%s"containers":[{"name":"app","resources":{"requests":%s,"limits":%s}}]},"status":{"phase":"Running"%s}}`,
			d.namespace, name, name, d.name, set, node, d.requests, d.limits, status))
	}
}

// applyVPA creates a VPA of a Deployment with profile balanced and a recommendation.
func applyVPA(f *kubetest.FakeAPI, namespace, name, cpu, memory string) {
	f.Apply(kubetest.AutoscalersPath, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":"v-%s","creationTimestamp":"2026-10-01T00:00:00Z"},
		"spec":{"recommenders":[{"name":"balanced"}],"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":%q}},
		"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":%q,"memory":%q},
		"lowerBound":{"cpu":%q,"memory":%q},"upperBound":{"cpu":%q,"memory":%q}}]}}}`, namespace, name, name, name, cpu, memory, cpu, memory, cpu, memory))
}

// applyNodes creates nodes with 4 cores and 16 GiB.
func applyNodes(f *kubetest.FakeAPI, n int) {
	for i := range n {
		f.Apply(nodesPath, fmt.Sprintf(`{"metadata":{"name":"node-%d","labels":{"karpenter.sh/capacity-type":"spot","karpenter.sh/nodepool":"general"}},
			"status":{"allocatable":{"cpu":"4","memory":"16Gi"},"conditions":[{"type":"Ready","status":"True"}]}}`, i))
	}
}

// shop is a cluster with a workload at risk, one with waste, and one without a VPA.
func shop(t testing.TB) *kubetest.FakeAPI {
	f := kubetest.NewFakeAPI(t)
	applyNodes(f, 3)
	killed := time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339)
	deployment{"shop", "cart", 3, `{"cpu":"500m","memory":"1Gi"}`, `{"memory":"1Gi"}`,
		fmt.Sprintf(`"restartCount":1,"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled","startedAt":%q,"finishedAt":%q}}`, killed, killed), 3}.apply(f)
	applyVPA(f, "shop", "cart", "633m", "1341234567")
	deployment{"ml", "feature-store", 2, `{"cpu":"3","memory":"8Gi"}`, `{}`, "", 3}.apply(f)
	applyVPA(f, "ml", "feature-store", "650m", "2Gi")
	deployment{"web", "front", 1, `{"cpu":"100m","memory":"128Mi"}`, `{}`, "", 3}.apply(f)
	return f
}

func TestRecommend_statusOfVPAs_printsRiskAndWaste(t *testing.T) {
	f := shop(t)
	r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--source", "cluster")
	if r.code != 0 {
		t.Fatalf("got exit code %d and error %s", r.code, r.errs)
	}
	for _, want := range []string{
		"3 workloads, 6 pods, 3 nodes", "1 workload is at risk.", "AT RISK", "shop/deploy/cart", "500m → 633m ▲", "1.0Gi → 1.25Gi ▲", "killed for memory at least 3×",
		"WASTE", "ml/deploy/feature-store", "3 → 650m", "8.0Gi → 2.0Gi", "1 container without a number (--sort name lists them)", "creates them: kubectl label namespace web podfit.dev/autoscale=off",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is missing in\n%s", want, r.out)
		}
	}
}
