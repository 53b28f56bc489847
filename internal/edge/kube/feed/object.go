// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"podfit.dev/podfit/internal/core/cluster"
)

// A projectedObject carries a projection from the decoder to the store instead of the whole object, which can be garbage
// collected from then on. It has the metadata that the reflector needs.
type projectedObject[T any] struct {
	metav1.ObjectMeta
	value T
	panic string // the panic of the projection and its stack; then there is no value
}

func (b *projectedObject[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. The copy shares the projection, which is never changed.
func (b *projectedObject[T]) DeepCopyObject() runtime.Object {
	return new(*b)
}

func (b *projectedObject[T]) key() cluster.Key {
	return cluster.Key{Namespace: b.Namespace, Name: b.Name}
}

func newProjectedObject[T any](o runtime.Object, project func(runtime.Object) T) (*projectedObject[T], error) {
	m, err := meta.Accessor(o)
	if err != nil {
		return nil, err
	}
	b := &projectedObject[T]{ObjectMeta: metav1.ObjectMeta{Namespace: m.GetNamespace(), Name: m.GetName(), ResourceVersion: m.GetResourceVersion()}}
	b.project(o, project)
	return b, nil
}

// project calls the projection. A panic is a defect of podfit: only this object is skipped.
func (b *projectedObject[T]) project(o runtime.Object, project func(runtime.Object) T) {
	defer func() {
		if cause := recover(); cause != nil {
			b.panic = fmt.Sprintf("%v\n%s", cause, debug.Stack())
		}
	}()
	b.value = project(o)
}

func projectPage[T any](page runtime.Object, project func(runtime.Object) T) (runtime.Object, error) {
	m, err := meta.ListAccessor(page)
	if err != nil {
		return nil, err
	}
	out := &internalversion.List{ListMeta: metav1.ListMeta{
		ResourceVersion:    m.GetResourceVersion(),
		Continue:           m.GetContinue(),
		RemainingItemCount: m.GetRemainingItemCount(),
	}}
	err = meta.EachListItem(page, func(o runtime.Object) error {
		b, err := newProjectedObject(o, project)
		if err == nil {
			out.Items = append(out.Items, b)
		}
		return err
	})
	return out, err
}

func projectEvent[T any](e watch.Event, project func(runtime.Object) T) watch.Event {
	if e.Type != watch.Added && e.Type != watch.Modified && e.Type != watch.Deleted {
		return e
	}
	if b, err := newProjectedObject(e.Object, project); err == nil {
		e.Object = b
	}
	return e
}

// A projectionStore is the store of the reflector: it passes the projections to the sink.
type projectionStore[T any] struct {
	feed *Feed
	to   Sink[T]
}

var _ cache.ReflectorStore = (*projectionStore[int])(nil)

func (s *projectionStore[T]) Add(o any) error {
	if b, ok := o.(*projectedObject[T]); ok && s.isProjected(b) {
		s.to.Put(b.key(), b.value)
	}
	return nil
}

// isProjected reports whether the projection of an object succeeded, and logs the panic if it did not. The stored projection
// of such an object is kept.
func (s *projectionStore[T]) isProjected(b *projectedObject[T]) bool {
	if b.panic != "" {
		s.feed.log.Error("Skipped an object because of an internal error", slog.String("resource", s.feed.Name),
			slog.String("object", b.key().String()), slog.String("panic", b.panic))
	}
	return b.panic == ""
}

func (s *projectionStore[T]) Update(o any) error { return s.Add(o) }

func (s *projectionStore[T]) Delete(o any) error {
	if b, ok := o.(*projectedObject[T]); ok {
		s.to.Remove(b.key())
	}
	return nil
}

func (s *projectionStore[T]) Replace(list []any, _ string) error {
	all := make(map[cluster.Key]T, len(list))
	for _, o := range list {
		if b, ok := o.(*projectedObject[T]); ok && s.isProjected(b) {
			all[b.key()] = b.value
		}
	}
	s.to.Replace(all)
	s.feed.markSynced()
	return nil
}

func (s *projectionStore[T]) Resync() error { return nil }
