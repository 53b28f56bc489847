// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "testing"

func TestNode_selector_matchesAsTheSchedulerDoes(t *testing.T) {
	n := &Node{Name: "n1", Labels: []string{"a-b=3", "a=1", "empty=", "size=16", "zone=x"}}
	one := func(r Requirement) NodeSelector { return NodeSelector{Terms: []NodeTerm{{r}}} }
	in := func(prefix string, values ...string) Requirement {
		return Requirement{Prefix: prefix, Values: values}
	}
	for name, c := range map[string]struct {
		s    NodeSelector
		want bool
	}{
		"no restriction":               {NodeSelector{}, true},
		"labels":                       {NodeSelector{Labels: []string{"a=1", "zone=x"}}, true},
		"one label differs":            {NodeSelector{Labels: []string{"a=1", "zone=y"}}, false},
		"In":                           {one(in("zone=", "y", "x")), true},
		"In, other values":             {one(in("zone=", "y")), false},
		"In, label is missing":         {one(in("b=", "")), false},
		"In, empty value":              {one(in("empty=", "")), true},
		"NotIn":                        {one(Requirement{Prefix: "zone=", Op: NotIn, Values: []string{"y"}}), true},
		"NotIn, has the value":         {one(Requirement{Prefix: "zone=", Op: NotIn, Values: []string{"x"}}), false},
		"NotIn, label is missing":      {one(Requirement{Prefix: "zzz=", Op: NotIn, Values: []string{"x"}}), true},
		"Exists":                       {one(Requirement{Prefix: "empty=", Op: Exists}), true},
		"Exists, prefix of a label":    {one(Requirement{Prefix: "zon=", Op: Exists}), false},
		"Exists, key that sorts first": {one(Requirement{Prefix: "a=", Op: Exists}), true},
		"DoesNotExist":                 {one(Requirement{Prefix: "b=", Op: DoesNotExist}), true},
		"DoesNotExist, exists":         {one(Requirement{Prefix: "a-b=", Op: DoesNotExist}), false},
		"Gt":                           {one(Requirement{Prefix: "size=", Op: Above, Bound: 15}), true},
		"Gt, equal":                    {one(Requirement{Prefix: "size=", Op: Above, Bound: 16}), false},
		"Lt":                           {one(Requirement{Prefix: "size=", Op: Below, Bound: 17}), true},
		"Lt, equal":                    {one(Requirement{Prefix: "size=", Op: Below, Bound: 16}), false},
		"Lt, no number":                {one(Requirement{Prefix: "zone=", Op: Below, Bound: 17}), false},
		"Lt, label is missing":         {one(Requirement{Prefix: "b=", Op: Below, Bound: 17}), false},
		"name":                         {one(in("", "n1")), true},
		"another name":                 {one(in("", "n2")), false},
		"not this name":                {one(Requirement{Op: NotIn, Values: []string{"n1"}}), false},
		"all requirements of a term":   {NodeSelector{Terms: []NodeTerm{{in("a=", "1"), in("zone=", "y")}}}, false},
		"one of two terms":             {NodeSelector{Terms: []NodeTerm{{in("zone=", "y")}, {in("a=", "1"), in("zone=", "x")}}}, true},
		"only an empty term":           {NodeSelector{Terms: []NodeTerm{{}}}, false},
		"labels and terms":             {NodeSelector{Labels: []string{"a=2"}, Terms: []NodeTerm{{in("a=", "1")}}}, false},
	} {
		if got := n.Matches(c.s); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
