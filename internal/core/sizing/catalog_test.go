// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
)

func named(profile string) *cluster.Autoscaler {
	return &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, Recommender: profile}
}

func mine() recommend.Profile {
	p, _ := recommend.Builtin("balanced")
	p.Name = "mine"
	return p
}

func TestCatalog_roundingOfFlags_appliesToAllProfiles(t *testing.T) {
	params := recommend.DefaultParams()
	params.RoundMillicores = 50
	params.RoundBytes = 1 << 20
	params.Margin = 0.4
	c := NewCatalog(params, false)
	c.Learn("mine", "1", mine())
	for _, profile := range []string{"", "default", "cost", "mine"} {
		got := c.Of(named(profile))
		if got.RoundMillicores != 50 || got.RoundBytes != 1<<20 {
			t.Errorf("profile %q rounds to %dm and %d bytes", profile, got.RoundMillicores, got.RoundBytes)
		}
		if isDefault := profile == "" || profile == "default"; isDefault != (got.Margin == 0.4) {
			t.Errorf("profile %q has margin %v", profile, got.Margin)
		}
	}
}

func TestCatalog_onlyDefault_ignoresProfileNames(t *testing.T) {
	c := NewCatalog(recommend.DefaultParams(), true)
	c.LearnInvalid("mine", "1", "spec is empty")
	for _, profile := range []string{"cost", "mine", "other"} {
		a := named(profile)
		if c.Contains(a) {
			t.Errorf("the catalog contains profile %q", profile)
		}
		if got := c.Of(a); got.Profile.Name != "default" {
			t.Errorf("profile %q selects %q, want default", profile, got.Profile.Name)
		}
		if problem := c.Problem(a); problem.Reason != "" {
			t.Errorf("profile %q has problem %+v", profile, problem)
		}
	}
}

func TestCatalog_builtinName_cannotBeReplaced(t *testing.T) {
	c := NewCatalog(recommend.DefaultParams(), false)
	c.LearnInvalid("cost", "1", "spec is empty")
	a := named("cost")
	if got := c.Of(a); !got.Usable || got.Edition.Number != 0 || c.Problem(a).Reason != "" {
		t.Errorf("profile cost is %+v with problem %+v, want the built-in one", got.Edition, c.Problem(a))
	}
}

func TestCatalog_learn_reportsNewAndCurrentVersion(t *testing.T) {
	c := NewCatalog(recommend.DefaultParams(), false)
	if c.Current("mine", "") || c.Current("mine", "1") {
		t.Error("an unknown SizingProfile is current")
	}
	c.LearnInvalid("mine", "1", "spec is empty")
	if !c.Current("mine", "1") || c.Current("mine", "2") {
		t.Error("the version of an invalid SizingProfile is not recorded")
	}
	if c.Of(named("mine")).Usable {
		t.Error("a SizingProfile that never was valid is usable")
	}
	if !c.Learn("mine", "2", mine()) {
		t.Error("the first valid version is not new")
	}
	first := c.Of(named("mine")).Edition
	if c.Learn("mine", "3", mine()) {
		t.Error("the second valid version is new")
	}
	if second := c.Of(named("mine")).Edition; second == first {
		t.Errorf("both versions have the edition %+v", first)
	}
	if got := c.Listed([]string{"mine"}); len(got) > 0 {
		t.Errorf("deleted: %v, want none", got)
	}
	c.Learn("yours", "1", mine())
	if got := c.Listed(nil); !slices.Equal(got, []string{"mine", "yours"}) {
		t.Errorf("deleted: %v, want both", got)
	}
	if got := c.Listed(nil); len(got) > 0 {
		t.Errorf("deleted a second time: %v", got)
	}
	if c.Current("mine", "3") {
		t.Error("a deleted SizingProfile is current, so it would not be read when it is created again")
	}
}

// The status does not contain the name of the profile that it is about.
func TestCatalog_statusReportsUnusableProfile_countsForTheProfileThatItIsAbout(t *testing.T) {
	for name, x := range map[string]struct {
		problem  string
		outdated bool
		want     bool
	}{
		"deleted":                           {problem: "Deleted", want: true},
		"invalid":                           {problem: "Invalid", want: true},
		"another problem":                   {problem: "OtherProfileRemembered"},
		"no problem":                        {},
		"deleted, of an earlier generation": {problem: "Deleted", outdated: true},
	} {
		c := NewCatalog(recommend.DefaultParams(), false)
		a := named("gone")
		a.ProfileProblem = x.problem
		a.StatusOutdated = x.outdated
		c.ReadStatuses([]*cluster.Autoscaler{a})
		if got := c.Contains(a); got != x.want {
			t.Errorf("%s: contains the profile: %t, want %t", name, got, x.want)
		}
		if got := len(c.Sizable([]*cluster.Autoscaler{a})) == 0; got != x.want {
			t.Errorf("%s: not sizable: %t, want %t", name, got, x.want)
		}
		if !x.want {
			continue
		}
		if got := c.Problem(a).Reason; got != "" {
			t.Errorf("%s: problem %s before the SizingProfiles are known", name, got)
		}
		c.Listed(nil)
		if got := c.Problem(a).Reason; got != Deleted || !c.IsListed() {
			t.Errorf("%s: problem %q, want %s", name, got, Deleted)
		}
		changed := *a
		changed.StatusOutdated = true
		c.ReadStatuses([]*cluster.Autoscaler{&changed})
		if !c.Contains(&changed) {
			t.Errorf("%s: the profile is no longer known after an unrelated change of the spec", name)
		}
		changed.Recommender = "other"
		c.ReadStatuses([]*cluster.Autoscaler{&changed})
		if c.Contains(&changed) {
			t.Errorf("%s: the status counts for another profile", name)
		}
		c.ReadStatuses(nil)
		if c.Contains(a) {
			t.Errorf("%s: the profile is known after the autoscaler was deleted", name)
		}
	}
}

func TestCatalog_deletedProfile_isForgottenAfterTTL(t *testing.T) {
	c := NewCatalog(recommend.DefaultParams(), false)
	start := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	a := named("mine")
	c.Learn("mine", "1", mine())
	c.Forget(start, nil)
	c.Listed(nil)
	c.Forget(start.Add(time.Hour), []*cluster.Autoscaler{a})
	c.Forget(start.Add(ModelStateTTL+time.Hour-1), nil)
	if !c.Contains(a) {
		t.Error("profile was deleted before ModelStateTTL had passed")
	}
	c.Forget(start.Add(ModelStateTTL+time.Hour), nil)
	if c.Contains(a) {
		t.Error("profile was not deleted after ModelStateTTL")
	}
}

// Upstream's recommender writes the conditions that it finds back to the status, with the present generation.
func TestCatalog_otherRecommenderWritesTheConditionBack_isNotServed(t *testing.T) {
	c := NewCatalog(recommend.DefaultParams(), false)
	a := named("gone")
	a.ProfileProblem = string(Deleted)
	c.ReadStatuses([]*cluster.Autoscaler{a})
	if !c.Contains(a) {
		t.Fatal("the autoscaler with a deleted profile is not served")
	}
	other := *a
	other.Recommender = "other"
	c.ReadStatuses([]*cluster.Autoscaler{&other})
	if c.Contains(&other) {
		t.Error("the autoscaler of another recommender is served")
	}
}

// After a restart, the stored name of the profile decides, not the status, which another recommender may have written with the present
// generation. Without a stored name, as before this version, the status decides.
func TestCatalog_restartAfterMoveToOtherRecommender_storedProfileDecides(t *testing.T) {
	for name, tt := range map[string]struct {
		stored   map[cluster.Key]string
		outdated bool
		want     bool
	}{
		"moved to another recommender": {stored: map[cluster.Key]string{named("gone").Key: "mine"}},
		"not moved":                    {stored: map[cluster.Key]string{named("gone").Key: "gone"}, want: true},
		"not moved, changed otherwise": {stored: map[cluster.Key]string{named("gone").Key: "gone"}, outdated: true, want: true},
		"nothing stored":               {want: true},
		"nothing stored, changed":      {outdated: true},
		"stored for another VPA":       {stored: map[cluster.Key]string{{Namespace: "x", Name: "y"}: "mine"}, want: true},
	} {
		c := NewCatalog(recommend.DefaultParams(), false)
		c.Stored(tt.stored)
		a := named("gone")
		a.ProfileProblem = string(Deleted)
		a.StatusOutdated = tt.outdated
		c.ReadStatuses([]*cluster.Autoscaler{a})
		if got := c.Contains(a); got != tt.want {
			t.Errorf("%s: served %t, want %t", name, got, tt.want)
		}
	}
	c := NewCatalog(recommend.DefaultParams(), false)
	c.Stored(map[cluster.Key]string{named("yours").Key: "mine"})
	a := named("yours")
	c.ReadStatuses([]*cluster.Autoscaler{a}) // no problem yet
	a.ProfileProblem = string(Deleted)
	c.ReadStatuses([]*cluster.Autoscaler{a})
	if !c.Contains(a) {
		t.Error("the profile before the start counts for a problem that this process has reported")
	}
}
