// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
)

const (
	horizontalCondition vpav1.VerticalPodAutoscalerConditionType = "HorizontalPodAutoscaler"
	updatingCondition   vpav1.VerticalPodAutoscalerConditionType = "Updating"

	preserveScalePoint = "podfit.dev/hpa: preserve-scale-point"
	scalePointRecord   = "podfit.dev/scale-point"
)

// annotated returns the manifest of a VPA with annotations.
func annotated(autoscaler string, annotations ...string) string {
	return strings.Replace(autoscaler, "}\nspec:", ", annotations: {"+strings.Join(annotations, ", ")+"}}\nspec:", 1)
}

// horizontal returns the manifest of an HPA of a Deployment with the same name.
func horizontal(name string, least, most int, metrics string) string {
	return horizontalOf(name, name, least, most, metrics)
}

func horizontalOf(name, target string, least, most int, metrics string) string {
	return fmt.Sprintf(`apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: %s}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %s}
  minReplicas: %d
  maxReplicas: %d
  metrics: [%s]
`, name, target, least, most, metrics)
}

func cpuUtilization(percent int) string {
	return fmt.Sprintf("{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: %d}}}", percent)
}

// scales returns a check that the first metric of an HPA has a target utilization, and whether the HPA has the record of a scale point.
func (p *place) scales(name string, percent int32, recorded bool) func(context.Context) error {
	return func(ctx context.Context) error {
		h, err := p.AutoscalingV2().HorizontalPodAutoscalers(p.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		record, ok := h.Annotations[scalePointRecord]
		if got := *h.Spec.Metrics[0].Resource.Target.AverageUtilization; got != percent || ok != recorded {
			return fmt.Errorf("the target of HPA %s is %d %%, want %d %%; record %q", name, got, percent, record)
		}
		return nil
	}
}

// says returns a check that a condition of a VPA is True, has a reason, and contains texts.
func (p *place) says(name string, kind vpav1.VerticalPodAutoscalerConditionType, reason string, texts ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := p.condition(ctx, name, kind)
		if err == nil && (c.Status != corev1.ConditionTrue || c.Reason != reason || !containsAll(c.Message, texts)) {
			err = fmt.Errorf("the condition is %+v, want reason %s and %q", c, reason, texts)
		}
		return err
	}
}

// all returns a check that all of the checks hold.
func all(checks ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, check := range checks {
			if err := check(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// horizontalWrites returns the number of requests by which the updater changed an HPA or tried to.
func (p *place) horizontalWrites(name string) (n int) {
	p.Helper()
	log, err := p.witness.Log(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	for _, w := range log.Writes {
		if w.Namespace == p.ns && w.Name == name && w.Resource == "horizontalpodautoscalers" && w.User == "vpa-updater" {
			n++
		}
	}
	return n
}

// besideHPA has workloads that use 300m CPU and are scaled by an HPA.
//
//	left       the CPU request is left alone, and the memory is sized
//	shrinks    the request falls and the target of the HPA rises; the number of replicas stays
//	grows      the request grows as far as the target may fall
//	denied     the target cannot be written, so the CPU request does not change
//	unrelated  metrics that do not depend on requests, or on no container of the pod: CPU and memory are sized
func besideHPA(t *testing.T, name string) {
	p := newPlace(t, name)
	bounds := func(bounds string) string {
		return "  resourcePolicy: {containerPolicies: [{containerName: app, " + bounds + "}]}"
	}
	left, shrinks, grows, denied, unrelated := steady("left"), steady("shrinks"), steady("grows"), steady("denied"), steady("unrelated")
	for _, w := range []*spec{&left, &shrinks, &denied} {
		w.Requests = "{cpu: 500m, memory: 50Mi}"
	}
	grows.Requests = "{cpu: 200m, memory: 50Mi}"
	for _, w := range []spec{left, shrinks, grows, denied, unrelated} {
		p.apply(w.manifest())
	}
	p.apply(horizontal("left", 2, 4, cpuUtilization(60)), horizontal("shrinks", 2, 4, cpuUtilization(60)), horizontal("grows", 2, 2, cpuUtilization(80)),
		horizontal("denied", 2, 4, cpuUtilization(60)),
		horizontal("unrelated", 2, 2, "{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: 30}}}"),
		horizontalOf("unrelated-broken", "unrelated", 2, 2, "{type: ContainerResource, containerResource: {name: cpu, container: gone, target: {type: Utilization, averageUtilization: 50}}}"))
	p.applyGlobal(targetsDenied(name, p.ns, "denied"))
	for _, w := range []spec{left, shrinks, grows, denied, unrelated} {
		p.start(w.Name, 2)
	}
	p.denies(func(ctx context.Context) error {
		_, err := p.AutoscalingV2().HorizontalPodAutoscalers(p.ns).Patch(ctx, "denied", types.MergePatchType, []byte(`{"spec": {"maxReplicas": 3}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	const mode = "InPlaceOrRecreate"
	p.apply(left.autoscaler(mode), unrelated.autoscaler(mode),
		annotated(autoscaler("shrinks", "", "shrinks", mode, bounds("maxAllowed: {cpu: 400m}")), preserveScalePoint),
		annotated(autoscaler("grows", "", "grows", mode, bounds("minAllowed: {cpu: 250m}")), preserveScalePoint),
		annotated(autoscaler("denied", "", "denied", mode, bounds("maxAllowed: {cpu: 400m}")), preserveScalePoint))

	const onlyMemory = "app cpu=500m memory=262144k"
	p.eventually("the memory of left is sized, and its CPU request is left alone", measured+resized, all(p.sized("left", 2, onlyMemory), p.scales("left", 60, false),
		p.says("left", horizontalCondition, "RequestLeft", "HorizontalPodAutoscaler left scales Deployment left by the CPU utilization", "podfit.dev/hpa")))
	p.eventually("shrinks has the target, and the HPA has the scale point as before", resized, all(p.sized("shrinks", 2, steadyTarget), p.scales("shrinks", 86, true),
		p.says("shrinks", horizontalCondition, "ScalePointPreserved", "60 % of 500m")))
	p.eventually("grows has the part of the target that the range allows", resized, all(p.sized("grows", 2, "app cpu=320m memory=262144k"), p.scales("grows", 50, true)))
	p.eventually("unrelated has the target", resized, p.sized("unrelated", 2, steadyTarget))
	p.eventually("the CPU request of denied waits for its HPA", resized, all(p.sized("denied", 2, onlyMemory), p.scales("denied", 60, true),
		p.says("denied", updatingCondition, "HPANotWritten", "HorizontalPodAutoscaler")))
	p.eventually("an event says so", resized, p.eventOf("UpdateHeld"))
	p.always("nothing changes any more", 12*time.Second, all(p.sized("left", 2, onlyMemory), p.sized("shrinks", 2, steadyTarget), p.scales("shrinks", 86, true),
		p.sized("denied", 2, onlyMemory), p.scales("denied", 60, true)))
	if c, err := p.condition(t.Context(), "unrelated", horizontalCondition); err == nil {
		t.Errorf("the VPA has the condition %+v, but no HPA depends on its requests", c)
	}
	if n := p.horizontalWrites("denied"); n > 4 {
		t.Errorf("%d requests to change an HPA that may not be changed", n)
	}
	for _, hpa := range []string{"left", "unrelated", "unrelated-broken"} {
		if n := p.horizontalWrites(hpa); n > 0 {
			t.Errorf("%d requests to change HPA %s", n, hpa)
		}
	}
}

// targetsDenied returns an admission policy that denies changes of the spec of an HPA, as a missing right would: HTTP 403.
func targetsDenied(name, ns, hpa string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}
    resourceRules: [{apiGroups: [autoscaling], apiVersions: ["*"], operations: [UPDATE], resources: [horizontalpodautoscalers]}]
  validations: [{expression: 'object.metadata.name != "%[3]s" || object.spec == oldObject.spec', reason: Forbidden, message: denied by the test}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, name, ns, hpa)
}

// TestUpdater_noRightToWriteHPAs_changesNeitherRequestNorTarget removes the right of the updater to write HPAs.
func TestUpdater_noRightToWriteHPAs_changesNeitherRequestNorTarget(t *testing.T) {
	p := newPlace(t, "hpa-without-right")
	p.withoutRight("vpa-updater", "podfit:hpa-targets", "autoscaling", "horizontalpodautoscalers", "patch")
	w := steady("steady")
	w.Requests = "{cpu: 500m, memory: 50Mi}"
	p.apply(w.manifest(), horizontal("steady", 2, 4, cpuUtilization(60)), annotated(w.autoscaler("InPlaceOrRecreate"), preserveScalePoint))
	p.start("steady", 2)
	p.eventually("the memory is sized, and the CPU request is left alone", measured+resized, all(p.sized("steady", 2, "app cpu=500m memory=262144k"),
		p.scales("steady", 60, false), p.says("steady", horizontalCondition, "RequestLeft", "has not recorded the scale point", "log of the updater")))
	p.waitForLog(p.updater, "Cannot change a HorizontalPodAutoscaler", p.ns+"/steady", "kubectl apply -f deploy/rights/hpa-targets/hpa-targets.yaml")
	p.always("nothing changes", 10*time.Second, all(p.sized("steady", 2, "app cpu=500m memory=262144k"), p.scales("steady", 60, false)))
	if n := p.horizontalWrites("steady"); n > 2 {
		t.Errorf("%d requests to change an HPA without the right to", n)
	}
}

// withoutRight removes a verb from the rules of a ClusterRole of an account about a resource until the test ends.
func (p *place) withoutRight(account, role, group, resource, verb string) {
	p.Helper()
	p.ExpectRefused(bed.Grant{Account: account, Verb: verb, Group: group, Resource: resource}.String())
	roles := p.RbacV1().ClusterRoles()
	r, err := roles.Get(p.Context(), role, metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	before := r.DeepCopy().Rules
	removed := false
	for i := range r.Rules {
		if rule := &r.Rules[i]; strings.Contains(strings.Join(rule.Resources, ","), resource) {
			var verbs []string
			for _, v := range rule.Verbs {
				if v != verb {
					verbs = append(verbs, v)
				}
			}
			removed = removed || len(verbs) < len(rule.Verbs)
			rule.Verbs = verbs
		}
	}
	r.Rules = slices.DeleteFunc(r.Rules, func(rule rbacv1.PolicyRule) bool { return len(rule.Verbs) == 0 })
	if !removed {
		p.Fatalf("ClusterRole %s does not grant %s on %s", role, verb, resource)
	}
	if _, err := roles.Update(p.Context(), r, metav1.UpdateOptions{}); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := setRules(p.Kube, role, before); err != nil {
			p.Error(err)
		}
	})
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + bed.Namespace + ":" + account,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource},
	}}
	p.eventually("the right is gone", 10*time.Second, func(ctx context.Context) error {
		r, err := p.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil && r.Status.Allowed {
			err = errors.New(r.Status.Reason)
		}
		return err
	})
}

func setRules(k *bed.Kube, role string, rules []rbacv1.PolicyRule) error {
	r, err := k.RbacV1().ClusterRoles().Get(context.Background(), role, metav1.GetOptions{})
	if err != nil {
		return err
	}
	r.Rules = rules
	_, err = k.RbacV1().ClusterRoles().Update(context.Background(), r, metav1.UpdateOptions{})
	return err
}
