// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/runtimeguard"
)

// fakeWorld is a world whose pods belong directly to the controller that owns them.
type fakeWorld struct {
	autoscalers map[cluster.Workload][]*cluster.Autoscaler
	limits      map[string]policy.Limits
}

func worldOf(as ...*cluster.Autoscaler) fakeWorld {
	m := fakeWorld{autoscalers: map[cluster.Workload][]*cluster.Autoscaler{}, limits: map[string]policy.Limits{}}
	for _, a := range as {
		m.autoscalers[a.Target] = append(m.autoscalers[a.Target], a)
	}
	return m
}

func (m fakeWorld) Governing(w cluster.Workload) *cluster.Autoscaler {
	return cluster.Governing(m.autoscalers[w], true)
}

func (m fakeWorld) Limits(namespace string) policy.Limits { return m.limits[namespace] }

func (m fakeWorld) Project(_ context.Context, p *corev1.Pod) *cluster.Pod {
	out := &cluster.Pod{Key: cluster.Key{Namespace: p.Namespace, Name: p.Name}, Node: p.Spec.NodeName}
	if o := metav1.GetControllerOf(p); o != nil {
		group, _, _ := strings.Cut(o.APIVersion, "/")
		out.Controller = cluster.Workload{Group: group, Kind: o.Kind, Namespace: p.Namespace, Name: o.Name}
		out.Top = out.Controller
	}
	if r := p.Spec.Resources; r != nil {
		out.PodLevel = &cluster.PodResources{Requests: amounts(r.Requests), Limits: amounts(r.Limits)}
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		out.Containers = append(out.Containers, cluster.Container{
			Name: c.Name, Index: uint8(i), Requests: amounts(c.Resources.Requests), Limits: amounts(c.Resources.Limits),
		})
	}
	out.Runtimes = runtimesOf(p)
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		init := cluster.Container{Name: c.Name, Role: cluster.Init, Index: uint8(i), Requests: amounts(c.Resources.Requests), Limits: amounts(c.Resources.Limits)}
		if c.RestartPolicy != nil {
			init.Role = cluster.Sidecar
		}
		out.Containers = append(out.Containers, init)
	}
	return out
}

// runtimesOf returns the runtimes of a pod, as the projection of podfit does.
func runtimesOf(p *corev1.Pod) *cluster.Runtimes {
	var out cluster.Runtimes
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		in := runtimeguard.Container{
			Label: p.Labels[runtimeguard.Label], Words: slices.Concat(c.Command, c.Args), Image: c.Image, Imported: len(c.EnvFrom) > 0,
		}
		if label, ok := p.Labels[runtimeguard.LabelPrefix+c.Name]; ok {
			in.Label = label
		}
		for _, e := range c.Env {
			in.Variables = append(in.Variables, runtimeguard.Variable{Name: e.Name, Value: e.Value})
		}
		if r, known := runtimeguard.Detect(in); known {
			r.Container = uint8(i)
			out.List = append(out.List, r)
		}
	}
	if out.List == nil {
		return nil
	}
	return &out
}

func amounts(l corev1.ResourceList) (r cluster.Resources) {
	if q, ok := l[corev1.ResourceCPU]; ok {
		r = r.Set(cluster.CPU, q.MilliValue())
	}
	if q, ok := l[corev1.ResourceMemory]; ok {
		r = r.Set(cluster.Memory, q.Value())
	}
	return r
}

var shopCart = cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "cart"}

// recommending returns an autoscaler for shop/cart with recommendations for its containers.
func recommending(name string, advice map[string]cluster.Resources) *cluster.Autoscaler {
	a := &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: name}, Target: shopCart, Mode: cluster.Recreate,
		Created: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for _, container := range slices.Sorted(maps.Keys(advice)) {
		target := advice[container]
		a.Advice = append(a.Advice, cluster.Advice{Container: container, Estimate: cluster.Estimate{Lower: target, Target: target, Upper: target}, Uncapped: target})
	}
	return a
}

// logBuffer contains a log. A test can read it while other goroutines write to it.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *logBuffer) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *logBuffer) has(s string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), s)
}

func (j *logBuffer) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

var discardLog = slog.New(slog.DiscardHandler)

func handler(w world, o Options) *Handler {
	return NewHandler(w, o, NewMetrics(prometheus.NewRegistry()), discardLog)
}

// ask sends a request to a handler and returns the response.
func ask(t testing.TB, h http.Handler, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: "admission.k8s.io/v1"},
		Request:  request,
	})
	if err != nil {
		t.Fatal(err)
	}
	status, reply := post(h, "application/json", body)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, reply)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(reply, &review); err != nil {
		t.Fatalf("response %q: %v", reply, err)
	}
	if review.Kind != "AdmissionReview" || review.APIVersion != "admission.k8s.io/v1" || review.Response == nil {
		t.Fatalf("the response is not an AdmissionReview: %s", reply)
	}
	if review.Response.UID != request.UID {
		t.Fatalf("the response has the UID %q, the request has %q", review.Response.UID, request.UID)
	}
	return review.Response
}

func post(h http.Handler, contentType string, body []byte) (status int, reply []byte) {
	r := httptest.NewRequest(http.MethodPost, "/any/path", bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	reply, _ = io.ReadAll(w.Body)
	return w.Code, reply
}

// createRequest returns the request for a new pod, as the API server sends it for a pod of a ReplicaSet.
func createRequest(podJSON string) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID:       "c0ffee",
		Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Namespace: "shop",
		Operation: admissionv1.Create,
		Object:    runtime.RawExtension{Raw: []byte(podJSON)},
	}
}

// eventually waits until ok returns true. what describes the condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("timed out waiting until %s", what)
		case <-poll.C:
		}
	}
}
