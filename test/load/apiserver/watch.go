// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A watcher writes the events of one watch.
type watcher struct {
	*request
	w       *meter
	control *http.ResponseController
	after   int64 // the version of the last event
}

func (s *Server) serveWatch(w *meter, q *request) error {
	initial := isTrue(q.query.Get("sendInitialEvents"))
	version := q.query.Get("resourceVersion")
	after, err := strconv.ParseInt("0"+version, 10, 64)
	if err != nil {
		return apierrors.NewBadRequest("invalid resource version " + version)
	}
	if initial && (q.query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchNotOlderThan) || !isTrue(q.query.Get("allowWatchBookmarks"))) {
		return newError(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents requires resourceVersionMatch=NotOlderThan and allowWatchBookmarks")
	}
	if now := s.now(); after > now {
		return apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", after, now), 1)
	}
	x := &watcher{request: q, w: w, control: http.NewResponseController(w), after: after}
	if !initial && after > 0 {
		if _, _, _, ok := s.since(q.collection, after); !ok {
			return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", after))
		}
	}
	w.Header().Set("Content-Type", q.form.contentType(true))
	w.WriteHeader(http.StatusOK)
	if initial || after == 0 {
		objects, now := s.list(q.collection, q.namespace, q.selector)
		x.after = now
		for _, o := range objects {
			x.send(watch.Added, q.form.object(o))
		}
		if initial {
			x.send(watch.Bookmark, q.form.bookmark(q.kind, now, true))
		}
	}
	w.counted = true
	s.counter.add(q.counted(), Count{Requests: 1})
	s.flush(x)
	s.follow(x)
	return nil
}

// flush sends what was written, and counts it. It reports whether the client is still there.
func (s *Server) flush(x *watcher) bool {
	s.counter.add(x.counted(), Count{Sent: x.w.sent})
	x.w.sent = 0
	return x.control.Flush() == nil
}

func (s *store) now() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// follow sends events until the client is gone, the watch times out, or the server stops.
func (s *Server) follow(x *watcher) {
	seconds, _ := strconv.Atoi(x.query.Get("timeoutSeconds"))
	if seconds <= 0 {
		seconds = 1800
	}
	end := time.NewTimer(time.Duration(seconds) * time.Second)
	defer end.Stop()
	bookmarks := time.NewTicker(s.o.Bookmarks)
	defer bookmarks.Stop()
	cut := s.cutting()
	for {
		events, now, wake, ok := s.since(x.collection, x.after)
		if !ok {
			gone := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", x.after)).ErrStatus
			x.send(watch.Error, x.form.status(&gone))
			return
		}
		for _, e := range events {
			x.event(e)
		}
		x.after = now
		if len(events) > 0 && !s.flush(x) {
			return
		}
		select {
		case <-x.Context().Done():
			return
		case <-s.stopped:
			return
		case <-cut:
			return
		case <-end.C:
			return
		case <-bookmarks.C:
			if isTrue(x.query.Get("allowWatchBookmarks")) {
				x.send(watch.Bookmark, x.form.bookmark(x.kind, x.after, false))
				s.flush(x)
			}
		case <-wake:
		}
	}
}

// event sends an event as the selector of the watch sees it: an object that it does not select any more is deleted.
func (x *watcher) event(e event) {
	if x.namespace != "" && e.object.Namespace != x.namespace {
		return
	}
	before := x.selector.matches(e.old)
	now := x.selector.matches(e.object) && e.kind != watch.Deleted
	switch {
	case now && before:
		x.send(watch.Modified, x.form.object(e.object))
	case now:
		x.send(watch.Added, x.form.object(e.object))
	case before:
		x.send(watch.Deleted, x.form.object(e.object))
	}
}

func (x *watcher) send(kind watch.EventType, object []byte) {
	b := x.form.frame(kind, object)
	x.w.sent += int64(len(b))
	_, _ = x.w.Write(b) // the client may be gone
}
