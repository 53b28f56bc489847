// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
	"slices"
)

// A LimitRule determines the limits that go with changed requests.
type LimitRule uint8

// The rules. A limit is never below its request. If it would be, it rises in proportion to the request, so that the container can still use more
// than it requests.
const (
	KeepLimits         LimitRule = iota // limits stay
	ProportionalLimits                  // limits change in proportion to requests, as a VPA with RequestsAndLimits does
	NoLimits                            // limits are removed
	MemoryOnlyLimits                    // CPU limits are removed, memory limits stay
)

// ParseLimitRule returns the rule with a name: keep, proportional, none or memory-only.
func ParseLimitRule(name string) (LimitRule, bool) {
	i := slices.Index(limitRules[:], name)
	return LimitRule(max(i, 0)), i >= 0
}

// LimitRules returns the names of the rules.
func LimitRules() []string { return limitRules[:] }

var limitRules = [...]string{"keep", "proportional", "none", "memory-only"}

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
