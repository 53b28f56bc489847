// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

func TestLack_error_namesTheCauseAndWhatIsNotKnown(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
	absent := apierrors.NewNotFound(schema.GroupResource{}, "")
	for want, u := range map[string]watcher.Unread{
		"Cannot read nodes (you have no right to list them), so podfit does not know which nodes have room.":             {Resource: "nodes", Err: denied, Lost: "which nodes have room"},
		"Cannot read quotas (the API server does not have them), so podfit does not know whether a quota applies.":       {Resource: "quotas", Err: absent, Lost: "whether a quota applies"},
		"Cannot read nodes (first line second line).":                                                                    {Resource: "nodes", Err: errors.New("first line\n  second line")},
		"Cannot read horizontalpodautoscalers (you have no right to list them), so podfit does not know how HPAs scale.": {Resource: "horizontalpodautoscalers", Err: denied, Lost: "how HPAs scale"},
	} {
		if got := lack(&u); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	unread := []watcher.Unread{{Resource: "pods", Err: absent}, {Resource: "nodes", Err: denied}}
	if forbidden(unread, "pods") || !forbidden(unread, "nodes") || forbidden(unread, "quotas") {
		t.Error("only nodes are forbidden")
	}
}

func TestAbout_events_onlyThoseOfTheVPAAndThePods(t *testing.T) {
	events := func() []explanation.Event {
		return []explanation.Event{
			{Kind: "Pod", Name: "web-1"}, {Kind: "Pod", Name: "other"}, {Kind: "VerticalPodAutoscaler", Name: "web"},
			{Kind: "VerticalPodAutoscaler", Name: "other"}, {Kind: "VerticalPodAutoscaler", Name: "web-1"}, {Kind: "Deployment", Name: "web"}, {Kind: "Deployment", Name: "web-1"},
			{Kind: "Pod", Name: "gone", VPA: "web"}, {Kind: "Pod", Name: "gone", VPA: "other"},
		}
	}
	in := &explanation.Input{
		Subject: explanation.Subject{
			Autoscaler: &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}}, Pods: []*cluster.Pod{{Key: cluster.Key{Namespace: "shop", Name: "web-1"}}},
		},
	}
	got := about(events(), in)
	want := []explanation.Event{{Kind: "Pod", Name: "web-1"}, {Kind: "VerticalPodAutoscaler", Name: "web"}, {Kind: "Pod", Name: "gone", VPA: "web"}}
	if !slices.Equal(got, want) {
		t.Errorf("events %+v, want those of pod web-1, of VPA web, and of the pod that it replaced", got)
	}
	in.Autoscaler = nil
	if got := about(events(), in); len(got) != 1 || got[0].Name != "web-1" {
		t.Errorf("events %+v without a VPA, want that of pod web-1", got)
	}
}

func TestCheckContainer_unknownName_listsTheContainers(t *testing.T) {
	found := &explanation.Subject{Name: "shop/Deployment/web", Pods: []*cluster.Pod{
		{Containers: []cluster.Container{{Name: "app"}, {Name: "proxy"}}}, {Containers: []cluster.Container{{Name: "app"}, {Name: "log"}}},
	}}
	for name, want := range map[string]string{
		"": "", "app": "", "log": "", "ap": `shop/Deployment/web has no container "ap"; its containers are app, proxy, log`,
	} {
		err := (&Config{Container: name}).checkContainer(found)
		if got := errors.Join(err); (err == nil) != (want == "") || err != nil && got.Error() != want {
			t.Errorf("--container=%s: got error %v, want %q", name, err, want)
		}
	}
	if err := (&Config{Container: "ap"}).checkContainer(&explanation.Subject{}); err != nil {
		t.Errorf("without pods: %v, want no error", err)
	}
}

func TestRecordOf_states_onlyThatOfTheWorkload(t *testing.T) {
	w := workload("apps", "Deployment", "web")
	states := []ledger.State{{}, {Workload: workload("apps", "Deployment", "db")}, {Workload: w}}
	if got := recordOf(states, w); got != &states[2] {
		t.Errorf("record %+v, want that of web", got)
	}
	if got := recordOf(states[:2], w); got == nil || got.Workload != w {
		t.Errorf("record %+v, want an empty one of web", got)
	}
	if got := recordOf(states, cluster.Workload{}); got == &states[0] {
		t.Error("a pod without a controller has the record of an object without a target")
	}
}

func TestKillsOf_pods_onlyOOMKillsWithTheLimitThatApplied(t *testing.T) {
	at := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	pods := []*cluster.Pod{{Containers: []cluster.Container{
		{Name: "app", Limits: cluster.Amounts(0, 200), Applied: &cluster.Applied{Limits: cluster.Amounts(0, 100)}, Exit: &cluster.Exit{OOM: true, Finished: at}},
		{Name: "proxy"}, {Name: "log", Exit: &cluster.Exit{}},
	}}}
	if got := killsOf(pods); len(got) != 1 || got["app"] != 100 {
		t.Errorf("kills %+v, want one of app at a limit of 100 bytes", got)
	}
}

func TestLive_finishedPods_areLeftOut(t *testing.T) {
	running, done := &cluster.Pod{Phase: cluster.Running}, &cluster.Pod{Phase: cluster.Succeeded}
	pods := []*cluster.Pod{done, running}
	if got := live(pods); len(got) != 1 || got[0] != running || pods[0] != done {
		t.Errorf("pods %v of %v, want the running one and an unchanged argument", got, pods)
	}
}

func TestConditions_values_areAddedAndPrinted(t *testing.T) {
	var c conditions
	for _, text := range []string{"profile=cost", "maxAllowed.memory=1Gi"} {
		if err := c.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Set("colour=red"); err == nil || len(c) != 2 {
		t.Errorf("%d conditions, error %v; want 2 and an error for an unknown key", len(c), err)
	}
	if got := c.String(); !strings.Contains(got, "profile=cost ") || !strings.Contains(got, "maxAllowed.memory=1Gi") {
		t.Errorf("got %q, want both conditions", got)
	}
}

// The updater counts the OOM kills that it sees, and explain sees one only.
func TestNoteKills_podWaitsForMoreKills_countOfUpdaterIsNotKnown(t *testing.T) {
	in := &explanation.Input{Plan: explanation.Plan{Decisions: []decision.Decision{{Reason: decision.Reason{Code: decision.SmallChange}}}}}
	noteKills(in)
	if len(in.Missing) != 0 {
		t.Errorf("without OOM kills: %q", in.Missing)
	}
	in.Decisions = append(in.Decisions, decision.Decision{Reason: decision.Reason{Code: decision.FewKills, Have: 1, Want: 3}})
	noteKills(in)
	if len(in.Missing) != 1 {
		t.Errorf("notes %q", in.Missing)
	}
}
