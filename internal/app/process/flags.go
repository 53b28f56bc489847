// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/internal/spelling"
)

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

// Quantity is a flag value that holds a Kubernetes quantity. The empty string means unset.
type Quantity struct {
	resource.Quantity
	Given bool // the flag is set and not empty
}

// Set reads a quantity.
func (q *Quantity) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		*q = Quantity{}
		return nil
	}
	v, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("%q is not a quantity such as 500m or 2Gi: %w", text, err)
	}
	if v.Sign() < 0 {
		return fmt.Errorf("must not be negative, got %q", text)
	}
	*q = Quantity{Quantity: v, Given: true}
	return nil
}

// String returns the quantity, or "" if it is unset.
func (q *Quantity) String() string {
	if !q.Given {
		return ""
	}
	return q.Quantity.String()
}

// Type names the flag's type in help texts.
func (q *Quantity) Type() string { return "quantity" }

// Problems are the errors of a configuration, such as one for each invalid flag. Nil errors among them are none.
type Problems []error

// AddIf adds an error if the flags are invalid, which the caller has checked.
func (p *Problems) AddIf(invalid bool, format string, values ...any) {
	if invalid {
		*p = append(*p, fmt.Errorf(format, values...))
	}
}

// AddChoice adds an error if the value of a flag is none of its choices.
func (p *Problems) AddChoice(flag, value string, choices []string) {
	p.AddIf(!slices.Contains(choices, value), "--%s must be one of %s, got %q%s", flag, strings.Join(choices, ", "), value, spelling.Hint(value, choices))
}

// MatchesNamespace reports whether a namespace has one of the names, or matches one of the patterns, such as team-*.
func MatchesNamespace(patterns []string, namespace string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, namespace)
		return err == nil && matched
	})
}

// CheckNamespaces returns an error for each value of a flag that is neither a name nor a pattern of namespaces.
func CheckNamespaces(flag string, patterns []string) []error {
	var errs Problems
	for _, p := range patterns {
		_, err := path.Match(p, "")
		errs.AddIf(err != nil || p == "", "--%s must be a name or a pattern such as 'team-*', got %q", flag, p)
	}
	return errs
}
