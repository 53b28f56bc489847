// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package spelling finds the name that a misspelled one probably means.
package spelling

import (
	"slices"
	"strings"
)

// Nearest returns the known name that is most similar to a mistyped one, "" if none is similar. At most a third of the
// characters may differ.
func Nearest(name string, known []string) string {
	best := ""
	least := (len(name)+2)/3 + 1
	for _, candidate := range known {
		d := distance(strings.ToLower(name), strings.ToLower(candidate))
		if d < least {
			best = candidate
			least = d
		}
	}
	return best
}

// Hint returns the end of an error about a mistyped name: the most similar known name as a question, "" if none is similar.
func Hint(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

const maxNameLength = 253

// distance is the edit distance (Levenshtein 1966): the number of characters to insert, delete or replace to turn one word
// into the other. Its time is the product of the lengths, so words longer than any name count as entirely different.
func distance(a, b string) int {
	if max(len(a), len(b)) > maxNameLength {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		previous := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			replace := 1
			if a[i] == b[j] {
				replace = 0
			}
			row[j+1] = min(previous[j]+replace, previous[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// Typo returns the known name of which name is probably a misspelling, "" if name is known or not similar to any. It is
// stricter than Nearest, because name may be a correct name that is not in the list: at most two characters may differ. In names of
// fewer than six characters, one may differ, and in names of fewer than three characters, none.
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
