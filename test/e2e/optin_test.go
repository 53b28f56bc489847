// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
)

// optingIn is a replica of the recommender that maintains VPAs of namespaces that opt in.
func optingIn(name string) bed.Component {
	return recommender().Named("opt-in-"+name).With("--namespace-opt-in", "--leader-elect",
		"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s")
}

// TestNamespaceOptIn_lifeOfTheLabel_VPAsFollow checks the VPAs of a namespace with a label, what other clients do with them, and restarts.
func TestNamespaceOptIn_lifeOfTheLabel_VPAsFollow(t *testing.T) {
	p := newPlace(t, "opted-in")
	p.recommender.Kill()
	p.recommendBy(optingIn("first"))
	t.Cleanup(func() {
		p.recommender.Kill()
		p.recommendBy(recommender())
	})
	web, api, report := steady("web"), steady("api"), steady("report")
	report.Kind = "CronJob"
	p.apply(web.manifest(), api.manifest(), report.manifest(), autoscaler("mine", "", "api", "Initial", ""))
	p.always("no label, no VPA", 11*time.Second, p.maintains())
	mine := p.version("mine")

	p.label("off", "podfit.dev/profile", "cost", "podfit.dev/max-allowed-cpu", "2", "podfit.dev/min-allowed-memory", "64Mi")
	p.eventually("workloads without a VPA have one", time.Minute, p.maintains("cronjob-report Off", "deployment-web Off"))
	p.checkShape("podfit-deployment-web")
	p.eventually("it is served", measured, func(ctx context.Context) error {
		a, err := p.Autoscaler(ctx, p.ns, "podfit-deployment-web")
		if err == nil && targets(a) == "" {
			err = errors.New("no recommendation")
		}
		return err
	})

	p.edit("podfit-deployment-web", `{"spec":{"updatePolicy":{"updateMode":"Recreate","minReplicas":3}}}`)
	p.eventually("the mode of a person is replaced, and the rest is left", time.Minute, func(ctx context.Context) error {
		a, err := p.Autoscaler(ctx, p.ns, "podfit-deployment-web")
		if err == nil && (*a.Spec.UpdatePolicy.UpdateMode != vpav1.UpdateModeOff || *a.Spec.UpdatePolicy.MinReplicas != 3) {
			err = fmt.Errorf("%+v", a.Spec.UpdatePolicy)
		}
		return err
	})
	p.label("initial")
	p.eventually("the mode follows the label", time.Minute, p.maintains("cronjob-report Initial", "deployment-web Initial"))
	p.label("nonsense")
	p.waitForLog(p.recommender, "leaves its VPAs as they are", "namespace="+p.ns, "nonsense")
	p.always("an invalid label changes nothing", 11*time.Second, p.maintains("cronjob-report Initial", "deployment-web Initial"))

	p.label("recreate")
	p.eventually("the mode follows the label again", time.Minute, p.maintains("cronjob-report Recreate", "deployment-web Recreate"))
	p.apply(autoscaler("also-mine", "", "web", "Off", ""))
	p.eventually("the VPA of a person replaces podfit's", time.Minute, p.maintains("cronjob-report Recreate"))
	p.remove("also-mine")
	p.eventually("without it, podfit's is back", time.Minute, p.maintains("cronjob-report Recreate", "deployment-web Recreate"))
	p.remove("podfit-deployment-web")
	p.always("podfit does not fight against a client that deletes its VPA", 20*time.Second, p.maintains("cronjob-report Recreate"))
	p.recommender.Kill()
	p.recommendBy(optingIn("second"))
	p.eventually("after a restart it is back", time.Minute, p.maintains("cronjob-report Recreate", "deployment-web Recreate"))
	if err := p.BatchV1().CronJobs(p.ns).Delete(t.Context(), "report", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.eventually("a VPA is deleted with its workload", time.Minute, p.maintains("deployment-web Recreate"))

	p.label("")
	p.eventually("the end is recorded", time.Minute, func(ctx context.Context) error {
		a, err := p.Autoscaler(ctx, p.ns, "podfit-deployment-web")
		if err == nil && a.Annotations["podfit.dev/opt-in-ended"] == "" {
			err = fmt.Errorf("annotations %v", a.Annotations)
		}
		return err
	})
	standby, err := p.healthy(context.Background(), optingIn("third"))
	if err != nil {
		t.Fatal(err)
	}
	p.recommender.Kill()
	p.recommender = standby
	p.waitForLog(standby, "Became the leader")
	p.always("VPAs stay, also with another leader", 15*time.Second, p.maintains("deployment-web Recreate"))
	p.edit("podfit-deployment-web", `{"metadata":{"annotations":{"podfit.dev/opt-in-ended":"`+time.Now().Add(-10*time.Minute).UTC().Format(time.RFC3339)+`"}}}`)
	p.eventually("they are deleted after 10 minutes", time.Minute, p.maintains())
	if now := p.version("mine"); now != mine {
		t.Errorf("the VPA of a person has generation and UID %s, and had %s", now, mine)
	}

	p.label("off")
	p.eventually("the label is back", time.Minute, p.maintains("deployment-web Off"))
	ctx, cancel := bed.WithPatience(t.Context(), time.Minute)
	defer cancel()
	if err := p.CoreV1().Namespaces().Delete(ctx, p.ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.eventually("the namespace can be deleted", 2*time.Minute, func(ctx context.Context) error {
		if _, err := p.CoreV1().Namespaces().Get(ctx, p.ns, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it exists: %w", err)
		}
		return nil
	})
	if log := standby.Tail(1000); strings.Contains(log, "Cannot write the VPA") {
		t.Errorf("writes failed:\n%s", log)
	}
	p.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + p.ns + "}}") // which the end of the test deletes
}

// TestNamespaceOptIn_noRight_isLoggedOnceAndPolicyHolds removes the right to create VPAs, and tries what the policy must refuse.
func TestNamespaceOptIn_noRight_isLoggedOnceAndPolicyHolds(t *testing.T) {
	p := newPlace(t, "opted-in-without-right")
	p.withoutRight("vpa-recommender", "podfit:namespace-opt-in", vpav1.GroupName, vpav1.ResourceAutoscalers, "create")
	w := steady("web")
	p.apply(w.manifest(), autoscaler("mine", "", "web", "Off", ""))
	p.label("off")
	p.recommender.Kill()
	p.recommendBy(optingIn("without-right"))
	t.Cleanup(func() {
		p.recommender.Kill()
		p.recommendBy(recommender())
	})
	const missing = "the service account of the recommender may not create VPAs"
	p.waitForLog(p.recommender, missing, "kubectl apply -f deploy/rights/namespace-opt-in/namespace-opt-in.yaml")
	p.always("it is logged once, and nothing is created", 16*time.Second, func(ctx context.Context) error {
		if n := strings.Count(p.recommender.Tail(1000), missing); n != 1 {
			return fmt.Errorf("logged %d times", n)
		}
		return p.maintains()(ctx)
	})
	p.checkPolicy()
}

// checkPolicy sends writes of VPAs as the recommender, with all rights to VPAs: the policy refuses those that are not podfit's.
func (p *place) checkPolicy() {
	p.Helper()
	p.apply(`apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: all-vpas}
rules: [{apiGroups: [autoscaling.k8s.io], resources: [verticalpodautoscalers], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: all-vpas}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: all-vpas}
subjects: [{kind: ServiceAccount, name: vpa-recommender, namespace: kube-system}]
`)
	for _, verb := range []string{"create", "delete", "patch"} {
		p.ExpectRefused(bed.Grant{Account: "vpa-recommender", Verb: verb, Group: vpav1.GroupName, Resource: vpav1.ResourceAutoscalers}.String())
	}
	kubeconfig, err := p.Identity(p.Context(), "vpa-recommender")
	if err != nil {
		p.Fatal(err)
	}
	as, err := bed.NewKube(filepath.Clean(kubeconfig))
	if err != nil {
		p.Fatal(err)
	}
	deployment, err := p.AppsV1().Deployments(p.ns).Get(p.Context(), "web", metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	vpa := func(name, target, label, owner string) string {
		metadata := fmt.Sprintf("metadata: {name: %s, labels: {%s}, ownerReferences: [%s]}", name, label, owner)
		return strings.Replace(autoscaler(name, "", target, "Off", ""), "metadata: {name: "+name+"}", metadata, 1)
	}
	label := "podfit.dev/namespace: " + p.ns
	owner := fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, name: web, uid: %s}", deployment.UID)
	vpas := as.Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(p.ns)
	patch := func(name, body string) error {
		_, err := vpas.Patch(p.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	const name = "podfit-deployment-web"
	p.eventually("the recommender may create podfit's VPA", 30*time.Second, func(ctx context.Context) error {
		return as.ApplyYAML(ctx, p.ns, vpa(name, "web", label, owner))
	})
	create := func(manifest string) error { return as.ApplyYAML(p.Context(), p.ns, manifest) }
	for what, err := range map[string]error{
		"create without the label":             create(vpa("podfit-deployment-x", "x", "", strings.Replace(owner, "web", "x", 1))),
		"create with the label of another one": create(vpa("podfit-deployment-x", "x", "podfit.dev/namespace: kube-system", strings.Replace(owner, "web", "x", 1))),
		"create with another name":             create(vpa("other", "web", label, owner)),
		"create for another workload":          create(vpa("podfit-deployment-x", "x", label, owner)),
		"create without an owner":              create(vpa("podfit-deployment-x", "x", label, "")),
		"change the VPA of a person":           patch("mine", `{"spec":{"updatePolicy":{"updateMode":"Initial"}}}`),
		"take over the VPA of a person":        patch("mine", `{"metadata":{"labels":{"podfit.dev/namespace":"`+p.ns+`"}}}`),
		"delete the VPA of a person":           vpas.Delete(p.Context(), "mine", metav1.DeleteOptions{}),
		"remove the label":                     patch(name, `{"metadata":{"labels":{"podfit.dev/namespace":null}}}`),
		"change the target":                    patch(name, `{"spec":{"targetRef":{"name":"other"}}}`),
	} {
		if err == nil || !strings.Contains(err.Error(), "podfit may create") {
			p.Errorf("%s: %v, want a refusal by the policy", what, err)
		}
	}
	if err := errors.Join(patch(name, `{"spec":{"updatePolicy":{"updateMode":"Initial"}}}`), vpas.Delete(p.Context(), name, metav1.DeleteOptions{})); err != nil {
		p.Errorf("the recommender may not change and delete podfit's VPA: %v", err)
	}
}

// maintains returns a check that podfit's VPAs in the namespace are these, with their modes.
func (p *place) maintains(want ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		all, err := p.Autoscalers(ctx, p.ns)
		if err != nil {
			return err
		}
		var got []string
		for _, a := range all {
			if name, ours := strings.CutPrefix(a.Name, "podfit-"); ours {
				got = append(got, name+" "+string(*a.Spec.UpdatePolicy.UpdateMode))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("podfit's VPAs are %q, want %q", got, want)
		}
		return nil
	}
}

// checkShape checks the VPA of the Deployment web.
func (p *place) checkShape(name string) {
	p.Helper()
	a, err := p.Autoscaler(p.Context(), p.ns, name)
	if err != nil {
		p.Fatal(err)
	}
	d, err := p.AppsV1().Deployments(p.ns).Get(p.Context(), "web", metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	if len(a.OwnerReferences) != 1 || a.OwnerReferences[0].UID != d.UID || a.Labels["podfit.dev/namespace"] != p.ns || a.Labels["app.kubernetes.io/managed-by"] != "podfit" {
		p.Errorf("owners %v and labels %v", a.OwnerReferences, a.Labels)
	}
	policy := a.Spec.ResourcePolicy.ContainerPolicies[0]
	if got := fmt.Sprint(policy.ContainerName, policy.MinAllowed.Memory(), policy.MaxAllowed.Cpu(), len(policy.MinAllowed), len(policy.MaxAllowed), a.Spec.Recommenders[0].Name); got != "*64Mi 2 1 1cost" {
		p.Errorf("bounds and profile %q", got)
	}
}

// version returns what changes if the spec of a VPA changes, or another one replaces it.
func (p *place) version(name string) string {
	p.Helper()
	a, err := p.Autoscaler(p.Context(), p.ns, name)
	if err != nil {
		p.Fatal(err)
	}
	return fmt.Sprint(a.Generation, " ", a.UID, " ", a.Labels)
}

// label sets the label of the namespace, and annotations; "" removes the label.
func (p *place) label(mode string, annotations ...string) {
	p.Helper()
	label := fmt.Sprintf("%q", mode)
	if mode == "" {
		label = "null"
	}
	var set []string
	for pair := range slices.Chunk(annotations, 2) {
		set = append(set, fmt.Sprintf("%q:%q", pair[0], pair[1]))
	}
	body := fmt.Sprintf(`{"metadata":{"labels":{"podfit.dev/autoscale":%s},"annotations":{%s}}}`, label, strings.Join(set, ","))
	if _, err := p.CoreV1().Namespaces().Patch(p.Context(), p.ns, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
		p.Fatal(err)
	}
}

// edit patches a VPA as a person.
func (p *place) edit(name, body string) {
	p.Helper()
	vpas := p.Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(p.ns)
	if _, err := vpas.Patch(p.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
		p.Fatal(err)
	}
}

// remove deletes a VPA as a person.
func (p *place) remove(name string) {
	p.Helper()
	vpas := p.Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(p.ns)
	if err := vpas.Delete(p.Context(), name, metav1.DeleteOptions{}); err != nil {
		p.Fatal(err)
	}
}
