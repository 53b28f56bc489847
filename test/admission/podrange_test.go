// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/webhook"
)

// If the limits of the recommended sizes exceed the maximum of the pod, all containers get the same share of their recommendation. That
// the API server admits the pod is not enough: it would also admit a pod in which only one container is reduced.
func TestCreate_recommendationsExceedPodMaximum_allContainersGetTheSameShare(t *testing.T) {
	view := &namespaceView{}
	handler := webhook.NewHandler(view, webhook.Options{}, webhook.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &webhookClient{url: server.URL, http: server.Client()}

	scaled := 0
	check(t, 500, func(t *rapid.T) {
		d := draw{t}
		pod := d.plainPod()
		view.autoscaler = d.plainAutoscaler(pod)
		most, sum := d.podMaximum(pod, view.autoscaler)
		item := corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: quantities(most)}
		ranges, err := limitRange(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "most"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}})
		if err != nil {
			t.Fatal(err)
		}
		api := &apiServer{limitRanges: []*corev1.LimitRange{ranges}, webhook: client}
		view.limits = policy.Limits{Range: limitView(ranges)}
		got, err := api.create(pod)
		if err != nil {
			t.Fatalf("%v\n%s", err, show(pod, ranges, view.autoscaler))
		}
		for _, res := range cluster.All {
			share := min(1, float64(most.Amount(res))/float64(sum.Amount(res)))
			if share < 1 {
				scaled++
			}
			for i := range got.Spec.Containers {
				want := share * float64(view.autoscaler.Advice[i].Estimate.Target.Amount(res))
				has := got.Spec.Containers[i].Resources.Requests
				is := float64(cluster.Amounts(has.Cpu().MilliValue(), has.Memory().Value()).Amount(res))
				if is < 0.98*want-3 || is > 1.02*want+3 {
					t.Fatalf("%s of container %d is %v, want %v, which is the share %v\n%s", res, i, is, want, share, show(pod, ranges, view.autoscaler))
				}
			}
		}
	})
	if scaled < 100 {
		t.Errorf("%d amounts were scaled, want at least 100", scaled)
	}
}

// plainPod draws a pod of several containers whose limits are a multiple of the requests.
func (d draw) plainPod() *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "cart-1",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "cart", UID: "u", Controller: &yes}},
		},
	}
	for i := range rapid.IntRange(2, 3).Draw(d.T, "containers") {
		times := pick[int64](d, "limit", 1, 2, 4)
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("c%d", i), Image: "app", ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			Resources: corev1.ResourceRequirements{
				Requests: quantities(cluster.Amounts(100, 128<<20)), Limits: quantities(cluster.Amounts(100*times, times*128<<20)),
			},
		})
	}
	return p
}

// plainAutoscaler draws recommendations for all containers of a pod, without policies.
func (d draw) plainAutoscaler(p *corev1.Pod) *cluster.Autoscaler {
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: namespace, Name: "vpa"}, Target: target, Created: longAgo, Mode: cluster.Recreate}
	for i := range p.Spec.Containers {
		want := cluster.Amounts(rapid.Int64Range(200, 4000).Draw(d.T, "cpu"), rapid.Int64Range(256, 4096).Draw(d.T, "memory")<<20)
		a.Advice = append(a.Advice, cluster.Advice{
			Container: p.Spec.Containers[i].Name, Estimate: cluster.Estimate{Lower: want, Target: want, Upper: want}, Uncapped: want,
		})
	}
	return a
}

// podMaximum draws maxima that admit the pod as it is. It also returns the sum of the limits of the recommended sizes.
func (d draw) podMaximum(p *corev1.Pod, a *cluster.Autoscaler) (most, sum cluster.Resources) {
	for i := range p.Spec.Containers {
		r := p.Spec.Containers[i].Resources
		times := r.Limits.Cpu().MilliValue() / r.Requests.Cpu().MilliValue()
		to := a.Advice[i].Estimate.Target
		sum = sum.Add(cluster.Amounts(times*to.CPU, times*to.Memory))
		most = most.Add(cluster.Amounts(r.Limits.Cpu().MilliValue(), r.Limits.Memory().Value()))
	}
	percent := rapid.Int64Range(0, 120).Draw(d.T, "percent of the sum")
	return cluster.Amounts(max(most.CPU, sum.CPU*percent/100), max(most.Memory, sum.Memory*percent/100)), sum
}

func quantities(r cluster.Resources) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(r.CPU, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(r.Memory, resource.BinarySI),
	}
}
