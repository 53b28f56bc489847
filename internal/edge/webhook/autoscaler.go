// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// defaultPolicy is the patch for an autoscaler that does not say how it applies its recommendation.
const defaultPolicy = `[{"op":"add","path":"/spec/updatePolicy","value":{"updateMode":"Recreate"}}]`

// decodeAutoscalers reads an autoscaler, and what it was before.
func (h *Handler) decodeAutoscalers(out *asked, object, old []byte) {
	create := out.request.Operation == admissionv1.Create
	if out.request.SubResource != "" || !create && out.request.Operation != admissionv1.Update {
		return
	}
	if out.now, out.err = decodeAutoscaler(object); create || errors.As(out.err, new(unboundedError)) {
		return
	}
	if out.err != nil && excusedUnread(object, old) {
		out.now, out.err = nil, nil
		return
	}
	before, err := decodeAutoscaler(old)
	switch {
	case err == nil:
		out.before = before
	case errors.As(err, new(unboundedError)):
		out.err = err
	default: // What is stored cannot be read: the update may be what mends it.
		h.failures.Do(func() {
			h.log.Warn("Cannot decode the autoscaler before its update", slog.String("namespace", brief(out.request.Namespace)), slog.String("name", brief(out.request.Name)),
				slog.String("error", brief(err.Error())))
		})
	}
}

// autoscaler defaults and validates an autoscaler. It comes before the API server compares the object with the
// schema, so it also meets objects that the schema would refuse.
func (h *Handler) autoscaler(asked *asked, response *admissionv1.AdmissionResponse) (result string) {
	request := asked.request
	if asked.err != nil {
		h.deny(request, response, field.ErrorList{field.InternalError(field.NewPath("."), asked.err)})
		return resultSkipped
	}
	if asked.now == nil {
		return resultSkipped
	}
	a, old := asked.now, asked.before
	if old == nil && request.Operation != admissionv1.Create {
		old = &autoscalerReview{}
	}
	warnings, errs := validate(a, old, h.options.Gates)
	response.Warnings = slices.Concat(warnings, h.slip(&a.Spec))
	if len(errs) > 0 && !excused(a, old) {
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
func excused(a, old *autoscalerReview) bool {
	return old != nil && (a.Metadata.DeletionTimestamp != nil || equality.Semantic.DeepEqual(a.Spec, old.Spec))
}

// excusedUnread is excused for an object that cannot be decoded, such as one with a quantity that is out of bounds.
func excusedUnread(object, old []byte) bool {
	type unread struct {
		Metadata struct {
			DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
		} `json:"metadata"`
		Spec shared `json:"spec"`
	}
	var now, before unread
	if kjson.Unmarshal(object, &now) != nil || kjson.Unmarshal(old, &before) != nil {
		return false
	}
	return now.Metadata.DeletionTimestamp != nil || bytes.Equal(now.Spec, before.Spec)
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
	h.verdicts.Do(func() {
		h.log.Info(did, slog.String("namespace", brief(request.Namespace)), slog.String("name", brief(request.Name)), slog.String("reason", brief(status.Message)))
	})
}
