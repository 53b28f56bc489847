// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

const profilesPath = "/apis/podfit.dev/v1alpha1/sizingprofiles"

func TestWorld_profileNames_followTheWatch(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Apply(profilesPath, `{"metadata":{"name":"b"},"spec":{"algorithm":"x"}}`)
	w := startWorld(t, f, Options{Profiles: true})
	has := func(want ...string) func() bool {
		return func() bool {
			names, known := w.ProfileNames()
			return known && slices.Equal(names, want)
		}
	}
	kubetest.Eventually(t, "the profile is known", has("b"))
	f.Apply(profilesPath, `{"metadata":{"name":"a"},"spec":{}}`)
	kubetest.Eventually(t, "both profiles are known", has("a", "b"))
	f.Delete(profilesPath, "/b")
	kubetest.Eventually(t, "the deleted profile is removed", has("a"))
}

func TestWorld_profilesNotWatched_areNotKnown(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	w := startWorld(t, f, Options{})
	if names, known := w.ProfileNames(); known || len(names) > 0 {
		t.Errorf("names %v, known %t", names, known)
	}
}

func TestWorld_profilesMissingOrForbidden_startsAndWarnsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		code         int
		body, remedy string
	}{
		"no CRD":        {404, "404 page not found", "podfit crds | kubectl apply --server-side --force-conflicts -f -"},
		"no permission": {403, forbidden, "deploy/10-rbac.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			f := kubetest.NewFakeAPI(t)
			f.ApplyShop()
			f.Apply(profilesPath, `{"metadata":{"name":"a"}}`)
			f.Reply("GET "+profilesPath, c.code, c.body)
			var text logText
			w := startWorld(t, f, Options{Profiles: true, Log: slog.New(slog.NewTextHandler(&text, nil))})
			kubetest.Eventually(t, "the list is repeated", func() bool { return f.Refusals("GET "+profilesPath) > 2 })
			if names, known := w.ProfileNames(); !known || len(names) > 0 {
				t.Errorf("names %v, known %t, want none, known", names, known)
			}
			if n := strings.Count(text.String(), "resource=sizingprofiles"); n != 1 || !strings.Contains(text.String(), c.remedy) {
				t.Errorf("%d log messages about profiles, want 1 with remedy %q:\n%s", n, c.remedy, text.String())
			}
			f.ForgetReply("GET " + profilesPath)
			kubetest.Eventually(t, "profiles are known once they can be read", func() bool {
				names, _ := w.ProfileNames()
				return slices.Equal(names, []string{"a"})
			})
		})
	}
}

func TestWorld_profileListFails_startsAndDoesNotStopTheUpdater(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Reply("GET "+profilesPath, 500, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`)
	w := startWorld(t, f, Options{Profiles: true})
	if _, known := w.ProfileNames(); known {
		t.Error("profiles are known although they were never listed")
	}
	if stale := w.Stale(time.Now()); slices.Contains(stale, "sizingprofiles") {
		t.Errorf("stale resources %v", stale)
	}
}

func TestWorld_profileWithCanary_appliesToItsVPAs(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	for name, annotation := range map[string]string{"plain": "", "own": `"podfit.dev/rollout":"all"`} {
		f.Apply(kubetest.AutoscalersPath, `{"metadata":{"namespace":"shop","name":"`+name+`","annotations":{`+annotation+`}},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"`+name+`"},
			"recommenders":[{"name":"slow"}]}}`)
	}
	f.Apply(profilesPath, `{"metadata":{"name":"slow"},"spec":{"rollout":"canary","canaryDuration":"1h"}}`)
	w := startWorld(t, f, Options{Profiles: true, Rules: true})
	canaryOf := func(name string) cluster.Canary {
		for _, a := range w.Snapshot().Autoscalers {
			if a.Name == name {
				return a.Canary
			}
		}
		return cluster.Canary{}
	}
	kubetest.Eventually(t, "the canary of the profile applies", func() bool { return canaryOf("plain") == cluster.Canary{On: true, Watch: time.Hour} })
	if got := canaryOf("own"); got.On {
		t.Errorf("the profile overrides the annotation: %+v", got)
	}
	governing := w.Governing(cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "plain"})
	if governing == nil || !governing.Canary.On {
		t.Errorf("the webhook sees %+v", governing)
	}
	f.Apply(profilesPath, `{"metadata":{"name":"slow"},"spec":{"rollout":"all"}}`)
	kubetest.Eventually(t, "the changed profile applies", func() bool { return !canaryOf("plain").On })
	f.Apply(profilesPath, `{"metadata":{"name":"slow"},"spec":{"rollout":"canary"}}`)
	kubetest.Eventually(t, "the changed profile applies again", func() bool { return canaryOf("plain").On })
	f.Delete(profilesPath, "/slow")
	kubetest.Eventually(t, "the deleted profile does not apply", func() bool { return !canaryOf("plain").On })
}

// The updater must not change all pods of a workload because it has not read yet that its profile has a canary.
func TestWorld_profilesNotListedYet_updaterChangesNothing(t *testing.T) {
	for code, stale := range map[int]bool{500: true, 404: false, 403: false, 200: false} {
		f := kubetest.NewFakeAPI(t)
		f.ApplyShop()
		switch code {
		case 500:
			f.Reply("GET "+profilesPath, 500, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`)
		case 404:
			f.Reply("GET "+profilesPath, 404, "404 page not found")
		case 403:
			f.Reply("GET "+profilesPath, 403, forbidden)
		}
		w := startWorld(t, f, Options{Profiles: true, Rules: true})
		kubetest.Eventually(t, "profiles are read if they can be", func() bool { return slices.Contains(w.Stale(time.Now()), "sizingprofiles") == stale })
	}
}

func TestWorld_profileThatLearnsBoosts_appliesToItsVPAs(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	for name, annotations := range map[string]string{
		"plain": "", "off": `"podfit.dev/learn-startup-boost":"false"`, "complete": `"podfit.dev/rollout":"all","podfit.dev/runtime-guards":"none"`,
	} {
		f.Apply(kubetest.AutoscalersPath, `{"metadata":{"namespace":"shop","name":"`+name+`","annotations":{`+annotations+`}},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"`+name+`"},
			"recommenders":[{"name":"slow"}]},"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":"100m"},
			"uncappedTarget":{"cpu":"100m","podfit.dev/startup-boost-percent":"300","podfit.dev/startup-boost-seconds":"120","podfit.dev/startup-boost-starts":"5"}}]}}}`)
	}
	f.Apply(profilesPath, `{"metadata":{"name":"slow"},"spec":{"startupBoost":{"learn":true,"maxFactor":2}}}`)
	w := startWorld(t, f, Options{Profiles: true, Boosts: true})
	boostOf := func(name string) *cluster.Boost {
		a := w.Governing(cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name})
		if a == nil {
			t.Fatalf("no VPA governs %s", name)
		}
		return a.LearntBoostOf("app")
	}
	want := cluster.Boost{Percent: 200, Duration: 2 * time.Minute}
	kubetest.Eventually(t, "the boost is applied within the bounds of the profile", func() bool {
		b := boostOf("plain")
		return b != nil && *b == want
	})
	if b := boostOf("complete"); b == nil || *b != want {
		t.Errorf("with annotations about everything else: %+v", b)
	}
	if b := boostOf("off"); b != nil {
		t.Errorf("the profile overrides the annotation: %+v", b)
	}
	f.Delete(profilesPath, "/slow")
	kubetest.Eventually(t, "the deleted profile does not apply", func() bool { return boostOf("plain") == nil })
}

func TestWorld_writeStatus_learntBoostIsReadAgain(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Apply(kubetest.AutoscalersPath, `{"metadata":{"namespace":"shop","name":"plain"},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"plain"}}}`)
	w := startWorld(t, f, Options{})
	key := cluster.Key{Namespace: "shop", Name: "plain"}
	amounts := cluster.Amounts(100, 1<<20)
	advice := []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: amounts, Target: amounts, Upper: amounts}, Uncapped: amounts,
		Learnt: cluster.LearntBoost{Percent: 250, Starts: 5, Duration: 2 * time.Minute}}}
	for _, wrote := range []bool{true, false} {
		if got, err := w.WriteStatus(t.Context(), w.Autoscaler(key), advice, time.Now()); err != nil || got != wrote {
			t.Fatalf("wrote %v, %v; want %v", got, err, wrote)
		}
		if got := w.Autoscaler(key).AdviceFor("app"); got == nil || !got.Equal(advice[0]) {
			t.Errorf("read %+v, want %+v", got, advice[0])
		}
	}
}
