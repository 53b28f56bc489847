// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// gateReader answers whether the scheduler preempts pods for deferred resizes.
type gateReader struct {
	on    bool
	err   error
	reads int
}

func (g *gateReader) ResizePreemption(context.Context) (bool, error) {
	g.reads++
	return g.on, g.err
}

// nodeWithMovablePod is a full node whose other pod has its target, so that only a move makes room for all of the increase.
func nodeWithMovablePod(makeRoom string) *roomCluster {
	y := &roomCluster{fakeCluster: fullNode(), capacity: 1000, resizes: map[string]int{}, evicts: map[string]int{}}
	y.config.MakeRoom = makeRoom
	y.autoscalers[1].Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{
		Lower: cluster.Amounts(700, 1<<20), Target: cluster.Amounts(800, 100<<20), Upper: cluster.Amounts(900, 1<<30),
	}}}
	return y
}

func TestUpdater_schedulerPreempts_movesNoPod(t *testing.T) {
	for name, c := range map[string]struct {
		flag       string
		makeRoom   string
		annotation string
		reader     *gateReader
		moves      bool
		reads      int // in two hours
		log        string
	}{
		"gate is off":                 {flag: "auto", makeRoom: "move", reader: &gateReader{}, moves: true, reads: 3},
		"gate is on":                  {flag: "auto", makeRoom: "move", reader: &gateReader{on: true}, reads: 3, log: "the scheduler preempts pods for deferred resizes"},
		"gate is on, annotation":      {flag: "auto", makeRoom: "split", annotation: "move", reader: &gateReader{on: true}, reads: 3, log: "the scheduler preempts pods for deferred resizes"},
		"gate cannot be read":         {flag: "auto", makeRoom: "move", reader: &gateReader{err: errors.New("no")}, reads: 25, log: "it is not known whether"},
		"flag is on":                  {flag: "on", makeRoom: "move", reader: &gateReader{}, log: "the scheduler preempts pods for deferred resizes"},
		"flag is off":                 {flag: "off", makeRoom: "move", reader: &gateReader{on: true}, moves: true},
		"nothing may be moved anyway": {flag: "auto", makeRoom: "split", reader: &gateReader{on: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := nodeWithMovablePod(c.makeRoom)
				fake.config.ResizePreemption = c.flag
				for i, a := range fake.autoscalers {
					own := *a
					own.MakeRoom = c.annotation
					fake.autoscalers[i] = &own
				}
				var logged bytes.Buffer
				fake.log = slog.New(slog.NewTextHandler(&logged, nil))
				u := updaterOf(fake.fakeCluster, fake)
				u.preemption.reader = c.reader
				moved := false
				for range 121 {
					for _, d := range u.update(t.Context(), time.Now()) {
						moved = moved || d.Reason.Code == decision.MovesForRoom
					}
					fake.step(time.Now())
					time.Sleep(time.Minute)
				}
				if moved != c.moves {
					t.Errorf("moved: %v, want %v: evictions %v", moved, c.moves, fake.evicts)
				}
				if c.reader.reads != c.reads {
					t.Errorf("the gate was read %d times, want %d", c.reader.reads, c.reads)
				}
				if n := strings.Count(logged.String(), "Not moving pods"); n != min(len(c.log), 1) || !strings.Contains(logged.String(), c.log) {
					t.Errorf("%d records, want %q:\n%s", n, c.log, logged.String())
				}
			})
		})
	}
}
