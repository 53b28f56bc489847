// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package spelling finds the name that a misspelled one probably means.
package spelling

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest returns the known name that is most similar to a mistyped one, "" if none is similar. At most a third of the
// characters may differ.
func Nearest(name string, known []string) string {
	return nearest(name, known, func(string) int { return (len(name) + 2) / 3 })
}

// Hint returns the end of an error about a mistyped name: the most similar known name as a question, "" if none is similar.
func Hint(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// Typo returns the known name of which name is probably a misspelling, "" if name is known or not similar to any. It is
// stricter than Nearest, because name may be a correct name that is not in the list: at most two characters may differ. In names of
// fewer than six characters, one may differ, and in names of fewer than three characters, none.
func Typo(name string, known []string) string {
	if slices.Contains(known, name) {
		return ""
	}
	return nearest(name, known, func(candidate string) int { return min(2, min(len(name), len(candidate))/3) })
}

// maxNameLength is that of names in Kubernetes. The time of a comparison is the product of the lengths.
const maxNameLength = 253

// nearest returns the candidate with the fewest characters that differ, of those in which at most a number does.
func nearest(name string, known []string, most func(candidate string) int) (best string) {
	least := len(name) + 1
	for _, candidate := range known {
		if max(len(name), len(candidate)) > maxNameLength {
			continue
		}
		if d := levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(candidate)); d < least && d <= most(candidate) {
			best = candidate
			least = d
		}
	}
	return best
}
