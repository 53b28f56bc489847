// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"

	v1 "podfit.dev/podfit/api/v1"
)

// misspelledProfile returns a warning if the recommender name is probably a misspelled profile name. Such a VPA gets no recommendation.
// It is not an error, because another recommender may have the name.
func (h *Handler) misspelledProfile(s *v1.VerticalPodAutoscalerSpec) (warnings []string) {
	if h.options.Profiles == nil || len(s.Recommenders) != 1 || s.Recommenders[0] == nil || s.Recommenders[0].Name == "" {
		return nil
	}
	name := s.Recommenders[0].Name
	profile := h.options.Profiles.Similar(name)
	if profile == "" {
		return nil
	}
	return []string{fmt.Sprintf("spec.recommenders[0].name: podfit has no profile %q; did you mean %q? "+
		"podfit makes no recommendation for this object; another recommender may have that name", name, profile)}
}
