// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"encoding/json"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// A scalePoint is the JSON form of a cluster.ScalePoint.
type scalePoint struct {
	Resource  string    `json:"resource"`
	Container string    `json:"container,omitempty"`
	Request   string    `json:"request"` // quantity
	Percent   int32     `json:"percent"`
	Set       int32     `json:"set"`
	Resets    int       `json:"resets,omitempty"`
	ResetAt   time.Time `json:"resetAt,omitzero"`
}

// maxScalePointBytes bounds the annotation that is read: anyone who may edit the HPA can write it.
const maxScalePointBytes = 8 << 10

// ScalePoints returns the records in the annotation podfit.dev/scale-point. It returns nil if one of them is invalid.
func ScalePoints(annotation string) []cluster.ScalePoint {
	if annotation == "" || len(annotation) > maxScalePointBytes {
		return nil
	}
	var stored []scalePoint
	if err := json.Unmarshal([]byte(annotation), &stored); err != nil || len(stored) > cluster.MostMetrics {
		return nil
	}
	out := make([]cluster.ScalePoint, 0, len(stored))
	for _, s := range stored {
		res, known := cluster.ParseResource(s.Resource)
		request, err := kube.ParseQuantity(s.Request)
		if !known || err != nil || kube.Amount(res, request) <= 0 || s.Percent <= 0 || s.Set <= 0 || s.Resets < 0 || !kube.HasJSONForm(s.ResetAt) {
			return nil
		}
		out = append(out, cluster.ScalePoint{
			Resource: res, Container: s.Container, Base: kube.Amount(res, request), Percent: s.Percent, Set: s.Set, Resets: s.Resets, ResetAt: s.ResetAt,
		})
	}
	return out
}

// ScalePointsAnnotation returns the value of the annotation podfit.dev/scale-point.
func ScalePointsAnnotation(points []cluster.ScalePoint) (string, error) {
	stored := make([]scalePoint, 0, len(points))
	for _, p := range points {
		request := kube.Quantity(p.Resource, p.Base)
		stored = append(stored, scalePoint{
			Resource: p.Resource.String(), Container: p.Container, Request: request.String(), Percent: p.Percent, Set: p.Set, Resets: p.Resets, ResetAt: p.ResetAt.UTC(),
		})
	}
	text, err := json.Marshal(stored)
	return string(text), err
}
