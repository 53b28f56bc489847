// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubetest contains fake API servers and sample objects for tests. The servers implement only what the clients of package
// kube need.
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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
)

// A FakeAPI is an API server for tests. It supports paged lists, watches, and JSON patches with resource versions. It responds in JSON only.
// It stores the objects of all collections without validation. Reply, Handle and OnEvict change what it does. It is safe for several goroutines.
type FakeAPI struct {
	t      testing.TB
	server *httptest.Server

	mu       sync.Mutex
	version  int
	objects  map[string]map[string]any // by collection, then namespace/name
	history  []fakeEvent
	wake     chan struct{} // closed at each event
	stopping chan struct{} // closed when the server stops
	prune    func(object map[string]any)
	handlers []Handler
	log      []Request
	bodies   map[string]string // last body by method and path
	queries  map[string]string // query of the last list by collection
	replies  map[string]fakeReply
	pages    map[string]int // number of list responses by collection
	replied  map[string]int // number of requests that got a fixed response
}

type fakeEvent struct {
	version    int
	kind       string
	collection string
	object     map[string]any
}

// A fakeReply is the fixed response to a request.
type fakeReply struct {
	code int
	body string
}

// NewFakeAPI starts an API server that is stopped when the test ends.
func NewFakeAPI(t testing.TB) *FakeAPI {
	f := newFakeAPI(t)
	f.server = httptest.NewServer(f)
	t.Cleanup(f.Stop)
	return f
}

func newFakeAPI(t testing.TB) *FakeAPI {
	return &FakeAPI{
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
}

// Stop closes all connections and stops the server. Stored objects are kept. A server that is stopped already stays so.
func (f *FakeAPI) Stop() {
	f.mu.Lock()
	select {
	case <-f.stopping:
	default:
		close(f.stopping) // ends the watches, for which Close would wait, also those that begin now
	}
	f.mu.Unlock()
	f.server.CloseClientConnections()
	f.server.Close()
}

// Start starts a stopped server again on the same port, with the stored objects.
func (f *FakeAPI) Start() {
	f.t.Helper()
	l, err := net.Listen("tcp", f.server.Listener.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	f.stopping = make(chan struct{})
	f.mu.Unlock()
	f.server = &httptest.Server{Listener: l, Config: &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}}
	f.server.Start()
}

// URL returns the address of the server.
func (f *FakeAPI) URL() string { return f.server.URL }

// Config returns the configuration of a client of the server.
func (f *FakeAPI) Config() *rest.Config { return &rest.Config{Host: f.server.URL, QPS: -1} }

// Apply creates or replaces an object, given as JSON, in a collection such as "/api/v1/pods".
func (f *FakeAPI) Apply(collection, object string) {
	f.t.Helper()
	o := make(map[string]any)
	if err := json.Unmarshal([]byte(object), &o); err != nil {
		f.t.Fatalf("%v in %s", err, object)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store(collection, o)
}

// Delete deletes the object with the key "namespace/name".
func (f *FakeAPI) Delete(collection, key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(collection, key)
}

// Reply makes the server send a fixed response to requests with a method, or WATCH, and a path ("GET /api/v1/nodes").
func (f *FakeAPI) Reply(methodAndPath string, code int, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replies[methodAndPath] = fakeReply{code, body}
}

// ForgetReply reverts Reply.
func (f *FakeAPI) ForgetReply(methodAndPath string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.replies, methodAndPath)
}

// Refusals returns the number of requests with a method and path that got the response of Reply.
func (f *FakeAPI) Refusals(methodAndPath string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.replied[methodAndPath]
}

// Body returns the body of the last request with a method and path.
func (f *FakeAPI) Body(methodAndPath string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bodies[methodAndPath]
}

// PruneWrites makes the server call prune on each object that a request changes, as an API server prunes unknown fields.
func (f *FakeAPI) PruneWrites(prune func(object map[string]any)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.prune = prune
}

// Lists returns the number of list responses of a collection, and the query of the last list.
func (f *FakeAPI) Lists(collection string) (responses int, query string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pages[collection], f.queries[collection]
}

// Keys returns the sorted keys of the objects of a collection.
func (f *FakeAPI) Keys(collection string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.objects[collection]))
}

// Object returns the object with the key "namespace/name", nil if there is none.
func (f *FakeAPI) Object(collection, key string) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, _ := f.objects[collection][key].(map[string]any)
	return o
}

// MetaOf returns the metadata of an object.
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
	if f.objects[collection] == nil {
		f.objects[collection] = make(map[string]any)
	}
	if f.objects[collection][keyOf(o)] == nil {
		kind = "ADDED"
	}
	f.objects[collection][keyOf(o)] = o
	f.event(kind, collection, o)
}

func (f *FakeAPI) drop(collection, key string) bool {
	o, ok := f.objects[collection][key].(map[string]any)
	if ok {
		delete(f.objects[collection], key)
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

// ServeHTTP implements http.Handler.
func (f *FakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	f.mu.Lock()
	f.log = append(f.log, q)
	handlers := f.handlers
	f.mu.Unlock()
	for _, h := range handlers {
		if h(w, r, q) {
			return
		}
	}
	f.serve(w, r, &q)
}

func (f *FakeAPI) serve(w http.ResponseWriter, r *http.Request, q *Request) {
	data, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	if !q.isList() {
		f.bodies[q.Verb+" "+q.Path] = string(data)
	}
	reply, ok := f.reply(q)
	f.mu.Unlock()
	switch {
	case ok:
		Respond(w, reply.code, reply.body)
	case q.Verb == "WATCH":
		f.watch(w, r, q)
	default:
		f.answer(w, r, q, data)
	}
}

// reply returns the response that the test has set for a request. Who may not list objects may not watch them either.
func (f *FakeAPI) reply(q *Request) (fakeReply, bool) {
	id := q.Verb + " " + q.Path
	list := "GET " + q.Path
	if q.Verb == "WATCH" && f.replies[list].code == http.StatusForbidden {
		id = list
	}
	reply, ok := f.replies[id]
	if ok {
		f.replied[id]++
	}
	return reply, ok
}

func (f *FakeAPI) answer(w http.ResponseWriter, r *http.Request, q *Request, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case q.isList():
		f.list(w, r, q)
	case r.Method == http.MethodGet:
		f.respond(w, f.objects[q.Collection][q.key()], q)
	case r.Method == http.MethodPost && q.Name == "":
		o := decode(r, data)
		MetaOf(o)["namespace"] = q.Namespace
		if f.objects[q.Collection][keyOf(o)] != nil {
			f.fail(w, http.StatusConflict, "AlreadyExists", "exists")
			return
		}
		if f.prune != nil {
			f.prune(o)
		}
		f.store(q.Collection, o)
		f.respond(w, o, q)
	case r.Method == http.MethodPut:
		f.update(w, q, decode(r, data))
	case r.Method == http.MethodPatch:
		f.patch(w, q, data)
	case r.Method == http.MethodDelete:
		f.remove(w, q, data)
	default:
		Respond(w, http.StatusOK, Success)
	}
}

func (f *FakeAPI) remove(w http.ResponseWriter, q *Request, data []byte) {
	var o struct {
		Preconditions struct{ UID, ResourceVersion string }
	}
	_ = json.Unmarshal(data, &o) // in protobuf, it is not decoded
	have, _ := f.objects[q.Collection][q.key()].(map[string]any)
	want := o.Preconditions.ResourceVersion
	switch {
	case have == nil:
		f.fail(w, http.StatusNotFound, "NotFound", q.Name+" not found")
	case want != "" && want != MetaOf(have)["resourceVersion"]:
		f.fail(w, http.StatusConflict, "Conflict", "precondition")
	default:
		f.drop(q.Collection, q.key())
		Respond(w, http.StatusOK, Success)
	}
}

func (f *FakeAPI) patch(w http.ResponseWriter, q *Request, data []byte) {
	have, ok := f.objects[q.Collection][q.key()].(map[string]any)
	if !ok {
		f.fail(w, http.StatusNotFound, "NotFound", q.Name+" not found")
		return
	}
	before, _ := json.Marshal(have)
	ops, err := jsonpatch.DecodePatch(data)
	if err != nil { // another patch type: it is not applied, tests check its body
		f.respond(w, have, q)
		return
	}
	after, err := ops.Apply(before)
	if err != nil {
		f.fail(w, http.StatusUnprocessableEntity, "Invalid", err.Error())
		return
	}
	o := make(map[string]any)
	_ = json.Unmarshal(after, &o)
	f.update(w, q, o)
}

func (f *FakeAPI) update(w http.ResponseWriter, q *Request, o map[string]any) {
	have, ok := f.objects[q.Collection][q.key()].(map[string]any)
	switch {
	case !ok:
		f.fail(w, http.StatusNotFound, "NotFound", q.Name+" not found")
	case MetaOf(o)["resourceVersion"] != MetaOf(have)["resourceVersion"]:
		f.fail(w, http.StatusConflict, "Conflict", "the object has been modified")
	default:
		if f.prune != nil {
			f.prune(o)
		}
		f.store(q.Collection, o)
		f.respond(w, o, q)
	}
}

func (f *FakeAPI) respond(w http.ResponseWriter, o any, q *Request) {
	if o == nil {
		f.fail(w, http.StatusNotFound, "NotFound", q.Name+" not found")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o)
}

func (f *FakeAPI) fail(w http.ResponseWriter, code int, reason, message string) {
	Respond(w, code, Failure(code, reason, message))
}

// fakeKinds contains the API version and kind of the objects of each collection.
var fakeKinds = map[string][2]string{
	"/api/v1/pods":         {"v1", "Pod"},
	"/api/v1/podtemplates": {"v1", "PodTemplate"},
	"/apis/autoscaling.x-k8s.io/v1/provisioningrequests": {"autoscaling.x-k8s.io/v1", "ProvisioningRequest"},
	"/api/v1/nodes":                                                {"v1", "Node"},
	"/api/v1/services":                                             {"v1", "Service"},
	"/api/v1/events":                                               {"v1", "Event"},
	"/api/v1/limitranges":                                          {"v1", "LimitRange"},
	"/api/v1/resourcequotas":                                       {"v1", "ResourceQuota"},
	"/apis/policy/v1/poddisruptionbudgets":                         {"policy/v1", "PodDisruptionBudget"},
	"/api/v1/replicationcontrollers":                               {"v1", "ReplicationController"},
	"/apis/apps/v1/replicasets":                                    {"apps/v1", "ReplicaSet"},
	"/apis/apps/v1/statefulsets":                                   {"apps/v1", "StatefulSet"},
	"/apis/apps/v1/daemonsets":                                     {"apps/v1", "DaemonSet"},
	"/apis/apps/v1/deployments":                                    {"apps/v1", "Deployment"},
	"/apis/autoscaling/v2/horizontalpodautoscalers":                {"autoscaling/v2", "HorizontalPodAutoscaler"},
	"/apis/batch/v1/jobs":                                          {"batch/v1", "Job"},
	"/apis/batch/v1/cronjobs":                                      {"batch/v1", "CronJob"},
	"/apis/autoscaling.k8s.io/v1/verticalpodautoscalers":           {"autoscaling.k8s.io/v1", "VerticalPodAutoscaler"},
	"/api/v1/namespaces":                                           {"v1", "Namespace"},
	"/api/v1/configmaps":                                           {"v1", "ConfigMap"},
	"/apis/autoscaling.k8s.io/v1/verticalpodautoscalercheckpoints": {"autoscaling.k8s.io/v1", "VerticalPodAutoscalerCheckpoint"},
	"/apis/metrics.k8s.io/v1beta1/pods":                            {"metrics.k8s.io/v1beta1", "PodMetrics"},
	"/apis/podfit.dev/v1alpha1/usagehistories":                     {"podfit.dev/v1alpha1", "UsageHistory"},
	"/apis/podfit.dev/v1alpha1/updatestates":                       {"podfit.dev/v1alpha1", "UpdateState"},
	"/apis/podfit.dev/v1alpha1/capacityplans":                      {"podfit.dev/v1alpha1", "CapacityPlan"},
	"/apis/podfit.dev/v1alpha1/sizingprofiles":                     {"podfit.dev/v1alpha1", "SizingProfile"},
}

// shown returns an object in the form that the client requested: with its kind, and possibly only its metadata.
func shown(r *http.Request, collection string, o map[string]any) map[string]any {
	out := maps.Clone(o)
	out["apiVersion"] = fakeKinds[collection][0]
	out["kind"] = fakeKinds[collection][1]
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		out = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": o["metadata"]}
	}
	return out
}

func (f *FakeAPI) list(w http.ResponseWriter, r *http.Request, q *Request) {
	kind, ok := fakeKinds[q.Collection]
	if !ok {
		f.fail(w, http.StatusNotFound, "NotFound", "no such collection "+q.Collection)
		return
	}
	query := r.URL.Query()
	f.pages[q.Collection]++
	f.queries[q.Collection] = r.URL.RawQuery
	keys := slices.Sorted(maps.Keys(f.objects[q.Collection]))
	keys = slices.DeleteFunc(keys, func(k string) bool {
		o, _ := f.objects[q.Collection][k].(map[string]any)
		return k <= query.Get("continue") || !selects(query.Get("fieldSelector"), o) || !selectsLabels(query.Get("labelSelector"), o) ||
			(q.Namespace != "" && MetaOf(o)["namespace"] != q.Namespace)
	})
	listMeta := map[string]any{"resourceVersion": strconv.Itoa(f.version)}
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 && len(keys) > limit {
		keys = keys[:limit]
		listMeta["continue"] = keys[limit-1]
	}
	items := make([]any, 0, len(keys))
	for _, k := range keys {
		o, _ := f.objects[q.Collection][k].(map[string]any)
		items = append(items, shown(r, q.Collection, o))
	}
	out := map[string]any{"apiVersion": kind[0], "kind": kind[1] + "List", "metadata": listMeta, "items": items}
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		out["apiVersion"] = "meta.k8s.io/v1"
		out["kind"] = "PartialObjectMetadataList"
	}
	f.respond(w, out, q)
}

// selects reports whether a field selector such as "a!=b,c=d" selects an object.
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
		if source, ok := v.(map[string]any); ok && path == "source" { // of events
			v = source["component"]
		}
		if s, _ := v.(string); (s == value) == negated {
			return false
		}
	}
	return true
}

// selectsLabels reports whether a label selector selects an object.
func selectsLabels(selector string, o map[string]any) bool {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return false
	}
	set := labels.Set{}
	values, _ := MetaOf(o)["labels"].(map[string]any)
	for name, v := range values {
		set[name], _ = v.(string)
	}
	return parsed.Matches(set)
}

func (f *FakeAPI) watch(w http.ResponseWriter, r *http.Request, q *Request) {
	query := r.URL.Query()
	if query.Get("sendInitialEvents") != "" {
		f.fail(w, http.StatusUnprocessableEntity, "Invalid", "sendInitialEvents is not supported")
		return
	}
	after, _ := strconv.Atoi(query.Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	flusher, _ := w.(http.Flusher)
	flusher.Flush()
	for {
		f.mu.Lock()
		wake := f.wake
		stopping := f.stopping
		var out []any
		for _, e := range f.history {
			if e.version > after && e.collection == q.Collection && selects(query.Get("fieldSelector"), e.object) &&
				(q.Namespace == "" || MetaOf(e.object)["namespace"] == q.Namespace) {
				out = append(out, map[string]any{"type": e.kind, "object": shown(r, q.Collection, e.object)})
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

// Eventually waits until a condition is true, and fails the test after 20 seconds.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("condition not met: %s", what)
		case <-tick.C:
		}
	}
}

// The paths of collections.
const (
	PodsPath        = "/api/v1/pods"
	nodesPath       = "/api/v1/nodes"
	ReplicaSetsPath = "/apis/apps/v1/replicasets"
	deploymentsPath = "/apis/apps/v1/deployments"
	AutoscalersPath = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"
	CheckpointsPath = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalercheckpoints"
)

// WebKey is the key of the autoscaler of ApplyShop.
var WebKey = cluster.Key{Namespace: "shop", Name: "web"}

// ApplyNode creates a node that is ready, with room for 110 pods.
func (f *FakeAPI) ApplyNode(name, cpu, memory string) {
	f.t.Helper()
	f.Apply(nodesPath, fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q},"status":{"allocatable":{"cpu":%q,"memory":%q,"pods":"110"},
		"conditions":[{"type":"Ready","status":"True"}]}}`, name, cpu, memory))
}

// ApplyPod creates a running pod with a controller of API group apps.
func (f *FakeAPI) ApplyPod(namespace, name, ownerKind, owner string) {
	f.t.Helper()
	f.Apply(PodsPath, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":%q,"ownerReferences":[
		{"apiVersion":"apps/v1","kind":%q,"name":%q,"uid":"u","controller":true}]},
		"spec":{"containers":[{"name":"app"}]},"status":{"phase":"Running"}}`, namespace, name, "uid of "+name, ownerKind, owner))
}

// ApplyShop creates the Deployment shop/web with three pods and its autoscaler.
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

// ApplyCart creates the ReplicaSet shop/cart and its autoscaler, which has a recommendation.
func (f *FakeAPI) ApplyCart() {
	f.t.Helper()
	f.Apply(ReplicaSetsPath, `{"metadata":{"namespace":"shop","name":"cart","uid":"r"}}`)
	f.Apply(AutoscalersPath, `{"metadata":{"namespace":"shop","name":"cart","uid":"a"},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"cart"},"updatePolicy":{"updateMode":"Recreate"}},
		"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":"350m","memory":"745Mi"}}]}}}`)
}

// At parses a time in RFC 3339 format.
func At(t testing.TB, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
