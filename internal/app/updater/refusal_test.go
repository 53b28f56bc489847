// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// An apiserver answers evictions and resizes of a yard's pods, through the client that podfit uses.
type apiserver struct {
	*yard
	answer   func(verb string, p *cluster.Pod) (code int, status string) // code 0 means that the request is carried out
	attempts map[string]int                                              // by verb and pod
	wanted   int32                                                       // replicas of every controller
	wantedOf map[string]int32                                            // the same, of the controllers of some namespaces
	barren   bool                                                        // evicted pods are not replaced
	unread   bool                                                        // no scale has been read yet
	qps      float32                                                     // limit of the client; 0 means none
}

func newAPIServer(mode cluster.Mode, pods int) *apiserver {
	s := &apiserver{yard: newYard(mode), attempts: map[string]int{}, wanted: int32(pods)}
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

func (s *apiserver) Scale(w cluster.Workload) cluster.Scale {
	if s.unread {
		return cluster.Scale{}
	}
	return cluster.Scale{Known: true, Replicas: cmp.Or(s.wantedOf[w.Namespace], s.wanted)}
}

// RoundTrip answers one request.
func (s *apiserver) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body := s.serve(r.Context(), strings.Split(strings.Trim(r.URL.Path, "/"), "/"))
	header := http.Header{"Content-Type": {"application/json"}}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "5")
	}
	return &http.Response{
		StatusCode: code, Request: r, Header: header,
		Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

func (s *apiserver) serve(ctx context.Context, path []string) (int, string) { // api/v1/namespaces/NS/pods/NAME/SUBRESOURCE
	const ok = `{"kind":"Status","apiVersion":"v1","status":"Success"}`
	if len(path) < 7 {
		return http.StatusOK, ok // annotations
	}
	s.mu.Lock()
	i := slices.IndexFunc(s.pods, func(p *cluster.Pod) bool { return p.Name == path[5] })
	if i < 0 {
		s.mu.Unlock()
		return http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"name":"x"}}`
	}
	p, verb := s.pods[i], map[string]string{"eviction": "evict", "resize": "resize"}[path[6]]
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
		s.did = append(s.did, "resize "+p.Name)
		s.replace(p, func(q *cluster.Pod) { q.Containers[0].Requests = s.autoscalers[0].Advice[0].Target })
	case s.barren:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.did = append(s.did, "evict "+p.Name)
		s.pods = slices.Delete(slices.Clone(s.pods), i, i+1)
	default:
		_ = s.Evict(ctx, p)
	}
	return http.StatusOK, ok
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
func (s *apiserver) work(t *testing.T, d time.Duration) *updater {
	t.Helper()
	clients, err := kube.ClientsFor(&rest.Config{Host: "http://api", Transport: s, QPS: cmp.Or(s.qps, -1)})
	if err != nil {
		t.Fatal(err)
	}
	u := newUpdater(s.config, s, kube.NewActor(clients), s, s, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), s.log)
	for range int(d / s.config.Interval) {
		u.pass(t.Context(), time.Now())
		time.Sleep(s.config.Interval)
	}
	return u
}

func (s *apiserver) events(prefix string) []string {
	return slices.DeleteFunc(slices.Clone(s.told), func(e string) bool { return !strings.HasPrefix(e, prefix) })
}

func TestUpdater_onlyThePrimaryIsGuarded_othersAreUpdatedAndItsAttemptsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(cluster.Recreate, 3)
		s.answer = func(_ string, p *cluster.Pod) (int, string) {
			if p.Name == "web-0" {
				return guarded()
			}
			return 0, ""
		}
		s.work(t, 24*time.Hour)
		if n := s.count("evict web-1") + s.count("evict web-2"); n != 2 {
			t.Errorf("%d of the 2 pods without a budget were evicted: %v", n, s.did)
		}
		if n := s.attempts["evict web-0"]; n < 10 || n > 30 {
			t.Errorf("%d attempts on the guarded pod in a day, want 10 to 30", n)
		}
		if got := s.events("UpdateHeld"); len(got) == 0 || len(got) > 3 || !strings.Contains(got[0], "The disruption budget primary needs 1 healthy pods") {
			t.Errorf("users were told %q", got)
		}
	})
}

func TestUpdater_guardIsLifted_guardedPodIsEvictedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(cluster.Recreate, 3)
		s.answer = func(string, *cluster.Pod) (int, string) { return guarded() }
		s.work(t, 10*time.Minute)
		if n := s.count("evict "); n != 0 {
			t.Fatalf("%d evictions", n)
		}
		s.answer = nil
		s.work(t, 10*time.Minute)
		if n := s.count("evict "); n != 3 {
			t.Errorf("%d of 3 pods were evicted: %v", n, s.did)
		}
	})
}

func TestUpdater_resizeIsDeniedByWebhook_backsOffTellsAndFallsBackToEviction(t *testing.T) {
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
		"500 failed calling it, InPlace": {cluster.InPlace, func() (int, string) {
			return failure(500, "InternalError", `Internal error occurred: failed calling webhook "p": EOF`, "")
		}, false, false},
		"a broken server": {cluster.InPlaceOrRecreate, func() (int, string) { return failure(500, "InternalError", "boom", "") }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer(c.mode, 3)
				s.config.Gates = process.Gates{process.InPlaceGate: true}
				s.answer = func(verb string, p *cluster.Pod) (int, string) {
					if verb == "resize" && p.Name == "web-0" {
						return c.answer()
					}
					return 0, ""
				}
				s.work(t, time.Minute)
				// The budget allows one change at a time, be it of the pod or of a sibling.
				if n := len(s.did); n == 0 && !c.blocks {
					t.Error("nothing was changed in the first pass")
				}
				s.work(t, 24*time.Hour)
				if n := s.count("resize "); n != 2 {
					t.Errorf("%d siblings are resized, want 2: %v", n, s.did)
				}
				if got := s.count("evict web-0"); (got == 1) != c.evicts || got > 1 {
					t.Errorf("%d evictions: %v", got, s.did)
				}
				if n := s.attempts["resize web-0"]; n > 30 {
					t.Errorf("%d attempts to resize it in a day", n)
				}
				event := "UpdateHeld"
				if c.evicts {
					event = "ResizeRefused"
				}
				if got := s.events(event); len(got) == 0 || len(got) > 2 { // by each of the two updaters
					t.Errorf("users were told %q", got)
				}
			})
		})
	}
}

func TestUpdater_rateLimit_guardedPodsDoNotStarveOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(cluster.Recreate, 8)
		s.config.RateLimit, s.config.RateBurst = 1.0/600, 1
		guard := []string{"web-0", "web-1", "web-2", "web-3"}
		s.answer = func(_ string, p *cluster.Pod) (int, string) {
			if slices.Contains(guard, p.Name) {
				return guarded()
			}
			return 0, ""
		}
		inPlace := newYard(cluster.InPlaceOrRecreate)
		for _, p := range inPlace.pods {
			q := *p
			q.Name, q.UID, q.Top.Name, q.Controller.Name = "api-"+p.UID, "api"+p.UID, "api", "api-1"
			s.pods = append(s.pods, &q)
		}
		a := *inPlace.autoscalers[0]
		a.Name, a.Target.Name = "api", "api"
		s.autoscalers = append(s.autoscalers, &a)
		s.config.SkipDisruptionBudget = true
		s.wanted = 3
		s.config.EvictionTolerance = 0.9
		s.work(t, 24*time.Hour)
		for i := 4; i < 8; i++ {
			if n := s.count(fmt.Sprint("evict web-", i)); n != 1 {
				t.Errorf("web-%d was evicted %d times", i, n)
			}
		}
		if n := s.count("resize api-"); n != 3 {
			t.Errorf("%d of 3 pods were resized in place: %v", n, s.did)
		}
	})
}

func TestUpdater_resizeExceedsQuota_noPodIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(cluster.InPlaceOrRecreate, 10)
		s.answer = func(verb string, _ *cluster.Pod) (int, string) {
			if verb == "resize" {
				return overQuota()
			}
			return 0, ""
		}
		s.barren = true
		s.work(t, 24*time.Hour)
		if n := s.count("evict "); n != 0 {
			t.Errorf("%d pods were evicted that the quota does not let come back", n)
		}
		if got := s.events("UpdateHeld"); len(got) == 0 || len(got) > 3 || !strings.Contains(got[0], "exceeded quota") {
			t.Errorf("users were told %q", got)
		}
		for pod, n := range s.attempts {
			if n > 30 {
				t.Errorf("%s: %d attempts", pod, n)
			}
		}
	})
}

func TestUpdater_evictedPodsAreNotReplaced_evictionsStopUntilTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(cluster.Recreate, 10)
		s.config.RateLimit, s.config.RateBurst = 1.0/200, 1 // one each 200 seconds
		s.barren = true
		u := s.work(t, 6*time.Hour)
		if n := s.count("evict "); n != 2 {
			t.Errorf("%d pods were evicted in 6 hours, want the 2 of the first 5 minutes", n)
		}
		got := s.events("ReplacementMissing")
		if len(got) != 1 || !strings.Contains(got[0], "ReplicaSet web-1 has 8 of 10 pods") {
			t.Errorf("users were told %q", got)
		}
		if n := len(u.ledger.Owing()); n != 1 {
			t.Errorf("%d controllers owe replacements", n)
		}
		// Replacements come: evictions go on.
		for _, name := range []string{"web-10", "web-11"} {
			p := *s.pods[len(s.pods)-1]
			p.Name, p.UID, p.Created, p.Containers = name, name, time.Now(), slices.Clone(p.Containers)
			p.Containers[0].Requests = s.autoscalers[0].Advice[0].Target
			s.pods = append(s.pods, &p)
		}
		s.barren = false
		for range 60 {
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		if n := s.count("evict "); n != 10 {
			t.Errorf("%d evictions after the replacements had come, want one of each pod: %v", n, s.did)
		}
	})
}

func TestUpdater_policyDeniesResizesAndReplacements_onePodIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(cluster.InPlaceOrRecreate, 10)
		s.answer = func(verb string, _ *cluster.Pod) (int, string) {
			if verb == "resize" {
				return denied()
			}
			return 0, ""
		}
		s.barren = true
		s.work(t, 24*time.Hour)
		if n := s.count("evict "); n != 1 {
			t.Errorf("%d of 10 pods are lost, want 1", n)
		}
		if a, b := s.events("ResizeRefused"), s.events("ReplacementMissing"); len(a) != 1 || len(b) != 1 {
			t.Errorf("users were told %q", s.told)
		}
	})
}

// A scale that has not been read yet is told to users only when it stays unknown.
func TestUpdater_scaleIsUnknown_podsAreLeftAndUsersToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(cluster.Recreate, 3)
		for _, p := range s.pods {
			p.Controller = cluster.Workload{Group: "argoproj.io", Kind: "Rollout", Namespace: "shop", Name: "web"}
		}
		s.unread = true
		u := s.work(t, time.Minute)
		if len(s.told) != 0 {
			t.Errorf("after the first pass users were told %q", s.told)
		}
		for range 10 {
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		if n := len(s.events("UpdateHeld")); n != 1 || s.count("evict ") != 0 {
			t.Errorf("users were told %q, pods: %v", s.told, s.did)
		}
	})
}

func TestUpdater_dayOfRefusals_remembersOnlyLivePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(cluster.InPlaceOrRecreate, 5)
		s.answer = func(string, *cluster.Pod) (int, string) { return denied() }
		u := s.work(t, 3*time.Hour)
		s.pods, s.autoscalers = nil, nil
		u.pass(t.Context(), time.Now())
		if n := len(u.left) + len(u.dryRunLogged) + len(u.short) + len(u.held) + len(u.fallback); n != 0 {
			t.Errorf("%d things are remembered of pods that are gone", n)
		}
	})
}

// After one attempt without an answer the pod waits for another to become ready. Users are told of the attempt all the same.
func TestUpdater_evictionHasNoAnswerAndIsNotTriedAgain_usersAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(cluster.Recreate, 3)
		s.pods[1].Containers[0].Requests = s.autoscalers[0].Advice[0].Target
		s.pods[2].Containers[0].Requests = s.autoscalers[0].Advice[0].Target
		s.answer = func(string, *cluster.Pod) (int, string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.replace(s.pods[1], func(q *cluster.Pod) { q.Ready = false })
			return failure(500, "InternalError", "boom", "")
		}
		s.work(t, 20*time.Minute)
		if n := s.attempts["evict web-0"]; n != 1 {
			t.Errorf("%d attempts, want 1 for this test", n)
		}
		if got := s.events("UpdateHeld"); len(got) != 1 || !strings.Contains(got[0], "has given no clear answer") || !strings.Contains(got[0], "boom") {
			t.Errorf("users were told %q", got)
		}
	})
}
