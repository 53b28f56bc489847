// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
)

// A RawObject is an object of podfit.dev/v1alpha1 whose decoding never fails. One object that Go cannot decode must not make the list of all
// others fail.
type RawObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              json.RawMessage `json:"spec,omitempty"`
	Status            json.RawMessage `json:"status,omitempty"`
}

// RawObjectList is a page of a list of RawObjects.
type RawObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []RawObject `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (o *RawObject) DeepCopyObject() runtime.Object {
	return &RawObject{TypeMeta: o.TypeMeta, ObjectMeta: *o.ObjectMeta.DeepCopy(), Spec: slices.Clone(o.Spec), Status: slices.Clone(o.Status)}
}

// DeepCopyObject implements runtime.Object.
func (l *RawObjectList) DeepCopyObject() runtime.Object {
	out := &RawObjectList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*RawObject))
	}
	return out
}

// Objects lists and watches the objects of a kind in a namespace; "" means all namespaces. List is the type of a page.
type Objects[List any, P interface {
	*List
	runtime.Object
}] struct {
	client              rest.Interface
	resource, namespace string
}

// rawScheme has kinds of podfit.dev/v1alpha1 with RawObject as their type.
func rawScheme(gv schema.GroupVersion) *runtime.Scheme {
	s := runtime.NewScheme()
	for _, kind := range []string{v1alpha1.KindSizingProfile, v1alpha1.KindUpdateState} {
		s.AddKnownTypeWithName(gv.WithKind(kind), &RawObject{})
		s.AddKnownTypeWithName(gv.WithKind(kind+"List"), &RawObjectList{})
	}
	metav1.AddToGroupVersion(s, gv)
	return s
}

// RawObjectsIn returns a client of SizingProfiles or UpdateStates in a namespace; "" means all namespaces.
func (c *Clients) RawObjectsIn(resource, namespace string) *Objects[RawObjectList, *RawObjectList] {
	return &Objects[RawObjectList, *RawObjectList]{c.raw, resource, namespace}
}

// AutoscalersIn returns a client of the autoscalers in a namespace; "" means all namespaces.
func (c *Clients) AutoscalersIn(namespace string) *Objects[AutoscalerList, *AutoscalerList] {
	return &Objects[AutoscalerList, *AutoscalerList]{c.Autoscalers, v1.ResourceAutoscalers, namespace}
}

// List returns one page.
func (r *Objects[List, P]) List(ctx context.Context, o metav1.ListOptions) (P, error) {
	list := P(new(List))
	err := r.client.Get().Namespace(r.namespace).Resource(r.resource).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(list)
	return list, err
}

// Watch opens a watch.
func (r *Objects[List, P]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return r.client.Get().Namespace(r.namespace).Resource(r.resource).VersionedParams(&o, metav1.ParameterCodec).Watch(ctx)
}
