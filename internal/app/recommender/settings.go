// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
)

// A Settings holds the flags of a recommender for a command that explains its numbers.
type Settings struct{ config Config }

// NewSettings returns the defaults of the recommender.
func NewSettings() *Settings { return &Settings{Defaults()} }

// SettingsOf returns the settings of a recommender of this process.
func SettingsOf(c Config) *Settings { return &Settings{c} }

// Flags binds the flags of the recommender that determine its numbers.
func (s *Settings) Flags(fs *pflag.FlagSet) {
	all := pflag.NewFlagSet("recommender", pflag.ContinueOnError)
	s.config.OwnFlags(all)
	sizes := pflag.NewFlagSet("sizes", pflag.ContinueOnError)
	s.config.Sizing.flags(sizes)
	sizes.VisitAll(func(f *pflag.Flag) { fs.AddFlag(all.Lookup(f.Name)) })
	for _, name := range []string{"recommender-name", "container-recommendation-max-allowed-cpu", "container-recommendation-max-allowed-memory"} {
		fs.AddFlag(all.Lookup(name))
	}
}

// Validate returns an error for each invalid flag.
func (s *Settings) Validate() error { return s.config.ValidateOwn() }

// assumedFlags are the flags whose value matters most, and that are reported if they are assumed.
var assumedFlags = []string{"recommendation-margin-fraction", "target-cpu-percentile", "target-memory-percentile", "memory-aggregation-interval-count"}

// Assumed returns the flags with the largest effect that are not on the command line, with their values. Without the flags of the recommender,
// there are none.
func (s *Settings) Assumed(given *pflag.FlagSet) []string {
	return process.Assumed(given, assumedFlags)
}

// Catalog returns the built-in profiles as this recommender has them.
func (s *Settings) Catalog() *sizing.Catalog {
	return sizing.NewCatalog(s.config.Sizing.params(), s.config.NameGiven())
}

// Store returns a store as this recommender has it, without usage.
func (s *Settings) Store() *usage.Store { return usage.NewStore(s.config.usage()) }

// MaxAllowed returns the maximum for containers whose autoscaler sets none.
func (s *Settings) MaxAllowed() cluster.Resources { return s.config.MaxAllowed() }

// IsNamed reports whether the recommender has a name of its own, and an autoscaler names it.
func (s *Settings) IsNamed(a *cluster.Autoscaler) bool {
	return s.config.NameGiven() && a.Recommender == s.config.Name
}
