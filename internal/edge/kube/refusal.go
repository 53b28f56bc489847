// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/wording"
)

// The reasons for which the API server refuses a write, as far as callers distinguish them. Refused adds them to an error.
var (
	ErrNotFound     = errors.New("the object does not exist")
	ErrConflict     = errors.New("the object was changed or replaced by another client")
	ErrBudget       = errors.New("a PodDisruptionBudget does not allow the eviction now")
	ErrNodeCapacity = errors.New("the resize exceeds the allocatable resources of the node")
	ErrQuota        = errors.New("a ResourceQuota or LimitRange does not allow the request")
	ErrQuotaUsed    = fmt.Errorf("%w: other pods use the rest of the ResourceQuota", ErrQuota)
	ErrForbidden    = errors.New("access control or an admission plugin of the API server forbids the request")
	ErrDenied       = errors.New("the API server or an admission webhook denied the request")
	ErrWebhook      = errors.New("the API server could not call an admission webhook")
	ErrInvalid      = errors.New("the API server rejected the request as invalid") // such as a resize that would change the pod's QoS class
	ErrUnsupported  = errors.New("the API server does not serve this kind or subresource")
	ErrBusy         = errors.New("the request failed for a temporary reason")
	ErrUnreachable  = errors.New("no connection to the API server could be opened") // so it received no request
)

// A refusal is an error of the API server with one of the reasons above.
type refusal struct{ reason, err error }

func (r refusal) Error() string        { return r.err.Error() }
func (r refusal) Unwrap() error        { return r.err }
func (r refusal) Is(target error) bool { return errors.Is(r.reason, target) }

// Refused adds the reason to an error of the API server. It returns other errors, and nil, unchanged.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	if reason := reasonOf(err); reason != nil {
		return refusal{reason, err}
	}
	return err
}

// WithReason returns err with a reason that callers distinguish. Its text is that of err, without the text of the reason.
func WithReason(reason, err error) error { return refusal{reason, err} }

// RefusedEviction adds the reason to an error of an eviction or deletion. Only a conflict about the UID means that another object has this
// name; other conflicts are transient (ErrBusy).
func RefusedEviction(err error) error {
	if errors.Is(reasonOf(err), ErrConflict) && !IsOtherUID(err) {
		return refusal{ErrBusy, err}
	}
	return Refused(err)
}

// IsRefusal reports whether the API server, or this client, has certainly not performed a write.
func IsRefusal(err error) bool {
	return errors.As(err, new(refusal))
}

// reasonOf returns the reason for an error of the API server, or nil.
func reasonOf(err error) error {
	switch {
	case isDenial(err):
		return ErrDenied
	case apierrors.IsNotFound(err):
		if IsNoHandler(err) {
			return ErrUnsupported
		}
		return ErrNotFound
	case apierrors.IsConflict(err):
		return ErrConflict
	case apierrors.IsTooManyRequests(err):
		if apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
			return ErrBudget
		}
		return ErrBusy
	case apierrors.IsForbidden(err):
		text := err.Error()
		switch {
		case apierrors.HasStatusCause(err, causeNodeCapacity):
			return ErrNodeCapacity
		case strings.Contains(text, exceededQuota):
			return ErrQuotaUsed
		case isQuota(text):
			return ErrQuota
		}
		return ErrForbidden
	case apierrors.IsInvalid(err):
		if concernsUID(err) {
			return ErrConflict
		}
		return ErrInvalid
	case isUncalledWebhook(err):
		return ErrWebhook
	case isUnreachable(err):
		return ErrUnreachable
	case apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err):
		return ErrBusy
	}
	return reasonOfCode(err)
}

// causeNodeCapacity is the cause with which the admission plugin PodResize forbids a resize beyond the allocatable resources of the node.
const causeNodeCapacity metav1.CauseType = "NodeCapacity"

// isUnreachable reports whether no connection could be opened, for example because it was refused. The API server has not received
// the request then: net/http repeats a write on a new connection only if it sent nothing on the first one.
func isUnreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// statusOf returns the status in a response of the API server, a zero one for other errors.
func statusOf(err error) metav1.Status {
	var response apierrors.APIStatus
	if errors.As(err, &response) {
		return response.Status()
	}
	return metav1.Status{}
}

// reasonOfCode returns the reason by the HTTP status, for responses without a known reason, such as those of webhooks.
func reasonOfCode(err error) error {
	status := statusOf(err)
	switch code := status.Code; {
	case code == http.StatusUnauthorized, code == http.StatusRequestTimeout: // transient
	case code >= 400 && code < 500, strings.Contains(status.Message, "more than one PodDisruptionBudget"):
		return ErrDenied
	}
	return nil
}

// The API server has no machine-readable reason or cause for the following cases, so they are recognized by its texts.

// isDenial reports whether an admission webhook denied a request. The webhook chooses the status and the reason.
func isDenial(err error) bool {
	text := err.Error()
	return strings.Contains(text, "admission webhook ") && strings.Contains(text, " denied the request")
}

// isUncalledWebhook reports whether the API server could not call a required admission webhook.
func isUncalledWebhook(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook")
}

// IsOtherUID reports whether a conflict is about the UID precondition of an eviction or deletion: another object has the name.
func IsOtherUID(err error) bool {
	return concernsUID(err) || strings.Contains(err.Error(), "UID in precondition")
}

// exceededQuota is in the message about a request for more than a ResourceQuota has left.
const exceededQuota = "exceeded quota"

// isQuota reports whether a ResourceQuota or a LimitRange does not allow a request, whatever other pods request.
func isQuota(text string) bool {
	return slices.ContainsFunc([]string{
		"failed quota", "insufficient quota", // ResourceQuota: an amount is not set, or no quota covers the pod
		" usage per Container is ", " usage per Pod is ", "max limit to request ratio per ", // LimitRange
	}, func(words string) bool { return strings.Contains(text, words) })
}

// Answer returns the message of the API server about a failed request, with the disruption budget that did not allow an eviction,
// or the text of another error. It is cut to maxAnswer bytes, because a webhook may return a message of any length.
func Answer(err error) string {
	status := statusOf(err)
	text := cmp.Or(status.Message, err.Error())
	if status.Message != "" && status.Details != nil {
		for _, c := range status.Details.Causes {
			if c.Type == policyv1.DisruptionBudgetCause && c.Message != "" {
				text += " " + c.Message
			}
		}
	}
	return strings.ToValidUTF8(wording.Shortened(text, maxAnswer), "")
}

// maxAnswer bounds the length of a message in bytes.
const maxAnswer = 512

// IsNoHandler reports whether the path of a request does not exist, rather than the object. Such a response names no object, or is
// not a response of the API server.
func IsNoHandler(err error) bool {
	details := statusOf(err).Details
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) || details == nil || details.Name == ""
}

// concernsUID reports whether a patch was refused because the object has another UID than the patch.
func concernsUID(err error) bool {
	details := statusOf(err).Details
	return details != nil && slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// Body returns the undecoded body of a response. Result.Raw alone would lose the message of an error.
func Body(r rest.Result) ([]byte, error) {
	if err := r.Error(); err != nil {
		return nil, err
	}
	return r.Raw()
}

// RefusedFor is Refused for a request to a resource of a CustomResourceDefinition. Without the CustomResourceDefinition, the API server answers
// with status 404 and the text "404 page not found", and so does a proxy or load balancer in front of it that has no backend for a moment.
// So such an answer is ErrUnsupported only if the discovery documents of the API server do not have the resource either. A status 403 without a
// Status object is of a proxy, too, and is not ErrForbidden.
func RefusedFor(ctx context.Context, client rest.Interface, r schema.GroupVersionResource, err error) error {
	refused := Refused(err)
	if !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return refused
	}
	if errors.Is(refused, ErrForbidden) {
		return fmt.Errorf("a proxy, and not the API server, answered with status 403: %w", errors.New(err.Error()))
	}
	if !errors.Is(refused, ErrUnsupported) {
		return refused
	}
	if missing, problem := IsMissing(ctx, client, r); !missing {
		return fmt.Errorf("a proxy answered with status 404, or the API server did so for a short time: %w", errors.Join(errors.New(err.Error()), problem))
	}
	return refused
}

// IsMissing reports whether the discovery documents have no such resource. If the caller may not read them, the resource counts as missing. If
// they cannot be read for another reason, it does not, and the error is the reason.
func IsMissing(ctx context.Context, client rest.Interface, r schema.GroupVersionResource) (bool, error) {
	var resources metav1.APIResourceList
	err := discover(ctx, client, "/apis/"+r.Group+"/"+r.Version, "APIResourceList", &resources)
	switch {
	case err == nil:
		return !slices.ContainsFunc(resources.APIResources, func(a metav1.APIResource) bool { return a.Name == r.Resource }), nil
	case isForbidden(err):
		return true, nil
	case !apierrors.IsNotFound(err):
		return false, err
	}
	var groups metav1.APIGroupList
	err = discover(ctx, client, "/apis", "APIGroupList", &groups)
	switch {
	case isForbidden(err):
		return true, nil
	case err != nil:
		return false, err
	}
	return !slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool {
		return g.Name == r.Group && slices.ContainsFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.Version == r.Version })
	}), nil
}

// isForbidden reports whether the API server, not a proxy, has refused to show a document.
func isForbidden(err error) bool {
	return apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func discover(ctx context.Context, client rest.Interface, path, kind string, into any) error {
	raw, err := Body(client.Get().AbsPath(path).Do(ctx))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	var meta metav1.TypeMeta
	if err := errors.Join(json.Unmarshal(raw, &meta), json.Unmarshal(raw, into)); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	if meta.Kind != kind {
		return fmt.Errorf("decode %s: kind %q, want %s", path, meta.Kind, kind)
	}
	return nil
}
