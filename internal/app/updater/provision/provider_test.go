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
	"podfit.dev/podfit/internal/core/headroom"
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

// answeringClient says whether requests of its kind can be created.
type answeringClient struct {
	problem string
	err     error
	asked   int
}

func (c *answeringClient) Available(context.Context, bool) (string, error) {
	c.asked++
	return c.problem, c.err
}

func (c *answeringClient) Create(context.Context, *cluster.Pod, cluster.Resources) error { return nil }

func (c *answeringClient) Delete(context.Context, *cluster.CapacityRequest) error { return nil }

// Until it is known whether placeholder pods can be created, no pod is evicted whose replacement has no room, and no ProvisioningRequest is
// created. Later, the last answer applies while the API server gives none.
func TestCapacityProvider_apiServerDoesNotAnswer_lastAnswerApplies(t *testing.T) {
	unanswered := errors.New("timeout")
	pods := &answeringClient{err: unanswered}
	requests := &answeringClient{err: unanswered}
	p := New(false, false, slog.New(slog.DiscardHandler))
	p.Use(map[cluster.RequestKind]Client{cluster.PlaceholderPod: pods, cluster.ProvisioningRequest: requests}, &countedRequests{})
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	check := func(after time.Duration, want headroom.Provider, found, asked int, what string) {
		t.Helper()
		now = now.Add(after)
		got, list := p.Check(t.Context(), now)
		if want |= headroom.NoProvider; got != want || len(list) != found {
			t.Errorf("%s: asks by %v, found %d requests; want %v, %d", what, got, len(list), want, found)
		}
		if pods.asked != asked || requests.asked != asked {
			t.Errorf("%s: checked %d and %d times, want %d", what, pods.asked, requests.asked, asked)
		}
	}
	check(0, headroom.PlaceholderPods, 0, 1, "no answer yet")
	pods.err, requests.err = nil, nil
	check(time.Second, headroom.PlaceholderPods, 0, 1, "a second later")
	check(requestsInterval, headroom.PlaceholderPods|headroom.ProvisioningRequests, 1, 2, "both can be created")
	pods.err, requests.err = unanswered, unanswered
	check(providerInterval, headroom.PlaceholderPods|headroom.ProvisioningRequests, 1, 3, "no answer any more")
	pods.err, requests.err = nil, nil
	pods.problem, requests.problem = "forbidden", "not served"
	check(providerInterval, headroom.NoProvider, 0, 4, "neither can be created")
	requests.problem = ""
	check(-time.Hour, headroom.ProvisioningRequests, 1, 5, "the clock went backwards")
}

// After the feature was switched off, ProvisioningRequests are read until none is left.
func TestCapacityProvider_isOff_readsUntilNoRequestIsLeft(t *testing.T) {
	client := &answeringClient{err: errors.New("timeout")}
	requests := &leftRequests{left: 1}
	p := New(true, false, slog.New(slog.DiscardHandler))
	p.Use(map[cluster.RequestKind]Client{cluster.ProvisioningRequest: client}, requests)
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	check := func(found, reads int, what string) {
		t.Helper()
		now = now.Add(providerInterval)
		got, list := p.Check(t.Context(), now)
		if got != headroom.NotAsked || len(list) != found || requests.reads != reads {
			t.Errorf("%s: asks by %v, found %d requests in %d reads; want %v, %d in %d", what, got, len(list), requests.reads, headroom.NotAsked, found, reads)
		}
	}
	check(0, 0, "not known whether they are served")
	client.err = nil
	check(1, 1, "one is left")
	requests.left = 0
	check(0, 2, "it was deleted")
	check(0, 2, "none is left")
}

// leftRequests are ProvisioningRequests that an updater before has created.
type leftRequests struct{ left, reads int }

func (r *leftRequests) List(context.Context) ([]cluster.CapacityRequest, error) {
	r.reads++
	return make([]cluster.CapacityRequest, r.left), nil
}
