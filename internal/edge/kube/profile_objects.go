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

// A ProfileObject is a SizingProfile whose decoding never fails. One object that Go cannot decode must not make the list of all others fail.
type ProfileObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              json.RawMessage `json:"spec"`
}

// ProfileObjectList is a page of a list of SizingProfiles.
type ProfileObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ProfileObject `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (o *ProfileObject) DeepCopyObject() runtime.Object {
	return &ProfileObject{TypeMeta: o.TypeMeta, ObjectMeta: *o.ObjectMeta.DeepCopy(), Spec: slices.Clone(o.Spec)}
}

// DeepCopyObject implements runtime.Object.
func (l *ProfileObjectList) DeepCopyObject() runtime.Object {
	out := &ProfileObjectList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, ProfileObject{TypeMeta: l.Items[i].TypeMeta, ObjectMeta: *l.Items[i].ObjectMeta.DeepCopy(), Spec: slices.Clone(l.Items[i].Spec)})
	}
	return out
}

// ProfileObjects lists and watches SizingProfiles. Profiles is for callers that only list them.
type ProfileObjects struct {
	client     rest.Interface
	parameters runtime.ParameterCodec
}

// NewProfileObjects returns a client of SizingProfiles. It sends no request.
func NewProfileObjects(c *Clients) (*ProfileObjects, error) {
	scheme := runtime.NewScheme()
	gv := v1alpha1.GroupVersion()
	scheme.AddKnownTypeWithName(gv.WithKind(v1alpha1.KindSizingProfile), &ProfileObject{})
	scheme.AddKnownTypeWithName(gv.WithKind(v1alpha1.KindSizingProfile+"List"), &ProfileObjectList{})
	metav1.AddToGroupVersion(scheme, gv)
	client, parameters, err := c.ownWith(scheme)
	if err != nil {
		return nil, fmt.Errorf("create the client for SizingProfiles: %w", err)
	}
	return &ProfileObjects{client, parameters}, nil
}

// List returns one page.
func (p *ProfileObjects) List(ctx context.Context, o metav1.ListOptions) (*ProfileObjectList, error) {
	list := new(ProfileObjectList)
	err := p.client.Get().Resource(v1alpha1.ResourceSizingProfiles).VersionedParams(&o, p.parameters).Do(ctx).Into(list)
	return list, err
}

// Watch opens a watch.
func (p *ProfileObjects) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return p.client.Get().Resource(v1alpha1.ResourceSizingProfiles).VersionedParams(&o, p.parameters).Watch(ctx)
}
