// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

const (
	nodePoolsPath  = "/apis/karpenter.sh/v1/nodepools"
	nodeGroupsPath = "/apis/cluster.x-k8s.io/v1beta1/machinedeployments"
	noSuchKind     = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
)

func TestWorld_autoscalerOfNodes_sizesOfNewNodesAreRead(t *testing.T) {
	const (
		pool  = `{"kind":"NodePoolList","items":[{"spec":{"limits":{"cpu":"16","memory":"64Gi"}}}]}`
		group = `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[{"metadata":{"name":"g","annotations":{
			"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size":"3",
			"capacity.cluster-autoscaler.kubernetes.io/cpu":"8","capacity.cluster-autoscaler.kubernetes.io/memory":"128Gi"}}}]}`
	)
	type reply struct {
		code int
		text string
	}
	for name, c := range map[string]struct {
		pools, groups reply
		want          []cluster.Resources
		logged        int
	}{
		"neither":   {reply{404, noSuchKind}, reply{404, noSuchKind}, nil, 0},
		"Karpenter": {reply{200, pool}, reply{404, noSuchKind}, []cluster.Resources{cluster.Amounts(16000, 64<<30)}, 0},
		"both":      {reply{200, pool}, reply{200, group}, []cluster.Resources{cluster.Amounts(16000, 64<<30), cluster.Amounts(8000, 128<<30)}, 0},
		"no right":  {reply{403, forbidden}, reply{403, forbidden}, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := kubetest.NewFakeAPI(t)
			f.ApplyShop()
			f.Reply("GET "+nodePoolsPath, c.pools.code, c.pools.text)
			f.Reply("GET "+nodeGroupsPath, c.groups.code, c.groups.text)
			var text logText
			w := startWorld(t, f, Options{Nodes: true, Log: slog.New(slog.NewTextHandler(&text, nil))})
			kubetest.Eventually(t, "the new nodes are known", func() bool { _, known := w.NewNodes(); return known })
			if got := Fleet(w, FleetOptions{Scale: true}).For(cluster.NodeSelector{Labels: []string{"no=node"}}, nil, false).Largest; !reflect.DeepEqual(got, c.want) {
				t.Errorf("sizes %v, want %v", got, c.want)
			}
			if n := strings.Count(text.String(), "which nodes can be added"); n < c.logged || c.logged == 0 && n > 0 {
				t.Errorf("log:\n%s", text.String())
			}
		})
	}
}

// The cluster autoscaler reports groups that have no objects in the cluster, and counts better than others.
func TestNewNodes_statusOfTheAutoscaler_countsTheNodesOfGroups(t *testing.T) {
	const groups = `{"kind":"MachineDeploymentList","items":[{"metadata":{"namespace":"prod","name":"md-0","annotations":{
		"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size":"5",
		"capacity.cluster-autoscaler.kubernetes.io/cpu":"8","capacity.cluster-autoscaler.kubernetes.io/memory":"128Gi"}},"spec":{"replicas":3}}]}`
	status := func(at time.Time, max string) string {
		text := "time: \"" + at.UTC().Format("2006-01-02 15:04:05.999999999 -0700 MST") + "\"\nnodeGroups:\n" +
			"- name: MachineDeployment/prod/md-0\n  health:\n    cloudProviderTarget: 4\n    maxSize: " + max + "\n  scaleUp:\n    status: Backoff\n" +
			"- name: asg\n  health:\n    cloudProviderTarget: 1\n    maxSize: 3\n"
		out, err := json.Marshal(map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]string{"name": "cluster-autoscaler-status"}, "data": map[string]string{"status": text}})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	md := func(more int, backedOff bool) cluster.NodeGroup {
		return cluster.NodeGroup{Name: "MachineDeployment/prod/md-0", Counted: true, More: more, BackedOff: backedOff}
	}
	asg := cluster.NodeGroup{Name: "asg", Counted: true, More: 2}
	const (
		reviews   = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
		mayNotGet = 0 // the code of a case without the right: nothing is read
	)
	now := time.Now()
	for name, c := range map[string]struct {
		code   int
		object string
		want   []cluster.NodeGroup
		log    string
	}{
		"a status":            {200, status(now, "9"), []cluster.NodeGroup{md(5, true), asg}, ""},
		"one group is bad":    {200, status(now, "-9"), []cluster.NodeGroup{md(2, false), asg}, "1 of 2 node groups are ignored"},
		"an old status":       {200, status(now.Add(-time.Hour), "9"), []cluster.NodeGroup{md(2, false)}, "the status must be newer than 15m0s"},
		"no autoscaler":       {404, noSuchKind, []cluster.NodeGroup{md(2, false)}, ""},
		"no right to read it": {mayNotGet, "", []cluster.NodeGroup{md(2, false)}, "deploy/rights/node-groups"},
		"the read is refused": {403, forbidden, []cluster.NodeGroup{md(2, false)}, "deploy/rights/node-groups"},
		"the read fails":      {500, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`, []cluster.NodeGroup{md(2, false)}, "Cannot read an optional resource"},
		"no ConfigMap":        {200, `{"data":{"status":7}}`, []cluster.NodeGroup{md(2, false)}, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			f := kubetest.NewFakeAPI(t)
			f.Reply("GET "+nodePoolsPath, 404, noSuchKind)
			f.Reply("GET "+nodeGroupsPath, 200, groups)
			f.Reply(reviews, 201, fmt.Sprintf(`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%t}}`, c.code != mayNotGet))
			f.Reply("GET "+autoscalerStatus, cmp.Or(c.code, 403), c.object)
			var text logText
			w := NewWorld(clientsOf(f), Options{Nodes: true, NodeGroups: true, Log: slog.New(slog.NewTextHandler(&text, nil))})
			for range 2 { // a problem is logged once
				if err := w.loadNewNodes(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			all, _ := w.NewNodes()
			if got := cluster.Each(all, func(n *cluster.NewNode) cluster.NodeGroup { return n.NodeGroup }); !slices.Equal(got, c.want) {
				t.Errorf("groups %+v, want %+v", got, c.want)
			}
			if n := f.Refusals("GET " + autoscalerStatus); (n == 0) != (c.code == mayNotGet) {
				t.Errorf("%d requests for the status", n)
			}
			if body := f.Body(reviews); !strings.Contains(body, "kube-system") || !strings.Contains(body, "cluster-autoscaler-status") {
				t.Errorf("the right is asked for by %q", body)
			}
			if n := strings.Count(text.String(), "level="); n != min(len(c.log), 1) || !strings.Contains(text.String(), c.log) {
				t.Errorf("log:\n%s", text.String())
			}
		})
	}
}

func TestFleet_newNodesAreNotRead_podsAreNotScaled(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Reply("GET "+nodePoolsPath, 500, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`)
	w := startWorld(t, f, Options{Nodes: true})
	kubetest.Eventually(t, "a read has failed", func() bool { return f.Refusals("GET "+nodePoolsPath) > 0 })
	if sizes := Fleet(w, FleetOptions{Scale: true}).For(cluster.NodeSelector{}, nil, false); sizes != nil {
		t.Errorf("sizes %v, want nil", sizes)
	}
}

func TestWorld_vpaOfDaemonSet_hasTheSizesOfNodes(t *testing.T) {
	w := NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{Nodes: true})
	put := func(name string, cores int64) {
		w.nodes.Put(cluster.Key{Name: name}, cluster.Node{Name: name, Allocatable: cluster.Amounts(cores*1000, 8<<30)})
	}
	for _, kind := range []string{"DaemonSet", "Deployment"} {
		key := cluster.Key{Namespace: "shop", Name: strings.ToLower(kind)}
		w.autoscalers.Put(key, &autoscalerEntry{Autoscaler: &cluster.Autoscaler{
			Key: key, UID: kind, Mode: cluster.Recreate, Target: cluster.Workload{Group: "apps", Kind: kind, Namespace: "shop", Name: "web"},
		}})
	}
	check := func(step string, want map[string]string) {
		t.Helper()
		for _, a := range append(w.Autoscalers(), w.Governing(cluster.Workload{Group: "apps", Kind: "DaemonSet", Namespace: "shop", Name: "web"})) {
			if a.Target.Kind == "DaemonSet" && !maps.Equal(a.NodeSizes, want) || a.Target.Kind == "Deployment" && a.NodeSizes != nil {
				t.Errorf("%s: %s has %v, want %v", step, a.Key, a.NodeSizes, want)
			}
		}
	}
	check("no node", nil)
	put("n1", 4)
	put("n2", 60)
	before := w.Autoscalers()[0].NodeSizes
	check("two nodes", map[string]string{"n1": "4cpu-8Gi", "n2": "64cpu-8Gi"})
	put("n1", 8)
	check("a node is larger", map[string]string{"n1": "8cpu-8Gi", "n2": "64cpu-8Gi"})
	w.nodes.Remove(cluster.Key{Name: "n2"})
	check("a node is removed", map[string]string{"n1": "8cpu-8Gi"})
	if !maps.Equal(before, map[string]string{"n1": "4cpu-8Gi", "n2": "64cpu-8Gi"}) {
		t.Errorf("sizes that a pass uses have changed: %v", before)
	}
}
