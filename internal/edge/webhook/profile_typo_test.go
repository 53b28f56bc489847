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

func TestHandler_misspelledProfile_returnsWarning(t *testing.T) {
	h := handler(worldOf(), Options{Profiles: similarNames{"ballanced": "balanced"}})
	with := func(recommenders string) string {
		return vpa(target + `,"updatePolicy":{"updateMode":"Off"},"recommenders":` + recommenders)
	}
	warning := []string{`spec.recommenders[0].name: podfit has no profile "ballanced"; did you mean "balanced"? ` +
		`podfit makes no recommendation for this object; another recommender may have that name`}
	for recommenders, want := range map[string][]string{
		`[{"name":"ballanced"}]`: warning, `[{"name":"frugal"}]`: nil, `[]`: nil, `[{}]`: nil, `[null]`: nil,
	} {
		for when, old := range map[string]string{"created": "", "updated": vpa(target)} {
			if r := reviewVPA(t, h, with(recommenders), old); !r.Allowed || len(r.Patch) > 0 || !slices.Equal(r.Warnings, want) {
				t.Errorf("%s, %s: %+v", recommenders, when, r)
			}
		}
	}
	if r := reviewVPA(t, handler(worldOf(), Options{}), with(`[{"name":"ballanced"}]`), ""); len(r.Warnings) > 0 {
		t.Errorf("without SimilarProfile: warnings %v", r.Warnings)
	}
}
