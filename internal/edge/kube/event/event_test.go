// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/kubetest"
)

func TestRecorder_texts_areUpstreams(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	e := NewRecorder(clientsOf(f))
	p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "web-1-0"}, UID: "u7"}
	var got []string
	// The bodies are protobuf, which contains the texts unchanged. Events are sent one at a time, because the fake API server keeps only the last body.
	sent := func(send func(), n int, texts ...string) {
		send()
		kubetest.Eventually(t, "the event is sent", func() bool { return len(f.Requests()) >= n })
		body := f.Body("POST /api/v1/namespaces/shop/events")
		for _, text := range append(texts, "vpa-updater", "Normal") {
			if !strings.Contains(body, text) {
				t.Errorf("%q is not in the event %q", text, body)
			}
		}
		got = f.Requests()
	}
	sent(func() { e.Resized(p) }, 1, "Pod", "u7", "InPlaceResizedByVPA", "Pod was resized in place by VPA Updater.")
	sent(func() { e.ResizeSkipped(p) }, 2, "InPlaceResizeSkipped",
		"Previously recorded in-place update was infeasible, current recommendation is not lower than previous, skipping resize")
	sent(func() { e.Evicted(p, &cluster.Autoscaler{Key: kubetest.WebKey, UID: "v1"}) }, 4,
		"VerticalPodAutoscaler", "autoscaling.k8s.io/v1", "EvictedPod", "VPA Updater evicted Pod web-1-0 to apply resource recommendation.")
	sent(func() { e.Pod(p, "EvictedByVPA", "again") }, 5, "EvictedByVPA")
	e.Stop()
	for _, r := range got {
		if r != "POST /api/v1/namespaces/shop/events" {
			t.Errorf("request %s", r)
		}
	}
}

func TestRecent_eventsOfUpdater_areEntriesNewestFirst(t *testing.T) {
	event := func(name, reason, last, first string) map[string]any {
		e := map[string]any{"metadata": map[string]any{"name": name, "namespace": "shop"}, "involvedObject": map[string]any{"kind": "Pod", "namespace": "shop", "name": name}, "reason": reason, "message": " text "}
		if last != "" {
			e["lastTimestamp"] = last
		}
		if first != "" {
			e["firstTimestamp"] = first
		}
		return e
	}
	items, err := json.Marshal(map[string]any{"kind": "EventList", "apiVersion": "v1", "items": []any{
		event("a", "EvictedByVPA", "2026-03-01T12:00:00Z", ""), event("b", "InPlaceResizedByVPA", "", "2026-03-01T13:00:00Z"), event("c", "UpdateHeld", "2026-03-01T11:00:00Z", ""),
	}})
	if err != nil {
		t.Fatal(err)
	}
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET /api/v1/events", http.StatusOK, string(items))
	got, err := Recent(t.Context(), clientsOf(f), "")
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, e := range got {
		text += e.Pod.String() + " " + e.Act + " " + e.Reason + " " + e.At.Format("15:04") + " " + e.Text + "\n"
	}
	if want := "shop/b resize InPlaceResizedByVPA 13:00 text\nshop/a evict EvictedByVPA 12:00 text\nshop/c leave UpdateHeld 11:00 text\n"; text != want {
		t.Errorf("got %q, want %q", text, want)
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
