// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"
	"strings"
)

// Slip returns which of some names one is probably a slip of that may also be right as it is, because others give names, too.
// It is stricter than Nearest: two letters may be wrong, in a short name one, and none in one of two letters. It returns ""
// when the name is one of them, or like none.
func Slip(name string, among []string) string {
	if slices.Contains(among, name) {
		return ""
	}
	best, least := "", 3
	for _, other := range among {
		d := distance(strings.ToLower(name), strings.ToLower(other))
		if d < least && d <= min(len(name), len(other))/3 {
			best, least = other, d
		}
	}
	return best
}
