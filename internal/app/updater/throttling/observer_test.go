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

	values     []float64 // of objectives
	refused    string
	objectives []string
}

func (p *prometheus) Objective(_ context.Context, namespace, query string, _ time.Time) (values []float64, refused string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.objectives = append(p.objectives, namespace+" "+query)
	return p.values, p.refused, p.err
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
		out[cluster.Workload{Kind: "Deployment", Namespace: ns, Name: "web"}] = rollout.ThrottlingQuery{Namespace: ns, Canaries: []string{"web-1"}}
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

func TestObserver_objective_isReadBesideOrWithoutThrottling(t *testing.T) {
	for name, c := range map[string]struct {
		p        *prometheus
		canaries []string
		want     rollout.Throttling
	}{
		"both":                     {&prometheus{values: []float64{0.5}}, []string{"web-1"}, rollout.Throttling{Result: rollout.Compared, Objective: rollout.Reading{Values: 1, Value: 0.5}}},
		"without throttling":       {&prometheus{values: []float64{0.5, 1}}, nil, rollout.Throttling{Objective: rollout.Reading{Values: 2, Value: 0.5}}},
		"no value":                 {&prometheus{}, nil, rollout.Throttling{}},
		"it cannot be executed":    {&prometheus{refused: "timeout"}, nil, rollout.Throttling{Objective: rollout.Reading{Refused: "timeout"}}},
		"Prometheus does not work": {&prometheus{err: errors.New("503")}, []string{"web-1"}, rollout.Throttling{Result: rollout.NoAnswer, Objective: rollout.Reading{Failed: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			observe(t, c.p, func(o *Observer, _ *bytes.Buffer) {
				w := cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"}
				o.Ask(map[cluster.Workload]rollout.ThrottlingQuery{w: {Namespace: "shop", Canaries: c.canaries, Objective: cluster.Objective{Query: "a < 1"}}})
				time.Sleep(90 * time.Second)
				got := o.Answers()[w]
				if got.Result != c.want.Result || got.Objective != c.want.Objective || len(c.p.objectives) != 1 || c.p.objectives[0] != "shop a < 1" || c.p.sum() != len(c.canaries) {
					t.Errorf("answer %+v, objectives %q, %d other queries", got, c.p.objectives, c.p.sum())
				}
			})
		})
	}
}

// Answers count for five minutes, also if a pass takes place only every hour.
func TestObserver_longInterval_answersAreNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prometheus{asked: map[string]int{}}
		o := New(p, time.Hour, process.NewHealth(time.Hour), slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { o.Run(ctx) })
		o.Ask(queries(1))
		time.Sleep(time.Hour)
		for _, a := range o.Answers() {
			if age := time.Since(a.At); age > 2*time.Minute {
				t.Errorf("an answer is %v old", age)
			}
		}
		if len(o.Answers()) != 1 {
			t.Errorf("answers %v", o.Answers())
		}
		cancel()
		running.Wait()
	})
}
