// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// A State is the health of the watch of one collection.
type State struct {
	Resource     string
	Synced       bool      // the resource has been listed once
	Forbidden    bool      // podfit has no right to read the resource and runs without it
	LastResponse time.Time // when the API server last answered or sent an event
	Err          error     // the current failure, nil if there is none
	FailedSince  time.Time
	NonBlocking  bool // decisions about pods do not wait until the resource is up to date

	watchedFrom  time.Time // from when on the open watch counts; zero if none is open, or it does not count
	idleSince    time.Time // if no watch counts: when the last one that did ended, or the last list if that was later
	hasBookmarks bool      // the API server sends bookmarks on this watch
}

// How long a resource may be without response before its stored state counts as stale.
const (
	maxUnwatched   = 2 * time.Minute  // no watch counts: the API server is unavailable or does not answer
	maxBookmarkGap = 3 * time.Minute  // a watch with bookmarks is open: the API server sends one every minute
	maxSilence     = 11 * time.Minute // a watch without bookmarks is open: the client renews it after ten minutes at most
)

// minSilence is how long a watch that sends nothing must be open to count. An API server sends the changes since the last event at once, so
// there are none. A proxy that accepts watches and closes them without asking the API server shows nothing.
const minSilence = 30 * time.Second

// An openWatch is a watch that the API server, or a proxy, has accepted.
type openWatch struct {
	since   time.Time
	streams bool // it begins with all objects, and the stored state is replaced only after them
	sends   bool // it has sent a bookmark, or a change of the stored state
}

func (w *openWatch) receive(kind watch.EventType) {
	switch kind {
	case watch.Bookmark: // the first one ends the objects of a stream
		w.sends = true
	case watch.Added, watch.Modified, watch.Deleted:
		w.sends = w.sends || !w.streams
	case watch.Error: // it tells nothing about the stored state
	}
}

// countsFrom returns from when on the watch shows that the stored state is up to date; zero if it does not.
func (w *openWatch) countsFrom() time.Time {
	switch {
	case w.sends:
		return w.since
	case w.streams:
		return time.Time{}
	}
	return w.since.Add(minSilence)
}

// IsStale reports whether the stored state of the resource may be out of date. A watch without events is up to date until a
// bookmark or a renewal is overdue. A watch that fails is up to date if it is open again within maxUnwatched. A watch that ends within
// minSilence without an event is no watch.
func (s *State) IsStale(now time.Time) bool {
	switch {
	case s.Forbidden:
		return false
	case !s.Synced:
		return true
	case s.watchedFrom.IsZero(), now.Before(s.watchedFrom):
		return now.Sub(s.idleSince) > maxUnwatched
	case s.hasBookmarks:
		return now.Sub(s.LastResponse) > maxBookmarkGap
	}
	return now.Sub(s.LastResponse) > maxSilence
}

// State returns the health of the watch.
func (f *Feed) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state
	s.hasBookmarks = f.bookmarks > 1
	for _, w := range f.open {
		if from := w.countsFrom(); !from.IsZero() && (s.watchedFrom.IsZero() || from.Before(s.watchedFrom)) {
			s.watchedFrom = from
		}
	}
	return s
}
