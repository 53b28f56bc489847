// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package inspection

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/overview"
)

// Rights asks the API server who a user is and what the user may read.
type Rights struct{ Client kubernetes.Interface }

// Authenticate returns the user of a token. ok is false if the API server refuses the token.
func (r *Rights) Authenticate(ctx context.Context, token string) (u overview.User, ok bool, err error) {
	review, err := r.Client.AuthenticationV1().TokenReviews().Create(ctx,
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

// MayList reports whether a user may list VPAs and pods in a namespace, or in all namespaces if it is "": pages show both, and name pods.
func (r *Rights) MayList(ctx context.Context, u *overview.User, namespace string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{User: u.Name, UID: u.UID, Groups: u.Groups, Extra: make(map[string]authorizationv1.ExtraValue, len(u.Extra))}
	for key, values := range u.Extra {
		spec.Extra[key] = values
	}
	for _, of := range []authorizationv1.ResourceAttributes{{Group: v1.GroupVersion().Group, Resource: v1.ResourceAutoscalers}, {Resource: "pods"}} {
		of.Namespace, of.Verb = namespace, "list"
		spec.ResourceAttributes = &of
		review, err := r.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("review the rights of user %s: %w", u.Name, err)
		}
		if !review.Status.Allowed || review.Status.Denied {
			return false, nil
		}
	}
	return true, nil
}
