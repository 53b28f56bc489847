// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"podfit.dev/podfit/test/load/apiserver"
)

// A webhook calls the admission webhook that is registered at an API server, as the API server does.
type webhook struct {
	server *apiserver.Server

	mu      sync.Mutex
	version int64
	url     string
	client  *http.Client
}

var errNotRegistered = errors.New("no webhook is registered")

// connect returns the address of the webhook and a client that trusts it.
func (h *webhook) connect() (string, *http.Client, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.server.Get("admissionregistration.k8s.io/mutatingwebhookconfigurations", "", "vpa-webhook-config")
	if o == nil {
		return "", nil, errNotRegistered
	}
	if o.Version == h.version {
		return h.url, h.client, nil
	}
	c, ok := o.Decode().(*admissionregistrationv1.MutatingWebhookConfiguration)
	if !ok || len(c.Webhooks) == 0 || c.Webhooks[0].ClientConfig.URL == nil {
		return "", nil, errNotRegistered
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(c.Webhooks[0].ClientConfig.CABundle) {
		return "", nil, errors.New("the webhook has no CA")
	}
	h.version = o.Version
	h.url = *c.Webhooks[0].ClientConfig.URL
	h.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100,
	}}
	return h.url, h.client, nil
}

// reviewOf returns the review of a new pod, in JSON.
func reviewOf(p *corev1.Pod) ([]byte, error) {
	p = p.DeepCopy()
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.ManagedFields = nil
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: uuid.NewUUID(), Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			RequestKind: &metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, RequestResource: &metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Name: p.Name, Namespace: p.Namespace, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
		},
	})
}

// call sends a review and returns the patch, nil if the webhook changes nothing.
func (h *webhook) call(ctx context.Context, review []byte) ([]byte, error) {
	url, client, err := h.connect()
	if err != nil {
		return nil, err
	}
	return post(ctx, client, url, review)
}

func post(ctx context.Context, client *http.Client, url string, review []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(review))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &answer); err != nil || response.StatusCode != http.StatusOK || answer.Response == nil {
		return nil, fmt.Errorf("the webhook answered with status %d: %s", response.StatusCode, body)
	}
	if !answer.Response.Allowed {
		return nil, fmt.Errorf("the webhook refused the pod: %v", answer.Response.Result)
	}
	return answer.Response.Patch, nil
}

// admit returns a new pod as the webhook changes it. A webhook that fails is ignored.
func (h *webhook) admit(p *corev1.Pod) *corev1.Pod {
	out, err := h.review(p)
	if err != nil {
		return p
	}
	return out
}

// review returns a new pod as the webhook changes it: the same one if it changes nothing or fails.
func (h *webhook) review(p *corev1.Pod) (*corev1.Pod, error) {
	review, err := reviewOf(p)
	if err != nil {
		return p, err
	}
	patch, err := h.call(context.Background(), review)
	if err != nil || patch == nil {
		return p, err
	}
	before, err := json.Marshal(p)
	if err != nil {
		return p, err
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return p, err
	}
	after, err := operations.Apply(before)
	if err != nil {
		return p, err
	}
	out := new(corev1.Pod)
	if err := json.Unmarshal(after, out); err != nil {
		return p, err
	}
	return out, nil
}

// Webhook is the result of the load on the webhook. Times are in milliseconds.
type Webhook struct {
	Reviews, Failed, Patched int
	P50, P99, Longest        float64
	Failures                 map[string]int `json:",omitempty"` // number of failed reviews by reason
	Empty                    float64        // 99th percentile of the same requests to a server that does nothing
}

// load sends reviews to the webhook at a constant rate, and before that for a shorter time to a server that does nothing.
func (h *webhook) load(ctx context.Context, rate int, duration time.Duration) (Webhook, error) {
	reviews, err := h.samples(2000)
	if err != nil {
		return Webhook{}, err
	}
	empty := httptest.NewUnstartedServer(http.HandlerFunc(allow))
	empty.EnableHTTP2 = true
	empty.StartTLS()
	defer empty.Close()
	client := empty.Client()
	var bare Webhook
	shots := volley{rate: rate, duration: duration / 4, reviews: reviews}
	if bare, err = shots.fire(ctx, func(ctx context.Context, review []byte) ([]byte, error) { return post(ctx, client, empty.URL, review) }); err != nil {
		return bare, err
	}
	shots.duration = duration
	out, err := shots.fire(ctx, h.call)
	out.Empty = bare.P99
	return out, err
}

// allow answers a review without reading it.
func allow(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the client may be gone
	fmt.Fprint(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"","allowed":true}}`)
}

// A volley is a number of reviews that are sent at a constant rate, whether earlier ones are answered or not.
type volley struct {
	rate     int // per second
	duration time.Duration
	reviews  [][]byte
}

// fire sends the reviews. A latency counts from the time at which the review was due.
func (v volley) fire(ctx context.Context, call func(context.Context, []byte) ([]byte, error)) (Webhook, error) {
	var mu sync.Mutex
	out := Webhook{Failures: make(map[string]int)}
	var latencies []float64
	var sent sync.WaitGroup
	start := time.Now()
	for i := range int(float64(v.rate) * v.duration.Seconds()) {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(v.rate))
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-time.After(time.Until(due)):
		}
		sent.Go(func() {
			patch, err := call(ctx, v.reviews[i%len(v.reviews)])
			took := time.Since(due).Seconds() * 1000
			mu.Lock()
			defer mu.Unlock()
			out.Reviews++
			if err != nil {
				out.Failed++
				out.Failures[cause(err)]++
			}
			if patch != nil {
				out.Patched++
			}
			latencies = append(latencies, took)
		})
	}
	sent.Wait()
	out.P50, out.P99, out.Longest = percentile(latencies, 0.5), percentile(latencies, 0.99), percentile(latencies, 1)
	return out, nil
}

// cause returns the innermost error, so that failures with the same cause are counted together.
func cause(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err.Error()
}

// samples returns reviews of pods like those that exist.
func (h *webhook) samples(most int) ([][]byte, error) {
	pods := h.server.List("/pods", "")
	if len(pods) == 0 {
		return nil, errors.New("there are no pods")
	}
	r := rand.New(rand.NewPCG(1, 2))
	var out [][]byte
	for range min(most, len(pods)) {
		p, ok := pods[r.IntN(len(pods))].Decode().(*corev1.Pod)
		if !ok {
			continue
		}
		p.UID, p.ResourceVersion, p.Status, p.Spec.NodeName = types.UID(""), "", corev1.PodStatus{}, ""
		review, err := reviewOf(p)
		if err != nil {
			return nil, err
		}
		out = append(out, review)
	}
	return out, nil
}
