// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// A summary is the condition Updating of an autoscaler. The zero value means that there is no condition.
type summary struct {
	reason       string // "" if there is no condition
	done, total  int    // pods with the recommended size; pods that the autoscaler updates
	changing     int    // pods that the pass has changed
	pod, message string // an example of a pod that waits
	cause        string // the object that the message names and on which the user may act; "" if there is none
}

// namesObject are the reasons whose text is an object on which the user may act. Another object with the same reason is another cause.
var namesObject = map[plan.ReasonCode]bool{plan.Frozen: true, plan.LeftToHPA: true}

// isSameAs reports whether two summaries differ at most in the wording of the reason.
func (s summary) isSameAs(o summary) bool {
	s.message, o.message = "", ""
	return s == o
}

// maxSummary bounds the message of the condition in bytes. A message of the API server or the kubelet is part of it.
const maxSummary = 600

// condition returns the condition.
func (s summary) condition() watcher.Condition {
	c := watcher.Condition{Type: v1alpha1.ConditionUpdating, Status: watcher.True, Reason: s.reason, Message: s.message}
	switch s.reason {
	case "":
		c.Status = watcher.Removed
	case v1alpha1.ReasonUpToDate:
		c.Status = watcher.False
	}
	if len(c.Message) > maxSummary {
		c.Message = strings.ToValidUTF8(c.Message[:maxSummary], "") + "…"
	}
	return c
}

// notUpdated are the reasons to leave a pod that the autoscaler does not update at all.
var notUpdated = map[plan.ReasonCode]bool{plan.ModeOff: true, plan.GateOff: true, plan.NoAdvice: true}

// waitsNevertheless are the reasons of pods that no action is planned for, but that do not have the recommended size.
var waitsNevertheless = map[plan.ReasonCode]bool{plan.AlreadyEvicted: true, plan.AlreadyGone: true, plan.HPANotWritten: true}

// summarize returns the summaries of the autoscalers that update pods, after the decisions were carried out.
func summarize(decisions []plan.Decision) map[cluster.Key]summary {
	waiting := map[cluster.Key][]*plan.Decision{}
	out := map[cluster.Key]summary{}
	for i := range decisions {
		d := &decisions[i]
		if d.Do == plan.Leave && notUpdated[d.Reason.Code] {
			continue
		}
		key := d.Autoscaler.Key
		s := out[key]
		s.total++
		switch {
		case d.Do != plan.Leave:
			s.changing++
		case d.Wanted.Code == plan.Fits && !waitsNevertheless[d.Reason.Code]:
			s.done++
		default:
			waiting[key] = append(waiting[key], d)
		}
		out[key] = s
	}
	for key, s := range out {
		out[key] = s.explained(waiting[key])
	}
	return out
}

// explained returns the summary with its reason and message.
func (s summary) explained(waiting []*plan.Decision) summary {
	s.message = fmt.Sprintf("%d of %d pods have the recommended size.", s.done, s.total)
	if s.changing > 0 {
		s.message += fmt.Sprintf(" The last pass changed %d.", s.changing)
	}
	switch {
	case len(waiting) > 0:
		d := mostFrequent(waiting)
		why := d.Reason
		why.Until, why.For = time.Time{}, 0 // they change with each attempt
		s.reason, s.pod = d.Reason.Code.String(), d.Pod.Name
		if namesObject[d.Reason.Code] {
			s.cause = d.Reason.Text
		}
		s.message += fmt.Sprintf(" %d %s; pod %s: %s", len(waiting), verb(len(waiting)), d.Pod.Name, why.String())
	case s.changing > 0:
		s.reason = v1alpha1.ReasonInProgress
	default:
		s.reason = v1alpha1.ReasonUpToDate
	}
	return s
}

func verb(pods int) string {
	if pods == 1 {
		return "waits"
	}
	return "wait"
}

// mostFrequent returns the first of the decisions with the most frequent reason. Of equally frequent reasons, one that may need
// attention comes first.
func mostFrequent(decisions []*plan.Decision) *plan.Decision {
	count := map[plan.ReasonCode]int{}
	for _, d := range decisions {
		count[d.Reason.Code]++
	}
	attention := func(d *plan.Decision) int {
		if needsAttention[d.Reason.Code] {
			return 1
		}
		return 0
	}
	return slices.MinFunc(decisions, func(a, b *plan.Decision) int {
		return cmp.Or(cmp.Compare(count[b.Reason.Code], count[a.Reason.Code]), cmp.Compare(attention(b), attention(a)),
			cmp.Compare(a.Reason.Code, b.Reason.Code), a.Pod.Key.Compare(b.Pod.Key))
	})
}

// summarizeUpdates sends the summaries of the pass to the writer of conditions.
func (e *execution) summarizeUpdates(now time.Time, all []*cluster.Autoscaler, decisions []plan.Decision) {
	if e.summaries == nil || e.config.DryRun {
		return
	}
	failed := map[cluster.Key]bool{}
	for _, f := range e.pass.Failures() {
		failed[f.Autoscaler.Key] = true
	}
	all = slices.DeleteFunc(slices.Clone(all), func(a *cluster.Autoscaler) bool {
		return !e.config.Serves(a.Namespace) || failed[a.Key]
	})
	var summaries map[cluster.Key]summary // without a summary, the condition is removed
	if e.config.UpdatingCondition {
		summaries = summarize(decisions)
	}
	e.summaries.update(now, all, summaries)
}

// forgetSummaries forgets autoscalers that are gone.
func forgetSummaries[V any](m map[cluster.Key]V, all []*cluster.Autoscaler) {
	exists := make(map[cluster.Key]bool, len(all))
	for _, a := range all {
		exists[a.Key] = true
	}
	maps.DeleteFunc(m, func(key cluster.Key, _ V) bool { return !exists[key] })
}
