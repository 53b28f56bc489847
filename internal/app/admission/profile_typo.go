// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/spelling"
)

// profileNames returns the names of the SizingProfiles of the cluster from memory, and whether they are known.
type profileNames interface {
	ProfileNames() (names []string, known bool)
}

// knownProfiles are the built-in profiles and those of the cluster.
type knownProfiles struct{ cluster profileNames }

// Similar returns the profile of which a recommender name is probably a misspelling. It returns "" if there is no such
// profile, if a profile has that name, and if the profiles of the cluster are not known.
func (p knownProfiles) Similar(recommender string) string {
	if _, builtin := recommend.Builtin(recommender); builtin {
		return ""
	}
	names, known := p.cluster.ProfileNames()
	if !known {
		return ""
	}
	for _, builtin := range recommend.Builtins() {
		names = append(names, builtin.Name)
	}
	return spelling.Typo(recommender, names)
}
