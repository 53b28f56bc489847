// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/spelling"
)

// Problems are the errors of a configuration, such as one for each invalid flag. Nil errors among them are none.
type Problems []error

// AddIf adds an error if the flags are invalid, which the caller has checked.
func (p *Problems) AddIf(invalid bool, format string, values ...any) {
	if invalid {
		*p = append(*p, fmt.Errorf(format, values...))
	}
}

// AddChoice adds an error if the value of a flag is none of its choices.
func (p *Problems) AddChoice(flag, value string, choices []string) {
	p.AddIf(!slices.Contains(choices, value), "--%s must be one of %s, got %q%s", flag, strings.Join(choices, ", "), value, spelling.Hint(value, choices))
}

// MatchesNamespace reports whether a namespace has one of the names, or matches one of the patterns, such as team-*.
func MatchesNamespace(patterns []string, namespace string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, namespace)
		return err == nil && matched
	})
}

// CheckNamespaces returns an error for each value of a flag that is neither a name nor a pattern of namespaces.
func CheckNamespaces(flag string, patterns []string) []error {
	var errs Problems
	for _, p := range patterns {
		_, err := path.Match(p, "")
		errs.AddIf(err != nil || p == "", "--%s must be a name or a pattern such as 'team-*', got %q", flag, p)
	}
	return errs
}
