// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/edge/kube"
)

// listed are the profiles of a cluster. It counts how often they are listed.
type listed struct {
	profiles []string
	err      error
	times    int
}

func (l *listed) List(context.Context) ([]kube.SizingProfile, error) {
	l.times++
	if l.err != nil {
		return nil, l.err
	}
	var out []kube.SizingProfile
	for _, name := range l.profiles {
		out = append(out, kube.SizingProfile{Name: name})
	}
	return out, nil
}

func TestASlipOfAProfileIsFoundWhereProfilesAreKnown(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want map[string]string
	}{
		"known":                  {nil, map[string]string{"ballanced": "balanced", "nightli": "nightly", "balanced2": "", "balanced": "", "frugal": ""}},
		"no definition":          {kube.ErrUnsupported, map[string]string{"ballanced": "balanced", "nightli": "", "frugal": ""}},
		"no right":               {kube.ErrForbidden, map[string]string{"ballanced": "balanced", "nightli": "", "frugal": ""}},
		"the API server is away": {errors.New("it is away"), map[string]string{"ballanced": "", "frugal": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &listed{profiles: []string{"nightly", "balanced2"}, err: tt.err}
			for recommender, want := range tt.want {
				s := &typos{source: l, ctx: t.Context()}
				if got := s.meant(recommender); got != want {
					t.Errorf("%s: %q, want %q", recommender, got, want)
				}
			}
		})
	}
}

func TestObjectsOfAnotherRecommenderDoNotListProfilesEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listed{}
		s := &typos{source: l, ctx: t.Context()}
		for range 100 {
			if got := s.meant("frugal"); got != "" {
				t.Fatal(got)
			}
		}
		if l.times != 1 {
			t.Errorf("listed %d times", l.times)
		}
		l.profiles = []string{"balance"} // applied together with the autoscaler that names it
		if got := s.meant("balance"); got != "" {
			t.Errorf("a profile that has just come is taken for a slip of %q", got)
		}
		time.Sleep(time.Minute)
		if s.meant("frugal"); l.times != 3 {
			t.Errorf("after a minute it was listed %d times", l.times)
		}
		l.err = errors.New("away")
		time.Sleep(time.Minute)
		for range 100 {
			if got := s.meant("ballanced"); got != "" {
				t.Fatal(got)
			}
		}
		if l.times != 4 {
			t.Errorf("while the API server is away it was asked %d times", l.times)
		}
	})
}

func TestSlips_manyMistypedNames_listProfilesInBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listed{}
		s := &typos{source: l, ctx: t.Context()}
		for range 1000 {
			if got := s.meant("ballanced"); got != "balanced" {
				t.Fatalf("the name is taken for %q", got)
			}
		}
		if l.times > 1+slipsExtra {
			t.Errorf("profiles are listed %d times at once", l.times)
		}
		time.Sleep(slipsKnown)
		if before := l.times; s.meant("ballanced") != "balanced" || l.times != before+1 {
			t.Errorf("after a while they are listed %d times more", l.times-before)
		}
	})
}
