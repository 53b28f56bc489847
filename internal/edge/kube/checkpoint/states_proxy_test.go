// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"net/http"
	"testing"

	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// A proxy answers 404 for the resource and 403 for the discovery documents. That is no missing CRD: only the API server can say that the
// updater may not read them.
func TestStates_proxyForbidsDiscovery_isNoMissingCRD(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	s := newStates(t, f, StorageOptions{})
	f.Reply("POST "+statesOfOne, http.StatusNotFound, "404 page not found")
	f.Reply("GET /apis/podfit.dev/v1alpha1", http.StatusForbidden, "<html>403 Forbidden</html>")
	state := fullState()
	if _, err := s.Write(t.Context(), noon, &state); err == nil || errors.Is(err, kube.ErrUnsupported) {
		t.Errorf("write: %v, want an error that is no missing CRD", err)
	}
}
