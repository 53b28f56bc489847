// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/runs"
	"podfit.dev/podfit/internal/core/usage"
)

// runShare is the share of the runs of a Job or CronJob that a target does not exceed: of 30 runs all but one, of up to 19 all.
const runShare = 0.95

// killCounts is how long an OOM kill of a Job counts in full, and not as one run of many.
const killCounts = 24 * time.Hour

// byRuns replaces the target of a container that runs to its end by the highest usage in its last runs, with the margin:
//
//	target = max(floor, P_95 of the maxima of the runs · (1+margin))
//
// For memory, what a recent OOM kill needed is used if it is more than P_95. The bounds of the estimate stay, as far as they include the target. A
// resource that was measured in fewer than runs.Least runs that have ended keeps its estimate. The memory of an init container is raised after the
// first OOM kill.
func (p *Params) byRuns(e cluster.Estimate, s *usage.ContainerHistory, floor cluster.Resources, now time.Time, record *derivation.Record) cluster.Estimate {
	for _, res := range cluster.All {
		used, n := s.Runs().Percentile(res, runShare, now)
		killed, needed, _ := s.LastOOM()
		until := killed.Add(killCounts)
		init := s.Runs().IsInit()
		if init {
			until = killed.Add(s.Length()) // as long as usage is kept: the pod does not start without the memory
		}
		isKilled := res == cluster.Memory && now.Before(until) // also one of a run that goes on
		if n < runs.Least && !(init && isKilled) {
			continue
		}
		steps := record.Of(res).Begin(1)
		base := steps.Whole(derivation.StepRuns, used)
		*steps.Evidence() = derivation.Evidence{Share: runShare, Samples: n}
		if isKilled {
			base = steps.RaiseWhole(derivation.StepRaised, base, needed)
			steps.Evidence().Until = until
		}
		target := steps.AddWhole(derivation.StepSafetyMargin, base, derivation.Whole(float64(base)*p.Margin))
		steps.Evidence().Margin = p.Margin
		target = steps.RaiseWhole(derivation.StepFloor, target, floor.Amount(res))
		e.Target = e.Target.Set(res, target)
		lower, upper := target, target
		if v, ok := e.Lower.Get(res); ok {
			lower = min(v, target)
		}
		if v, ok := e.Upper.Get(res); ok {
			upper = max(v, target)
		}
		if !init || isKilled {
			e.Lower = e.Lower.Set(res, lower)
		}
		e.Upper = e.Upper.Set(res, upper)
	}
	return e
}
