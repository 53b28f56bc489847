// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"podfit.dev/podfit/internal/core/cluster"
)

// source is a Source of pods.
type source = Source[*cluster.Pod]

// sink is a Sink of pods.
type sink struct{ sync.Map }

func (s *sink) Put(key cluster.Key, p *cluster.Pod) { s.Store(key, p) }

func (s *sink) Remove(key cluster.Key) { s.Delete(key) }

func (s *sink) Replace(all map[cluster.Key]*cluster.Pod) {
	s.Clear()
	for key, p := range all {
		s.Store(key, p)
	}
}

// logText is the text of a log.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestFeed_projectionOfOneObjectPanics_othersAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		named := func(name, version string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: version}}
		}
		events := watch.NewRaceFreeFake()
		s := new(sink)
		var out logText
		f := New(source{
			Config: Config{Name: "pods"},
			List: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Pod{*named("a", "1"), *named("bad-b", "2"), *named("c", "3")}}, nil
			},
			Watch: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
				if o.SendInitialEvents != nil {
					return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
				}
				return events, nil
			},
			Project: func(o runtime.Object) *cluster.Pod {
				name := o.(*corev1.Pod).Name
				if strings.HasPrefix(name, "bad") {
					panic("cannot read " + name)
				}
				return &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: name}}
			},
		}, s, slog.New(slog.NewTextHandler(&out, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx) })
		synctest.Wait()
		events.Add(named("bad-d", "8"))
		events.Add(named("e", "9"))
		synctest.Wait()
		for name, want := range map[string]bool{"a": true, "bad-b": false, "c": true, "bad-d": false, "e": true} {
			if _, got := s.Load(cluster.Key{Namespace: "shop", Name: name}); got != want {
				t.Errorf("%s is in the store: %t, want %t", name, got, want)
			}
		}
		if text := out.String(); !strings.Contains(text, "cannot read bad-b") || !strings.Contains(text, "cannot read bad-d") {
			t.Errorf("the panics are not in the log:\n%s", text)
		}
		cancel()
		running.Wait()
	})
}
