// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package summary writes the condition Updating of VPAs: how many pods need no change, and why the others wait.
//
// Of summarizes the decisions of a pass, and a Writer writes the conditions in parallel to the passes.
package summary

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/integer"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// A Summary is the condition Updating of an autoscaler. The zero value means that there is no condition.
type Summary struct {
	reason       string // "" if there is no condition
	done, total  int    // pods with the recommended size; pods that the autoscaler updates
	changing     int    // pods that the pass has changed
	pod, message string // an example of a pod that waits
	cause        string // the object that the message names and on which the user may act; "" if there is none
}

// namesObject are the reasons whose text is an object or a state on which the user may act. Another text with the same reason is another cause.
var namesObject = map[decision.ReasonCode]bool{decision.Frozen: true, decision.LeftToHPA: true, decision.ObjectiveMissed: true}

// isSameAs reports whether two summaries differ at most in the wording of the reason.
func (s Summary) isSameAs(o Summary) bool {
	s.message = ""
	o.message = ""
	return s == o
}

// maxSummary bounds the message of the condition in bytes. A message of the API server or the kubelet is part of it.
const maxSummary = 600

// Condition returns the condition.
func (s Summary) Condition() watcher.Condition {
	c := watcher.Condition{Type: v1alpha1.ConditionUpdating, Status: watcher.True, Reason: s.reason, Message: s.message}
	switch s.reason {
	case "":
		c.Status = watcher.Removed
	case v1alpha1.ReasonUpToDate:
		c.Status = watcher.False
	case v1alpha1.ReasonPaused:
		c.Status = watcher.Unknown
	}
	c.Message = wording.Shortened(c.Message, maxSummary)
	return c
}

// notUpdated are the reasons to leave a pod that the autoscaler does not update at all.
var notUpdated = map[decision.ReasonCode]bool{decision.ModeOff: true, decision.GateOff: true, decision.NoAdvice: true}

// waitsNevertheless are the reasons of pods that no action is planned for, but that do not have the recommended size, or whose recommended size is not known.
var waitsNevertheless = map[decision.ReasonCode]bool{decision.AlreadyEvicted: true, decision.AlreadyGone: true, decision.HPANotWritten: true, decision.NodeSizeUnknown: true}

// Of returns the summaries of the autoscalers that update pods, after the decisions were carried out.
func Of(decisions []decision.Decision) map[cluster.Key]Summary {
	waiting := map[cluster.Key][]*decision.Decision{}
	out := map[cluster.Key]Summary{}
	for i := range decisions {
		d := &decisions[i]
		if d.Do == decision.Leave && notUpdated[d.Reason.Code] {
			continue
		}
		key := d.Autoscaler.Key
		s := out[key]
		s.total++
		switch {
		case d.Do != decision.Leave:
			s.changing++
		case d.Wanted.Code == decision.Fits && !waitsNevertheless[d.Reason.Code]:
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

// Paused returns the summaries of the autoscalers that update pods while the updater changes none, and so decides on none.
func Paused(governed []cluster.Governed, why string) map[cluster.Key]Summary {
	out := map[cluster.Key]Summary{}
	for _, g := range governed {
		if g.Autoscaler.Mode.Updates() && len(g.Autoscaler.Advice) > 0 && len(g.Pods) > 0 {
			out[g.Autoscaler.Key] = Summary{reason: v1alpha1.ReasonPaused, cause: why, message: "The updater changes no pods: " + why + "."}
		}
	}
	return out
}

func (s Summary) explained(waiting []*decision.Decision) Summary {
	s.message = fmt.Sprintf("%d of %d pods need no change.", s.done, s.total)
	if s.changing > 0 {
		s.message += fmt.Sprintf(" The last pass changed %d.", s.changing)
	}
	switch {
	case len(waiting) > 0:
		d := mostFrequent(waiting)
		why := d.Reason
		why.Until = time.Time{}
		why.For = 0 // they change with each attempt
		s.reason = d.Reason.Code.String()
		s.pod = d.Pod.Name
		if namesObject[d.Reason.Code] {
			s.cause = d.Reason.Text
		}
		s.message += fmt.Sprintf(" %d %s; pod %s: %s", len(waiting), wording.Form(len(waiting), "waits", "wait"), d.Pod.Name, why.String())
	case s.changing > 0:
		s.reason = v1alpha1.ReasonInProgress
	default:
		s.reason = v1alpha1.ReasonUpToDate
	}
	return s
}

// mostFrequent returns the first of the decisions with the most frequent reason. Of equally frequent reasons, one that may need
// attention comes first.
func mostFrequent(decisions []*decision.Decision) *decision.Decision {
	count := map[decision.ReasonCode]int{}
	for _, d := range decisions {
		count[d.Reason.Code]++
	}
	return slices.MinFunc(decisions, func(a, b *decision.Decision) int {
		return cmp.Or(cmp.Compare(count[b.Reason.Code], count[a.Reason.Code]), integer.FalseFirst(b.Reason.Code.NeedsAttention(), a.Reason.Code.NeedsAttention()),
			cmp.Compare(a.Reason.Code, b.Reason.Code), a.Pod.Key.Compare(b.Pod.Key))
	})
}
