// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/logic"
	upod "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/patch"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation"
	uvpa "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/vpa"
	uv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/features"
	vpautil "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/internal/edge/webhook"
	"podfit.dev/podfit/test/differential/cases"
)

// Upstream logs every pod.
func init() { klog.SetLogger(logr.Discard()) }

// gates enables upstream's feature gates, which are global, for a test.
func gates(t *testing.T, g webhook.Gates) {
	t.Helper()
	set := func(inPlace, boost, perVPA bool) {
		for gate, on := range map[string]bool{string(features.InPlace): inPlace, string(features.CPUStartupBoost): boost, string(features.PerVPAConfig): perVPA} {
			if err := features.MutableFeatureGate.SetFromMap(map[string]bool{gate: on}); err != nil {
				t.Fatal(err)
			}
		}
	}
	set(g.InPlace, g.CPUStartupBoost, g.PerVPAConfig)
	t.Cleanup(func() { set(false, false, false) })
}

// A scene is a namespace with one VPA, for both implementations.
type scene struct {
	object *v1.VerticalPodAutoscaler
	limits cluster.LimitRange
}

// upstream's view

func (s scene) GetMatchingVPA(context.Context, *corev1.Pod) *uv1.VerticalPodAutoscaler {
	if s.object == nil {
		return nil
	}
	text, err := json.Marshal(s.object)
	if err != nil {
		panic(err)
	}
	var out uv1.VerticalPodAutoscaler
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	if vpautil.GetUpdateMode(&out) == uv1.UpdateModeOff && !vpautil.HasStartupBoost(&out) {
		return nil
	}
	return &out
}

func (s scene) GetContainerLimitRangeItem(string) (*corev1.LimitRangeItem, error) {
	return item(corev1.LimitTypeContainer, s.limits.Container), nil
}

func (s scene) GetPodLimitRangeItem(string) (*corev1.LimitRangeItem, error) {
	return item(corev1.LimitTypePod, s.limits.Pod), nil
}

func item(t corev1.LimitType, r cluster.Range) *corev1.LimitRangeItem {
	if r == (cluster.Range{}) {
		return nil
	}
	return &corev1.LimitRangeItem{Type: t, Min: list(r.Min), Max: list(r.Max), Default: list(r.Default)}
}

func list(r cluster.Resources) corev1.ResourceList {
	if r.Has.Empty() {
		return nil
	}
	out := corev1.ResourceList{}
	if v, ok := r.Get(cluster.CPU); ok {
		out[corev1.ResourceCPU] = *resource.NewMilliQuantity(v, resource.DecimalSI)
	}
	if v, ok := r.Get(cluster.Memory); ok {
		out[corev1.ResourceMemory] = *resource.NewQuantity(v, resource.BinarySI)
	}
	return out
}

func upstream(s scene, most int64) http.HandlerFunc {
	provider := recommendation.NewProvider(s, vpautil.NewCappingRecommendationProcessor(s))
	limit := resource.QuantityValue{}
	if most > 0 {
		limit.Quantity = *resource.NewMilliQuantity(most, resource.DecimalSI)
	}
	return logic.NewAdmissionServer(upod.NewDefaultPreProcessor(), uvpa.NewDefaultPreProcessor(), s, s,
		[]patch.Calculator{patch.NewResourceUpdatesCalculator(provider, limit), patch.NewObservedContainersCalculator()}).Serve
}

// podfit's view

type view struct {
	scene
	interner *projection.Interner
}

func (v view) Project(_ context.Context, p *corev1.Pod) *cluster.Pod {
	out := projection.Pod(p, v.interner)
	out.Top = out.Controller
	return out
}

func (v view) Governing(cluster.Workload) *cluster.Autoscaler {
	if v.object == nil {
		return nil
	}
	return cluster.Governing([]*cluster.Autoscaler{projection.Autoscaler(v.object)}, true)
}

func (v view) Limits(string) policy.Limits { return policy.Limits{Range: v.limits} }

func podfit(s scene, g webhook.Gates, most int64) http.Handler {
	return webhook.NewHandler(view{s, &projection.Interner{}}, webhook.Options{Gates: g, MaxCPUBoost: most},
		webhook.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
}

// ask sends an admission review like the API server.
func ask(t rapid.TB, h http.Handler, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{Request: request})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return review.Response
}

func request(group, version, resource, kind string, object any) *admissionv1.AdmissionRequest {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	gvk := metav1.GroupVersionKind{Group: group, Version: version, Kind: kind}
	return &admissionv1.AdmissionRequest{
		UID: "u", Kind: gvk, RequestKind: &gvk, Resource: metav1.GroupVersionResource{Group: group, Version: version, Resource: resource},
		Namespace: "shop", Name: "cart", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
	}
}

// A maker generates random objects.
type maker struct{ cases.Dice }

// check compares a number of cases.
func check(t *testing.T, usual int, compare func(*rapid.T, maker)) {
	t.Helper()
	cases.Check(t, usual, func(t *rapid.T) { compare(t, maker{cases.Dice{T: t}}) })
}

// some returns amounts of some resources.
func (m maker) some() (r cluster.Resources) {
	for _, res := range cluster.All {
		if !m.OneIn(3) {
			r = r.Set(res, m.Amount(res))
		}
	}
	return r
}
