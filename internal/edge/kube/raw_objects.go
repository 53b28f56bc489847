// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	Spec              json.RawMessage `json:"spec"`
	Status            json.RawMessage `json:"status"`
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
	parameters          runtime.ParameterCodec
	resource, namespace string
}

// NewRawObjects returns a client of a kind of podfit.dev/v1alpha1. It sends no request.
func NewRawObjects(c *Clients, kind, resource, namespace string) (*Objects[RawObjectList, *RawObjectList], error) {
	scheme := runtime.NewScheme()
	gv := v1alpha1.GroupVersion()
	scheme.AddKnownTypeWithName(gv.WithKind(kind), &RawObject{})
	scheme.AddKnownTypeWithName(gv.WithKind(kind+"List"), &RawObjectList{})
	metav1.AddToGroupVersion(scheme, gv)
	client, parameters, err := c.ownWith(scheme)
	if err != nil {
		return nil, fmt.Errorf("create the client for %s objects: %w", kind, err)
	}
	return &Objects[RawObjectList, *RawObjectList]{client, parameters, resource, namespace}, nil
}

// AutoscalersIn returns a client of the autoscalers in a namespace; "" means all namespaces.
func (c *Clients) AutoscalersIn(namespace string) *Objects[AutoscalerList, *AutoscalerList] {
	return &Objects[AutoscalerList, *AutoscalerList]{c.Autoscalers, ListParameters, v1.ResourceAutoscalers, namespace}
}

// List returns one page.
func (r *Objects[List, P]) List(ctx context.Context, o metav1.ListOptions) (P, error) {
	list := P(new(List))
	err := r.client.Get().Namespace(r.namespace).Resource(r.resource).VersionedParams(&o, r.parameters).Do(ctx).Into(list)
	return list, err
}

// Watch opens a watch.
func (r *Objects[List, P]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return r.client.Get().Namespace(r.namespace).Resource(r.resource).VersionedParams(&o, r.parameters).Watch(ctx)
}
