// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package actuation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

const webPod = "/api/v1/namespaces/shop/pods/web-1-0"

func podToActOn() *cluster.Pod {
	return &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "web-1-0"}, UID: "u7"}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestPodWriter_resize_patchesContainersByNameWithUID(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyPod("shop", "web-1-0", "ReplicaSet", "web-1")
	err := NewPodWriter(clientsOf(f)).Resize(t.Context(), podToActOn(), []policy.Fitted{
		{Container: "log"},
		{Container: "app", Index: 1, Requests: cluster.Amounts(150, 1<<30), Limits: cluster.Resources{}.Set(cluster.Memory, 2<<30)},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"uid":"u7"},"spec":{"containers":[{"name":"app","resources":{"limits":{"memory":"2Gi"},"requests":{"cpu":"150m","memory":"1Gi"}}}]}}`
	if diff := cmp.Diff(want, compact(t, f.Body("PATCH "+webPod+"/resize"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPodWriter_resizeWithPodLevelResources_patchesThemToo(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyPod("shop", "web-1-0", "ReplicaSet", "web-1")
	cpu := func(milli int64) cluster.Resources { return cluster.Resources{}.Set(cluster.CPU, milli) }
	level := &cluster.PodResources{Requests: cpu(900), Limits: cpu(1800)}
	err := NewPodWriter(clientsOf(f)).Resize(t.Context(), podToActOn(), []policy.Fitted{{Container: "app", Requests: cpu(900), PodLevel: level}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"uid":"u7"},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"900m"}}}],` +
		`"resources":{"limits":{"cpu":"1800m"},"requests":{"cpu":"900m"}}}}`
	if diff := cmp.Diff(want, compact(t, f.Body("PATCH "+webPod+"/resize"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPodWriter_resizeWithoutAmounts_sendsNothing(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	if err := NewPodWriter(clientsOf(f)).Resize(t.Context(), podToActOn(), []policy.Fitted{{Container: "log"}}); err != nil || len(f.Requests()) != 0 {
		t.Errorf("sent %v, error %v", f.Requests(), err)
	}
}

func TestPodWriter_evict_hasUIDPrecondition(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	if err := NewPodWriter(clientsOf(f)).Evict(t.Context(), podToActOn()); err != nil {
		t.Fatal(err)
	}
	// The body is protobuf, which contains the UID unchanged.
	body := f.Body("POST " + webPod + "/eviction")
	for _, want := range []string{"policy/v1", "Eviction", "u7", "web-1-0"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in the body %q", want, body)
		}
	}
}

func TestPodWriter_annotate_setsAndRemovesAnnotations(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyPod("shop", "web-1-0", "ReplicaSet", "web-1")
	err := NewPodWriter(clientsOf(f)).Annotate(t.Context(), podToActOn(), map[string]string{"vpaInPlaceUpdated": "true"}, "vpaCpuStartupBoost/app")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"annotations":{"vpaCpuStartupBoost/app":null,"vpaInPlaceUpdated":"true"},"uid":"u7"}}`
	if diff := cmp.Diff(want, compact(t, f.Body("PATCH "+webPod))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPodWriter_evictionIsRefused_errorHasTheReason(t *testing.T) {
	status := func(code int, reason, message, details string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q,"details":%s}`, code, reason, message, details)
	}
	for name, tc := range map[string]struct {
		code int
		body string
		want error
	}{
		"pod not found":                             {404, status(404, "NotFound", `pods "web-1-0" not found`, `{"name":"web-1-0","kind":"pods"}`), kube.ErrNotFound},
		"no such subresource":                       {404, "404 page not found", kube.ErrUnsupported},
		"no such subresource, as a Status":          {404, status(404, "NotFound", "the server could not find the requested resource", `{}`), kube.ErrUnsupported},
		"another UID in an eviction":                {409, status(409, "Conflict", "Precondition failed: UID in precondition: u7", `{}`), kube.ErrConflict},
		"another writer during an eviction":         {409, status(409, "Conflict", "Operation cannot be fulfilled on pods: the object has been modified", `{}`), kube.ErrBusy},
		"another UID in a patch":                    {422, status(422, "Invalid", `metadata.uid: field is immutable`, `{"causes":[{"reason":"FieldValueInvalid","field":"metadata.uid"}]}`), kube.ErrConflict},
		"another QoS class":                         {422, status(422, "Invalid", `Pod QOS Class may not change as a result of resizing`, `{"causes":[{"reason":"FieldValueInvalid","field":"spec"}]}`), kube.ErrInvalid},
		"a disruption budget":                       {429, status(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", `{"causes":[{"reason":"DisruptionBudget"}]}`), kube.ErrBudget},
		"an overloaded server":                      {429, status(429, "TooManyRequests", "too many requests", `{}`), kube.ErrBusy},
		"does not fit on the node, by cause":        {403, status(403, "Forbidden", "does not fit", `{"causes":[{"reason":"NodeCapacity"}]}`), kube.ErrNodeCapacity},
		"a text about a node, without a cause":      {403, status(403, "Forbidden", `pods "web" is forbidden: node didn't have enough allocatable resources: cpu, requested: 6000, allocatable: 3900`, `{}`), kube.ErrForbidden},
		"a quota":                                   {403, status(403, "Forbidden", "exceeded quota", `{}`), kube.ErrQuota},
		"a limit range":                             {403, status(403, "Forbidden", `pods "web" is forbidden: maximum cpu usage per Container is 2, but limit is 4`, `{}`), kube.ErrQuota},
		"access control":                            {403, status(403, "Forbidden", `pods "web" is forbidden: User "u" cannot patch resource "pods/resize"`, `{}`), kube.ErrForbidden},
		"a webhook that denies, without a reason":   {400, status(400, "", `admission webhook "a.example.com" denied the request: no`, `{}`), kube.ErrDenied},
		"a webhook that denies with a conflict":     {409, status(409, "Conflict", `admission webhook "a.example.com" denied the request: no`, `{}`), kube.ErrDenied},
		"a webhook that denies with a server error": {500, status(500, "InternalError", `admission webhook "a.example.com" denied the request: no`, `{}`), kube.ErrDenied},
		"a webhook that does not find the pod":      {404, status(404, "NotFound", `admission webhook "a.example.com" denied the request: no`, `{"name":"web-1-0"}`), kube.ErrDenied},
		"a webhook that cannot be called":           {500, status(500, "InternalError", `Internal error occurred: failed calling webhook "a.example.com": Post "https://a": EOF`, `{}`), kube.ErrWebhook},
		"a bad request":                             {400, status(400, "BadRequest", "no", `{}`), kube.ErrDenied},
		"two disruption budgets":                    {500, status(500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", `{}`), kube.ErrDenied},
		"an expired token":                          {401, status(401, "Unauthorized", "Unauthorized", `{}`), nil},
		"an internal error":                         {500, status(500, "InternalError", "boom", `{}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := kubetest.NewFakeAPI(t)
			f.Reply("POST "+webPod+"/eviction", tc.code, tc.body)
			err := NewPodWriter(clientsOf(f)).Evict(t.Context(), podToActOn())
			if err == nil || !strings.HasPrefix(err.Error(), "evict pod shop/web-1-0: ") {
				t.Fatalf("error %v", err)
			}
			for _, reason := range []error{kube.ErrNotFound, kube.ErrConflict, kube.ErrBudget, kube.ErrNodeCapacity, kube.ErrForbidden, kube.ErrInvalid, kube.ErrUnsupported, kube.ErrBusy, kube.ErrQuota, kube.ErrDenied, kube.ErrWebhook} {
				if errors.Is(err, reason) != (reason == tc.want) {
					t.Errorf("is %q: %t; error %v", reason, errors.Is(err, reason), err)
				}
			}
			if n := len(f.Requests()); n != 1 {
				t.Errorf("%d requests were sent, want 1", n)
			}
		})
	}
}

func TestPodWriter_deadlineBeforeSending_returnsErrNotSent(t *testing.T) {
	clients, err := kube.ClientsFor(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	a := NewPodWriter(clients)
	p := &cluster.Pod{Key: cluster.Key{Namespace: "a", Name: "b"}, UID: "u"}
	closed := kube.NewFence()
	closed.Close()
	for what, guard := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancelled context": context.WithCancel, "closed fence": closed.Guard,
	} {
		ctx, cancel := guard(t.Context())
		cancel()
		with := []policy.Fitted{{Container: "app", Requests: cluster.Amounts(1, 1)}}
		for act, err := range map[string]error{"evict": a.Evict(ctx, p), "resize": a.Resize(ctx, p, with), "annotate": a.Annotate(ctx, p, nil, "x")} {
			if !errors.Is(err, kube.ErrNotSent) {
				t.Errorf("%s, %s: %v", what, act, err)
			}
		}
	}
	if err := a.Evict(t.Context(), p); err == nil || errors.Is(err, kube.ErrNotSent) {
		t.Errorf("a request without a response: %v", err)
	}
}

// clientsOf returns clients of a fake API.
func clientsOf(f *kubetest.FakeAPI) *kube.Clients {
	cs, err := kube.ClientsFor(f.Config())
	if err != nil {
		panic(err)
	}
	return cs
}
