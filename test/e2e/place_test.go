// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
)

// A place is the namespace of a test.
type place struct {
	*testing.T
	*world
	ns  string
	own *bed.Podfit // the updater of the test, if it has its own
}

// newPlace creates a namespace for a test.
func newPlace(t *testing.T, name string) *place {
	t.Helper()
	return newPlaceIn(t, shared, name)
}

// newPlaceIn creates a namespace for a test in a cluster of its own.
func newPlaceIn(t *testing.T, w *world, name string) *place {
	t.Helper()
	p := &place{T: t, world: w, ns: name}
	p.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + name + "}}")
	t.Cleanup(p.clear)
	t.Cleanup(func() {
		p.judge(t, p.ns)
		if t.Failed() {
			p.report()
		}
	})
	p.eventually("the namespace has the service account of pods", 30*time.Second, func(ctx context.Context) error {
		_, err := p.CoreV1().ServiceAccounts(p.ns).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return p
}

// clear deletes the namespace and waits until its pods are gone, so that the next tests have the capacity of the nodes.
func (p *place) clear() {
	ctx, cancel := bed.WithPatience(context.Background(), time.Minute)
	defer cancel()
	if err := p.CoreV1().Namespaces().Delete(ctx, p.ns, metav1.DeleteOptions{}); err != nil {
		p.Errorf("delete namespace %s: %v", p.ns, err)
		return
	}
	if err := bed.Until(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		l, err := p.CoreV1().Pods(p.ns).List(ctx, metav1.ListOptions{})
		if err == nil && len(l.Items) > 0 {
			err = fmt.Errorf("%d pods still exist, such as %s", len(l.Items), l.Items[0].Name)
		}
		return err
	}); err != nil {
		p.Errorf("clear namespace %s: %v", p.ns, err)
	}
}

// apply applies manifests to the namespace.
func (p *place) apply(manifests ...string) {
	p.Helper()
	for _, m := range manifests {
		if err := p.ApplyYAML(p.Context(), p.ns, m); err != nil {
			p.Fatal(err)
		}
	}
}

// eventually polls until check returns nil.
func (p *place) eventually(what string, within time.Duration, check func(context.Context) error) {
	p.Helper()
	ctx, cancel := bed.WithPatience(p.Context(), within)
	defer cancel()
	if err := bed.Until(ctx, 250*time.Millisecond, check); err != nil {
		p.Fatalf("%s, within %v: %v", what, within, err)
	}
}

// always checks for a while that check returns nil.
func (p *place) always(what string, during time.Duration, check func(context.Context) error) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), during)
	defer cancel()
	var wrong error
	err := bed.Until(ctx, 250*time.Millisecond, func(ctx context.Context) error {
		if err := check(ctx); err != nil && ctx.Err() == nil {
			wrong = err
			return nil
		}
		return errors.New("check has not failed")
	})
	if err == nil {
		p.Fatalf("%s: %v", what, wrong)
	}
}

// report logs the state of the namespace after a failure.
func (p *place) report() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if pods, err := p.pods(ctx, ""); err == nil {
		for _, pod := range pods {
			p.Logf("pod %s %s requests %v annotations %v", pod.Name, pod.Status.Phase, requests(pod), pod.Annotations)
		}
	}
	if as, err := p.Autoscalers(ctx, p.ns); err == nil {
		for _, a := range as {
			p.Logf("VPA %s: conditions %+v, recommendation %v", a.Name, a.Status.Conditions, a.Status.Recommendation)
		}
	}
	if es, err := p.CoreV1().Events(p.ns).List(ctx, metav1.ListOptions{}); err == nil {
		for _, e := range es.Items {
			at := e.LastTimestamp.UTC().Format(time.TimeOnly)
			p.Logf("event %s %s %s/%s: %s", at, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
		}
	}
	for _, c := range p.components() {
		p.Logf("%s (%s)\n%s", c.Name, c.Log, c.Tail(40))
	}
	for _, part := range []bed.Part{bed.Controllers, bed.APIServer} {
		p.Logf("%s\n%s", part, p.PartTail(part, 40))
	}
}

// pods returns the pods of a workload that are not being deleted, sorted by name; of all workloads if app is "".
func (p *place) pods(ctx context.Context, app string) ([]corev1.Pod, error) {
	o := metav1.ListOptions{}
	if app != "" {
		o.LabelSelector = "app=" + app
	}
	l, err := p.CoreV1().Pods(p.ns).List(ctx, o)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(l.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }), nil
}

// running returns the pods of a workload if the wanted number exists and all are ready.
func (p *place) running(ctx context.Context, app string, want int) ([]corev1.Pod, error) {
	pods, err := p.pods(ctx, app)
	if err != nil {
		return nil, err
	}
	if len(pods) != want {
		return nil, fmt.Errorf("%d of %d pods of %s exist", len(pods), want, app)
	}
	for _, pod := range pods {
		if !ready(&pod) {
			return nil, fmt.Errorf("pod %s is not ready: %s", pod.Name, pod.Status.Phase)
		}
	}
	return pods, nil
}

// start waits until a workload runs and returns its pods.
func (p *place) start(app string, want int) []corev1.Pod {
	p.Helper()
	var pods []corev1.Pod
	p.eventually(app+" runs", time.Minute, func(ctx context.Context) (err error) {
		pods, err = p.running(ctx, app, want)
		return err
	})
	return pods
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// requests formats the actual requests of a pod's containers as "name cpu=… memory=…" in decimal units, sorted.
func requests(pod corev1.Pod) string {
	of := map[string]corev1.ResourceList{}
	for _, c := range pod.Spec.Containers {
		of[c.Name] = c.Resources.Requests
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Resources != nil {
			of[c.Name] = c.Resources.Requests
		}
	}
	return write(of)
}

// targets formats the targets of a VPA like requests.
func targets(a *vpav1.VerticalPodAutoscaler) string {
	of := map[string]corev1.ResourceList{}
	if a.Status.Recommendation != nil {
		for _, r := range a.Status.Recommendation.ContainerRecommendations {
			of[r.ContainerName] = r.Target
		}
	}
	return write(of)
}

func write(of map[string]corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		l := of[name]
		memory := resource.NewQuantity(l.Memory().Value(), resource.DecimalSI) // 250Mi and 262144k are the same amount
		parts = append(parts, fmt.Sprintf("%s cpu=%s memory=%s", name, l.Cpu(), memory))
	}
	return strings.Join(parts, "; ")
}

// uids returns the sorted UIDs of pods.
func uids(pods []corev1.Pod) []types.UID {
	var out []types.UID
	for _, pod := range pods {
		out = append(out, pod.UID)
	}
	slices.Sort(out)
	return out
}

// recommended returns a check that a VPA has these targets.
func (p *place) recommended(name, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		a, err := p.Autoscaler(ctx, p.ns, name)
		if err != nil {
			return err
		}
		if got := targets(a); got != want {
			return fmt.Errorf("target of %s is %q, want %q", name, got, want)
		}
		return nil
	}
}

// sized returns a check that all pods of a workload have these requests.
func (p *place) sized(app string, replicas int, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := p.running(ctx, app, replicas)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if got := requests(pod); got != want {
				return fmt.Errorf("pod %s has %q, want %q", pod.Name, got, want)
			}
		}
		return nil
	}
}

// same returns a check that the pods of a workload were not replaced.
func (p *place) same(app string, want []corev1.Pod) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := p.pods(ctx, app)
		if err != nil {
			return nil // a failed request is no result
		}
		if !slices.Equal(uids(pods), uids(want)) {
			return fmt.Errorf("the pods of %s were replaced", app)
		}
		return nil
	}
}

// condition returns a condition of a VPA.
func (p *place) condition(ctx context.Context, name string, kind vpav1.VerticalPodAutoscalerConditionType) (vpav1.VerticalPodAutoscalerCondition, error) {
	a, err := p.Autoscaler(ctx, p.ns, name)
	if err != nil {
		return vpav1.VerticalPodAutoscalerCondition{}, err
	}
	for _, c := range a.Status.Conditions {
		if c.Type == kind {
			return c, nil
		}
	}
	return vpav1.VerticalPodAutoscalerCondition{}, fmt.Errorf("%s has no condition %s, only %+v", name, kind, a.Status.Conditions)
}

// event returns a check that an object has an event with this reason and message.
func (p *place) event(kind, name, reason, message string) func(context.Context) error {
	return func(ctx context.Context) error {
		l, err := p.CoreV1().Events(p.ns).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		for _, e := range l.Items {
			if e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name && e.Message == message {
				return nil
			}
		}
		return fmt.Errorf("%s %s has no event %s %q among %d", kind, name, reason, message, len(l.Items))
	}
}
