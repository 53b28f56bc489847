// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// drawPod returns a random pod with all fields that affect its size, and some that do not.
func drawPod(r *rand.Rand) *corev1.Pod {
	coin := func() bool { return r.IntN(2) == 0 }
	quantities := []string{"1", "100m", "0.5", "1e3", "1E3", "2E", "+1", "0.5Gi", "1500M", "0", "12345678901", "1m", "64Mi"}
	list := func() corev1.ResourceList {
		if r.IntN(4) == 0 {
			return nil
		}
		out := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, "hugepages-2Mi", "example.com/gpu"} {
			if coin() {
				out[name] = resource.MustParse(quantities[r.IntN(len(quantities))])
			}
		}
		return out
	}
	requirements := func() corev1.ResourceRequirements {
		out := corev1.ResourceRequirements{Requests: list(), Limits: list()}
		for range r.IntN(3) {
			out.Claims = append(out.Claims, corev1.ResourceClaim{Name: "claim", Request: "r"})
		}
		return out
	}
	container := func(name string) corev1.Container {
		c := corev1.Container{Name: name, Image: "i\"\\[{", Resources: requirements()}
		if coin() {
			c.Env = []corev1.EnvVar{{Name: "A", Value: "]},{\"name\":\"b\"}\\"}}
			for range r.IntN(3) {
				name := []string{"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "GOMAXPROCS", "B\"", "JAVA_\\"}[r.IntN(5)]
				c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: []string{"", "-Xmx1g", "-XX:ActiveProcessorCount=3", `"`}[r.IntN(4)]})
			}
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		}
		drawProgram(r, &c)
		return c
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-<1>", GenerateName: "cart-"}}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "cart", Controller: new(true)}}
	if coin() {
		p.OwnerReferences = append([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x"}}, p.OwnerReferences...)
	}
	if coin() {
		p.Annotations = map[string]string{"a": "b", policy.ObservedAnnotation: "x, y", "vpaCpuStartupBoost/c0": `{"requests":{"cpu":"1"},"limits":{}}`}
	}
	if coin() {
		p.Labels = map[string]string{"app": "cart", "podfit.dev/runtime": []string{"jvm", "none", "x"}[r.IntN(3)], "runtime.podfit.dev/c0": "go"}
	}
	if coin() {
		p.Spec.Resources = new(requirements())
		p.Spec.Resources.Claims = nil
	}
	for i := range 1 + r.IntN(4) {
		p.Spec.Containers = append(p.Spec.Containers, container(fmt.Sprintf("c%d", i)))
	}
	for i := range r.IntN(3) {
		c := container(fmt.Sprintf("i%d", i))
		if coin() {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	return p
}

// drawProgram sets what shows the runtime of a container.
func drawProgram(r *rand.Rand, c *corev1.Container) {
	switch r.IntN(5) {
	case 0:
		c.Command = []string{"/bin/sh", "-c"}
		c.Args = []string{`exec java -Xmx512m "-Da=[{\\" -jar x`}
	case 1:
		c.Args = append([]string{"java"}, slices.Repeat([]string{"-x", ""}, r.IntN(60))...)
	case 2:
		c.Image = "eclipse-temurin:21" + strings.Repeat("x", 5000)
	case 3:
		c.EnvFrom = []corev1.EnvFromSource{{Prefix: "]"}}
		c.Command = []string{"java", strings.Repeat("-Xmx2g ", 1000)}
	}
	if r.IntN(50) == 0 {
		c.Env = append(slices.Repeat([]corev1.EnvVar{{Name: "A"}}, 500+r.IntN(20)), c.Env...)
	}
}

// TestDecodePod_randomPods_getTheSameSizeAsFullyDecoded compares the few fields that podfit decodes with the complete pod.
func TestDecodePod_randomPods_getTheSameSizeAsFullyDecoded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	r := rand.New(rand.NewPCG(8, 2026))
	for i := range 3000 {
		text, err := json.Marshal(drawPod(r))
		if err != nil {
			t.Fatal(err)
		}
		whole := new(corev1.Pod)
		if err := json.Unmarshal(text, whole); err != nil {
			t.Fatal(err)
		}
		if r.IntN(2) == 0 {
			var indented bytes.Buffer
			if err := json.Indent(&indented, text, "\t", " \r\n"); err != nil {
				t.Fatal(err)
			}
			text = indented.Bytes()
		}
		sparse, err := decodePod(text)
		if err != nil {
			t.Fatalf("pod %d: %v\n%s", i, err, text)
		}
		sparse.Namespace = whole.Namespace
		a := recommending("cart", map[string]cluster.Resources{"c0": cluster.Amounts(100, mi(200)), "c2": cluster.Amounts(int64(r.IntN(5000)), mi(3))})
		a.Boost = &cluster.Boost{Factor: 2}
		a.Guards = cluster.RuntimeGuards{CPU: true, Memory: true, InjectCPUCount: true}
		if r.IntN(2) == 0 {
			a.Policies = []cluster.ContainerPolicy{{Container: "c0", RequestsOnly: true}}
		}
		world := worldOf(a)
		h := handler(world, Options{Gates: allGates})
		got, err := h.fit(a, sparse, world.Project(t.Context(), sparse))
		if err != nil {
			t.Fatal(err)
		}
		want, err := h.fit(a, whole, world.Project(t.Context(), whole))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("pod %d:\nsparse %s\nwhole  %s\n%s", i, got, want, text)
		}
		if g, w := metav1.GetControllerOf(sparse), metav1.GetControllerOf(whole); g == nil || g.Kind != w.Kind || g.Name != w.Name || g.APIVersion != w.APIVersion {
			t.Fatalf("pod %d: controller %v, want %v", i, g, w)
		}
	}
}

func TestQuantityText_everyFormThatKubernetesParses_isParsed(t *testing.T) {
	for _, text := range []string{
		`"1e3"`, `"1E3"`, `"1e-3"`, `"1E+3"`, `"100m"`, `"0.5Gi"`, `"1E"`, `"1Ei"`, `"+1"`, `"  1"`, `" 1 "`, `1`, `0.5`, `1e3`, `"-1"`, `".5"`, `"1."`, `"1n"`, `"1u"`,
		`"0.000000001"`, `"1e10"`,
	} {
		var want resource.Quantity
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		var got quantityText
		if err := json.Unmarshal([]byte(text), &got); err != nil || want.Cmp(resource.Quantity(got)) != 0 {
			t.Errorf("%s is parsed as %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestHandler_unknownMembersOfResources_areKept(t *testing.T) {
	h := handler(worldOf(recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(100, mi(200))})), Options{})
	for resources, replaced := range map[string]bool{
		`{}`:                               true,
		`{"claims":[{"name":"gpu"}]}`:      false,
		`{"future":{"cpu":"1"}}`:           false,
		`{"requests":{}}`:                  false,
		`{"limits":{"hugepages-2Mi":"1"}}`: false,
	} {
		response := ask(t, h, createRequest(cart("", `"containers":[{"name":"app","resources":`+resources+`}]`)))
		if got := strings.Contains(string(response.Patch), `{"op":"add","path":"/spec/containers/0/resources","value":{}}`); got != replaced {
			t.Errorf("%s is replaced: %t, want %t\n%s", resources, got, replaced, response.Patch)
		}
		if !strings.Contains(string(response.Patch), `"/spec/containers/0/resources/requests/cpu","value":"100m"`) {
			t.Errorf("%s: the size is not in the patch: %s", resources, response.Patch)
		}
	}
}
