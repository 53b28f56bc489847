// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import "podfit.dev/podfit/internal/core/overview"

// Loops returns the state of the loops of this process that have a health check.
func (p *Process) Loops() []overview.Loop {
	out := make([]overview.Loop, 0, len(p.checks))
	for _, h := range p.checks {
		l := overview.Loop{Name: h.loop, Window: h.window}
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
