// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/test/e2e/bed"
)

var autoscalers = schema.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"}

// twoContainers is a Deployment with a container that is too small, one that is too large, and one that no VPA sizes.
const twoContainers = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: app, image: test/app, resources: {requests: {cpu: 100m, memory: 50Mi}, limits: {memory: 60Mi}}}
      - {name: proxy, image: test/app, resources: {requests: {cpu: 300m, memory: 200Mi}, limits: {cpu: 400m, memory: 200Mi}}}
      - {name: agent, image: test/app, resources: {requests: {cpu: 10m, memory: 20Mi}}}
`

// storedDays returns a checkpoint with nine days of usage.
func storedDays(autoscaler, container string, now time.Time) string {
	last := now.Add(-time.Minute).UTC().Format(time.RFC3339)
	first := now.Add(-9 * 24 * time.Hour).UTC().Format(time.RFC3339)
	histogram := fmt.Sprintf(`{bucketWeights: {"5": 10000}, totalWeight: 100, referenceTimestamp: %q}`, now.UTC().Truncate(24*time.Hour).Format(time.RFC3339))
	return fmt.Sprintf(`apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscalerCheckpoint
metadata: {name: %[1]s-%[2]s}
spec: {vpaObjectName: %[1]s, containerName: %[2]s}
status: {version: v3, lastUpdateTime: %[3]q, firstSampleStart: %[4]q, lastSampleStart: %[3]q, totalSamplesCount: 12000, cpuHistogram: %[5]s, memoryHistogram: %[5]s}
`, autoscaler, container, last, first, histogram)
}

// recommends sets the recommendation in the status of a VPA, as a recommender of another vendor does.
func (p *place) recommends(name string, targets map[string]string) {
	p.Helper()
	var containers []string
	for container, target := range targets {
		containers = append(containers, fmt.Sprintf(`{"containerName":%q,"target":%[2]s,"lowerBound":%[2]s,"upperBound":%[2]s}`, container, target))
	}
	body := `{"status":{"recommendation":{"containerRecommendations":[` + strings.Join(containers, ",") + `]}}}`
	if _, err := p.Dynamic.Resource(autoscalers).Namespace(p.ns).Patch(p.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{}, "status"); err != nil {
		p.Fatal(err)
	}
}

// reported runs podfit recommend for the namespace with an identity.
func (p *place) reported(kubeconfig, format string) []byte {
	p.Helper()
	ctx, cancel := bed.WithPatience(p.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, p.binary, "recommend", "-n", p.ns, "--source=cluster", "--kubeconfig", kubeconfig, "-o", format)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		p.Fatalf("recommend -o %s: %v: %s", format, err, errs.String())
	}
	return out.Bytes()
}

// kustomized applies the patches of a component of kustomize to the cluster, each as kustomize does to its target.
func (p *place) kustomized(component []byte) (patches int) {
	p.Helper()
	parsed, err := bed.Parse(component)
	if err != nil || len(parsed) != 1 || parsed[0].GetKind() != "Component" {
		p.Fatalf("%v in\n%s", err, component)
	}
	list, _, err := unstructured.NestedSlice(parsed[0].Object, "patches")
	if err != nil {
		p.Fatal(err)
	}
	for _, entry := range list {
		text, _, err := unstructured.NestedString(entry.(map[string]any), "patch")
		if err != nil {
			p.Fatal(err)
		}
		patch, err := bed.Parse([]byte(text))
		if err != nil || len(patch) != 1 || patch[0].GetKind() != "Deployment" || patch[0].GetNamespace() != p.ns {
			p.Fatalf("%v in\n%s", err, text)
		}
		body, err := patch[0].MarshalJSON()
		if err != nil {
			p.Fatal(err)
		}
		if _, err := p.AppsV1().Deployments(p.ns).Patch(p.Context(), patch[0].GetName(), types.StrategicMergePatchType, body, metav1.PatchOptions{}); err != nil {
			p.Fatal(err)
		}
	}
	return len(list)
}

// TestRecommend_kustomizeIsApplied_leavesExactlyThePrintedRequests checks on a real cluster that the patches have the effect that the report
// promises, with rights to get and list only.
func TestRecommend_kustomizeIsApplied_leavesExactlyThePrintedRequests(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "recommend")
	p.apply(reader, twoContainers, autoscaler("web", "", "web", "Off", "  recommenders: [{name: vendor}]"))
	kubeconfig, err := p.Identity(t.Context(), "explain-reader")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	p.apply(storedDays("web", "app", now), storedDays("web", "proxy", now))
	p.recommends("web", map[string]string{"app": `{"cpu":"253m","memory":"150000001"}`, "proxy": `{"cpu":"33m","memory":"70000001"}`})
	p.start("web", 2)

	type amounts struct{ Request, NewRequest, Limit, NewLimit string }
	var report struct {
		Containers []struct {
			Container   string
			Confidence  string
			CPU, Memory amounts
		}
	}
	if err := json.Unmarshal(p.reported(kubeconfig, "json"), &report); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, c := range report.Containers {
		cpu, memory := c.CPU, c.Memory
		if c.Confidence == "none" { // it stays
			cpu.NewRequest, cpu.NewLimit, memory.NewRequest, memory.NewLimit = cpu.Request, cpu.Limit, memory.Request, memory.Limit
		}
		want[c.Container] = fmt.Sprintf("requests %s %s, limits %s %s", cpu.NewRequest, memory.NewRequest, cpu.NewLimit, memory.NewLimit)
	}
	if got := fmt.Sprint(want); got != "map[agent:requests 10m 20Mi, limits   app:requests 253m 144Mi, limits  173Mi proxy:requests 33m 67Mi, limits 400m 200Mi]" {
		t.Errorf("the report has %s", got)
	}
	if n := p.kustomized(p.reported(kubeconfig, "kustomize")); n != 1 {
		t.Errorf("%d patches, want 1", n)
	}
	p.eventually("all pods have the printed requests", resized, func(ctx context.Context) error {
		pods, err := p.running(ctx, "web", 2)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if len(pod.Spec.Containers) != len(want) {
				return fmt.Errorf("pod %s has %d containers", pod.Name, len(pod.Spec.Containers))
			}
			for _, c := range pod.Spec.Containers {
				if got := printedResources(&c); got != want[c.Name] {
					return fmt.Errorf("pod %s, container %s: %s, want %s", pod.Name, c.Name, got, want[c.Name])
				}
			}
		}
		return nil
	})
	if again := p.reported(kubeconfig, "kustomize"); !bytes.Contains(again, []byte("patches: []")) {
		t.Errorf("there are still patches after they were applied:\n%s", again)
	}
}

// printedResources returns the requests and limits of a container. An amount that is not set is empty.
func printedResources(c *corev1.Container) string {
	amount := func(l corev1.ResourceList, name corev1.ResourceName) string {
		if q, ok := l[name]; ok {
			return q.String()
		}
		return ""
	}
	r, l := c.Resources.Requests, c.Resources.Limits
	return fmt.Sprintf("requests %s %s, limits %s %s", amount(r, "cpu"), amount(r, "memory"), amount(l, "cpu"), amount(l, "memory"))
}
