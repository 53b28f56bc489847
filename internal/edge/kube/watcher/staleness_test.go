// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/kubetest"
)

// watchedPods is a collection of no pods. Each watch of it lasts as long as an API server lets it, and brings bookmarks if
// they are on.
type watchedPods struct {
	mu        sync.Mutex
	bookmarks bool
	away      error // what requests get
	hangs     bool  // requests get no answer, and watches that are open bring nothing
}

func (p *watchedPods) answer(ctx context.Context) error {
	p.mu.Lock()
	hangs, err := p.hangs, p.away
	p.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (p *watchedPods) open(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
	}
	if err := p.answer(ctx); err != nil {
		return nil, err
	}
	w := watch.NewRaceFreeFake()
	go func() {
		for range 8 { // minutes
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Minute):
			}
			p.mu.Lock()
			quiet, gone := p.hangs || !p.bookmarks, p.away != nil
			p.mu.Unlock()
			if gone {
				break
			}
			if !quiet && !w.IsStopped() {
				w.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "8"}})
			}
		}
		for p.stuck() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
		w.Stop()
	}()
	return w, nil
}

func (p *watchedPods) stuck() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hangs
}

// staleAfter runs a feed for an hour of peace, then breaks what it watches, and returns how long after that it is stale:
// zero if it is not within half an hour.
func staleAfter(t *testing.T, p *watchedPods, breaks func(*watchedPods)) (after time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		s := &store[*cluster.Pod]{mu: new(sync.Mutex)}
		f := newFeed(source[*cluster.Pod]{
			name: "pods",
			list: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, p.answer(ctx)
			},
			watch:   p.open,
			project: func(runtime.Object) *cluster.Pod { return &cluster.Pod{} },
		}, s, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.run(ctx) })
		stale := func() bool {
			now := f.state()
			return now.IsStale(time.Now())
		}
		if !stale() {
			t.Error("current before it was listed")
		}
		for range 3600 {
			time.Sleep(time.Second)
			if stale() {
				t.Fatal("stale while all is well")
			}
		}
		p.mu.Lock()
		breaks(p)
		p.mu.Unlock()
		broken := time.Now()
		for time.Since(broken) < 30*time.Minute && after == 0 {
			time.Sleep(time.Second)
			if stale() {
				after = time.Since(broken)
			}
		}
		p.mu.Lock()
		p.hangs, p.away = false, nil
		p.mu.Unlock()
		cancel() // a request that hangs ends with its connection
		running.Wait()
	})
	return after
}

func TestFeed_quietWatch_isNotStale(t *testing.T) {
	for name, bookmarks := range map[string]bool{"with bookmarks": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			if after := staleAfter(t, &watchedPods{bookmarks: bookmarks}, func(*watchedPods) {}); after != 0 {
				t.Errorf("stale after %s", after)
			}
		})
	}
}

func TestFeed_serverThatFailsOrHangs_isStaleInTime(t *testing.T) {
	for name, tt := range map[string]struct {
		bookmarks bool
		breaks    func(*watchedPods)
		most      time.Duration // the watch may be open for a minute more, until the server's next step
	}{
		"requests fail":                  {true, func(p *watchedPods) { p.away = errors.New("connection refused") }, maxUnwatched + time.Minute},
		"forbidden":                      {true, func(p *watchedPods) { p.away = apierrors.NewForbidden(schema.GroupResource{}, "", nil) }, maxUnwatched + time.Minute},
		"bookmarks stop":                 {true, func(p *watchedPods) { p.hangs = true }, maxBookmarkGap},
		"a watch without bookmarks ends": {false, func(p *watchedPods) { p.hangs = true }, maxSilence},
	} {
		t.Run(name, func(t *testing.T) {
			after := staleAfter(t, &watchedPods{bookmarks: tt.bookmarks}, tt.breaks)
			if after == 0 || after > tt.most+2*time.Second {
				t.Errorf("stale after %s, want at most %s", after, tt.most)
			}
		})
	}
}

// A connection that is dead in a way that nobody notices holds a request for ever.
func TestFeed_requestWithoutAnswer_isCanceledAndRetried(t *testing.T) {
	for _, hangs := range []string{"list", "watch"} {
		t.Run(hangs, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := map[string]int{}
				var mu sync.Mutex
				first := func(ctx context.Context, request string) error {
					mu.Lock()
					asked[request]++
					n := asked[request]
					mu.Unlock()
					if request == hangs && n == 1 {
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}
				f := newFeed(source[*cluster.Pod]{
					name: "pods",
					list: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
						return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, first(ctx, "list")
					},
					watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
						if o.SendInitialEvents != nil {
							return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
						}
						if err := first(ctx, "watch"); err != nil {
							return nil, err
						}
						w := watch.NewRaceFreeFake()
						context.AfterFunc(ctx, w.Stop) // it never brings anything, and ends only when it is given up
						return w, nil
					},
					project: func(runtime.Object) *cluster.Pod { return &cluster.Pod{} },
				}, &store[*cluster.Pod]{mu: new(sync.Mutex)}, slog.New(slog.DiscardHandler))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var running sync.WaitGroup
				running.Go(func() { f.run(ctx) })
				time.Sleep(requestTimeout + 100*time.Millisecond)
				if s := f.state(); hangs == "list" && !errors.Is(s.Err, errNoAnswer) { // a watch is asked for again at once
					t.Errorf("after a request without an answer: %v", s.Err)
				}
				time.Sleep(20 * time.Second)
				if s := f.state(); !s.Synced || !s.watched || s.Err != nil {
					t.Errorf("after it was made again: %+v", s)
				}
				time.Sleep(maxSilence)
				mu.Lock()
				watches := asked["watch"]
				mu.Unlock()
				if want := 2 + map[string]int{"watch": 1}[hangs]; watches != want {
					t.Errorf("%d watches, want %d: a silent one is given up", watches, want)
				}
				cancel()
				running.Wait()
			})
		})
	}
}

func TestWorld_stale_omitsNonBlockingResources(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET /api/v1/nodes", http.StatusForbidden, forbidden)
	w := startWorld(t, f, Options{Pods: LivePods, Nodes: true, Evictions: true})
	if stale := w.Stale(time.Now()); len(stale) != 0 {
		t.Errorf("stale: %v", stale)
	}
	stale := w.Stale(time.Now().Add(time.Hour))
	for resource, want := range map[string]bool{"pods": true, "verticalpodautoscalers": true, "replicasets": true, "nodes": false, "events": false} {
		if slices.Contains(stale, resource) != want {
			t.Errorf("after an hour without response, %s stale: %t, want %t", resource, !want, want)
		}
	}
}
