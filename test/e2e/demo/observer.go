// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	metricsv1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
)

// appLabel is the label of a pod with the name of its workload, which is also the name of the VPA.
const appLabel = "app"

// An observer reads the state of the demo's workloads.
type observer struct {
	kube      *bed.Kube
	namespace string
	shape     []workload // as in the manifests
}

// shapeOf returns the workloads of the manifests, with the update modes of their VPAs.
func shapeOf(objects []*unstructured.Unstructured, nodes int) ([]workload, error) {
	var out []workload
	modes := map[string]string{}
	for _, o := range objects {
		w := workload{Kind: o.GetKind(), Name: o.GetName(), Want: 1}
		path := []string{"spec", "template", "spec"}
		switch o.GetKind() {
		case "Deployment", "StatefulSet":
			n, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
			w.Want = int(n)
		case "DaemonSet":
			w.Want = nodes
		case "CronJob":
			path = append([]string{"spec", "jobTemplate"}, path...)
		case "VerticalPodAutoscaler":
			target, _, _ := unstructured.NestedString(o.Object, "spec", "targetRef", "name")
			modes[target], _, _ = unstructured.NestedString(o.Object, "spec", "updatePolicy", "updateMode")
			continue
		default:
			continue
		}
		raw, _, _ := unstructured.NestedMap(o.Object, path...)
		var spec corev1.PodSpec
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec); err != nil {
			return nil, fmt.Errorf("read the pod template of %s: %w", w.Name, err)
		}
		for _, c := range spec.Containers {
			w.Containers = append(w.Containers, container{Name: c.Name, Before: amountOf(c.Resources.Requests)})
		}
		out = append(out, w)
	}
	for i := range out {
		out[i].Mode = modes[out[i].Name]
	}
	return out, nil
}

// A view is the state of the workloads at one time, and the pods and events for the story.
type view struct {
	workloads []workload
	pods      []corev1.Pod
	events    []corev1.Event
}

// look reads the state from the API server. Missing metrics are not an error; usage is then empty.
func (o *observer) look(ctx context.Context) (view, error) {
	pods, err := o.kube.CoreV1().Pods(o.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return view{}, fmt.Errorf("read pods: %w", err)
	}
	vpas, err := o.kube.Autoscalers(ctx, o.namespace)
	if err != nil {
		return view{}, fmt.Errorf("read VPAs: %w", err)
	}
	events, err := o.kube.CoreV1().Events(o.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return view{}, fmt.Errorf("read events: %w", err)
	}
	usage, err := o.kube.Metrics.MetricsV1beta1().PodMetricses(o.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		usage = &metricsv1.PodMetricsList{}
	}
	return view{workloads: o.assemble(pods.Items, vpas, usage.Items), pods: pods.Items, events: events.Items}, nil
}

func (o *observer) assemble(pods []corev1.Pod, vpas []*vpav1.VerticalPodAutoscaler, usage []metricsv1.PodMetrics) []workload {
	uses := map[string]map[string]amount{}
	for _, m := range usage {
		of := map[string]amount{}
		for _, c := range m.Containers {
			of[c.Name] = amountOf(c.Usage)
		}
		uses[m.Name] = of
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		if c := a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	out := slices.Clone(o.shape)
	for i := range out {
		w := &out[i]
		w.Containers = slices.Clone(w.Containers)
		for _, v := range vpas {
			if v.Spec.TargetRef != nil && v.Spec.TargetRef.Name == w.Name {
				w.advise(v)
			}
		}
		for _, p := range pods {
			if p.Labels[appLabel] == w.Name {
				w.Pods = append(w.Pods, podOf(p, uses[p.Name]))
			}
		}
	}
	return out
}

func (w *workload) advise(v *vpav1.VerticalPodAutoscaler) {
	if v.Status.Recommendation == nil {
		return
	}
	for _, r := range v.Status.Recommendation.ContainerRecommendations {
		for i := range w.Containers {
			if w.Containers[i].Name == r.ContainerName {
				w.Containers[i].Advice = &advice{Lower: amountOf(r.LowerBound), Target: amountOf(r.Target), Upper: amountOf(r.UpperBound)}
			}
		}
	}
}

func podOf(p corev1.Pod, uses map[string]amount) pod {
	out := pod{
		Name: p.Name, Created: p.CreationTimestamp.Time,
		Ending: p.DeletionTimestamp != nil,
		Ended:  p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Has:    map[string]amount{}, Uses: uses,
	}
	for _, c := range p.Spec.Containers {
		out.Has[c.Name] = amountOf(c.Resources.Requests)
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.Resources != nil && c.State.Running != nil { // the actual resources; the spec may not be applied yet
			out.Has[c.Name] = amountOf(c.Resources.Requests)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.Ready = c.Status == corev1.ConditionTrue
		}
	}
	return out
}
