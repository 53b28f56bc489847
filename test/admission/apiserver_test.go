// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // registers the types, their defaults and conversions
	"k8s.io/kubernetes/pkg/apis/core/validation"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/utils/clock"
)

const (
	namespace = "shop"
	podUID    = "5a0c5a0c-0000-4000-8000-000000000001"
)

// apiServer admits pods as the API server does, with the code of Kubernetes, in this order: defaults, mutating plugins, mutating
// webhooks, validation, validating plugins.
type apiServer struct {
	limitRanges []*corev1.LimitRange
	quotas      []corev1.ResourceQuota // with the usage without the pod that is created
	charged     []corev1.ResourceQuota // the quotas after the last pod that was admitted
	webhook     *webhookClient         // nil if no webhook is configured
	once        bool                   // the webhook is called once per pod, as podfit registers it
}

// create returns the pod as the API server would store it, or the error with which the API server rejects it.
func (s *apiServer) create(pod *corev1.Pod) (*corev1.Pod, error) {
	internal, err := decode(mustMarshal(pod))
	if err != nil {
		return nil, err
	}
	for _, l := range s.limitRanges {
		if err := limitranger.PodMutateLimitFunc(l, internal); err != nil {
			return nil, err
		}
	}
	if s.webhook != nil {
		// An administrator can let the API server call the webhook again if another plugin changed the object after the first call.
		calls := 2
		if s.once {
			calls = 1
		}
		for range calls {
			if internal, err = s.webhook.mutate(internal); err != nil {
				return nil, err
			}
		}
	}
	ctx := genericapirequest.WithNamespace(context.Background(), namespace)
	podregistry.Strategy.PrepareForCreate(ctx, internal)
	internal.UID = podUID
	if errs := podregistry.Strategy.Validate(ctx, internal); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	if err := s.validate(internal, nil, admission.Create, ""); err != nil {
		return nil, err
	}
	return external(internal)
}

// resize returns the pod as the API server would store it after a strategic merge patch of its resize subresource.
func (s *apiServer) resize(pod *corev1.Pod, patch []byte) (*corev1.Pod, error) {
	old, err := toInternal(pod)
	if err != nil {
		return nil, err
	}
	patched, err := strategicpatch.StrategicMergePatch(mustMarshal(pod), patch, corev1.Pod{})
	if err != nil {
		return nil, err
	}
	internal, err := decode(patched)
	if err != nil {
		return nil, err
	}
	for _, l := range s.limitRanges {
		if err := limitranger.PodMutateLimitFunc(l, internal); err != nil {
			return nil, err
		}
	}
	ctx := genericapirequest.WithNamespace(context.Background(), namespace)
	podregistry.ResizeStrategy.PrepareForUpdate(ctx, internal, old)
	if errs := podregistry.ResizeStrategy.ValidateUpdate(ctx, internal, old); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	if err := s.validate(internal, old, admission.Update, "resize"); err != nil {
		return nil, err
	}
	return external(internal)
}

// validate runs the validating plugins.
func (s *apiServer) validate(pod, old *api.Pod, op admission.Operation, subresource string) error {
	for _, l := range s.limitRanges {
		if err := limitranger.PodValidateLimitFunc(l, pod); err != nil {
			return fmt.Errorf("LimitRanger: %w", err)
		}
	}
	var before runtime.Object
	if old != nil {
		before = old
	}
	attributes := admission.NewAttributesRecord(pod, before, api.Kind("Pod").WithVersion("v1"), namespace, pod.Name,
		api.Resource("pods").WithVersion("v1"), subresource, op, nil, false, nil)
	evaluator := quotacore.NewPodEvaluator(nil, clock.RealClock{})
	charged, err := resourcequota.CheckRequest(s.quotas, attributes, evaluator, nil)
	if err != nil {
		return fmt.Errorf("ResourceQuota: %w", err)
	}
	s.charged = charged
	return nil
}

// resourceQuota returns a ResourceQuota with its defaults, or the error with which the API server rejects it.
func resourceQuota(q *corev1.ResourceQuota) (*corev1.ResourceQuota, error) {
	legacyscheme.Scheme.Default(q)
	internal := new(api.ResourceQuota)
	if err := legacyscheme.Scheme.Convert(q, internal, nil); err != nil {
		return nil, err
	}
	if errs := validation.ValidateResourceQuota(internal); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return q, nil
}

// limitRange returns a LimitRange with its defaults, or the error with which the API server rejects it.
func limitRange(l *corev1.LimitRange) (*corev1.LimitRange, error) {
	legacyscheme.Scheme.Default(l)
	internal := new(api.LimitRange)
	if err := legacyscheme.Scheme.Convert(l, internal, nil); err != nil {
		return nil, err
	}
	if errs := validation.ValidateLimitRange(internal); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return l, nil
}

func mustMarshal(o any) []byte {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return data
}

// decode decodes a pod and sets its defaults.
func decode(data []byte) (*api.Pod, error) {
	pod := new(corev1.Pod)
	if err := json.Unmarshal(data, pod); err != nil {
		return nil, err
	}
	legacyscheme.Scheme.Default(pod)
	return toInternal(pod)
}

func toInternal(pod *corev1.Pod) (*api.Pod, error) {
	internal := new(api.Pod)
	return internal, legacyscheme.Scheme.Convert(pod, internal, nil)
}

func external(pod *api.Pod) (*corev1.Pod, error) {
	out := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	if err := legacyscheme.Scheme.Convert(pod, out, nil); err != nil {
		return nil, err
	}
	out.APIVersion = "v1"
	out.Kind = "Pod"
	return out, nil
}

// webhookClient calls podfit's webhook over HTTP, as the API server does.
type webhookClient struct {
	url  string
	http *http.Client
}

func (c *webhookClient) mutate(pod *api.Pod) (*api.Pod, error) {
	versioned, err := external(pod)
	if err != nil {
		return nil, err
	}
	object := mustMarshal(versioned)
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:       types.UID(podUID),
			Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Namespace: namespace, Operation: admissionv1.Create,
			Object: runtime.RawExtension{Raw: object},
		},
	}
	response, err := c.http.Post(c.url, "application/json", bytes.NewReader(mustMarshal(review)))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var reviewed admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &reviewed); err != nil || reviewed.Response == nil || !reviewed.Response.Allowed {
		return nil, fmt.Errorf("the response of the webhook is %s: %w", body, err)
	}
	if len(reviewed.Response.Patch) == 0 {
		return pod, nil
	}
	patch, err := jsonpatch.DecodePatch(reviewed.Response.Patch)
	if err != nil {
		return nil, fmt.Errorf("patch %s: %w", reviewed.Response.Patch, err)
	}
	patched, err := patch.Apply(object)
	if err != nil {
		return nil, fmt.Errorf("apply patch %s: %w", reviewed.Response.Patch, err)
	}
	return decode(patched)
}
