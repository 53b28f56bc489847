// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package compatibility contains the switch --compatibility, which turns off the intended deviations of podfit from upstream that have a flag. It
// makes no decision about pods: it sets flags, and the components read only their flags.
//
// docs/migrate.md describes all deviations. Tests generate it: from test/rowtest/table.go, and from a table of the deviations without a flag.
package compatibility

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// FlagName is the name of the switch.
const FlagName = "compatibility"

// A Mode is a value of the switch.
type Mode string

// The values of the switch.
const (
	Podfit   Mode = "podfit"
	Upstream Mode = "upstream"
)

// Modes returns all values of the switch.
func Modes() []string { return []string{string(Podfit), string(Upstream)} }

// Bind binds the switch to its flag.
func (m *Mode) Bind(fs *pflag.FlagSet) {
	fs.StringVar((*string)(m), FlagName, string(*m), "Whose behaviour applies where podfit deviates from upstream on purpose: podfit or upstream. "+
		"upstream sets the flags that docs/migrate.md lists, except those that are given explicitly.")
}

// Validate returns an error for an unknown value.
func (m Mode) Validate() error {
	if m != Podfit && m != Upstream {
		return fmt.Errorf("--%s must be %s or %s, got %q", FlagName, Podfit, Upstream, string(m))
	}
	return nil
}

// A Setting is a flag with the value that the switch gives it.
type Setting struct{ Flag, Value string }

// settings are the flags that Upstream sets, sorted by name. The deviations behind them are in test/rowtest.
var settings = []Setting{
	{"capacity-before-eviction", "off"},
	{"capacity-plan", "false"},
	{"early-passes", "false"},
	{"eviction-backoff", "0s"},
	{"fit-nodes", "false"},
	{"hpa", "ignore"},
	{"make-room", "off"},
	{"mover", "evict"},
	{"node-guard", "false"},
	{"oom-rescue", "off"},
	{"own-conditions", "false"},
	{"replacement-must-fit", "false"},
	{"role-history", "0s"},
	{"size-by-run", "false"},
	{"size-pod-level", "false"},
	{"size-sidecars", "false"},
	{"statefulset-pause", "0s"},
	{"status-interval", "0s"},
	{"updater-rules", "upstream"},
	{"updating-condition", "false"},
}

// Settings returns the flags that a mode sets, sorted by name.
func (m Mode) Settings() []Setting {
	if m == Upstream {
		return settings
	}
	return nil
}

// Arguments returns the flags that a mode sets, as arguments of a command line.
func (m Mode) Arguments() string {
	var out []string
	for _, s := range m.Settings() {
		out = append(out, "--"+s.Flag+"="+s.Value)
	}
	return strings.Join(out, " ")
}

// Apply gives the flags of a command their values of the mode, except those that were given explicitly: default < mode < given flag. Flags
// that the command does not have are left out.
func (m Mode) Apply(fs *pflag.FlagSet) error {
	for _, s := range m.Settings() {
		f := fs.Lookup(s.Flag)
		if f == nil || f.Changed {
			continue
		}
		err := f.Value.Set(s.Value) // does not mark the flag as given
		if err != nil {
			return fmt.Errorf("set --%s=%s for --%s=%s: %w", s.Flag, s.Value, FlagName, m, err)
		}
	}
	return nil
}

// ApplyGiven applies the mode of the flag --compatibility of a command if it was given, see Apply.
func ApplyGiven(fs *pflag.FlagSet) error {
	if f := fs.Lookup(FlagName); f != nil && f.Changed {
		return Mode(f.Value.String()).Apply(fs)
	}
	return nil
}
