// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	sjson "sigs.k8s.io/json"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestHandler_undecodableReview_isAdmitted(t *testing.T) {
	h := handler(worldOf(), Options{})
	for _, body := range []string{``, `x`, `{`, `{}`, `[]`, `null`, `{"request":null}`, `{"request":{}}`, `{"request":{"uid":7}}`} {
		status, reply := post(h, "application/json; charset=utf-8", []byte(body))
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(reply, &review); err != nil || status != http.StatusOK || !review.Response.Allowed {
			t.Errorf("%q: status %d, %s", body, status, reply)
		}
	}
}

func TestHandler_otherContentType_isRejected(t *testing.T) {
	for _, contentType := range []string{"", "text/plain", "application/xml", "application/jsonx", ";;"} {
		if status, _ := post(handler(worldOf(), Options{}), contentType, []byte("{}")); status != http.StatusUnsupportedMediaType {
			t.Errorf("%q: status %d", contentType, status)
		}
	}
}

func TestHandler_tooLargeReview_isRejected(t *testing.T) {
	h := handler(worldOf(), Options{})
	atLimit := append([]byte(`{}`), bytes.Repeat([]byte(" "), maxReview-2)...)
	if status, _ := post(h, "application/json", atLimit); status != http.StatusOK {
		t.Errorf("at the limit: status %d", status)
	}
	above := append(bytes.Clone(atLimit), ' ')
	status, reply := post(h, "application/json", above)
	if status != http.StatusRequestEntityTooLarge || strings.TrimSpace(string(reply)) != "request payload too large" {
		t.Errorf("above the limit: status %d, %s", status, reply)
	}

	unknownLength := httptest.NewRequest(http.MethodPost, "/", struct{ *bytes.Reader }{bytes.NewReader(above)})
	unknownLength.ContentLength = -1
	unknownLength.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, unknownLength)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("above the limit, without a Content-Length: status %d", w.Code)
	}
}

func TestHandler_dryRun_admitsUnchangedAndLogs(t *testing.T) {
	var j logBuffer
	reg := prometheus.NewRegistry()
	a := recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(100, mi(200))})
	h := NewHandler(worldOf(a), Options{DryRun: true}, NewMetrics(reg), j.logger())
	for name, response := range map[string]*admissionv1.AdmissionResponse{
		"pod":             ask(t, h, createRequest(cart("", `"containers":[{"name":"app"}]`))),
		"without policy":  reviewVPA(t, h, vpa(target), ""),
		"deprecated mode": reviewVPA(t, h, vpa(target+`,"updatePolicy":{"updateMode":"Auto"}`), ""),
		"no targetRef":    reviewVPA(t, h, vpa(`"updatePolicy":{}`), ""),
		"unreadable":      reviewVPA(t, h, vpa(`"targetRef":7`), ""),
	} {
		if !response.Allowed || response.Patch != nil || response.PatchType != nil || response.Result != nil || response.Warnings != nil {
			t.Errorf("%s: response %+v", name, response)
		}
	}
	for _, line := range []string{"Would size a new pod", "shop/cart", `\"100m\"`, "Would reject a VPA", "updateMode is required"} {
		if !j.has(line) {
			t.Errorf("not logged: %s in\n%s", line, j.String())
		}
	}
	if n := testutil.ToFloat64(h.metrics.applied); n != 0 {
		t.Errorf("%v pods are counted as changed", n)
	}
}

// brokenWriter is a connection that breaks before the response is written.
type brokenWriter struct{ http.ResponseWriter }

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestMetrics_reviews_areCountedWithUpstreamsNames(t *testing.T) {
	reg := prometheus.NewRegistry()
	a := recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(100, mi(200))})
	h := NewHandler(worldOf(a), Options{}, NewMetrics(reg), discardLog)
	sized := cart("", `"containers":[{"name":"app"}]`)

	ask(t, h, createRequest(sized))
	ask(t, h, createRequest(sized))
	ask(t, h, createRequest(`{"spec":{}}`))
	ask(t, h, createRequest(`{"spec":[]}`))
	reviewVPA(t, h, vpa(target), "")
	reviewVPA(t, h, vpa(`"targetRef":null`), "")
	post(h, "application/json", []byte("x"))
	post(h, "text/plain", []byte("x"))
	body, _ := json.Marshal(admissionv1.AdmissionReview{Request: createRequest(sized)})
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(brokenWriter{httptest.NewRecorder()}, r)
	r = httptest.NewRequest(http.MethodPost, h.self, strings.NewReader(selfReview))
	r.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(httptest.NewRecorder(), r)

	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP vpa_admission_controller_admission_pods_total Number of pods that the webhook reviewed, by whether it changed them.
# TYPE vpa_admission_controller_admission_pods_total counter
vpa_admission_controller_admission_pods_total{applied="false"} 1
vpa_admission_controller_admission_pods_total{applied="true"} 2
`), "vpa_admission_controller_admission_pods_total"); err != nil {
		t.Error(err)
	}
	latency := map[string]uint64{}
	steps := map[string]uint64{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += l.GetName() + "=" + l.GetValue() + " "
			}
			switch f.GetName() {
			case "vpa_admission_controller_admission_latency_seconds":
				latency[labels] = m.GetHistogram().GetSampleCount()
			case "vpa_admission_controller_execution_latency_seconds":
				steps[labels] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	for labels, want := range map[string]uint64{
		"resource=Pod status=applied ": 2, "resource=Pod status=skipped ": 1, "resource=Pod status=error ": 2,
		"resource=VPA status=applied ": 1, "resource=VPA status=skipped ": 1, "resource=unknown status=error ": 2,
	} {
		if latency[labels] != want {
			t.Errorf("admission_latency_seconds{%s}: %d, want %d; all: %v", labels, latency[labels], want, latency)
		}
	}
	for step, want := range map[string]uint64{"read_request": 8, "admit": 8, "build_response": 8, "write_response": 7, "total": 9} {
		if steps["step="+step+" "] != want {
			t.Errorf("execution_latency_seconds{%s}: %d, want %d", step, steps["step="+step+" "], want)
		}
	}
}

// FuzzReview sends arbitrary bytes. The webhook must not panic, and must admit each object that it does not reject with a message.
func FuzzReview(f *testing.F) {
	seeds, err := filepath.Glob("testdata/reviews/*.json")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range seeds {
		body, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	a := boosted(recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(100, mi(200)), "*": cluster.Amounts(1, 1)}), 2)
	var j logBuffer
	h := handler(worldOf(a), Options{Gates: allGates})
	h.log = j.logger()
	f.Fuzz(func(t *testing.T, body []byte) {
		status, reply := post(h, "application/json", body)
		if status == http.StatusRequestEntityTooLarge {
			return
		}
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(reply, &review); err != nil || status != http.StatusOK || review.Response == nil {
			t.Fatalf("status %d: %s", status, reply)
		}
		r := review.Response
		if !r.Allowed && (r.Result == nil || r.Result.Message == "" || r.Result.Code != http.StatusUnprocessableEntity) {
			t.Fatalf("rejected without a message: %s", reply)
		}
		if j.has("panicked") {
			t.Fatal(j.String())
		}
		if len(r.Patch) > 0 {
			var object map[string]any
			request, err := decodeRequest(body)
			if err != nil || request == nil {
				t.Fatalf("patched an object that cannot be decoded: %v", err)
			}
			// podfit and the patch library may use different values of a key that an object contains twice, so such objects are not compared.
			if duplicates, _ := sjson.UnmarshalStrict(request.Object, &object); len(duplicates) == 0 {
				apply(t, string(request.Object), r.Patch)
			}
		}
	})
}
