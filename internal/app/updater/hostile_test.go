// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/edge/kube"
)

// A pass that ends while a request waits for its turn has not sent it: nothing was refused, and nothing may have been done.
func TestUpdater_passEndsBeforeRequestIsSent_isNoFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(cluster.InPlaceOrRecreate, 40)
		s.config.SkipDisruptionBudget = true
		s.config.EvictionTolerance = 1
		s.answer = func(string, *cluster.Pod) (int, string) {
			time.Sleep(50 * time.Second)
			return 0, ""
		}
		u := s.work(t, time.Minute)
		for _, p := range s.pods {
			if why := u.left[p.UID].why; s.attempts["resize "+p.Name] == 0 && why != plan.OutOfTime {
				t.Errorf("%s was never tried, and is said to be left because of %s", p.Name, why)
			}
		}
	})
}

// A server that asks for patience gets it: the next attempt is the next pass's, after its back-off.
func TestUpdater_resizeIsToWait_isNotRepeatedWithinThePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(cluster.InPlaceOrRecreate, 3)
		s.answer = func(verb string, _ *cluster.Pod) (int, string) {
			return failure(429, "TooManyRequests", "please wait", "")
		}
		begun := time.Now()
		s.work(t, time.Minute)
		for what, n := range s.attempts {
			if n > 1 {
				t.Errorf("%s: %d requests in one pass", what, n)
			}
		}
		if took := time.Since(begun) - time.Minute; took > time.Second {
			t.Errorf("the pass waited for %v", took)
		}
	})
}

func TestUpdater_refusalIsHuge_eventsAndLogsAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		s := newAPIServer(cluster.InPlaceOrRecreate, 3)
		s.log = slog.New(slog.NewTextHandler(&text, nil))
		s.answer = func(string, *cluster.Pod) (int, string) {
			return failure(400, "", `admission webhook "p" denied the request: `+strings.Repeat("ü", 1<<19), "")
		}
		s.work(t, 5*time.Minute)
		if len(s.told) == 0 {
			t.Error("users were told nothing")
		}
		for _, e := range s.told {
			if len(e) > 1024 || !utf8.ValidString(e) {
				t.Errorf("users were told %d bytes, valid: %t", len(e), utf8.ValidString(e))
			}
		}
		for line := range strings.Lines(text.String()) {
			if len(line) > 4<<10 {
				t.Errorf("a line of %d bytes was logged", len(line))
			}
		}
	})
}

// unannotated is a yard whose pods cannot be annotated.
type unannotated struct{ *yard }

func (u unannotated) Annotate(_ context.Context, p *cluster.Pod, _ map[string]string, _ ...string) error {
	return fmt.Errorf("annotate pod %s: %w", p.Key, kube.ErrForbidden)
}

// As long as the annotation of a boost stays, the boost is not over.
func TestUpdater_boostAnnotationStays_isTriedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(cluster.Off)
		y.config.Gates = process.Gates{process.CPUStartupBoost: true}
		y.autoscalers[0].Boost = &cluster.Boost{Factor: 2, Duration: time.Minute}
		for _, p := range y.pods {
			p.Containers[0].Boosted = &cluster.Applied{Requests: cluster.Amounts(50, 50<<20)}
		}
		u := newUpdater(y.config, y, unannotated{y}, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
		for range 24 * 60 {
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		if n := y.count("resize "); n < 3 || n > 90 {
			t.Errorf("%d resizes of 3 pods in a day", n)
		}
		if i := slices.IndexFunc(y.told, func(e string) bool { return strings.HasPrefix(e, "resized") }); i >= 0 {
			t.Errorf("users were told %q", y.told[i])
		}
	})
}

// The client's own rate limit refuses at once what it could not send in time.
func TestUpdater_clientRateLimitEndsPass_unsentIsNoFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(cluster.InPlaceOrRecreate, 400)
		s.config.SkipDisruptionBudget = true
		s.qps = 5
		u := s.work(t, time.Minute)
		if n := s.count("resize "); n < 100 || n > 310 {
			t.Errorf("%d resizes in the first pass", n)
		}
		wrong := map[plan.ReasonCode]int{}
		for _, p := range s.pods {
			if why := u.left[p.UID].why; s.attempts["resize "+p.Name] == 0 && why != plan.OutOfTime {
				wrong[why]++
			}
		}
		if len(wrong) > 0 {
			t.Errorf("pods that were never tried are said to be left because of %v", wrong)
		}
		if n := len(u.ledger.Owing()); n != 0 {
			t.Errorf("%d controllers are said to owe replacements", n)
		}
	})
}

// What goes wrong with one autoscaler is counted and logged, and stops none of the others.
func TestUpdater_oneAutoscalerPanics_isCountedAndLoggedWithItsStack(t *testing.T) {
	var text bytes.Buffer
	y := newYard(cluster.Recreate)
	y.log = slog.New(slog.NewTextHandler(&text, nil))
	other := *y.autoscalers[0]
	other.Name, other.Target.Name = "other", "other"
	y.autoscalers = append(y.autoscalers, &other)
	p := quietProcess()
	u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), p.HealthFor("updater", time.Minute), y.log)
	w := u.gather(y.Snapshot(), y.autoscalers)
	w.Governed[0].Pods = append(w.Governed[0].Pods, nil)
	w.Governed[1].Pods = y.pods
	if ds := plan.Begin(time.Now(), w, u.budget).Decisions(); len(ds) != 3 || ds[0].Do != plan.Evict {
		t.Errorf("decisions on the other: %v", ds)
	}
	if n := testutil.ToFloat64(p.Metrics.Failures.WithLabelValues("updater")); n != 1 || !strings.Contains(text.String(), "shop/other") || !strings.Contains(text.String(), "plan.go") {
		t.Errorf("%v failures, log: %s", n, text.String())
	}
}

// One tenant's pods whose evictions are refused, slowly and again and again, do not keep another tenant's from their turn.
func TestUpdater_tenantIsRefused_othersGetTheirTurn(t *testing.T) {
	for name, limit := range map[string]float64{"slow answers": -1, "rate limit": 1.0 / 60} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer(cluster.Recreate, 1500)
				s.config.RateLimit = limit
				a := *s.autoscalers[0]
				a.Namespace, a.Target.Namespace = "bank", "bank"
				a.Advice = slices.Clone(a.Advice)
				a.Advice[0].Target = cluster.Amounts(340, 240<<20) // a little less pressing
				for i := range 3 {
					q := *s.pods[i]
					q.Containers = slices.Clone(q.Containers)
					q.Namespace, q.Top.Namespace, q.Controller.Namespace = "bank", "bank", "bank"
					q.Name, q.UID = fmt.Sprint("bank-", i), fmt.Sprint("bank-", i)
					s.pods = append(s.pods, &q)
				}
				s.autoscalers = append(s.autoscalers, &a)
				s.wanted = 3
				s.answer = func(_ string, p *cluster.Pod) (int, string) {
					if p.Namespace == "bank" {
						return 0, ""
					}
					time.Sleep(5 * time.Second)
					return guarded()
				}
				s.work(t, 8*time.Minute)
				if n := s.count("evict bank-"); n != 3 {
					t.Errorf("%d of the neighbour's 3 pods were evicted in 8 minutes, others were tried %d times", n, len(s.attempts))
				}
			})
		})
	}
}

// What is tried instead of what was refused waits for its turn like everything else.
func TestUpdater_wholeGroupIsRefused_neighboursDoNotWaitForItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(cluster.Recreate, 400)
		bank := *s.autoscalers[0]
		bank.Namespace, bank.Target.Namespace = "bank", "bank"
		s.autoscalers = append(s.autoscalers, &bank)
		for i := range 60 {
			q := *s.pods[i]
			q.Containers = slices.Clone(q.Containers)
			q.Namespace, q.Top.Namespace, q.Controller.Namespace = "bank", "bank", "bank"
			q.Name, q.UID = fmt.Sprint("bank-", i), fmt.Sprint("bank-", i)
			s.pods = append(s.pods, &q)
		}
		s.config.EvictionTolerance = 0.5
		s.wanted = 400
		s.wantedOf = map[string]int32{"bank": 60}
		s.answer = func(_ string, p *cluster.Pod) (int, string) {
			if p.Namespace == "bank" {
				return 0, ""
			}
			time.Sleep(5 * time.Second)
			return guarded()
		}
		s.work(t, time.Minute)
		if n := s.count("evict bank-"); n != 30 {
			t.Errorf("%d of the 30 pods that the neighbour can spare were evicted", n)
		}
	})
}

// A pod that is left now for this reason and now for that is spoken of once for each.
func TestUpdater_reasonsAlternate_usersAreToldOnceOfEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(cluster.InPlaceOrRecreate, 1)
		s.config.SkipDisruptionBudget = true // so that a single pod is resized
		s.answer = func(string, *cluster.Pod) (int, string) { return denied() }
		s.work(t, 24*time.Hour)
		if got := s.events("UpdateHeld"); len(got) < 1 || len(got) > 2 {
			t.Errorf("users were told %d times: %q", len(got), got)
		}
	})
}
