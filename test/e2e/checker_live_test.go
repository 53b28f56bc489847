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

// brokenInvariants breaks invariants with requests of podfit's service accounts, and checks that the checker reports them.
// A checker that observes nothing would report nothing.
func brokenInvariants(t *testing.T, name string) {
	p := newPlace(t, name)
	broken := []invariant.Rule{invariant.Advised, invariant.InBudget, invariant.SoleLeader, invariant.BacksOff}
	for _, rule := range broken {
		p.allow(rule, "the test breaks it to see that the checker reports it")
	}
	w := steady("victim")
	w.Kind, w.Replicas = "StatefulSet", 3
	p.apply(w.manifest())
	pods := p.start("victim", 3)
	p.always("the pods stay ready for longer than the checker looks back", p.limits.Stale+time.Second, p.same("victim", pods))

	evictor := p.as("vpa-updater")
	for _, pod := range []string{"victim-0", "victim-1"} { // no VPA targets them, and only one of three may be unavailable
		if err := evictor.CoreV1().Pods(p.ns).EvictV1(t.Context(), eviction(p.ns, pod)); err != nil {
			t.Fatal(err)
		}
	}
	for range 7 {
		if err := evictor.CoreV1().Pods(p.ns).EvictV1(t.Context(), eviction(p.ns, "missing")); !apierrors.IsNotFound(err) {
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
			t.Errorf("the violation of %s is not reported", rule)
		}
		delete(found, rule)
	}
	if len(found) > 0 {
		t.Errorf("violations are reported that did not happen: %v", found)
	}
}

// as returns a client with a new token of one of podfit's service accounts.
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

// takeLease acquires the lease of the updaters, even if another process holds it.
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

// checkObservations checks that the checker has observed all steps of an update by eviction.
func (p *place) checkObservations() {
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
		"the recommendation":        write("verticalpodautoscalers", "status", by("vpa-recommender")),
		"an eviction":               write("pods", "eviction", by("vpa-updater")),
		"the patch of the webhook":  write("pods", "", func(w *invariant.Write) bool { return w.Verb == "create" && w.Shaped != "" }),
		"the UID of an evicted pod": write("pods", "eviction", func(w *invariant.Write) bool { return w.UID != "" }),
		"a ready pod":               slices.ContainsFunc(log.Pods, func(o invariant.Pod) bool { return o.Namespace == p.ns && o.Ready && o.Scheduled }),
		"a deleted pod":             slices.ContainsFunc(log.Pods, func(o invariant.Pod) bool { return o.Namespace == p.ns && o.Gone }),
		"the number of replicas":    slices.ContainsFunc(log.Controllers, func(o invariant.Controller) bool { return o.Ref.Namespace == p.ns && o.Wanted == 2 }),
		"the owner of a ReplicaSet": slices.ContainsFunc(log.Controllers, func(o invariant.Controller) bool { return o.Ref.Namespace == p.ns && o.Owner.Kind == "Deployment" }),
		"the writer of a VPA status": slices.ContainsFunc(log.Autoscalers, func(o invariant.Autoscaler) bool {
			return o.Namespace == p.ns && o.Writer == "vpa-recommender" && len(o.Ranges) == 1 && o.Ranges[0].Target["cpu"] == 350
		}),
	} {
		if !seen {
			p.Errorf("the checker has not observed %s", what)
		}
	}
}
