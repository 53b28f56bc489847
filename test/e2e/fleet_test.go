// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A custom resource with a scale subresource.
const fleets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: fleets.test.podfit.dev}
spec:
  group: test.podfit.dev
  scope: Namespaced
  names: {kind: Fleet, plural: fleets, singular: fleet, listKind: FleetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}}
`

// customResource checks a VPA whose target is a custom resource, the top-level owner of its pods.
func customResource(t *testing.T, name string) {
	p := newPlace(t, name)
	p.apply(fleets)
	t.Cleanup(func() {
		crds := p.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		if err := crds.Delete(context.Background(), "fleets.test.podfit.dev", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	fleet := "{apiVersion: test.podfit.dev/v1, kind: Fleet, metadata: {name: steady}, spec: {replicas: 2}, status: {replicas: 2, selector: app=steady}}"
	p.eventually("the kind is served", time.Minute, func(ctx context.Context) error { return p.ApplyYAML(ctx, p.ns, fleet) })
	owner, err := p.Dynamic.Resource(schema.GroupVersionResource{Group: "test.podfit.dev", Version: "v1", Resource: "fleets"}).
		Namespace(p.ns).Get(t.Context(), "steady", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := steady("steady")
	w.Kind = "ReplicaSet"
	w.Owner = fmt.Sprintf("{apiVersion: test.podfit.dev/v1, kind: Fleet, name: steady, uid: %s, controller: true}", owner.GetUID())
	p.apply(w.manifest())
	old := p.start("steady", 2)
	p.apply(autoscaler("steady", "Fleet", "steady", "Recreate", ""))
	p.eventually("the pods of the fleet are sized", measured+resized, p.sized("steady", 2, steadyTarget))
	if p.same("steady", old)(t.Context()) == nil {
		t.Error("the pods had the recommended size before")
	}
	p.checkAnnotations("steady")
}
