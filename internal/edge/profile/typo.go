// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"
	"strings"
)

// Typo returns the known name of which name is probably a misspelling, "" if name is known or not similar to any. It is
// stricter than Nearest, because name may be a correct name that is not in the list: at most two characters may differ, in
// short names one, and in names of two characters none.
func Typo(name string, known []string) string {
	if slices.Contains(known, name) {
		return ""
	}
	best := ""
	least := 3
	for _, candidate := range known {
		d := distance(strings.ToLower(name), strings.ToLower(candidate))
		if d < least && d <= min(len(name), len(candidate))/3 {
			best = candidate
			least = d
		}
	}
	return best
}
