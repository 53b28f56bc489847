// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package compatibility contains the intended deviations of podfit from upstream, and the switch --compatibility, which turns off those that have
// a flag. The others are in a test, because only docs/migrate.md has them. It makes no decision about pods: it sets flags, and the components read only their flags.
//
// The page is generated from both tables.
package compatibility

import (
	"fmt"
	"slices"
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

// Settings returns the flags that a mode sets, sorted by name.
func (m Mode) Settings() []Setting {
	var out []Setting
	if m == Upstream {
		for i := range Table {
			out = append(out, Setting{Table[i].Flag, Table[i].Theirs})
		}
	}
	slices.SortFunc(out, func(a, b Setting) int { return slices.Compare([]string{a.Flag, a.Value}, []string{b.Flag, b.Value}) })
	return slices.Compact(out)
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

// A Deviation is an intended difference between podfit and upstream.
type Deviation struct {
	Name     string // unique
	Weakness string // number of upstream's weakness that it fixes, or ""
	Upstream string // what upstream does
	Podfit   string // what podfit does
	Why      string

	// Flag is the flag that decides between the two, with the values for podfit's and for upstream's behaviour. It is "" if upstream's
	// behaviour is not available, and Kept says why: only the page has such a deviation.
	Flag, Ours, Theirs string
	Kept               string

	Test string // shows podfit's behaviour, and upstream's with rowtest.Both if there is a flag; "TestMany/one" is a case of a test, or a transcript in its folder
}
