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
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/edge/kube"
)

// A request that was not sent before the pass ended was neither refused nor carried out.
func TestUpdater_passEndsBeforeRequestIsSent_reasonIsOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.InPlaceOrRecreate, 40)
		server.config.Budget.SkipInPlace = true
		server.config.Budget.Tolerance = 1
		server.answer = func(string, *cluster.Pod) (int, string) {
			time.Sleep(50 * time.Second)
			return 0, ""
		}
		u := server.work(t, time.Minute)
		for _, p := range server.pods {
			if why := u.report.notices[p.UID].code; server.attempts["resize "+p.Name] == 0 && why != decision.OutOfTime {
				t.Errorf("%s was never tried, but its reason is %s, want OutOfTime", p.Name, why)
			}
		}
	})
}

// After status 429 the next attempt follows in a later pass, after the back-off.
func TestUpdater_serverIsBusy_requestIsNotRepeatedWithinThePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.InPlaceOrRecreate, 3)
		server.answer = func(verb string, _ *cluster.Pod) (int, string) {
			return failure(429, "TooManyRequests", "too many requests", "")
		}
		begun := time.Now()
		server.work(t, time.Minute)
		for what, n := range server.attempts {
			if n > 1 {
				t.Errorf("%s: %d requests in one pass, want at most 1", what, n)
			}
		}
		if took := time.Since(begun) - time.Minute; took > time.Second {
			t.Errorf("the pass waited for %v, want at most one second", took)
		}
	})
}

func TestUpdater_refusalTextIsHuge_eventsAndLogsAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		server := newAPIServer(cluster.InPlaceOrRecreate, 3)
		server.log = slog.New(slog.NewTextHandler(&text, nil))
		server.answer = func(string, *cluster.Pod) (int, string) {
			return failure(400, "", `admission webhook "p" denied the request: `+strings.Repeat("ü", 1<<19), "")
		}
		server.work(t, 5*time.Minute)
		if len(server.recorded) == 0 {
			t.Error("no event was written")
		}
		for _, e := range server.recorded {
			if len(e) > 1024 || !utf8.ValidString(e) {
				t.Errorf("an event has %d bytes, valid UTF-8: %t", len(e), utf8.ValidString(e))
			}
		}
		for line := range strings.Lines(text.String()) {
			if len(line) > 4<<10 {
				t.Errorf("a log line has %d bytes, want at most 4096", len(line))
			}
		}
	})
}

// refusedAnnotations is a fakeCluster whose pods cannot be annotated.
type refusedAnnotations struct{ *fakeCluster }

func (u refusedAnnotations) Annotate(_ context.Context, p *cluster.Pod, _ map[string]string, _ ...string) error {
	return fmt.Errorf("annotate pod %s: %w", p.Key, kube.ErrForbidden)
}

// A boost has not ended while its annotation exists.
func TestUpdater_boostAnnotationCannotBeRemoved_backsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Off)
		fake.config.Gates = process.Gates{process.CPUStartupBoost: true}
		fake.autoscalers[0].Boost = &cluster.Boost{Factor: 2, Duration: time.Minute}
		for _, p := range fake.pods {
			p.Containers[0].Boosted = &cluster.Applied{Requests: cluster.Amounts(50, 50<<20)}
		}
		u := newUpdater(fake.config, fake, refusedAnnotations{fake}, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
		for range 24 * 60 {
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		if n := fake.count("resize "); n < 3 || n > 90 {
			t.Errorf("%d resizes of 3 pods in a day, want 3 to 90", n)
		}
		if i := slices.IndexFunc(fake.recorded, func(e string) bool { return strings.HasPrefix(e, "resized") }); i >= 0 {
			t.Errorf("event %q for a resize that is incomplete", fake.recorded[i])
		}
	})
}

// The client's own rate limit rejects at once a request that it could not send before the deadline.
func TestUpdater_clientRateLimitEndsPass_reasonIsOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.InPlaceOrRecreate, 400)
		server.config.Budget.SkipInPlace = true
		server.qps = 5
		u := server.work(t, time.Minute)
		if n := server.count("resize "); n < 100 || n > 310 {
			t.Errorf("%d resizes in the first pass, want 100 to 310", n)
		}
		wrong := map[decision.ReasonCode]int{}
		for _, p := range server.pods {
			if why := u.report.notices[p.UID].code; server.attempts["resize "+p.Name] == 0 && why != decision.OutOfTime {
				wrong[why]++
			}
		}
		if len(wrong) > 0 {
			t.Errorf("pods that were never tried have the reasons %v, want OutOfTime", wrong)
		}
		if n := len(u.ledger.MissingReplacements()); n != 0 {
			t.Errorf("%d controllers are missing replacements, want 0", n)
		}
	})
}

// An internal error with one autoscaler is counted and logged, and does not affect the others.
func TestUpdater_oneAutoscalerPanics_isCountedAndLogged(t *testing.T) {
	var text bytes.Buffer
	fake := newFakeCluster(cluster.Recreate)
	fake.log = slog.New(slog.NewTextHandler(&text, nil))
	other := *fake.autoscalers[0]
	other.Name, other.Target.Name = "other", "other"
	fake.autoscalers = append(fake.autoscalers, &other)
	p := quietProcess()
	u := newUpdater(fake.config, fake, fake, fake, fake, NewMetrics(prometheus.NewRegistry()), p.HealthFor("updater", time.Minute), fake.log)
	w := u.gather(fake.Snapshot(), fake.autoscalers)
	w.Governed[0].Pods = append(w.Governed[0].Pods, nil)
	w.Governed[1].Pods = fake.pods
	pass := plan.Begin(time.Now(), w, u.budget)
	u.reportFailures(pass.Failures)
	if ds := pass.Decisions(); len(ds) != 3 || ds[0].Do != decision.Evict {
		t.Errorf("decisions on the other autoscaler's pods: %v", ds)
	}
	if n := testutil.ToFloat64(p.Metrics.Failures.WithLabelValues("updater")); n != 1 || !strings.Contains(text.String(), "shop/other") || !strings.Contains(text.String(), "plan.go") {
		t.Errorf("%v failures, want 1 and a log with the autoscaler and the stack: %s", n, text.String())
	}
}

// Many slow refusals in one namespace do not delay the pods of another namespace.
func TestUpdater_oneNamespaceIsRefused_othersAreUpdated(t *testing.T) {
	for name, limit := range map[string]float64{"slow answers": -1, "rate limit": 1.0 / 60} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newAPIServer(cluster.Recreate, 1500)
				server.config.RateLimit = limit
				a := *server.autoscalers[0]
				a.Namespace, a.Target.Namespace = "bank", "bank"
				a.Advice = slices.Clone(a.Advice)
				a.Advice[0].Target = cluster.Amounts(340, 240<<20) // slightly lower priority
				for i := range 3 {
					q := *server.pods[i]
					q.Containers = slices.Clone(q.Containers)
					q.Namespace, q.Top.Namespace, q.Controller.Namespace = "bank", "bank", "bank"
					q.Name, q.UID = fmt.Sprint("bank-", i), fmt.Sprint("bank-", i)
					server.pods = append(server.pods, &q)
				}
				server.autoscalers = append(server.autoscalers, &a)
				server.wanted = 3
				server.answer = func(_ string, p *cluster.Pod) (int, string) {
					if p.Namespace == "bank" {
						return 0, ""
					}
					time.Sleep(5 * time.Second)
					return guarded()
				}
				server.work(t, 8*time.Minute)
				if n := server.count("evict bank-"); n != 3 {
					t.Errorf("%d of 3 pods in namespace bank were evicted in 8 minutes; %d other attempts", n, len(server.attempts))
				}
			})
		})
	}
}

// The action that replaces a refused one goes to the end of the queue.
func TestUpdater_oneGroupIsRefused_othersAreUpdatedInTheSamePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.Recreate, 400)
		bank := *server.autoscalers[0]
		bank.Namespace, bank.Target.Namespace = "bank", "bank"
		server.autoscalers = append(server.autoscalers, &bank)
		for i := range 60 {
			q := *server.pods[i]
			q.Containers = slices.Clone(q.Containers)
			q.Namespace, q.Top.Namespace, q.Controller.Namespace = "bank", "bank", "bank"
			q.Name, q.UID = fmt.Sprint("bank-", i), fmt.Sprint("bank-", i)
			server.pods = append(server.pods, &q)
		}
		server.config.Budget.Tolerance = 0.5
		server.wanted = 400
		server.wantedOf = map[string]int32{"bank": 60}
		server.answer = func(_ string, p *cluster.Pod) (int, string) {
			if p.Namespace == "bank" {
				return 0, ""
			}
			time.Sleep(5 * time.Second)
			return guarded()
		}
		server.work(t, time.Minute)
		if n := server.count("evict bank-"); n != 2 {
			t.Errorf("%d pods in namespace bank were evicted, want the 2 whose effect may be unknown", n)
		}
	})
}

// A pod whose reason alternates gets one event for each reason.
func TestUpdater_reasonsAlternate_writesOneEventForEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.InPlaceOrRecreate, 1)
		server.config.Budget.SkipInPlace = true // so that a single pod is resized
		server.answer = func(string, *cluster.Pod) (int, string) { return denied() }
		server.work(t, 24*time.Hour)
		if got := server.events("UpdateHeld"); len(got) < 1 || len(got) > 2 {
			t.Errorf("%d events, want 1 or 2: %q", len(got), got)
		}
	})
}
