// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestSettings_flags_setWhatDeterminesTheNumbers(t *testing.T) {
	s := NewSettings()
	fs := pflag.NewFlagSet("explain", pflag.ContinueOnError)
	s.Flags(fs)
	if err := fs.Parse([]string{"--target-cpu-percentile=0.95", "--recommender-name=tight", "--container-recommendation-max-allowed-cpu=2"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Errorf("valid flags: %v", err)
	}
	assumed := s.Assumed(fs)
	if slices.Contains(assumed, "--target-cpu-percentile=0.95") || !slices.Contains(assumed, "--target-memory-percentile=0.9") {
		t.Errorf("assumed are %v", assumed)
	}
	if got := s.MaxAllowed(); got.CPU != 2000 {
		t.Errorf("at most %d millicores, want 2000", got.CPU)
	}
	if !s.IsNamed(&cluster.Autoscaler{Recommender: "tight"}) || s.IsNamed(&cluster.Autoscaler{Recommender: "other"}) {
		t.Error("IsNamed must be true only for VPAs that name this recommender")
	}
	if s.Store() == nil || s.Catalog() == nil {
		t.Error("no store or catalog")
	}
	if got := SettingsOf(s.config).Assumed(pflag.NewFlagSet("", pflag.ContinueOnError)); len(got) != 0 {
		t.Errorf("without flags, %v are assumed", got)
	}
}

func TestSettings_invalidFlag_isAnError(t *testing.T) {
	s := NewSettings()
	fs := pflag.NewFlagSet("explain", pflag.ContinueOnError)
	s.Flags(fs)
	if err := fs.Parse([]string{"--target-cpu-percentile=7"}); err == nil && s.Validate() == nil {
		t.Error("a percentile of 7 is valid")
	}
}
