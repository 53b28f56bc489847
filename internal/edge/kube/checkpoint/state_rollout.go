// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
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

func storeChanges(list []rollout.Change) []v1alpha1.RequestChange {
	var out []v1alpha1.RequestChange
	for _, c := range list[max(0, len(list)-v1alpha1.MaxRequestChanges):] {
		out = append(out, v1alpha1.RequestChange{Time: metav1.NewTime(c.At), Requests: storeAmounts(c.Requests)})
	}
	return out
}

func loadChanges(errs []error, raw json.RawMessage, into *ledger.State) []error {
	for i, item := range decodeList(&errs, "changes", raw, v1alpha1.MaxRequestChanges) {
		var c v1alpha1.RequestChange
		before := len(errs)
		errs = decodePart(errs, fmt.Sprintf("changes[%d]", i), item, &c)
		if len(errs) > before || c.Time.IsZero() {
			continue
		}
		requests, err := loadAmounts(c.Requests)
		if err != nil {
			errs = appendError(errs, fmt.Sprintf("changes[%d]", i), err)
			continue
		}
		into.Changes = append(into.Changes, rollout.Change{At: c.Time.UTC(), Requests: requests})
	}
	return errs
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
		controller := reference(s.Controller)
		out.Controller = &controller
	}
	return out
}

func storeRequests(sizes []rollout.Size) []v1alpha1.RequestedSize {
	var out []v1alpha1.RequestedSize
	for _, s := range sizes[:min(len(sizes), v1alpha1.MaxRequestedSizes)] {
		out = append(out, v1alpha1.RequestedSize{Container: s.Container, Requests: storeAmounts(s.Requests)})
	}
	return out
}

func (o *updateStateObject) loadCanary(errs []error, raw json.RawMessage, into *ledger.State) []error {
	if len(raw) == 0 || string(raw) == "null" {
		return errs
	}
	var c v1alpha1.CanaryRecord
	err := json.Unmarshal(raw, &c)
	if err == nil {
		var s rollout.State
		s, err = CanaryState(&c, o.Metadata.Namespace)
		into.Canary = &s
	}
	if err != nil {
		into.Canary = nil
	}
	return appendError(errs, "canary", err)
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
	var out []rollout.Size
	for i := range fits {
		out = append(out, rollout.Size{Container: fits[i].Container, Requests: fits[i].Requests})
	}
	return out, nil
}
