// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/tools/record"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
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
	changed := func(do decision.Act) func() {
		return func() {
			e.Changed(&decision.Decision{Pod: p, Autoscaler: &cluster.Autoscaler{Key: kubetest.WebKey, UID: "v1"}, Do: do, Reason: decision.Reason{Code: decision.QoSChange}})
		}
	}
	sent(changed(decision.Resize), 1, "Pod", "u7", "InPlaceResizedByVPA", "Pod was resized in place by VPA Updater.")
	sent(func() { e.ResizeSkipped(p) }, 2, "InPlaceResizeSkipped",
		"Previously recorded in-place update was infeasible, current recommendation is not lower than previous, skipping resize")
	sent(changed(decision.Evict), 4,
		"VerticalPodAutoscaler", "autoscaling.k8s.io/v1", "EvictedPod", "VPA Updater evicted Pod web-1-0 to apply resource recommendation.")
	sent(func() { e.Pod(p, "EvictedByVPA", "again") }, 5, "EvictedByVPA")
	e.Stop()
	for _, r := range got {
		if r != "POST /api/v1/namespaces/shop/events" {
			t.Errorf("request %s", r)
		}
	}
}

func TestRecent_eventsOfUpdaterAndOthers_thoseOfUpdaterAreEntriesNewestFirst(t *testing.T) {
	event := func(name, reason, last, first string) map[string]any {
		e := map[string]any{"metadata": map[string]any{"name": name, "namespace": "shop"}, "involvedObject": map[string]any{"kind": "Pod", "namespace": "shop", "name": name}, "reason": reason, "message": " text ", "source": map[string]any{"component": Source}}
		if name == "d" {
			e["source"] = map[string]any{"component": "other"}
		}
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
		event("d", "EvictedByVPA", "2026-03-01T14:00:00Z", ""),
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

// The API server lists namespaces in their order, so one with many events comes before others, and would use up a limit.
func TestRecent_manyEventsOfOneNamespace_hideNoOthers(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	apply := func(namespace string, n int) {
		for i := range n {
			f.Apply("/api/v1/events", fmt.Sprintf(`{"metadata":{"namespace":%q,"name":"e%04d"},"reason":"EvictedByVPA","source":{"component":"vpa-updater"},
				"involvedObject":{"kind":"Pod","namespace":%[1]q,"name":"p"},"lastTimestamp":"2026-03-01T12:00:00Z"}`, namespace, i))
		}
	}
	apply("aa", 2)
	apply("bank", 2100)
	apply("shop", 1)
	got, err := Recent(t.Context(), clientsOf(f), "")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range got {
		count[e.Pod.Namespace]++
	}
	if count["aa"] != 2 || count["shop"] != 1 || count["bank"] < 500 || count["bank"] > 1000 {
		t.Errorf("events by namespace: %v", count)
	}
	if all, err := Recent(t.Context(), clientsOf(f), "bank"); err != nil || len(all) != 2100 {
		t.Errorf("%d events of the namespace alone, error %v", len(all), err)
	}
}

func TestList_eventWithReasonOfPodfitOfAnotherComponent_isNoActivity(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	for i, e := range [][2]string{{"EvictedByVPA", "someone"}, {"EvictedByVPA", Source}, {"OOMKilling", "kubelet"}} {
		f.Apply("/api/v1/events", fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"e%d"},"reason":%q,"source":{"component":%q},"involvedObject":{"kind":"Pod","name":"p%[1]d"}}`, i, e[0], e[1]))
	}
	got, err := List(t.Context(), clientsOf(f), "shop")
	if err != nil || len(got) != 2 || got[0].Name != "p1" || got[1].Name != "p2" {
		t.Errorf("events %+v, error %v", got, err)
	}
}

func TestList_changeByTheUpdater_hasItsReasonAndVPA(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	for _, source := range []string{Source, "someone"} {
		f.Apply("/api/v1/events", fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"annotations":{"podfit.dev/reason-text":"It has no request.","podfit.dev/vpa":"web"}},
			"reason":"Surge","message":"Pod was changed.","source":{"component":%[1]q},"involvedObject":{"kind":"Pod","name":%[1]q}}`, source))
	}
	got, err := List(t.Context(), clientsOf(f), "shop")
	if err != nil || len(got) != 2 {
		t.Fatalf("events %+v, error %v", got, err)
	}
	for _, e := range got {
		if ours := e.Name == Source; (e.Message == "It has no request." && e.VPA == "web") != ours || (e.Message == "Pod was changed." && e.VPA == "") == ours {
			t.Errorf("event %+v", e)
		}
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

// What the page shows of an event is what the updater has decided, also if it is the second one with the same text, of which client-go sends only
// the count and the time.
func TestRecorder_secondResizeOfAPod_eventHasItsOwnReasonAndAmounts(t *testing.T) {
	kept := &keptEvents{}
	b := record.NewBroadcaster()
	b.StartRecordingToSink(sink{kept})
	r := &Recorder{broadcaster: b, recorder: b.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: Source})}
	p := &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: "web-1-0"}, UID: "u7", Top: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"},
		Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(400, 512<<20)}},
	}
	for i, tt := range []struct {
		to     int64
		change string
	}{{109, "app CPU 400m → 109m"}, {300, "app CPU 400m → 300m"}, {400, ""}} { // the last one changes only limits
		d := &decision.Decision{
			Pod: p, Autoscaler: &cluster.Autoscaler{Key: kubetest.WebKey}, Do: decision.Resize,
			With:   []policy.Fitted{{Container: "app", Requests: cluster.Amounts(tt.to, 512<<20)}},
			Reason: decision.Reason{Code: decision.AboveRange, Container: "app", Resource: cluster.CPU, From: 400, To: tt.to},
		}
		r.Changed(d)
		kubetest.Eventually(t, "the event is sent", func() bool { return kept.count() == i+1 })
		want := overview.EntryOf(time.Time{}, d)
		want.Times = i + 1
		got := entryOfEvent(kept.last(t))
		got.At = time.Time{}
		if got != want || want.Change != tt.change || want.Workload != p.Top {
			t.Errorf("event %d: the page gets\n%+v, want\n%+v", i, got, want)
		}
	}
	r.Stop()
}

// The page gets the action, the change and the reason of each kind of change from its event, as in the process of the updater.
func TestRecorder_eachAct_eventHasChangeAndReason(t *testing.T) {
	for _, do := range []decision.Act{decision.Resize, decision.Evict, decision.Delete, decision.Surge} {
		kept := &keptEvents{}
		b := record.NewBroadcaster()
		b.StartRecordingToSink(sink{kept})
		r := &Recorder{broadcaster: b, recorder: b.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: Source})}
		d := &decision.Decision{
			Pod: &cluster.Pod{
				Key: cluster.Key{Namespace: "shop", Name: "web-1-0"}, UID: "u7", Top: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"},
				Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(400, 512<<20)}},
			},
			Autoscaler: &cluster.Autoscaler{Key: kubetest.WebKey}, Do: do, With: []policy.Fitted{{Container: "app", Requests: cluster.Amounts(109, 512<<20)}},
			Reason: decision.Reason{Code: decision.AboveRange, Container: "app", Resource: cluster.CPU, From: 400, To: 109},
		}
		r.Changed(d)
		kubetest.Eventually(t, "the event is sent", func() bool { return kept.count() == 1 })
		want := overview.EntryOf(time.Time{}, d)
		want.Times = 1
		got := entryOfEvent(kept.last(t))
		got.At = time.Time{}
		if got != want || got.Change != "app CPU 400m → 109m" || got.Text != d.Reason.String() {
			t.Errorf("%v: the page gets\n%+v, want\n%+v", do, got, want)
		}
		r.Stop()
	}
}

// Anyone who may write events can write annotations of any length. An amount that is cut off is marked.
func TestEntryOfEvent_longAndInvalidAnnotations_areCutAndMarked(t *testing.T) {
	change := strings.Repeat("a CPU 400m → 1000m, ", 100)
	e := &corev1.Event{Reason: InPlaceResizedByVPA, InvolvedObject: corev1.ObjectReference{Namespace: "shop", Name: "web-1-0"}}
	for _, workload := range []string{"apps/Deployment", "//", "apps//web", "apps/Deployment/", "a/b/c/d"} {
		e.Annotations = map[string]string{annotationChange: change, annotationWorkload: workload}
		got := entryOfEvent(e)
		if !strings.HasSuffix(got.Change, "…") || len(got.Change) > maxAnnotation+len("…") {
			t.Errorf("the change of %d bytes ends with %q", len(got.Change), got.Change[len(got.Change)-20:])
		}
		if !got.Workload.IsZero() {
			t.Errorf("%q is the workload %v", workload, got.Workload)
		}
	}
}

// An event that was written several times counts as often, in both ways in which an API server stores that.
func TestEntryOfEvent_severalTimes_areCounted(t *testing.T) {
	for name, e := range map[string]*corev1.Event{
		"count":  {Reason: InPlaceResizedByVPA, Count: 3},
		"series": {Reason: EvictedByVPA, Series: &corev1.EventSeries{Count: 3}},
	} {
		if got := entryOfEvent(e); got.Times != 3 {
			t.Errorf("%s: %d times, want 3", name, got.Times)
		}
	}
	if got := entryOfEvent(&corev1.Event{Reason: InPlaceResizeSkipped, Count: 3}); got.Times != 0 {
		t.Errorf("%d times, want 0: the pod was left once", got.Times)
	}
}

// keptEvents is an API server that keeps one event about a pod.
type keptEvents struct {
	record.EventSink

	mu     sync.Mutex
	stored []byte
	writes int
}

func (k *keptEvents) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.writes
}

func (k *keptEvents) last(t *testing.T) *corev1.Event {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	var e corev1.Event
	if err := json.Unmarshal(k.stored, &e); err != nil {
		t.Fatal(err)
	}
	return &e
}

func (k *keptEvents) Create(e *corev1.Event) (*corev1.Event, error) {
	if e.InvolvedObject.Kind != "Pod" {
		return e, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	data, err := json.Marshal(e)
	k.stored, k.writes = data, k.writes+1
	return e, err
}

func (k *keptEvents) Patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	data, err := strategicpatch.StrategicMergePatch(k.stored, patch, corev1.Event{})
	k.stored, k.writes = data, k.writes+1
	return e, err
}
