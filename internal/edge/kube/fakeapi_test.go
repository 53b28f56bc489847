// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/client-go/rest"
	"podfit.dev/podfit/internal/core/cluster"
)

// fakeAPI is as much of an API server as the tests of this package need: lists in pages, watches, JSON patches with
// resource versions, in JSON only. What it has no handler for it stores.
type fakeAPI struct {
	prune func(object map[string]any) // takes away what the CRD does not have

	t   testing.TB
	srv *httptest.Server

	mu       sync.Mutex
	version  int
	objects  map[string]map[string]any // by collection, then namespace/name
	history  []fakeEvent
	wake     chan struct{}     // closed at each event
	stopping chan struct{}     // closed when the server stops
	requests []string          // method and path of each, watches and lists excepted
	bodies   map[string]string // last body by the same
	queries  map[string]string // last query of a list by collection
	replies  map[string]fakeReply
	pages    map[string]int // lists answered by collection
	replied  map[string]int // how often each reply was given
}

type fakeEvent struct {
	version    int
	kind       string
	collection string
	object     map[string]any
}

// fakeReply is what to say to a request instead of storing it.
type fakeReply struct {
	code int
	body string
}

func newFakeAPI(t testing.TB) *fakeAPI {
	f := &fakeAPI{
		t: t, version: 100,
		objects:  make(map[string]map[string]any),
		wake:     make(chan struct{}),
		stopping: make(chan struct{}),
		bodies:   make(map[string]string),
		queries:  make(map[string]string),
		replies:  make(map[string]fakeReply),
		pages:    make(map[string]int),
		replied:  make(map[string]int),
	}
	f.srv = httptest.NewServer(f)
	t.Cleanup(func() { f.stop() })
	return f
}

func (f *fakeAPI) stop() {
	f.mu.Lock()
	close(f.stopping) // ends the watches, for which Close would wait
	f.mu.Unlock()
	f.srv.CloseClientConnections()
	f.srv.Close()
}

// start serves again, on the port it had, and with what it had stored.
func (f *fakeAPI) start() {
	f.t.Helper()
	l, err := net.Listen("tcp", f.srv.Listener.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	f.stopping = make(chan struct{})
	f.mu.Unlock()
	f.srv = &httptest.Server{Listener: l, Config: &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}}
	f.srv.Start()
}

// config returns how clients reach the API.
func (f *fakeAPI) config() *rest.Config { return &rest.Config{Host: f.srv.URL, QPS: -1} }

// apply stores an object, given as JSON, in a collection such as "/api/v1/pods".
func (f *fakeAPI) apply(collection, object string) {
	f.t.Helper()
	o := make(map[string]any)
	if err := json.Unmarshal([]byte(object), &o); err != nil {
		f.t.Fatalf("%v in %s", err, object)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store(collection, o)
}

func (f *fakeAPI) delete(collection, key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(collection, key)
}

// reply answers requests of a method and path with a code and body from now on.
func (f *fakeAPI) reply(methodAndPath string, code int, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replies[methodAndPath] = fakeReply{code, body}
}

func (f *fakeAPI) forgetReply(methodAndPath string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.replies, methodAndPath)
}

// refusals returns how often a reply was given.
func (f *fakeAPI) refusals(methodAndPath string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.replied[methodAndPath]
}

func (f *fakeAPI) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

func (f *fakeAPI) body(methodAndPath string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bodies[methodAndPath]
}

func (f *fakeAPI) object(collection, key string) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, _ := f.objects[collection][key].(map[string]any)
	return o
}

func metaOf(o map[string]any) map[string]any {
	m, ok := o["metadata"].(map[string]any)
	if !ok {
		m = make(map[string]any)
		o["metadata"] = m
	}
	return m
}

func keyOf(o map[string]any) string {
	ns, _ := metaOf(o)["namespace"].(string)
	name, _ := metaOf(o)["name"].(string)
	return ns + "/" + name
}

// The callers of store, drop and event hold the mutex.
func (f *fakeAPI) store(collection string, o map[string]any) {
	f.version++
	metaOf(o)["resourceVersion"] = strconv.Itoa(f.version)
	if metaOf(o)["uid"] == nil {
		metaOf(o)["uid"] = fmt.Sprintf("uid-%d", f.version)
	}
	kind := "MODIFIED"
	if f.objects[collection] == nil {
		f.objects[collection] = make(map[string]any)
	}
	if f.objects[collection][keyOf(o)] == nil {
		kind = "ADDED"
	}
	f.objects[collection][keyOf(o)] = o
	f.event(kind, collection, o)
}

func (f *fakeAPI) drop(collection, key string) bool {
	o, ok := f.objects[collection][key].(map[string]any)
	if ok {
		delete(f.objects[collection], key)
		f.version++
		f.event("DELETED", collection, o)
	}
	return ok
}

func (f *fakeAPI) event(kind, collection string, o map[string]any) {
	f.history = append(f.history, fakeEvent{f.version, kind, collection, o})
	close(f.wake)
	f.wake = make(chan struct{})
}

// place is where a path points: a collection, and perhaps an object in it and a subresource.
type place struct{ collection, namespace, name, sub string }

func (p place) key() string { return p.namespace + "/" + p.name }

func parsePlace(path string) place {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	prefix := 2 // api/v1
	if parts[0] == "apis" {
		prefix = 3
	}
	var p place
	if len(parts) <= prefix {
		return place{collection: path}
	}
	rest := parts[prefix:]
	if rest[0] == "namespaces" && len(rest) > 2 {
		p.namespace, rest = rest[1], rest[2:]
	}
	p.collection = "/" + strings.Join(append(slices.Clone(parts[:prefix]), rest[0]), "/")
	if len(rest) > 1 {
		p.name = rest[1]
	}
	if len(rest) > 2 {
		p.sub = rest[2]
	}
	return p
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, q := parsePlace(r.URL.Path), r.URL.Query()
	switch {
	case r.Method == http.MethodGet && p.name == "" && q.Get("watch") != "":
		f.watch(w, r, p)
	default:
		f.answer(w, r, p)
	}
}

func (f *fakeAPI) answer(w http.ResponseWriter, r *http.Request, p place) {
	data, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	id := r.Method + " " + r.URL.Path
	isList := r.Method == http.MethodGet && p.name == ""
	if !isList {
		f.requests = append(f.requests, id)
		f.bodies[id] = string(data)
	}
	if reply, ok := f.replies[id]; ok {
		f.replied[id]++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(reply.code)
		_, _ = io.WriteString(w, reply.body)
		return
	}
	switch {
	case isList:
		f.list(w, r, p)
	case r.Method == http.MethodGet:
		f.say(w, f.objects[p.collection][p.key()], p)
	case r.Method == http.MethodPost && p.name == "":
		o := make(map[string]any)
		_ = json.Unmarshal(data, &o)
		metaOf(o)["namespace"] = p.namespace
		if f.objects[p.collection][keyOf(o)] != nil {
			f.fail(w, http.StatusConflict, "AlreadyExists", "exists")
			return
		}
		f.store(p.collection, o)
		f.say(w, o, p)
	case r.Method == http.MethodPut:
		o := make(map[string]any)
		_ = json.Unmarshal(data, &o)
		f.update(w, p, o)
	case r.Method == http.MethodPatch:
		f.patch(w, p, data)
	case r.Method == http.MethodDelete:
		f.remove(w, p, data)
	default:
		f.say(w, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"}, p)
	}
}

func (f *fakeAPI) remove(w http.ResponseWriter, p place, data []byte) {
	var o struct {
		Preconditions struct{ UID, ResourceVersion string }
	}
	_ = json.Unmarshal(data, &o)
	have, _ := f.objects[p.collection][p.key()].(map[string]any)
	want := o.Preconditions.ResourceVersion
	switch {
	case have == nil:
		f.fail(w, http.StatusNotFound, "NotFound", p.name+" not found")
	case want != "" && want != metaOf(have)["resourceVersion"]:
		f.fail(w, http.StatusConflict, "Conflict", "precondition")
	default:
		f.drop(p.collection, p.key())
		f.say(w, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"}, p)
	}
}

func (f *fakeAPI) patch(w http.ResponseWriter, p place, data []byte) {
	have, ok := f.objects[p.collection][p.key()].(map[string]any)
	if !ok {
		f.fail(w, http.StatusNotFound, "NotFound", p.name+" not found")
		return
	}
	before, _ := json.Marshal(have)
	ops, err := jsonpatch.DecodePatch(data)
	if err != nil { // another kind of patch: the tests look at its body
		f.say(w, have, p)
		return
	}
	after, err := ops.Apply(before)
	if err != nil {
		f.fail(w, http.StatusUnprocessableEntity, "Invalid", err.Error())
		return
	}
	o := make(map[string]any)
	_ = json.Unmarshal(after, &o)
	f.update(w, p, o)
}

func (f *fakeAPI) update(w http.ResponseWriter, p place, o map[string]any) {
	have, ok := f.objects[p.collection][p.key()].(map[string]any)
	switch {
	case !ok:
		f.fail(w, http.StatusNotFound, "NotFound", p.name+" not found")
	case metaOf(o)["resourceVersion"] != metaOf(have)["resourceVersion"]:
		f.fail(w, http.StatusConflict, "Conflict", "the object has been modified")
	default:
		if f.prune != nil {
			f.prune(o)
		}
		f.store(p.collection, o)
		f.say(w, o, p)
	}
}

func (f *fakeAPI) say(w http.ResponseWriter, o any, p place) {
	if o == nil {
		f.fail(w, http.StatusNotFound, "NotFound", p.name+" not found")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o)
}

func (f *fakeAPI) fail(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
		"details": map[string]any{"name": "x"},
	})
}

// kinds of the collections, for the answers; the clients want to know.
var fakeKinds = map[string][2]string{
	"/api/v1/pods":                                       {"v1", "Pod"},
	"/api/v1/nodes":                                      {"v1", "Node"},
	"/api/v1/events":                                     {"v1", "Event"},
	"/api/v1/limitranges":                                {"v1", "LimitRange"},
	"/api/v1/resourcequotas":                             {"v1", "ResourceQuota"},
	"/api/v1/replicationcontrollers":                     {"v1", "ReplicationController"},
	"/apis/apps/v1/replicasets":                          {"apps/v1", "ReplicaSet"},
	"/apis/apps/v1/statefulsets":                         {"apps/v1", "StatefulSet"},
	"/apis/apps/v1/daemonsets":                           {"apps/v1", "DaemonSet"},
	"/apis/apps/v1/deployments":                          {"apps/v1", "Deployment"},
	"/apis/batch/v1/jobs":                                {"batch/v1", "Job"},
	"/apis/batch/v1/cronjobs":                            {"batch/v1", "CronJob"},
	"/apis/autoscaling.k8s.io/v1/verticalpodautoscalers": {"autoscaling.k8s.io/v1", "VerticalPodAutoscaler"},
	"/apis/autoscaling.k8s.io/v1/verticalpodautoscalercheckpoints": {"autoscaling.k8s.io/v1", "VerticalPodAutoscalerCheckpoint"},
	"/apis/podfit.dev/v1alpha1/usagehistories":                     {"podfit.dev/v1alpha1", "UsageHistory"},
	"/apis/podfit.dev/v1alpha1/sizingprofiles":                     {"podfit.dev/v1alpha1", "SizingProfile"},
}

// shown is an object as a client wants it: with its kind, and only its metadata if that is what it asked for.
func shown(r *http.Request, collection string, o map[string]any) map[string]any {
	out := maps.Clone(o)
	out["apiVersion"], out["kind"] = fakeKinds[collection][0], fakeKinds[collection][1]
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		out = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": o["metadata"]}
	}
	return out
}

func (f *fakeAPI) list(w http.ResponseWriter, r *http.Request, p place) {
	kind, ok := fakeKinds[p.collection]
	if !ok {
		f.fail(w, http.StatusNotFound, "NotFound", "no such collection "+p.collection)
		return
	}
	q := r.URL.Query()
	f.pages[p.collection]++
	f.queries[p.collection] = r.URL.RawQuery
	keys := slices.Sorted(maps.Keys(f.objects[p.collection]))
	keys = slices.DeleteFunc(keys, func(k string) bool {
		o, _ := f.objects[p.collection][k].(map[string]any)
		return k <= q.Get("continue") || !selects(q.Get("fieldSelector"), o) ||
			(p.namespace != "" && metaOf(o)["namespace"] != p.namespace)
	})
	listMeta := map[string]any{"resourceVersion": strconv.Itoa(f.version)}
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 && len(keys) > limit {
		keys = keys[:limit]
		listMeta["continue"] = keys[limit-1]
	}
	items := make([]any, 0, len(keys))
	for _, k := range keys {
		o, _ := f.objects[p.collection][k].(map[string]any)
		items = append(items, shown(r, p.collection, o))
	}
	out := map[string]any{"apiVersion": kind[0], "kind": kind[1] + "List", "metadata": listMeta, "items": items}
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		out["apiVersion"], out["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	f.say(w, out, p)
}

// selects is what a field selector of "a!=b,c=d" means for an object.
func selects(selector string, o map[string]any) bool {
	for term := range strings.SplitSeq(selector, ",") {
		path, value, negated := strings.Cut(term, "!=")
		if !negated {
			if path, value, _ = strings.Cut(term, "="); path == "" {
				continue
			}
		}
		var v any = o
		for field := range strings.SplitSeq(path, ".") {
			m, _ := v.(map[string]any)
			v = m[field]
		}
		if s, _ := v.(string); (s == value) == negated {
			return false
		}
	}
	return true
}

func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request, p place) {
	q := r.URL.Query()
	if q.Get("sendInitialEvents") != "" {
		f.fail(w, http.StatusUnprocessableEntity, "Invalid", "sendInitialEvents is not supported")
		return
	}
	after, _ := strconv.Atoi(q.Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	flusher, _ := w.(http.Flusher)
	flusher.Flush()
	for {
		f.mu.Lock()
		wake, stopping := f.wake, f.stopping
		var out []any
		for _, e := range f.history {
			if e.version > after && e.collection == p.collection && selects(q.Get("fieldSelector"), e.object) &&
				(p.namespace == "" || metaOf(e.object)["namespace"] == p.namespace) {
				out = append(out, map[string]any{"type": e.kind, "object": shown(r, p.collection, e.object)})
			}
		}
		after = f.version
		f.mu.Unlock()
		for _, e := range out {
			if json.NewEncoder(w).Encode(e) != nil {
				return
			}
		}
		flusher.Flush()
		select {
		case <-r.Context().Done():
			return
		case <-stopping:
			return
		case <-wake:
		}
	}
}

// eventually waits until a condition holds, and fails the test when it does not.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("still not so: %s", what)
		case <-tick.C:
		}
	}
}

const (
	podsPath        = "/api/v1/pods"
	replicaSetsPath = "/apis/apps/v1/replicasets"
	deploymentsPath = "/apis/apps/v1/deployments"
	autoscalersPath = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"
	checkpointsPath = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalercheckpoints"
)

var webKey = cluster.Key{Namespace: "shop", Name: "web"}

func (f *fakeAPI) applyPod(namespace, name, ownerKind, owner string) {
	f.t.Helper()
	f.apply(podsPath, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":%q,"ownerReferences":[
		{"apiVersion":"apps/v1","kind":%q,"name":%q,"uid":"u","controller":true}]},
		"spec":{"containers":[{"name":"app"}]},"status":{"phase":"Running"}}`, namespace, name, "uid of "+name, ownerKind, owner))
}

func (f *fakeAPI) applyShop() {
	f.t.Helper()
	f.apply(deploymentsPath, `{"metadata":{"namespace":"shop","name":"web"},"spec":{"replicas":3}}`)
	f.apply(replicaSetsPath, `{"metadata":{"namespace":"shop","name":"web-1","ownerReferences":[
		{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"u","controller":true}]},"spec":{"replicas":3}}`)
	for i := range 3 {
		f.applyPod("shop", fmt.Sprintf("web-1-%d", i), "ReplicaSet", "web-1")
	}
	f.apply(autoscalersPath, `{"metadata":{"namespace":"shop","name":"web","uid":"v1","generation":4},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}`)
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
