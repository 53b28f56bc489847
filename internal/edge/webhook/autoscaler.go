// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/rollout"
)

// decodeAutoscalers decodes the new and the old object of a review of a VPA.
func (h *Handler) decodeAutoscalers(out *decodedReview, object, old []byte) {
	create := out.request.Operation == admissionv1.Create
	if out.request.SubResource != "" || !create && out.request.Operation != admissionv1.Update {
		return
	}
	if out.now, out.err = decodeAutoscaler(object); create || errors.As(out.err, new(unboundedError)) {
		return
	}
	if out.err != nil && excusedUnread(object, old) {
		out.now = nil
		out.err = nil
		return
	}
	before, err := decodeAutoscaler(old)
	switch {
	case err == nil:
		out.before = before
	case errors.As(err, new(unboundedError)):
		out.err = err
	default: // The stored object is invalid. The update may correct it.
		h.failures.Warn("Cannot decode the old object of a VPA update", slog.String("namespace", truncate(out.request.Namespace)), slog.String("vpa", truncate(out.request.Name)),
			slog.String("error", truncate(err.Error())))
	}
}

// autoscaler sets the default update policy of a VPA and validates it. The API server calls it before it validates the object with the
// schema of the CRD, so it also gets objects that do not conform to the schema.
func (h *Handler) autoscaler(review *decodedReview, response *admissionv1.AdmissionResponse) (result string) {
	request := review.request
	if review.err != nil {
		h.deny(request, response, field.ErrorList{field.InternalError(field.NewPath("."), review.err)})
		return resultSkipped
	}
	if review.now == nil {
		return resultSkipped
	}
	a := review.now
	old := review.before
	if old == nil && request.Operation != admissionv1.Create {
		old = &autoscalerReview{}
	}
	warnings, errs := validate(a, old, h.options.Gates)
	response.Warnings = slices.Concat(warnings, h.misspelledProfile(&a.Spec))
	if excused(a, old) {
		errs = nil
	}
	if errs = append(errs, invalidSettings(a, old)...); len(errs) > 0 {
		h.deny(request, response, errs)
		return resultSkipped
	}
	if a.Spec.UpdatePolicy != nil || a.noSpec {
		return resultSkipped
	}
	const defaultPolicy = `[{"op":"add","path":"/spec/updatePolicy","value":{"updateMode":"Recreate"}}]` // for a VPA without an update policy
	patchWith(response, []byte(defaultPolicy))
	return resultApplied
}

// invalidSettings returns the errors in the annotations that a request adds or changes. An invalid annotation that is stored already blocks no
// update.
func invalidSettings(a, old *autoscalerReview) (errs field.ErrorList) {
	_, invalid := rollout.ParseSettings(a.Metadata.Annotations)
	old = cmp.Or(old, &autoscalerReview{})
	for _, s := range invalid {
		before, had := old.Metadata.Annotations[s.Annotation]
		if a.Metadata.DeletionTimestamp == nil && (!had || before != a.Metadata.Annotations[s.Annotation]) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations").Key(s.Annotation), s.Value, s.Must))
		}
	}
	return errs
}

// excused reports whether an update must be admitted although the object is invalid: the spec does not change, or the object is being
// deleted. So finalizers and labels of an invalid object can still be changed.
func excused(a, old *autoscalerReview) bool {
	return old != nil && (a.Metadata.DeletionTimestamp != nil || equality.Semantic.DeepEqual(a.Spec, old.Spec))
}

// excusedUnread is excused for an object that cannot be decoded, for example because a quantity is out of range.
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

func (h *Handler) deny(request *request, response *admissionv1.AdmissionResponse, errs field.ErrorList) {
	kind := request.Kind.Kind
	if request.RequestKind != nil {
		kind = request.RequestKind.Kind
	}
	status := apierrors.NewInvalid(schema.GroupKind{Group: request.Resource.Group, Kind: kind}, request.Name, errs).ErrStatus
	response.Allowed = false
	response.Result = &status
	vpa := slog.String("vpa", truncate(request.Namespace)+"/"+truncate(request.Name))
	reason := slog.String("reason", truncate(status.Message))
	if h.options.DryRun {
		h.verdicts.Info("Would reject a VPA", vpa, reason)
		return
	}
	h.verdicts.Info("Rejected a VPA", vpa, reason)
}

// misspelledProfile returns a warning if the recommender name is probably a misspelled profile name. Such a VPA gets no recommendation.
// It is not an error, because another recommender may have the name.
func (h *Handler) misspelledProfile(s *v1.VerticalPodAutoscalerSpec) (warnings []string) {
	if h.options.Profiles == nil || len(s.Recommenders) != 1 || s.Recommenders[0] == nil || s.Recommenders[0].Name == "" {
		return nil
	}
	name := s.Recommenders[0].Name
	profile := h.options.Profiles.Similar(name)
	if profile == "" {
		return nil
	}
	return []string{fmt.Sprintf("spec.recommenders[0].name: podfit has no profile %q; did you mean %q? "+
		"podfit makes no recommendation for this object; another recommender may have that name", name, profile)}
}
