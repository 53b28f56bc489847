// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package provision

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// While a ProvisioningRequest has no answer and cannot be watched, it is read every ten seconds and not at the interval.
func TestCapacityProvider_requestHasNoAnswer_isReadSoon(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	request := func(s cluster.RequestState) []cluster.CapacityRequest { return []cluster.CapacityRequest{{State: s}} }
	for name, c := range map[string]struct {
		found   []cluster.CapacityRequest
		listed  time.Time // zero: a request was created or deleted since
		problem string
		soon    bool
	}{
		"none":              {nil, now, "", false},
		"created":           {nil, time.Time{}, "", true},
		"waits":             {request(cluster.RequestWaiting), now, "", true},
		"accepted":          {request(cluster.RequestAccepted), now, "", true},
		"provided":          {request(cluster.RequestProvided), now, "", false},
		"failed":            {request(cluster.RequestFailed), now, "", false},
		"cannot be created": {nil, time.Time{}, "the API server does not serve them", false},
	} {
		p := Provider{found: c.found, listed: c.listed, ways: map[cluster.RequestKind]*way{cluster.ProvisioningRequest: {known: true, problem: c.problem}}}
		if got := p.NextRead(now); got.IsZero() == c.soon || c.soon && !got.Equal(now.Add(requestsInterval)) {
			t.Errorf("%s: next read at %v", name, got)
		}
	}
	if got := (&Provider{}).NextRead(now); !got.IsZero() {
		t.Errorf("next read at %v without a way to ask", got)
	}
}

// countedRequests counts reads of ProvisioningRequests. One of them has no answer.
type countedRequests struct {
	reads   int
	err     error
	changes uint64
	watched bool
}

func (c *countedRequests) List(context.Context) ([]cluster.CapacityRequest, error) {
	c.reads++
	return []cluster.CapacityRequest{{State: cluster.RequestWaiting}}, c.err
}

func (c *countedRequests) RequestChanges() (uint64, bool) { return c.changes, c.watched }

func TestUpdater_requestsAreWatched_areReadAfterChangesOnly(t *testing.T) {
	requests := &countedRequests{watched: true}
	p := New(false, false, slog.New(slog.DiscardHandler))
	p.requests, p.watch = requests, requests
	p.ways = map[cluster.RequestKind]*way{cluster.ProvisioningRequest: {known: true}}
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	pass := func(after time.Duration, want int, what string) {
		t.Helper()
		now = now.Add(after)
		p.listRequests(t.Context(), now)
		if requests.reads != want {
			t.Errorf("%s: read %d times, want %d", what, requests.reads, want)
		}
	}
	pass(0, 1, "at the start")
	pass(10*time.Second, 1, "nothing has changed")
	if at := p.NextRead(now); !at.IsZero() {
		t.Errorf("the next read is planned for %v, want none", at)
	}
	requests.changes++
	requests.err = errors.New("timeout")
	pass(time.Second, 2, "after a change")
	if at := p.NextRead(now); at.IsZero() {
		t.Error("a failed read is not repeated")
	}
	requests.err = nil
	pass(time.Second, 3, "the last read failed")
	pass(time.Second, 3, "nothing has changed again")
	requests.watched = false
	pass(10*time.Second, 4, "the watch has ended")
	requests.watched = true
	pass(providerInterval, 5, "after the interval, without a change")
}
