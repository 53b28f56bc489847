// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

func TestSummarize_decisions_giveStatusReasonAndExample(t *testing.T) {
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}}
	decide := func(name string, do decision.Act, wanted decision.ReasonCode, r decision.Reason) decision.Decision {
		return decision.Decision{Pod: &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: name}}, Autoscaler: a, Do: do, Wanted: decision.Reason{Code: wanted}, Reason: r}
	}
	fits := func(name string) decision.Decision {
		return decide(name, decision.Leave, decision.Fits, decision.Reason{Code: decision.Fits})
	}
	for name, c := range map[string]struct {
		decisions []decision.Decision
		want      watcher.Condition
	}{
		"no pods":      {want: watcher.Condition{Status: watcher.Removed}},
		"mode Off":     {[]decision.Decision{decide("w-1", decision.Leave, decision.Fits, decision.Reason{Code: decision.ModeOff})}, watcher.Condition{Status: watcher.Removed}},
		"no advice":    {[]decision.Decision{decide("w-1", decision.Leave, decision.Fits, decision.Reason{Code: decision.NoAdvice})}, watcher.Condition{Status: watcher.Removed}},
		"all pods fit": {[]decision.Decision{fits("w-1"), decide("w-2", decision.Leave, decision.Fits, decision.Reason{Code: decision.SmallChange})}, watcher.Condition{Status: watcher.False, Reason: "UpToDate", Message: "2 of 2 pods need no change."}},
		"a pod is resized": {
			[]decision.Decision{fits("w-1"), decide("w-2", decision.Resize, decision.BelowRange, decision.Reason{Code: decision.BelowRange})},
			watcher.Condition{Status: watcher.True, Reason: "InProgress", Message: "1 of 2 pods need no change. The last pass changed 1."},
		},
		"an evicted pod is still shown": {
			[]decision.Decision{decide("w-1", decision.Leave, decision.Fits, decision.Reason{Code: decision.AlreadyEvicted})},
			watcher.Condition{Status: watcher.True, Reason: "AlreadyEvicted", Message: "0 of 1 pods need no change. 1 waits; pod w-1: " + decision.Reason{Code: decision.AlreadyEvicted}.String()},
		},
		"the size of the node is not known": {
			[]decision.Decision{decide("w-1", decision.Leave, decision.Fits, decision.Reason{Code: decision.NodeSizeUnknown, Text: "n7"})},
			watcher.Condition{Status: watcher.True, Reason: "NodeSizeUnknown", Message: "0 of 1 pods need no change. 1 waits; pod w-1: " + decision.Reason{Code: decision.NodeSizeUnknown, Text: "n7"}.String()},
		},
		"the most frequent reason": {
			[]decision.Decision{
				fits("w-1"), decide("w-5", decision.Leave, decision.BelowRange, decision.Reason{Code: decision.BackingOff}),
				decide("w-4", decision.Leave, decision.BelowRange, decision.Reason{Code: decision.RateLimited, Until: time.Now()}), decide("w-3", decision.Leave, decision.BelowRange, decision.Reason{Code: decision.RateLimited}),
			},
			watcher.Condition{Status: watcher.True, Reason: "RateLimited", Message: "1 of 4 pods need no change. 3 wait; pod w-3: " + decision.Reason{Code: decision.RateLimited}.String()},
		},
		"equally frequent reasons": {
			[]decision.Decision{decide("w-1", decision.Leave, decision.BelowRange, decision.Reason{Code: decision.RateLimited}), decide("w-2", decision.Leave, decision.BelowRange, decision.Reason{Code: decision.OverQuota, Text: "q"})},
			watcher.Condition{Status: watcher.True, Reason: "OverQuota"},
		},
	} {
		got := Of(c.decisions)[a.Key].Condition()
		if got.Status != c.want.Status || got.Reason != c.want.Reason || c.want.Message != "" && got.Message != c.want.Message {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	long := Of([]decision.Decision{decide("w-1", decision.Leave, decision.BelowRange, decision.Reason{Code: decision.EvictionRefused, Text: strings.Repeat("ä", 5000)})})[a.Key].Condition()
	if len(long.Message) > maxSummary+len("…") {
		t.Errorf("the message has %d bytes, want at most %d", len(long.Message), maxSummary)
	}
}

// conditionLog records the conditions that are written.
type conditionLog struct {
	mu   sync.Mutex
	err  error
	all  []string
	last map[string]watcher.Condition
}

func (c *conditionLog) WriteConditions(_ context.Context, a *cluster.Autoscaler, _ time.Time, say ...watcher.Condition) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]watcher.Condition{}
	}
	if c.err == nil && c.last[a.UID].Status == watcher.Removed && say[0].Status == watcher.Removed {
		return false, nil // there is none
	}
	c.all = append(c.all, a.Name+" "+say[0].Reason)
	if c.err == nil {
		c.last[a.UID] = say[0]
	}
	return c.err == nil, c.err
}

func (c *conditionLog) get(uid string) watcher.Condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[uid]
}

func (c *conditionLog) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *conditionLog) written() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// startSummaries returns a running writer, and a function that updates the summary of the autoscaler "web".
func startSummaries(t *testing.T, to Sink) (*Writer, func(Summary)) {
	w := NewWriter(to, nil, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, UID: "1"}
	return w, func(s Summary) {
		w.Update(time.Now(), []*cluster.Autoscaler{a}, map[cluster.Key]Summary{a.Key: s})
		synctest.Wait()
	}
}

func TestSummaryWriter_sameSubstance_isNotWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &conditionLog{}
		_, update := startSummaries(t, to)
		for i := range 100 {
			update(Summary{reason: "BackingOff", done: 1, total: 2, pod: "w-1", message: fmt.Sprintf("lacks %d Mi", i)})
			time.Sleep(time.Second)
		}
		if n := to.written(); n != 1 {
			t.Errorf("%d writes, want 1: %v", n, to.all)
		}
		update(Summary{})
		update(Summary{})
		if n := to.written(); n != 2 || to.get("1").Status != watcher.Removed {
			t.Errorf("%d writes, last %+v; want 2, and the condition is removed", n, to.get("1"))
		}
	})
}

// The reason stays the same when the freeze of a namespace ends and that of the VPA lasts. The condition must name the freeze that lasts.
func TestSummaryWriter_anotherSwitchFreezes_conditionNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &conditionLog{}
		w, _ := startSummaries(t, to)
		a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, UID: "1"}
		frozenBy := func(by string) {
			d := decision.Decision{Pod: &cluster.Pod{Key: a.Key}, Autoscaler: a, Wanted: decision.Reason{Code: decision.BelowRange}, Reason: decision.Reason{Code: decision.Frozen, Text: by}}
			w.Update(time.Now(), []*cluster.Autoscaler{a}, Of([]decision.Decision{d}))
			synctest.Wait()
		}
		frozenBy("annotation podfit.dev/freeze of namespace shop")
		time.Sleep(writePause)
		frozenBy("annotation podfit.dev/freeze of VPA shop/web")
		if got := to.get("1").Message; !strings.Contains(got, "VPA shop/web") {
			t.Errorf("the message is %q", got)
		}
	})
}

func TestSummaryWriter_noConditionAndNoSummary_nothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &conditionLog{}
		_, update := startSummaries(t, to)
		update(Summary{})
		if n := to.written(); n != 0 {
			t.Errorf("%d writes, want none", n)
		}
	})
}

// A tenant whose pods change all the time causes at most one write in ten seconds.
func TestSummaryWriter_changesAllTheTime_areWrittenEveryTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &conditionLog{}
		_, update := startSummaries(t, to)
		for i := range 100 {
			update(Summary{reason: "BackingOff", done: i, total: 200})
			time.Sleep(time.Second)
		}
		if n := to.written(); n != 10 {
			t.Errorf("%d writes in 100s, want 10", n)
		}
	})
}

func TestSummaryWriter_conflict_isWrittenByALaterPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &conditionLog{err: kube.ErrConflict}
		_, update := startSummaries(t, to)
		s := Summary{reason: "BackingOff", done: 1, total: 2}
		update(s)
		to.fail(nil)
		update(s)
		if n := to.written(); n != 1 {
			t.Errorf("%d attempts at once, want 1", n)
		}
		time.Sleep(writePause)
		update(s)
		if to.get("1").Reason != "BackingOff" {
			t.Errorf("the condition is %+v", to.get("1"))
		}
	})
}

func TestSummaryWriter_rightIsMissing_isNotTriedForMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &conditionLog{err: fmt.Errorf("write: %w", kube.ErrForbidden)}
		_, update := startSummaries(t, to)
		for i := range 60 {
			update(Summary{reason: "BackingOff", done: i, total: 200})
			time.Sleep(10 * time.Second)
		}
		if n := to.written(); n != 1 {
			t.Errorf("%d attempts in 10m, want 1", n)
		}
		to.fail(nil)
		update(Summary{reason: "BackingOff", done: 60, total: 200})
		if n := to.written(); n != 2 {
			t.Errorf("%d attempts after 10m, want 2", n)
		}
	})
}

func TestSummaryWriter_autoscalerIsRecreated_conditionIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &conditionLog{}
		w, update := startSummaries(t, to)
		s := Summary{reason: "UpToDate", done: 1, total: 1}
		update(s)
		again := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, UID: "2"}
		w.Update(time.Now(), []*cluster.Autoscaler{again}, map[cluster.Key]Summary{again.Key: s})
		synctest.Wait()
		if to.get("2").Reason != "UpToDate" {
			t.Errorf("the condition is %+v", to.get("2"))
		}
		w.Update(time.Now(), nil, nil)
		if len(w.shown) != 0 {
			t.Errorf("%d deleted autoscalers are kept", len(w.shown))
		}
	})
}

// A partlyHanging writer does not answer writes to VPAs of namespace "bad".
type partlyHanging struct {
	conditionLog
	tried int
}

func (p *partlyHanging) WriteConditions(ctx context.Context, a *cluster.Autoscaler, now time.Time, say ...watcher.Condition) (bool, error) {
	if a.Namespace != "bad" {
		return p.conditionLog.WriteConditions(ctx, a, now, say...)
	}
	p.mu.Lock()
	p.tried++
	p.mu.Unlock()
	if a.Name == "panic" {
		panic("bad object")
	}
	<-ctx.Done()
	return false, errors.New("no answer")
}

// VPAs whose conditions cannot be written must not keep the conditions of others from being written.
func TestSummaryWriter_writesOfOneTenantFail_othersAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &partlyHanging{}
		w := NewWriter(to, nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.Run(ctx) })
		defer running.Wait()
		defer cancel()
		good := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, UID: "1"}
		all := []*cluster.Autoscaler{{Key: cluster.Key{Namespace: "bad", Name: "panic"}, UID: "p"}}
		for i := range 20 {
			all = append(all, &cluster.Autoscaler{Key: cluster.Key{Namespace: "bad", Name: fmt.Sprint(i)}, UID: fmt.Sprint("bad-", i)})
		}
		all = append(all, good)
		for i := range 3600 {
			next := map[cluster.Key]Summary{}
			for _, a := range all {
				next[a.Key] = Summary{reason: "BackingOff", done: i / 60, total: 200}
			}
			w.Update(time.Now(), all, next)
			time.Sleep(time.Second)
		}
		if n := to.written(); n < 50 {
			t.Errorf("%d writes of the summary that changes each minute in an hour, want about 60", n)
		}
		if to.tried > 21*12 {
			t.Errorf("%d attempts on 21 VPAs in an hour, want a back-off", to.tried)
		}
	})
}

// In a burst of evictions, each condition changes several times. Most of these states are not written.
func TestSummaryWriter_burstOfChanges_isWrittenSlowlyAndCompletedAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &conditionLog{}
		w, _ := startSummaries(t, to)
		var all []*cluster.Autoscaler
		for i := range 300 {
			all = append(all, &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprint("web-", i)}, UID: fmt.Sprint(i)})
		}
		pass := func(done, changed int) {
			next := map[cluster.Key]Summary{}
			for _, a := range all {
				next[a.Key] = Summary{reason: "InProgress", done: done, total: 30}
			}
			w.Pace(changed)
			w.Update(time.Now(), all, next)
			time.Sleep(time.Second)
		}
		for i := range 30 {
			pass(i, len(all))
		}
		if n := to.written(); n > writeBurst+30*busyRate+maxWrites {
			t.Errorf("%d writes in a burst of 30s, want at most %d", n, writeBurst+30*busyRate+maxWrites)
		}
		before := to.written()
		pass(30, 0)
		time.Sleep(20 * time.Second)
		pass(30, 0)
		time.Sleep(5 * time.Second)
		if n := to.written() - before; n < len(all) || n > len(all)+writeBurst {
			t.Errorf("%d writes after the burst, want one for each of %d autoscalers", n, len(all))
		}
	})
}
