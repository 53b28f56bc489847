// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"fmt"
	"testing"

	"podfit.dev/podfit/test/kubetest"
)

func TestWorld_surging_hasDeploymentsWithTheAnnotation(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	const collection = "/apis/apps/v1/deployments"
	apply := func(name, annotation string) {
		f.Apply(collection, fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":%q,"uid":%q,"annotations":{%q:"{}"}}}`, name, name, annotation))
	}
	apply("web", "podfit.dev/surge")
	apply("cart", "other")
	f.Apply("/apis/autoscaling/v2/horizontalpodautoscalers", `{"metadata":{"namespace":"shop","name":"cart","uid":"h"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"cart"},
		"metrics":[{"type":"External","external":{"metric":{"name":"queue"}}}]}}`)
	w := startWorld(t, f, Options{HPAs: true})
	names := func() string {
		text := ""
		for _, d := range w.Surging() {
			text += d.String() + " "
		}
		return text
	}
	if got := names(); got != "shop/Deployment/web " {
		t.Errorf("got %q", got)
	}
	scaled, known := w.Scaled()
	if !known || len(scaled) != 1 {
		t.Errorf("scaled by an HPA: %v, known %t", scaled, known)
	}
	apply("cart", "podfit.dev/surge")
	apply("web", "other")
	kubetest.Eventually(t, "the watch shows the change", func() bool { return names() == "shop/Deployment/cart " })
	f.Delete(collection, "shop/cart")
	kubetest.Eventually(t, "the watch shows the deletion", func() bool { return names() == "" })
	if _, known := startWorld(t, f, Options{}).Scaled(); known {
		t.Error("HPAs are known although they are not watched")
	}
}
