// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// The recommender reads the annotations of namespaces itself: pods with 400m and 1Gi that need less get a tenth less at once.
func TestRecommender_maxStepOfTheNamespace_limitsTheStatus(t *testing.T) {
	s := newShop(t, 1)
	s.apply("/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","annotations":{"podfit.dev/max-step":"10%%"}}}`)
	s.apply("/apis/metrics.k8s.io/v1beta1/pods", `{"metadata":{"namespace":"shop","name":"cart-7d9f-0"},"timestamp":%q,"window":"30s",
		"containers":[{"name":"app","usage":{"cpu":"100m","memory":"200Mi"}}]}`, ago(10*time.Second))
	s.recommend(false)
	status, err := json.Marshal(s.api.Object(vpasPath, "shop/cart")["status"])
	if want := `"target":{"cpu":"360m","memory":"966367641"}`; err != nil || !strings.Contains(string(status), want) {
		t.Errorf("no %s in %s, error %v", want, status, err)
	}
}
