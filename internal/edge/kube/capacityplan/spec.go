// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacityplan

import (
	"fmt"
	"slices"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/capacity"
)

// Settings returns the settings of a spec, and whether the capacity is the allocatable amount. Values that the CRD does not allow, because
// they were stored before the CRD was updated, are replaced by the defaults.
func Settings(spec *v1alpha1.CapacityPlanSpec) (s capacity.Settings, allocatable bool) {
	s = capacity.Defaults()
	if d := spec.LeadTimeDays; d != nil && *d >= 0 && *d <= maxLeadTime {
		s.LeadTime = int(*d)
	}
	if len(spec.Thresholds) > 0 {
		s.Thresholds = nil
		for _, p := range spec.Thresholds {
			if p >= 1 && p <= 99 {
				s.Thresholds = append(s.Thresholds, float64(p)/100)
			}
		}
		s.Thresholds = append(s.Thresholds, 1)
		slices.Sort(s.Thresholds)
		s.Thresholds = slices.Compact(s.Thresholds)
	}
	s.Rules.PoolLabel = spec.PoolLabel
	for i := range spec.Pools {
		p := &spec.Pools[i]
		rule := capacity.Rule{Pool: p.Name}
		if p.LeadTimeDays <= maxLeadTime {
			rule.LeadTime = int(p.LeadTimeDays)
		}
		for k, v := range p.NodeLabels {
			rule.Labels = append(rule.Labels, fmt.Sprintf("%s=%s", k, v))
		}
		slices.Sort(rule.Labels)
		s.Rules.Pools = append(s.Rules.Pools, rule)
	}
	return s, spec.Base == v1alpha1.CapacityBaseAllocatable
}

const maxLeadTime = 730 // days
