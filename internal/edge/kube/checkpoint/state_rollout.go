// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

// phases are the names of the phases of a canary. They are stored, so they are never changed.
var phases = map[rollout.Phase]string{
	rollout.Idle: v1alpha1.CanaryIdle, rollout.Starting: v1alpha1.CanaryStarting, rollout.Watching: v1alpha1.CanaryWatching,
	rollout.Accepted: v1alpha1.CanaryAccepted, rollout.Held: v1alpha1.CanaryHeld,
}

// causes are the names of the causes of a revert. They are stored, so they are never changed.
var causes = map[rollout.Cause]string{
	rollout.NoCause: "", rollout.OOMKilled: "OOMKilled", rollout.Restarted: "Restarted", rollout.NotReady: "NotReady",
	rollout.Throttled: "Throttled",
}

// comparisons are the names of the results of a comparison of CPU throttling. They are stored, so they are never changed.
var comparisons = map[rollout.Comparison]string{
	rollout.NotYetCompared: "", rollout.Compared: "Compared", rollout.NoCPULimit: "NoCPULimit", rollout.NoPrometheus: "NoPrometheus",
	rollout.NoAnswer: "NoAnswer", rollout.NoData: "NoData",
}

func storeChange(c *rollout.Change) v1alpha1.RequestChange {
	return v1alpha1.RequestChange{Time: metav1.NewTime(c.At), Requests: storeAmounts(c.Requests)}
}

func loadChange(c *v1alpha1.RequestChange) (rollout.Change, error) {
	if c.Time.IsZero() {
		return rollout.Change{}, errEmpty
	}
	requests, err := loadAmounts(c.Requests)
	return rollout.Change{At: c.Time.UTC(), Requests: requests}, err
}

func storeCanary(s *rollout.State) *v1alpha1.CanaryRecord {
	if s == nil {
		return nil
	}
	out := &v1alpha1.CanaryRecord{
		Phase: phases[s.Phase], Pod: s.Pod, UID: s.UID, SinceTime: micro(s.Since), UntilTime: micro(s.Until),
		Before: storeRequests(s.Before), After: storeRequests(s.After), Restarts: s.Restarts, Cause: causes[s.Cause], Reverts: int32(s.Reverts),
		Throttling: comparisons[s.Comparison], ThrottledPercent: int32(s.Throttled), ThrottledBeforePercent: int32(s.ThrottledBefore),
	}
	if !s.Controller.IsZero() {
		out.Controller = new(reference(s.Controller))
	}
	return out
}

func storeRequests(sizes []rollout.Size) []v1alpha1.RequestedSize {
	return converted(sizes[:min(len(sizes), v1alpha1.MaxRequestedSizes)], func(s *rollout.Size) v1alpha1.RequestedSize {
		return v1alpha1.RequestedSize{Container: s.Container, Requests: storeAmounts(s.Requests)}
	})
}

func (o *updateStateObject) loadCanary(c *v1alpha1.CanaryRecord) (*rollout.State, error) {
	s, err := CanaryState(c, o.Metadata.Namespace)
	return &s, err
}

// CanaryState returns the state in a record of a namespace.
func CanaryState(c *v1alpha1.CanaryRecord, namespace string) (rollout.State, error) {
	phase, known := named(phases, c.Phase)
	if !known {
		return rollout.State{}, fmt.Errorf("unknown canary phase %.40q", c.Phase)
	}
	cause, known := named(causes, c.Cause)
	if !known {
		return rollout.State{}, fmt.Errorf("unknown cause %.40q", c.Cause)
	}
	comparison, _ := named(comparisons, c.Throttling)
	before, err := loadRequests(c.Before)
	after, afterErr := loadRequests(c.After)
	if err := errors.Join(err, afterErr); err != nil {
		return rollout.State{}, err
	}
	out := rollout.State{
		Phase: phase, Pod: c.Pod, UID: c.UID, Since: fromMicro(c.SinceTime), Until: fromMicro(c.UntilTime), Before: before, After: after,
		Restarts: c.Restarts, Cause: cause, Reverts: int(c.Reverts),
		Comparison: comparison, Throttled: int(c.ThrottledPercent), ThrottledBefore: int(c.ThrottledBeforePercent),
	}
	if r := c.Controller; r != nil {
		out.Controller = cluster.Workload{Group: r.Group, Kind: r.Kind, Namespace: namespace, Name: r.Name}
	}
	return out, nil
}

func loadRequests(sizes []v1alpha1.RequestedSize) ([]rollout.Size, error) {
	fits, err := loadSizes(sizes)
	if err != nil {
		return nil, err
	}
	return converted(fits, func(f *policy.Fitted) rollout.Size { return rollout.Size{Container: f.Container, Requests: f.Requests} }), nil
}
