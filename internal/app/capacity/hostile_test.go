// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/test/kubetest"
)

// edit merges a patch into an object of the API server.
func edit(t *testing.T, f *kubetest.FakeAPI, collection, key, patch string) {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(patch), &fields); err != nil {
		t.Fatalf("%v in %s", err, patch)
	}
	object := f.Object(collection, key)
	merge(object, fields)
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	f.Apply(collection, string(text))
}

func merge(to, fields map[string]any) {
	for name, value := range fields {
		old, isObject := to[name].(map[string]any)
		if part, ok := value.(map[string]any); ok && isObject {
			merge(old, part)
			continue
		}
		to[name] = value
	}
}

// ofAll changes all pods of a workload of fragmented.
func ofAll(t *testing.T, f *kubetest.FakeAPI, workload, patch string) {
	t.Helper()
	for _, key := range f.Keys(kubetest.PodsPath) {
		if strings.HasPrefix(key, "shop/"+workload+"-") {
			edit(t, f, kubetest.PodsPath, key, patch)
		}
	}
}

// The plan for fragmented is "web-c n4→n1, api-b n4→n2". Each change makes another one of it, or prevents it.
func TestFragments_whatTheSchedulerRefuses_isNotPlanned(t *testing.T) {
	const none = ""
	budget := func(name, status string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"generation":1},"spec":{"selector":{"matchLabels":{"app":"web"}}},"status":{"observedGeneration":1,%s}}`, name, status)
	}
	const allowed = `"currentHealthy":3,"desiredHealthy":2,"disruptionsAllowed":1`
	for name, tt := range map[string]struct {
		change func(t *testing.T, f *kubetest.FakeAPI)
		want   string
	}{
		"nothing": {func(*testing.T, *kubetest.FakeAPI) {}, "web-c n4→n1, api-b n4→n2"},
		"static pod": {func(_ *testing.T, f *kubetest.FakeAPI) {
			f.Apply(kubetest.PodsPath, `{"metadata":{"namespace":"shop","name":"static","uid":"static","annotations":{"kubernetes.io/config.mirror":"x"},"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n4","uid":"u","controller":true}]},
				"spec":{"nodeName":"n4","containers":[{"name":"app"}]},"status":{"phase":"Running"}}`)
		}, "web-c n4→n1, api-b n4→n2"},
		"pod without controller": {func(_ *testing.T, f *kubetest.FakeAPI) {
			f.Apply(kubetest.PodsPath, `{"metadata":{"namespace":"shop","name":"bare","uid":"bare"},"spec":{"nodeName":"n4","containers":[{"name":"app"}]},"status":{"phase":"Running"}}`)
		}, none},
		"PodDisruptionBudget allows an eviction": {func(_ *testing.T, f *kubetest.FakeAPI) { f.Apply(budgetsPath, budget("a", allowed)) }, "web-c n4→n1, api-b n4→n2"},
		"two PodDisruptionBudgets": {func(_ *testing.T, f *kubetest.FakeAPI) {
			f.Apply(budgetsPath, budget("a", allowed))
			f.Apply(budgetsPath, budget("b", allowed))
		}, none},
		"PodDisruptionBudget that its controller could not sync": {func(_ *testing.T, f *kubetest.FakeAPI) {
			f.Apply(budgetsPath, budget("a", `"currentHealthy":3,"desiredHealthy":2,"disruptionsAllowed":0`))
		}, none},
		"node is cordoned": {func(t *testing.T, f *kubetest.FakeAPI) {
			edit(t, f, nodesPath, "/n1", `{"spec":{"unschedulable":true}}`)
		}, "web-c n4→n2, api-b n4→n3"},
		"all nodes are cordoned": {func(t *testing.T, f *kubetest.FakeAPI) {
			for i := range 4 {
				edit(t, f, nodesPath, fmt.Sprint("/n", i+1), `{"spec":{"unschedulable":true}}`)
			}
		}, none},
		"maximum of pods": {func(t *testing.T, f *kubetest.FakeAPI) {
			edit(t, f, nodesPath, "/n1", `{"status":{"allocatable":{"pods":"3"}}}`)
		}, "web-c n4→n2, api-b n4→n3"},
		"new pod takes the last place": {func(t *testing.T, f *kubetest.FakeAPI) {
			edit(t, f, nodesPath, "/n1", `{"status":{"allocatable":{"pods":"4"}}}`)
			f.Apply(kubetest.PodsPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"new","uid":"new","creationTimestamp":%q},"spec":{"containers":[{"name":"app"}]},"status":{"phase":"Pending"}}`, time.Now().UTC().Format(time.RFC3339)))
		}, "web-c n4→n2, api-b n4→n3"},
		"two architectures": {func(t *testing.T, f *kubetest.FakeAPI) {
			for i := range 4 {
				edit(t, f, nodesPath, fmt.Sprint("/n", i+1), fmt.Sprintf(`{"metadata":{"labels":{"kubernetes.io/arch":%q}}}`, []string{"arm64", "amd64"}[i%2]))
			}
			ofAll(t, f, "web", `{"spec":{"nodeSelector":{"kubernetes.io/arch":"amd64"}}}`)
		}, "web-c n4→n2, api-b n4→n1"},
		"volume": {func(t *testing.T, f *kubetest.FakeAPI) {
			ofAll(t, f, "web", `{"spec":{"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data"}}]}}`)
		}, none},
		"pod affinity": {func(t *testing.T, f *kubetest.FakeAPI) {
			ofAll(t, f, "web", `{"spec":{"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchLabels":{"app":"api"}}}]}}}}`)
		}, none},
		"spread constraint": {func(t *testing.T, f *kubetest.FakeAPI) {
			ofAll(t, f, "web", `{"spec":{"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"app":"web"}}}]}}`)
		}, none},
		"device": {func(t *testing.T, f *kubetest.FakeAPI) {
			ofAll(t, f, "web", `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"2","memory":"4Gi","nvidia.com/gpu":"1"},"limits":{"nvidia.com/gpu":"1"}}}]}}`)
		}, none},
		"huge pages of the pod": {func(t *testing.T, f *kubetest.FakeAPI) {
			ofAll(t, f, "web", `{"spec":{"resources":{"requests":{"cpu":"2","memory":"4Gi","hugepages-2Mi":"1Gi"},"limits":{"hugepages-2Mi":"1Gi"}}}}`)
		}, none},
		"anti-affinity of other pods": {func(t *testing.T, f *kubetest.FakeAPI) {
			ofAll(t, f, "db", `{"spec":{"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchLabels":{"app":"web"}}}]}}}}`)
		}, none},
		"anti-affinity of pods in another namespace": {func(t *testing.T, f *kubetest.FakeAPI) {
			f.Apply(kubetest.PodsPath, `{"metadata":{"namespace":"noisy","name":"noisy","uid":"noisy"},"spec":{"nodeName":"n1","containers":[{"name":"app"}],
				"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname","namespaces":["shop"],"labelSelector":{"matchLabels":{"app":"api"}}}]}}},"status":{"phase":"Running"}}`)
		}, none},
		"anti-affinity to pods elsewhere": {func(t *testing.T, f *kubetest.FakeAPI) {
			ofAll(t, f, "db", `{"spec":{"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchLabels":{"app":"db"}}}]}}}}`)
		}, "web-c n4→n1, api-b n4→n2"},
		"VPA gives the replacement more": {func(_ *testing.T, f *kubetest.FakeAPI) { f.Apply(kubetest.AutoscalersPath, webNeeds("4")) }, none},
		"VPA gives the replacement less": {func(_ *testing.T, f *kubetest.FakeAPI) { f.Apply(kubetest.AutoscalersPath, webNeeds("1")) }, "web-c n4→n1, api-b n4→n2"},
		"VPA gives the replacement more while it starts": {func(t *testing.T, f *kubetest.FakeAPI) {
			f.Apply(kubetest.AutoscalersPath, webNeeds("2"))
			edit(t, f, kubetest.AutoscalersPath, "shop/web", `{"spec":{"updatePolicy":{"updateMode":"Off"},"startupBoost":{"cpu":{"type":"Factor","factor":2,"durationSeconds":60}}}}`)
		}, none},
		"VPA changes nothing": {func(t *testing.T, f *kubetest.FakeAPI) {
			f.Apply(kubetest.AutoscalersPath, webNeeds("4"))
			edit(t, f, kubetest.AutoscalersPath, "shop/web", `{"spec":{"updatePolicy":{"updateMode":"Off"}}}`)
		}, "web-c n4→n1, api-b n4→n2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fragmented(t)
			tt.change(t, f)
			r := run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--fragments", "-o", "json")
			var doc struct {
				Fragments []struct {
					Empty struct {
						Moves []struct{ Pod, From, To string }
					} `json:"freeNode"`
				}
			}
			if err := json.Unmarshal([]byte(r.out), &doc); err != nil || len(doc.Fragments) != 1 {
				t.Fatalf("%v in %s, %s", err, r.out, r.errs)
			}
			var moves []string
			for _, m := range doc.Fragments[0].Empty.Moves {
				moves = append(moves, fmt.Sprintf("%s %s→%s", strings.TrimPrefix(m.Pod, "shop/"), m.From, m.To))
			}
			if got := strings.Join(moves, ", "); got != tt.want {
				t.Errorf("moves %q, want %q", got, tt.want)
			}
		})
	}
}

// webNeeds is a VPA that gives new pods of web a number of cores.
func webNeeds(cores string) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"web","uid":"v"},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web"},"updatePolicy":{"updateMode":"Recreate"}},
		"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":%q,"memory":"4Gi"},"lowerBound":{"cpu":%[1]q,"memory":"4Gi"},"upperBound":{"cpu":%[1]q,"memory":"4Gi"}}]}}}`, cores)
}

// A cluster autoscaler counts the present requests of pods, not what a VPA gives their replacements.
func TestFragments_vpaGivesTheReplacementMore_autoscalerCouldRemoveTheNode(t *testing.T) {
	f := fragmented(t)
	f.Apply(kubetest.AutoscalersPath, webNeeds("4"))
	r := run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--fragments")
	if !strings.Contains(r.out, "n4    2     38 %       could remove it") || strings.Contains(r.out, "to free") {
		t.Error(r.out)
	}
}
