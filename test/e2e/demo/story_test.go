// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestStory_repeatedObservations_countOnce(t *testing.T) {
	const mi = 1 << 20
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	log := filepath.Join(t.TempDir(), "updater.log")
	lines := `{"msg":"Starting"}
{"msg":"Left a pod as it is","action":"leave","pod":"shop/web-1","reason":"only 1 of 2 pods ready"}
{"msg":"Evicted a pod","action":"evict","pod":"shop/web-1","reason":"memory request 64Mi is below the range"}
{"action":"evict","pod":"shop/web-1","reason":"cut`
	if err := os.WriteFile(log, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStory([]workload{{Name: "web", Containers: []container{{Name: "app", Before: amount{100, 64 * mi}}}}}, log)
	killed := corev1.ContainerStatus{Name: "app", LastTerminationState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", FinishedAt: metav1.NewTime(now)}}}
	pod := func(uid types.UID, name string, memory int64) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, Labels: map[string]string{appLabel: "web"}}}
		p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI)}}}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{killed}
		return p
	}
	event := func(uid types.UID, reason string) corev1.Event {
		return corev1.Event{ObjectMeta: metav1.ObjectMeta{UID: uid}, Reason: reason, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "web-1"}}
	}
	v := view{
		pods:   []corev1.Pod{pod("1", "web-1", 64*mi), pod("2", "web-2", 300*mi)},
		events: []corev1.Event{event("a", evictedEvent), event("b", resizedEvent), event("c", "Scheduled")},
	}
	for range 3 {
		s.update(now, v)
	}
	a := s.acts["web"]
	if a.Evicted != 1 || a.Resized != 1 || a.KilledBefore != 1 || a.KilledAfter != 1 {
		t.Errorf("counted %+v", a)
	}
	if want := "OOM-killed 2×, resized in place 1×, evicted 1×; last reason: memory request 64Mi is below the range"; a.String() != want {
		t.Errorf("summary: got %q, want %q", a, want)
	}
	if news := s.unreported(); len(news) != 4 || len(s.unreported()) != 0 {
		t.Errorf("reported %q", news)
	}
}

func TestTable_changedWorkload_showsChangeAndReason(t *testing.T) {
	const mi = 1 << 20
	has := map[string]amount{"app": {150, 300 * mi}}
	ws := []workload{{
		Kind: "Deployment", Name: "web", Mode: "Recreate", Want: 1,
		Containers: []container{{Name: "app", Before: amount{1000, 1024 * mi}, Advice: &advice{Target: amount{150, 300 * mi}}}},
		Pods:       []pod{{Ready: true, Has: has, Uses: map[string]amount{"app": {120, 260 * mi}}}},
	}, {
		Kind: "DaemonSet", Name: "agent", Mode: "Recreate", Want: 3, Containers: []container{{Name: "agent"}},
	}}
	s := newStory(ws, "")
	s.acts["web"] = &acts{Evicted: 1, Why: "cpu request 1000m is above the range"}
	got := strings.Join(table(ws, s, false), "\n")
	want := `WORKLOAD            MODE      CONTAINER   CPU REQUEST  USED  TARGET  MEMORY REQUEST   USED  TARGET
deployment web ×1   Recreate  app        1000m → 150m  120m    150m  1024Mi → 300Mi  260Mi   300Mi
  ✓ evicted 1×; last reason: cpu request 1000m is above the range
daemonset agent ×3  Recreate  agent          none → ?     -       -        none → ?      -       -
  … no recommendation for container agent yet`
	if got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}

func TestCut_colouredLine_countsVisibleCharacters(t *testing.T) {
	if got, want := cut("\x1b[1mab→d\x1b[0m", 3), "\x1b[1mab→\x1b[0m"; got != want {
		t.Errorf("cut to %q, want %q", got, want)
	}
}

func TestSummarize_workloads_addsWasteAndRisk(t *testing.T) {
	ws := []workload{{
		Mode: "Recreate", Want: 2, Containers: []container{{Name: "app", Before: amount{1000, 100}}},
		Pods: []pod{
			{Has: map[string]amount{"app": {300, 250}}, Uses: map[string]amount{"app": {200, 180}}},
			{Has: map[string]amount{"app": {300, 250}}, Uses: map[string]amount{"app": {250, 200}}},
		},
	}}
	s := summarize(ws, newStory(ws, ""))
	want := summary{
		Before: amount{2000, 200}, Now: amount{600, 500},
		Idle: amount{1500, 0}, Spare: amount{100, 100}, Short: amount{0, 200}, Lack: amount{0, 0},
	}
	if s != want {
		t.Errorf("summed up to %+v, want %+v", s, want)
	}
}

func TestExplainArgs_flagsOfUpdater_areThoseOfItsDecisions(t *testing.T) {
	got := strings.Join(explainArgs(), " ")
	if want := "explain deploy/worker -n shop --updater-interval=5s --in-recommendation-bounds-eviction-lifetime-threshold=30s"; got != want {
		t.Errorf("the arguments are %q, want %q", got, want)
	}
}
