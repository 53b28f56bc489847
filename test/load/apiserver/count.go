// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"maps"
	"net/http"
	"strings"
	"sync"
)

// A Request is what requests are counted by.
type Request struct {
	Client   string // the component that the user agent names
	Verb     string // as in audit logs: get, list, watch, create, update, patch, delete
	Resource string // with group and subresource: "pods/eviction", "deployments.apps"
}

// Writes reports whether the request changes an object.
func (r Request) Writes() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete":
		return !strings.Contains(r.Resource, "accessreviews")
	}
	return false
}

// A Count is the number of requests and their bytes.
type Count struct {
	Requests, Failed int
	Received, Sent   int64 // bytes of the bodies, before compression
}

// Counts are the requests since the start.
type Counts map[Request]Count

// Minus returns the requests since an earlier time.
func (c Counts) Minus(earlier Counts) Counts {
	out := make(Counts)
	for r, n := range c {
		before := earlier[r]
		n.Requests -= before.Requests
		n.Failed -= before.Failed
		n.Received -= before.Received
		n.Sent -= before.Sent
		if n != (Count{}) {
			out[r] = n
		}
	}
	return out
}

// Writes returns the number of requests that change objects, and their bytes.
func (c Counts) Writes() (requests int, bytes int64) {
	for r, n := range c {
		if r.Writes() {
			requests += n.Requests
			bytes += n.Received
		}
	}
	return requests, bytes
}

// Of returns the requests of one client.
func (c Counts) Of(client string) Counts {
	out := maps.Clone(c)
	maps.DeleteFunc(out, func(r Request, _ Count) bool { return r.Client != client })
	return out
}

type counter struct {
	mu     sync.Mutex
	counts Counts
}

func (c *counter) add(r Request, n Count) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.counts[r]
	have.Requests += n.Requests
	have.Failed += n.Failed
	have.Received += n.Received
	have.Sent += n.Sent
	c.counts[r] = have
}

func (c *counter) all() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// clientOf returns the component that a user agent names: "podfit/recommender v1" is podfit/recommender, "updater/v0.0.0 (linux/amd64)" is updater.
func clientOf(agent string) string {
	first, _, _ := strings.Cut(agent, " ")
	name, rest, _ := strings.Cut(first, "/")
	if name == "podfit" && rest != "" {
		return name + "/" + rest
	}
	return name
}

// A meter counts the bytes of a response, and remembers whether the request failed.
type meter struct {
	http.ResponseWriter
	code    int
	sent    int64
	counted bool // as a request already
}

// WriteHeader implements http.ResponseWriter.
func (m *meter) WriteHeader(code int) {
	m.code = code
	m.ResponseWriter.WriteHeader(code)
}

// Unwrap returns the writer below, for http.ResponseController.
func (m *meter) Unwrap() http.ResponseWriter { return m.ResponseWriter }
