// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"fmt"
	"strings"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/scalepoint"
	"podfit.dev/podfit/internal/core/wording"
)

// sayHorizontal sets the condition HorizontalPodAutoscaler if an HPA scales the target by the utilization of a request that the
// autoscaler controls. The condition has the reason of the request that podfit leaves alone, if there is one.
func (a *advice) sayHorizontal() {
	var messages []string
	reason := ""
	for _, c := range a.horizontalConflicts() {
		messages = append(messages, c.message(a.to, a.pods))
		switch {
		case c.state == policy.ScalePointStopped:
			reason = v1alpha1.ReasonOthersReset
		case c.state.IsLeft() && reason != v1alpha1.ReasonOthersReset:
			reason = v1alpha1.ReasonRequestLeft
		case reason == "":
			reason = v1alpha1.ReasonScalePointPreserved
		}
	}
	a.report(v1alpha1.ConditionHorizontalPodAutoscaler, reason, strings.Join(messages, " "))
}

// A horizontalConflict is a metric of an HPA that depends on requests that an autoscaler controls.
type horizontalConflict struct {
	cluster.Horizontal
	state policy.HorizontalState
}

// maxConflicts is the maximum number of metrics that the condition describes.
const maxConflicts = 4

// horizontalConflicts returns the metrics that depend on a request for which there is a recommendation, each once.
func (a *advice) horizontalConflicts() []horizontalConflict {
	if !a.governing {
		return nil
	}
	var found []horizontalConflict
	seen := map[*cluster.UtilizationTarget]bool{}
	for i := range a.containers {
		c := &a.containers[i]
		controls := a.to.Policy(c.Container).Controls()
		for _, res := range cluster.All {
			if _, advised := c.Target.Get(res); !advised || !controls.Has(res) {
				continue
			}
			state, h := policy.HorizontalOf(a.to, c.Container, res)
			if state == policy.NotScaled || seen[h.Metric] || len(found) == maxConflicts {
				continue
			}
			seen[h.Metric] = true
			found = append(found, horizontalConflict{h, state})
		}
	}
	return found
}

// message describes what podfit does with the request and what the user can do.
func (c *horizontalConflict) message(a *cluster.Autoscaler, pods []*cluster.Pod) string {
	name := wording.Name(c.Metric.Resource)
	request := "the " + name + " request"
	if c.Metric.Container != "" {
		request += " of container " + c.Metric.Container
	}
	s := fmt.Sprintf("HorizontalPodAutoscaler %s scales %s %s by the %s utilization (%d %% of %s). ",
		c.HPA.Name, a.Target.Kind, a.Target.Name, name, c.Metric.Percent, request)
	switch c.state {
	case policy.LeftToHPA:
		s += fmt.Sprintf("podfit does not change %s and its limit, because the number of replicas would change with it. "+
			"To change both together, set the annotation %s: %s on this VPA. Or let the HPA use averageValue or another metric, or remove %s from controlledResources of this VPA.",
			request, v1alpha1.AnnotationHPA, v1alpha1.PreserveScalePoint, c.Metric.Resource)
	case policy.SeveralMetrics:
		s += fmt.Sprintf("Another metric or HPA depends on the same request, so podfit cannot preserve the scale point and does not change %s. Remove all but one of these metrics.", request)
	case policy.ScalePointMissing:
		s += fmt.Sprintf("podfit has not recorded the scale point on the HPA yet, and does not change %s until then. If this lasts, the log of the updater has the cause.", request)
	case policy.ScalePointStopped:
		s += fmt.Sprintf("Another client has overwritten the target that podfit set %d times, so podfit no longer changes the HPA and %s. "+
			"Exclude spec.metrics of the HPA from the tool that overwrites it, then remove the annotation %s of the HPA.",
			cluster.MostResets, request, v1alpha1.AnnotationScalePoint)
	case policy.ScalePointPreserved:
		point := c.HPA.Of(c.Metric)
		r := scalepoint.RequestsAt(point)
		s += fmt.Sprintf("podfit preserves its scale point of %d %% of %s: it changes the target of the HPA together with the request, which stays between %s and %s per pod.",
			point.Percent, cluster.Format(c.Metric.Resource, point.Base), cluster.Format(c.Metric.Resource, r.Low), cluster.Format(c.Metric.Resource, r.High))
	case policy.NotScaled, policy.TargetNotWritten: // only the updater knows the latter
	}
	if missing := containerWithout(pods, c.Metric); missing != "" {
		s += fmt.Sprintf(" Container %s has no %s request, so the HPA cannot compute the utilization. Set the request in the pod template.", missing, name)
	}
	return s
}

// containerWithout returns a container of a live pod that lacks the request on which a metric depends, or "".
func containerWithout(pods []*cluster.Pod, u *cluster.UtilizationTarget) string {
	for _, p := range pods {
		if !p.Live() {
			continue
		}
		for i := range p.Containers {
			c := &p.Containers[i]
			if c.Role != cluster.Init && u.Concerns(c.Name) && c.Requests.Amount(u.Resource) == 0 {
				return c.Name
			}
		}
	}
	return ""
}
