// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// invariantsBite breaks invariants as podfit's own service accounts, and looks for what the checker says. Without this, a
// checker that sees nothing would find everything in order.
func invariantsBite(t *testing.T, name string) {
	p := newPlace(t, name)
	broken := []invariant.Rule{invariant.Advised, invariant.InBudget, invariant.SoleLeader, invariant.BacksOff}
	for _, rule := range broken {
		p.allow(rule, "this test breaks it to see that the checker says so")
	}
	w := steady("victim")
	w.Kind, w.Replicas = "StatefulSet", 3
	p.apply(w.manifest())
	pods := p.start("victim", 3)
	p.always("the pods serve until nobody can have missed it", p.limits.Stale+time.Second, p.same("victim", pods))

	evictor := p.as("vpa-updater")
	for _, pod := range []string{"victim-0", "victim-1"} { // no autoscaler says so, and one of three may be missing
		if err := evictor.CoreV1().Pods(p.ns).EvictV1(t.Context(), eviction(p.ns, pod)); err != nil {
			t.Fatal(err)
		}
	}
	for range 7 {
		if err := evictor.CoreV1().Pods(p.ns).EvictV1(t.Context(), eviction(p.ns, "nobody")); !apierrors.IsNotFound(err) {
			t.Fatalf("the eviction of a pod that does not exist: %v", err)
		}
	}
	one, two := p.as("vpa-updater"), p.as("vpa-updater")
	p.takeLease(one, "one")
	p.takeLease(two, "two")
	patch := []byte(`{"metadata": {"annotations": {"by": "one"}}}`)
	if _, err := one.CoreV1().Pods(p.ns).Patch(t.Context(), "victim-2", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}

	log, err := p.witness.Log(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[invariant.Rule]int{}
	for _, v := range invariant.Judge(log, p.limits) {
		if v.Namespace == p.ns {
			t.Log(v)
			found[v.Rule]++
		}
	}
	for _, rule := range broken {
		if found[rule] == 0 {
			t.Errorf("nobody noticed that %s is broken", rule)
		}
		delete(found, rule)
	}
	if len(found) > 0 {
		t.Errorf("what is not broken was found, too: %v", found)
	}
}

// as returns a client that acts as one of podfit's service accounts, a process of its own.
func (p *place) as(account string) *bed.Kube {
	p.Helper()
	kubeconfig, err := p.Identity(p.Context(), account)
	if err != nil {
		p.Fatal(err)
	}
	k, err := bed.NewKube(kubeconfig)
	if err != nil {
		p.Fatal(err)
	}
	return k
}

func eviction(ns, pod string, dryRun ...string) *policyv1.Eviction {
	return &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pod}, DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun},
	}
}

// takeLease takes the lease by which updaters elect a leader, whoever has it.
func (p *place) takeLease(k *bed.Kube, holder string) {
	p.Helper()
	leases := k.CoordinationV1().Leases(bed.Namespace)
	want := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "vpa-updater"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}
	_, err := leases.Create(p.Context(), want, metav1.CreateOptions{})
	if err == nil {
		p.Cleanup(func() {
			if err := p.CoordinationV1().Leases(bed.Namespace).Delete(context.Background(), want.Name, metav1.DeleteOptions{}); err != nil {
				p.Error(err)
			}
		})
		return
	}
	live, getErr := leases.Get(p.Context(), want.Name, metav1.GetOptions{})
	if getErr != nil {
		p.Fatal(errors.Join(err, getErr))
	}
	live.Spec = want.Spec
	if _, err := leases.Update(p.Context(), live, metav1.UpdateOptions{}); err != nil {
		p.Fatal(err)
	}
}

// isWitnessed checks that the checker has seen all that happens when pods are sized by eviction. Its approval of what it does
// not see would be worth nothing.
func (p *place) isWitnessed() {
	p.Helper()
	log, err := p.witness.Log(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	write := func(resource, sub string, more func(*invariant.Write) bool) bool {
		return slices.ContainsFunc(log.Writes, func(w invariant.Write) bool {
			return w.Namespace == p.ns && w.Resource == resource && w.Subresource == sub && w.OK() && more(&w)
		})
	}
	by := func(user string) func(*invariant.Write) bool {
		return func(w *invariant.Write) bool { return w.User == user && w.Process != "-" }
	}
	for what, seen := range map[string]bool{
		"the recommendation":       write("verticalpodautoscalers", "status", by("vpa-recommender")),
		"an eviction":              write("pods", "eviction", by("vpa-updater")),
		"what the webhook changed": write("pods", "", func(w *invariant.Write) bool { return w.Verb == "create" && w.Shaped != "" }),
		"which pod was evicted":    write("pods", "eviction", func(w *invariant.Write) bool { return w.UID != "" }),
		"a pod that serves":        slices.ContainsFunc(log.Pods, func(o invariant.Pod) bool { return o.Namespace == p.ns && o.Ready && o.Scheduled }),
		"a pod that is gone":       slices.ContainsFunc(log.Pods, func(o invariant.Pod) bool { return o.Namespace == p.ns && o.Gone }),
		"how many pods are wanted": slices.ContainsFunc(log.Controllers, func(o invariant.Controller) bool { return o.Ref.Namespace == p.ns && o.Wanted == 2 }),
		"whose pods they are":      slices.ContainsFunc(log.Controllers, func(o invariant.Controller) bool { return o.Ref.Namespace == p.ns && o.Owner.Kind == "Deployment" }),
		"who wrote what autoscaler": slices.ContainsFunc(log.Autoscalers, func(o invariant.Autoscaler) bool {
			return o.Namespace == p.ns && o.Writer == "vpa-recommender" && len(o.Ranges) == 1 && o.Ranges[0].Target["cpu"] == 350
		}),
	} {
		if !seen {
			p.Errorf("the checker has not seen %s", what)
		}
	}
}
