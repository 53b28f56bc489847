// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/profile"
)

// profileSource lists the SizingProfiles of the cluster.
type profileSource interface {
	List(context.Context) ([]kube.SizingProfile, error)
}

// slips finds the names of recommenders that are probably meant to be those of profiles. Reviews of several objects ask it at
// a time.
type typos struct {
	source profileSource
	ctx    context.Context // ends with the process

	mu    sync.Mutex
	asked time.Time
	since time.Time // when the current period began, of which extra counts the lists
	extra int
	names []string // the profiles that there were then; empty when that was not known
}

// Many objects with the name of another recommender may come at a time: for so long what was listed will do.
const (
	slipsKnown = 10 * time.Second
	slipsWait  = 2 * time.Second
	slipsExtra = 5 // lists in that time because of a name that looks mistyped
)

// meant returns the profile that a name is probably a slip of, or "": also when it is not known which profiles there are.
func (s *typos) meant(name string) string {
	if _, builtin := recommend.Builtin(name); builtin {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slip := profile.Typo(name, s.names)
	if time.Since(s.asked) < slipsKnown && (slip == "" || !s.mayListAgain()) {
		return slip
	}
	s.list()
	return profile.Typo(name, s.names)
}

// mayListAgain reports whether profiles may be listed again although they were just now, and counts it. A profile may have
// come together with the object that names it; but anybody can create objects with mistyped names as often as they like.
func (s *typos) mayListAgain() bool {
	if now := time.Now(); now.Sub(s.since) >= slipsKnown {
		s.since, s.extra = now, 0
	}
	s.extra++
	return s.extra <= slipsExtra
}

// list asks which profiles there are. Where there can be none, or this process may not see them, that is those built in.
func (s *typos) list() {
	ctx, cancel := context.WithTimeout(s.ctx, slipsWait)
	defer cancel()
	list, err := s.source.List(ctx)
	s.asked, s.names = time.Now(), nil
	if err != nil && !errors.Is(err, kube.ErrUnsupported) && !errors.Is(err, kube.ErrForbidden) {
		return
	}
	for i := range list {
		s.names = append(s.names, list[i].Name)
	}
	for _, b := range recommend.Builtins() {
		s.names = append(s.names, b.Name)
	}
}
