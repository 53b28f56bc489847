// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/freeze"
	"podfit.dev/podfit/internal/app/updater/scalepoint"
	"podfit.dev/podfit/internal/app/updater/summary"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube"
)

// hpaCluster is a fakeCluster whose Deployment an HPA scales at 80 % of its CPU request.
type hpaCluster struct {
	mu sync.Mutex // guards the fields while the updater changes several pods at a time
	*fakeCluster
	t      *testing.T
	hpa    *cluster.HorizontalAutoscaler
	fail   func(call int) (applied bool, err error) // outcome of the writes to the HPA; nil: done
	crash  int                                      // number of the call at which the updater crashes; 0: never
	after  bool                                     // the call is carried out before the crash
	calls  int
	writes int
	late   func()                          // a write that arrives after the pass
	lowest int64                           // lowest scale point of all times, in percent × millicores
	frozen bool                            // by the ConfigMap of the cluster
	more   []*cluster.HorizontalAutoscaler // of other tenants
}

func (y *hpaCluster) Rules(a *cluster.Autoscaler) rollout.Rules {
	return rollout.Rules{Autoscaler: a, Cluster: cluster.Freeze{On: y.frozen}}
}

// newHPACluster returns a cluster whose pods request 500m of CPU. The recommendation is target.
func newHPACluster(t *testing.T, target int64) *hpaCluster {
	fake := newFakeCluster(cluster.InPlaceOrRecreate)
	for _, p := range fake.pods {
		p.Containers[0].Requests = cluster.Amounts(500, 250<<20)
	}
	r := cluster.Amounts(target, 250<<20)
	fake.autoscalers[0].Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: r, Target: r, Upper: r}}}
	fake.autoscalers[0].PreserveScalePoint = true
	h := &cluster.HorizontalAutoscaler{
		Key: cluster.Key{Namespace: "shop", Name: "hpa"}, UID: "h", Target: fake.autoscalers[0].Target,
		Utilization: []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 80}},
	}
	return &hpaCluster{fakeCluster: fake, t: t, hpa: h, lowest: 1 << 40}
}

func (y *hpaCluster) Snapshot() *cluster.Snapshot {
	s := y.fakeCluster.Snapshot()
	for i, a := range s.Autoscalers {
		s.Autoscalers[i] = a.WithHorizontal(y.present())
	}
	return s
}

// call counts a request. It returns an error if the updater has crashed, and whether the request is carried out nevertheless.
func (y *hpaCluster) call() (applied bool, err error) {
	y.calls++
	if y.crash > 0 && y.calls >= y.crash {
		return y.calls == y.crash && y.after, kube.ErrNotSent
	}
	return true, nil
}

func (y *hpaCluster) Resize(ctx context.Context, p *cluster.Pod, with []policy.Fitted) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	applied, err := y.call()
	if applied {
		err = errors.Join(err, y.fakeCluster.Resize(ctx, p, with))
	}
	y.observe()
	return err
}

func (y *hpaCluster) Record(_ context.Context, h *cluster.HorizontalAutoscaler, points []cluster.ScalePoint) error {
	return y.write(h, nil, points)
}

func (y *hpaCluster) SetTargets(_ context.Context, h *cluster.HorizontalAutoscaler, percent map[int]int32, points []cluster.ScalePoint) error {
	return y.write(h, percent, points)
}

func (y *hpaCluster) write(h *cluster.HorizontalAutoscaler, percent map[int]int32, points []cluster.ScalePoint) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	applied, err := y.call()
	if err == nil && y.fail != nil {
		applied, err = y.fail(y.calls)
	}
	y.writes++
	next := *y.hpa
	next.Points = points
	next.Utilization = slices.Clone(next.Utilization)
	if to, ok := percent[0]; ok {
		next.Utilization[0].Percent = to
	}
	switch {
	case applied && h.Utilization[0] != y.hpa.Utilization[0]:
		return errors.Join(err, kube.ErrInvalid)
	case applied:
		y.hpa = &next
	}
	if err != nil && !applied && y.late != nil {
		y.late = func() { y.hpa = &next }
	}
	y.observe()
	return err
}

func (y *hpaCluster) average() int64 {
	var total int64
	for _, p := range y.pods {
		total += p.Containers[0].Requests.CPU
	}
	return total / int64(len(y.pods))
}

func (y *hpaCluster) observe() {
	if y.hpa != nil {
		y.lowest = min(y.lowest, int64(y.hpa.Utilization[0].Percent)*y.average())
	}
}

// present returns the HPA, if it exists.
func (y *hpaCluster) present() []*cluster.HorizontalAutoscaler {
	if y.hpa == nil {
		return nil
	}
	return []*cluster.HorizontalAutoscaler{y.hpa}
}

func (y *hpaCluster) Horizontals() []*cluster.HorizontalAutoscaler {
	return append(slices.Clone(y.more), y.present()...)
}

func (y *hpaCluster) start() *updater { return y.startWith(y) }

// startWith starts an updater that writes HPAs to a writer.
func (y *hpaCluster) startWith(writer scalepoint.Writer) *updater {
	u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
	u.actuators.scalePoints = scalepoint.New(y, writer, &u.config.Common, u.budget.StartupBoost, u.health, y.log)
	return u
}

func (y *hpaCluster) passes(u *updater, n int, between func()) {
	for range n {
		u.pass(y.t.Context(), time.Now())
		time.Sleep(time.Minute)
		if between != nil {
			between()
		}
	}
}

// percentOf returns the target that keeps the scale point of 80 % of 500m, rounded up.
func percentOf(request int64) int32 { return int32((500*80 + request - 1) / request) }

func TestUpdater_preserveScalePoint_requestAndTargetMoveTogether(t *testing.T) {
	for _, target := range []int64{650, 460} {
		t.Run(fmt.Sprint(target), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newHPACluster(t, target)
				y.passes(y.start(), 20, nil)
				if got := y.hpa.Utilization[0].Percent; y.average() != target || got != percentOf(target) {
					t.Errorf("request %d, target %d %%; want %d and %d %%", y.average(), got, target, percentOf(target))
				}
				if y.lowest < 500*80 {
					t.Errorf("the scale point fell to %d, want at least %d: the HPA may scale up", y.lowest, 500*80)
				}
				if y.writes > 6 {
					t.Errorf("%d writes to the HPA for three pods", y.writes)
				}
			})
		})
	}
}

func TestUpdater_withoutOptIn_neitherRequestNorHPAChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newHPACluster(t, 650)
		y.autoscalers[0].PreserveScalePoint = false
		y.passes(y.start(), 60, nil)
		if y.writes > 0 || len(y.done) > 0 {
			t.Errorf("%d writes to the HPA, actions %q; want none", y.writes, y.done)
		}
	})
}

// Each outcome of a write to the HPA. In every case the scale point is never too low, and no pod changes before its target.
func TestUpdater_writeToHPAFails_requestsWaitForIt(t *testing.T) {
	for name, c := range map[string]struct {
		fail    func(call int) (bool, error)
		late    bool
		request int64
	}{
		"refused":                        {fail: func(int) (bool, error) { return false, kube.ErrForbidden }, request: 500},
		"refused after the record":       {fail: func(call int) (bool, error) { return call == 1, map[bool]error{false: kube.ErrDenied}[call == 1] }, request: 500},
		"refused once":                   {fail: func(call int) (bool, error) { return call != 2, map[bool]error{true: kube.ErrBusy}[call == 2] }, request: 460},
		"unknown, and it was done":       {fail: func(call int) (bool, error) { return true, map[bool]error{true: errors.New("timeout")}[call < 5] }, request: 460},
		"unknown, and it arrives late":   {fail: func(call int) (bool, error) { return call > 4, map[bool]error{true: errors.New("timeout")}[call <= 4] }, late: true, request: 460},
		"not sent":                       {fail: func(call int) (bool, error) { return call > 3, map[bool]error{true: kube.ErrNotSent}[call <= 3] }, request: 460},
		"others have changed the target": {fail: func(call int) (bool, error) { return call > 3, map[bool]error{true: kube.ErrInvalid}[call <= 3] }, request: 460},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newHPACluster(t, 460)
				y.fail = c.fail
				nothing := func() {}
				between := func() {}
				if c.late {
					y.late = nothing
					between = func() {
						y.late()
						y.late = nothing
					}
				}
				y.passes(y.start(), 180, between)
				if y.average() != c.request {
					t.Errorf("request %d, want %d", y.average(), c.request)
				}
				if y.lowest < 500*80 {
					t.Errorf("the scale point fell to %d, want at least %d", y.lowest, 500*80)
				}
				if c.request == 500 && y.writes > 20 {
					t.Errorf("%d attempts in 3 h, want a back-off", y.writes)
				}
			})
		})
	}
}

// The updater crashes at each of its requests, before and after it is carried out. Another one completes the change.
func TestUpdater_crashAtEachRequest_nextOneCompletesTheChange(t *testing.T) {
	for _, target := range []int64{650, 460} {
		for _, after := range []bool{false, true} {
			crashed := true
			for at := 1; crashed; at++ {
				synctest.Test(t, func(t *testing.T) {
					y := newHPACluster(t, target)
					y.crash, y.after = at, after
					first := y.start()
					for y.calls < at && y.average() != target {
						y.passes(first, 1, nil)
					}
					crashed = y.calls >= at
					y.crash = 0
					y.passes(y.start(), 30, nil)
					if got := y.hpa.Utilization[0].Percent; y.average() != target || got != percentOf(target) {
						t.Errorf("target %d, crash at request %d (carried out: %t): request %d, target %d %%; want %d %%", target, at, after, y.average(), got, percentOf(target))
					}
					if y.lowest < 500*80 {
						t.Errorf("target %d, crash at request %d (carried out: %t): the scale point fell to %d", target, at, after, y.lowest)
					}
				})
				if at > 30 {
					t.Fatal("the updater does not end")
				}
			}
		}
	}
}

// The target is raised before pods shrink. If the pods cannot be changed, it returns.
func TestUpdater_podsCannotBeChanged_targetReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newHPACluster(t, 460)
		y.resizeErr, y.evictErr = kube.ErrForbidden, kube.ErrForbidden
		raised, returned := 0, 0
		y.passes(y.start(), 60, func() {
			switch got := y.hpa.Utilization[0].Percent; {
			case got > 80:
				raised++
			case got == 80 && raised > 0:
				returned++
			}
		})
		if raised == 0 || returned < 30 || y.lowest < 500*80 || y.writes > 30 {
			t.Errorf("target raised in %d passes and back in %d, %d writes, lowest scale point %d", raised, returned, y.writes, y.lowest)
		}
	})
}

func TestUpdater_othersResetTheTarget_podfitStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newHPACluster(t, 650)
		var text bytes.Buffer
		y.log = slog.New(slog.NewTextHandler(&text, nil))
		reset := func() {
			h := *y.hpa
			h.Utilization = []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 80}}
			y.hpa = &h
		}
		y.passes(y.start(), 120, reset)
		if y.writes > 2*cluster.MostResets+3 {
			t.Errorf("%d writes to the HPA, want podfit to stop", y.writes)
		}
		if len(y.hpa.Points) != 1 || !y.hpa.Points[0].Stopped() {
			t.Errorf("records %+v, want one that says that podfit has stopped", y.hpa.Points)
		}
		if n := strings.Count(text.String(), "Another client overwrites the target"); n != 1 {
			t.Errorf("logged %d times, want 1", n)
		}
		before := y.writes
		y.passes(y.start(), 60, reset) // a new leader does not begin again
		if y.writes != before {
			t.Errorf("%d writes after a restart", y.writes-before)
		}
	})
}

func TestUpdater_userChangesTheTarget_newScalePointIsPreserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newHPACluster(t, 550)
		u := y.start()
		y.passes(u, 20, nil)
		h := *y.hpa
		h.Utilization = []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 70}}
		y.hpa = &h
		y.passes(u, 20, nil)
		// 70 % of the recorded request of 500m is 350m, which is 64 % of 550m.
		if got := y.hpa.Utilization[0].Percent; got != 64 {
			t.Errorf("target %d %%, want 64 %%", got)
		}
	})
}

func TestUpdater_optInRemoved_targetIsRestoredWithThePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newHPACluster(t, 650)
		u := y.start()
		y.passes(u, 20, nil)
		a := *y.autoscalers[0]
		a.PreserveScalePoint = false
		y.autoscalers[0] = &a
		y.passes(u, 5, nil)
		if got := y.hpa.Utilization[0].Percent; got != percentOf(650) || len(y.hpa.Points) != 1 {
			t.Errorf("target %d %%, records %v; want them unchanged while pods have the new request", got, y.hpa.Points)
		}
		for i, p := range y.pods { // a rollout replaces the pods; new pods have the request of the template
			q := *p
			q.UID = fmt.Sprint("new-", i)
			q.Containers = []cluster.Container{{Name: "app", Requests: cluster.Amounts(500, 250<<20)}}
			y.pods[i] = &q
		}
		y.passes(u, 3, nil)
		if got := y.hpa.Utilization[0].Percent; got != 80 || len(y.hpa.Points) != 0 {
			t.Errorf("target %d %%, records %v; want 80 %% and none", got, y.hpa.Points)
		}
	})
}

// slowHPAs answers each write after nine seconds.
type slowHPAs struct{ *hpaCluster }

func (s slowHPAs) Record(ctx context.Context, h *cluster.HorizontalAutoscaler, points []cluster.ScalePoint) error {
	time.Sleep(9 * time.Second)
	return s.hpaCluster.Record(ctx, h, points)
}

func (s slowHPAs) SetTargets(ctx context.Context, h *cluster.HorizontalAutoscaler, percent map[int]int32, points []cluster.ScalePoint) error {
	time.Sleep(9 * time.Second)
	return s.hpaCluster.SetTargets(ctx, h, percent, points)
}

// Early passes pause for a multiple of the time for which a pass computes. A slow answer about the HPA of one tenant must not delay the
// OOM rescue of others.
func TestUpdater_slowWriteToHPA_isNoCostOfThePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newHPACluster(t, 460)
		u := y.startWith(slowHPAs{y})
		for range 5 {
			u.pass(t.Context(), time.Now())
			if u.cost > 0 {
				t.Errorf("the cost of the pass is %v, want none", u.cost)
			}
			time.Sleep(time.Minute)
		}
		if y.writes == 0 {
			t.Error("no write to the HPA")
		}
	})
}

// The average request of pods that others change all the time causes few writes to the HPA, although early passes run each second. The scale
// point is never too low.
func TestUpdater_averageRequestChangesEachSecond_writesToHPAAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newHPACluster(t, 600)
		e := &y.autoscalers[0].Advice[0].Estimate
		e.Lower, e.Upper = cluster.Amounts(1, 1<<20), cluster.Amounts(9000, 9<<30)
		u := y.start()
		u.pass(t.Context(), time.Now()) // the record
		before := y.writes
		for second := range 300 {
			y.replace(y.pods[0], func(q *cluster.Pod) { q.Containers[0].Requests.CPU = []int64{500, 1400}[second%2] })
			u.pass(t.Context(), time.Now())
			y.observe()
			time.Sleep(time.Second)
		}
		if n := y.writes - before; n == 0 || n > 25 {
			t.Errorf("%d writes to the HPA in 300s, want a few", n)
		}
		if y.lowest < 500*80 {
			t.Errorf("the scale point fell to %d, want at least %d", y.lowest, 500*80)
		}
	})
}

// deadHPAs answers no write, unless it is to the HPA of an autoscaler.
type deadHPAs struct {
	*hpaCluster
	tries map[string]int // writes without an answer, by UID of the HPA
}

func (d deadHPAs) Record(ctx context.Context, h *cluster.HorizontalAutoscaler, points []cluster.ScalePoint) error {
	return d.SetTargets(ctx, h, nil, points)
}

func (d deadHPAs) SetTargets(ctx context.Context, h *cluster.HorizontalAutoscaler, percent map[int]int32, points []cluster.ScalePoint) error {
	if h.Namespace == "shop" {
		return d.write(h, percent, points)
	}
	d.mu.Lock()
	d.tries[h.UID]++
	d.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// Anyone can create many HPAs with the annotation podfit.dev/scale-point. The writes to them must delay neither changes of pods nor the
// writes to HPAs of VPAs.
func TestUpdater_manyHPAsWithRecords_podsAreChangedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newHPACluster(t, 650)
		for i := range 1000 {
			y.more = append(y.more, &cluster.HorizontalAutoscaler{
				Key: cluster.Key{Namespace: "a", Name: fmt.Sprint("hpa-", i)}, UID: fmt.Sprint("a-", i), Target: cluster.Workload{Namespace: "a", Name: fmt.Sprint(i)},
				Points: []cluster.ScalePoint{{Resource: cluster.CPU, Base: 1, Percent: 1, Set: 1}},
			})
		}
		dead := deadHPAs{y, map[string]int{}}
		u := y.startWith(dead)
		began := time.Now()
		for y.average() != 650 && time.Since(began) < time.Hour {
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > 6*time.Minute {
			t.Errorf("the pods have their size after %v", took)
		}
		failures := 0
		for _, n := range dead.tries {
			failures = max(failures, n)
		}
		if n := len(dead.tries); n > 500 || failures > 10 {
			t.Errorf("%d HPAs with failures, at most %d; want none that was not tried", n, failures)
		}
	})
}

// A freeze begins when the pods have grown and the target of the HPA has not followed yet. The target is not changed before the freeze
// ends, also if the VPA is deleted.
func TestUpdater_freezeBeforeTheTargetFollows_targetWaits(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		t.Run(fmt.Sprintf("VPA deleted: %t", deleted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newHPACluster(t, 650)
				u := y.start()
				for range 20 {
					y.passes(u, 1, nil)
					if y.average() == 650 {
						break
					}
				}
				before, target := y.writes, y.hpa.Utilization[0].Percent
				if y.average() != 650 || target <= percentOf(650) {
					t.Fatalf("request %d, target %d %%; want a target that has not followed yet", y.average(), target)
				}
				y.frozen = true
				autoscalers := y.autoscalers
				if deleted {
					y.autoscalers = nil
				}
				y.passes(u, 10, nil)
				if got := y.hpa.Utilization[0].Percent; y.writes != before || got != target {
					t.Errorf("%d writes to the HPA during the freeze, target %d %%; want none and %d %%", y.writes-before, got, target)
				}
				y.frozen, y.autoscalers = false, autoscalers
				y.passes(u, 2, nil)
				if got := y.hpa.Utilization[0].Percent; got != percentOf(650) {
					t.Errorf("target %d %% after the freeze, want %d %%", got, percentOf(650))
				}
			})
		})
	}
}

// A freeze that begins while the write of a target waits for the rate limit of the client is no failure of the write.
func TestUpdater_freezeStopsTheWriteOfATarget_writeIsTriedAfterTheFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newHPACluster(t, 460)
		var text bytes.Buffer
		y.log = slog.New(slog.NewTextHandler(&text, nil))
		y.fail = func(int) (bool, error) {
			if y.frozen {
				return true, nil
			}
			y.frozen = true
			return false, fmt.Errorf("patch: %w", &freeze.Error{})
		}
		u := y.start()
		y.passes(u, 1, nil)
		if y.writes != 1 || len(y.done) > 0 {
			t.Fatalf("%d writes, done %q; want one write that is stopped", y.writes, y.done)
		}
		y.frozen, y.fail = false, nil
		y.passes(u, 20, nil)
		if got := y.hpa.Utilization[0].Percent; y.average() != 460 || got != percentOf(460) {
			t.Errorf("request %d, target %d %%; want 460 and %d %%", y.average(), got, percentOf(460))
		}
		if strings.Contains(text.String(), "Cannot change a HorizontalPodAutoscaler") {
			t.Errorf("a freeze is logged as a failure: %s", text.String())
		}
	})
}

// Only the request by which the HPA scales waits for it. The memory request is changed.
func TestUpdater_targetCannotBeWritten_memoryIsSized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newHPACluster(t, 460)
		u := y.start()
		y.passes(u, 1, nil) // records the scale point
		y.fail = func(int) (bool, error) { return false, kube.ErrForbidden }
		y.passes(u, 3, nil)
		needs := *y.autoscalers[0]
		r := cluster.Amounts(460, 500<<20)
		needs.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: r, Target: r, Upper: r}}}
		y.autoscalers[0] = &needs
		y.passes(u, 5, nil)
		for _, p := range y.pods {
			if got := p.Containers[0].Requests; got != cluster.Amounts(500, 500<<20) {
				t.Errorf("pod %s requests %v, want the memory of the recommendation and the CPU as before", p.Name, got)
			}
		}
		u.update(t.Context(), time.Now())
		decisions := u.update(t.Context(), time.Now().Add(time.Second)) // after a write that failed just now, or before the next attempt
		for _, d := range decisions {
			if d.Reason.Code != decision.HPANotWritten || d.Do != decision.Leave {
				t.Errorf("pod %s: %s, reason %s", d.Pod.Name, d.Do, d.Reason.Code)
			}
		}
		if got := summary.Of(decisions)[y.autoscalers[0].Key].Condition(); got.Reason != decision.HPANotWritten.String() || !strings.HasPrefix(got.Message, "0 of ") {
			t.Errorf("the condition Updating is %+v, want the reason HPANotWritten", got)
		}
		y.fail = nil
		y.passes(u, 60, nil)
		if got := y.hpa.Utilization[0].Percent; y.average() != 460 || got != percentOf(460) {
			t.Errorf("request %d, target %d %%; want 460 and %d %% when the HPA can be written again", y.average(), got, percentOf(460))
		}
	})
}

// A GitOps tool or "helm uninstall" deletes the HPA, and creates it again from its manifest, whose target belongs to the request of the
// pod template. Each time, the record is lost.
func TestUpdater_hpaIsRecreated_scalePointIsTheOneBefore(t *testing.T) {
	for name, between := range map[string]time.Duration{"at once": 0, "after a time without HPA": 30 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newHPACluster(t, 100)
				u := y.start()
				passes := func(d time.Duration) {
					for range int(d / time.Minute) {
						u.pass(t.Context(), time.Now())
						time.Sleep(time.Minute)
					}
				}
				passes(20 * time.Minute)
				least := y.average()
				if least != 445 || y.hpa.Utilization[0].Percent != 90 { // 80 % of 500m
					t.Fatalf("request %d at %d %%", least, y.hpa.Utilization[0].Percent)
				}
				for i := range 5 {
					again := *y.hpa
					again.UID, again.Points = fmt.Sprint("h", i), nil
					again.Utilization = []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 80}}
					y.hpa = nil
					passes(between)
					y.hpa = &again
					passes(20 * time.Minute)
				}
				// Without HPA, the request follows its recommendation. It is within its bounds then, so it changes at the minimum age of pods.
				if got := y.average(); between == 0 && got != least || y.hpa.Utilization[0].Percent != 90 {
					t.Errorf("after 5 recreations, request %d at %d %%, want %d at 90 %%", got, y.hpa.Utilization[0].Percent, least)
				}
				if p := y.hpa.Points; len(p) != 1 || p[0].Base != 500 || p[0].Percent != 80 {
					t.Errorf("record %+v, want 80 %% of 500m", p)
				}
			})
		})
	}
}
