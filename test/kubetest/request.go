// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// A Request is a request that a FakeAPI received.
type Request struct {
	Verb       string // the HTTP method, or WATCH
	Collection string // such as "/api/v1/pods"
	Namespace  string
	Name       string // of an object
	Sub        string // subresource
	Path       string
	Query      string
	Host       string
	At         time.Time
}

func requestOf(r *http.Request) Request {
	q := Request{Verb: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Host: r.Host, At: time.Now()}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	prefix := 2 // api/v1
	if parts[0] == "apis" {
		prefix = 3
	}
	if len(parts) <= prefix {
		q.Collection = r.URL.Path
		return q
	}
	rest := parts[prefix:]
	if rest[0] == "namespaces" && len(rest) > 2 {
		q.Namespace = rest[1]
		rest = rest[2:]
	}
	q.Collection = "/" + strings.Join(append(slices.Clone(parts[:prefix]), rest[0]), "/")
	if len(rest) > 1 {
		q.Name = rest[1]
	}
	if len(rest) > 2 {
		q.Sub = rest[2]
	}
	if q.isList() && r.URL.Query().Get("watch") != "" {
		q.Verb = "WATCH"
	}
	return q
}

// String returns the HTTP method, the path and the query: "GET /api/v1/pods?watch=true".
func (q Request) String() string {
	method := q.Verb
	if method == "WATCH" {
		method = http.MethodGet
	}
	return strings.TrimSuffix(method+" "+q.Path+"?"+q.Query, "?")
}

func (q *Request) key() string { return q.Namespace + "/" + q.Name }

// Kind returns the verb, the collection and the subresource: "POST /api/v1/pods/eviction".
func (q *Request) Kind() string {
	return strings.TrimSuffix(q.Verb+" "+q.Collection+"/"+q.Sub, "/")
}

// isList reports whether the request reads a collection.
func (q *Request) isList() bool {
	return q.Verb == "WATCH" || q.Verb == http.MethodGet && q.Name == ""
}

// A Handler sees a request before the FakeAPI. It returns true if it has responded.
type Handler func(w http.ResponseWriter, r *http.Request, q Request) bool

// Handle adds a handler. A handler that is added later sees requests before the others.
func (f *FakeAPI) Handle(h Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers = slices.Insert(slices.Clone(f.handlers), 0, h)
}

// NoAnswer is a Handler that never responds. A request ends when the client cancels it.
func NoAnswer(_ http.ResponseWriter, r *http.Request, _ Request) bool {
	<-r.Context().Done()
	return true
}

// Answer carries out a request in a Handler, which may give it another writer than its own, to send another response.
func (f *FakeAPI) Answer(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	f.serve(w, r, &q)
}

// OnEvict makes evictions delete their pods, and then call a function with the key of the pod.
func (f *FakeAPI) OnEvict(evicted func(namespace, name string)) {
	f.Handle(func(w http.ResponseWriter, _ *http.Request, q Request) bool {
		if q.Kind() != "POST /api/v1/pods/eviction" {
			return false
		}
		f.mu.Lock()
		found := f.drop(q.Collection, q.key())
		f.mu.Unlock()
		if !found {
			Respond(w, http.StatusNotFound, Failure(http.StatusNotFound, "NotFound", q.Name+" not found"))
			return true
		}
		evicted(q.Namespace, q.Name)
		Respond(w, http.StatusCreated, Success)
		return true
	})
}

// Log returns all requests, in the order in which they arrived.
func (f *FakeAPI) Log() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// Counts returns the number of requests by their Kind.
func (f *FakeAPI) Counts() map[string]int {
	counts := make(map[string]int)
	for _, q := range f.Log() {
		counts[q.Kind()]++
	}
	return counts
}

// Requests returns the method and path of each request except lists and watches, in order.
func (f *FakeAPI) Requests() []string {
	var out []string
	for _, q := range f.Log() {
		if !q.isList() {
			out = append(out, q.Verb+" "+q.Path)
		}
	}
	return out
}

// Respond sends a JSON response.
func Respond(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

// Success is the response to a request that returns no object.
const Success = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`

// Failure returns the body of a failed response. reason may be empty.
func Failure(code int, reason, message string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q,"details":{"name":"x"}}`, code, reason, message)
}

// decode returns the object in the body of a request, in JSON or protobuf.
func decode(r *http.Request, body []byte) map[string]any {
	if strings.HasPrefix(r.Header.Get("Content-Type"), runtime.ContentTypeProtobuf) {
		if o, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
			o.GetObjectKind().SetGroupVersionKind(*kind)
			body, _ = json.Marshal(o)
		}
	}
	o := make(map[string]any)
	_ = json.Unmarshal(body, &o)
	return o
}
