// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
)

// A Risk is how likely a workload suffers from requests that are too small.
type Risk uint8

// The risks.
const (
	NoRisk Risk = iota
	MediumRisk
	HighRisk
)

// String returns the name of the risk.
func (r Risk) String() string {
	switch r {
	case HighRisk:
		return "high"
	case MediumRisk:
		return "medium"
	case NoRisk:
		return "none"
	}
	return "none"
}

// severities are the risks of the severities of findings.
var severities = map[review.Severity]Risk{review.SeverityMedium: MediumRisk, review.SeverityHigh: HighRisk}

// judge sets the risk and its cause by the findings of podfit recommend. The container with the most severe finding is named.
func (r *Row) judge(now time.Time) {
	var worst *Container
	for i := range r.Containers {
		c := &r.Containers[i]
		if c.Sidecar || c.pods == 0 {
			continue
		}
		judged := review.Judge(c.subject(r, now), c.pods)
		c.Findings = judged.Findings
		if risk := severities[judged.Risk]; risk > r.Risk || risk == r.Risk && risk > NoRisk && c.Findings[0].Kind < r.cause {
			r.Risk, r.cause, worst = risk, c.Findings[0].Kind, c
		}
	}
	if worst == nil {
		return
	}
	r.Why = "Container " + worst.Name + ": " + worst.Why(now)
	if r.cause == review.Killed && r.VPA != "" && r.Sized < r.Pods {
		r.Why += fmt.Sprintf("; %d of %s the new size", r.Sized, have(r.Pods))
	}
}

// Risk returns the highest risk of the findings.
func (c *Container) Risk() Risk {
	if len(c.Findings) == 0 {
		return NoRisk
	}
	return severities[c.Findings[0].Severity]
}

// Why describes the risks of the present requests, as podfit recommend does.
func (c *Container) Why(now time.Time) string {
	parts := make([]string, len(c.Findings))
	for i := range c.Findings {
		parts[i] = c.Findings[i].Text(now)
	}
	return strings.Join(parts, "; ")
}

// subject returns the container for a review, without its pods.
func (c *Container) subject(r *Row, now time.Time) *review.Subject {
	s := &review.Subject{Workload: r.Workload, Container: c.Name, VPA: r.VPA, Requests: c.Requests, Limits: c.Limits, JVM: c.jvm, Evidence: c.known(now)}
	if !c.Estimate.Target.Has.Empty() {
		s.Targets = []review.Target{{Profile: r.Profile, Amount: c.Estimate.Target}}
	}
	for k, res := range cluster.All {
		switch {
		case c.Free.Has(res):
			s.Kept[k] = review.Kept{Reason: review.NotControlled, By: r.VPA}
		case c.Kept.Has(res):
			s.Kept[k] = review.Kept{Reason: review.ScaledByHPA, By: c.keptBy[k]}
		}
	}
	return s
}

var names = map[cluster.Resource]string{cluster.CPU: "CPU", cluster.Memory: "memory"}

func have(pods int) string {
	if pods == 1 {
		return "1 pod has"
	}
	return fmt.Sprintf("%d pods have", pods)
}
