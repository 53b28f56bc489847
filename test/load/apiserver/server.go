// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiserver is an API server that keeps everything in memory, for measurements with many objects. It sends what a real one sends:
// protobuf, JSON and metadata only, lists in pages with continue tokens, streamed lists, bookmarks, status 410 for expired versions, compressed
// responses; and it accepts JSON patches, merge patches and strategic merge patches.
//
// It differs from a real one: it does not authenticate, validate, convert, default or prune. Server-side apply merges without field managers.
// Pods are deleted at once.
package apiserver

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Options change the server. Zero values mean the values of a real API server.
type Options struct {
	Events      int           // how many events of a collection are kept for watches
	SnapshotTTL time.Duration // how long continue tokens are valid
	Bookmarks   time.Duration // time between two bookmarks of a watch

	Usage   func(pod *Object, container int, at time.Time) (nanocores, bytes int64) // of a container, for the Metrics API
	Written func(*Object)                                                           // called after each write of a client that stores an object
	Evicted func(*Object)                                                           // called after a pod was evicted or deleted by a client
	Resized func(*Object)                                                           // called after pods/resize

	Refuse   func(Request) error                                           // called before each request; an error is the answer, and the function may take its time
	Measured func(pod *Object, at time.Time) (measured time.Time, ok bool) // changes the time of a measurement for the Metrics API, or leaves it out
	Wrote    func(Exchange)                                                // called after each write of a client that reached the stored objects or lacked a right
	Changed  func(o, before *Object)                                       // called after each change, also those of this process, in order; o is nil after a deletion. It must not call the server
}

// An Exchange is a write and its answer.
type Exchange struct {
	Request
	At                   time.Time // of the request
	Token, URI           string
	Kind                 *Kind
	Sub, Namespace, Name string
	Body                 []byte // in JSON
	Code                 int
	Message              string  // of an error
	Stored               *Object // the object after the write, or the one that was deleted; nil if there is none
}

func (o Options) withDefaults() Options {
	o.Events = cmp.Or(o.Events, 50_000)
	o.SnapshotTTL = cmp.Or(o.SnapshotTTL, 5*time.Minute)
	o.Bookmarks = cmp.Or(o.Bookmarks, time.Minute)
	return o
}

// A Server is an API server. It is safe for several goroutines.
type Server struct {
	*store
	counter counter
	http    *httptest.Server
	stopped chan struct{}

	cuts sync.Mutex
	cut  chan struct{} // closed to end the watches that are open
}

// Start starts a server on a free port of the loopback interface, with TLS and HTTP/2.
func Start(o Options) *Server {
	s := &Server{store: newStore(o.withDefaults()), counter: counter{counts: make(Counts)}, stopped: make(chan struct{}), cut: make(chan struct{})}
	s.http = httptest.NewUnstartedServer(s)
	s.http.EnableHTTP2 = true
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.http.StartTLS()
	return s
}

// Stop ends all watches and stops the server.
func (s *Server) Stop() {
	close(s.stopped)
	s.http.CloseClientConnections()
	s.http.Close()
}

// URL returns the address of the server.
func (s *Server) URL() string { return s.http.URL }

// Counts returns the requests since the start.
func (s *Server) Counts() Counts { return s.counter.all() }

// A request is a parsed request.
type request struct {
	*http.Request
	collection           *collection
	kind                 *Kind
	namespace, name, sub string
	query                url.Values
	selector             selector
	form                 form
	received             int
	isDocument           bool // not a resource
	body                 []byte
	stored               *Object // or deleted by this request
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := &meter{ResponseWriter: w, code: http.StatusOK}
	q := &request{Request: r, query: r.URL.Query()}
	at := time.Now()
	err := s.serve(m, q)
	if err != nil {
		s.fail(m, q, err)
	}
	s.exchanged(q, at, m.code, err)
	n := Count{Received: int64(q.received), Sent: m.sent}
	if !m.counted {
		n.Requests = 1
	}
	if m.code >= http.StatusBadRequest {
		n.Failed = 1
	}
	s.counter.add(q.counted(), n)
}

// exchanged passes on a write and its answer.
func (s *Server) exchanged(q *request, at time.Time, code int, err error) {
	counted := q.counted()
	if s.o.Wrote == nil || q.collection == nil || q.body == nil && code != http.StatusForbidden || !counted.Writes() {
		return
	}
	x := Exchange{
		Request: counted, At: at, Token: strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer "), URI: q.URL.RequestURI(),
		Kind: q.kind, Sub: q.sub, Namespace: q.namespace, Name: q.name, Body: asJSON(q.body), Code: code, Stored: q.stored,
	}
	if contentType(q.Request) == runtime.ContentTypeProtobuf {
		x.Body = nil
		if o, _, err := scheme.Codecs.UniversalDeserializer().Decode(q.body, nil, nil); err == nil {
			x.Body, _ = json.Marshal(o) // it was decoded
		}
	}
	if err != nil {
		x.Message = err.Error()
	}
	if x.Name == "" && x.Stored != nil {
		x.Name = x.Stored.Name
	}
	s.o.Wrote(x)
}

// counted returns what the request is counted as.
func (q *request) counted() Request {
	return Request{Client: clientOf(q.UserAgent()), Verb: q.verb(), Resource: q.resource()}
}

func (s *Server) serve(w *meter, q *request) error {
	parseErr := s.parse(q)
	if s.o.Refuse != nil {
		if err := s.o.Refuse(q.counted()); err != nil {
			return err
		}
	}
	if served, err := s.serveDocument(w, q); served || err != nil {
		q.isDocument = true
		return err
	}
	if parseErr != nil {
		return parseErr
	}
	var err error
	if q.selector, err = selectorOf(q.query); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if q.kind == metricsKind {
		return s.serveMetrics(w, q)
	}
	var ok bool
	if q.form, ok = formOf(q.Request, q.kind); !ok {
		return newError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "only JSON is served")
	}
	switch {
	case q.Method == http.MethodGet && q.name == "" && isTrue(q.query.Get("watch")):
		return s.serveWatch(w, q)
	case q.Method == http.MethodGet && q.name == "":
		return s.serveList(w, q)
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return err
	}
	q.received = len(body)
	q.body = body
	if slices.Contains(reviews, q.kind) {
		return s.serveReview(w, q, body)
	}
	return s.serveObject(w, q, body)
}

func isTrue(value string) bool {
	b, err := strconv.ParseBool(value)
	return err == nil && b
}

// parse finds the collection, the namespace, the name and the subresource of a path.
func (s *Server) parse(q *request) error {
	parts := strings.Split(strings.Trim(q.URL.Path, "/"), "/")
	notFound := newError(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	var group, version string
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return notFound
	}
	if parts[0] == "namespaces" && len(parts) > 2 && !(group == "" && len(parts) == 3 && parts[2] == "status") {
		q.namespace = parts[1]
		parts = parts[2:]
	}
	if len(parts) > 1 {
		q.name = parts[1]
	}
	if len(parts) > 2 {
		q.sub = parts[2]
	}
	for _, k := range append(slices.Clone(reviews), metricsKind) {
		if k.Group == group && k.Version == version && k.Resource == parts[0] {
			q.kind = k
			return nil
		}
	}
	c := s.collections[group+"/"+parts[0]]
	if c == nil || c.kind.Version != version {
		return notFound
	}
	q.collection = c
	q.kind = c.kind
	return nil
}

func (q *request) verb() string {
	switch q.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	switch {
	case q.kind == nil || q.name != "":
		return "get"
	case isTrue(q.query.Get("watch")):
		return "watch"
	}
	return "list"
}

// resource names the resource as in rules of RBAC, with its group.
func (q *request) resource() string {
	if q.isDocument {
		return "documents"
	}
	if q.kind == nil {
		return q.URL.Path
	}
	out := strings.TrimSuffix(q.kind.Resource+"."+q.kind.Group, ".")
	if q.sub != "" {
		out += "/" + q.sub
	}
	return out
}

func newError(code int, reason metav1.StatusReason, message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message}}
}

func (q *request) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: q.kind.Group, Resource: q.kind.Resource}
}

func (s *Server) fail(w *meter, q *request, err error) {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		status = newError(http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
	}
	if d := status.ErrStatus.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	form := q.form
	form.partial = false
	respond(w, q, int(status.ErrStatus.Code), form.contentType(false), form.status(new(status.ErrStatus)))
}

// compressFrom is the size of a response from which a real API server compresses it.
const compressFrom = 128 << 10

func respond(w *meter, q *request, code int, contentType string, body []byte) {
	w.sent += int64(len(body))
	w.Header().Set("Content-Type", contentType)
	if len(body) < compressFrom || !strings.Contains(q.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(code)
		_, _ = w.Write(body) // the client may be gone
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(code)
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
	_, _ = z.Write(body)
	_ = z.Close()
}

func (s *Server) serveList(w *meter, q *request) error {
	now := time.Now()
	limit, _ := strconv.Atoi(q.query.Get("limit"))
	scope := strings.Join([]string{q.kind.Group, q.kind.Resource, q.namespace, q.query.Get("fieldSelector"), q.query.Get("labelSelector")}, "|")
	list, from := new(snapshot), 0
	if token := q.query.Get("continue"); token != "" {
		if list, from = s.resume(scope, token, now); list == nil {
			return apierrors.NewResourceExpired("the provided continue token is too old")
		}
	} else {
		if q.query.Get("resourceVersion") == "0" {
			limit = 0 // served from the watch cache
		}
		list.objects, list.version = s.list(q.collection, q.namespace, q.selector)
		list.at = now
	}
	objects, next := page(list, from, limit)
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatInt(list.version, 10), Continue: next}
	if next != "" {
		if from == 0 {
			s.keep(scope, list)
		}
		if q.selector.everything() {
			meta.RemainingItemCount = new(int64(len(list.objects) - from - len(objects)))
		}
	}
	respond(w, q, http.StatusOK, q.form.contentType(false), q.form.list(q.kind, objects, meta))
	return nil
}
