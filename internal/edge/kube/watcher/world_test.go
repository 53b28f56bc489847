// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

func startWorld(t *testing.T, f *kubetest.FakeAPI, o Options) *World {
	t.Helper()
	w := NewWorld(clientsOf(f), o)
	ctx, cancel := context.WithCancel(context.Background())
	w.Start(ctx)
	t.Cleanup(func() {
		cancel()
		w.Wait()
	})
	ctx, cancelWait := context.WithTimeout(ctx, 20*time.Second)
	defer cancelWait()
	if err := w.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}

var web = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}

func TestWorld_snapshot_joinsPodsAndAutoscalersByOwner(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Apply("/api/v1/nodes", `{"metadata":{"name":"n1"},"spec":{"unschedulable":true},"status":{
		"allocatable":{"cpu":"3900m","memory":"8Gi","pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}}`)
	w := startWorld(t, f, Options{Pods: AllPods, Nodes: true, Limits: true, Evictions: true})

	s := w.Snapshot()
	var names []string
	for _, p := range s.PodsOf(web) {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"web-1-0", "web-1-1", "web-1-2"}, names); diff != "" {
		t.Errorf("pods of %s (-want +got):\n%s", web, diff)
	}
	if as := s.AutoscalersOf(web); len(as) != 1 || as[0].Name != "web" || as[0].Generation != 4 {
		t.Errorf("autoscalers of %s: %+v", web, as)
	}
	if a := w.Governing(web); a == nil || a.Name != "web" {
		t.Errorf("the autoscaler of %s: %+v", web, a)
	}
	set := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	if got := w.Scale(set); got != (cluster.Scale{Known: true, Replicas: 3}) {
		t.Errorf("scale of the replica set: %+v", got)
	}
	wantNodes := []cluster.Node{{Name: "n1", Allocatable: cluster.Amounts(3900, 8<<30), MaxPods: 110, Ready: true, Cordoned: true}}
	if diff := cmp.Diff(wantNodes, w.Nodes()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	for _, s := range w.Health() {
		if !s.Synced || s.Err != nil || s.LastResponse.IsZero() {
			t.Errorf("unhealthy watch: %+v", s)
		}
	}
}

func TestWorld_ownerArrivesAfterPod_podIsResolved(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyPod("shop", "web-1-0", "ReplicaSet", "web-1")
	w := startWorld(t, f, Options{Pods: AllPods})
	before := w.Pods()[0]
	if !before.Top.IsZero() {
		t.Fatalf("the topmost controller is %s although the replica set does not exist", before.Top)
	}
	f.ApplyShop()
	kubetest.Eventually(t, "the topmost controller is the deployment", func() bool {
		return w.Pod(cluster.Key{Namespace: "shop", Name: "web-1-0"}).Top == web
	})
	if !before.Top.IsZero() {
		t.Error("a pod that was returned before has changed")
	}
}

func TestWorld_replicaSetDeleted_podKeepsItsTopmostController(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	w := startWorld(t, f, Options{Pods: AllPods})
	if n := len(w.Snapshot().PodsOf(web)); n != 3 {
		t.Fatalf("%d pods, want 3", n)
	}
	f.Delete(kubetest.ReplicaSetsPath, "shop/web-1")
	f.ApplyPod("shop", "web-1-0", "ReplicaSet", "web-1") // the watch delivers the pod again
	set := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	kubetest.Eventually(t, "the replica set is deleted", func() bool { _, ok := w.Top(set); return !ok })
	kubetest.Eventually(t, "all pods keep their deployment", func() bool { return len(w.Snapshot().PodsOf(web)) == 3 })
}

func TestTopSoon_ownerArrivesDuringReview_isFound(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	w := startWorld(t, f, Options{})
	set := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	found := make(chan cluster.Workload)
	go func() {
		top, _ := w.TopSoon(ctx, set)
		found <- top
	}()
	kubetest.Eventually(t, "the review waits", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.arrived != nil
	})
	f.ApplyShop()
	if got := <-found; got != web {
		t.Errorf("found %s, want %s", got, web)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if top, err := w.TopSoon(ended, cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "never"}); !errors.Is(err, ErrOwnerUnknown) {
		t.Errorf("topmost controller %s, error %v, want %v for a replica set that does not exist", top, err, ErrOwnerUnknown)
	}
}

func TestWorld_apiServerUnavailable_stateIsKeptAndUpdatedAfterwards(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	w := startWorld(t, f, Options{Pods: AllPods})
	f.Stop()
	kubetest.Eventually(t, "the error is recorded", func() bool {
		for _, s := range w.Health() {
			if s.Err != nil && !s.FailedSince.IsZero() {
				return true
			}
		}
		return false
	})
	if s := w.Snapshot(); len(s.PodsOf(web)) != 3 || len(s.Autoscalers) != 1 || !w.Synced() {
		t.Errorf("%d pods and %d autoscalers, want 3 and 1", len(s.PodsOf(web)), len(s.Autoscalers))
	}
	f.Start()
	f.Delete(kubetest.PodsPath, "shop/web-1-2")
	f.ApplyPod("shop", "web-1-7", "ReplicaSet", "web-1")
	kubetest.Eventually(t, "the changes during the outage are applied", func() bool {
		s := w.Snapshot()
		return len(s.PodsOf(web)) == 3 && s.PodsOf(web)[2].Name == "web-1-7"
	})
	kubetest.Eventually(t, "all watches work again", func() bool {
		for _, s := range w.Health() {
			if s.Err != nil {
				return false
			}
		}
		return true
	})
}

func TestWorld_lists_arePagedWithoutResourceVersion(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	const pods = 2*kube.PageSize + 7
	for i := range pods {
		f.ApplyPod("shop", fmt.Sprintf("p%04d", i), "ReplicaSet", "web-1")
	}
	w := startWorld(t, f, Options{Pods: LivePods})
	if n := len(w.Pods()); n != pods {
		t.Errorf("%d pods, want %d", n, pods)
	}
	lists, query := f.Lists(kubetest.PodsPath)
	q, err := url.ParseQuery(query)
	if err != nil || lists != 3 || q.Get("limit") != "500" || q.Get("resourceVersion") != "" {
		t.Errorf("%d pages, the last with %s", lists, query)
	}
	if got := q.Get("fieldSelector"); got != "status.phase!=Succeeded,status.phase!=Failed" {
		t.Errorf("field selector %q", got)
	}
}

func TestWorld_namespaceOptions_areAppliedByTheServer(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	for _, ns := range []string{"shop", "kube-system", "lab"} {
		f.ApplyPod(ns, "p", "ReplicaSet", "r")
		f.Apply(kubetest.AutoscalersPath, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":"a"},"spec":{}}`, ns))
	}
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"all namespaces":     {Options{}, "kube-system/a lab/a shop/a"},
		"one namespace":      {Options{Namespace: "shop"}, "shop/a"},
		"ignored namespaces": {Options{Ignored: []string{"kube-system", "lab"}}, "shop/a"},
		"empty name":         {Options{Ignored: []string{""}}, "kube-system/a lab/a shop/a"}, // W-17
	} {
		t.Run(name, func(t *testing.T) {
			tc.options.Pods = AllPods
			w := startWorld(t, f, tc.options)
			var got []string
			for _, a := range w.Autoscalers() {
				got = append(got, a.Key.String())
			}
			if s := strings.Join(got, " "); s != tc.want || len(w.Pods()) != len(got) {
				t.Errorf("autoscalers %q and %d pods, want %q", s, len(w.Pods()), tc.want)
			}
		})
	}
}

func TestWorld_undecodableAutoscaler_othersAreKept(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	apply := func(cpu string) {
		f.Apply(kubetest.AutoscalersPath, `{"metadata":{"namespace":"shop","name":"bad","uid":"b"},"spec":{
			"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},
			"resourcePolicy":{"containerPolicies":[{"containerName":"*","maxAllowed":{"cpu":"`+cpu+`"}}]}}}`)
	}
	apply("1.2.3")
	w := startWorld(t, f, Options{})
	if n := len(w.Autoscalers()); n != 2 {
		t.Fatalf("%d autoscalers, want 2", n)
	}
	a := w.Autoscaler(cluster.Key{Namespace: "shop", Name: "bad"})
	problem, known := w.TargetProblem(a)
	if a.Mode != cluster.Off || !known || !strings.HasPrefix(problem, "Cannot read targetRef. Reason: ") {
		t.Errorf("mode %s, problem %q", a.Mode, problem)
	}
	apply("1") // valid
	kubetest.Eventually(t, "it is decoded", func() bool { return w.Autoscaler(a.Key).Target == web })
	apply("x") // invalid again
	kubetest.Eventually(t, "its mode is Off again", func() bool { return w.Autoscaler(a.Key).Mode == cluster.Off })
	if got := w.Governing(web); got == nil || got.Name != "web" {
		t.Errorf("the autoscaler of the target: %v", got)
	}
}

func TestWorld_autoscalerChangesTarget_isFoundUnderTheNewTarget(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	w := startWorld(t, f, Options{})
	returned := w.Governing(web)
	f.Apply(kubetest.AutoscalersPath, `{"metadata":{"namespace":"shop","name":"web","uid":"v1","generation":5},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db"}}}`)
	db := cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"}
	kubetest.Eventually(t, "it is found under the new target", func() bool { return w.Governing(db) != nil })
	if a := w.Governing(web); a != nil {
		t.Errorf("%s still governs the old target", a.Key)
	}
	if returned.Target != web {
		t.Errorf("the autoscaler that was returned before has changed: %+v", returned)
	}
	f.Delete(kubetest.AutoscalersPath, "shop/web")
	kubetest.Eventually(t, "it is removed", func() bool {
		return w.Governing(db) == nil && w.Autoscaler(cluster.Key{Namespace: "shop", Name: "web"}) == nil
	})
}

func TestWorld_limitRanges_areMergedAndUpdated(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Apply("/api/v1/limitranges", `{"metadata":{"namespace":"shop","name":"a"},"spec":{"limits":[
		{"type":"Container","max":{"cpu":"2","memory":"1Gi"},"min":{"cpu":"10m"},"default":{"cpu":"1","memory":"1Gi"}},
		{"type":"PersistentVolumeClaim","max":{"storage":"1Gi"}}]}}`)
	w := startWorld(t, f, Options{Limits: true})
	want := cluster.LimitRange{Container: cluster.Range{
		Max: cluster.Amounts(2000, 1<<30), Min: cluster.Resources{}.Set(cluster.CPU, 10), Default: cluster.Amounts(1000, 1<<30)}}
	if diff := cmp.Diff(want, w.Limits("shop")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.Apply("/api/v1/limitranges", `{"metadata":{"namespace":"shop","name":"b"},"spec":{"limits":[
		{"type":"Container","max":{"cpu":"1"},"min":{"cpu":"5m","memory":"8Mi"},"default":{"cpu":"500m"}},
		{"type":"Pod","max":{"memory":"4Gi"}}]}}`)
	want = cluster.LimitRange{
		Container: cluster.Range{
			Max: cluster.Amounts(1000, 1<<30), Min: cluster.Amounts(10, 8<<20), Default: cluster.Resources{}.Set(cluster.CPU, 500)},
		Pod: cluster.Range{Max: cluster.Resources{}.Set(cluster.Memory, 4<<30)},
	}
	kubetest.Eventually(t, "both are merged", func() bool { return w.Limits("shop") == want })
	if l := w.Limits("lab"); l != (cluster.LimitRange{}) {
		t.Errorf("limits of an empty namespace: %+v", l)
	}
	f.Delete("/api/v1/limitranges", "shop/a")
	f.Delete("/api/v1/limitranges", "shop/b")
	kubetest.Eventually(t, "none remains", func() bool { return w.Limits("shop") == cluster.LimitRange{} })
}

func TestWorld_evictionEvents_becomeMemoryEvictions(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	event := func(name, reason, annotations string) {
		f.Apply("/api/v1/events", `{"metadata":{"namespace":"shop","name":"`+name+`","creationTimestamp":"2026-03-01T12:00:00Z",
			"annotations":`+annotations+`},"reason":"`+reason+`","involvedObject":{"kind":"Pod","namespace":"shop","name":"web-1-0"}}`)
	}
	event("e1", "Evicted", `{"offending_containers":"app,log,aux","offending_containers_usage":"900Mi,1Gi,?","starved_resource":"memory,ephemeral-storage,memory"}`)
	event("e2", "Evicted", `{"offending_containers":"app","offending_containers_usage":"1Mi,2Mi","starved_resource":"memory"}`)
	event("e3", "Killing", `{"offending_containers":"app","offending_containers_usage":"1Mi","starved_resource":"memory"}`)
	event("e4", "Evicted", `{}`)
	w := startWorld(t, f, Options{Evictions: true})
	got := w.MemoryEvictions()
	if len(got) != 1 || got[0].Container != "app" || got[0].Memory != 900<<20 ||
		got[0].Pod != (cluster.Key{Namespace: "shop", Name: "web-1-0"}) || !got[0].At.Equal(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("got %+v", got)
	}
}

func TestWaitSynced_listForbidden_errorNamesTheResource(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET "+kubetest.AutoscalersPath, 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no access to autoscalers"}`)
	w := NewWorld(clientsOf(f), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	w.Start(ctx)
	defer w.Wait()
	defer cancel()
	kubetest.Eventually(t, "the error is recorded", func() bool { return w.Health()[0].Err != nil })
	short, cancelShort := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancelShort()
	err := w.WaitSynced(short)
	if err == nil || !strings.Contains(err.Error(), "verticalpodautoscalers") || !strings.Contains(err.Error(), "no access to autoscalers") {
		t.Errorf("error %v", err)
	}
}

// logText contains a log. A test can read it while other goroutines write to it.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"nodes is forbidden"}`

func TestWorld_optionalResourceForbidden_runsWithoutItAndLogsOnce(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	for _, path := range []string{"/api/v1/nodes", "/api/v1/events"} {
		f.Reply("GET "+path, 403, forbidden)
	}
	var text logText
	w := startWorld(t, f, Options{Pods: AllPods, Nodes: true, Evictions: true, Log: slog.New(slog.NewTextHandler(&text, nil))})
	if !w.Synced() {
		t.Error("the world is not synced")
	}
	if len(w.Snapshot().Pods) != 3 || len(w.Nodes()) != 0 {
		t.Errorf("%d pods and %d nodes, want 3 and 0", len(w.Snapshot().Pods), len(w.Nodes()))
	}
	f.Apply("/api/v1/nodes", `{"metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"4","memory":"8Gi"}}}`)
	kubetest.Eventually(t, "the list is retried", func() bool { return f.Refusals("GET /api/v1/nodes") > 2 })
	for _, resource := range []string{"nodes", "events"} {
		if n := strings.Count(text.String(), "podfit runs without it\" resource="+resource+" impact="); n != 1 {
			t.Errorf("%s logged %d times, want 1:\n%s", resource, n, text.String())
		}
	}
	f.ForgetReply("GET /api/v1/nodes")
	kubetest.Eventually(t, "nodes are listed once podfit has the right", func() bool { return len(w.Nodes()) == 1 })
}

func TestWorld_crdsMissing_logsHowToInstallThem(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET "+kubetest.AutoscalersPath, 404, "404 page not found")
	var text logText
	w := NewWorld(clientsOf(f), Options{Log: slog.New(slog.NewTextHandler(&text, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	w.Start(ctx)
	defer w.Wait()
	defer cancel()
	kubetest.Eventually(t, "the remedy is logged", func() bool {
		return strings.Contains(text.String(), "podfit crds | kubectl apply --server-side --force-conflicts -f -")
	})
	if w.Synced() {
		t.Error("synced without a required resource")
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

func TestWorld_stale_omitsNonBlockingResources(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET /api/v1/nodes", http.StatusForbidden, forbidden)
	w := startWorld(t, f, Options{Pods: LivePods, Nodes: true, Evictions: true})
	if stale := w.Stale(time.Now()); len(stale) != 0 {
		t.Errorf("stale resources %v, want none", stale)
	}
	stale := w.Stale(time.Now().Add(time.Hour))
	for resource, want := range map[string]bool{"pods": true, "verticalpodautoscalers": true, "replicasets": true, "nodes": false, "events": false} {
		if slices.Contains(stale, resource) != want {
			t.Errorf("after an hour without response, %s stale: %t, want %t", resource, !want, want)
		}
	}
}
