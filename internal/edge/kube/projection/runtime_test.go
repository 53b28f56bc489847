// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/runtimeguard"
)

func TestPod_languageRuntimes_areThoseOfItsRegularContainers(t *testing.T) {
	java := []string{"java"}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{runtimeguard.LabelPrefix + "labelled": "go"}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "setup", Command: java}},
			Containers: []corev1.Container{
				{Name: "proxy", Image: "mesh/proxy"},
				{Name: "app", Command: java, Args: []string{"-Xmx1g"}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "JDK_JAVA_OPTIONS", Value: "-XX:ActiveProcessorCount=2"}}},
				{Name: "args", Args: java, EnvFrom: []corev1.EnvFromSource{{}}},
				{Name: "labelled", Command: java},
				{Name: "long", Command: java, Args: slices.Repeat([]string{"-x"}, 100)},
			},
		},
	}
	want := []cluster.Runtime{
		{Container: 1, Kind: cluster.JVM, Evidence: cluster.ByCommand, HeapBytes: 1 << 30, CPUCountSet: true, VariableOpen: true},
		{Container: 2, Kind: cluster.JVM, Evidence: cluster.ByCommand},
		{Container: 3, Kind: cluster.GoRuntime, Evidence: cluster.ByLabel, VariableOpen: true},
		{Container: 4, Kind: cluster.JVM, Evidence: cluster.ByCommand, VariableOpen: true},
	}
	got := Pod(p, nil)
	if got.Runtimes == nil {
		t.Fatal("no runtime is known")
	}
	if diff := cmp.Diff(want, got.Runtimes.List); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r := got.Runtime(got.Container("app")); r == nil || r.HeapBytes != 1<<30 {
		t.Errorf("runtime of app: %+v", r)
	}
	for _, c := range []*cluster.Container{nil, got.Container("proxy"), {Role: cluster.Init, Index: 1}} {
		if r := got.Runtime(c); r != nil {
			t.Errorf("container %+v has runtime %+v", c, r)
		}
	}
	p.Labels = map[string]string{runtimeguard.Label: "none"}
	if got := Pod(p, nil); got.Runtimes != nil {
		t.Errorf("runtimes of a pod with label none: %+v", got.Runtimes)
	}
	if c := cap(p.Spec.Containers[4].Command); c != cap(java) {
		t.Errorf("the command of the object was changed")
	}
}

func TestGuards_annotations_areParsed(t *testing.T) {
	const guards, inject, heap = v1alpha1.AnnotationRuntimeGuards, v1alpha1.AnnotationInjectCPUCount, v1alpha1.AnnotationInjectHeapPercent
	for name, c := range map[string]struct {
		annotations map[string]string
		want        cluster.RuntimeGuards
		problem     string
	}{
		"absent":       {nil, cluster.RuntimeGuards{}, ""},
		"both":         {map[string]string{guards: "cpu, memory"}, cluster.RuntimeGuards{Set: true, CPU: true, Memory: true}, ""},
		"one":          {map[string]string{guards: "cpu"}, cluster.RuntimeGuards{Set: true, CPU: true}, ""},
		"none":         {map[string]string{guards: "none"}, cluster.RuntimeGuards{Set: true}, ""},
		"empty":        {map[string]string{guards: ""}, cluster.RuntimeGuards{Set: true}, ""},
		"unknown":      {map[string]string{guards: "cpu,disk"}, cluster.RuntimeGuards{}, `annotation podfit.dev/runtime-guards must contain only cpu and memory, got "disk"`},
		"long":         {map[string]string{guards: strings.Repeat("x", 1<<20)}, cluster.RuntimeGuards{}, `must contain only cpu and memory, got "xxx`},
		"injection":    {map[string]string{inject: "request"}, cluster.RuntimeGuards{InjectCPUCount: true}, ""},
		"no injection": {map[string]string{inject: "yes\n"}, cluster.RuntimeGuards{}, `annotation podfit.dev/inject-cpu-count must be request, got "yes"; nothing is injected`},
		"heap":         {map[string]string{heap: "59.3"}, cluster.RuntimeGuards{InjectHeapPercent: 59.3}, ""},
		"heap of NaN":  {map[string]string{heap: "NaN"}, cluster.RuntimeGuards{}, `annotation podfit.dev/inject-heap-percent must be a number from 1 to 100, got "NaN"; nothing is injected`},
		"heap of 0":    {map[string]string{heap: "0"}, cluster.RuntimeGuards{}, `must be a number from 1 to 100`},
		"heap of all":  {map[string]string{heap: "100.5"}, cluster.RuntimeGuards{}, `must be a number from 1 to 100`},
		"two problems": {map[string]string{guards: "x", inject: "y"}, cluster.RuntimeGuards{}, "; annotation podfit.dev/inject-cpu-count"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Autoscaler(&v1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}}).Guards
			if !strings.Contains(got.Problem, c.problem) || (got.Problem == "") != (c.problem == "") || len(got.Problem) > 1000 {
				t.Errorf("problem %q", got.Problem)
			}
			got.Problem = ""
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestGuards_annotationAndProfile_annotationWins(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		spec        string
		want        cluster.RuntimeGuards
		problem     string
	}{
		"only a profile":         {nil, `{"runtimeGuards":["cpu","memory"]}`, cluster.RuntimeGuards{CPU: true, Memory: true}, ""},
		"an annotation":          {map[string]string{v1alpha1.AnnotationRuntimeGuards: "memory"}, `{"runtimeGuards":["cpu"]}`, cluster.RuntimeGuards{Set: true, Memory: true}, ""},
		"switched off":           {map[string]string{v1alpha1.AnnotationRuntimeGuards: "none"}, `{"runtimeGuards":["cpu"]}`, cluster.RuntimeGuards{Set: true}, ""},
		"an invalid annotation":  {map[string]string{v1alpha1.AnnotationRuntimeGuards: "x"}, `{"runtimeGuards":["cpu"]}`, cluster.RuntimeGuards{CPU: true}, "annotation podfit.dev/runtime-guards"},
		"injection is no guard":  {map[string]string{v1alpha1.AnnotationInjectCPUCount: "request"}, `{"runtimeGuards":["cpu"]}`, cluster.RuntimeGuards{CPU: true, InjectCPUCount: true}, ""},
		"nor is a heap":          {map[string]string{v1alpha1.AnnotationInjectHeapPercent: "50"}, `{"runtimeGuards":["cpu"]}`, cluster.RuntimeGuards{CPU: true, InjectHeapPercent: 50}, ""},
		"an unknown guard":       {nil, `{"runtimeGuards":["cpu","disk"]}`, cluster.RuntimeGuards{}, `a field of SizingProfile mine is invalid: runtimeGuards must contain only cpu and memory, got "disk"`},
		"another type":           {nil, `{"runtimeGuards":"cpu"}`, cluster.RuntimeGuards{}, ""},
		"a profile without them": {nil, `{"base":"cost"}`, cluster.RuntimeGuards{}, ""},
		"no spec":                {nil, ``, cluster.RuntimeGuards{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := guards(c.annotations).Under(ProfileOf("mine", []byte(c.spec)).Guards)
			if !strings.Contains(got.Problem, c.problem) || (got.Problem == "") != (c.problem == "") {
				t.Errorf("problem %q", got.Problem)
			}
			got.Problem = ""
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// The annotation vpaObservedContainers is stored only if it leaves out a container.
func TestPod_observedAnnotation_isStoredIfItLeavesOutAContainer(t *testing.T) {
	for text, want := range map[string]string{"": "", "app, log": "", "app": "app", "log, app": "log, app", "app, log, gone": "app, log, gone"} {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.AnnotationObservedContainers: text}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}, {Name: "log"}}, InitContainers: []corev1.Container{{Name: "setup"}}},
		}
		if got := Pod(p, nil).ObservedContainers(); got != want {
			t.Errorf("%q is stored as %q, want %q", text, got, want)
		}
	}
}
