// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// requestFor is how long the API server may take to answer a list or to begin a watch. A watch itself is given up after
// silentFor: the server ends each before, unless the connection is dead in a way that nobody notices.
const requestFor = time.Minute

var errNoAnswer = errors.New("no answer in time")

// A source is one collection of the API server, and what is kept of its objects.
type source[T any] struct {
	name     string // plural, for logs and health
	list     func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch    func(context.Context, metav1.ListOptions) (watch.Interface, error)
	project  func(runtime.Object) T
	selector string // field selector
	spare    string // what is lost where it may not be read, and podfit goes on; "" when it cannot
	remedy   string // what to do where the API server does not have it
	passive  bool   // no decision about a pod has to wait until it is up to date
}

// A sink is where projections go. The feed calls it from one goroutine.
type sink[T any] interface {
	put(key cluster.Key, v T)
	remove(key cluster.Key)
	replace(all map[cluster.Key]T)
}

// A feed keeps a sink up to date with a source. While the API server is away it tries again, ever more slowly up to
// ten seconds or so, and the sink keeps what it has.
type feed struct {
	name, spare, remedy string
	passive             bool
	run                 func(context.Context)

	mu        sync.Mutex
	synced    bool
	without   bool      // it may not be read, and podfit goes on; said already
	heard     time.Time // when the API server last answered or sent something
	failed    time.Time // when it first failed to since
	err       error
	watches   int           // how many watches are open: one, and for a moment the one that it replaces
	since     time.Time     // when the last watch ended, or the last list if that was later
	bookmarks int           // how many the newest watch has brought; the first may only mark the end of a list
	ready     chan struct{} // closed when synced, or when podfit goes on without
	begun     bool          // ready is closed
	log       *slog.Logger
}

func newFeed[T any](src source[T], to sink[T], log *slog.Logger) *feed {
	f := &feed{name: src.name, spare: src.spare, remedy: src.remedy, passive: src.passive, ready: make(chan struct{}), log: log}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			asking, cancel := context.WithTimeout(ctx, requestFor)
			defer cancel()
			page, err := src.list(asking, paged(o, src.selector))
			if err != nil && asking.Err() != nil {
				err = errors.Join(errNoAnswer, err)
			}
			f.note(ctx, err)
			if err != nil {
				return nil, err
			}
			return boxPage(page, src.project)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = src.selector
			watching, cancel := context.WithTimeout(ctx, silentFor)
			overdue := time.AfterFunc(requestFor, cancel)
			w, err := src.watch(watching, o)
			if !overdue.Stop() {
				if err == nil {
					w.Stop()
				}
				err = errors.Join(errNoAnswer, err)
			}
			if o.SendInitialEvents != nil && apierrors.IsInvalid(err) {
				cancel()
				return nil, err // this server cannot stream a list; the reflector asks for pages next
			}
			f.note(ctx, err)
			if err != nil {
				cancel()
				return nil, err
			}
			f.opened()
			return projectWatch(w, func(e watch.Event) watch.Event {
				f.received(ctx, e.Type)
				return boxEvent(e, src.project)
			}, func() {
				cancel()
				f.ended()
			}), nil
		},
	}
	r := cache.NewReflectorWithOptions(lw, nil, &boxStore[T]{feed: f, to: to},
		cache.ReflectorOptions{Name: "podfit", TypeDescription: src.name})
	r.WatchListPageSize = kube.PageSize
	f.run = func(ctx context.Context) { f.keepWatching(ctx, r) }
	return f
}

// keepWatching lists and watches again and again until ctx ends. It does what Reflector.Run does, but knows how it went.
func (f *feed) keepWatching(ctx context.Context, r *cache.Reflector) {
	pause := wait.Backoff{Duration: 800 * time.Millisecond, Cap: 10 * time.Second, Steps: 38, Factor: 2, Jitter: 0.5}
	_ = pause.DelayWithReset(clock.RealClock{}, 2*time.Minute).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := r.ListAndWatchWithContext(ctx)
		if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) && !errors.Is(err, io.EOF) {
			f.note(ctx, err)
		}
		return false, nil
	})
}

// paged makes a list come in pages. The API server ignores the limit of a list that may be served from any state
// (resource version 0), and would have us decode the whole cluster at once.
func paged(o metav1.ListOptions, selector string) metav1.ListOptions {
	o.FieldSelector = selector
	if o.Limit > 0 && o.Continue == "" {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
	return o
}

// note remembers how the last request or event went, and logs when that changes.
func (f *feed) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // stopping; the failure is our own
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if err == nil {
		if f.err != nil {
			f.log.Info("watch has recovered", slog.String("resource", f.name), slog.Duration("after", now.Sub(f.failed).Round(time.Second)))
		}
		f.heard, f.err, f.without = now, nil, false
		return
	}
	first := f.err == nil
	if first {
		f.failed = now
	}
	f.err = err
	switch {
	case f.spare != "" && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)):
		if !f.without {
			remedy := "let podfit list and watch " + f.name + ", as deploy/10-rbac.yaml does"
			if apierrors.IsNotFound(err) {
				remedy = f.remedy
			}
			f.log.Warn("This may not be read; podfit goes on without", slog.String("resource", f.name), slog.String("lost", f.spare),
				slog.String("remedy", remedy), slog.Any("error", err))
		}
		f.without = true
		f.begin()
	case !first:
	case f.begun:
		f.log.Warn("watch has failed, keeping what is known", slog.String("resource", f.name), slog.Any("error", err))
	case f.remedy != "" && apierrors.IsNotFound(err):
		f.log.Warn("Cannot read these yet; nothing begins before", slog.String("resource", f.name), slog.String("remedy", f.remedy), slog.Any("error", err))
	default:
		f.log.Warn("Cannot read these yet; nothing begins before", slog.String("resource", f.name), slog.Any("error", err))
	}
}

// opened notes that a watch is open.
func (f *feed) opened() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches++
	f.bookmarks = 0
}

// received notes what a watch has brought.
func (f *feed) received(ctx context.Context, kind watch.EventType) {
	f.note(ctx, nil)
	if kind == watch.Bookmark {
		f.mu.Lock()
		f.bookmarks++
		f.mu.Unlock()
	}
}

// ended notes that a watch is not open any more.
func (f *feed) ended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches--
	f.since = time.Now()
}

func (f *feed) markSynced() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.synced = true
	f.since = time.Now()
	f.begin()
}

// begin lets those go on who wait for the feed. The mutex is held.
func (f *feed) begin() {
	if !f.begun {
		f.begun = true
		close(f.ready)
	}
}

// A box carries a projection from the decoder to the store in the place of the whole object, which is garbage from then
// on. It has as much metadata as the reflector asks for.
type box[T any] struct {
	metav1.ObjectMeta
	value      T
	unreadable string // why there is no value, "" when there is
}

func (b *box[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject makes it a runtime.Object; projections are never changed, so sharing is copying.
func (b *box[T]) DeepCopyObject() runtime.Object { c := *b; return &c }

func (b *box[T]) key() cluster.Key { return cluster.Key{Namespace: b.Namespace, Name: b.Name} }

func boxed[T any](o runtime.Object, project func(runtime.Object) T) (*box[T], error) {
	m, err := meta.Accessor(o)
	if err != nil {
		return nil, err
	}
	b := &box[T]{ObjectMeta: metav1.ObjectMeta{Namespace: m.GetNamespace(), Name: m.GetName(), ResourceVersion: m.GetResourceVersion()}}
	b.project(o, project)
	return b, nil
}

// project reads an object. A panic is a defect of podfit: the object is unreadable, and the others are not affected.
func (b *box[T]) project(o runtime.Object, project func(runtime.Object) T) {
	defer func() {
		if cause := recover(); cause != nil {
			b.unreadable = fmt.Sprintf("%v\n%s", cause, debug.Stack())
		}
	}()
	b.value = project(o)
}

func boxPage[T any](page runtime.Object, project func(runtime.Object) T) (runtime.Object, error) {
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
		b, err := boxed(o, project)
		if err == nil {
			out.Items = append(out.Items, b)
		}
		return err
	})
	return out, err
}

func boxEvent[T any](e watch.Event, project func(runtime.Object) T) watch.Event {
	if e.Type != watch.Added && e.Type != watch.Modified && e.Type != watch.Deleted {
		return e
	}
	if b, err := boxed(e.Object, project); err == nil {
		e.Object = b
	}
	return e
}

// boxStore is what the reflector writes to: it opens the boxes.
type boxStore[T any] struct {
	feed *feed
	to   sink[T]
}

var _ cache.ReflectorStore = (*boxStore[int])(nil)

func (s *boxStore[T]) Add(o any) error {
	if b, ok := o.(*box[T]); ok && s.readable(b) {
		s.to.put(b.key(), b.value)
	}
	return nil
}

// readable reports whether an object could be read. What a watch cannot bring leaves what is known of the object.
func (s *boxStore[T]) readable(b *box[T]) bool {
	if b.unreadable != "" {
		s.feed.log.Error("Skipped an object because of an internal error", slog.String("resource", s.feed.name), slog.String("object", b.key().String()), slog.String("panic", b.unreadable))
	}
	return b.unreadable == ""
}

func (s *boxStore[T]) Update(o any) error { return s.Add(o) }

func (s *boxStore[T]) Delete(o any) error {
	if b, ok := o.(*box[T]); ok {
		s.to.remove(b.key())
	}
	return nil
}

func (s *boxStore[T]) Replace(list []any, _ string) error {
	all := make(map[cluster.Key]T, len(list))
	for _, o := range list {
		if b, ok := o.(*box[T]); ok && s.readable(b) {
			all[b.key()] = b.value
		}
	}
	s.to.replace(all)
	s.feed.markSynced()
	return nil
}

func (s *boxStore[T]) Resync() error { return nil }
