// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

const mib = 1 << 20

// expensiveReviews returns the reviews that take the most time or memory, by what is large in them. Most have the largest size that
// an API server sends.
func expensiveReviews() map[string][]byte {
	const size = 4_500_000
	fill := func(before, unit, after string) string {
		return before + strings.Repeat(unit, (size-len(before)-len(after))/len(unit)) + after
	}
	pod := func(object string) []byte {
		return []byte(`{"request":{"uid":"u","namespace":"shop","operation":"CREATE","resource":{"version":"v1","resource":"pods"},"object":` + object + `}}`)
	}
	const owner = `"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"cart","controller":true}]`
	vpa := func(object string) []byte {
		return []byte(`{"request":{"uid":"u","namespace":"shop","operation":"UPDATE","resource":{"group":"autoscaling.k8s.io","resource":"verticalpodautoscalers"},"oldObject":{},"object":` + object + `}}`)
	}
	const target = `"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}`
	out := map[string][]byte{
		"containers":                           pod(fill(`{"metadata":{`+owner+`},"spec":{"containers":[`, `{},`, `{}]}}`)),
		"init containers":                      pod(fill(`{"metadata":{`+owner+`},"spec":{"initContainers":[`, `{},`, `{}]}}`)),
		"null containers":                      pod(fill(`{"metadata":{`+owner+`},"spec":{"containers":[`, `null,`, `{}]}}`)),
		"owners":                               pod(fill(`{"metadata":{"ownerReferences":[`, `{},`, `{}]}}`)),
		"claims":                               pod(fill(`{"metadata":{`+owner+`},"spec":{"containers":[{"name":"app","resources":{"claims":[`, `{},`, `{}]}}]}}`)),
		"volumes":                              pod(fill(`{"metadata":{`+owner+`},"spec":{"volumes":[`, `{},`, `{}]}}`)),
		"requests":                             pod(fill(`{"metadata":{`+owner+`},"spec":{"containers":[{"name":"app","resources":{"requests":{`, `"a":"1",`, `"cpu":"1"}}}]}}`)),
		"variables":                            pod(fill(`{"metadata":{`+owner+`},"spec":{"containers":[{"name":"app","env":[`, `{"name":"JAVA_X"},`, `{}]}]}}`)),
		"a long variable":                      pod(fill(`{"metadata":{`+owner+`},"spec":{"containers":[{"name":"app","env":[{"name":"JAVA_TOOL_OPTIONS","value":"`, `-Xmx1g `, `"}]}]}}`)),
		"arguments":                            pod(fill(`{"metadata":{`+owner+`},"spec":{"containers":[{"name":"app","args":[`, `"java",`, `""]}]}}`)),
		"a long argument":                      pod(fill(`{"metadata":{`+owner+`},"spec":{"containers":[{"name":"app","command":["sh","-c","`, `java -Xmx1g `, `"]}]}}`)),
		"a long image":                         pod(fill(`{"metadata":{`+owner+`},"spec":{"containers":[{"name":"app","image":"`, `java-`, `"}]}}`)),
		"sources of variables":                 pod(fill(`{"metadata":{`+owner+`},"spec":{"containers":[{"name":"app","envFrom":[`, `{},`, `{}]}]}}`)),
		"labels":                               pod(fill(`{"metadata":{`+owner+`,"labels":{`, `"podfit.dev/a":"",`, `"b":""}},"spec":{"containers":[{"name":"app"}]}}`)),
		"nested lists":                         pod(fill(`{"metadata":{`+owner+`},"spec":`, `[`, ``)),
		"a long name":                          pod(fill(`{"metadata":{`+owner+`},"spec":{"containers":[{"name":"`, `x`, `"}]}}`)),
		"a long quantity":                      pod(fill(`{"metadata":{`+owner+`},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"`, `9`, `"}}}]}}`)),
		"a small quantity":                     pod(`{"metadata":{` + owner + `},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1e-999999999"}}}]}}`),
		"a large quantity":                     pod(`{"metadata":{` + owner + `},"spec":{"containers":[{"name":"app","resources":{"limits":{"memory":1e-2147483647}}}]}}`),
		"policies":                             vpa(fill(`{"spec":{`+target+`,"resourcePolicy":{"containerPolicies":[`, `{},`, `{}]}}}`)),
		"recommenders":                         vpa(fill(`{"spec":{`+target+`,"recommenders":[`, `{},`, `{}]}}`)),
		"controlled resources":                 vpa(fill(`{"spec":{`+target+`,"resourcePolicy":{"containerPolicies":[{"containerName":"*","controlledResources":[`, `"",`, `""]}]}}}`)),
		"invalid policies":                     vpa(`{"spec":{` + target + `,"resourcePolicy":{"containerPolicies":[` + strings.Repeat(`{},`, maxValues-20) + `{}]}}}`),
		"a status":                             vpa(fill(`{"spec":{`+target+`},"status":{"recommendation":{"containerRecommendations":[`, `{},`, `{}]}}}`)),
		"managed fields":                       vpa(fill(`{"spec":{`+target+`},"metadata":{"managedFields":[`, `{},`, `{}]}}`)),
		"a long recommender":                   vpa(fill(`{"spec":{`+target+`,"recommenders":[{"name":"`, `x`, `"}]}}`)),
		"a VPA's small quantity":               vpa(`{"spec":{` + target + `,"resourcePolicy":{"containerPolicies":[{"containerName":"*","minAllowed":{"cpu":"1e-999999999"}}]}}}`),
		"a VPA's quantity with an escaped key": vpa(`{"spec":{` + target + `,"startupBoost":{"cpu":{"type":"Quantity","qu\u0061ntity":"1e-999999999"}}}}`),
		"the old object of a VPA":              []byte(strings.Replace(string(vpa(`{"spec":{`+target+`}}`)), `"oldObject":{}`, fill(`"oldObject":{"spec":{"resourcePolicy":{"containerPolicies":[`, `{},`, `{}]}}}`), 1)),
		"a long uid":                           []byte(fill(`{"request":{"uid":"`, `u`, `","operation":"CREATE","resource":{"version":"v1","resource":"pods"},"object":{}}}`)),
		"a long resource":                      []byte(fill(`{"request":{"uid":"u","operation":"CREATE","resource":{"version":"v1","resource":"`, `u`, `"},"object":{}}}`)),
		"quotes only":                          []byte(fill(`"`, `\"`, ``)),
	}
	return out
}

// allocated returns how many bytes a function allocates, including those that it no longer uses.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

func TestHandler_expensiveReviews_useBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	a := recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(100, mi(200)), "*": cluster.Amounts(1, 1)})
	h := handler(worldOf(a), Options{Gates: allGates})
	for name, body := range expensiveReviews() {
		var reply []byte
		bytesAllocated := allocated(func() { _, reply = post(h, "application/json", body) })
		// The buffer of the body doubles while the body arrives, which takes 16 MiB for 5 MiB. A long text is copied a few times.
		if bytesAllocated > 48*mib {
			t.Errorf("%s: %d MiB are allocated for a review of %d bytes", name, bytesAllocated/mib, len(body))
		}
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(reply, &review); err != nil || review.Response == nil {
			t.Errorf("%s: no response: %.200s", name, reply)
		}
	}
}

func TestHandler_objectBeyondBounds_isAdmittedUnchangedAndCounted(t *testing.T) {
	h := handler(worldOf(recommending("cart", map[string]cluster.Resources{"": cluster.Amounts(100, mi(200))})), Options{})
	bodies := expensiveReviews()
	for name, reason := range map[string]string{
		"containers": tooManyContainers, "init containers": tooManyContainers, "owners": tooManyOwners, "policies": tooManyValues,
		"a long name":             tooLongName,
		"the old object of a VPA": tooManyValues,
	} {
		before := testutil.ToFloat64(h.metrics.unchecked.WithLabelValues(reason))
		_, reply := post(h, "application/json", bodies[name])
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(reply, &review); err != nil || !review.Response.Allowed || review.Response.Patch != nil {
			t.Errorf("%s: %.200s", name, reply)
		}
		if n := testutil.ToFloat64(h.metrics.unchecked.WithLabelValues(reason)) - before; n != 1 {
			t.Errorf("%s: counted %v times", name, n)
		}
	}
}

func TestHandler_mostContainersAllowed_areSized(t *testing.T) {
	h := handler(worldOf(recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(100, mi(200))})), Options{})
	pod := cart("", `"containers":[`+strings.Repeat(`{"name":"other"},`, maxContainers-1)+`{"name":"app"}]`)
	if r := ask(t, h, createRequest(pod)); !bytes.Contains(r.Patch, []byte(`/spec/containers/255/resources`)) {
		t.Errorf("patch %.200s", r.Patch)
	}
}

// stalled is a request body of which only a part arrives. Read then blocks until end is closed.
type stalled struct {
	sent io.Reader
	end  <-chan struct{}
}

func (s *stalled) Read(p []byte) (int, error) {
	if n, _ := s.sent.Read(p); n > 0 {
		return n, nil
	}
	<-s.end
	return 0, io.ErrUnexpectedEOF
}

func (s *stalled) Close() error { return nil }

// deadlineRecorder is a response writer. It ends the reading of its request when a deadline is set.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	end func()
}

func (h deadlineRecorder) SetReadDeadline(time.Time) error { h.end(); return nil }

func TestHandler_stalledBodies_useBoundedMemoryAndBlockNoReviews(t *testing.T) {
	for name, c := range map[string]struct{ requests, sent int }{
		"only Content-Length": {2000, 1},
		"small, almost sent":  {2000, smallBody - 10},
		"large, half sent":    {80, 5 * mib / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := handler(worldOf(recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(100, mi(200))})), Options{})
				var statuses sync.Map
				var requests sync.WaitGroup
				ctx, cancel := context.WithCancel(t.Context())
				zeros := make([]byte, c.sent)
				before := heapInUse()
				for i := range c.requests {
					requestContext, end := context.WithCancel(ctx)
					r := httptest.NewRequestWithContext(requestContext, http.MethodPost, "/", &stalled{bytes.NewReader(zeros), requestContext.Done()})
					r.ContentLength = 4_500_000
					r.Header.Set("Content-Type", "application/json")
					requests.Go(func() {
						w := deadlineRecorder{httptest.NewRecorder(), end}
						h.ServeHTTP(w, r)
						statuses.Store(i, w.Code)
					})
				}
				synctest.Wait()
				held := heapInUse() - before
				if most := int64(smallBytes + largeBytes + 16*mib); held > most {
					t.Errorf("%d MiB are held, want at most %d", held/mib, most/mib)
				}
				for _, usual := range [][]byte{
					[]byte(`{"request":{"uid":"u"}}`),
					append(review(t, createRequest(cart("", `"containers":[{"name":"app"}]`))), bytes.Repeat([]byte(" "), 1*mib)...),
				} {
					if status, reply := post(h, "application/json", usual); status != http.StatusOK {
						t.Errorf("a review of %d bytes gets status %d: %s", len(usual), status, reply)
					}
				}
				cancel()
				requests.Wait()
				busy := 0
				statuses.Range(func(_, status any) bool {
					if status == http.StatusTooManyRequests {
						busy++
					} else if status != http.StatusBadRequest {
						t.Errorf("a stalled body gets status %v", status)
					}
					return true
				})
				t.Logf("%d MiB held, %d of %d requests were rejected as too many", held/mib, busy, c.requests)
				if n := h.intake.small.held + h.intake.large.held + h.intake.small.arriving.Len() + h.intake.large.arriving.Len(); n != 0 {
					t.Errorf("%d bytes are still counted", n)
				}
			})
		})
	}
}

func review(t testing.TB, request *admissionv1.AdmissionRequest) []byte {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{Request: request})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// heapInUse returns the number of bytes of the live heap objects.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestServer_manyConnections_blockNoReviews(t *testing.T) {
	r := run(t, Config{Registration: usual})
	eventually(t, "serving", func() bool { return r.Check(t.Context()) == nil })
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	for range 3 * maxConnectionsPerIP {
		c, err := net.Dial("tcp", *r.address.Load())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	if err := r.Check(t.Context()); err != nil {
		t.Errorf("with many connections that send nothing: %v", err)
	}
	eventually(t, "the oldest connections are closed", func() bool {
		r.connections.mu.Lock()
		defer r.connections.mu.Unlock()
		return len(r.connections.all) <= maxConnectionsPerIP
	})
}

// conn is a connection from an address.
type conn struct {
	net.Conn
	from   string
	closed bool
}

func (c *conn) RemoteAddr() net.Addr { a, _ := net.ResolveTCPAddr("tcp", c.from+":1"); return a }
func (c *conn) Close() error         { c.closed = true; return nil }

func TestConnections_tooManyFromOneAddress_keepsThoseWithReviews(t *testing.T) {
	var cs connections
	api := &conn{from: "10.0.0.1"}
	cs.note(api, http.StateNew)
	cs.note(api, http.StateActive)
	cs.markReviewed(api)
	cs.note(api, http.StateIdle)
	closed := 0
	for range 3 * maxConnectionsPerIP {
		c := &conn{from: "10.0.0.1"}
		cs.note(c, http.StateNew)
		if c.closed {
			closed++
		}
	}
	if api.closed || closed > 0 {
		t.Errorf("the connection of the API server is closed: %t, want false; %d new connections are closed, want 0", api.closed, closed)
	}
}

func TestConnections_tooManyFromManyAddresses_closesThoseOfTheLargestClient(t *testing.T) {
	var cs connections
	var all []*conn
	connect := func(from string, state http.ConnState) *conn {
		c := &conn{from: from}
		all = append(all, c)
		cs.note(c, http.StateNew)
		if state != http.StateNew {
			cs.note(c, state)
		}
		return c
	}
	api := connect("10.0.0.1", http.StateActive)
	quiet := connect("10.0.0.1", http.StateIdle)
	for ip := range 20 {
		for range maxConnectionsPerIP {
			connect(fmt.Sprint("10.1.0.", ip), http.StateIdle)
			for _, c := range all {
				if c.closed {
					cs.note(c, http.StateClosed)
				}
			}
			all = slices.DeleteFunc(all, func(c *conn) bool { return c.closed })
		}
	}
	if len(cs.all) > maxConnections || api.closed || quiet.closed {
		t.Errorf("%d connections; those of the API server are closed: %t, %t", len(cs.all), api.closed, quiet.closed)
	}
	for _, c := range all {
		cs.note(c, http.StateClosed)
	}
	if len(cs.all) != 0 {
		t.Errorf("%d connections are still counted", len(cs.all))
	}
}

func TestConnections_oneFromEachOfManyAddresses_doNotBlockTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cs connections
		for ip := range maxConnections {
			cs.note(&conn{from: fmt.Sprintf("10.1.%d.%d", ip/250, ip%250)}, http.StateNew)
			time.Sleep(time.Millisecond)
		}
		for i := range 3 {
			api := &conn{from: "10.0.0.1"}
			cs.note(api, http.StateNew)
			if api.closed {
				t.Fatalf("connection %d of the API server is closed", i)
			}
		}
		if len(cs.all) != maxConnections {
			t.Errorf("there are %d connections, want %d", len(cs.all), maxConnections)
		}
	})
}

func TestConnections_manySlowFirstRequests_doNotBlockTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cs connections
		for range 3 * maxConnections {
			c := &conn{from: "10.1.0.1"}
			cs.note(c, http.StateNew)
			cs.note(c, http.StateActive)
		}
		if most := 2 * maxConnections; len(cs.all) > most {
			t.Errorf("there are %d connections, want at most %d", len(cs.all), most)
		}
		for _, from := range []string{"10.0.0.1", "10.1.0.1"} { // its own address, and that of the slow client
			api := &conn{from: from}
			cs.note(api, http.StateNew)
			if api.closed {
				t.Errorf("the connection of the API server from %s is closed", from)
			}
			cs.note(api, http.StateActive)
			cs.markReviewed(api)
			time.Sleep(slowRequest)
			for range 3 * maxConnections {
				c := &conn{from: "10.1.0.1"}
				cs.note(c, http.StateNew)
				cs.note(c, http.StateActive)
			}
			if api.closed {
				t.Errorf("the busy connection of the API server from %s is closed", from)
			}
		}
		if len(cs.all) > 2*maxConnections {
			t.Errorf("there are %d connections", len(cs.all))
		}
	})
}

func TestConnections_manyConcurrentFirstRequests_areNotClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cs connections
		var all []*conn
		for range 3 * maxConnectionsPerIP { // API servers behind one address that speak HTTP/1.1
			c := &conn{from: "10.0.0.1"}
			all = append(all, c)
			cs.note(c, http.StateNew)
			cs.note(c, http.StateActive)
		}
		for i, c := range all {
			if c.closed {
				t.Errorf("connection %d is closed during a request", i)
			}
		}
	})
}
