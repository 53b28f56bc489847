// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"podfit.dev/podfit/internal/core/changelog"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// maxChanges is the number of changes of the recommendation that are kept of a workload: 4 KB.
const maxChanges = 270

// noteChanges adds the changes of the recommendation to the logs of its containers. Of several autoscalers of a workload, only the governing one
// has logs.
func (a *advice) noteChanges() {
	if !a.governing {
		return
	}
	limit := min(changelog.Most, maxChanges/max(len(a.containers), 1))
	for i := range a.containers {
		to := &a.containers[i]
		series := a.by.usageStore.Series(a.to.Target, to.Container)
		if series == nil {
			continue
		}
		log := series.Changes()
		changed := log.By(a.choice.Sum)
		for _, res := range cluster.All {
			target, ok := to.Target.Get(res)
			if last := log.Last(res); ok && (last == nil || last.To != target) {
				changed = changed.With(changelog.Change{At: a.now.Unix(), To: target, Resource: res, Cause: a.cause(series, to, res)}, limit)
			}
		}
		if changed != log {
			series.SetChanges(changed)
		}
	}
}

// cause returns why a target differs from the last one on record.
func (a *advice) cause(series *usage.ContainerHistory, to *cluster.Advice, res cluster.Resource) changelog.Cause {
	log := series.Changes()
	last := log.Last(res)
	before := a.to.AdviceFor(to.Container)
	killed, _ := series.LastOOM()
	switch {
	case last == nil:
		return changelog.First
	case log.Settings != a.choice.Sum:
		return changelog.Settings
	case before != nil && before.Uncapped.Has.Has(res) && before.Uncapped.Amount(res) == to.Uncapped.Amount(res):
		return changelog.Bounds
	case to.Target.Amount(res) < last.To:
		return changelog.Decay
	case res == cluster.Memory && killed.Unix() > last.At:
		return changelog.Kill
	}
	return changelog.Usage
}
