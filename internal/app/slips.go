// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/profile"
)

// slips finds the names of recommenders that are probably meant to be those of profiles. Reviews of several objects ask it at
// a time.
type slips struct {
	source profileLister
	ctx    context.Context // ends with the process

	mu    sync.Mutex
	asked time.Time
	names []string // the profiles that there were then; empty when that was not known
}

// Many objects with the name of another recommender may come at a time: for so long what was listed will do.
const (
	slipsKnown = 10 * time.Second
	slipsWait  = 2 * time.Second
)

// meant returns the profile that a name is probably a slip of, or "": also when it is not known which profiles there are.
func (s *slips) meant(name string) string {
	if _, builtin := recommend.Builtin(name); builtin {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.asked) < slipsKnown && profile.Slip(name, s.names) == "" {
		return ""
	}
	s.list()
	return profile.Slip(name, s.names)
}

// list asks which profiles there are. Where there can be none, or this process may not see them, that is those built in.
func (s *slips) list() {
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
