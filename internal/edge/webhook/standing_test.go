// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestStandingOf_podSpec_isConverted(t *testing.T) {
	known := cluster.Standing{Terminating: cluster.No, CrossNamespaceAffinity: cluster.No, PriorityClassKnown: true}
	with := func(change func(*cluster.Standing)) cluster.Standing {
		s := known
		change(&s)
		return s
	}
	crosses := with(func(s *cluster.Standing) { s.CrossNamespaceAffinity = cluster.Yes })
	required := func(terms string) string {
		return `"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[` + terms + `]}}`
	}
	preferred := func(terms string) string {
		return `"affinity":{"podAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[` + terms + `]}}`
	}
	for name, c := range map[string]struct {
		spec string
		want cluster.Standing
	}{
		"no fields":      {`"nodeName":""`, known},
		"null":           {`"affinity":null,"overhead":null,"activeDeadlineSeconds":null,"priorityClassName":null`, known},
		"deadline":       {`"activeDeadlineSeconds":0`, with(func(s *cluster.Standing) { s.Terminating = cluster.Yes })},
		"priority class": {`"priorityClassName":"high"`, with(func(s *cluster.Standing) { s.PriorityClass = "high" })},
		"overhead": {`"overhead":{"cpu":"50m","memory":"1Mi"}`, with(func(s *cluster.Standing) {
			s.Overhead = cluster.Amounts(50, 1<<20)
		})},
		"own namespace":       {required(`{"topologyKey":"a","namespaces":[],"namespaceSelector":null}`), known},
		"named namespace":     {required(`{"topologyKey":"a"},{"namespaces":["b"]}`), crosses},
		"selected namespaces": {preferred(`{"weight":1,"podAffinityTerm":{"namespaceSelector":{}}}`), crosses},
		"too many terms": {required(strings.TrimSuffix(strings.Repeat(`{},`, maxTerms+1), ",")), with(func(s *cluster.Standing) {
			s.CrossNamespaceAffinity = cluster.Unknown
		})},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := decodePod([]byte(`{"metadata":{"name":"a"},"spec":{"containers":[{"name":"app"}],` + c.spec + `}}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := standingOf(p); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
