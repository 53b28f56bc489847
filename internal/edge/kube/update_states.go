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
)

// An UpdateStateObject is an UpdateState whose decoding never fails. One object that Go cannot decode must not make the list of all others
// fail.
type UpdateStateObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              json.RawMessage `json:"spec"`
	Status            json.RawMessage `json:"status"`
}

// UpdateStateObjectList is a page of a list of UpdateStates.
type UpdateStateObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []UpdateStateObject `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (o *UpdateStateObject) DeepCopyObject() runtime.Object {
	return &UpdateStateObject{TypeMeta: o.TypeMeta, ObjectMeta: *o.ObjectMeta.DeepCopy(), Spec: slices.Clone(o.Spec), Status: slices.Clone(o.Status)}
}

// DeepCopyObject implements runtime.Object.
func (l *UpdateStateObjectList) DeepCopyObject() runtime.Object {
	out := &UpdateStateObjectList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*UpdateStateObject))
	}
	return out
}

// UpdateStates lists and watches the UpdateStates of a namespace; "" means all namespaces.
type UpdateStates struct {
	client     rest.Interface
	parameters runtime.ParameterCodec
	namespace  string
}

// NewUpdateStates returns a client of UpdateStates. It sends no request.
func NewUpdateStates(c *Clients, namespace string) (*UpdateStates, error) {
	scheme := runtime.NewScheme()
	gv := v1alpha1.GroupVersion()
	scheme.AddKnownTypeWithName(gv.WithKind("UpdateState"), &UpdateStateObject{})
	scheme.AddKnownTypeWithName(gv.WithKind("UpdateStateList"), &UpdateStateObjectList{})
	metav1.AddToGroupVersion(scheme, gv)
	client, parameters, err := c.ownWith(scheme)
	if err != nil {
		return nil, fmt.Errorf("create the client for UpdateState objects: %w", err)
	}
	return &UpdateStates{client, parameters, namespace}, nil
}

// List returns one page.
func (u *UpdateStates) List(ctx context.Context, o metav1.ListOptions) (*UpdateStateObjectList, error) {
	list := new(UpdateStateObjectList)
	err := u.client.Get().Namespace(u.namespace).Resource(v1alpha1.ResourceUpdateStates).VersionedParams(&o, u.parameters).Do(ctx).Into(list)
	return list, err
}

// Watch opens a watch.
func (u *UpdateStates) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return u.client.Get().Namespace(u.namespace).Resource(v1alpha1.ResourceUpdateStates).VersionedParams(&o, u.parameters).Watch(ctx)
}
