// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package feed

import "time"

// A State is the health of the watch of one collection.
type State struct {
	Resource     string
	Synced       bool      // the resource has been listed once
	Forbidden    bool      // podfit has no right to read the resource and runs without it
	LastResponse time.Time // when the API server last answered or sent an event
	Err          error     // the current failure, nil if there is none
	FailedSince  time.Time
	NonBlocking  bool // decisions about pods do not wait until the resource is up to date

	watched      bool      // a watch is open
	idleSince    time.Time // if no watch is open: when the last watch ended, or the last list if that was later
	hasBookmarks bool      // the API server sends bookmarks on this watch
}

// How long a resource may be without response before its stored state counts as stale.
const (
	maxUnwatched   = 2 * time.Minute  // no watch is open: the API server is unavailable or does not answer
	maxBookmarkGap = 3 * time.Minute  // a watch with bookmarks is open: the API server sends one every minute
	maxSilence     = 11 * time.Minute // a watch without bookmarks is open: the client renews it after ten minutes at most
)

// IsStale reports whether the stored state of the resource may be out of date. A watch without events is up to date until a
// bookmark or a renewal is overdue. A watch that fails is up to date if it is open again within maxUnwatched.
func (s *State) IsStale(now time.Time) bool {
	switch {
	case s.Forbidden:
		return false
	case !s.Synced:
		return true
	case !s.watched:
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
	return State{
		Resource: f.config.Name, Synced: f.synced, Forbidden: f.forbidden, LastResponse: f.lastResponse, Err: f.err,
		FailedSince: f.failedSince, watched: f.openWatches > 0, idleSince: f.idleSince, hasBookmarks: f.bookmarks > 1,
		NonBlocking: f.config.NonBlocking,
	}
}
