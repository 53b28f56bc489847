// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package throttling

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
	"podfit.dev/podfit/internal/core/rollout"
)

// prometheus counts queries and answers them after a time.
type prometheus struct {
	mu     sync.Mutex
	asked  map[string]int // by namespace
	now    int            // queries in progress
	most   int
	takes  time.Duration
	err    error
	panics bool
	empty  bool
}

func (p *prometheus) Throttling(ctx context.Context, q rollout.ThrottlingQuery, _ time.Time) ([]rollout.ContainerThrottling, error) {
	p.mu.Lock()
	p.asked[q.Namespace]++
	p.now++
	p.most = max(p.most, p.now)
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
	case <-time.After(p.takes):
	}
	if p.empty {
		return nil, p.err
	}
	return []rollout.ContainerThrottling{{Container: "app"}}, p.err
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

func queries(n int) map[cluster.Workload]rollout.ThrottlingQuery {
	out := map[cluster.Workload]rollout.ThrottlingQuery{}
	for i := range n {
		ns := fmt.Sprintf("shop-%03d", i)
		out[cluster.Workload{Kind: "Deployment", Namespace: ns, Name: "web"}] = rollout.ThrottlingQuery{Namespace: ns}
	}
	return out
}

// observe runs an observer in a bubble.
func observe(t *testing.T, p *prometheus, do func(o *Observer, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p.asked = map[string]int{}
		var log bytes.Buffer
		o := New(p, time.Minute, process.NewHealth(time.Hour), slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { o.Run(ctx) })
		synctest.Wait() // the first round has no workloads
		do(o, &log)
		cancel()
		running.Wait()
	})
}

func TestObserver_canaries_oneQueryPerWorkloadAndInterval(t *testing.T) {
	p := &prometheus{takes: time.Second}
	observe(t, p, func(o *Observer, _ *bytes.Buffer) {
		for range 60 * 10 { // early passes
			o.Ask(queries(3))
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		if n := p.sum(); n != 30 {
			t.Errorf("%d queries in 10 minutes, want 30", n)
		}
		if got := o.Answers(); len(got) != 3 {
			t.Errorf("answers %v", got)
		}
		o.Ask(queries(1))
		if got := o.Answers(); len(got) != 1 {
			t.Errorf("%d answers after the other canaries ended", len(got))
		}
		o.Ask(nil)
		before := p.sum()
		time.Sleep(time.Hour)
		if n := p.sum(); n != before {
			t.Errorf("%d queries without canaries", n-before)
		}
	})
}

func TestObserver_thousandCanaries_numberOfQueriesIsBoundedAndFair(t *testing.T) {
	p := &prometheus{takes: 100 * time.Millisecond}
	observe(t, p, func(o *Observer, _ *bytes.Buffer) {
		o.Ask(queries(1000))
		time.Sleep(10*time.Minute + 30*time.Second)
		if n := p.sum(); n != 1000 || len(p.asked) != 1000 || p.most > 2 {
			t.Errorf("%d queries of %d workloads, %d at the same time", n, len(p.asked), p.most)
		}
	})
}

func TestObserver_prometheusFails_answerSaysSoAndIsLoggedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		p    *prometheus
		want rollout.Comparison
		logs int
	}{
		"an error":       {&prometheus{err: errors.New("503")}, rollout.NoAnswer, 1},
		"does not reply": {&prometheus{takes: time.Hour}, rollout.NoAnswer, 1},
		"has no data":    {&prometheus{empty: true}, rollout.NoData, 0},
	} {
		t.Run(name, func(t *testing.T) {
			observe(t, c.p, func(o *Observer, log *bytes.Buffer) {
				o.Ask(queries(2))
				time.Sleep(5*time.Minute + 30*time.Second)
				for w, a := range o.Answers() {
					if a.Result != c.want || len(a.Containers) > 0 || time.Since(a.At) > 2*time.Minute {
						t.Errorf("%v: answer %+v", w, a)
					}
				}
				if n := strings.Count(log.String(), "Cannot read the CPU throttling"); len(o.Answers()) != 2 || n != c.logs {
					t.Errorf("%d answers, logged %d times", len(o.Answers()), n)
				}
			})
		})
	}
}

func TestObserver_readerPanics_othersAreRead(t *testing.T) {
	p := &prometheus{panics: true}
	observe(t, p, func(o *Observer, _ *bytes.Buffer) {
		o.Ask(queries(2))
		time.Sleep(3*time.Minute + 30*time.Second)
		if n := p.sum(); n != 6 {
			t.Errorf("%d queries, want 6", n)
		}
	})
}

func TestObserver_noPrometheus_hasNoAnswers(t *testing.T) {
	var o *Observer
	o.Ask(queries(1))
	o.Run(t.Context())
	if o.Answers() != nil {
		t.Error("answers without Prometheus")
	}
}
