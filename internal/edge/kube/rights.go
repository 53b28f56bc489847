// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
)

// Rights asks the API server who a user is and what the user may read.
type Rights struct{ client kubernetes.Interface }

// NewRights returns a client of the reviews of the API server.
func NewRights(c *Clients) *Rights { return &Rights{c.Core} }

// Authenticate returns the user of a token. ok is false if the API server refuses the token.
func (r *Rights) Authenticate(ctx context.Context, token string) (u overview.User, ok bool, err error) {
	review, err := r.client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return u, false, fmt.Errorf("review a token: %w", err)
	}
	if !review.Status.Authenticated || review.Status.User.Username == "" {
		return u, false, nil
	}
	user := &review.Status.User
	u = overview.User{Name: user.Username, UID: user.UID, Groups: user.Groups, Extra: make(map[string][]string, len(user.Extra))}
	for key, values := range user.Extra {
		u.Extra[key] = values
	}
	return u, true, nil
}

// MayList reports whether a user may list VPAs in a namespace, or in all namespaces if it is "".
func (r *Rights) MayList(ctx context.Context, u *overview.User, namespace string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: u.Name, UID: u.UID, Groups: u.Groups, Extra: make(map[string]authorizationv1.ExtraValue, len(u.Extra)),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "list", Group: v1.GroupVersion().Group, Resource: v1.ResourceAutoscalers,
		},
	}
	for key, values := range u.Extra {
		spec.Extra[key] = values
	}
	review, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review the rights of user %s: %w", u.Name, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// RecentEvents returns the events about pods that podfit has written and the API server still has, the newest first. The API server
// keeps events for an hour by default.
func RecentEvents(ctx context.Context, c *Clients, namespace string) ([]overview.Entry, error) {
	list, err := c.Core.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "source=" + EventSource + ",involvedObject.kind=Pod", Limit: maxEvents,
	})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	out := make([]overview.Entry, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, entryOfEvent(&list.Items[i]))
	}
	slices.SortStableFunc(out, func(a, b overview.Entry) int { return b.At.Compare(a.At) })
	return out, nil
}

// eventActs are the acts of the updater that events report.
var eventActs = map[string]string{EventEvictedByVPA: "evict", EventInPlaceResizedByVPA: "resize"}

func entryOfEvent(e *corev1.Event) overview.Entry {
	act := eventActs[e.Reason]
	if act == "" {
		act = "leave"
	}
	return overview.Entry{
		At: timeOfEvent(e).UTC(), Pod: cluster.Key{Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name},
		Act: act, Reason: e.Reason, Text: strings.TrimSpace(e.Message),
	}
}
