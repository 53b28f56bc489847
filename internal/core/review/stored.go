// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/runs"
	"podfit.dev/podfit/internal/core/usage"
)

// unknownHours is the maximum number of hours of usage that a recommendation counts for if the history behind it is not stored, so that
// its confidence is low.
const unknownHours = 24

// UnreadUsage is the Lack of evidence whose stored history cannot be read.
const UnreadUsage = "its stored usage could not be read"

// StoredEvidence returns what the stored history of a container shows. The VPA may be nil, and so may the history.
func StoredEvidence(a *cluster.Autoscaler, container string, history *usage.ContainerHistory, now time.Time) Evidence {
	const samplesPerHour = 30 // the number of samples of one container in an hour: a recommender reads one in a minute. Half of them is enough
	switch {
	case a == nil:
		return Evidence{Lack: "no VPA: the cluster stores no usage of it; use --source prometheus or metrics"}
	case history == nil:
		return Evidence{Lack: "the cluster stores no usage of it"}
	}
	var e Evidence
	for _, res := range cluster.All {
		seen := history.Seen(res)
		if seen.Count == 0 {
			continue
		}
		e.From = cluster.Earliest(e.From, seen.First)
		e.To = cluster.Latest(e.To, seen.Last)
		e.Samples = max(e.Samples, seen.Count)
	}
	if e.Samples == 0 && a.AdviceFor(container) != nil { // the recommender reads history from Prometheus, and stores none
		e.From, e.To, e.Hours = a.Created, now, max(0, min(int(now.Sub(a.Created).Hours()), unknownHours))
		return e
	}
	e.Hours = max(0, min(int(e.To.Sub(e.From).Hours()+0.5), e.Samples/samplesPerHour))
	if peaks := recommend.PeaksOf(history, cluster.Memory); peaks != nil {
		hour := int(now.Unix() / 3600)
		for d := range PeakDays {
			e.DayPeaks[d] = int64(peaks.Max(hour+1-24*(d+1), hour+1-24*d).Amount())
		}
	}
	if at, _, _ := history.LastOOM(); !at.IsZero() {
		e.Kill(at, 1)
	}
	e.AddRuns(history, now)
	return e
}

// AddRuns counts runs of a container that runs to its end instead of hours, which short runs hardly have: those that it can be sized by as enough for
// Low, and as many as are kept as enough for Medium. The history may be nil.
func (e *Evidence) AddRuns(history *usage.ContainerHistory, now time.Time) {
	if history == nil {
		return
	}
	measured := runs.Most
	for _, res := range cluster.All {
		_, n := history.Runs().Percentile(res, 1, now)
		measured = min(measured, n)
	}
	switch {
	case measured == runs.Most:
		e.Hours = max(e.Hours, mediumHours)
	case measured >= runs.Least:
		e.Hours = max(e.Hours, lowHours)
	}
}

// AddStatusKills adds the OOM kills since a time that the status of live pods contains, unless the source of usage knows more.
func (e *Evidence) AddStatusKills(pods []*cluster.Pod, container string, since time.Time) {
	var seen Evidence
	for _, p := range pods {
		seen.SeeKill(p.Container(container), since)
	}
	e.LearnKills(&seen, since)
}

// SeeKill adds the OOM kill in the status of a container, if there was one since a time. The container may be nil.
func (e *Evidence) SeeKill(c *cluster.Container, since time.Time) {
	if c != nil && c.Exit != nil && c.Exit.OOM && c.Exit.Finished.After(since) {
		e.Kill(c.Exit.Finished, max(int(c.Exit.Kills), 1))
	}
}

// LearnKills replaces the OOM kills by those that were seen in the status of pods, unless the source of usage knows more of them.
func (e *Evidence) LearnKills(seen *Evidence, since time.Time) {
	if seen.Kills >= e.Kills || e.KilledLast.Before(since) {
		e.Kills = seen.Kills
		e.KilledFrom = seen.KilledFrom
		e.KilledLast = seen.KilledLast
	}
}

// KillWindow is the time in which OOM kills count, if no other is asked for.
const KillWindow = 14 * 24 * time.Hour
