// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package scalepoint

import (
	"maps"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// A tool that deletes an HPA and creates it again from its manifest removes the record of podfit with it. The target of the manifest belongs to
// the request that the record has, and not to the one that podfit has given to the pods since: with that one, each recreation would move the
// scale point further. So the recorded requests are kept after the end of an HPA, for another one that scales the same workload.

const (
	// baseTTL is how long a recorded request is kept after the HPA with the record was last seen.
	baseTTL = 24 * time.Hour
	// maxBases bounds the number of recorded requests that are kept.
	maxBases = 10000
)

// A metricKey identifies a request on which HPAs of a workload depend.
type metricKey struct {
	workload  cluster.Workload
	resource  cluster.Resource
	container string
}

// A recordedBase is the request of a record that an HPA has or had.
type recordedBase struct {
	uid    string // of the HPA
	amount int64
	seen   time.Time
}

// rememberBases keeps the recorded requests of an HPA. If the user has removed a record, its request is forgotten.
func (s *Adjuster) rememberBases(now time.Time, h *cluster.HorizontalAutoscaler) {
	for i := range h.Utilization {
		u := &h.Utilization[i]
		key := metricKey{h.Target, u.Resource, u.Container}
		p := h.Of(u)
		last, known := s.bases[key]
		switch {
		case p != nil && p.Base > 0 && (known || len(s.bases) < maxBases):
			s.bases[key] = recordedBase{h.UID, p.Base, now}
		case p == nil && last.uid == h.UID:
			delete(s.bases, key)
		}
	}
}

// baseOf returns the request to which the target of an HPA without a record belongs; 0 if it is the one that the pods have.
func (s *Adjuster) baseOf(h *cluster.HorizontalAutoscaler, u *cluster.UtilizationTarget) int64 {
	return s.bases[metricKey{h.Target, u.Resource, u.Container}].amount
}

// forgetBases forgets recorded requests of HPAs that are gone for long.
func (s *Adjuster) forgetBases(now time.Time) {
	maps.DeleteFunc(s.bases, func(_ metricKey, b recordedBase) bool {
		age := now.Sub(b.seen)
		return age > baseTTL || age < -baseTTL
	})
}
