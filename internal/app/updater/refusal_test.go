// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/actuation"
	"podfit.dev/podfit/test/kubetest"
)

// fakeAPIServer answers evictions and resizes of a fakeCluster's pods, through podfit's client.
type fakeAPIServer struct {
	*fakeCluster
	answer   func(verb string, p *cluster.Pod) (code int, status string) // code 0: the request succeeds
	attempts map[string]int                                              // by verb and pod
	wanted   int32                                                       // replicas of every controller
	wantedOf map[string]int32                                            // overrides wanted, by namespace
	barren   bool                                                        // evicted pods are not replaced
	unread   bool                                                        // no scale has been read yet
	qps      float32                                                     // limit of the client; 0 means none
}

func newAPIServer(mode cluster.Mode, pods int) *fakeAPIServer {
	s := &fakeAPIServer{fakeCluster: newFakeCluster(mode), attempts: map[string]int{}, wanted: int32(pods)}
	for _, p := range s.pods {
		p.Created = p.Created.Add(-time.Hour)
	}
	for i := len(s.pods); i < pods; i++ {
		p := *s.pods[0]
		p.Name, p.UID, p.Containers = fmt.Sprintf("web-%d", i), fmt.Sprint(i), slices.Clone(p.Containers)
		s.pods = append(s.pods, &p)
	}
	return s
}

func (s *fakeAPIServer) Scale(w cluster.Workload) cluster.Scale {
	if s.unread {
		return cluster.Scale{}
	}
	return cluster.Scale{Known: true, Replicas: cmp.Or(s.wantedOf[w.Namespace], s.wanted)}
}

// handle responds to an eviction or a resize, and accepts annotations.
func (s *fakeAPIServer) handle(w http.ResponseWriter, r *http.Request, q kubetest.Request) bool {
	code, body := http.StatusOK, kubetest.Success
	if q.Sub != "" {
		code, body = s.change(r.Context(), q.Name, map[string]string{"eviction": "evict", "resize": "resize"}[q.Sub])
	}
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "5")
	}
	kubetest.Respond(w, code, body)
	return true
}

func (s *fakeAPIServer) change(ctx context.Context, name, verb string) (int, string) {
	s.mu.Lock()
	i := slices.IndexFunc(s.pods, func(p *cluster.Pod) bool { return p.Name == name })
	if i < 0 {
		s.mu.Unlock()
		return http.StatusNotFound, kubetest.Failure(http.StatusNotFound, "NotFound", "")
	}
	p := s.pods[i]
	s.attempts[verb+" "+p.Name]++
	s.mu.Unlock()
	if s.answer != nil {
		if code, status := s.answer(verb, p); code != 0 {
			return code, status
		}
	}
	switch {
	case verb == "resize":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.done = append(s.done, "resize "+p.Name)
		s.replace(p, func(q *cluster.Pod) { q.Containers[0].Requests = s.autoscalers[0].Advice[0].Target })
	case s.barren:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.done = append(s.done, "evict "+p.Name)
		s.pods = slices.Delete(slices.Clone(s.pods), i, i+1)
	default:
		_ = s.Evict(ctx, p)
	}
	return http.StatusOK, kubetest.Success
}

// failure returns the status of a failed request.
func failure(code int, reason, message, causes string) (int, string) {
	return code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q,"details":{"causes":[%s]}}`,
		code, reason, message, causes)
}

func guarded() (int, string) {
	return failure(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.",
		`{"reason":"DisruptionBudget","message":"The disruption budget primary needs 1 healthy pods and has 1 currently"}`)
}

func denied() (int, string) {
	return failure(400, "", `admission webhook "policy.example.com" denied the request: too large`, "")
}

func overQuota() (int, string) {
	return failure(403, "Forbidden", `pods "web-0" is forbidden: exceeded quota: compute, requested: requests.memory=200Mi, used: requests.memory=1Gi, limited: requests.memory=1Gi`, "")
}

// work runs an updater against the API server for a time.
func (s *fakeAPIServer) work(t *testing.T, d time.Duration) *updater {
	t.Helper()
	api := kubetest.NewLocalAPI(t)
	api.Handle(s.handle)
	config := kubetest.LocalConfig(api)
	config.QPS = cmp.Or(s.qps, -1)
	clients, err := kube.ClientsFor(config)
	if err != nil {
		t.Fatal(err)
	}
	u := newUpdater(s.config, s, actuation.NewPodWriter(clients), s, s, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), s.log)
	for range int(d / s.config.Interval) {
		u.pass(t.Context(), time.Now())
		time.Sleep(s.config.Interval)
	}
	synctest.Wait() // the server may still count a request that the client has given up
	return u
}

func (s *fakeAPIServer) events(prefix string) []string {
	return slices.DeleteFunc(slices.Clone(s.recorded), func(e string) bool { return !strings.HasPrefix(e, prefix) })
}

func TestUpdater_budgetProtectsOnePod_othersAreUpdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.Recreate, 3)
		server.answer = func(_ string, p *cluster.Pod) (int, string) {
			if p.Name == "web-0" {
				return guarded()
			}
			return 0, ""
		}
		server.work(t, 24*time.Hour)
		if n := server.count("evict web-1") + server.count("evict web-2"); n != 2 {
			t.Errorf("%d of the 2 unprotected pods were evicted: %v", n, server.done)
		}
		if n := server.attempts["evict web-0"]; n < 10 || n > 30 {
			t.Errorf("%d attempts to evict the protected pod in a day, want 10 to 30", n)
		}
		if got := server.events("UpdateHeld"); len(got) == 0 || len(got) > 3 || !strings.Contains(got[0], "The disruption budget primary needs 1 healthy pods") {
			t.Errorf("unexpected events: %q", got)
		}
	})
}

func TestUpdater_budgetAllowsEvictionAgain_evictsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.Recreate, 3)
		server.answer = func(string, *cluster.Pod) (int, string) { return guarded() }
		server.work(t, 10*time.Minute)
		if n := server.count("evict "); n != 0 {
			t.Fatalf("%d evictions, want none while the budget refuses them", n)
		}
		server.answer = nil
		server.work(t, 10*time.Minute)
		if n := server.count("evict "); n != 3 {
			t.Errorf("%d of 3 pods were evicted: %v", n, server.done)
		}
	})
}

func TestUpdater_resizeIsDenied_backsOffAndFallsBackToEviction(t *testing.T) {
	for name, c := range map[string]struct {
		mode           cluster.Mode
		answer         func() (int, string)
		evicts, blocks bool
	}{
		"400 without reason":          {cluster.InPlaceOrRecreate, denied, true, false},
		"400 without reason, InPlace": {cluster.InPlace, denied, false, false},
		"409": {cluster.InPlaceOrRecreate, func() (int, string) {
			return failure(409, "Conflict", `admission webhook "p" denied the request: no`, "")
		}, true, false},
		"403": {cluster.InPlaceOrRecreate, func() (int, string) { return failure(403, "Forbidden", `pods "web-0" is forbidden: no`, "") }, true, false},
		"500 failed calling webhook": {cluster.InPlaceOrRecreate, func() (int, string) {
			return failure(500, "InternalError", `Internal error occurred: failed calling webhook "p": EOF`, "")
		}, true, false},
		"500 failed calling webhook, InPlace": {cluster.InPlace, func() (int, string) {
			return failure(500, "InternalError", `Internal error occurred: failed calling webhook "p": EOF`, "")
		}, false, false},
		"500 internal error": {cluster.InPlaceOrRecreate, func() (int, string) { return failure(500, "InternalError", "boom", "") }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newAPIServer(c.mode, 3)
				server.config.Gates = process.Gates{process.InPlaceGate: true}
				server.answer = func(verb string, p *cluster.Pod) (int, string) {
					if verb == "resize" && p.Name == "web-0" {
						return c.answer()
					}
					return 0, ""
				}
				server.work(t, time.Minute)
				// The budget allows one change at a time.
				if n := len(server.done); n == 0 && !c.blocks {
					t.Error("no pod was changed in the first pass")
				}
				server.work(t, 24*time.Hour)
				if n := server.count("resize "); n != 2 {
					t.Errorf("%d other pods were resized, want 2: %v", n, server.done)
				}
				if got := server.count("evict web-0"); (got == 1) != c.evicts || got > 1 {
					t.Errorf("%d evictions of web-0, want one: %t: %v", got, c.evicts, server.done)
				}
				if n := server.attempts["resize web-0"]; n > 30 {
					t.Errorf("%d attempts to resize web-0 in a day, want at most 30", n)
				}
				event := "UpdateHeld"
				if c.evicts {
					event = "ResizeRefused"
				}
				if got := server.events(event); len(got) == 0 || len(got) > 2 { // one from each of the two updaters
					t.Errorf("events %q, want 1 or 2", got)
				}
			})
		})
	}
}

func TestUpdater_rateLimitAndRefusals_otherPodsAreUpdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.Recreate, 8)
		server.config.RateLimit, server.config.RateBurst = 1.0/600, 1
		guard := []string{"web-0", "web-1", "web-2", "web-3"}
		server.answer = func(_ string, p *cluster.Pod) (int, string) {
			if slices.Contains(guard, p.Name) {
				return guarded()
			}
			return 0, ""
		}
		inPlace := newFakeCluster(cluster.InPlaceOrRecreate)
		for _, p := range inPlace.pods {
			q := *p
			q.Name, q.UID, q.Top.Name, q.Controller.Name = "api-"+p.UID, "api"+p.UID, "api", "api-1"
			server.pods = append(server.pods, &q)
		}
		a := *inPlace.autoscalers[0]
		a.Name, a.Target.Name = "api", "api"
		server.autoscalers = append(server.autoscalers, &a)
		server.config.Budget.SkipInPlace = true
		server.wanted = 3
		server.config.Budget.Tolerance = 0.9
		server.work(t, 24*time.Hour)
		for i := 4; i < 8; i++ {
			if n := server.count(fmt.Sprint("evict web-", i)); n != 1 {
				t.Errorf("web-%d was evicted %d times", i, n)
			}
		}
		if n := server.count("resize api-"); n != 3 {
			t.Errorf("%d of 3 pods were resized in place: %v", n, server.done)
		}
	})
}

func TestUpdater_resizeExceedsQuota_evictsNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.InPlaceOrRecreate, 10)
		server.answer = func(verb string, _ *cluster.Pod) (int, string) {
			if verb == "resize" {
				return overQuota()
			}
			return 0, ""
		}
		server.barren = true
		server.work(t, 24*time.Hour)
		if n := server.count("evict "); n != 0 {
			t.Errorf("%d pods were evicted whose replacement the quota refuses", n)
		}
		if got := server.events("UpdateHeld"); len(got) == 0 || len(got) > 3 || !strings.Contains(got[0], "exceeded quota") {
			t.Errorf("unexpected events: %q", got)
		}
		for pod, n := range server.attempts {
			if n > 30 {
				t.Errorf("%s: %d attempts, want at most 30", pod, n)
			}
		}
	})
}

func TestUpdater_replacementsAreMissing_pausesEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.Recreate, 10)
		server.config.RateLimit, server.config.RateBurst = 1.0/200, 1 // one every 200 seconds
		server.barren = true
		u := server.work(t, 6*time.Hour)
		if n := server.count("evict "); n != 2 {
			t.Errorf("%d pods were evicted in 6 hours, want the 2 of the first 5 minutes", n)
		}
		got := server.events("ReplacementMissing")
		if len(got) != 1 || !strings.Contains(got[0], "ReplicaSet web-1 has 8 of 10 pods") {
			t.Errorf("unexpected events: %q", got)
		}
		if n := len(u.ledger.MissingReplacements()); n != 1 {
			t.Errorf("%d controllers are missing replacements, want 1", n)
		}
		// When the replacements exist, evictions continue.
		for _, name := range []string{"web-10", "web-11"} {
			p := *server.pods[len(server.pods)-1]
			p.Name, p.UID, p.Created, p.Containers = name, name, time.Now(), slices.Clone(p.Containers)
			p.Containers[0].Requests = server.autoscalers[0].Advice[0].Target
			server.pods = append(server.pods, &p)
		}
		server.barren = false
		for range 60 {
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		if n := server.count("evict "); n != 10 {
			t.Errorf("%d evictions after the replacements were created, want one of each pod: %v", n, server.done)
		}
	})
}

func TestUpdater_policyDeniesResizesAndReplacements_evictsOnePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.InPlaceOrRecreate, 10)
		server.answer = func(verb string, _ *cluster.Pod) (int, string) {
			if verb == "resize" {
				return denied()
			}
			return 0, ""
		}
		server.barren = true
		server.work(t, 24*time.Hour)
		if n := server.count("evict "); n != 1 {
			t.Errorf("%d of 10 pods were evicted, want 1", n)
		}
		if a, b := server.events("ResizeRefused"), server.events("ReplacementMissing"); len(a) != 1 || len(b) != 1 {
			t.Errorf("events %q, want one ResizeRefused and one ReplacementMissing", server.recorded)
		}
	})
}

// An event is written only if the scale is still unknown in the second pass.
func TestUpdater_scaleStaysUnknown_writesOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.Recreate, 3)
		for _, p := range server.pods {
			p.Controller = cluster.Workload{Group: "argoproj.io", Kind: "Rollout", Namespace: "shop", Name: "web"}
		}
		server.unread = true
		u := server.work(t, time.Minute)
		if len(server.recorded) != 0 {
			t.Errorf("events after the first pass: %q", server.recorded)
		}
		for range 10 {
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		if n := len(server.events("UpdateHeld")); n != 1 || server.count("evict ") != 0 {
			t.Errorf("events %q, want one UpdateHeld; actions %v", server.recorded, server.done)
		}
	})
}

func TestUpdater_podsAreGone_stateIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.InPlaceOrRecreate, 5)
		server.answer = func(string, *cluster.Pod) (int, string) { return denied() }
		u := server.work(t, 3*time.Hour)
		server.pods, server.autoscalers = nil, nil
		u.pass(t.Context(), time.Now())
		if n := len(u.report.notices) + len(u.report.dryRuns) + len(u.report.shortages) + len(u.report.held) + len(u.report.fallbacks); n != 0 {
			t.Errorf("%d entries are kept for pods that are gone", n)
		}
	})
}

// After an unanswered eviction the pod waits until another pod is ready. An event about the unanswered eviction follows anyway.
func TestUpdater_evictionHasNoAnswer_writesEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.Recreate, 3)
		server.pods[1].Containers[0].Requests = server.autoscalers[0].Advice[0].Target
		server.pods[2].Containers[0].Requests = server.autoscalers[0].Advice[0].Target
		server.answer = func(string, *cluster.Pod) (int, string) {
			server.mu.Lock()
			defer server.mu.Unlock()
			server.replace(server.pods[1], func(q *cluster.Pod) { q.Ready = false })
			return failure(500, "InternalError", "boom", "")
		}
		server.work(t, 20*time.Minute)
		if n := server.attempts["evict web-0"]; n != 1 {
			t.Errorf("%d attempts, want 1", n)
		}
		if got := server.events("UpdateHeld"); len(got) != 1 || countHeld(got, decision.Reason{Code: decision.Unanswered, For: 10 * time.Minute, Text: anyText}) != 1 || !strings.Contains(got[0], "boom") {
			t.Errorf("unexpected events: %q", got)
		}
	})
}
