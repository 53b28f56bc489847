// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "testing"

func TestSelector_requirements_mustAllHold(t *testing.T) {
	labels := []string{"app=web", "empty=", "tier=front"}
	for name, c := range map[string]struct {
		s    Selector
		want bool
	}{
		"no requirement":       {Selector{}, true},
		"none":                 {Selector{None: true}, false},
		"in":                   {Selector{Requirements: []Requirement{{Prefix: "app=", Values: []string{"db", "web"}}}}, true},
		"not in its values":    {Selector{Requirements: []Requirement{{Prefix: "app=", Values: []string{"db"}}}}, false},
		"in, label is missing": {Selector{Requirements: []Requirement{{Prefix: "zone=", Values: []string{""}}}}, false},
		"in, label is empty":   {Selector{Requirements: []Requirement{{Prefix: "empty=", Values: []string{""}}}}, true},
		"excluded":             {Selector{Requirements: []Requirement{{Prefix: "app=", Op: NotIn, Values: []string{"web"}}}}, false},
		"excluded and missing": {Selector{Requirements: []Requirement{{Prefix: "zone=", Op: NotIn, Values: []string{"a"}}}}, true},
		"exists":               {Selector{Requirements: []Requirement{{Prefix: "tier=", Op: Exists}}}, true},
		"does not exist":       {Selector{Requirements: []Requirement{{Prefix: "tier=", Op: DoesNotExist}}}, false},
		"one of two":           {Selector{Requirements: []Requirement{{Prefix: "tier=", Op: Exists}, {Prefix: "app=", Values: []string{"db"}}}}, false},
	} {
		if got := c.s.Matches(labels); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
