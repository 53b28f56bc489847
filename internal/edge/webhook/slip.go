// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"

	v1 "podfit.dev/podfit/api/v1"
)

// slip warns of a recommender's name that is nearly one of podfit's profiles: nobody would size by the object, and nobody
// would say so, for the name may be that of another recommender.
func (h *Handler) slip(s *v1.VerticalPodAutoscalerSpec) (warnings []string) {
	if h.options.SimilarProfile == nil || len(s.Recommenders) != 1 || s.Recommenders[0] == nil || s.Recommenders[0].Name == "" {
		return nil
	}
	name := s.Recommenders[0].Name
	meant := h.options.SimilarProfile(name)
	if meant == "" {
		return nil
	}
	return []string{fmt.Sprintf("spec.recommenders[0].name: podfit has no profile %q; did you mean %q? "+
		"Nothing is recommended for this object unless another recommender has that name", name, meant)}
}
