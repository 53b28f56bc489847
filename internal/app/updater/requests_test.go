// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/test/kubetest"
)

// A countingAPI is an API server with ReplicaSets with two pods each that need an eviction, in the shape of make bench-evictions. It
// replaces evicted pods.
type countingAPI struct {
	*kubetest.FakeAPI

	mu      sync.Mutex
	evicted int
	starts  time.Duration // from an eviction until the replacement is ready
}

func newCountingAPI(t *testing.T, workloads int) *countingAPI {
	f := &countingAPI{FakeAPI: kubetest.NewLocalAPI(t), starts: 2 * time.Second}
	f.OnEvict(f.replace)
	f.Apply("/api/v1/nodes", `{"metadata":{"name":"n"},"status":{"allocatable":{"cpu":"100000","memory":"100000Gi","pods":"100000"},
		"conditions":[{"type":"Ready","status":"True"}]}}`)
	for i := range workloads {
		name := fmt.Sprintf("web-%03d", i)
		f.Apply(kubetest.ReplicaSetsPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":"rs-%s"},"spec":{"replicas":2}}`, name, name))
		f.Apply(kubetest.AutoscalersPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":"vpa-%s","generation":1},
			"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"ReplicaSet","name":%q},"updatePolicy":{"updateMode":"Recreate"}},
			"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","lowerBound":{"cpu":"150m","memory":"192Mi"},
			"target":{"cpu":"200m","memory":"256Mi"},"upperBound":{"cpu":"400m","memory":"512Mi"}}]}}}`, name, name, name))
		for j := range 2 {
			f.applyPod(name, fmt.Sprintf("%s-%d", name, j), "100m", "128Mi")
		}
	}
	return f
}

func (f *countingAPI) applyPod(workload, name, cpu, memory string) {
	now := time.Now().UTC().Format(time.RFC3339)
	f.Apply(kubetest.PodsPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":%q,"creationTimestamp":%q,"ownerReferences":[
		{"apiVersion":"apps/v1","kind":"ReplicaSet","name":%q,"uid":"rs-%s","controller":true}]},
		"spec":{"nodeName":"n","containers":[{"name":"app","resources":{"requests":{"cpu":%q,"memory":%q}}}]},
		"status":{"phase":"Running","startTime":%q,"conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}],
		"containerStatuses":[{"name":"app","ready":true,"state":{"running":{"startedAt":%q}}}]}}`, name, "uid-"+name, now, workload, workload, cpu, memory, now, now, now))
}

// replace creates the replacement of an evicted pod, with the recommended requests.
func (f *countingAPI) replace(_, name string) {
	f.mu.Lock()
	f.evicted++
	replacement := fmt.Sprintf("%s-r%d", name[:len("web-000")], f.evicted)
	f.mu.Unlock()
	time.AfterFunc(f.starts, func() { f.applyPod(name[:len("web-000")], replacement, "200m", "256Mi") })
}

// update runs the updater for a time, with its clients, watches, events and conditions, and ends it.
func (f *countingAPI) update(t *testing.T, d time.Duration, args ...string) {
	t.Helper()
	clients, err := kube.ClientsFor(kubetest.LocalConfig(f))
	if err != nil {
		t.Fatal(err)
	}
	c := given(t, append([]string{"--use-admission-controller-status=false"}, args...)...)
	log := slog.New(slog.DiscardHandler)
	world := watcher.NewWorld(clients, c.Watched(watcher.Options{Pods: watcher.LivePods, Nodes: true, Limits: true, Quotas: true, Budgets: true,
		Rules: true, Profiles: true, FreezeSwitch: c.FreezeSwitch(), Log: log}))
	work := Work(&c, process.New(log, prometheus.NewRegistry()), clients, world)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := process.WithWorld(ctx, world, work); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	synctest.Wait() // a request that was cancelled may still be counted
}

// table returns the requests per eviction.
func (f *countingAPI) table() string {
	counts := f.Counts()
	var out strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&out, "%6d  %5.2f per eviction  %s\n", counts[kind], float64(counts[kind])/float64(max(f.evicted, 1)), kind)
	}
	return out.String()
}

// The bounds are for all requests in the first two minutes, by when all pods are replaced and the conditions show it.
func TestUpdater_burstOfEvictions_sendsFewRequestsPerEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCountingAPI(t, 200)
		f.update(t, 2*time.Minute)
		if f.evicted != 400 {
			t.Fatalf("%d pods were evicted, want 400", f.evicted)
		}
		all, reads := 0, 0
		for kind, n := range f.Counts() {
			most := 0
			verb, resource, _ := strings.Cut(kind, " ")
			switch {
			case verb == http.MethodGet, verb == "WATCH":
				reads += n
				continue
			case resource == kubetest.PodsPath+"/eviction":
				most = f.evicted
			case resource == "/api/v1/events": // upstream's: one for the pod, one for the VPA
				most = 2 * f.evicted
			case resource == kubetest.AutoscalersPath+"/status":
				most = f.evicted * 7 / 8
			case resource == "/apis/podfit.dev/v1alpha1/updatestates": // an announcement and an outcome for each workload, every 30 s
				most = f.evicted
			case resource == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": // the rights of features, each 5 minutes
				most = len(features) + 3 // and that to read the status of the cluster autoscaler
			}
			if n > most {
				t.Errorf("%s: %d requests for %d evictions, want at most %d", kind, n, f.evicted, most)
			}
			all += n
		}
		if perEviction := float64(all) / float64(f.evicted); perEviction > 5.4 || reads > 100 {
			t.Errorf("%.2f writes per eviction and %d reads and watches, want at most 5.4 and 100:\n%s", perEviction, reads, f.table())
		}
	})
}

// A controller whose evicted pod is being replaced has fewer pods than the minimum, but the user does not have to do anything.
func TestUpdater_evictedPodIsBeingReplaced_tooFewReplicasAreNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCountingAPI(t, 1)
		f.update(t, 10*time.Second)
		if n := f.Counts()["POST /api/v1/events"]; f.evicted != 2 || n != 4 {
			t.Errorf("%d events for %d evictions, want 4 for 2: those of upstream", n, f.evicted)
		}
	})
}
