// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// A Right is a permission in all namespaces, such as that to create pods.
type Right struct{ Verb, Group, Resource string }

// String returns the permission as kubectl auth can-i names it.
func (r Right) String() string {
	if r.Group == "" {
		return r.Verb + " " + r.Resource
	}
	return r.Verb + " " + r.Resource + "." + r.Group
}

// Has reports whether podfit has a permission.
func (c *Clients) Has(ctx context.Context, r Right) (bool, error) { return Has(ctx, c.Core, r) }

// Has reports whether the user of a client has a permission.
func Has(ctx context.Context, core kubernetes.Interface, r Right) (bool, error) {
	review, err := core.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: r.Resource},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("check the permission to %s %s: %w", r.Verb, r.Resource, err)
	}
	return review.Status.Allowed, nil
}
