// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"time"

	"podfit.dev/podfit/internal/core/overview"
)

// Loops returns the state of the loops of this process that have a health check.
func (p *Process) Loops() []overview.Loop {
	var never time.Time
	var out []overview.Loop
	for _, h := range p.checks {
		active := *cmp.Or(h.last.Load(), &never)
		passed := *cmp.Or(h.passed.Load(), &never)
		out = append(out, overview.Loop{Name: h.loop, Active: active, Passed: passed, Window: h.window})
	}
	return out
}

// IsLeading reports whether this process is the leader, or runs without leader election.
func (p *Process) IsLeading() bool { return p.leading.Load() }
