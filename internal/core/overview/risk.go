// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/wording"
)

// judge sets the risk and its cause by the findings of podfit recommend. The container with the most severe finding is named.
func (r *Row) judge(now time.Time) {
	var worst *Container
	for _, c := range r.Containers {
		if c.Replicas == 0 {
			continue
		}
		r.Unjudged = cmp.Or(r.Unjudged, c.Evidence.Lacking())
		if c.Risk > r.Risk || c.Risk == r.Risk && c.Risk > review.Harmless && c.Findings[0].Kind < r.cause {
			r.Risk = c.Risk
			r.cause = c.Findings[0].Kind
			worst = c
		}
	}
	if r.VPA == "" && r.Unjudged != "" {
		r.Unjudged = "no VPA, so its usage is not stored"
	}
	if worst == nil {
		return
	}
	r.Why = "Container " + worst.Container + ": " + strings.Join(worst.Risks(now), "; ")
	if r.cause == review.Killed && r.VPA != "" && r.Unjudged == "" && r.Sized < r.Pods {
		r.Why += fmt.Sprintf("; %d of %d %s the new size", r.Sized, r.Pods, wording.Form(r.Pods, "pod has", "pods have"))
	}
}

// A Lack is why some workloads are not judged.
type Lack struct {
	Why       string `json:"why"`
	Workloads int    `json:"workloads"`
}

// Lacks returns the causes why workloads without a known risk are not judged, the most frequent first. The last one of several stands for all
// further ones.
func (o *Overview) Lacks() (lacks []Lack, workloads int) {
	const most = 4
	for _, row := range o.Rows {
		if row.Risk > review.Harmless || row.Unjudged == "" {
			continue
		}
		workloads++
		cluster.FindOrAdd(&lacks, func(l *Lack) bool { return l.Why == row.Unjudged }, Lack{Why: row.Unjudged}).Workloads++
	}
	slices.SortFunc(lacks, func(a, b Lack) int { return cmp.Or(cmp.Compare(b.Workloads, a.Workloads), cmp.Compare(a.Why, b.Why)) })
	for len(lacks) > most {
		last := lacks[len(lacks)-1]
		lacks = lacks[:len(lacks)-1]
		lacks[most-1] = Lack{"other causes", lacks[most-1].Workloads + last.Workloads}
	}
	return lacks, workloads
}

// Frozen returns the workloads whose pods wait for the end of a freeze, as the updater last reported.
func (o *Overview) Frozen() (out []cluster.Workload) {
	for _, row := range o.Rows {
		if row.Frozen {
			out = append(out, row.Workload)
		}
	}
	return out
}
