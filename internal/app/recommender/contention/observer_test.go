// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contention

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	judge "podfit.dev/podfit/internal/core/contention"
)

// prometheus counts queries and answers them after a time.
type prometheus struct {
	mu        sync.Mutex
	asked     map[string]int // by namespace
	now, most int            // queries in progress
	takes     time.Duration
	err       error
	refuses   string // namespace whose queries fail
	panics    bool

	containers int // in an answer; 0: one
}

func (p *prometheus) ContainerThrottling(ctx context.Context, q judge.ThrottlingQuery, _ time.Time) ([]judge.Throttling, error) {
	p.mu.Lock()
	p.asked[q.Namespace]++
	p.now++
	p.most = max(p.most, p.now)
	takes, err := p.takes, p.err
	if p.refuses == q.Namespace {
		err = errors.New("422")
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.now--
		p.mu.Unlock()
	}()
	if p.panics {
		panic("defect")
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(takes):
	}
	if err != nil {
		return nil, err
	}
	out := []judge.Throttling{{Pod: "web-0", Container: "app"}}
	for i := range p.containers {
		out = append(out, judge.Throttling{Pod: "web-0", Container: fmt.Sprint(i)})
	}
	return out, nil
}

func (p *prometheus) sum() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, count := range p.asked {
		n += count
	}
	return n
}

func (p *prometheus) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func workload(i int) cluster.Workload {
	return cluster.Workload{Kind: "Deployment", Namespace: fmt.Sprintf("shop-%03d", i), Name: "web"}
}

func queries(n int) map[cluster.Workload]judge.ThrottlingQuery {
	out := map[cluster.Workload]judge.ThrottlingQuery{}
	for i := range n {
		out[workload(i)] = judge.ThrottlingQuery{Namespace: workload(i).Namespace}
	}
	return out
}

// observe runs an observer in a bubble.
func observe(t *testing.T, p *prometheus, do func(o *Observer, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p.asked = map[string]int{}
		var log bytes.Buffer
		o := NewObserver(p, process.NewHealth(time.Hour), slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { o.Run(ctx) })
		synctest.Wait() // the first round has no workloads
		do(o, &log)
		cancel()
		running.Wait()
	})
}

func TestObserver_workloads_areAskedOncePerFiveMinutes(t *testing.T) {
	p := &prometheus{takes: time.Second}
	observe(t, p, func(o *Observer, _ *bytes.Buffer) {
		for range 60 {
			o.Ask(queries(3))
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		if n := p.sum(); n < 33 || n > 36 {
			t.Errorf("%d queries in an hour, want 12 for each workload", n)
		}
		if a := o.Answer(workload(1)); !a.Known || len(a.Containers) != 1 {
			t.Errorf("answer %+v", a)
		}
		o.Ask(queries(1))
		if a := o.Answer(workload(1)); a.Known {
			t.Errorf("answer %+v about a workload that is not asked for", a)
		}
		o.Ask(nil)
		before := p.sum()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := p.sum(); n != before {
			t.Errorf("%d queries without workloads", n-before)
		}
	})
}

func TestObserver_thousandWorkloads_takeTurnsWithinTheBound(t *testing.T) {
	p := &prometheus{takes: 100 * time.Millisecond}
	observe(t, p, func(o *Observer, _ *bytes.Buffer) {
		o.Ask(queries(1000))
		time.Sleep(34*time.Minute + 30*time.Second)
		synctest.Wait()
		if n := p.sum(); n != 34*maxQueries || len(p.asked) != 1000 || p.most > 2 {
			t.Errorf("%d queries of %d workloads, %d at the same time", n, len(p.asked), p.most)
		}
	})
}

func TestObserver_prometheusFails_lastAnswerIsKeptForAnHour(t *testing.T) {
	p := &prometheus{}
	observe(t, p, func(o *Observer, log *bytes.Buffer) {
		o.Ask(queries(2))
		time.Sleep(90 * time.Second)
		synctest.Wait()
		p.fail(errors.New("503"))
		time.Sleep(50 * time.Minute)
		synctest.Wait()
		if a := o.Answer(workload(0)); !a.Known || len(a.Containers) != 1 {
			t.Errorf("answer %+v after 50 minutes of failures, want the last one", a)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if a := o.Answer(workload(0)); !a.Known || len(a.Containers) != 0 {
			t.Errorf("answer %+v after 70 minutes of failures, want none", a)
		}
		p.fail(nil)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if a := o.Answer(workload(0)); len(a.Containers) != 1 {
			t.Errorf("answer %+v after the failures", a)
		}
		if n := strings.Count(log.String(), "Cannot read the CPU throttling"); n != 1 || !strings.Contains(log.String(), "after earlier failures") {
			t.Errorf("log %s", log)
		}
		p.fail(errors.New("503"))
		time.Sleep(6 * time.Minute)
		o.Ask(nil) // before a query succeeds
		time.Sleep(24 * time.Hour)
		o.Ask(queries(1))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := strings.Count(log.String(), "Cannot read the CPU throttling"); n != 3 {
			t.Errorf("logged %d times, want once for each of three outages: %s", n, log)
		}
	})
}

func TestObserver_prometheusDoesNotAnswer_queriesAreFew(t *testing.T) {
	p := &prometheus{takes: time.Hour}
	observe(t, p, func(o *Observer, _ *bytes.Buffer) {
		o.Ask(queries(1000))
		time.Sleep(10*time.Minute + 30*time.Second)
		synctest.Wait()
		if n := p.sum(); n == 0 || n > 10*(maxFailures+2) {
			t.Errorf("%d queries in 10 minutes", n)
		}
		if a := o.Answer(workload(0)); a.Known {
			t.Errorf("answer %+v without one", a)
		}
	})
}

// A round has time for 15 of its 30 queries. The others must be the first ones of a later round.
func TestObserver_prometheusIsSlow_allWorkloadsAreAsked(t *testing.T) {
	p := &prometheus{takes: 8 * time.Second}
	observe(t, p, func(o *Observer, _ *bytes.Buffer) {
		o.Ask(queries(150))
		time.Sleep(time.Hour)
		synctest.Wait()
		for i := range 150 {
			if a := o.Answer(workload(i)); !a.Known {
				t.Errorf("no answer about %v in an hour", workload(i))
			}
		}
	})
}

// A namespace with many workloads takes the turns of its own workloads.
func TestObserver_namespaceWithManyWorkloads_doesNotDelayOthers(t *testing.T) {
	p := &prometheus{takes: 100 * time.Millisecond}
	observe(t, p, func(o *Observer, _ *bytes.Buffer) {
		wanted := queries(20)
		for i := range 5000 {
			wanted[cluster.Workload{Kind: "Deployment", Namespace: "batch", Name: fmt.Sprint(i)}] = judge.ThrottlingQuery{Namespace: "batch"}
		}
		o.Ask(wanted)
		time.Sleep(2*time.Hour + 30*time.Second)
		synctest.Wait()
		for i := range 20 {
			if n := p.asked[workload(i).Namespace]; n < 12 {
				t.Errorf("%d queries about %v in two hours, want one in ten minutes", n, workload(i))
			}
		}
		if n := p.asked["batch"]; n < 60*maxQueries {
			t.Errorf("%d queries about the large namespace in two hours, want at least half of all", n)
		}
	})
}

func TestObserver_answerHasManyContainers_keepsABoundedNumber(t *testing.T) {
	p := &prometheus{containers: 100_000}
	observe(t, p, func(o *Observer, _ *bytes.Buffer) {
		o.Ask(queries(1))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := o.Answer(workload(0)).Containers; len(got) != maxContainers || cap(got) > 2*maxContainers {
			t.Errorf("keeps %d containers, with room for %d", len(got), cap(got))
		}
	})
}

func TestObserver_queriesOfOneWorkloadFail_logIsShort(t *testing.T) {
	p := &prometheus{refuses: "shop-001"}
	observe(t, p, func(o *Observer, log *bytes.Buffer) {
		o.Ask(queries(5))
		time.Sleep(12 * time.Hour)
		synctest.Wait()
		if n := strings.Count(log.String(), "\n"); n == 0 || n > 12 {
			t.Errorf("%d log messages in 12 hours, want at most one an hour", n)
		}
	})
}

func TestObserver_readerPanics_othersAreRead(t *testing.T) {
	p := &prometheus{panics: true}
	observe(t, p, func(o *Observer, _ *bytes.Buffer) {
		o.Ask(queries(2))
		time.Sleep(3*time.Minute + 30*time.Second)
		synctest.Wait()
		if n := p.sum(); n != 2 {
			t.Errorf("%d queries, want 2", n)
		}
	})
}

func TestObserver_noPrometheus_doesNothing(t *testing.T) {
	var o *Observer
	o.Ask(queries(1))
	o.Run(t.Context())
}
