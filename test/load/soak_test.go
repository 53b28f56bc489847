// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
	"podfit.dev/podfit/test/load/fleet"
	"podfit.dev/podfit/test/load/soak"
)

// soakBriefly soaks 50 workloads for some days of 9 s.
func soakBriefly(t *testing.T, days int, flags ...string) *SoakReport {
	t.Helper()
	if testing.Short() {
		t.Skip("runs podfit for more than 30 s")
	}
	root, err := bed.Root()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := bed.Build(t.Context(), root, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	report, err := runSoak(t.Context(), SoakSetup{
		Fleet: fleet.Config{Workloads: 50, Pods: 4, Seed: 1, History: 8 * 24 * time.Hour}, Days: days, Length: 9 * time.Second, Recommender: 2 * time.Second, Updater: 2 * time.Second,
		Bound: 90 * time.Second, Podfit: binary, Flags: flags, Dir: t.TempDir(),
	}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	report.print(&out)
	t.Log(out.String())
	return report
}

func TestSoak_minuteWithFaults_nothingIsViolated(t *testing.T) {
	report := soakBriefly(t, 6)
	for _, v := range report.Violations {
		if v.Rule != soak.Flat { // six short days say nothing about growth
			t.Error(v)
		}
	}
	if len(report.Samples) != 6 || len(report.Faults) != 3 {
		t.Fatalf("%d samples and %d faults, want 6 and 3", len(report.Samples), len(report.Faults))
	}
	if report.Actions["eviction"] == 0 || report.Actions["resize"] == 0 {
		t.Errorf("podfit changed no pods: %v", report.Actions)
	}
	if first, last := report.Samples[0], report.Samples[5]; first.Workloads != 50 || last.Workloads != 50 || first.Pods != last.Pods || first.Containers != last.Containers {
		t.Errorf("the first day ends with %+v, the last one with %+v", first.Count, last.Count)
	}
}

// The checker must find what a real process does wrong: this one serves the VPAs of another recommender.
func TestSoak_processThatServesForeignVPAs_isFound(t *testing.T) {
	report := soakBriefly(t, 3, "--recommender-name="+fleet.Foreign)
	if !slices.ContainsFunc(report.Violations, func(v invariant.Violation) bool { return v.Rule == soak.Served }) {
		t.Errorf("violations %v, want one of %s", report.Violations, soak.Served)
	}
}

func TestDeal_manyDays_eachFaultAndRestartsInTheFirstHalf(t *testing.T) {
	days := deal(rand.New(rand.NewPCG(1, 7)), 60, "")
	seen := map[string]bool{}
	for day, d := range days {
		switch {
		case d == nil && day >= 2 && day < 59:
			t.Errorf("day %d has no fault", day+1)
		case d != nil && d.restart && day >= 30:
			t.Errorf("podfit is started again on day %d", day+1)
		case d != nil:
			seen[d.name] = true
		}
	}
	if len(seen) != len(disturbances) {
		t.Errorf("%d of %d faults are drawn", len(seen), len(disturbances))
	}
	again := deal(rand.New(rand.NewPCG(1, 7)), 60, "")
	for day := range days {
		if days[day] != again[day] {
			t.Errorf("day %d differs with the same seed", day+1)
		}
	}
	for day, d := range deal(rand.New(rand.NewPCG(1, 7)), 60, "metrics") {
		if d != nil && strings.Contains(d.name, "metrics") {
			t.Errorf("day %d has the skipped fault %s", day+1, d.name)
		}
	}
}
