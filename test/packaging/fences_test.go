// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	core "podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/optin"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/actuation"
	"podfit.dev/podfit/internal/edge/kube/capacity"
	"podfit.dev/podfit/internal/edge/kube/enrollment"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/test/e2e/bed"
)

// Without deploy/rights, the updater evicts pods as upstream's does. It logs each missing right once, and sends no request that needs one.
func TestRights_onlyThoseOfDeploy_podsAreEvictedAndMissingOnesLoggedOnce(t *testing.T) {
	w := cluster(t)
	w.clean(t)
	defer w.clean(t)
	if text, err := w.kubectlApply("-f", root+"/deploy"); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	recreate := strings.ReplaceAll(autoscaler, `"Off"}`, "Recreate}\n  resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {cpu: 300m}}]}")
	if err := w.ApplyYAML(t.Context(), "shop", workload+"---"+recreate); err != nil {
		t.Fatal(err)
	}
	running := w.components(t)
	until(t, "both pods are replaced and have the new size", 3*time.Minute, func(context.Context) error {
		if got := w.requests(t); strings.Count(got, "300m") != 2 || strings.Count(got, "web-") != 2 {
			return errors.New(got)
		}
		return nil
	})
	i := slices.IndexFunc(running, func(p *bed.Podfit) bool { return p.Component.Command == "updater" })
	metrics, err := running[i].Get(t.Context(), "/metrics")
	if err != nil || !regexp.MustCompile(`(?m)^vpa_updater_evicted_pods_total\{.*\} 2$`).MatchString(metrics) {
		t.Errorf("the updater does not count two evictions: %v", err)
	}
	stop(t, running)
	log := read(t, running[i].Log)
	for _, right := range []string{"rescue pods", "patch deployments.apps", "patch horizontalpodautoscalers.autoscaling", "create pods"} {
		if n := strings.Count(log, `about="`+right+`"`); n != 1 {
			t.Errorf("the missing right %q is logged %d times, want once", right, n)
		}
	}
	if n := strings.Count(log, "Cannot request capacity before evictions"); n != 1 {
		t.Errorf("the missing rights to request capacity are logged %d times, want once", n)
	}
	if strings.Contains(log, "level=ERROR") || strings.Count(log, "level=WARN") > 5 || t.Failed() {
		t.Errorf("the log of the updater:\n%s", log)
	}
}

// restricted are the objects of a user that the updater changes in the tests of the policies.
const restricted = `
apiVersion: v1
kind: Namespace
metadata: {name: fenced}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: fenced, labels: {app: web}}
spec:
  containers: [{name: app, image: example.com/web, resources: {requests: {cpu: 100m, memory: 100Mi}}}]
  volumes: [{name: data, emptyDir: {}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: fenced, labels: {app: api}}
spec:
  replicas: 1
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      containers: [{name: app, image: example.com/api, resources: {requests: {cpu: 100m, memory: 100Mi}}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: api, namespace: fenced, labels: {app: api}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}
  maxReplicas: 1
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 90}}}]
`

// A restriction is a way to install podfit with rights that policies restrict, and the account that has them.
type restriction struct {
	objects            objects
	namespace, account string
}

// clusterWide returns the roles, policies and PriorityClasses of an installation. If rescue, it returns only the right to delete OOM-killed pods, else
// all but this one.
func clusterWide(all objects, rescue bool) objects {
	return slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool {
		wanted := strings.HasPrefix(o.GetKind(), "ClusterRole") || strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") || o.GetKind() == "PriorityClass"
		return !wanted || rescue != strings.HasSuffix(o.GetName(), "oom-rescue")
	})
}

// as returns clients that send requests as a ServiceAccount.
func (w *world) as(t *testing.T, namespace, account string) *kube.Clients {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", w.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	clients, err := kube.ClientsFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

// denial returns an error unless err is a refusal of a policy of podfit with the given text.
func denial(err error, text string) error {
	if err == nil {
		return errors.New("the request is allowed")
	}
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy '") || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("the request is not denied with %q: %w", text, err)
	}
	return nil
}

// The policies are compiled by the API server. They allow each request that podfit sends, deny others of the account of the updater, and do not concern
// other accounts.
func TestRights_policiesOnAPIServer_allowPodfitsRequestsAndDenyOthers(t *testing.T) {
	w := cluster(t)
	w.clean(t)
	defer w.clean(t)
	if err := w.Apply(t.Context(), "", files(t, "deploy/00-crds.yaml")...); err != nil { // the API server checks the types of a policy only for kinds that it serves
		t.Fatal(err)
	}
	const all = "components: [DEPLOY/rights/placeholders, DEPLOY/rights/surges, DEPLOY/rights/hpa-targets, DEPLOY/rights/namespace-opt-in, DEPLOY/rights/oom-rescue]\nresources: [DEPLOY]\n"
	for name, f := range map[string]restriction{
		"kustomize": {build(t, overlay(t, all)), namespace, "vpa-updater"},
		// kustomize changes the subjects of bindings, and leaves expressions alone.
		"kustomize, another namespace": {build(t, overlay(t, all+"namespace: elsewhere\n")), "elsewhere", "vpa-updater"},
		"chart":                        {render(t, allRights...), namespace, "vpa-vertical-pod-autoscaler-updater"},
	} {
		t.Run(name, func(t *testing.T) { w.checkFence(t, f) })
	}
}

func (w *world) checkFence(t *testing.T, f restriction) {
	base, rescue := clusterWide(f.objects, false), clusterWide(f.objects, true)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, o := range append(slices.Clone(base), rescue...) {
			if err := w.Delete(ctx, o); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
		none := int64(0)
		if err := w.CoreV1().Pods("fenced").DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &none}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
		if err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			_, err := w.CoreV1().Pods("fenced").Get(ctx, "web", metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		}); err != nil {
			t.Errorf("the pods are gone: %v", err)
		}
	})
	if err := w.Apply(t.Context(), namespace, base...); err != nil {
		t.Fatal(err)
	}
	objects := parse(t, restricted)
	if err := w.Apply(t.Context(), "", objects[0]); err != nil {
		t.Fatal(err)
	}
	until(t, "the objects of the user exist", time.Minute, func(ctx context.Context) error { return w.Apply(ctx, "", objects[1:]...) })
	w.checkTypes(t, base)

	updater := w.as(t, f.namespace, f.account)
	w.checkPods(t, updater)
	w.checkDeployment(t, updater)
	w.checkHorizontal(t, updater)
	w.checkAutoscalers(t, w.as(t, f.namespace, strings.TrimSuffix(f.account, "updater")+"recommender"))

	if err := w.Apply(t.Context(), namespace, rescue...); err != nil {
		t.Fatal(err)
	}
	until(t, "with deploy/rights/oom-rescue, the updater deletes pods", time.Minute, func(ctx context.Context) error {
		return updater.Core.CoreV1().Pods("fenced").Delete(ctx, "web", metav1.DeleteOptions{})
	})
}

// checkTypes waits until the API server has checked the types in the policies, and expects no warnings. A misspelled field has one.
func (w *world) checkTypes(t *testing.T, all objects) {
	t.Helper()
	client := w.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	checked := func(name string) (found []admissionregistrationv1.ExpressionWarning) {
		until(t, "the types of "+name+" are checked", time.Minute, func(ctx context.Context) error {
			p, err := client.Get(ctx, name, metav1.GetOptions{})
			if err != nil || p.Status.ObservedGeneration != p.Generation || p.Status.TypeChecking == nil {
				return errors.Join(err, errors.New("not yet"))
			}
			found = p.Status.TypeChecking.ExpressionWarnings
			return nil
		})
		return found
	}
	policies := of[admissionregistrationv1.ValidatingAdmissionPolicy](t, all, "ValidatingAdmissionPolicy")
	if len(policies) != 4 {
		t.Fatalf("%d policies", len(policies))
	}
	for _, p := range policies {
		if found := checked(p.Name); len(found) > 0 {
			t.Errorf("policy %s: %+v", p.Name, found)
		}
		wrong := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Name + "-wrong"}, Spec: *p.Spec.DeepCopy()}
		wrong.Spec.Validations = []admissionregistrationv1.Validation{{Expression: "object.spec.replicaz == 1"}}
		if _, err := client.Create(t.Context(), wrong, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if found := checked(wrong.Name); len(found) == 0 {
			t.Errorf("policy %s: the API server does not check its types", p.Name)
		}
		if err := client.Delete(t.Context(), wrong.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func (w *world) checkPods(t *testing.T, updater *kube.Clients) {
	t.Helper()
	pods, all := updater.Core.CoreV1().Pods("fenced"), w.CoreV1().Pods("fenced")
	owner, err := all.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	plain := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "case-"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/web"}}},
		}
	}
	const shape, container = "podfit may create only placeholder pods, which have the PriorityClass", "podfit may create only placeholder pods, whose container runs the image registry.k8s.io/pause:"
	until(t, "the policy for pods applies", time.Minute, func(ctx context.Context) error {
		created, err := pods.Create(ctx, plain(), metav1.CreateOptions{})
		if err == nil {
			err = all.Delete(ctx, created.Name, metav1.DeleteOptions{})
			return errors.Join(errors.New("a pod was created"), err)
		}
		return denial(err, "podfit may create only placeholder pods")
	})

	placeholders := capacity.NewPlaceholders(updater, "registry.k8s.io/pause:3.10.1")
	if problem, err := placeholders.Available(t.Context(), false); problem != "" || err != nil {
		t.Fatalf("placeholder pods are not available: %q, %v", problem, err)
	}
	p := &core.Pod{Key: core.Key{Namespace: "fenced", Name: "web"}, UID: string(owner.UID)}
	if err := placeholders.Create(t.Context(), p, core.Amounts(100, 64<<20)); err != nil {
		t.Fatal(err)
	}
	key := core.PlaceholderFor("fenced", p.UID)
	placeholder, err := all.Get(t.Context(), key.Name, metav1.GetOptions{})
	if err != nil || !projection.IsPlaceholder(placeholder) {
		t.Fatalf("%+v, %v", placeholder, err)
	}
	if _, err := actuation.NewReplacements(updater).DryRun(t.Context(), p); err != nil {
		t.Errorf("the dry run of a replacement: %v", err)
	}

	like := func() *corev1.Pod {
		out := plain()
		out.Labels, out.Annotations, out.OwnerReferences = placeholder.Labels, placeholder.Annotations, placeholder.OwnerReferences
		out.Spec = *placeholder.Spec.DeepCopy()
		out.Spec.NodeName = ""
		return out
	}
	copied, err := pods.Create(t.Context(), like(), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("a copy of the placeholder pod: %v", err)
	}
	for _, target := range []*corev1.Pod{placeholder, copied} {
		if err := placeholders.Delete(t.Context(), &core.CapacityRequest{Key: core.Key{Namespace: "fenced", Name: target.Name}, UID: string(target.UID)}); err != nil {
			t.Error(err)
		}
	}
	if err := denial(pods.Delete(t.Context(), "web", metav1.DeleteOptions{}), "podfit may delete only placeholder pods, unless it has the verb rescue on pods"); err != nil {
		t.Errorf("deletion of a pod that is no placeholder: %v", err)
	}

	yes, always := true, corev1.ContainerRestartPolicyAlways
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"a"}}}}
	mount := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"emptyDir":          {mount(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), shape},
		"hostPath":          {mount(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}), shape},
		"Secret":            {mount(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "a"}}), shape},
		"token":             {func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &yes }, shape},
		"default for token": {func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil }, shape},
		"host network":      {func(p *corev1.Pod) { p.Spec.HostNetwork = true }, shape},
		"host PID":          {func(p *corev1.Pod) { p.Spec.HostPID = true }, shape},
		"host IPC":          {func(p *corev1.Pod) { p.Spec.HostIPC = true }, shape},
		"node":              {func(p *corev1.Pod) { p.Spec.NodeName = "a" }, shape},
		"two containers": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "b", Image: "b"})
		}, shape},
		"init container": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "b", Image: p.Spec.Containers[0].Image, RestartPolicy: &always}}
		}, shape},
		"no label":    {func(p *corev1.Pod) { p.Labels = nil }, shape},
		"other label": {func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }, shape},
		"other value of the label": {func(p *corev1.Pod) {
			p.Labels = map[string]string{projection.PlaceholderLabel: "false"}
		}, shape},
		"other PriorityClass": {func(p *corev1.Pod) {
			p.Spec.PriorityClassName, p.Spec.Priority, p.Spec.PreemptionPolicy = "system-node-critical", nil, nil
		}, shape},
		"no PriorityClass": {func(p *corev1.Pod) {
			p.Spec.PriorityClassName, p.Spec.Priority, p.Spec.PreemptionPolicy = "", nil, nil
		}, shape},
		"other image": {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "example.com/other" }, container},
		"command":     {func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"a"} }, container},
		"arguments":   {func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"a"} }, container},
		"port": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		}, container},
		"probe":               {func(p *corev1.Pod) { p.Spec.Containers[0].LivenessProbe = probe }, container},
		"no security context": {func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = nil }, container},
		"hook": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: probe.Exec}}
		}, container},
		"privileged": {func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes} }, container},
		"privilege escalation": {func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = &yes
		}, container},
		"capability": {func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
		}, container},
	} {
		changed := like()
		c.change(changed)
		created, err := pods.Create(t.Context(), changed, metav1.CreateOptions{})
		if err := denial(err, c.want); err != nil {
			t.Errorf("placeholder pod with another %s: %v", name, err)
		}
		if err == nil {
			_ = all.Delete(t.Context(), created.Name, metav1.DeleteOptions{})
		}
	}

	other := plain()
	mount(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})(other)
	other.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	other.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	created, err := all.Create(t.Context(), other, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("a pod of another user: %v", err)
	}
	if err := all.Delete(t.Context(), created.Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("deletion by another user: %v", err)
	}
}

// A mergePatch is one for an object of the user, and whether the policy denies it.
type mergePatch struct {
	patch  string
	denied bool
}

// checkChanges sends patches as dry runs, as the updater and as the administrator.
func (w *world) checkChanges(t *testing.T, updater *kube.Clients, text string, send func(kubernetes.Interface, string) error, changes []mergePatch) {
	t.Helper()
	until(t, "the policy applies: "+text, time.Minute, func(context.Context) error { return denial(send(updater.Core, changes[0].patch), text) })
	for _, c := range changes {
		err := send(updater.Core, c.patch)
		if c.denied {
			err = denial(err, text)
		}
		if err != nil {
			t.Errorf("%s by the updater: %v", c.patch, err)
		}
		if err := send(w.Interface, c.patch); err != nil {
			t.Errorf("%s by another user: %v", c.patch, err)
		}
	}
}

var dryRun = metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}

func (w *world) checkDeployment(t *testing.T, updater *kube.Clients) {
	t.Helper()
	w.checkChanges(t, updater, "podfit may change only the number of replicas and the annotations of a Deployment", func(c kubernetes.Interface, patch string) error {
		_, err := c.AppsV1().Deployments("fenced").Patch(t.Context(), "api", types.MergePatchType, []byte(patch), dryRun)
		return err
	}, []mergePatch{
		{`{"spec": {"paused": true}}`, true},
		{`{"spec": {"template": {"metadata": {"labels": {"b": "c"}}}}}`, true},
		{`{"spec": {"template": {"spec": {"hostPID": true}}}}`, true},
		{`{"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}}`, true},
		{`{"spec": {"minReadySeconds": 5}}`, true},
		{`{"spec": {"progressDeadlineSeconds": 5}}`, true},
		{`{"spec": {"revisionHistoryLimit": 5}}`, true},
		{`{"metadata": {"labels": null}}`, true},
		{`{"metadata": {"finalizers": ["example.com/a"]}}`, true},
		{`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}}`, true},
		{`{"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 2}}`, false},
	})
	writer, deployment := actuation.NewDeploymentWriter(updater), core.Workload{Group: "apps", Kind: "Deployment", Namespace: "fenced", Name: "api"}
	for _, surge := range []*core.Surge{{Replicas: 1, Pod: "a", UID: "b"}, nil} {
		until(t, "a surge is written", time.Minute, func(ctx context.Context) error { // unless the controller has just written the status
			d, err := writer.Read(ctx, deployment)
			if err != nil {
				return err
			}
			replicas := int32(1)
			if surge != nil {
				replicas = 2
			}
			err = writer.Write(ctx, &d, replicas, surge)
			if apierrors.IsForbidden(err) {
				t.Fatal(err)
			}
			return err
		})
	}
}

func (w *world) checkHorizontal(t *testing.T, updater *kube.Clients) {
	t.Helper()
	const text = "podfit may change only the targets and the annotations of a HorizontalPodAutoscaler"
	v2 := func(c kubernetes.Interface, patch string) error {
		_, err := c.AutoscalingV2().HorizontalPodAutoscalers("fenced").Patch(t.Context(), "api", types.MergePatchType, []byte(patch), dryRun)
		return err
	}
	v1 := func(c kubernetes.Interface, patch string) error {
		_, err := c.AutoscalingV1().HorizontalPodAutoscalers("fenced").Patch(t.Context(), "api", types.MergePatchType, []byte(patch), dryRun)
		return err
	}
	common := []mergePatch{
		{`{"spec": {"maxReplicas": 100}}`, true},
		{`{"spec": {"minReplicas": null, "maxReplicas": 2}}`, true},
		{`{"spec": {"scaleTargetRef": {"name": "b"}}}`, true},
		{`{"metadata": {"labels": null}}`, true},
		{`{"metadata": {"annotations": {"a": "b"}}}`, false},
	}
	w.checkChanges(t, updater, text, v2, append(slices.Clone(common), mergePatch{`{"spec": {"behavior": {"scaleDown": {"selectPolicy": "Disabled"}}}}`, true}))
	w.checkChanges(t, updater, text, v1, append(slices.Clone(common), mergePatch{`{"spec": {"targetCPUUtilizationPercentage": 50}}`, false}))

	live, err := w.AutoscalingV2().HorizontalPodAutoscalers("fenced").Get(t.Context(), "api", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := &core.HorizontalAutoscaler{
		Key: core.Key{Namespace: "fenced", Name: "api"}, UID: string(live.UID), Utilization: []core.UtilizationTarget{{Resource: core.CPU, Percent: 90}},
	}
	points, writer := []core.ScalePoint{{Resource: core.CPU, Base: 100, Percent: 90, Set: 90}}, actuation.NewHorizontalWriter(updater)
	if err := writer.Record(t.Context(), h, points); err != nil {
		t.Error(err)
	}
	if err := writer.SetTargets(t.Context(), h, map[int]int32{0: 45}, points); err != nil {
		t.Error(err)
	}
	h.Utilization[0].Percent = 45
	if err := writer.SetTargets(t.Context(), h, map[int]int32{0: 90}, nil); err != nil {
		t.Error(err)
	}
}

// checkAutoscalers sends all writes of VPAs of namespaces that opt in. test/e2e tries what the policy must refuse.
func (w *world) checkAutoscalers(t *testing.T, recommender *kube.Clients) {
	t.Helper()
	client := &enrollment.Client{Clients: recommender}
	target := core.Workload{Group: "apps", Kind: "Deployment", Namespace: "fenced", Name: "api"}
	setting := optin.Setting{Mode: core.Off, Profile: "default", Policy: core.ContainerPolicy{Container: "*", MaxAllowed: core.Amounts(1000, 1<<30)}}
	write := func(ctx context.Context, act, uid string) error {
		return client.Write(ctx, time.Now(), &optin.Change{Act: act, Target: target, Setting: setting, UID: uid})
	}
	until(t, "the recommender creates a VPA", time.Minute, func(ctx context.Context) error { return write(ctx, "create", "") })
	key := optin.Key(target)
	created, err := w.Autoscaler(t.Context(), key.Namespace, key.Name)
	if err != nil {
		t.Fatal(err)
	}
	strange := strings.NewReplacer("name: web", "name: strange", "namespace: shop", "namespace: fenced").Replace(autoscaler)
	if err := w.ApplyYAML(t.Context(), "fenced", strange); err != nil {
		t.Fatal(err)
	}
	until(t, "the policy for VPAs applies", time.Minute, func(ctx context.Context) error {
		return denial(recommender.Autoscalers.Delete().Namespace("fenced").Resource("verticalpodautoscalers").Name("strange").Param("dryRun", "All").Do(ctx).Error(), "podfit may create, change and delete only VPAs whose label")
	})
	for _, act := range []string{"update", "end", "update", "delete"} {
		if err := write(t.Context(), act, string(created.UID)); err != nil {
			t.Errorf("%s: %v", act, err)
		}
	}
}
