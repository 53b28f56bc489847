// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"podfit.dev/podfit/internal/core/cluster"
)

// pages is a collection that is listed in pages of two pods. Nobody may watch it.
type pages struct {
	total   int
	expires int   // number of lists whose second page is expired
	err     error // of all lists
	lists   int
}

func (p *pages) source(t *testing.T) source {
	return source{
		Config: Config{Name: "pods"},
		List: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			p.lists++
			out := &corev1.PodList{}
			from, size := 0, 2
			if o.Limit == 0 {
				size = p.total
			}
			if _, err := fmt.Sscan(o.Continue, &from); err == nil && p.expires > 0 {
				p.expires--
				return nil, apierrors.NewResourceExpired("the list is too old")
			}
			for i := from; i < min(from+size, p.total); i++ {
				out.Items = append(out.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web-", i)}})
			}
			if from+size < p.total {
				out.Continue = fmt.Sprint(from + size)
			}
			return out, p.err
		},
		Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			t.Error("the collection is watched")
			return nil, errors.New("no watch")
		},
		Project: func(o runtime.Object) *cluster.Pod { return &cluster.Pod{Key: cluster.Key{Name: o.(*corev1.Pod).Name}} },
	}
}

func (s *sink) count() int {
	n := 0
	s.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}

func TestFeed_load_readsAllPagesWithoutWatch(t *testing.T) {
	for name, p := range map[string]*pages{"no object": {}, "one page": {total: 2}, "three pages": {total: 5}, "pages expire": {total: 5, expires: 1}} {
		s := new(sink)
		f := New(p.source(t), s, slog.New(slog.DiscardHandler))
		if err := f.Load(t.Context()); err != nil || s.count() != p.total || !f.State().Synced {
			t.Errorf("%s: %d of %d pods, synced %t, error %v", name, s.count(), p.total, f.State().Synced, err)
		}
	}
}

func TestFeed_loadFails_errorNamesTheCollection(t *testing.T) {
	p := &pages{err: apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no right"))}
	from := p.source(t)
	from.LostWithout = "which pods there are"
	f := New(from, new(sink), slog.New(slog.DiscardHandler))
	if err := f.Load(t.Context()); !apierrors.IsForbidden(err) || f.State().Synced || !f.State().Forbidden || p.lists != 1 {
		t.Errorf("state %+v after %d lists, error %v", f.State(), p.lists, err)
	}
}
