// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import "github.com/spf13/pflag"

// ineffective is the annotation of flags that are accepted only because existing manifests use them.
const ineffective = "podfit.dev/no-effect"

// Ineffective marks a flag that is accepted only because existing manifests use it.
func Ineffective(fs *pflag.FlagSet, name string) {
	if err := fs.SetAnnotation(name, ineffective, []string{"true"}); err != nil {
		panic(err) // there is no such flag
	}
}

// HasNoEffect reports whether a flag is marked by Ineffective.
func HasNoEffect(f *pflag.Flag) bool { return len(f.Annotations[ineffective]) > 0 }

// Assumed returns the flags with some names that are not on the command line, with their values.
func Assumed(given *pflag.FlagSet, names []string) []string {
	var out []string
	for _, name := range names {
		if f := given.Lookup(name); f != nil && !f.Changed {
			out = append(out, "--"+name+"="+f.Value.String())
		}
	}
	return out
}
