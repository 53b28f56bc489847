// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// manifests decodes the objects that "kubectl apply -f deploy/" applies, without CRDs. It rejects unknown and duplicate fields.
func manifests(t *testing.T) []runtime.Object {
	t.Helper()
	return decode(t, "../../deploy/*.yaml")
}

// decode decodes the objects of files, without CRDs.
func decode(t *testing.T, pattern string) []runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme,
		admissionregistrationv1.AddToScheme, networkingv1.AddToScheme, schedulingv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var out []runtime.Object
	for _, file := range files {
		if filepath.Base(file) == "00-crds.yaml" {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, doc := range bytes.Split(b, []byte("\n---\n")) {
			o, _, err := decoder.Decode(doc, nil, nil)
			if err != nil {
				t.Fatalf("%s, document %d: %v", file, i+1, err)
			}
			out = append(out, o)
		}
	}
	return out
}

func only[T runtime.Object](all []runtime.Object) (out []T) {
	for _, o := range all {
		if o, ok := o.(T); ok {
			out = append(out, o)
		}
	}
	return out
}

// rights lists all permissions of each service account, as "namespace resources[names]: verbs". Upstream's accounts have them too, except those
// that docs/scope.md names: none of them creates, changes or deletes an object of a user.
var rights = map[string][]string{
	"vpa-recommender": {
		"cluster */*/scale: get",
		"cluster apps/daemonsets: get list watch",
		"cluster apps/deployments: get list watch",
		"cluster apps/replicasets: get list watch",
		"cluster apps/statefulsets: get list watch",
		"cluster autoscaling.k8s.io/verticalpodautoscalercheckpoints: create delete get list patch",
		"cluster autoscaling.k8s.io/verticalpodautoscalers/status: patch",
		"cluster autoscaling.k8s.io/verticalpodautoscalers: list watch",
		"cluster autoscaling/horizontalpodautoscalers: list watch",
		"cluster batch/cronjobs: get list watch",
		"cluster batch/jobs: get list watch",
		"cluster cluster.x-k8s.io/machinedeployments: list",
		"cluster core/events: list watch",
		"cluster core/limitranges: list watch",
		"cluster core/namespaces: list watch",
		"cluster core/nodes: list watch",
		"cluster core/pods: list watch",
		"cluster core/replicationcontrollers: get list watch",
		"cluster karpenter.sh/nodepools: list",
		"cluster metrics.k8s.io/pods: list",
		"cluster podfit.dev/capacityplans/status[cluster]: patch",
		"cluster podfit.dev/capacityplans: create",
		"cluster podfit.dev/capacityplans[cluster]: get",
		"cluster podfit.dev/sizingprofiles: list",
		"cluster podfit.dev/usagehistories: create delete get list patch",
		"kube-system coordination.k8s.io/leases: create",
		"kube-system coordination.k8s.io/leases[vpa-recommender vpa-recommender-lease]: get update",
	},
	"vpa-updater": {
		"cluster */*/scale: get",
		"cluster apps/daemonsets: get list watch",
		"cluster apps/deployments: get list watch",
		"cluster apps/replicasets: get list watch",
		"cluster apps/statefulsets: get list watch",
		"cluster autoscaling.k8s.io/verticalpodautoscalers/status: patch",
		"cluster autoscaling.k8s.io/verticalpodautoscalers: list watch",
		"cluster autoscaling/horizontalpodautoscalers: list watch",
		"cluster batch/cronjobs: get list watch",
		"cluster batch/jobs: get list watch",
		"cluster cluster.x-k8s.io/machinedeployments: list",
		"cluster coordination.k8s.io/leases[vpa-admission-controller]: get",
		"cluster core/events: create patch",
		"cluster core/limitranges: list watch",
		"cluster core/namespaces: list watch",
		"cluster core/nodes: list watch",
		"cluster core/pods/eviction: create",
		"cluster core/pods/resize: patch",
		"cluster core/pods: list patch watch",
		"cluster core/replicationcontrollers: get list watch",
		"cluster core/resourcequotas: list watch",
		"cluster karpenter.sh/nodepools: list",
		"cluster podfit.dev/sizingprofiles: list watch",
		"cluster podfit.dev/updatestates: create delete get list patch",
		"cluster policy/poddisruptionbudgets: list watch",
		"kube-system coordination.k8s.io/leases: create",
		"kube-system coordination.k8s.io/leases[vpa-updater vpa-updater-lease]: get update",
		"kube-system core/configmaps[podfit-freeze]: list watch",
	},
	"vpa-admission-controller": {
		"cluster */*/scale: get",
		"cluster admissionregistration.k8s.io/mutatingwebhookconfigurations[vpa-webhook-config]: get patch",
		"cluster apps/daemonsets: get list watch",
		"cluster apps/deployments: get list watch",
		"cluster apps/replicasets: get list watch",
		"cluster apps/statefulsets: get list watch",
		"cluster autoscaling.k8s.io/verticalpodautoscalers: list watch",
		"cluster autoscaling/horizontalpodautoscalers: list watch",
		"cluster batch/cronjobs: get list watch",
		"cluster batch/jobs: get list watch",
		"cluster cluster.x-k8s.io/machinedeployments: list",
		"cluster core/limitranges: list watch",
		"cluster core/nodes: list watch",
		"cluster core/replicationcontrollers: get list watch",
		"cluster core/resourcequotas: list watch",
		"cluster karpenter.sh/nodepools: list",
		"cluster podfit.dev/sizingprofiles: list watch",
		"cluster podfit.dev/updatestates: list watch",
		"kube-system coordination.k8s.io/leases: create",
		"kube-system coordination.k8s.io/leases[vpa-admission-controller]: get update",
		"kube-system core/secrets[vpa-tls-certs]: get update",
	},
}

// accountOf returns the account to which a folder of deploy/rights adds rights.
func accountOf(folder string) string {
	if folder == "namespace-opt-in" || folder == "kubelet-metrics" {
		return "vpa-recommender"
	}
	return "vpa-updater"
}

// componentRights are those that each folder of deploy/rights adds.
var componentRights = map[string][]string{
	"placeholders": {"cluster core/pods: create delete", "cluster scheduling.k8s.io/priorityclasses[podfit-placeholder]: get"},
	"provisioning-requests": {
		"cluster autoscaling.x-k8s.io/provisioningrequests: create delete list", "cluster core/podtemplates: create delete list",
	},
	"oom-rescue":         {"cluster core/pods: delete rescue"},
	"surges":             {"cluster apps/deployments: patch"},
	"hpa-targets":        {"cluster autoscaling/horizontalpodautoscalers: patch"},
	"api-server-metrics": {"cluster /metrics: get"},
	"node-guard":         {"cluster core/nodes/stats: get", "cluster metrics.k8s.io/pods: list"},
	"node-groups":        {"cluster core/configmaps[cluster-autoscaler-status]: get"},
	"kubelet-metrics":    {"cluster core/nodes/metrics: get"},
	"namespace-opt-in":   {"cluster autoscaling.k8s.io/verticalpodautoscalers: create delete patch", "cluster core/namespaces: list"},
}

func TestRBAC_serviceAccounts_haveExactlyTheRequiredPermissions(t *testing.T) {
	all := manifests(t)
	flat := granted(t, all)
	if diff := cmp.Diff(rights, flat); diff != "" {
		t.Errorf("rights (-want +got)\n%s", diff)
	}
	var accounts []string
	for _, a := range only[*corev1.ServiceAccount](all) {
		accounts = append(accounts, a.Namespace+"/"+a.Name)
	}
	slices.Sort(accounts)
	if want := []string{"kube-system/vpa-admission-controller", "kube-system/vpa-recommender", "kube-system/vpa-updater"}; !slices.Equal(accounts, want) {
		t.Errorf("service accounts %v", accounts)
	}
}

func TestRBAC_components_haveExactlyTheRightsOfTheirFeature(t *testing.T) {
	folders, err := filepath.Glob("../../deploy/rights/*")
	if err != nil || len(folders) != len(componentRights) {
		t.Errorf("%d folders, %d in the table, %v", len(folders), len(componentRights), err)
	}
	for folder, want := range componentRights {
		got := granted(t, decode(t, "../../deploy/rights/"+folder+"/*.yaml"))
		for _, account := range []string{accountOf(folder), "podfit"} { // of deploy/ and of deploy/all-in-one
			if diff := cmp.Diff(want, got[account]); diff != "" || len(got) != 2 {
				t.Errorf("%s, %s: rights (-want +got)\n%s", folder, account, diff)
			}
		}
	}
}

// granted returns the permissions of each service account that is bound to a role.
func granted(t *testing.T, all []runtime.Object) map[string][]string {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{} // by "kind namespace/name" of the role
	used := map[string]bool{}
	for _, r := range only[*rbacv1.ClusterRole](all) {
		if r.Labels[aggregateToView] == "" { // TestRBAC_roleView_readsAllKindsAndWritesNothing
			rules["ClusterRole /"+r.Name] = r.Rules
		}
	}
	for _, r := range only[*rbacv1.Role](all) {
		rules["Role "+r.Namespace+"/"+r.Name] = r.Rules
	}
	got := map[string]map[string][]string{} // by account, by "where what", verbs
	grant := func(ref rbacv1.RoleRef, subjects []rbacv1.Subject, namespace, where string) {
		role := ref.Kind + " " + namespace + "/" + ref.Name
		if rules[role] == nil {
			t.Errorf("%s is bound and does not exist", role)
		}
		used[role] = true
		for _, s := range subjects {
			if s.Kind != "ServiceAccount" || s.Namespace != "kube-system" {
				t.Errorf("%s is bound to %s %s/%s", role, s.Kind, s.Namespace, s.Name)
			}
			if got[s.Name] == nil {
				got[s.Name] = map[string][]string{}
			}
			collect(got[s.Name], where, rules[role])
		}
	}
	for _, b := range only[*rbacv1.ClusterRoleBinding](all) {
		grant(b.RoleRef, b.Subjects, "", "cluster")
	}
	for _, b := range only[*rbacv1.RoleBinding](all) {
		grant(b.RoleRef, b.Subjects, b.Namespace, b.Namespace)
	}
	for role := range rules {
		if !used[role] {
			t.Errorf("%s is bound to nobody", role)
		}
	}
	flat := map[string][]string{}
	for account, grants := range got {
		for what, verbs := range grants {
			slices.Sort(verbs)
			flat[account] = append(flat[account], what+": "+strings.Join(slices.Compact(verbs), " "))
		}
		slices.Sort(flat[account])
	}
	return flat
}

const aggregateToView = "rbac.authorization.k8s.io/aggregate-to-view"

// Users of a namespace read the objects of all CRDs. Roles that write them are not aggregated: upstream has none either.
func TestRBAC_roleView_readsAllKindsAndWritesNothing(t *testing.T) {
	var want []string
	for _, crd := range definitions(t) {
		want = append(want, "cluster "+crd.Spec.Group+"/"+crd.Spec.Names.Plural+": get list watch")
	}
	slices.Sort(want)
	got := map[string][]string{}
	for _, r := range only[*rbacv1.ClusterRole](manifests(t)) {
		for label := range r.Labels {
			if strings.Contains(label, "aggregate-to") && (label != aggregateToView || r.Name != "podfit:view") {
				t.Errorf("%s has the label %s", r.Name, label)
			}
		}
		if r.Labels[aggregateToView] == "true" {
			collect(got, "cluster", r.Rules)
		}
	}
	var flat []string
	for what, verbs := range got {
		flat = append(flat, what+": "+strings.Join(verbs, " "))
	}
	slices.Sort(flat)
	if diff := cmp.Diff(want, flat); diff != "" {
		t.Errorf("CRDs (-) and rules (+)\n%s", diff)
	}
}

func collect(into map[string][]string, where string, rules []rbacv1.PolicyRule) {
	for _, r := range rules {
		for _, path := range r.NonResourceURLs {
			into[where+" "+path] = append(into[where+" "+path], r.Verbs...)
		}
		for _, group := range r.APIGroups {
			if group == "" {
				group = "core"
			}
			for _, resource := range r.Resources {
				what := where + " " + group + "/" + resource
				if len(r.ResourceNames) > 0 {
					what += fmt.Sprint(slices.Sorted(slices.Values(r.ResourceNames)))
				}
				into[what] = append(into[what], r.Verbs...)
			}
		}
	}
}

func TestRBAC_roles_haveUpstreamNames(t *testing.T) {
	all := manifests(t)
	var got []string
	for _, r := range only[*rbacv1.ClusterRole](all) {
		got = append(got, r.Name)
	}
	for _, b := range only[*rbacv1.ClusterRoleBinding](all) {
		got = append(got, b.Name)
	}
	for _, r := range only[*rbacv1.Role](all) {
		got = append(got, r.Namespace+"/"+r.Name)
	}
	slices.Sort(got)
	want := []string{
		"kube-system/podfit:updater",
		"kube-system/system:leader-locking-vpa-recommender",
		"kube-system/system:leader-locking-vpa-updater",
		"kube-system/system:vpa-admission-controller",        // upstream grants these rights in the whole cluster
		"podfit:capacity-planner", "podfit:capacity-planner", // to write the CapacityPlan
		"podfit:profile-reader", "podfit:profile-reader",
		"podfit:recommender", "podfit:recommender", // upstream grants these rights to the recommender and the updater
		"podfit:updater", "podfit:updater",
		"podfit:view", // aggregated to view, edit and admin; upstream has no such role
		"system:evictioner",
		"system:metrics-reader", "system:metrics-reader",
		"system:vpa-actor", "system:vpa-actor",
		"system:vpa-admission-controller", "system:vpa-admission-controller",
		"system:vpa-checkpoint-actor", "system:vpa-checkpoint-actor",
		"system:vpa-evictioner-binding",
		"system:vpa-status-actor", "system:vpa-status-actor",
		"system:vpa-status-reader",
		"system:vpa-status-reader-binding",
		"system:vpa-target-reader",
		"system:vpa-target-reader-binding",
		"system:vpa-updater-in-place",
		"system:vpa-updater-in-place-binding",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roles and bindings (-want +got)\n%s", diff)
	}
}

func TestDeployments_selectors_matchUpstream(t *testing.T) {
	all := manifests(t)
	deployments := map[string]*appsv1.Deployment{}
	for _, d := range only[*appsv1.Deployment](all) {
		deployments[d.Namespace+"/"+d.Name] = d
	}
	if names := slices.Sorted(maps.Keys(deployments)); !slices.Equal(names,
		[]string{"kube-system/vpa-admission-controller", "kube-system/vpa-recommender", "kube-system/vpa-updater"}) {
		t.Fatalf("deployments %v", names)
	}
	images := map[string]bool{}
	for component, metrics := range map[string]string{"recommender": ":8942", "updater": ":8943", "admission-controller": ":8944"} {
		name := "vpa-" + component
		d := deployments["kube-system/"+name]
		pod := d.Spec.Template
		// The selector of a Deployment is immutable, so with another one the API server would reject the manifest.
		if diff := cmp.Diff(&metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, d.Spec.Selector); diff != "" {
			t.Errorf("%s: selector (-want +got)\n%s", name, diff)
		}
		if pod.Labels["app"] != name || pod.Labels["app.kubernetes.io/component"] != component {
			t.Errorf("%s: labels %v", name, pod.Labels)
		}
		if pod.Spec.ServiceAccountName != name || len(pod.Spec.Containers) != 1 {
			t.Fatalf("%s: account %q, %d containers", name, pod.Spec.ServiceAccountName, len(pod.Spec.Containers))
		}
		c := pod.Spec.Containers[0]
		images[c.Image] = true
		if c.Name != component || c.Args[0] != component || !strings.HasPrefix(c.Image, "ghcr.io/podfit/podfit:") {
			t.Errorf("%s: container %s runs %s %v", name, c.Name, c.Image, c.Args)
		}
		if elects := slices.Contains(c.Args, "--leader-elect"); elects != (component != "admission-controller") {
			t.Errorf("%s: two replicas, leader election %t", name, elects)
		}
		ports := map[string]int32{}
		for _, p := range c.Ports {
			ports[p.Name] = p.ContainerPort
		}
		if fmt.Sprintf(":%d", ports["prometheus"]) != metrics {
			t.Errorf("%s: metrics on %d, the default of --address is %s", name, ports["prometheus"], metrics)
		}
		for probe, p := range map[string]*corev1.Probe{"liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
			path := "/health-check"
			if probe == "readiness" && component == "admission-controller" {
				path = "/readyz"
			}
			if p == nil || p.HTTPGet == nil || p.HTTPGet.Path != path || p.HTTPGet.Port.StrVal != "prometheus" {
				t.Errorf("%s: %s probe %+v", name, probe, p)
			}
		}
		if s := pod.Spec.SecurityContext; s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: pod security %+v", name, s)
		}
		if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: container security %+v", name, s)
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: resources %+v", name, c.Resources)
		}
		budgets := 0
		for _, b := range only[*policyv1.PodDisruptionBudget](all) {
			if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && s.Matches(labels.Set(pod.Labels)) {
				budgets++
			}
		}
		if budgets != 1 {
			t.Errorf("%s: %d disruption budgets", name, budgets)
		}
	}
	if len(images) != 1 {
		t.Errorf("the deployments run different images: %v", slices.Sorted(maps.Keys(images)))
	}

	services := only[*corev1.Service](all)
	if len(services) != 1 || services[0].Name != "vpa-webhook" || services[0].Namespace != "kube-system" {
		t.Fatalf("services %v", services)
	}
	s := services[0]
	if p := s.Spec.Ports[0]; p.Port != 443 || p.TargetPort.IntVal != 8000 ||
		!labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(deployments["kube-system/vpa-admission-controller"].Spec.Template.Labels)) {
		t.Errorf("service %+v", s.Spec)
	}
}
