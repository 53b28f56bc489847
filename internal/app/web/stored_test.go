// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/feed"
	"podfit.dev/podfit/test/kubetest"
)

// target is the workload of fake.
var target = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}

// vpaOf returns a VPA of target.
func vpaOf(profile string) *cluster.Autoscaler {
	return &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: target, Recommender: profile,
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(200, 300<<20)}}},
	}
}

// storedBy returns what the recommender stores after some days of usage of 300 MiB with an OOM kill at the start.
func storedBy(t *testing.T, profile string, days int) (usage.Checkpoint, []usage.History) {
	t.Helper()
	p, _ := recommend.Builtin(profile)
	store := usage.NewStore(usage.DefaultConfig())
	store.Extend(target, p.Extend)
	key := cluster.Key{Namespace: "shop", Name: "web-1"}
	store.Track(&cluster.Pod{Key: key, UID: "u", Top: target, Phase: cluster.Running, Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(400, 1<<30)}}})
	now := time.Now().Truncate(time.Minute)
	begin := now.AddDate(0, 0, -days)
	for at := begin; at.Before(now); at = at.Add(time.Minute) {
		store.Tick(at)
		store.Observe(usage.Sample{Pod: key, Container: "app", At: at, CPU: 0.2, Memory: 300 << 20, Has: cluster.Both})
		if at.Equal(begin.Add(time.Hour)) {
			store.ObserveOOM(usage.OOM{Pod: key, Container: "app", At: at, Memory: 300 << 20})
		}
	}
	c, ok := store.Checkpoint(target, "app", now)
	if !ok {
		t.Fatal("there is no checkpoint")
	}
	c.History = usage.History{}
	return c, store.Histories(target, now)
}

// The stored usage is read once in a minute however many viewers look, more rarely if that takes long, and not before all workloads are known:
// those that are not known would stay without it.
func TestEvidence_manyViewers_isReadRarelyAndAfterTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{vpas: []*cluster.Autoscaler{vpaOf("default")}, health: []feed.State{{Resource: "replicasets"}}}
		s := sourceOf(f)
		s.State(t.Context())
		time.Sleep(time.Minute)
		if s.State(t.Context()); len(f.namespaces) != 0 {
			t.Errorf("the stored usage of %q was read before the cluster", f.namespaces)
		}
		f.health = nil
		for range 60 * 60 {
			s.State(t.Context())
			time.Sleep(time.Second)
		}
		if n := len(f.namespaces); n < 50 || n > 61 || !slices.Contains(f.namespaces, "shop") {
			t.Errorf("the stored usage was read %d times in an hour: %q", n, f.namespaces)
		}
		f.mu.Lock()
		f.delay, f.namespaces = 2*time.Second, nil
		f.mu.Unlock()
		for range 60 * 60 {
			s.State(t.Context())
			time.Sleep(time.Second)
		}
		if n := len(f.namespaces); n < 10 || n > 20 { // each takes 4 s, for profiles and usage, and is followed by a rest of 200 s
			t.Errorf("the stored usage was read %d times in an hour although it takes long", n)
		}
		time.Sleep(time.Minute)
	})
}

// A page without stored usage says so, and judges no workload.
func TestEvidence_apiServerFails_pageSaysWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{vpas: []*cluster.Autoscaler{vpaOf("default")}, err: errors.New("checkpoints is forbidden")}
		state := sourceOf(f).State(t.Context())
		if text := strings.Join(append(state.Problems, state.Causes...), "\n"); !strings.Contains(text, "The stored usage could not be read") || !strings.Contains(text, "checkpoints is forbidden") {
			t.Errorf("problems %q", text)
		}
		if row := state.Overview.Row("shop", "Deployment", "web", ""); row == nil || row.Containers[0].Confidence != review.None || row.Freed != (cluster.Resources{}) {
			t.Errorf("row %+v", row)
		}
	})
}

// OOM kills that pods do not show any more are a risk, and containers with few hours of usage have no recommendation.
func TestEvidence_storedKillAndHours_areJudged(t *testing.T) {
	for name, c := range map[string]struct {
		days       int
		confidence review.Confidence
	}{"three days": {3, review.Medium}, "one day": {1, review.Low}} {
		saved, histories := storedBy(t, "balanced", c.days)
		f := &fake{vpas: []*cluster.Autoscaler{vpaOf("balanced")}, owned: true, archived: checkpoint.Stored{
			Checkpoints: map[checkpoint.Key]usage.Checkpoint{{Autoscaler: cluster.Key{Namespace: "shop", Name: "web"}, Container: "app"}: saved},
			Histories:   map[cluster.Workload][]usage.History{target: histories},
		}}
		s := sourceOf(f)
		row := s.State(t.Context()).Overview.Row("shop", "Deployment", "web", "")
		if row == nil || row.Risk != review.SeverityHigh || !strings.Contains(row.Why, "killed for memory at least 1×") || row.Containers[0].Confidence != c.confidence {
			t.Errorf("%s: row %+v", name, row)
		}
		stored, ok, _ := s.stored.peek()
		if !ok || time.Since(stored.updated) > time.Hour || stored.evidence[usage.Ref{Workload: target, Container: "app"}].DayPeaks[0] < 300<<20 {
			t.Errorf("%s: stored %+v", name, stored)
		}
	}
}

// The parameters of a SizingProfile are known if it is valid. The catalog has the default profile for names that it does not know.
func TestState_sizingProfiles_haveTheirParametersIfTheyAreValid(t *testing.T) {
	night, _ := recommend.Builtin("cost")
	night.Name, night.About = "night", "at night"
	for name, c := range map[string]struct {
		profiles []recommend.Profile
		about    string
	}{"valid": {[]recommend.Profile{night}, "at night"}, "invalid": {nil, ""}} {
		custom := sourceOf(&fake{profiles: c.profiles}).State(t.Context()).Custom
		if len(custom) != 1 || custom[0].Name != "night" || custom[0].Known != (c.about != "") || custom[0].About != c.about {
			t.Errorf("%s: %+v", name, custom)
		}
	}
}

// The recommender refuses a SizingProfile with the name of a built-in profile. The page must not show the built-in parameters as its own.
func TestState_sizingProfileNamedAsABuiltin_isNotKnown(t *testing.T) {
	for _, name := range []string{"balanced", "default"} {
		custom := sourceOf(&fake{profileNames: []string{name}}).State(t.Context()).Custom
		if len(custom) != 1 || custom[0].Name != name || custom[0].Known {
			t.Errorf("%s is shown as valid, with the parameters of the built-in profile: %t", name, len(custom) == 1 && custom[0].Known)
		}
	}
}

// The history of a workload has what each profile recommends, and how the request changed.
func TestHistory_storedState_profilesAndRequestsAreThere(t *testing.T) {
	saved, histories := storedBy(t, "balanced", 9)
	changed := time.Now().Add(-time.Hour).Truncate(time.Second)
	f := &fake{
		vpas: []*cluster.Autoscaler{vpaOf("balanced")}, owned: true, histories: histories, saved: &saved,
		record: ledger.State{Workload: target, Pods: []ledger.PodState{{
			UID: "u", Do: decision.Resize, At: changed, With: []policy.Fitted{{Container: "app", Requests: cluster.Amounts(200, 300<<20)}},
		}}},
	}
	s := sourceOf(f)
	row := s.State(t.Context()).Overview.Row("shop", "Deployment", "web", "")
	history, err := s.History(t.Context(), row)
	if err != nil {
		t.Fatal(err)
	}
	if len(history.Requests) != 1 || !history.Requests[0].At.Equal(changed) || history.Requests[0].Requests != cluster.Amounts(200, 300<<20) {
		t.Errorf("requests %+v", history.Requests)
	}
	names := map[string]int64{}
	for _, p := range history.Profiles {
		names[p.Profile] = p.Target.Memory
		if p.Own != (p.Profile == "balanced") {
			t.Errorf("profile %+v", p)
		}
	}
	if names["balanced"] != 300<<20 || names["critical"] <= names["cost"] || names["cost"] == 0 || names["default"] == 0 {
		t.Errorf("memory by profile: %v", names)
	}
}

// A SizingProfile of the cluster is used if it is valid. A cluster without the CRD has the built-in profiles.
func TestCatalog_profilesOfTheCluster_validOnesAreUsable(t *testing.T) {
	const path = "/apis/podfit.dev/v1alpha1/sizingprofiles"
	api := kubetest.NewFakeAPI(t)
	clients, err := kube.ClientsFor(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	api.Apply(path, `{"metadata":{"name":"night"},"spec":{"base":"cost"}}`)
	api.Apply(path, `{"metadata":{"name":"broken"},"spec":{"base":"none"}}`)
	catalog, err := clusterArchive{clients}.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, usable := range map[string]bool{"night": true, "broken": false} {
		if got := catalog.Of(vpaOf(name)); got.Usable != usable || usable && got.Name != name {
			t.Errorf("profile %s: %q is usable: %t; want %t", name, got.Name, got.Usable, usable)
		}
	}
	api.Reply("GET "+path, 404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	if catalog, err = (clusterArchive{clients}).Catalog(t.Context()); err != nil || catalog.Of(vpaOf("cost")).Name != "cost" || catalog.Contains(vpaOf("night")) {
		t.Errorf("without the CRD: error %v, profile night is known: %t; want only built-in profiles", err, err == nil && catalog.Contains(vpaOf("night")))
	}
	api.Reply("GET "+path, 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	if catalog, err = (clusterArchive{clients}).Catalog(t.Context()); err != nil || catalog.Of(vpaOf("cost")).Name != "cost" {
		t.Errorf("without the right to list: error %v, want the built-in profiles", err)
	}
}

// The stored usage of a VPA is that of its present target, and a container has only its own.
func TestRestore_checkpoints_onlyThoseOfTheVPAAndItsTarget(t *testing.T) {
	saved, histories := storedBy(t, "balanced", 3)
	own := checkpoint.Key{Autoscaler: cluster.Key{Namespace: "shop", Name: "web"}, Container: "app"}
	for name, c := range map[string]struct {
		edit     func(*checkpoint.Stored)
		restored string // containers with usage
		recalled string // containers with model state
	}{
		"complete":           {func(*checkpoint.Stored) {}, "app", "app"},
		"checkpoint only":    {func(a *checkpoint.Stored) { a.Histories = nil }, "app", ""},
		"usage history only": {func(a *checkpoint.Stored) { a.Checkpoints = nil }, "", "app"},
		"of the previous target": {func(a *checkpoint.Stored) {
			p := saved
			p.Workload.Name = "old"
			a.Checkpoints[own] = p
			a.Histories = nil
		}, "", ""},
		"written by upstream": {func(a *checkpoint.Stored) { p := saved; p.Workload = cluster.Workload{}; a.Checkpoints[own] = p }, "app", "app"},
		"of another VPA": {func(a *checkpoint.Stored) {
			a.Checkpoints = map[checkpoint.Key]usage.Checkpoint{{Autoscaler: cluster.Key{Namespace: "shop", Name: "b"}, Container: "app"}: saved}
			a.Histories = nil
		}, "", ""},
		"two containers": {func(a *checkpoint.Stored) {
			a.Checkpoints[checkpoint.Key{Autoscaler: own.Autoscaler, Container: "proxy"}] = saved
		}, "app proxy", "app"},
	} {
		from := checkpoint.Stored{Checkpoints: map[checkpoint.Key]usage.Checkpoint{own: saved}, Histories: map[cluster.Workload][]usage.History{target: histories}}
		c.edit(&from)
		f := &fake{}
		catalog, _ := f.Catalog(t.Context())
		store, _ := restore(time.Now(), catalog, f.Snapshot(), []*cluster.Autoscaler{vpaOf("balanced")}, nil, from)
		var restored, recalled []string
		for _, h := range store.All(target) {
			if !h.Seen(cluster.Memory).Last.IsZero() {
				restored = append(restored, h.Container())
			}
			if h.Recalled() {
				recalled = append(recalled, h.Container())
			}
		}
		if strings.Join(restored, " ") != c.restored || strings.Join(recalled, " ") != c.recalled {
			t.Errorf("%s: containers with usage %q, with model state %q; want %q and %q", name, restored, recalled, c.restored, c.recalled)
		}
	}
}

func TestNewest_parts_isTheLatestTime(t *testing.T) {
	at := func(hours int) time.Time { return time.Date(2026, 11, 22, hours, 0, 0, 0, time.UTC) }
	key := func(name string) checkpoint.Key {
		return checkpoint.Key{Autoscaler: cluster.Key{Namespace: "shop", Name: name}, Container: "app"}
	}
	checkpoints := func(first, second int) map[checkpoint.Key]usage.Checkpoint {
		return map[checkpoint.Key]usage.Checkpoint{key("a"): {Updated: at(first)}, key("b"): {Updated: at(second)}}
	}
	for name, c := range map[string]struct {
		stored checkpoint.Stored
		want   time.Time
	}{
		"nothing":         {checkpoint.Stored{}, time.Time{}},
		"checkpoints":     {checkpoint.Stored{Checkpoints: checkpoints(1, 3)}, at(3)},
		"usage histories": {checkpoint.Stored{Histories: map[cluster.Workload][]usage.History{target: {{Updated: at(2)}, {Updated: at(4)}, {Updated: at(3)}}}}, at(4)},
		"both":            {checkpoint.Stored{Checkpoints: checkpoints(5, 2), Histories: map[cluster.Workload][]usage.History{target: {{Updated: at(4)}}}}, at(5)},
	} {
		if got := newest(c.stored); !got.Equal(c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
