// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// errBroken is the error of a client whose connection is closed after the request was sent; errNotOpened is the error of a client
// that cannot open a connection.
var (
	server       = &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 443}
	errBroken    = &net.OpError{Op: "read", Net: "tcp", Addr: server, Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	errNotOpened = &net.OpError{Op: "dial", Net: "tcp", Addr: server, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
)

// RoundTrip is the simulated API server. It handles the requests of updaters about pods.
func (s *simulation) RoundTrip(q *http.Request) (*http.Response, error) {
	var body []byte
	if q.Body != nil {
		var err error
		if body, err = io.ReadAll(q.Body); err != nil {
			return nil, err
		}
		_ = q.Body.Close()
	}
	parts := strings.Split(strings.Trim(q.URL.Path, "/"), "/") // api v1 namespaces NS pods NAME [SUBRESOURCE]
	if len(parts) < 6 || parts[4] != "pods" {
		return nil, fmt.Errorf("the simulation does not support %s %s", q.Method, q.URL)
	}
	verb := "annotate"
	switch {
	case q.Method == http.MethodDelete:
		verb = "delete"
	case len(parts) == 7:
		verb = map[string]string{"resize": "resize", "eviction": "evict"}[parts[6]]
	}
	// Concurrent requests are handled one by one, in the same order in each run.
	sent := time.Now()
	late := wait(q, latency(verb, parts[5]))
	s.mu.Lock()
	w, p := s.find(parts[3], parts[5])
	if p == nil {
		s.mu.Unlock()
		return reply(q, refusal(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("pods %q not found", parts[5]), parts[5]))
	}
	what := ""
	if verb != "annotate" {
		what = w.fault(verb, p, s.minute())
	}
	if what == slowReply && late == nil {
		s.mu.Unlock()
		late = wait(q, 5*time.Second)
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	switch {
	case late != nil:
		if verb != "annotate" {
			s.record(w, p, verb, noReply)
		}
		return nil, late
	case what == noReply:
		s.record(w, p, verb, what)
		return nil, errBroken
	case what == notSent:
		s.record(w, p, verb, what)
		return nil, errNotOpened
	}
	p.sent = sent
	pod, status := s.answer(w, p, verb, what, q.Header.Get("Content-Type"), body)
	switch {
	case verb == "annotate":
	case status == nil:
		s.record(w, p, verb, "")
	case status.Message == otherUID: // the request was for an earlier pod of this name
		s.note("%s %s: %s", verb, p.pod.Name, status.Message)
	default:
		s.record(w, p, verb, status.Message)
	}
	switch {
	case what == lostReply && status == nil:
		return nil, errBroken
	case status != nil:
		return reply(q, status)
	}
	return reply(q, pod)
}

// otherUID is the reply to a request for a pod that was replaced by another one of the same name.
const otherUID = "Precondition failed: UID in precondition"

// record stores a request to change a pod and its reply; the reply is "" if the request was carried out.
func (s *simulation) record(w *simulated, p *replica, verb, said string) {
	if p.tried == nil {
		p.tried = map[string]int{}
	}
	p.tried[verb]++
	if old := p.replies[verb]; old == "" || old == "done" {
		p.since[verb] = s.minute()
	}
	if old := p.replies[verb]; old == "" || old == "done" || p.last[verb] < w.advisedAt(s.minute()) {
		p.triedFrom[verb] = s.minute()
	}
	p.lastAt, p.done = s.minute(), said == ""
	p.last[verb] = s.minute()
	if p.done {
		p.late = p.late || verb == "resize" && isRefusal(p.replies[verb])
		said, p.tried = "done", nil
	}
	p.replies[verb] = said
	if verb == "resize" && !isTemporary(said) {
		over := strings.Contains(said, "exceeded quota")
		if over && !p.over {
			p.overSince = time.Now()
		}
		p.over = over
		switch {
		case over:
			p.overTotal = w.requests()
		case p.done:
			p.overTotal = size{}
		}
	}
	s.note("%s %s: %s", verb, p.pod.Name, said)
}

// latency returns the duration of a request: some milliseconds, different for each verb and pod.
func latency(verb, pod string) time.Duration {
	sum := sha256.Sum256([]byte(verb + "/" + pod)) // simpler hashes collide
	return time.Millisecond + time.Duration(binary.LittleEndian.Uint32(sum[:])%40_000_000)
}

func wait(q *http.Request, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-q.Context().Done():
		return q.Context().Err()
	}
}

func (s *simulation) find(namespace, name string) (*simulated, *replica) {
	for _, w := range s.workloads {
		if w.namespace != namespace {
			continue
		}
		for _, p := range w.pods {
			if p.pod.Name == name {
				return w, p
			}
		}
	}
	return nil, nil
}

// fault returns the fault of a request that does not depend on the pod's node, or "". A fault of every n-th request counts the requests
// that it may affect. If it counted all requests of the world, the rate limit could keep two updaters in step with it: one that takes turns
// between workloads would meet every fault, and another one none.
func (w *simulated) fault(verb string, p *replica, minute int) string {
	for i := range w.Faults {
		f := &w.Faults[i]
		if f.Verb != verb || f.What == nodeTooBig || !f.When.open(minute) || f.First && p.number != 0 {
			continue
		}
		w.mayFail[i]++
		if f.Every == 0 || w.mayFail[i]%f.Every == 0 {
			return f.What
		}
	}
	return ""
}

// faults are the replies that do not depend on the state of the cluster.
var faults = map[string]*metav1.Status{
	denied403: refusal(http.StatusForbidden, metav1.StatusReasonForbidden, `admission webhook "guard.example.com" denied the request: not now`, ""),
	denied400: refusal(http.StatusBadRequest, "", `admission webhook "guard.example.com" denied the request: not now`, ""),
	failed500: refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError,
		`Internal error occurred: failed calling webhook "guard.example.com": failed to call webhook: Post "https://guard.example.svc:443/": no endpoints available for service "guard"`, ""),
	busy429:  refusal(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests, please try again later", ""),
	conflict: refusal(http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified; please apply your changes to the latest version and try again", ""),
	nodeTooBig: refusal(http.StatusForbidden, metav1.StatusReasonForbidden, "node didn't have enough allocatable resources: cpu", "",
		metav1.StatusCause{Type: "NodeCapacity"}),
}

func refusal(code int32, reason metav1.StatusReason, message, name string, causes ...metav1.StatusCause) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: code, Reason: reason, Message: message, Details: &metav1.StatusDetails{Name: name, Kind: "pods", Causes: causes},
	}
}

// answer carries out a request. It returns the pod, or the status of the refusal.
func (s *simulation) answer(w *simulated, p *replica, verb, what, format string, body []byte) (*corev1.Pod, *metav1.Status) {
	if status := faults[what]; status != nil {
		if verb == "evict" && s.onEvict != nil {
			s.onEvict(w, p, status.Message)
		}
		return nil, status
	}
	if verb == "evict" {
		status := s.evict(w, p, body)
		if status != nil && s.onEvict != nil {
			s.onEvict(w, p, status.Message)
		}
		return p.pod, status
	}
	if verb == "delete" {
		return p.pod, s.delete(w, p, body)
	}
	next, err := p.patched(format, body)
	if err != nil {
		return nil, refusal(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, err.Error(), p.pod.Name)
	}
	if next.UID != p.pod.UID {
		return nil, refusal(http.StatusConflict, metav1.StatusReasonConflict, otherUID, p.pod.Name)
	}
	if verb == "annotate" {
		if !maps.Equal(next.Annotations, p.pod.Annotations) {
			s.change(p, func(q *corev1.Pod) { q.Annotations = next.Annotations })
		}
		return p.pod, nil
	}
	if status := s.refuses(w, p, next); status != nil {
		return nil, status
	}
	if !sameResources(next, p.pod) {
		if s.onResize != nil {
			s.onResize(w, p, w.restarts(p.pod, next))
		}
		s.change(p, func(q *corev1.Pod) { setResources(q, next) })
		p.resized = max(s.minute(), 1)
		p.resizes++
	}
	return p.pod, nil
}

// refuses returns the status of a refused resize, or nil.
func (s *simulation) refuses(w *simulated, p *replica, next *corev1.Pod) *metav1.Status {
	has, want := cpu(p.pod), cpu(next)
	tooLarge := anyContainer(next, p.pod, func(want, _ corev1.ResourceRequirements) bool {
		return w.MostMB > 0 && max(want.Requests.Memory().Value(), want.Limits.Memory().Value()) > w.MostMB<<20
	})
	switch {
	case w.isOnSmallNode(p):
		return faults[nodeTooBig]
	case p.pod.Status.Phase == corev1.PodPending || p.pod.DeletionTimestamp != nil:
		return refusal(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "pod is not running", p.pod.Name)
	case class(next) != p.pod.Status.QOSClass:
		return refusal(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "Pod QOS Class may not change as a result of resizing", p.pod.Name)
	case tooLarge:
		return refusal(http.StatusForbidden, metav1.StatusReasonForbidden, "maximum memory usage per Container exceeded", p.pod.Name)
	case w.hard > 0 && want > has && w.requested()-has+want > w.hard:
		return refusal(http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("pods %q is forbidden: exceeded quota: compute", p.pod.Name), p.pod.Name)
	}
	return nil
}

// isOnSmallNode reports whether the node of a pod is too small for its resizes. It refuses all of them, also one with a slow or lost reply.
func (w *simulated) isOnSmallNode(p *replica) bool {
	return slices.ContainsFunc(w.Faults, func(f fault) bool {
		return f.Verb == "resize" && f.What == nodeTooBig && (!f.First || p.number == 0)
	})
}

func class(p *corev1.Pod) corev1.PodQOSClass {
	differs := func(r, _ corev1.ResourceRequirements) bool {
		return r.Requests.Cpu().Cmp(*r.Limits.Cpu()) != 0 || r.Requests.Memory().Cmp(*r.Limits.Memory()) != 0
	}
	if anyContainer(p, p, differs) {
		return corev1.PodQOSBurstable
	}
	return corev1.PodQOSGuaranteed
}

// evict deletes a pod if the disruption budgets allow it.
func (s *simulation) evict(w *simulated, p *replica, body []byte) *metav1.Status {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), p.pod.Name)
	}
	if o := obj.(*policyv1.Eviction).DeleteOptions; o != nil && o.Preconditions != nil && o.Preconditions.UID != nil && *o.Preconditions.UID != p.pod.UID {
		return refusal(http.StatusConflict, metav1.StatusReasonConflict, otherUID, p.pod.Name)
	}
	if p.pod.DeletionTimestamp != nil {
		w.evictedLeaving = true
		return nil
	}
	if p.pod.Status.Phase != corev1.PodPending {
		if status := w.guarded(p); status != nil {
			return status
		}
	}
	if s.onEvict != nil {
		s.onEvict(w, p, "")
	}
	w.effects.evicted[p.number] = time.Now()
	s.remove(w, p)
	return nil
}

// guarded returns the status of an eviction that a disruption budget does not allow, or nil.
func (w *simulated) guarded(p *replica) *metav1.Status {
	var of []pdb
	for _, b := range w.PDBs {
		if !b.FirstOnly || p.number == 0 {
			of = append(of, b)
		}
	}
	switch len(of) {
	case 0:
		return nil
	case 1:
	default:
		return refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError,
			"Internal error occurred: This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", p.pod.Name)
	}
	healthy, desired := w.health(of[0])
	if !isReady(p.pod) && healthy >= desired && desired > 0 || healthy > desired {
		return nil
	}
	return refusal(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "Cannot evict pod as it would violate the pod's disruption budget.", p.pod.Name,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget guard does not allow it"})
}

// health returns how many pods of a disruption budget are ready, and how many must be.
func (w *simulated) health(b pdb) (healthy, desired int) {
	expected := w.Replicas
	if b.FirstOnly {
		expected = 1
	}
	for _, o := range w.pods {
		if (!b.FirstOnly || o.number == 0) && o.pod.DeletionTimestamp == nil && isReady(o.pod) {
			healthy++
		}
	}
	desired = b.MinAvailable
	if desired == 0 {
		desired = max(0, expected-b.MaxUnavailable)
	}
	return healthy, desired
}

// delete deletes a pod, whatever its disruption budgets are.
func (s *simulation) delete(w *simulated, p *replica, body []byte) *metav1.Status {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), p.pod.Name)
	}
	o := obj.(*metav1.DeleteOptions)
	if o.Preconditions == nil || o.Preconditions.UID == nil || o.Preconditions.ResourceVersion == nil {
		return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the simulation requires preconditions", p.pod.Name)
	}
	if *o.Preconditions.UID != p.pod.UID || *o.Preconditions.ResourceVersion != p.pod.ResourceVersion {
		return refusal(http.StatusConflict, metav1.StatusReasonConflict, "Precondition failed", p.pod.Name)
	}
	if p.pod.DeletionTimestamp != nil {
		return nil
	}
	if s.onDelete != nil {
		s.onDelete(w, p)
	}
	w.effects.evicted[p.number] = time.Now()
	s.remove(w, p)
	return nil
}

// patched returns the pod with a patch applied. It caches results, because upstream repeats the same patch.
func (p *replica) patched(format string, body []byte) (*corev1.Pod, error) {
	if p.answered != p.pod || len(p.answers) > 10 {
		p.answered, p.answers = p.pod, map[string]*corev1.Pod{}
	}
	if next := p.answers[string(body)]; next != nil {
		return next, nil
	}
	next, err := patched(p.pod, format, body)
	if err == nil {
		p.answers[string(body)] = next
	}
	return next, err
}

// patched returns a pod with a patch applied.
func patched(p *corev1.Pod, format string, body []byte) (*corev1.Pod, error) {
	before, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var after []byte
	switch types.PatchType(format) {
	case types.JSONPatchType:
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(body); err == nil {
			after, err = patch.Apply(before)
		}
	case types.StrategicMergePatchType:
		after, err = strategicpatch.StrategicMergePatch(before, body, corev1.Pod{})
	default:
		err = fmt.Errorf("the simulation does not support patches of type %q", format)
	}
	if err != nil {
		return nil, err
	}
	next := new(corev1.Pod)
	return next, json.Unmarshal(after, next)
}

func reply(q *http.Request, o runtime.Object) (*http.Response, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	code := http.StatusOK
	if s, ok := o.(*metav1.Status); ok {
		code = int(s.Code)
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: q,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)), ContentLength: int64(len(data)),
	}, nil
}

// A connection is the transport of a client. It forwards requests to the current simulation, so that all simulations share one
// client: clients are expensive to create.
type connection struct{ to http.RoundTripper }

func (c *connection) RoundTrip(q *http.Request) (*http.Response, error) { return c.to.RoundTrip(q) }
