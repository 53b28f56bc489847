// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

// What is loaded once is what the watches deliver.
func TestWorld_load_isWhatTheWatchesDeliver(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.ApplyNode("n1", "3900m", "8Gi")
	// A custom controller with a scale subresource, and a pod of it.
	f.Reply("GET /api", 200, `{"kind":"APIVersions","versions":["v1"]}`)
	f.Reply("GET /api/v1", 200, `{"kind":"APIResourceList","groupVersion":"v1","resources":[]}`)
	f.Reply("GET /apis", 200, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"test.podfit.dev","versions":[{"groupVersion":"test.podfit.dev/v1","version":"v1"}],
		"preferredVersion":{"groupVersion":"test.podfit.dev/v1","version":"v1"}}]}`)
	f.Reply("GET /apis/test.podfit.dev/v1", 200, `{"kind":"APIResourceList","groupVersion":"test.podfit.dev/v1","resources":[
		{"name":"fleets","kind":"Fleet","namespaced":true,"verbs":["get"]},{"name":"fleets/scale","kind":"Scale","namespaced":true,"verbs":["get"]}]}`)
	f.Reply("GET /apis/test.podfit.dev/v1/namespaces/shop/fleets/f/scale", 200, `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"namespace":"shop","name":"f"},"spec":{"replicas":7}}`)
	f.Apply("/api/v1/pods", `{"metadata":{"namespace":"shop","name":"f-1","uid":"f-1","ownerReferences":[{"apiVersion":"test.podfit.dev/v1","kind":"Fleet","name":"f","uid":"f","controller":true}]},
		"spec":{"nodeName":"n1","containers":[{"name":"app"}]},"status":{"phase":"Running"}}`)
	o := Options{Pods: LivePods, Nodes: true, Limits: true, Quotas: true, Budgets: true, HPAs: true, Rules: true}
	loaded := NewWorld(clientsOf(f), o)
	if unread := loaded.Load(t.Context()); len(unread) > 0 {
		t.Fatalf("not read: %v", unread)
	}
	watched := startWorld(t, f, o)
	fleet := cluster.Workload{Group: "test.podfit.dev", Kind: "Fleet", Namespace: "shop", Name: "f"}
	kubetest.Eventually(t, "the custom controller is known", func() bool {
		return watched.Scale(fleet).Known && len(watched.Snapshot().PodsOf(fleet)) == 1
	})
	if diff := cmp.Diff(watched.Snapshot().Pods, loaded.Snapshot().Pods); diff != "" {
		t.Errorf("pods (-watched +loaded):\n%s", diff)
	}
	if diff := cmp.Diff(watched.Nodes(), loaded.Nodes()); diff != "" {
		t.Errorf("nodes (-watched +loaded):\n%s", diff)
	}
	if got := loaded.Scale(fleet); got != watched.Scale(fleet) || got.Replicas != 7 {
		t.Errorf("scale %+v, want %+v", got, watched.Scale(fleet))
	}
	if _, known := loaded.NewNodes(); !known {
		t.Error("the nodes that can be added are not known")
	}
}

func TestWorld_loadWithoutRights_namesWhatIsMissing(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Reply("GET /api/v1/nodes", 403, `{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"no"}`)
	w := NewWorld(clientsOf(f), Options{Pods: LivePods, Nodes: true})
	unread := w.Load(t.Context())
	if len(unread) != 1 || unread[0].Resource != "nodes" || !apierrors.IsForbidden(unread[0].Err) || unread[0].Lost == "" {
		t.Fatalf("not read: %+v", unread)
	}
	if n := len(w.Snapshot().PodsOf(web)); n == 0 {
		t.Error("no pods are known")
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if unread := NewWorld(clientsOf(f), Options{Pods: LivePods}).Load(canceled); len(unread) == 0 {
		t.Error("everything is read although the context has ended")
	}
}
