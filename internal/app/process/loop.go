// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import "time"

// A Loop is the state of a loop with a health check.
type Loop struct {
	Name           string
	Active, Passed time.Time     // last activity, and last complete pass; zero if there was none
	Window         time.Duration // without activity for longer, the check fails
}

// Loops returns the state of the loops of this process.
func (p *Process) Loops() []Loop {
	out := make([]Loop, 0, len(p.checks))
	for _, h := range p.checks {
		l := Loop{Name: h.loop, Window: h.window}
		if at := h.last.Load(); at != nil {
			l.Active = *at
		}
		if at := h.passed.Load(); at != nil {
			l.Passed = *at
		}
		out = append(out, l)
	}
	return out
}

// IsLeading reports whether this process is the leader, or runs without leader election.
func (p *Process) IsLeading() bool { return p.leading.Load() }
