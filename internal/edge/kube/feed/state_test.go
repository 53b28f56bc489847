// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
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
)

// watchedPods is an empty list of pods. Each watch of it ends after eight minutes, as with an API server, and sends bookmarks if
// bookmarks is true.
type watchedPods struct {
	mu        sync.Mutex
	bookmarks bool
	err       error // the response to each request
	hangs     bool  // requests get no response, and open watches send nothing
	minutes   int   // duration of a watch; 0 means eight
	proxy     *proxy
}

// A proxy accepts watches and closes them without asking the API server.
type proxy struct {
	after   time.Duration // time until a watch is closed
	streams bool          // it accepts only watches that begin with all objects, otherwise only others
	sends   *watch.Event  // before a watch is closed; nil for none
	list    error         // the response to lists; nil: none
	opened  atomic.Int32  // watches
}

// open returns a watch of the proxy.
func (x *proxy) open(ctx context.Context) watch.Interface {
	x.opened.Add(1)
	w := watch.NewRaceFreeFake()
	go func() {
		if x.sends != nil {
			w.Action(x.sends.Type, x.sends.Object)
		}
		select {
		case <-ctx.Done():
		case <-time.After(x.after):
		}
		w.Stop()
	}()
	return w
}

func (p *watchedPods) list(ctx context.Context) error {
	p.mu.Lock()
	between := p.proxy
	p.mu.Unlock()
	switch {
	case between == nil:
		return p.answer(ctx)
	case between.list == nil:
		<-ctx.Done()
		return ctx.Err()
	}
	return between.list
}

func (p *watchedPods) answer(ctx context.Context) error {
	p.mu.Lock()
	hangs := p.hangs
	err := p.err
	p.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (p *watchedPods) open(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	p.mu.Lock()
	between := p.proxy
	p.mu.Unlock()
	switch stream := o.SendInitialEvents != nil; {
	case stream && (between == nil || !between.streams):
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
	case between != nil && between.streams && !stream:
		return nil, apierrors.NewResourceExpired("too old")
	case between != nil:
		return between.open(ctx), nil
	}
	if err := p.answer(ctx); err != nil {
		return nil, err
	}
	w := watch.NewRaceFreeFake()
	go func() {
		for range cmp.Or(p.minutes, 8) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Minute):
			}
			p.mu.Lock()
			quiet := p.hangs || !p.bookmarks
			fails := p.err != nil || p.proxy != nil
			p.mu.Unlock()
			if fails {
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

// staleAfter runs a feed for an hour without faults, then calls breaks. It returns the time from then until the feed is stale, or zero if
// it does not become stale within half an hour.
func staleAfter(t *testing.T, p *watchedPods, breaks func(*watchedPods)) (after time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		s := new(sink)
		f := New(source{
			Config: Config{Name: "pods"},
			List: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, p.list(ctx)
			},
			Watch:   p.open,
			Project: func(runtime.Object) *cluster.Pod { return &cluster.Pod{} },
		}, s, slog.New(slog.DiscardHandler))
		stale := func() bool {
			now := f.State()
			return now.IsStale(time.Now())
		}
		if !stale() {
			t.Error("not stale before the first list")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx) })
		for range 3600 {
			time.Sleep(time.Second)
			if stale() {
				t.Fatal("stale without a fault")
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
		p.hangs = false
		p.err = nil
		p.proxy = nil
		p.mu.Unlock()
		cancel() // ends a request that hangs
		running.Wait()
	})
	return after
}

// A proxy may close a connection that was quiet for a minute.
func TestFeed_quietWatch_isNotStale(t *testing.T) {
	for name, p := range map[string]*watchedPods{
		"with bookmarks":                          {bookmarks: true},
		"without bookmarks":                       {},
		"without bookmarks, closed each minute":   {minutes: 1},
		"without bookmarks, closed after minutes": {minutes: 5},
	} {
		t.Run(name, func(t *testing.T) {
			if after := staleAfter(t, p, func(*watchedPods) {}); after != 0 {
				t.Errorf("stale after %s", after)
			}
		})
	}
}

// A proxy whose API server is gone accepts each watch, and closes it. The stored state is up to date until the last real watch ends, at most
// a minute later, and for maxUnwatched from then on.
func TestFeed_proxyClosesEachWatch_isStaleInTime(t *testing.T) {
	failed := errors.New("bad gateway")
	some := &watch.Event{Type: watch.Added, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "8"}}}
	expired := &watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired}}
	for name, x := range map[string]*proxy{
		"at once, and lists fail":                       {list: failed},
		"at once, and lists hang":                       {},
		"after five seconds, and lists fail":            {after: 5 * time.Second, list: failed},
		"after five seconds, and lists hang":            {after: 5 * time.Second},
		"with an error, and lists fail":                 {sends: expired, list: failed},
		"streams of lists at once, and lists fail":      {streams: true, list: failed},
		"streams of lists at once, and lists hang":      {streams: true},
		"incomplete streams of lists, and lists fail":   {after: 5 * time.Second, streams: true, sends: some, list: failed},
		"streams of lists after a minute, and no event": {streams: true, after: time.Minute, list: failed},
	} {
		for _, bookmarks := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, bookmarks %t", name, bookmarks), func(t *testing.T) {
				after := staleAfter(t, &watchedPods{bookmarks: bookmarks}, func(p *watchedPods) { p.proxy = x })
				if x.opened.Load() == 0 {
					t.Error("no watch through the proxy")
				}
				if most := maxUnwatched + time.Minute; after == 0 || after > most+2*time.Second {
					t.Errorf("stale after %s, want at most %s", after, most)
				}
			})
		}
	}
}

func TestFeed_serverFailsOrHangs_isStaleInTime(t *testing.T) {
	for name, tt := range map[string]struct {
		bookmarks bool
		breaks    func(*watchedPods)
		most      time.Duration // includes a minute until the fake server closes the watch
	}{
		"requests fail":                  {true, func(p *watchedPods) { p.err = errors.New("connection refused") }, maxUnwatched + time.Minute},
		"forbidden":                      {true, func(p *watchedPods) { p.err = apierrors.NewForbidden(schema.GroupResource{}, "", nil) }, maxUnwatched + time.Minute},
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

// On a broken connection that nothing closes, a request gets no response and never ends.
func TestFeed_requestWithoutResponse_isCancelledAndRetried(t *testing.T) {
	for _, hangs := range []string{"list", "watch"} {
		t.Run(hangs, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests := map[string]int{}
				var mu sync.Mutex
				first := func(ctx context.Context, request string) error {
					mu.Lock()
					requests[request]++
					n := requests[request]
					mu.Unlock()
					if request == hangs && n == 1 {
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}
				f := New(source{
					Config: Config{Name: "pods"},
					List: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
						return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, first(ctx, "list")
					},
					Watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
						if o.SendInitialEvents != nil {
							return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
						}
						if err := first(ctx, "watch"); err != nil {
							return nil, err
						}
						w := watch.NewRaceFreeFake()
						context.AfterFunc(ctx, w.Stop) // sends nothing and ends only when it is cancelled
						return w, nil
					},
					Project: func(runtime.Object) *cluster.Pod { return &cluster.Pod{} },
				}, new(sink), slog.New(slog.DiscardHandler))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var running sync.WaitGroup
				running.Go(func() { f.Run(ctx) })
				time.Sleep(requestTimeout + 100*time.Millisecond)
				if s := f.State(); hangs == "list" && !errors.Is(s.Err, errNoAnswer) { // a watch is retried at once
					t.Errorf("after a request without a response: error %v, want %v", s.Err, errNoAnswer)
				}
				time.Sleep(20 * time.Second)
				if s := f.State(); !s.Synced || s.watchedFrom.IsZero() || s.Err != nil {
					t.Errorf("after the retry: %+v", s)
				}
				time.Sleep(maxSilence)
				mu.Lock()
				watches := requests["watch"]
				mu.Unlock()
				if want := 2 + map[string]int{"watch": 1}[hangs]; watches != want {
					t.Errorf("%d watches, want %d: a watch that sends nothing is cancelled", watches, want)
				}
				cancel()
				running.Wait()
			})
		})
	}
}
