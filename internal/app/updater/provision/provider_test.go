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

// While a ProvisioningRequest has no answer, it is read every ten seconds and not at the interval.
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
	reads int
	err   error
}

func (c *countedRequests) List(context.Context) ([]cluster.CapacityRequest, error) {
	c.reads++
	if c.err != nil {
		return nil, c.err
	}
	return []cluster.CapacityRequest{{State: cluster.RequestWaiting}}, nil
}

func TestCapacityProvider_oneRequest_isReadEveryTenSeconds(t *testing.T) {
	requests := &countedRequests{err: errors.New("timeout")}
	p := New(false, false, slog.New(slog.DiscardHandler))
	p.requests = requests
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
	requests.err = nil
	pass(time.Second, 1, "the first read failed, and none is known")
	pass(providerInterval, 2, "after the interval")
	pass(time.Second, 2, "one waits")
	pass(requestsInterval, 3, "ten seconds later")
	p.Reread()
	pass(0, 4, "one was created")
	requests.err = errors.New("timeout")
	pass(requestsInterval, 5, "the read fails")
	if len(p.found) != 1 {
		t.Errorf("after a failed read, %d are known, want the last one", len(p.found))
	}
	pass(requestsInterval, 6, "a failed read is repeated")
}
