// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Kubernetes adds the rules of ClusterRoles with this label to the role view.
const aggregateToView = "rbac.authorization.k8s.io/aggregate-to-view"

func viewRules(t *testing.T, all objects) (out []rbacv1.PolicyRule) {
	t.Helper()
	for _, r := range of[rbacv1.ClusterRole](t, all, "ClusterRole") {
		if r.Labels[aggregateToView] == "true" {
			out = append(out, r.Rules...)
		}
	}
	return out
}

func TestChart_roleView_isThatOfDeployUnlessSwitchedOff(t *testing.T) {
	want := viewRules(t, files(t, "deploy/*.yaml"))
	if diff := cmp.Diff(want, viewRules(t, render(t))); diff != "" || len(want) == 0 {
		t.Errorf("%d rules in deploy/ (-) and the chart (+)\n%s", len(want), diff)
	}
	if diff := cmp.Diff(want, viewRules(t, render(t, "mode=single"))); diff != "" {
		t.Errorf("deploy/ (-) and the chart with mode=single (+)\n%s", diff)
	}
	for _, set := range []string{"rbac.aggregateToView=false", "rbac.create=false"} {
		if got := viewRules(t, render(t, set)); len(got) > 0 {
			t.Errorf("%s: %v", set, got)
		}
	}
}

const viewer = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: viewer, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: viewer, namespace: kube-system}]
`

// A user with the role view in a namespace reads its VPAs and explains its workloads, and neither changes VPAs nor reads those of others.
func TestView_userOfNamespace_readsVPAsAndExplains(t *testing.T) {
	w := cluster(t)
	w.clean(t)
	defer w.clean(t)
	p := w.podfit(t)
	if err := w.ApplyYAML(t.Context(), "shop", workload+"---"+autoscaler+"---"+viewer); err != nil {
		t.Fatal(err)
	}
	until(t, "the VPA has numbers", 2*time.Minute, w.recommended)
	kubeconfig, err := w.Identity(t.Context(), "viewer")
	if err != nil {
		t.Fatal(err)
	}
	as := &world{Cluster: w.Cluster, binary: w.binary, dir: t.TempDir(), kubeconfig: kubeconfig}
	until(t, "the rules are aggregated", time.Minute, func(context.Context) error {
		out, err := as.kubectl("get", "vpa", "-n", "shop")
		if err == nil && (!strings.Contains(out, "web") || !strings.Contains(out, "True")) {
			err = errors.New(out)
		}
		return err
	})
	for _, kind := range []string{"vpacheckpoint", "updatestates.podfit.dev", "usagehistories.podfit.dev"} {
		if _, err := as.kubectl("get", kind, "-n", "shop"); err != nil {
			t.Error(err)
		}
	}
	for _, args := range [][]string{{"get", "vpa", "-n", "kube-system"}, {"delete", "vpa", "web", "-n", "shop"}, {"get", "sizingprofiles"}} {
		if out, err := as.kubectl(args...); err == nil || !strings.Contains(err.Error(), "orbidden") {
			t.Errorf("kubectl %v: %v\n%s", args, err, out)
		}
	}
	out, err := as.podfitOutput(t, "explain", "deploy/web", "-n", "shop")
	if err != nil {
		t.Fatalf("%v\n%s", err, p.Tail(10))
	}
	t.Log(out)
	for _, want := range []string{"shop/Deployment/web · ×2 · VPA web · Off", "\nNEXT ", "\nWHY ", "\nNOTE "} {
		if !strings.Contains(out, want) {
			t.Errorf("podfit explain does not print %q:\n%s", want, out)
		}
	}
}

// podfitOutput runs a command of podfit with the kubeconfig of the world, and returns its output.
func (w *world) podfitOutput(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var errs bytes.Buffer
	c := exec.CommandContext(t.Context(), w.binary, args...)
	c.Env = append(os.Environ(), "KUBECONFIG="+w.config())
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return string(out), fmt.Errorf("podfit %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return string(out), nil
}
