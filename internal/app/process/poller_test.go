// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

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

	"podfit.dev/podfit/internal/core/cluster"
)

// An oracle counts questions, each of which is a namespace, and answers them after a time with the number of answers before.
type oracle struct {
	mu        sync.Mutex
	asked     map[string]int // by namespace
	now, most int            // questions in progress
	takes     time.Duration
	err       error
	refuses   string // namespace whose questions fail
	panics    string // namespace whose questions panic
}

func (o *oracle) read(ctx context.Context, namespace string, before int, _ time.Time) (int, error) {
	o.mu.Lock()
	o.asked[namespace]++
	o.now++
	o.most = max(o.most, o.now)
	takes, err := o.takes, o.err
	if o.refuses == namespace {
		err = errors.New("422")
	}
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.now--
		o.mu.Unlock()
	}()
	if o.panics == namespace {
		panic("defect")
	}
	select {
	case <-ctx.Done():
		return before, ctx.Err()
	case <-time.After(takes):
	}
	if err != nil {
		return before, err
	}
	return before + 1, nil
}

func (o *oracle) sum() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, count := range o.asked {
		n += count
	}
	return n
}

func (o *oracle) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

const (
	mostQuestions = 30
	mostFailures  = 3
)

func asked(i int) cluster.Workload {
	return cluster.Workload{Kind: "Deployment", Namespace: fmt.Sprintf("shop-%03d", i), Name: "web"}
}

func questions(n int) map[cluster.Workload]string {
	out := map[cluster.Workload]string{}
	for i := range n {
		out[asked(i)] = asked(i).Namespace
	}
	return out
}

// poll runs a poller in a bubble: a round each minute, and at most one question about a workload in five minutes.
func poll(t *testing.T, o *oracle, do func(p *Poller[string, int], log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.asked = map[string]int{}
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		p := NewPoller(PollerConfig[string, int]{
			Interval: time.Minute, Again: 5 * time.Minute, Timeout: 10 * time.Second, Most: mostQuestions, MaxFailures: mostFailures, Read: o.read,
			Failed: func(err error) { logger.Warn("Failed", slog.Any("error", err)) }, Recovered: func() { logger.Info("Recovered") },
			Health: NewHealth(time.Hour), Log: logger,
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.Run(ctx) })
		synctest.Wait() // the first round has no workloads
		do(p, &log)
		cancel()
		running.Wait()
	})
}

// after waits until all questions of the next d are answered.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestPoller_workloads_areAskedAboutOncePerFiveMinutes(t *testing.T) {
	o := &oracle{takes: time.Second}
	poll(t, o, func(p *Poller[string, int], _ *bytes.Buffer) {
		for range 60 {
			p.Ask(questions(3))
			after(time.Minute)
		}
		if n := o.sum(); n < 33 || n > 36 {
			t.Errorf("%d questions in an hour, want 12 for each workload", n)
		}
		if got := p.Answer(asked(1)); got < 11 || len(p.Answers()) != 3 {
			t.Errorf("answer %d, want one after the other; answers %v", got, p.Answers())
		}
		p.Ask(questions(1))
		if got := p.Answers(); len(got) != 1 || p.Answer(asked(1)) != 0 {
			t.Errorf("answers %v, want only that about the workload that is asked about", got)
		}
		p.Ask(nil)
		before := o.sum()
		after(time.Hour)
		if n := o.sum(); n != before {
			t.Errorf("%d questions without workloads", n-before)
		}
	})
}

func TestPoller_thousandWorkloads_takeTurnsWithinTheBound(t *testing.T) {
	o := &oracle{takes: 100 * time.Millisecond}
	poll(t, o, func(p *Poller[string, int], _ *bytes.Buffer) {
		p.Ask(questions(1000))
		after(34*time.Minute + 30*time.Second)
		if n := o.sum(); n != 34*mostQuestions || len(o.asked) != 1000 || o.most > maxQuestions {
			t.Errorf("%d questions about %d workloads, %d at the same time", n, len(o.asked), o.most)
		}
	})
}

// A round has time for 15 of its 30 questions. The others must be the first ones of a later round.
func TestPoller_serverIsSlow_allWorkloadsAreAskedAbout(t *testing.T) {
	o := &oracle{takes: 8 * time.Second}
	poll(t, o, func(p *Poller[string, int], _ *bytes.Buffer) {
		p.Ask(questions(150))
		after(time.Hour)
		if got := p.Answers(); len(got) != 150 {
			t.Errorf("answers about %d of 150 workloads in an hour", len(got))
		}
	})
}

func TestPoller_serverDoesNotAnswer_questionsAreFew(t *testing.T) {
	o := &oracle{takes: time.Hour}
	poll(t, o, func(p *Poller[string, int], _ *bytes.Buffer) {
		p.Ask(questions(1000))
		after(10*time.Minute + 30*time.Second)
		if n := o.sum(); n == 0 || n > 10*(mostFailures+2) {
			t.Errorf("%d questions in 10 minutes", n)
		}
	})
}

// A namespace with many workloads takes the turns of its own workloads.
func TestPoller_namespaceWithManyWorkloads_doesNotDelayOthers(t *testing.T) {
	o := &oracle{takes: 100 * time.Millisecond}
	poll(t, o, func(p *Poller[string, int], _ *bytes.Buffer) {
		wanted := questions(20)
		for i := range 5000 {
			wanted[cluster.Workload{Kind: "Deployment", Namespace: "batch", Name: fmt.Sprint(i)}] = "batch"
		}
		p.Ask(wanted)
		after(2*time.Hour + 30*time.Second)
		for i := range 20 {
			if n := o.asked[asked(i).Namespace]; n < 12 {
				t.Errorf("%d questions about %v in two hours, want one in ten minutes", n, asked(i))
			}
		}
		if n := o.asked["batch"]; n < 60*mostQuestions {
			t.Errorf("%d questions about the large namespace in two hours, want at least half of all", n)
		}
	})
}

func TestPoller_outages_areReportedOnceEach(t *testing.T) {
	o := new(oracle)
	poll(t, o, func(p *Poller[string, int], log *bytes.Buffer) {
		p.Ask(questions(2))
		after(90 * time.Second)
		o.fail(errors.New("503"))
		after(70 * time.Minute)
		if n := strings.Count(log.String(), "Failed"); n != 1 || strings.Contains(log.String(), "Recovered") {
			t.Errorf("an outage that lasts was reported %d times: %s", n, log)
		}
		o.fail(nil)
		after(20 * time.Minute)
		if n := strings.Count(log.String(), "Recovered"); n != 1 {
			t.Errorf("the end of the outage was reported %d times: %s", n, log)
		}
		o.fail(errors.New("503"))
		after(6 * time.Minute)
		p.Ask(nil) // before a question succeeds
		after(24 * time.Hour)
		p.Ask(questions(1))
		after(2 * time.Minute)
		if n := strings.Count(log.String(), "Failed"); n != 3 {
			t.Errorf("reported %d times, want once for each of three outages: %s", n, log)
		}
	})
}

func TestPoller_questionsAboutOneWorkloadFail_logIsShortAndItsAnswerUnknown(t *testing.T) {
	o := &oracle{refuses: "shop-001"}
	poll(t, o, func(p *Poller[string, int], log *bytes.Buffer) {
		p.Ask(questions(5))
		after(12 * time.Hour)
		if n := strings.Count(log.String(), "\n"); n == 0 || n > 12 {
			t.Errorf("%d log messages in 12 hours, want at most one an hour", n)
		}
	})
}

// A question that panics is not asked again at once, and others are answered.
func TestPoller_questionPanics_othersAreAnswered(t *testing.T) {
	o := &oracle{panics: "shop-000"}
	poll(t, o, func(p *Poller[string, int], log *bytes.Buffer) {
		p.Ask(questions(2))
		after(3*time.Minute + 30*time.Second)
		if n := o.sum(); n != 2 || strings.Count(log.String(), "panic=defect") != 1 {
			t.Errorf("%d questions, want 2; log %s", n, log)
		}
		if got := p.Answers(); len(got) != 1 || p.Answer(asked(1)) != 1 {
			t.Errorf("answers %v, want that about the other workload", got)
		}
	})
}

// The first leader of two runs again: what it knew is old.
func TestPoller_runsAgain_beginsWithoutAnswers(t *testing.T) {
	o := new(oracle)
	poll(t, o, func(p *Poller[string, int], _ *bytes.Buffer) {
		p.Ask(questions(1))
		after(90 * time.Second)
		o.fail(errors.New("503"))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if before := p.Answer(asked(0)); before != 1 {
			t.Fatalf("answer %d", before)
		}
		p.Run(ctx)
		if got := p.Answer(asked(0)); got != 0 {
			t.Errorf("answer %d of the run before", got)
		}
	})
}

func TestPoller_none_doesNothing(t *testing.T) {
	var p *Poller[string, int]
	p.Ask(questions(1))
	p.Run(t.Context())
	if got := p.Answers(); got != nil {
		t.Errorf("answers %v", got)
	}
}
