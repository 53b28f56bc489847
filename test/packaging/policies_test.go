// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// warnings collects the warnings of the API server.
type warnings struct {
	mu   sync.Mutex
	seen []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := strings.Join(w.seen, "\n")
	w.seen = nil
	return out
}

func cpuAmount(v string) corev1.ResourceList {
	if v == "" {
		return nil
	}
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(v)}
}

// sizedPod returns a pod whose container app has a CPU request and limit, each of which may be "".
func sizedPod(request, limit string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "app", Image: "a", Resources: corev1.ResourceRequirements{Requests: cpuAmount(request), Limits: cpuAmount(limit)}},
			{Name: "log", Image: "a", Resources: corev1.ResourceRequirements{Requests: cpuAmount("10m")}},
		}},
	}
}

func TestPolicies_labelledNamespaces_podsGetWarningsOrAreDenied(t *testing.T) {
	w := cluster(t)
	file := filepath.Join(t.TempDir(), "policies.yaml")
	var text strings.Builder
	for _, o := range build(t, overlay(t, "resources: []\ncomponents: [DEPLOY/policies]\n")) {
		b, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "---\n%s", b)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.kubectlApply("--server-side", "--validate=strict", "-f", file); err != nil {
		t.Fatal(err)
	}
	for name, labels := range map[string]map[string]string{
		"policies-none":   nil,
		"policies-warn":   {"podfit.dev/cpu-limits": "warn", "podfit.dev/cpu-requests": "warn"},
		"policies-deny":   {"podfit.dev/cpu-limits": "deny", "podfit.dev/cpu-requests": "deny"},
		"policies-unread": {"podfit.dev/cpu-limits": "remove", "podfit.dev/cpu-requests": "true"},
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if _, err := w.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		until(t, "pods can be created", time.Minute, func(ctx context.Context) error {
			_, err := w.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
			return err
		})
	}
	config, err := clientcmd.BuildConfigFromFlags("", w.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	var warned warnings
	config.WarningHandler = &warned
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create := func(ctx context.Context, namespace string, pod *corev1.Pod) (string, error) {
		warned.take()
		_, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return warned.take(), err
	}
	until(t, "the policies apply", time.Minute, func(ctx context.Context) error {
		_, limit := create(ctx, "policies-deny", sizedPod("1", "2"))
		_, request := create(ctx, "policies-deny", sizedPod("", ""))
		warning, err := create(ctx, "policies-warn", sizedPod("1", "2"))
		without, _ := create(ctx, "policies-warn", sizedPod("", ""))
		if limit == nil || request == nil || warning == "" || without == "" {
			return fmt.Errorf("denied: %v, %v; warning %q, %q, %v", limit, request, warning, without, err)
		}
		return nil
	})

	initLimited, sidecar := sizedPod("1", ""), corev1.ContainerRestartPolicyAlways
	initLimited.Spec.InitContainers = []corev1.Container{
		{Name: "setup", Image: "a", Resources: corev1.ResourceRequirements{Limits: cpuAmount("1")}},
		{Name: "mesh", Image: "a", RestartPolicy: &sidecar, Resources: corev1.ResourceRequirements{Limits: cpuAmount("1")}},
	}
	podLimited := sizedPod("1", "")
	podLimited.Spec.Resources = &corev1.ResourceRequirements{Limits: cpuAmount("4")}
	const remedy = "kubectl annotate vpa VPA podfit.dev/cpu-limits=remove"
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want []string // in the message; nil if the pod is allowed
	}{
		"request and no limit":     {sizedPod("1", ""), nil},
		"a limit":                  {sizedPod("1", "2"), []string{"podfit-cpu-limits", "CPU limit of container app. Remove limits.cpu from the pod template", remedy}},
		"limits of other classes":  {initLimited, []string{"CPU limit of container setup, mesh. Remove", remedy}},
		"a pod-level limit":        {podLimited, []string{"the pod has a CPU limit in spec.resources. Remove limits.cpu"}},
		"a request of 0":           {sizedPod("0", ""), []string{"podfit-cpu-requests", "no CPU request of container app."}},
		"a request and limit of 0": {sizedPod("0", "0"), []string{"podfit-cpu-requests", "no CPU request of container app."}},
		"no request":               {sizedPod("", ""), []string{"podfit-cpu-requests", "no CPU request of container app. Set requests.cpu in the pod template"}},
	} {
		for _, namespace := range []string{"policies-none", "policies-unread", "kube-system"} {
			if warning, err := create(t.Context(), namespace, c.pod); warning != "" || err != nil {
				t.Errorf("%s in %s: warning %q, error %v", name, namespace, warning, err)
			}
		}
		warning, err := create(t.Context(), "policies-warn", c.pod)
		if err != nil || c.want == nil && warning != "" {
			t.Errorf("%s: warning %q, error %v", name, warning, err)
		}
		_, denied := create(t.Context(), "policies-deny", c.pod)
		if c.want == nil && denied != nil || c.want != nil && !apierrors.IsForbidden(denied) {
			t.Errorf("%s: denied with %v", name, denied)
		}
		if limited := strings.Contains(warning, "podfit-cpu-limits"); limited != strings.Contains(strings.Join(c.want, " "), "CPU limit") {
			t.Errorf("%s: warning %q", name, warning)
		}
		for _, part := range c.want {
			if !strings.Contains(warning, part) || !strings.Contains(denied.Error(), part) {
				t.Errorf("%s: %q is not in the warning %q or in the error %v", name, part, warning, denied)
			}
		}
	}
}

func TestChart_admissionPolicies_areThoseOfDeploy(t *testing.T) {
	rename := strings.NewReplacer("podfit-cpu", "vpa-vertical-pod-autoscaler-cpu")
	for key, name := range map[string]string{"cpuLimits": "cpu-limits", "cpuRequests": "cpu-requests"} {
		want := map[string]any{}
		for _, o := range files(t, "deploy/policies/"+name+".yaml") {
			spec := o.Object["spec"].(map[string]any)
			if v, ok := spec["policyName"].(string); ok {
				spec["policyName"] = rename.Replace(v)
			}
			want[o.GetKind()+"/"+rename.Replace(o.GetName())] = spec
		}
		got := map[string]any{}
		for _, o := range render(t, "admissionPolicies."+key+".enabled=true") {
			if strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
				got[o.GetKind()+"/"+o.GetName()] = o.Object["spec"]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != 3 {
			t.Errorf("%s (-deploy +chart):\n%s", key, diff)
		}
	}
	for _, o := range render(t) {
		if strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
			t.Errorf("by default the chart has %s", id(o))
		}
	}
}

func TestChart_admissionPoliciesOnOldKubernetes_areRefusedWithTheRemedy(t *testing.T) {
	for version, want := range map[string]string{
		"v1.29.3": "need Kubernetes 1.30 or later, and the cluster has v1.29.3. Set admissionPolicies.cpuLimits.enabled=false", "v1.30.0": "",
	} {
		_, err := renderFor(version, load(t, folder), vpaRelease(false), values(t, "admissionPolicies.cpuLimits.enabled=true"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", version, err)
		}
	}
}
