// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overbooking

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/contention"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/test/e2e/bed"
)

// causes checks the conditions that need no long observation. Prometheus has the last hour of throttling in its blocks.
func (w *world) causes(t *testing.T) {
	eventually(t, "the VPAs have the conditions", 2*time.Minute, func(ctx context.Context) error {
		var errs []error
		for _, c := range []struct{ vpa, condition, reason, part string }{
			{"limited", v1alpha1.ConditionCPUThrottled, v1alpha1.ReasonAtLimit, "with a limit of 1. Its usage is at the limit"},
			{"bursty", v1alpha1.ConditionCPUThrottled, v1alpha1.ReasonKernelTooOld, "kernel 0.0.0-simulated"}, // of the simulated nodes
			{"jvm", v1alpha1.ConditionJVMSeesAllCores, v1alpha1.ReasonRequestInBand, "app"},
		} {
			a, err := w.Autoscaler(ctx, namespace, c.vpa)
			if err == nil {
				err = hasCondition(a, c.condition, c.reason, c.part)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// lastingCauses passes the present state of the cluster to the functions with which the recommender finds causes, once a minute for 40 minutes, two
// hours from now. In this time only the containers of starter start again, which takes that long.
func (w *world) lastingCauses(t *testing.T) {
	state := w.state(t)
	from := time.Now().Add(2 * time.Hour)
	pods, used := map[cluster.Key]*cluster.Pod{}, map[cluster.Key]int64{}
	for _, p := range state.snapshot.Pods {
		pods[p.Key] = p
		if p.Top.Name == "starter" {
			p.Started = from
		}
	}
	monitor := contention.NewMonitor()
	now := from
	for minute := range 41 {
		now = from.Add(time.Duration(minute) * time.Minute)
		monitor.Tick(now)
		for i := range state.samples {
			s := &state.samples[i]
			monitor.Add(pods[s.Pod], s.Container, s.CPU)
			used[s.Pod] = int64(1000 * s.CPU)
		}
	}
	uses := contention.Uses(state.nodes, state.snapshot.Pods, used)
	got := map[string]contention.Reason{}
	for _, a := range state.snapshot.Autoscalers {
		of := state.snapshot.PodsOf(a.Target)
		situation := &contention.Situation{Autoscaler: a, Advice: a.Advice, Governs: true}
		above, _ := contention.AboveRequest(monitor.Excesses(of, now), situation, uses)
		for _, f := range []contention.Finding{above, contention.WithoutRequest(contention.Unrequested(of, now), situation)} {
			if f.Reason != "" {
				got[a.Name] += f.Reason
				t.Logf("%s: %s: %s", a.Name, f.Reason, f.Message)
			}
		}
	}
	want := map[string]contention.Reason{
		"runaway": contention.OneReplica, "starter": contention.Starting, "low": contention.RequestTooLow, "spare": contention.NodeHasSpare,
		"bare": contention.NotApplied,
	}
	if !maps.Equal(got, want) {
		t.Errorf("causes %v, want %v", got, want)
	}
}

// A state is the cluster as the recommender knows it.
type state struct {
	nodes    []cluster.Node
	snapshot *cluster.Snapshot
	samples  []usage.Sample
}

// state reads the cluster. The containers of starter use what they use at their start.
func (w *world) state(t *testing.T) (s state) {
	t.Helper()
	in := new(projection.Interner)
	list, err := w.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		s.nodes = append(s.nodes, projection.Node(&list.Items[i], in))
	}
	live, err := w.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var pods []*cluster.Pod
	for i := range live {
		p := projection.Pod(&live[i], in)
		p.Top = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: namespace, Name: workloadOf(p.Name)}
		pods = append(pods, p)
	}
	all, err := w.Autoscalers(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	var autoscalers []*cluster.Autoscaler
	for _, a := range all {
		autoscalers = append(autoscalers, projection.Autoscaler(a))
	}
	s.snapshot = cluster.NewSnapshot(pods, autoscalers)
	used, err := w.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range used {
		if u.Namespace == namespace && u.State == "running" {
			s.samples = append(s.samples, sampleOf(u))
		}
	}
	return s
}

func sampleOf(u bed.Usage) usage.Sample {
	cores := u.CPU
	switch workloadOf(u.Pod) {
	case "starter":
		cores = 3
	case "bursty": // its average
		cores = 0.335
	}
	return usage.Sample{Pod: cluster.Key{Namespace: u.Namespace, Name: u.Pod}, Container: u.Container, CPU: cores, Has: cluster.Of(cluster.CPU)}
}
