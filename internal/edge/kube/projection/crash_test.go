// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

const killedPod = `{"metadata":{"namespace":"shop","name":"web-1-x","uid":"u","resourceVersion":"77","labels":{"app":"web","tier":"front"}},
	"spec":{"containers":[{"name":"app"}],"volumes":[VOLUMES]},
	"status":{"phase":"Running","conditions":[{"type":"Ready","status":"READY"}],"containerStatuses":[
		{"name":"app","restartCount":4,"state":{"waiting":{"reason":"CrashLoopBackOff"}},
		"lastState":{"terminated":{"reason":"REASON","exitCode":137,"startedAt":"2026-03-01T12:00:00Z","finishedAt":"2026-03-01T12:29:00Z"}}}]}}`

func killed(t *testing.T, ready, reason, volume string) *cluster.Pod {
	t.Helper()
	text := killedPod
	for _, x := range [][2]string{{"READY", ready}, {"REASON", reason}, {"VOLUMES", volume}} {
		text = strings.Replace(text, x[0], x[1], 1)
	}
	return Pod(kubetest.PodFrom(t, text), new(Interner))
}

func TestPod_notReadyAfterAnOOMKill_hasACrash(t *testing.T) {
	want := &cluster.Crash{Version: "77", Labels: []string{"app=web", "tier=front"}}
	if diff := cmp.Diff(want, killed(t, "False", "OOMKilled", "").Crash); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c := killed(t, "True", "OOMKilled", "").Crash; c != nil {
		t.Errorf("a ready pod has %+v", c)
	}
	if c := killed(t, "False", "Error", "").Crash; c != nil {
		t.Errorf("a pod that failed has %+v", c)
	}
}

func TestCountKills_terminations_countsConsecutiveOOMKills(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pod := func(oom bool, minute int) *cluster.Pod {
		return &cluster.Pod{Containers: []cluster.Container{{Name: "app", Exit: &cluster.Exit{OOM: oom, Finished: at.Add(time.Duration(minute) * time.Minute)}}}}
	}
	var before *cluster.Pod
	for i, step := range []struct {
		oom    bool
		minute int
		want   uint8
	}{
		{true, 0, 1}, {true, 0, 1}, {true, 1, 2}, {true, 2, 3}, {true, 2, 3}, {false, 3, 0}, {true, 4, 1}, {true, 5, 2},
	} {
		now := pod(step.oom, step.minute)
		CountKills(before, now)
		if got := now.Containers[0].Exit.Kills; got != step.want {
			t.Errorf("step %d: %d kills, want %d", i, got, step.want)
		}
		before = now
	}
	for range 300 {
		now := pod(true, int(before.Containers[0].Exit.Finished.Sub(at).Minutes())+1)
		CountKills(before, now)
		before = now
	}
	if got := before.Containers[0].Exit.Kills; got != 255 {
		t.Errorf("%d kills after 300 more, want the maximum of 255", got)
	}
}

func TestDisruptionBudget_specAndStatus_areKept(t *testing.T) {
	read := func(text string) cluster.DisruptionBudget {
		b := new(policyv1.PodDisruptionBudget)
		if err := json.Unmarshal([]byte(text), b); err != nil {
			t.Fatal(err)
		}
		return DisruptionBudget(b, new(Interner))
	}
	got := read(`{"metadata":{"name":"web","generation":2},"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow","selector":{"matchLabels":{"app":"web"},
		"matchExpressions":[{"key":"tier","operator":"NotIn","values":["back"]}]}},"status":{"observedGeneration":2,"currentHealthy":1,"desiredHealthy":2}}`)
	want := cluster.DisruptionBudget{
		Name: "web", Healthy: 1, Desired: 2, AlwaysAllow: true, Current: true,
		Selector: cluster.Selector{Requirements: []cluster.Requirement{{Prefix: "app=", Values: []string{"web"}}, {Prefix: "tier=", Op: cluster.NotIn, Values: []string{"back"}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if b := read(`{"metadata":{"generation":3},"spec":{"selector":{}},"status":{"observedGeneration":2}}`); b.Current || !b.Selector.Matches(nil) {
		t.Errorf("with an empty selector and an old status: %+v", b)
	}
	for _, spec := range []string{`{}`, `{"selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}`, `{"selector":{"matchExpressions":[{"key":"a","operator":"Gt","values":["1"]}]}}`} {
		if b := read(`{"spec":` + spec + `}`); b.Selector.Matches([]string{"a=2"}) {
			t.Errorf("%s selects pods", spec)
		}
	}
}

func TestNode_memoryPressure_isKept(t *testing.T) {
	for status, want := range map[corev1.ConditionStatus]bool{corev1.ConditionTrue: true, corev1.ConditionFalse: false} {
		n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: status}}}}
		if got := Node(n, new(Interner)).LowMemory; got != want {
			t.Errorf("%s: %t", status, got)
		}
	}
}
