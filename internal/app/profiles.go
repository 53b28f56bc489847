// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
)

// defaultProfile is the profile of autoscalers that name none. The flags shape it; its numbers are upstream's.
const defaultProfile = "default"

// profiles are the ways to size that autoscalers may name.
type profiles struct {
	byName map[string]recommend.Profile
	given  bool                        // --recommender-name was given: it alone says who is served, as upstream has it
	chosen map[cluster.Workload]string // whose extension each workload's history has
}

// newProfiles returns the built-in profiles, the default one as the flags shape it.
func newProfiles(c *RecommenderConfig) *profiles {
	p := &profiles{byName: map[string]recommend.Profile{}, given: c.nameGiven(), chosen: map[cluster.Workload]string{}}
	for _, b := range recommend.Builtins() {
		p.byName[b.Name] = b
	}
	params := c.Sizing.params()
	d := p.byName[defaultProfile]
	d.Params, d.Estimator = params, recommend.Default(params)
	p.byName[defaultProfile] = d
	return p
}

// of returns the profile that sizes an autoscaler's workload.
func (p *profiles) of(a *cluster.Autoscaler) recommend.Profile {
	if !p.given {
		if b, ok := p.byName[a.Recommender]; ok {
			return b
		}
	}
	return p.byName[defaultProfile]
}

// knows reports whether an autoscaler names a profile.
func (p *profiles) knows(a *cluster.Autoscaler) bool {
	_, ok := p.byName[a.Recommender]
	return ok && !p.given
}

// extend makes the history of the workloads remember what their profiles need. Of several autoscalers of one workload
// the one that governs it decides; the others are sized by what is remembered for it.
func (p *profiles) extend(book *usage.Book, s *kube.Snapshot, governed map[cluster.Workload]bool, elect func(*kube.Snapshot, cluster.Workload) *cluster.Autoscaler) {
	for w := range governed {
		profile := p.of(elect(s, w))
		before := p.chosen[w]
		if before == profile.Name {
			continue
		}
		if before != "" && p.byName[before].Extend != nil {
			book.Extend(w, nil)
		}
		if profile.Extend != nil {
			book.Extend(w, profile.Extend)
		}
		p.chosen[w] = profile.Name
	}
	for w := range p.chosen {
		if !governed[w] {
			if p.byName[p.chosen[w]].Extend != nil {
				book.Extend(w, nil)
			}
			delete(p.chosen, w)
		}
	}
}
