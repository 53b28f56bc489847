// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook serves the admission webhook. It reads AdmissionReviews, asks the core for the size of a new pod, and answers
// with a JSON patch. It also sets the default update policy of VerticalPodAutoscalers and validates them. Its server calls package
// registration to keep certificates and the webhook configuration up to date.
//
// It does not decide sizes. It makes no API call while a review waits for its answer: it reads everything from memory, and admits
// a pod unchanged if the data is missing. It never rejects a pod.
package webhook

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/wording"
)

// world gives the webhook the watched objects of the cluster, from memory.
type world interface {
	// Project returns the fields of a pod that the core needs, with the topmost controller if it is known. It may wait for
	// the controller until ctx ends. The pod has a namespace, but may have no name yet.
	Project(context.Context, *corev1.Pod) *cluster.Pod
	// Governing returns the VPA that governs the pods of a workload, or nil.
	Governing(cluster.Workload) *cluster.Autoscaler
	// Limits returns the LimitRanges and ResourceQuotas of a namespace.
	Limits(namespace string) policy.Limits
}

// Options is the configuration of a Handler.
type Options struct {
	Gates       Gates
	MaxCPUBoost int64 // maximum CPU of a startup boost in millicores; 0 means no maximum
	DryRun      bool  // admit all objects unchanged, and log what would have been done

	InitContainers bool // size ordinary init containers

	// Profiles are the profiles that recommender names are compared with. Nil disables the check.
	Profiles profiles

	// Nodes are the nodes that the size of a new pod is scaled down to. Nil means that it is not.
	Nodes nodes
}

type profiles interface {
	// Similar returns the profile of which a recommender name is probably a misspelling, or "".
	Similar(recommender string) string
}

// A Handler answers AdmissionReviews, on any path: with a patch for new pods, and with defaults and validation errors for VPAs.
type Handler struct {
	world       world
	options     Options
	metrics     *Metrics
	selfMetrics *Metrics // for self-checks; not registered
	log         *slog.Logger
	intake      *intake
	self        string // the random path of self-checks

	// The logs of messages that a client can cause at any rate.
	refusals, failures, verdicts, boosts, unsized, limits *slog.Logger
}

// limitedLog is the handler of a log that drops messages above a rate.
type limitedLog struct {
	slog.Handler
	rate *rate.Sometimes
}

// Handle implements slog.Handler.
func (l limitedLog) Handle(ctx context.Context, r slog.Record) (err error) {
	l.rate.Do(func() { err = l.Handler.Handle(ctx, r) })
	return err
}

// WithAttrs implements slog.Handler.
func (l limitedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return limitedLog{l.Handler.WithAttrs(attrs), l.rate}
}

// WithGroup implements slog.Handler.
func (l limitedLog) WithGroup(name string) slog.Handler {
	return limitedLog{l.Handler.WithGroup(name), l.rate}
}

// NewHandler returns a handler.
func NewHandler(w world, o Options, m *Metrics, log *slog.Logger) *Handler {
	limited := func() *slog.Logger {
		return slog.New(limitedLog{log.Handler(), &rate.Sometimes{First: 20, Interval: 10 * time.Second}})
	}
	return &Handler{
		world: w, options: o, metrics: m, selfMetrics: NewMetrics(prometheus.NewRegistry()), log: log,
		intake: newIntake(), self: "/podfit-self-check/" + rand.Text(),
		refusals: limited(), failures: limited(), verdicts: limited(), boosts: limited(), unsized: limited(), limits: limited(),
	}
}

// ServeHTTP answers one review.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.serve(w, r) }

// serve answers one request, and reports whether it was a review that the API server may have sent.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) (isReview bool) {
	m := h.metrics
	if r.URL.Path == h.self {
		m = h.selfMetrics
	}
	clock := m.start()
	result := resultError
	about := aboutUnknown
	defer func() { clock.done(result, about) }()

	ticket := h.intake.enter(func() { _ = http.NewResponseController(w).SetReadDeadline(longAgo) })
	if ticket == nil {
		h.refuse(nil, w, r, errBusy)
		return false
	}
	defer ticket.leave()
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		_ = send(ticket, w, r, http.StatusUnsupportedMediaType, "text/plain; charset=utf-8", []byte("the content type must be application/json\n"))
		return false
	}
	review, err := h.receive(ticket, r, &clock)
	if err != nil {
		h.refuse(ticket, w, r, err)
		return false
	}
	isReview = review.err == nil && review.about != aboutUnknown
	var response *admissionv1.AdmissionResponse
	response, result, about = h.answer(r.Context(), review)
	clock.step(m.admit)

	reply, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: admissionv1.SchemeGroupVersion.String()},
		Response: response,
	})
	if err != nil {
		result = resultError
		h.log.Error("Cannot encode the answer to an admission review", slog.Any("error", err))
		_ = send(ticket, w, r, http.StatusInternalServerError, "text/plain; charset=utf-8", []byte("cannot encode the answer\n"))
		return isReview
	}
	clock.step(m.build)

	if err := send(ticket, w, r, http.StatusOK, "application/json", reply); err != nil {
		result = resultError
		h.failures.Warn("Cannot send the answer to an admission review", slog.Any("error", err))
		return isReview
	}
	clock.step(m.write)
	return isReview
}

var longAgo = time.Unix(1, 0)

// send sends an answer and waits until it is sent, because a client that does not read answers uses as much memory as one that sends
// its bodies slowly. If the ticket is aborted, the connection is closed.
func send(t *ticket, w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) error {
	const uncountedTimeout = time.Second // for sending an answer whose memory the intake cannot reserve
	control := http.NewResponseController(w)
	abort := func() { _ = control.SetWriteDeadline(longAgo) }
	if conn, ok := r.Context().Value(connectionKey{}).(net.Conn); ok {
		abort = func() { closeAbruptly(conn) }
	}
	if t == nil || !t.answers(abort) {
		_ = control.SetWriteDeadline(time.Now().Add(uncountedTimeout))
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	err := control.Flush()
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("send the answer: %w", err)
	}
	return nil
}

// refuse answers a request that podfit cannot review. The failure policy decides whether the object is admitted.
func (h *Handler) refuse(t *ticket, w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadRequest
	reason := refusedUnreadable
	text := "cannot read the review"
	switch {
	case errors.Is(err, errTooBig):
		status = http.StatusRequestEntityTooLarge
		reason = refusedTooLarge
		text = err.Error()
	case errors.Is(err, errBusy):
		status = http.StatusTooManyRequests
		reason = refusedBusy
		text = err.Error()
		w.Header().Set("Retry-After", "1")
	}
	h.metrics.refused.WithLabelValues(reason).Inc()
	h.refusals.Warn("Admission request not reviewed; the failure policy decides whether the object is admitted", slog.Int("status", status), slog.Any("error", err))
	_ = send(t, w, r, status, "text/plain; charset=utf-8", []byte(text+"\n"))
}

// receive reads and decodes a review. The body can be garbage-collected when it returns.
func (h *Handler) receive(t *ticket, r *http.Request, clock *stopwatch) (*decodedReview, error) {
	body, err := t.read(r)
	if err != nil {
		return nil, err
	}
	clock.step(clock.m.read)
	done, err := h.intake.turn(r, len(body))
	if err != nil {
		return nil, err
	}
	defer done()
	defer t.decoded()
	return h.decode(body), nil
}

type decodedReview struct {
	request *request // without its objects; nil if the body has none
	about   string
	pod     *corev1.Pod       // nil unless a pod is created
	now     *autoscalerReview // nil unless a VPA is created or updated
	before  *autoscalerReview // the old object of an updated VPA; nil if it cannot be decoded
	err     error             // why the object cannot be decoded or exceeds a bound
}

// decode decodes a review. If it fails, the result contains the error.
func (h *Handler) decode(body []byte) (out *decodedReview) {
	out = &decodedReview{about: aboutUnknown}
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("Decoding of an admission review panicked; object admitted unchanged", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			out.err = errors.New("panic")
			out.pod = nil
			out.now = nil
		}
	}()
	request, err := decodeRequest(body)
	out.request = request
	out.err = err
	if request == nil || err != nil {
		return out
	}
	object := request.Object
	old := request.OldObject
	request.Object = nil
	request.OldObject = nil
	r := request.Resource
	switch {
	case r.Group == "" && r.Resource == "pods":
		out.about = aboutPod
		// A webhook may change the resources of a pod only on creation.
		if request.Operation == admissionv1.Create && request.SubResource == "" {
			out.pod, out.err = decodePod(object)
		}
	case r.Group == v1.GroupName && r.Resource == v1.ResourceAutoscalers:
		out.about = aboutAutoscaler
		h.decodeAutoscalers(out, object, old)
	}
	return out
}

// answer answers one review. If podfit fails, the object is admitted unchanged.
func (h *Handler) answer(ctx context.Context, a *decodedReview) (response *admissionv1.AdmissionResponse, result, about string) {
	response = &admissionv1.AdmissionResponse{Allowed: true}
	result = resultError
	about = a.about
	if a.request != nil {
		response.UID = a.request.UID
	}
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("Admission review panicked; object admitted unchanged", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			response = &admissionv1.AdmissionResponse{UID: response.UID, Allowed: true}
			result = resultError
		}
	}()
	exceeded, unbounded := errors.AsType[unboundedError](a.err)
	switch {
	case unbounded:
		h.metrics.unchecked.WithLabelValues(exceeded.what).Inc()
		h.failures.Warn("Object exceeds a size limit of podfit; admitted unchanged", slog.String("resource", a.request.Resource.Resource),
			slog.String("namespace", truncate(a.request.Namespace)), slog.String("object", truncate(a.request.Name)), slog.Any("error", exceeded))
		result = resultSkipped
	case a.request == nil || a.about == aboutUnknown && a.err != nil:
		h.failures.Warn("Cannot decode an admission review; object admitted unchanged", slog.String("error", truncate(fmt.Sprint(a.err))))
	case a.about == aboutPod:
		result = h.applyDryRun(response, h.pod(ctx, a, response))
	case a.about == aboutAutoscaler:
		result = h.applyDryRun(response, h.autoscaler(a, response))
	default:
		h.failures.Warn("Admission review for a resource that podfit does not serve", slog.String("resource", truncate(a.request.Resource.String())))
	}
	return response, result, about
}

// truncate shortens a text of a client for the log.
func truncate(s string) string { return wording.Shortened(s, 300) }

// applyDryRun replaces the answer in a dry run: the object is admitted unchanged.
func (h *Handler) applyDryRun(response *admissionv1.AdmissionResponse, result string) string {
	if !h.options.DryRun {
		return result
	}
	*response = admissionv1.AdmissionResponse{UID: response.UID, Allowed: true}
	if result == resultApplied {
		return resultSkipped
	}
	return result
}

func patchWith(response *admissionv1.AdmissionResponse, patch []byte) {
	response.Patch = patch
	response.PatchType = new(admissionv1.PatchTypeJSONPatch)
}
