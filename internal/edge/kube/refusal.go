// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Why the API server refuses a write, as far as callers tell reasons apart. Each wraps the API server's own error.
var (
	ErrNotFound     = errors.New("not found")         // the object is gone
	ErrConflict     = errors.New("changed")           // the object has been changed, or replaced by one of the same name
	ErrBudget       = errors.New("disruption budget") // a PodDisruptionBudget does not allow the eviction now
	ErrNodeCapacity = errors.New("node too small")    // the resize asks for more than the pod's node has
	ErrQuota        = errors.New("quota exceeded")    // a ResourceQuota or LimitRange forbids it
	ErrForbidden    = errors.New("forbidden")         // an admission plugin or access control forbids it
	ErrDenied       = errors.New("denied")            // an admission webhook denied it, or the request is bad for another reason
	ErrWebhook      = errors.New("webhook failed")    // the API server could not call an admission webhook
	ErrInvalid      = errors.New("invalid")           // such as a resize that would change the pod's QoS class
	ErrUnsupported  = errors.New("not supported")     // this API server has no such subresource
	ErrBusy         = errors.New("server overloaded") // try again later
	ErrUnreachable  = errors.New("no connection")     // no connection to the API server could be opened, so it got no request
)

// A refusal reads like the API server's error and is one of the reasons above.
type refusal struct{ reason, err error }

func (r refusal) Error() string        { return r.err.Error() }
func (r refusal) Unwrap() error        { return r.err }
func (r refusal) Is(target error) bool { return target == r.reason }

// refused adds the reason to an error of the API server. Other errors, and nil, stay as they are.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	if reason := reasonOf(err); reason != nil {
		return refusal{reason, err}
	}
	return err
}

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
		switch text := err.Error(); {
		case apierrors.HasStatusCause(err, "NodeCapacity"), strings.Contains(text, "node didn't have enough allocatable"):
			return ErrNodeCapacity
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

// isUnreachable reports whether no connection could be opened, for example because it was refused. The API server has not received
// the request then: net/http repeats a write on a new connection only if it sent nothing on the first one.
func isUnreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// reasonOfCode goes by the HTTP status of an answer without a known reason: what a webhook answers with, for one.
func reasonOfCode(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	switch code := status.Status().Code; {
	case code == http.StatusUnauthorized, code == http.StatusRequestTimeout:
		return nil // may be otherwise with the next request
	case code >= 400 && code < 500:
		return ErrDenied
	case strings.Contains(status.Status().Message, "more than one PodDisruptionBudget"):
		return ErrDenied
	}
	return nil
}

// The API server has no reason or cause for what follows; its texts are all there is to go by.

// isDenial reports whether an admission webhook denied a request. The webhook chooses the status and the reason.
func isDenial(err error) bool {
	text := err.Error()
	return strings.Contains(text, "admission webhook ") && strings.Contains(text, " denied the request")
}

// isUncalledWebhook reports whether the API server could not call an admission webhook that must be asked.
func isUncalledWebhook(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook")
}

// isOtherPod reports whether a conflict is about the UID that an eviction named.
func isOtherPod(err error) bool {
	return concernsUID(err) || strings.Contains(err.Error(), "UID in precondition")
}

// isQuota reports whether a ResourceQuota or a LimitRange forbids a request.
func isQuota(text string) bool {
	for _, words := range []string{
		"exceeded quota", "failed quota", "insufficient quota", // ResourceQuota
		" usage per Container is ", " usage per Pod is ", "max limit to request ratio per ", // LimitRange
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// Answer returns what the API server said about a request that failed, with the disruption budget that did not allow an
// eviction; the text of any other error. A webhook may say as much as it likes; what is returned is short.
func Answer(err error) string {
	text := answer(err)
	if len(text) > maxAnswer {
		text = text[:maxAnswer] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// maxAnswer is how many bytes of an answer are shown.
const maxAnswer = 512

func answer(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Message == "" {
		return err.Error()
	}
	text := status.Status().Message
	if details := status.Status().Details; details != nil {
		for _, c := range details.Causes {
			if c.Type == policyv1.DisruptionBudgetCause && c.Message != "" {
				text += " " + c.Message
			}
		}
	}
	return text
}

// isNoHandler reports whether it is the path that was not found rather than the object. What the API server says then
// names no object, or is not its own answer at all.
func IsNoHandler(err error) bool {
	var status apierrors.APIStatus
	if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) || !errors.As(err, &status) {
		return true
	}
	details := status.Status().Details
	return details == nil || details.Name == ""
}

// concernsUID reports whether a patch was refused because the object has another UID than the patch names.
func concernsUID(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, c := range status.Status().Details.Causes {
		if c.Field == "metadata.uid" {
			return true
		}
	}
	return false
}

// body returns the body of an answer, undecoded. Result.Raw alone would lose what an error says.
func Body(r rest.Result) ([]byte, error) {
	if err := r.Error(); err != nil {
		return nil, err
	}
	return r.Raw()
}

// fewErrors are the errors of many attempts. Of more than maxErrors only the number is kept.
type FewErrors struct {
	All  []error
	more int
}

const maxErrors = 10

func (e *FewErrors) Add(err error) {
	if len(e.All) > maxErrors {
		e.more++
		return
	}
	e.All = append(e.All, err)
}

// join returns all errors as one, nil where there is none.
func (e *FewErrors) Join() error {
	if e.more == 0 {
		return errors.Join(e.All...)
	}
	return errors.Join(append(e.All, fmt.Errorf("%d more attempts failed", e.more))...)
}
