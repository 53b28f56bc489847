// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

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
)

// world is what the webhook must know of the cluster. Every answer comes from memory: a review is waiting.
type world interface {
	// Project keeps of a pod what the core needs, with its topmost controller when the chain of owners is known.
	// The pod has its namespace; it may have no name yet.
	Project(context.Context, *corev1.Pod) *cluster.Pod
	// Autoscalers returns the autoscalers that name a workload, in any order.
	Governing(cluster.Workload) *cluster.Autoscaler
	// Limits returns what bounds the pods of a namespace.
	Limits(namespace string) policy.Limits
}

// Options is what the handler may do.
type Options struct {
	Gates       Gates
	MaxCPUBoost int64 // millicores a startup boost may come to; 0: no bound
	DryRun      bool  // every object passes unchanged; what would have been done is logged

	// SimilarProfile returns the profile that the name of a recommender is probably a slip of, or "". Nil: names are not looked at.
	SimilarProfile func(recommender string) string
}

// Handler answers AdmissionReviews: a patch for a new pod, a verdict for an autoscaler. It answers on any path.
type Handler struct {
	world   world
	options Options
	metrics *Metrics
	quiet   *Metrics // for reviews from ourselves
	log     *slog.Logger
	intake  *intake
	self    string // the path of reviews from ourselves: nobody else knows it

	// What somebody else can cause as often as they like is logged a few times, and then once in a while.
	refusals, failures, verdicts, boosts, kept *rate.Sometimes
}

// NewHandler returns a handler.
func NewHandler(w world, o Options, m *Metrics, log *slog.Logger) *Handler {
	seldom := func() *rate.Sometimes { return &rate.Sometimes{First: 20, Interval: 10 * time.Second} }
	return &Handler{
		world: w, options: o, metrics: m, quiet: NewMetrics(prometheus.NewRegistry()), log: log,
		intake: newIntake(), self: "/podfit-self-check/" + rand.Text(),
		refusals: seldom(), failures: seldom(), verdicts: seldom(), boosts: seldom(), kept: seldom(),
	}
}

// ServeHTTP answers one review.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.serve(w, r) }

// serve answers one review, and reports whether it was one that the API server may have sent.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) (is bool) {
	m := h.metrics
	if r.URL.Path == h.self {
		m = h.quiet
	}
	clock := m.start()
	result, about := resultError, aboutUnknown
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
	asked, err := h.receive(ticket, r, &clock)
	if err != nil {
		h.refuse(ticket, w, r, err)
		return false
	}
	is = asked.err == nil && asked.about != aboutUnknown
	var response *admissionv1.AdmissionResponse
	response, result, about = h.answer(r.Context(), asked)
	clock.step(m.admit)

	reply, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: admissionv1.SchemeGroupVersion.String()},
		Response: response,
	})
	if err != nil {
		result = resultError
		h.log.Error("Cannot write the answer to an admission review", slog.Any("error", err))
		_ = send(ticket, w, r, http.StatusInternalServerError, "text/plain; charset=utf-8", []byte("cannot write the answer\n"))
		return is
	}
	clock.step(m.build)

	if err := send(ticket, w, r, http.StatusOK, "application/json", reply); err != nil {
		result = resultError
		h.failures.Do(func() { h.log.Warn("Cannot send the answer to an admission review", slog.Any("error", err)) })
		return is
	}
	clock.step(m.write)
	return is
}

var longAgo = time.Unix(1, 0)

// uncounted is how long an answer may take for which the intake has no room.
const uncounted = time.Second

// send sends an answer and waits until it is sent, because a sender of requests that does not take the answers holds as much
// memory as one that sends its bodies slowly. The connection of one that has to give way is closed.
func send(t *ticket, w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) error {
	control := http.NewResponseController(w)
	abort := func() { _ = control.SetWriteDeadline(longAgo) }
	if conn, ok := r.Context().Value(connectionKey{}).(net.Conn); ok {
		abort = func() { hangUp(conn) }
	}
	if t == nil || !t.answers(abort) {
		_ = control.SetWriteDeadline(time.Now().Add(uncounted))
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

// refuse answers a request that is no review that podfit can take. What becomes of the object is up to the failure policy.
func (h *Handler) refuse(t *ticket, w http.ResponseWriter, r *http.Request, err error) {
	status, reason, text := http.StatusBadRequest, refusedUnreadable, "cannot read the review"
	switch {
	case errors.Is(err, errTooBig):
		status, reason, text = http.StatusRequestEntityTooLarge, refusedTooLarge, err.Error()
	case errors.Is(err, errBusy):
		status, reason, text = http.StatusTooManyRequests, refusedBusy, err.Error()
		w.Header().Set("Retry-After", "1")
	}
	h.metrics.refused.WithLabelValues(reason).Inc()
	h.refusals.Do(func() {
		h.log.Warn("Refused an admission review; its object passes, or is refused, as the failure policy says", slog.Int("status", status), slog.Any("error", err))
	})
	_ = send(t, w, r, status, "text/plain; charset=utf-8", []byte(text+"\n"))
}

// receive reads and decodes a review. The body is garbage when it returns.
func (h *Handler) receive(t *ticket, r *http.Request, clock *watch) (*asked, error) {
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

// asked is a review that has been decoded.
type asked struct {
	request *admissionv1.AdmissionRequest // nil when there is none; without its objects
	about   string
	pod     *corev1.Pod       // nil unless it is about a pod to be created
	now     *autoscalerReview // nil unless it is about an autoscaler to be created or changed
	before  *autoscalerReview // of an autoscaler to be changed; nil when it cannot be read
	err     error             // why the object cannot be read, or is not looked at
}

// decode reads a review. It never fails: what cannot be read is an asked with an error.
func (h *Handler) decode(body []byte) (out *asked) {
	out = &asked{about: aboutUnknown}
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("Decoding a review panicked; the object passes unchanged", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			out.err, out.pod, out.now = errPanicked, nil, nil
		}
	}()
	request, err := decodeRequest(body)
	out.request, out.err = request, err
	if request == nil || err != nil {
		return out
	}
	object, old := request.Object.Raw, request.OldObject.Raw
	request.Object.Raw, request.OldObject.Raw = nil, nil
	switch r := request.Resource; {
	case r.Group == "" && r.Resource == "pods":
		out.about = aboutPod
		// Resources may only be set here while a pod is being created.
		if request.Operation == admissionv1.Create && request.SubResource == "" {
			out.pod, out.err = decodePod(object)
		}
	case r.Group == v1.GroupName && r.Resource == v1.ResourceAutoscalers:
		out.about = aboutAutoscaler
		h.decodeAutoscalers(out, object, old)
	}
	return out
}

var errPanicked = errors.New("panic")

// answer answers one review. Whatever goes wrong on our side lets the object pass.
func (h *Handler) answer(ctx context.Context, a *asked) (response *admissionv1.AdmissionResponse, result, about string) {
	response, result, about = &admissionv1.AdmissionResponse{Allowed: true}, resultError, a.about
	if a.request != nil {
		response.UID = a.request.UID
	}
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("Admission panicked; the object passes unchanged", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			response = &admissionv1.AdmissionResponse{UID: response.UID, Allowed: true}
			result = resultError
		}
	}()
	beyond, unbounded := errors.AsType[unboundedError](a.err)
	switch {
	case unbounded:
		h.metrics.unchecked.WithLabelValues(beyond.what).Inc()
		h.failures.Do(func() {
			h.log.Warn("An object has more than podfit looks at; it passes unchanged", slog.String("resource", a.request.Resource.Resource),
				slog.String("namespace", brief(a.request.Namespace)), slog.String("name", brief(a.request.Name)), slog.Any("error", beyond))
		})
		result = resultSkipped
	case a.request == nil || a.about == aboutUnknown && a.err != nil:
		h.failures.Do(func() {
			h.log.Warn("Cannot decode an admission review; the object passes unchanged", slog.String("error", brief(fmt.Sprint(a.err))))
		})
	case a.about == aboutPod:
		result = h.withheld(response, h.pod(ctx, a, response))
	case a.about == aboutAutoscaler:
		result = h.withheld(response, h.autoscaler(a, response))
	default:
		h.failures.Do(func() {
			h.log.Warn("An admission review is about a resource that podfit does not serve", slog.String("resource", brief(a.request.Resource.String())))
		})
	}
	return response, result, about
}

// brief shortens what somebody else has written, for the log.
func brief(s string) string {
	const most = 300
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// withheld makes of an answer what a dry run answers: that the object may pass as it is.
func (h *Handler) withheld(response *admissionv1.AdmissionResponse, result string) string {
	if !h.options.DryRun {
		return result
	}
	*response = admissionv1.AdmissionResponse{UID: response.UID, Allowed: true}
	if result == resultApplied {
		return resultSkipped
	}
	return result
}

// patchWith puts a JSON patch into an answer.
func patchWith(response *admissionv1.AdmissionResponse, patch []byte) {
	response.Patch = patch
	response.PatchType = new(admissionv1.PatchTypeJSONPatch)
}
