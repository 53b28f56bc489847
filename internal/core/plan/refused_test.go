// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

func TestPlan_replacementWouldBeRefused_leavesPod(t *testing.T) {
	cpu := func(milli int64) cluster.Resources { return cluster.Resources{}.Set(cluster.CPU, milli) }
	top := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "cart"}
	// The init container needs more than the LimitRange of pods allows since. No size of the other container mends that.
	limits := policy.Limits{Range: cluster.LimitRange{Pod: cluster.Range{Max: cpu(500)}}}
	for _, mode := range []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate, cluster.InPlace} {
		pod := &cluster.Pod{
			Key: cluster.Key{Namespace: "shop", Name: "cart-0"}, UID: "1", Controller: top, Top: top, Node: "n",
			Phase: cluster.Running, Ready: true, QoS: cluster.Burstable, Started: noon.AddDate(0, 0, -2),
			Containers: []cluster.Container{
				{Name: "app", Requests: cpu(100), Limits: cpu(200)},
				{Name: "setup", Role: cluster.Init, Requests: cpu(900), Limits: cpu(900)},
			},
		}
		want := cpu(300)
		a := &cluster.Autoscaler{
			Key: cluster.Key{Namespace: "shop", Name: "cart"}, Target: top, Mode: mode,
			Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: want, Target: want, Upper: want}}},
		}
		b := DefaultBudget()
		b.MinReplicas, b.InPlace = 1, true
		w := World{
			Governed: []cluster.Governed{{Autoscaler: a, Pods: []*cluster.Pod{pod}}},
			Scales:   map[cluster.Workload]cluster.Scale{top: {Known: true, Replicas: 1}},
		}
		if d := Plan(noon, w, b)[0]; d.Do == decision.Leave {
			t.Fatalf("%s: without a LimitRange the pod is left: %s", mode, d.Reason)
		}
		w.Limits = map[string]policy.Limits{"shop": limits}
		d := Plan(noon, w, b)[0]
		text := "The API server would refuse a pod with the new requests: the cpu limit 900m of the pod is above the maximum 500m of a LimitRange."
		if d.Do != decision.Leave || d.Reason.Code != decision.ReplacementRefused || d.Reason.String() != text {
			t.Errorf("%s: %s because %s", mode, d.Do, d.Reason)
		}
	}
}

// A LimitRange that is younger than a pod adds its defaults at a resize, which may change the QoS class to Guaranteed.
func TestPlan_resizeWouldChangeQoSByDefaults_evicts(t *testing.T) {
	pod := &cluster.Pod{QoS: cluster.Burstable, Containers: []cluster.Container{
		{Name: "app", Requests: cluster.Amounts(100, 1<<20)}, {Name: "log", Requests: cluster.Resources{}.Set(cluster.Memory, 1<<20)},
	}}
	size := cluster.Amounts(200, 2<<20)
	fits := []policy.Fitted{{Container: "app", Requests: size, Limits: size}}
	if change.ChangesQoS(policy.Limits{}, pod, fits) {
		t.Error("without a LimitRange the QoS class must stay Burstable")
	}
	one := cluster.Amounts(100, 1<<20)
	if !change.ChangesQoS(policy.Limits{Range: cluster.LimitRange{Container: cluster.Range{Default: one}, DefaultRequest: one}}, pod, fits) {
		t.Error("with the defaults of the LimitRange the QoS class must become Guaranteed")
	}
}

func TestQoSOf_podLevelResources_ignoresContainers(t *testing.T) {
	size := cluster.Amounts(100, 1<<20)
	pod := &cluster.Pod{
		PodLevel:   &cluster.PodResources{Requests: size, Limits: size},
		Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(50, 1<<20)}},
	}
	if q := policy.QoSOf(policy.Limits{}, pod, nil); q != cluster.Guaranteed {
		t.Errorf("class %d", q)
	}
	if got := change.Total(pod, nil); got != size {
		t.Errorf("the total is %v", got)
	}
	pod.PodLevel.Limits = pod.PodLevel.Limits.Unset(cluster.Memory)
	if q := policy.QoSOf(policy.Limits{}, pod, nil); q != cluster.Burstable {
		t.Errorf("class %d", q)
	}
}

// A pod whose resize failed waits for other pods of its workload, so that its attempts may be far apart. It is evicted when the
// failures have lasted as long as they would have with attempts after each back-off.
func TestLedger_resizeKeepsFailing_isLastingAfterItsTime(t *testing.T) {
	type attempt struct {
		minute int
		kind   decision.RefusalKind
	}
	tests := map[string]struct {
		attempts []attempt
		want     bool
	}{
		"one attempt":                               {[]attempt{{0, decision.OutcomeIsUnknown}}, false},
		"no answer for 14 minutes":                  {[]attempt{{0, decision.OutcomeIsUnknown}, {14, decision.OutcomeIsUnknown}}, false},
		"no answer for 15 minutes":                  {[]attempt{{0, decision.OutcomeIsUnknown}, {15, decision.OutcomeIsUnknown}}, true},
		"busy for 15 minutes":                       {[]attempt{{0, decision.ServerBusy}, {15, decision.ServerBusy}}, true},
		"webhook fails for two minutes":             {[]attempt{{0, decision.WebhookFailed}, {2, decision.WebhookFailed}}, false},
		"webhook fails for three minutes":           {[]attempt{{0, decision.WebhookFailed}, {3, decision.WebhookFailed}}, true},
		"another refusal between":                   {[]attempt{{0, decision.OutcomeIsUnknown}, {5, decision.DeniedByQuota}, {20, decision.OutcomeIsUnknown}}, false},
		"API server not reached between":            {[]attempt{{0, decision.OutcomeIsUnknown}, {5, decision.NotReached}, {60, decision.OutcomeIsUnknown}}, false},
		"15 minutes after the API server was there": {[]attempt{{0, decision.OutcomeIsUnknown}, {5, decision.NotReached}, {60, decision.ServerBusy}, {75, decision.ServerBusy}}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w, a := shrinking(1)
			d := Attempt{Pod: w.Governed[0].Pods[0], Autoscaler: a.Key, Do: decision.Resize}
			for _, x := range tt.attempts {
				w.Ledger.Refused(noon.Add(time.Duration(x.minute)*time.Minute), d, decision.Refusal{Kind: x.kind}, 1)
			}
			if r, _ := w.Ledger.refusal(d.Pod, decision.Resize); r.isLasting() != tt.want {
				t.Errorf("lasting: %t, want %t", r.isLasting(), tt.want)
			}
		})
	}
}
