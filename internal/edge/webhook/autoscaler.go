// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "podfit.dev/podfit/api/v1"
)

// defaultPolicy is the patch for an autoscaler that does not say how it applies its recommendation.
const defaultPolicy = `[{"op":"add","path":"/spec/updatePolicy","value":{"updateMode":"Recreate"}}]`

// autoscaler defaults and validates an autoscaler. It comes before the API server compares the object with the
// schema, so it also meets objects that the schema would refuse.
func (h *Handler) autoscaler(request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse) (result string) {
	create := request.Operation == admissionv1.Create
	if request.SubResource != "" || !create && request.Operation != admissionv1.Update {
		return resultSkipped
	}
	var a v1.VerticalPodAutoscaler
	if err := kjson.Unmarshal(request.Object.Raw, &a); err != nil {
		h.deny(request, response, field.ErrorList{field.InternalError(field.NewPath("."), err)})
		return resultSkipped
	}
	var old *v1.VerticalPodAutoscaler
	if !create {
		old = &v1.VerticalPodAutoscaler{}
		if err := kjson.Unmarshal(request.OldObject.Raw, old); err != nil {
			// What is stored cannot be read: the update may be what mends it.
			h.log.Warn("Cannot decode the autoscaler before its update", "namespace", request.Namespace, "name", request.Name, "error", err)
			old = &v1.VerticalPodAutoscaler{}
		}
	}
	warnings, errs := validate(&a, old, h.options.Gates)
	response.Warnings = slices.Concat(warnings, h.slip(&a.Spec))
	if len(errs) > 0 && !excused(&a, old) {
		h.deny(request, response, errs)
		return resultSkipped
	}
	if a.Spec.UpdatePolicy != nil {
		return resultSkipped
	}
	patchWith(response, []byte(defaultPolicy))
	return resultApplied
}

// excused reports whether an update must pass whatever the object says: it does not touch the spec, or it lets go of
// an object that is being deleted. Finalizers and labels of an object that was never valid can still be changed.
func excused(a, old *v1.VerticalPodAutoscaler) bool {
	return old != nil && (a.DeletionTimestamp != nil || equality.Semantic.DeepEqual(a.Spec, old.Spec))
}

func (h *Handler) deny(request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse, errs field.ErrorList) {
	kind := request.Kind.Kind
	if request.RequestKind != nil {
		kind = request.RequestKind.Kind
	}
	status := apierrors.NewInvalid(schema.GroupKind{Group: request.Resource.Group, Kind: kind}, request.Name, errs).ErrStatus
	response.Allowed = false
	response.Result = &status
	did := "Refused an autoscaler"
	if h.options.DryRun {
		did = "Would refuse an autoscaler"
	}
	h.log.Info(did, "namespace", request.Namespace, "name", request.Name, "reason", status.Message)
}
