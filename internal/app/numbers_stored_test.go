// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/test/kubetest"
)

// storeUsage stores the usage of a Deployment of namespace shop over some days, in MiB, as the recommender does. killed is how many days ago
// a container was OOM-killed; 0 means never.
func storeUsage(t *testing.T, f *kubetest.FakeAPI, name, profileName string, days int, memory float64, killed int) {
	t.Helper()
	w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
	store := usage.NewStore(usage.DefaultConfig())
	extended := profileName != "default"
	if extended {
		p, _ := recommend.Builtin(profileName)
		store.Extend(w, p.Extend)
	}
	key := cluster.Key{Namespace: "shop", Name: "old"}
	store.Track(&cluster.Pod{Key: key, UID: "old", Top: w, Phase: cluster.Running, Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(400, 1<<30)}}})
	now := time.Now().Truncate(time.Minute)
	kill := now.AddDate(0, 0, -killed)
	for at := now.AddDate(0, 0, -days); at.Before(now); at = at.Add(time.Minute) {
		store.Tick(at)
		store.Observe(usage.Sample{Pod: key, Container: "app", At: at, CPU: 0.2, Memory: memory * (1 << 20), Has: cluster.Both})
		if killed > 0 && at.Equal(kill) && !store.ObserveOOM(usage.OOM{Pod: key, Container: "app", At: at, Memory: int64(memory) << 20}) {
			t.Fatal("the OOM kill is not stored")
		}
	}
	saved, ok := store.Checkpoint(w, "app", now)
	clients, err := kube.ClientsFor(f.Config())
	if err != nil || !ok {
		t.Fatalf("there is a checkpoint: %t, error %v", ok, err)
	}
	if err := checkpoint.NewCheckpoints(clients, checkpoint.StorageOptions{}).Write(t.Context(), checkpoint.Key{Autoscaler: cluster.Key{Namespace: "shop", Name: name}, Container: "app"}, saved); err != nil {
		t.Fatal(err)
	}
	if !extended {
		return
	}
	histories := checkpoint.NewHistories(clients, checkpoint.StorageOptions{})
	if _, err := histories.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := histories.Write(t.Context(), w, store.Histories(w, now)); err != nil {
		t.Fatal(err)
	}
}

// selectProfile makes a VPA of applySized use a profile.
func selectProfile(f *kubetest.FakeAPI, name, profile, cpu, memory string) {
	f.Apply(vpasPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%[1]q,"uid":"v-%[1]s","creationTimestamp":"2026-10-01T00:00:00Z"},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":%[1]q},"recommenders":[{"name":%[4]q}]},
		"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":%[2]q,"memory":%[3]q},
		"lowerBound":{"cpu":%[2]q,"memory":%[3]q},"upperBound":{"cpu":%[2]q,"memory":%[3]q}}]}}}`, name, cpu, memory, profile))
}

// killPod sets an OOM kill in the status of a pod of applySized.
func killPod(f *kubetest.FakeAPI, name string, at time.Time) {
	f.Apply(podsPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"%[1]s-7d9f-0","uid":"u-%[1]s-0","creationTimestamp":"2026-11-01T00:00:00Z","ownerReferences":[
		{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"%[1]s-7d9f","uid":"r","controller":true}]},
		"spec":{"nodeName":"n1","containers":[{"name":"app","resources":{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"memory":"1Gi"}}}]},
		"status":{"phase":"Running","containerStatuses":[{"name":"app","restartCount":1,"state":{"running":{}},
		"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled","startedAt":%[2]q,"finishedAt":%[3]q}}}]}}`,
		name, at.Add(-time.Hour).UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339)))
}

// All that "podfit recommend --source cluster -o json" has of a container, the JSON of the page has with the same names and values, also what needs
// stored usage: OOM kills that pods do not show any more, peaks near the limit, confidence, and containers that are too young. The totals are the
// same, too.
func TestPage_storedUsage_allColumnsEqualThoseOfRecommend(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyNode("n1", "64", "256Gi")
	f.Apply(nodesPath, `{"metadata":{"name":"n2"},"status":{"allocatable":{"cpu":"8","memory":"16Gi","pods":"110"},"conditions":[{"type":"Ready","status":"False"}]}}`)
	one := []sizedPod{{"1", "1Gi"}, {"1", "1Gi"}}
	for _, name := range []string{"killed", "near", "young", "falls", "below", "unstored", "old-kill"} {
		applySized(f, name, "900m", "1Gi", one...)
	}
	storeUsage(t, f, "killed", "default", 10, 300, 3)
	storeUsage(t, f, "old-kill", "default", 20, 300, 18)
	storeUsage(t, f, "near", "default", 3, 1000, 0)
	selectProfile(f, "near", "balanced", "900m", "1200Mi")
	storeUsage(t, f, "near", "balanced", 3, 1000, 0)
	storeUsage(t, f, "falls", "default", 9, 300, 0)
	selectProfile(f, "falls", "default", "300m", "400Mi")
	storeUsage(t, f, "below", "default", 9, 300, 0)
	selectProfile(f, "below", "default", "2", "4Gi")
	f.Apply(vpasPath, `{"metadata":{"namespace":"shop","name":"young","uid":"v","creationTimestamp":"`+ago(time.Hour)+`"},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"young"}},
		"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":"100m","memory":"100Mi"},"lowerBound":{"cpu":"1m","memory":"1Mi"},"upperBound":{"cpu":"9","memory":"9Gi"}}]}}}`)
	killPod(f, "falls", time.Now().Add(-30*time.Hour))
	killPod(f, "near", time.Now().Add(-2*time.Hour))
	applySized(f, "jvm", "900m", "1Gi")
	f.Apply(podsPath, `{"metadata":{"namespace":"shop","name":"jvm-7d9f-0","uid":"j","creationTimestamp":"2026-11-01T00:00:00Z","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"jvm-7d9f","uid":"r","controller":true}]},
		"spec":{"nodeName":"n1","containers":[{"name":"app","command":["java","-jar","app.jar"],"resources":{"requests":{"cpu":"1","memory":"1Gi"}}}]},"status":{"phase":"Running"}}`)
	storeUsage(t, f, "jvm", "default", 9, 300, 0)
	applySized(f, "only-memory", "300m", "500Mi", one...)
	storeUsage(t, f, "only-memory", "default", 9, 300, 0)
	f.Apply(vpasPath, `{"metadata":{"namespace":"shop","name":"only-memory","uid":"v2","creationTimestamp":"2026-10-01T00:00:00Z"},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"only-memory"},
		"resourcePolicy":{"containerPolicies":[{"containerName":"*","controlledResources":["memory"]}]}},
		"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"memory":"500Mi"},"lowerBound":{"memory":"1Mi"},"upperBound":{"memory":"9Gi"}}]}}}`)
	f.Apply(podsPath, `{"metadata":{"namespace":"shop","name":"bare","uid":"b"},"spec":{"nodeName":"n1","containers":[{"name":"app"}]},"status":{"phase":"Running"}}`)
	f.Apply(podsPath, `{"metadata":{"namespace":"shop","name":"static-n1","uid":"s","annotations":{"kubernetes.io/config.source":"file","kubernetes.io/config.mirror":"x"},"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"n","controller":true}]},
		"spec":{"nodeName":"n1","containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]},"status":{"phase":"Running"}}`)
	f.Apply(podsPath, `{"metadata":{"namespace":"shop","name":"with-init","uid":"i"},
		"spec":{"nodeName":"n1","initContainers":[{"name":"setup","resources":{"requests":{"cpu":"3","memory":"3Gi"}}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"200m","memory":"1Gi"}}}]},"status":{"phase":"Running"}}`)

	var out, errs bytes.Buffer
	if code := Main(t.Context(), []string{"podfit", "recommend", "--kubeconfig", kubetest.Kubeconfig(t, f.URL()), "--source", "cluster", "--no-money", "-o", "json"}, Streams{Out: &out, Err: &errs}); code != 0 {
		t.Fatalf("got exit code %d and error %s", code, errs.String())
	}
	type quantities struct{ CPU, Memory string }
	var report struct {
		Summary struct {
			Workloads, Pods, Nodes, WorkloadsAtRisk, NodesThatCouldGo int
			Requested, Capacity, RequestsFreed                        quantities
		}
		Containers []map[string]any
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "JVM and 1 core: sees all cores of the node") {
		t.Errorf("nothing about the JVM in\n%s", out.String())
	}

	root := servePage(t, f.URL())
	var page struct {
		Workloads, Pods, Nodes, WorkloadsAtRisk, NodesThatCouldGo int
		Requested, Capacity, RequestsFreed                        quantities
		Totals                                                    []struct{ Requested, Capacity float64 }
	}
	kubetest.Eventually(t, "the page has read the cluster and the stored usage", func() bool {
		text := readPage(t, root)
		return strings.Contains(text, "Could be given back") && !strings.Contains(text, "still")
	})
	kubetest.Eventually(t, "the page knows how many nodes could go", func() bool {
		if err := json.Unmarshal([]byte(readPage(t, root+"?format=json")), &page); err != nil {
			t.Fatal(err)
		}
		return page.NodesThatCouldGo == report.Summary.NodesThatCouldGo
	})
	s := &report.Summary
	if page.Workloads != s.Workloads || page.Pods != s.Pods+1 || page.Nodes != s.Nodes || page.WorkloadsAtRisk != s.WorkloadsAtRisk || page.RequestsFreed != s.RequestsFreed ||
		page.Requested != s.Requested || page.Capacity != s.Capacity || s.WorkloadsAtRisk < 4 {
		t.Errorf("the page has %+v, the report %+v; the page also counts one static pod", page, *s)
	}
	for i, got := range [][2]float64{{page.Totals[0].Requested, page.Totals[0].Capacity}, {page.Totals[1].Requested, page.Totals[1].Capacity}} {
		want := [2]float64{float64(milli(t, s.Requested.CPU)) / 1000, float64(milli(t, s.Capacity.CPU)) / 1000}
		if i == 1 {
			want = [2]float64{float64(bytesOf(t, s.Requested.Memory)) / (1 << 30), float64(bytesOf(t, s.Capacity.Memory)) / (1 << 30)}
		}
		if got != want {
			t.Errorf("requested and capacity: the page has %v, the report %v", got, want)
		}
	}
	risks := map[string]bool{}
	for _, want := range report.Containers {
		name := fmt.Sprint(want["name"])
		got := containerOf(t, root, fmt.Sprint(want["kind"]), name)
		for key, value := range want {
			if key != "template" && !reflect.DeepEqual(got[key], value) { // the page reads no pod templates
				t.Errorf("%s: %s of the page is %v, that of the report %v", name, key, got[key], value)
			}
		}
		risks[name+" "+fmt.Sprint(want["risk"])] = true
	}
	for _, want := range []string{"killed high", "near high", "old-kill none", "below medium", "young none", "bare medium"} {
		if !risks[want] {
			t.Errorf("the report does not have %q among %v, so this test compares less than it says", want, risks)
		}
	}
}

// containerOf returns the only container of a workload in the JSON of its page.
func containerOf(t *testing.T, root, kind, name string) map[string]any {
	t.Helper()
	var w struct{ Containers []map[string]any }
	if err := json.Unmarshal([]byte(readPage(t, root+"workloads/shop/"+kind+"/"+name+"?format=json")), &w); err != nil {
		t.Fatal(err)
	}
	if len(w.Containers) != 1 {
		t.Fatalf("%s has %d containers on the page", name, len(w.Containers))
	}
	return w.Containers[0]
}
