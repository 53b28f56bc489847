// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"path"
	"slices"
)

// MatchesNamespace reports whether a namespace has one of the names, or matches one of the patterns, such as team-*.
func MatchesNamespace(patterns []string, namespace string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, namespace)
		return err == nil && matched
	})
}

// CheckNamespaces returns an error for each value of a flag that is neither a name nor a pattern of namespaces.
func CheckNamespaces(flag string, patterns []string) []error {
	var errs []error
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			errs = append(errs, fmt.Errorf("--%s must be a name or a pattern such as 'team-*', got %q", flag, p))
		}
	}
	return errs
}
