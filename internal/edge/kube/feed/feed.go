// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package feed lists and watches one collection of the API server, and passes projections of its objects to a store.
//
// It retries failed requests, skips an object whose projection panics, ends requests that get no response, and knows when the store may
// be out of date. It does not know which collections there are or what their objects mean: package watcher does.
package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/clock"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// requestTimeout bounds how long the API server may take to answer a list or to open a watch. An open watch is canceled after
// maxSilence: the server ends each watch before that, unless the connection is broken and no error is reported.
const requestTimeout = time.Minute

var errNoAnswer = errors.New("no answer in time")

// A Config describes a collection of the API server.
type Config struct {
	Name          string // plural, for logs and health
	FieldSelector string
	LostWithout   string // what podfit cannot do if it has no right to read the collection; "" if it cannot start without it
	Remedy        string // what to do if the API server does not have the collection
	NonBlocking   bool   // decisions about pods do not wait until the collection is up to date
	Optional      bool   // the feed is ready at once, so that nothing waits for the first list
}

// A Source lists and watches a collection of the API server, and projects its objects.
type Source[T any] struct {
	Config
	List    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	Watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
	Project func(runtime.Object) T
}

// A Sink stores projections. The feed calls it from one goroutine.
type Sink[T any] interface {
	Put(key cluster.Key, v T)
	Remove(key cluster.Key)
	Replace(all map[cluster.Key]T)
}

// A Feed keeps a sink up to date with a source. While the API server is unavailable, the feed retries with a back-off of up
// to about ten seconds, and the sink keeps its content.
type Feed struct {
	Config
	reflector *cache.Reflector
	load      func(context.Context) error // see Load

	mu        sync.Mutex
	state     State         // without watchedFrom and hasBookmarks
	open      []*openWatch  // usually one; two for a moment when a new watch replaces an old one
	bookmarks int           // received by the newest watch; the first one may only mark the end of a list
	ready     chan struct{} // closed when the feed is synced or podfit runs without it
	isReady   bool          // ready is closed
	log       *slog.Logger
}

// New returns a feed. It sends no request before Run.
func New[T any](from Source[T], to Sink[T], log *slog.Logger) *Feed {
	f := &Feed{Config: from.Config, state: State{Resource: from.Name, NonBlocking: from.NonBlocking}, ready: make(chan struct{}), log: log}
	if from.Optional {
		f.markReady()
	}
	lw := listWatcher[T]{feed: f, source: from}
	projections := &projectionStore[T]{feed: f, to: to}
	f.load = func(ctx context.Context) error { return lw.load(ctx, projections) }
	f.reflector = cache.NewReflectorWithOptions(
		&cache.ListWatch{ListWithContextFunc: lw.list, WatchFuncWithContext: lw.watch},
		nil, projections,
		cache.ReflectorOptions{Name: "podfit", TypeDescription: from.Name})
	f.reflector.WatchListPageSize = kube.PageSize
	return f
}

// Ready returns a channel that is closed when the collection has been listed once, or podfit runs without it.
func (f *Feed) Ready() <-chan struct{} { return f.ready }

// Run lists and watches again and again until ctx ends. It does what Reflector.Run does, and records the errors.
func (f *Feed) Run(ctx context.Context) {
	backoff := wait.Backoff{Duration: 800 * time.Millisecond, Cap: 10 * time.Second, Steps: 38, Factor: 2, Jitter: 0.5}
	_ = backoff.DelayWithReset(clock.RealClock{}, 2*time.Minute).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := f.reflector.ListAndWatchWithContext(ctx)
		if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) && !errors.Is(err, io.EOF) {
			f.recordResult(ctx, err)
		}
		return false, nil
	})
}

// A listWatcher sends the requests of a feed. The objects it returns are projected already.
type listWatcher[T any] struct {
	feed   *Feed
	source Source[T]
}

// list requests one page of the collection.
func (l listWatcher[T]) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	request, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	page, err := l.source.List(request, pagedOptions(o, l.feed.FieldSelector))
	if err != nil && request.Err() != nil {
		err = errors.Join(errNoAnswer, err)
	}
	l.feed.recordResult(ctx, err)
	if err != nil {
		return nil, err
	}
	return projectPage(page, l.source.Project)
}

// watch opens a watch of the collection. The watch ends after maxSilence at the latest.
func (l listWatcher[T]) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.FieldSelector = l.feed.FieldSelector
	request, cancel := context.WithTimeout(ctx, maxSilence)
	opening := time.AfterFunc(requestTimeout, cancel)
	w, err := l.source.Watch(request, o)
	if !opening.Stop() {
		if err == nil {
			w.Stop()
		}
		err = errors.Join(errNoAnswer, err)
	}
	if o.SendInitialEvents != nil && apierrors.IsInvalid(err) {
		cancel()
		return nil, err // this API server cannot stream a list; the reflector falls back to pages
	}
	l.feed.recordResult(ctx, err)
	if err != nil {
		cancel()
		return nil, err
	}
	opened := l.feed.watchOpened(o.SendInitialEvents != nil)
	apply := func(e watch.Event) watch.Event {
		l.feed.eventReceived(ctx, opened, e.Type)
		return projectEvent(e, l.source.Project)
	}
	ended := func() {
		cancel()
		l.feed.watchEnded(opened)
	}
	return projectWatch(w, apply, ended), nil
}

// pagedOptions returns the options of a list that is served in pages. The API server ignores the limit of a list that may be
// served from its watch cache (resource version 0), so that podfit would have to decode the whole collection at once.
func pagedOptions(o metav1.ListOptions, fieldSelector string) metav1.ListOptions {
	o.FieldSelector = fieldSelector
	if o.Limit > 0 && o.Continue == "" {
		o.ResourceVersion = ""
		o.ResourceVersionMatch = ""
	}
	return o
}

// recordResult records the result of the last request or event, and logs failure and recovery once each.
func (f *Feed) recordResult(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // podfit is stopping: the request failed because it was canceled
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if err == nil {
		if f.state.Err != nil {
			f.log.Info("Watch recovered", slog.String("resource", f.Name),
				slog.Duration("duration", now.Sub(f.state.FailedSince).Round(time.Second)))
		}
		f.state.LastResponse = now
		f.state.Err = nil
		f.state.Forbidden = false
		return
	}
	first := f.state.Err == nil
	if first {
		f.state.FailedSince = now
	}
	f.state.Err = err
	switch {
	case f.LostWithout != "" && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)):
		f.continueWithout(err)
	case first:
		f.logFailure(err)
	}
}

// continueWithout makes podfit run without the collection, because it does not exist or podfit has no right to read it. The mutex is held.
func (f *Feed) continueWithout(err error) {
	if !f.state.Forbidden {
		remedy := "grant list and watch on " + f.Name + ", as deploy/10-rbac.yaml does"
		if apierrors.IsNotFound(err) {
			remedy = f.Remedy
		}
		f.log.Warn("Cannot read an optional resource; podfit runs without it", slog.String("resource", f.Name),
			slog.String("impact", "podfit does not know "+f.LostWithout), slog.String("remedy", remedy), slog.Any("error", err))
	}
	f.state.Forbidden = true
	f.markReady()
}

func (f *Feed) logFailure(err error) {
	resource := slog.String("resource", f.Name)
	cause := slog.Any("error", err)
	switch {
	case f.isReady:
		f.log.Warn("Watch failed; the stored state is kept until it recovers", resource, cause)
	case f.Remedy != "" && apierrors.IsNotFound(err):
		f.log.Warn("Initial list failed; startup is blocked until it succeeds", resource, slog.String("remedy", f.Remedy), cause)
	default:
		f.log.Warn("Initial list failed; startup is blocked until it succeeds", resource, cause)
	}
}

// watchOpened records that a watch is open. streams is true if the watch begins with all objects instead of a list.
func (f *Feed) watchOpened(streams bool) *openWatch {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &openWatch{since: time.Now(), streams: streams}
	f.open = append(f.open, w)
	f.bookmarks = 0
	return w
}

func (f *Feed) eventReceived(ctx context.Context, w *openWatch, kind watch.EventType) {
	f.recordResult(ctx, nil)
	f.mu.Lock()
	defer f.mu.Unlock()
	w.receive(kind)
	if kind == watch.Bookmark {
		f.bookmarks++
	}
}

func (f *Feed) watchEnded(w *openWatch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if from := w.countsFrom(); !from.IsZero() && !now.Before(from) {
		f.state.idleSince = now
	}
	f.open = slices.DeleteFunc(f.open, func(o *openWatch) bool { return o == w })
}

// markSynced records that a complete list is stored.
func (f *Feed) markSynced() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.Synced = true
	f.state.idleSince = time.Now()
	f.markReady()
}

// markReady unblocks the callers that wait for the feed. The mutex is held.
func (f *Feed) markReady() {
	if !f.isReady {
		f.isReady = true
		close(f.ready)
	}
}

// Load lists the collection once, page by page, without a watch. It is for commands that read the cluster once, and needs only the right to
// list. Run must not be called on the same Feed.
func (f *Feed) Load(ctx context.Context) error { return f.load(ctx) }

func (l listWatcher[T]) load(ctx context.Context, to *projectionStore[T]) error {
	list, _, err := pager.New(l.list).ListWithAlloc(ctx, metav1.ListOptions{Limit: kube.PageSize})
	var objects []runtime.Object
	if err == nil {
		objects, err = meta.ExtractList(list)
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", l.feed.Name, err)
	}
	return to.Replace(cluster.Each(objects, func(o *runtime.Object) any { return *o }), "")
}

// projectWatch returns a watch whose events are the results of apply. It calls ended when the watch has ended. Unlike watch.Filter, it ends
// when it is stopped, even if the last event is not read.
func projectWatch(from watch.Interface, apply func(watch.Event) watch.Event, ended func()) watch.Interface {
	events := make(chan watch.Event)
	w := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		defer ended()
		defer from.Stop()
		for {
			select {
			case <-w.StopChan():
				return
			case e, open := <-from.ResultChan():
				if !open {
					return
				}
				select {
				case <-w.StopChan():
					return
				case events <- apply(e):
				}
			}
		}
	}()
	return w
}
