// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package decision

import "strings"

// fill replaces each {name} in a text by its value. It does not look for names in values.
func fill(text string, value func(name string) string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		out.WriteString(value(name))
		text = after
	}
}
