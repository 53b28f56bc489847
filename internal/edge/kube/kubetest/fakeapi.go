// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

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
type FakeAPI struct {
	Prune func(object map[string]any) // takes away what the CRD does not have

	t   testing.TB
	Srv *httptest.Server

	Mu       sync.Mutex
	version  int
	Objects  map[string]map[string]any // by collection, then namespace/name
	history  []fakeEvent
	wake     chan struct{}     // closed at each event
	stopping chan struct{}     // closed when the server stops
	Requests []string          // method and path of each, watches and lists excepted
	bodies   map[string]string // last body by the same
	Queries  map[string]string // last query of a list by collection
	replies  map[string]FakeReply
	Pages    map[string]int // lists answered by collection
	replied  map[string]int // how often each reply was given
}

type fakeEvent struct {
	version    int
	kind       string
	collection string
	object     map[string]any
}

// fakeReply is what to say to a request instead of storing it.
type FakeReply struct {
	Code int
	Body string
}

func NewFakeAPI(t testing.TB) *FakeAPI {
	f := &FakeAPI{
		t: t, version: 100,
		Objects:  make(map[string]map[string]any),
		wake:     make(chan struct{}),
		stopping: make(chan struct{}),
		bodies:   make(map[string]string),
		Queries:  make(map[string]string),
		replies:  make(map[string]FakeReply),
		Pages:    make(map[string]int),
		replied:  make(map[string]int),
	}
	f.Srv = httptest.NewServer(f)
	t.Cleanup(func() { f.Stop() })
	return f
}

func (f *FakeAPI) Stop() {
	f.Mu.Lock()
	close(f.stopping) // ends the watches, for which Close would wait
	f.Mu.Unlock()
	f.Srv.CloseClientConnections()
	f.Srv.Close()
}

// start serves again, on the port it had, and with what it had stored.
func (f *FakeAPI) Start() {
	f.t.Helper()
	l, err := net.Listen("tcp", f.Srv.Listener.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.Mu.Lock()
	f.stopping = make(chan struct{})
	f.Mu.Unlock()
	f.Srv = &httptest.Server{Listener: l, Config: &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}}
	f.Srv.Start()
}

// config returns how clients reach the API.
func (f *FakeAPI) Config() *rest.Config { return &rest.Config{Host: f.Srv.URL, QPS: -1} }

// apply stores an object, given as JSON, in a collection such as "/api/v1/pods".
func (f *FakeAPI) Apply(collection, object string) {
	f.t.Helper()
	o := make(map[string]any)
	if err := json.Unmarshal([]byte(object), &o); err != nil {
		f.t.Fatalf("%v in %s", err, object)
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.store(collection, o)
}

func (f *FakeAPI) Delete(collection, key string) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.drop(collection, key)
}

// reply answers requests of a method and path with a code and body from now on.
func (f *FakeAPI) Reply(methodAndPath string, code int, body string) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.replies[methodAndPath] = FakeReply{code, body}
}

func (f *FakeAPI) ForgetReply(methodAndPath string) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	delete(f.replies, methodAndPath)
}

// refusals returns how often a reply was given.
func (f *FakeAPI) Refusals(methodAndPath string) int {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.replied[methodAndPath]
}

func (f *FakeAPI) Seen() []string {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return slices.Clone(f.Requests)
}

func (f *FakeAPI) Body(methodAndPath string) string {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.bodies[methodAndPath]
}

func (f *FakeAPI) Object(collection, key string) map[string]any {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	o, _ := f.Objects[collection][key].(map[string]any)
	return o
}

func MetaOf(o map[string]any) map[string]any {
	m, ok := o["metadata"].(map[string]any)
	if !ok {
		m = make(map[string]any)
		o["metadata"] = m
	}
	return m
}

func keyOf(o map[string]any) string {
	ns, _ := MetaOf(o)["namespace"].(string)
	name, _ := MetaOf(o)["name"].(string)
	return ns + "/" + name
}

// The callers of store, drop and event hold the mutex.
func (f *FakeAPI) store(collection string, o map[string]any) {
	f.version++
	MetaOf(o)["resourceVersion"] = strconv.Itoa(f.version)
	if MetaOf(o)["uid"] == nil {
		MetaOf(o)["uid"] = fmt.Sprintf("uid-%d", f.version)
	}
	kind := "MODIFIED"
	if f.Objects[collection] == nil {
		f.Objects[collection] = make(map[string]any)
	}
	if f.Objects[collection][keyOf(o)] == nil {
		kind = "ADDED"
	}
	f.Objects[collection][keyOf(o)] = o
	f.event(kind, collection, o)
}

func (f *FakeAPI) drop(collection, key string) bool {
	o, ok := f.Objects[collection][key].(map[string]any)
	if ok {
		delete(f.Objects[collection], key)
		f.version++
		f.event("DELETED", collection, o)
	}
	return ok
}

func (f *FakeAPI) event(kind, collection string, o map[string]any) {
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

func (f *FakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, q := parsePlace(r.URL.Path), r.URL.Query()
	switch {
	case r.Method == http.MethodGet && p.name == "" && q.Get("watch") != "":
		f.watch(w, r, p)
	default:
		f.answer(w, r, p)
	}
}

func (f *FakeAPI) answer(w http.ResponseWriter, r *http.Request, p place) {
	data, _ := io.ReadAll(r.Body)
	f.Mu.Lock()
	defer f.Mu.Unlock()
	id := r.Method + " " + r.URL.Path
	isList := r.Method == http.MethodGet && p.name == ""
	if !isList {
		f.Requests = append(f.Requests, id)
		f.bodies[id] = string(data)
	}
	if reply, ok := f.replies[id]; ok {
		f.replied[id]++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(reply.Code)
		_, _ = io.WriteString(w, reply.Body)
		return
	}
	switch {
	case isList:
		f.list(w, r, p)
	case r.Method == http.MethodGet:
		f.say(w, f.Objects[p.collection][p.key()], p)
	case r.Method == http.MethodPost && p.name == "":
		o := make(map[string]any)
		_ = json.Unmarshal(data, &o)
		MetaOf(o)["namespace"] = p.namespace
		if f.Objects[p.collection][keyOf(o)] != nil {
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

func (f *FakeAPI) remove(w http.ResponseWriter, p place, data []byte) {
	var o struct {
		Preconditions struct{ UID, ResourceVersion string }
	}
	_ = json.Unmarshal(data, &o)
	have, _ := f.Objects[p.collection][p.key()].(map[string]any)
	want := o.Preconditions.ResourceVersion
	switch {
	case have == nil:
		f.fail(w, http.StatusNotFound, "NotFound", p.name+" not found")
	case want != "" && want != MetaOf(have)["resourceVersion"]:
		f.fail(w, http.StatusConflict, "Conflict", "precondition")
	default:
		f.drop(p.collection, p.key())
		f.say(w, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"}, p)
	}
}

func (f *FakeAPI) patch(w http.ResponseWriter, p place, data []byte) {
	have, ok := f.Objects[p.collection][p.key()].(map[string]any)
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

func (f *FakeAPI) update(w http.ResponseWriter, p place, o map[string]any) {
	have, ok := f.Objects[p.collection][p.key()].(map[string]any)
	switch {
	case !ok:
		f.fail(w, http.StatusNotFound, "NotFound", p.name+" not found")
	case MetaOf(o)["resourceVersion"] != MetaOf(have)["resourceVersion"]:
		f.fail(w, http.StatusConflict, "Conflict", "the object has been modified")
	default:
		if f.Prune != nil {
			f.Prune(o)
		}
		f.store(p.collection, o)
		f.say(w, o, p)
	}
}

func (f *FakeAPI) say(w http.ResponseWriter, o any, p place) {
	if o == nil {
		f.fail(w, http.StatusNotFound, "NotFound", p.name+" not found")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o)
}

func (f *FakeAPI) fail(w http.ResponseWriter, code int, reason, message string) {
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

func (f *FakeAPI) list(w http.ResponseWriter, r *http.Request, p place) {
	kind, ok := fakeKinds[p.collection]
	if !ok {
		f.fail(w, http.StatusNotFound, "NotFound", "no such collection "+p.collection)
		return
	}
	q := r.URL.Query()
	f.Pages[p.collection]++
	f.Queries[p.collection] = r.URL.RawQuery
	keys := slices.Sorted(maps.Keys(f.Objects[p.collection]))
	keys = slices.DeleteFunc(keys, func(k string) bool {
		o, _ := f.Objects[p.collection][k].(map[string]any)
		return k <= q.Get("continue") || !selects(q.Get("fieldSelector"), o) ||
			(p.namespace != "" && MetaOf(o)["namespace"] != p.namespace)
	})
	listMeta := map[string]any{"resourceVersion": strconv.Itoa(f.version)}
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 && len(keys) > limit {
		keys = keys[:limit]
		listMeta["continue"] = keys[limit-1]
	}
	items := make([]any, 0, len(keys))
	for _, k := range keys {
		o, _ := f.Objects[p.collection][k].(map[string]any)
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

func (f *FakeAPI) watch(w http.ResponseWriter, r *http.Request, p place) {
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
		f.Mu.Lock()
		wake, stopping := f.wake, f.stopping
		var out []any
		for _, e := range f.history {
			if e.version > after && e.collection == p.collection && selects(q.Get("fieldSelector"), e.object) &&
				(p.namespace == "" || MetaOf(e.object)["namespace"] == p.namespace) {
				out = append(out, map[string]any{"type": e.kind, "object": shown(r, p.collection, e.object)})
			}
		}
		after = f.version
		f.Mu.Unlock()
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
func Eventually(t *testing.T, what string, holds func() bool) {
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
	PodsPath        = "/api/v1/pods"
	ReplicaSetsPath = "/apis/apps/v1/replicasets"
	deploymentsPath = "/apis/apps/v1/deployments"
	AutoscalersPath = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"
	CheckpointsPath = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalercheckpoints"
)

var WebKey = cluster.Key{Namespace: "shop", Name: "web"}

func (f *FakeAPI) ApplyPod(namespace, name, ownerKind, owner string) {
	f.t.Helper()
	f.Apply(PodsPath, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":%q,"ownerReferences":[
		{"apiVersion":"apps/v1","kind":%q,"name":%q,"uid":"u","controller":true}]},
		"spec":{"containers":[{"name":"app"}]},"status":{"phase":"Running"}}`, namespace, name, "uid of "+name, ownerKind, owner))
}

func (f *FakeAPI) ApplyShop() {
	f.t.Helper()
	f.Apply(deploymentsPath, `{"metadata":{"namespace":"shop","name":"web"},"spec":{"replicas":3}}`)
	f.Apply(ReplicaSetsPath, `{"metadata":{"namespace":"shop","name":"web-1","ownerReferences":[
		{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"u","controller":true}]},"spec":{"replicas":3}}`)
	for i := range 3 {
		f.ApplyPod("shop", fmt.Sprintf("web-1-%d", i), "ReplicaSet", "web-1")
	}
	f.Apply(AutoscalersPath, `{"metadata":{"namespace":"shop","name":"web","uid":"v1","generation":4},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}`)
}

func At(t testing.TB, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
