// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/edge/kube"
)

// Load lists the collection once, page by page, without a watch. It is for commands that read the cluster once, and needs only the right to
// list. Run must not be called on the same Feed.
func (f *Feed) Load(ctx context.Context) error { return f.load(ctx) }

// loader returns the function behind Load.
func (l listWatcher[T]) loader(to *projectionStore[T]) func(context.Context) error {
	return func(ctx context.Context) error {
		objects, err := l.listAll(ctx, kube.PageSize)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) { // the list changed while its pages were read
			objects, err = l.listAll(ctx, 0)
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", l.feed.config.Name, err)
		}
		return to.Replace(objects, "")
	}
}

// listAll returns the projected objects of all pages. A size of 0 reads one page with all objects.
func (l listWatcher[T]) listAll(ctx context.Context, size int64) ([]any, error) {
	var out []any
	options := metav1.ListOptions{Limit: size}
	for {
		page, err := l.list(ctx, options)
		if err != nil {
			return nil, err
		}
		list, ok := page.(*internalversion.List)
		if !ok {
			return nil, fmt.Errorf("unexpected list %T", page)
		}
		for _, o := range list.Items {
			out = append(out, o)
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return out, nil
		}
	}
}

// LostWithout returns what podfit cannot do without the collection; "" if it is required.
func (f *Feed) LostWithout() string { return f.config.LostWithout }
