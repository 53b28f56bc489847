// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"slices"
	"testing"
)

// similarNames are profiles by misspelling.
type similarNames map[string]string

func (s similarNames) Similar(recommender string) string { return s[recommender] }

func TestHandler_misspelledProfile_isWarnedAbout(t *testing.T) {
	h := handler(remember(), Options{Profiles: similarNames{"ballanced": "balanced"}})
	with := func(recommenders string) string {
		return vpa(target + `,"updatePolicy":{"updateMode":"Off"},"recommenders":` + recommenders)
	}
	warned := []string{`spec.recommenders[0].name: podfit has no profile "ballanced"; did you mean "balanced"? ` +
		`podfit makes no recommendation for this object; another recommender may have that name`}
	for recommenders, want := range map[string][]string{
		`[{"name":"ballanced"}]`: warned, `[{"name":"frugal"}]`: nil, `[]`: nil, `[{}]`: nil, `[null]`: nil,
	} {
		for when, old := range map[string]string{"created": "", "updated": vpa(target)} {
			if r := verdict(t, h, with(recommenders), old); !r.Allowed || len(r.Patch) > 0 || !slices.Equal(r.Warnings, want) {
				t.Errorf("%s, %s: %+v", recommenders, when, r)
			}
		}
	}
	if r := verdict(t, handler(remember(), Options{}), with(`[{"name":"ballanced"}]`), ""); len(r.Warnings) > 0 {
		t.Errorf("where names are not looked at: %v", r.Warnings)
	}
}
