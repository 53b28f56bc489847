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

	containers int              // in an answer, without the first one
	first      judge.Throttling // of an answer
}

func (p *prometheus) ContainerThrottling(ctx context.Context, q judge.ThrottlingQuery, _ time.Time) ([]judge.Throttling, error) {
	p.mu.Lock()
	p.asked[q.Namespace]++
	p.now++
	p.most = max(p.most, p.now)
	takes, err := p.takes, p.err
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.now--
		p.mu.Unlock()
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(takes):
	}
	if err != nil {
		return nil, err
	}
	out := []judge.Throttling{p.first}
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
		o := NewObserver(p.ContainerThrottling, process.NewHealth(time.Hour), slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { o.Run(ctx) })
		synctest.Wait() // the first round has no workloads
		do(o, &log)
		cancel()
		running.Wait()
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
