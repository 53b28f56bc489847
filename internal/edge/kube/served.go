// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

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
