// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package contract contains tables of upstream's flags and metrics. They describe upstream 1.8.
//
// Tests of this package compare the CRDs and manifests in deploy/ with upstream's. Tests of other packages compare podfit's flags and
// metrics with the tables. Only tests import this package.
package contract

import (
	_ "embed"
	"slices"
	"strings"
)

// A Flag is a command line flag of upstream. In its name, upstream accepts underscores instead of dashes.
type Flag struct {
	Name    string
	Type    string // bool, int, uint, float, duration, quantity or string; for klog's flags, the type that klog prints
	Default string // as printed by pflag
}

// flagList has a line for each flag: its name, its type and its default. LEASE is the name of the component's lease.
//
//go:embed flags.txt
var flagList string

// RecommenderFlags returns upstream's flags of the recommender, sorted by name.
func RecommenderFlags() []Flag {
	return flags("vpa-recommender-lease", "common", "klog", "election", "recommender")
}

// UpdaterFlags returns upstream's flags of the updater, sorted by name.
func UpdaterFlags() []Flag { return flags("vpa-updater", "common", "klog", "election", "updater") }

// AdmissionFlags returns upstream's flags of the admission controller, sorted by name.
func AdmissionFlags() []Flag { return flags("", "common", "klog", "admission") }

// flags returns the flags in some sections of the list, sorted by name.
func flags(lease string, sections ...string) (out []Flag) {
	for _, line := range linesOf(strings.ReplaceAll(flagList, "LEASE", lease), sections...) {
		fields := append(strings.SplitN(line, " ", 3), "")
		out = append(out, Flag{fields[0], fields[1], fields[2]})
	}
	slices.SortFunc(out, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// linesOf returns the lines of a list in some of its sections.
func linesOf(list string, sections ...string) (out []string) {
	wanted := false
	for line := range strings.Lines(list) {
		line = strings.TrimSuffix(line, "\n")
		if section, ok := strings.CutPrefix(line, "# "); ok {
			wanted = slices.Contains(sections, section)
		} else if wanted {
			out = append(out, line)
		}
	}
	return out
}
