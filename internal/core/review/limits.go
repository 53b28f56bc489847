// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// A LimitRule determines the limits that go with changed requests.
type LimitRule string

// The rules. A limit is never below its request. If it would be, it rises in proportion to the request, so that the container can still use more
// than it requests.
const (
	KeepLimits         LimitRule = "keep"         // limits stay; "" means the same
	ProportionalLimits LimitRule = "proportional" // limits change in proportion to requests, as a VPA with RequestsAndLimits does
	NoLimits           LimitRule = "none"         // limits are removed
	MemoryOnlyLimits   LimitRule = "memory-only"  // CPU limits are removed, memory limits stay
)

// LimitRules returns the names of the rules.
func LimitRules() []string {
	return []string{string(KeepLimits), string(ProportionalLimits), string(NoLimits), string(MemoryOnlyLimits)}
}

// apply returns the limits for new requests.
func (r LimitRule) apply(limits, before, after cluster.Resources) cluster.Resources {
	for _, res := range cluster.All {
		limit, ok := limits.Get(res)
		if !ok {
			continue
		}
		request, requested := after.Get(res)
		switch {
		case r == NoLimits || r == MemoryOnlyLimits && res == cluster.CPU:
			limits = limits.Unset(res)
			continue
		case requested && before.Amount(res) > 0 && (limit < request || r == ProportionalLimits && request != before.Amount(res)):
			if scaled, capped := integer.ScaledUp(limit, request, before.Amount(res)); !capped {
				limit = scaled
			}
			limit = Rounded(res, limit)
		}
		if requested {
			limit = max(limit, request)
		}
		limits = limits.Set(res, limit)
	}
	return limits
}

// Rounded returns the request for a recommended amount: memory is rounded up to whole MiB, which people can read. CPU has whole millicores
// already.
func Rounded(res cluster.Resource, amount int64) int64 {
	const mib = 1 << 20
	if res == cluster.CPU || amount > 1<<62 {
		return amount
	}
	return (amount + mib - 1) / mib * mib
}
