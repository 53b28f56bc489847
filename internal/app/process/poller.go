// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// A Poller asks a server about workloads, in parallel to the passes of a job. A nil Poller has no server.
type Poller[Question, Answer any] struct {
	config   PollerConfig[Question, Answer]
	failedAt time.Time // of the last failed question; zero: none has failed since Recovered
	inRow    int       // failed questions in a row

	mu      sync.Mutex
	wanted  map[cluster.Workload]Question
	answers map[cluster.Workload]polled[Answer]
}

type polled[Answer any] struct {
	answer Answer
	known  bool      // false before the first answer
	tried  time.Time // when the last question was sent
}

// A PollerConfig is the configuration of a Poller.
type PollerConfig[Question, Answer any] struct {
	Interval    time.Duration // between two rounds of questions
	Again       time.Duration // the least time between two questions about a workload
	Timeout     time.Duration // of one question
	Most        int           // questions in a round; if more workloads are due, they take turns
	MaxFailures int           // failed questions in a row after which a round ends; 0: it does not

	// Read returns the answer to a question after the one before, also with an error.
	Read func(ctx context.Context, q Question, before Answer, now time.Time) (Answer, error)
	// Failed reports the first of several failed questions, and Recovered the first success when none has failed for some time.
	Failed    func(err error)
	Recovered func()

	Health *Health
	Log    *slog.Logger
}

// maxQuestions is the number of questions of a Poller at the same time.
const maxQuestions = 2

// NewPoller returns a poller that has no answers.
func NewPoller[Question, Answer any](c PollerConfig[Question, Answer]) *Poller[Question, Answer] {
	return &Poller[Question, Answer]{config: c, answers: map[cluster.Workload]polled[Answer]{}}
}

// Ask replaces the questions. Answers about other workloads are forgotten. The map must not be changed afterwards.
func (p *Poller[Question, Answer]) Ask(questions map[cluster.Workload]Question) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = questions
	maps.DeleteFunc(p.answers, func(w cluster.Workload, _ polled[Answer]) bool {
		_, asked := questions[w]
		return !asked
	})
}

// Answer returns what is known about a workload.
func (p *Poller[Question, Answer]) Answer(w cluster.Workload) Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers[w].answer
}

// Answers returns the last answer about each workload, if there is one. It returns nil if there is no server.
func (p *Poller[Question, Answer]) Answers() map[cluster.Workload]Answer {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[cluster.Workload]Answer, len(p.answers))
	for w, a := range p.answers {
		if a.known {
			out[w] = a.answer
		}
	}
	return out
}

// Run sends the questions until ctx ends. It begins without answers.
func (p *Poller[Question, Answer]) Run(ctx context.Context) {
	if p == nil {
		return
	}
	p.mu.Lock()
	clear(p.answers)
	p.mu.Unlock()
	Every(ctx, p.config.Interval, p.round)
}

// round sends the questions of an interval. Those that do not begin within it are among those of a later round.
func (p *Poller[Question, Answer]) round(ctx context.Context, began time.Time) {
	p.inRow = 0
	Each(maxQuestions, p.next(began), func(w cluster.Workload) {
		if ctx.Err() == nil && time.Since(began) < p.config.Interval {
			Attempt(p.config.Log, p.config.Health, w.String(), func() { p.read(ctx, w) })
		}
	})
}

// next returns the workloads whose question is due. If they are too many, half of them are those with the oldest question. They take turns by
// namespace, so that a namespace with many workloads, or with slow ones, does not delay those of others.
func (p *Poller[Question, Answer]) next(now time.Time) []cluster.Workload {
	p.mu.Lock()
	defer p.mu.Unlock()
	var due []cluster.Workload
	for w := range p.wanted {
		if a, asked := p.answers[w]; !asked || now.Sub(a.tried) >= p.config.Again || now.Before(a.tried) {
			due = append(due, w)
		}
	}
	slices.SortFunc(due, func(a, b cluster.Workload) int {
		return cmp.Or(p.answers[a].tried.Compare(p.answers[b].tried), a.Compare(b))
	})
	if most := p.config.Most; len(due) > most {
		turns := turnsOf(due)
		slices.SortStableFunc(due[most/2:], func(a, b cluster.Workload) int { return turns[a] - turns[b] })
		due = due[:most]
	}
	turns := turnsOf(due)
	slices.SortStableFunc(due, func(a, b cluster.Workload) int { return turns[a] - turns[b] })
	return due
}

// turnsOf returns how many workloads of the same namespace are before each.
func turnsOf(list []cluster.Workload) map[cluster.Workload]int {
	turns := make(map[cluster.Workload]int, len(list))
	before := map[string]int{}
	for _, w := range list {
		turns[w] = before[w.Namespace]
		before[w.Namespace]++
	}
	return turns
}

// read sends the question about a workload and keeps the answer, if the workload is still asked about.
func (p *Poller[Question, Answer]) read(ctx context.Context, w cluster.Workload) {
	now := time.Now()
	q, before, ok := p.begin(w, now)
	if !ok {
		return
	}
	limited, cancel := context.WithTimeout(ctx, p.config.Timeout)
	defer cancel()
	answer, err := p.config.Read(limited, q, before, now)
	if ctx.Err() != nil { // the process ends
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report(now, err)
	if _, asked := p.wanted[w]; asked {
		p.answers[w] = polled[Answer]{answer, true, now}
	}
}

// begin returns the question about a workload and the answer before, unless it is no longer asked about or too many questions have failed. A
// question that panics counts as tried, too.
func (p *Poller[Question, Answer]) begin(w cluster.Workload, now time.Time) (q Question, before Answer, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, asked := p.wanted[w]
	if !asked || p.config.MaxFailures > 0 && p.inRow >= p.config.MaxFailures {
		return q, before, false
	}
	a := p.answers[w]
	a.tried = now
	p.answers[w] = a
	return q, a.answer, true
}

// report reports failures. Questions between them may succeed: only those about some workloads may fail. The mutex is held.
func (p *Poller[Question, Answer]) report(now time.Time, err error) {
	longAgo := now.Sub(p.failedAt).Abs() >= 2*max(p.config.Again, p.config.Interval) // each workload is asked about in this time if they are few
	if err == nil {
		p.inRow = 0
		if longAgo && !p.failedAt.IsZero() {
			p.config.Recovered()
			p.failedAt = time.Time{}
		}
		return
	}
	p.inRow++
	if longAgo {
		p.config.Failed(err)
	}
	p.failedAt = now
}
