// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// maxReview bounds a request: etcd takes objects of 1.5 MB, and a review of an update holds two.
const maxReview = 5 << 20

// world is what the webhook must know of the cluster. Every answer comes from memory: a review is waiting.
type world interface {
	// Project keeps of a pod what the core needs, with its topmost controller when the chain of owners is known.
	// The pod has its namespace; it may have no name yet.
	Project(*corev1.Pod) *cluster.Pod
	// Autoscalers returns the autoscalers that name a workload, in any order.
	Autoscalers(cluster.Workload) []*cluster.Autoscaler
	// Limits returns what bounds the pods of a namespace.
	Limits(namespace string) policy.Limits
}

// Options is what the handler may do.
type Options struct {
	Gates       Gates
	MaxCPUBoost int64 // millicores a startup boost may come to; 0: no bound
	DryRun      bool  // every object passes unchanged; what would have been done is logged

	// Meant returns the profile that the name of a recommender is probably a slip of, or "". Nil: names are not looked at.
	Meant func(recommender string) string
}

// Handler answers AdmissionReviews: a patch for a new pod, a verdict for an autoscaler. It answers on any path.
type Handler struct {
	world   world
	options Options
	metrics *Metrics
	quiet   *Metrics // for reviews from ourselves
	log     *slog.Logger
}

// NewHandler returns a handler.
func NewHandler(w world, o Options, m *Metrics, log *slog.Logger) *Handler {
	return &Handler{world: w, options: o, metrics: m, quiet: NewMetrics(prometheus.NewRegistry()), log: log}
}

// ServeHTTP answers one review.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := h.metrics
	if r.URL.Path == selfPath {
		m = h.quiet
	}
	clock := m.start()
	result, about := resultError, aboutUnknown
	defer func() { clock.done(result, about) }()

	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		http.Error(w, "the content type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, err := read(w, r)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		h.log.Warn("Refused an admission review that is too large", "limit", tooLarge.Limit)
		http.Error(w, "request payload too large", http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil { // whoever asked is gone, or will find the answer useful all the same
		h.log.Warn("Cannot read the admission review", "error", err)
	}
	clock.step(m.read)

	var response *admissionv1.AdmissionResponse
	response, result, about = h.review(body)
	clock.step(m.admit)

	reply, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: admissionv1.SchemeGroupVersion.String()},
		Response: response,
	})
	if err != nil {
		result = resultError
		h.log.Error("Cannot write the answer to an admission review", "error", err)
		http.Error(w, "cannot write the answer", http.StatusInternalServerError)
		return
	}
	clock.step(m.build)

	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(reply); err != nil {
		result = resultError
		h.log.Warn("Cannot send the answer to an admission review", "error", err)
		return
	}
	clock.step(m.write)
}

func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxReview {
		return nil, &http.MaxBytesError{Limit: maxReview}
	}
	if r.ContentLength > 0 {
		body := make([]byte, r.ContentLength)
		_, err := io.ReadFull(r.Body, body)
		return body, err
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
}

// review answers one review. Whatever goes wrong on our side lets the object pass.
func (h *Handler) review(body []byte) (response *admissionv1.AdmissionResponse, result, about string) {
	response, result, about = &admissionv1.AdmissionResponse{Allowed: true}, resultError, aboutUnknown
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("Admission panicked; the object passes unchanged", "panic", p, "stack", string(debug.Stack()))
			response = &admissionv1.AdmissionResponse{UID: response.UID, Allowed: true}
			result = resultError
		}
	}()

	var review admissionv1.AdmissionReview
	if err := kjson.Unmarshal(body, &review); err != nil {
		h.log.Warn("Cannot decode an admission review; the object passes unchanged", "error", err)
		if review.Request != nil {
			response.UID = review.Request.UID
		}
		return response, result, about
	}
	request := review.Request
	if request == nil {
		h.log.Warn("An admission review has no request; the object passes unchanged")
		return response, result, about
	}
	response.UID = request.UID
	switch r := request.Resource; {
	case r.Group == "" && r.Resource == "pods":
		result = h.withheld(response, h.pod(request, response))
		return response, result, aboutPod
	case r.Group == v1.GroupName && r.Resource == v1.ResourceAutoscalers:
		result = h.withheld(response, h.autoscaler(request, response))
		return response, result, aboutAutoscaler
	}
	h.log.Warn("An admission review is about a resource that podfit does not serve", "resource", request.Resource.String())
	return response, result, about
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
