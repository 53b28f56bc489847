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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/gentype"
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

// DeepCopyObject implements runtime.Object.
func (o *RawObject) DeepCopyObject() runtime.Object {
	return &RawObject{TypeMeta: o.TypeMeta, ObjectMeta: *o.ObjectMeta.DeepCopy(), Spec: slices.Clone(o.Spec), Status: slices.Clone(o.Status)}
}

// A List is a page of a list of objects of type T.
type List[T any, P object[T]] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []T `json:"items"`
}

type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// DeepCopyObject implements runtime.Object.
func (l *List[T, P]) DeepCopyObject() runtime.Object {
	out := &List[T, P]{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *P(&l.Items[i]).DeepCopyObject().(P))
	}
	return out
}

// RawObjectList is a list of objects whose decoding never fails.
type RawObjectList = List[RawObject, *RawObject]

// AutoscalerList is a list of VPAs whose decoding never fails.
type AutoscalerList = List[AutoscalerObject, *AutoscalerObject]

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
func (c *Clients) RawObjectsIn(resource, namespace string) *gentype.ClientWithList[*RawObject, *RawObjectList] {
	return objectsIn[RawObject](c.raw, resource, namespace)
}

// AutoscalersIn returns a client of the autoscalers in a namespace; "" means all namespaces.
func (c *Clients) AutoscalersIn(namespace string) *gentype.ClientWithList[*AutoscalerObject, *AutoscalerList] {
	return objectsIn[AutoscalerObject](c.Autoscalers, v1.ResourceAutoscalers, namespace)
}

func objectsIn[T any, P object[T]](client rest.Interface, resource, namespace string) *gentype.ClientWithList[P, *List[T, P]] {
	return gentype.NewClientWithList(resource, client, metav1.ParameterCodec, namespace, func() P { return new(T) }, func() *List[T, P] { return new(List[T, P]) })
}

// A SizingProfile is one object of the API server.
type SizingProfile struct {
	Name    string
	Version string // changes whenever the object changes
	JSON    []byte
}

// SizingProfiles returns all SizingProfiles, in the order of the API server. The error is ErrUnsupported if the CRD is not installed, and
// ErrForbidden if podfit has no right to list them.
func (c *Clients) SizingProfiles(ctx context.Context) ([]SizingProfile, error) {
	objects := c.RawObjectsIn(v1alpha1.ResourceSizingProfiles, metav1.NamespaceAll)
	var out []SizingProfile
	err := EachPage(ctx, metav1.ListOptions{Limit: PageSize}, objects.List, func(page *RawObjectList) error {
		for i := range page.Items {
			o := &page.Items[i]
			data, err := json.Marshal(o)
			if err != nil {
				return fmt.Errorf("encode sizing profile %s: %w", o.Name, err)
			}
			out = append(out, SizingProfile{Name: o.Name, Version: string(o.UID) + "/" + o.ResourceVersion, JSON: data})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list sizing profiles: %w", Refused(err))
	}
	return out, nil
}

// An AutoscalerObject is an autoscaler whose decoding never fails. The schema of the CRD allows objects that Go cannot decode, for
// example with the quantity "1.2.3". Such an object must not make the list of all others fail.
type AutoscalerObject struct {
	v1.VerticalPodAutoscaler
	Problem string // why spec or status could not be decoded; then the spec is empty
}

// UnmarshalJSON decodes an autoscaler. If that fails, it decodes the metadata, and the status if possible.
func (o *AutoscalerObject) UnmarshalJSON(data []byte) error {
	var whole v1.VerticalPodAutoscaler
	err := v1.CheckQuantities(data)
	if err == nil {
		err = json.Unmarshal(data, &whole)
	}
	if err == nil {
		*o = AutoscalerObject{VerticalPodAutoscaler: whole}
		return nil
	}
	var parts struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Status          json.RawMessage   `json:"status"`
	}
	if partsErr := json.Unmarshal(data, &parts); partsErr != nil {
		return partsErr
	}
	*o = AutoscalerObject{Problem: err.Error()}
	o.TypeMeta = parts.TypeMeta
	o.ObjectMeta = parts.Metadata
	var status v1.VerticalPodAutoscalerStatus
	if v1.CheckQuantities(parts.Status) == nil && json.Unmarshal(parts.Status, &status) == nil {
		o.Status = status
	}
	return nil
}

// DeepCopyObject implements runtime.Object.
func (o *AutoscalerObject) DeepCopyObject() runtime.Object {
	return &AutoscalerObject{VerticalPodAutoscaler: *o.DeepCopy(), Problem: o.Problem}
}

// autoscalerScheme has the kinds of the API group, with AutoscalerObject as the type of autoscalers.
func autoscalerScheme(gv schema.GroupVersion) *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypeWithName(gv.WithKind("VerticalPodAutoscaler"), &AutoscalerObject{})
	s.AddKnownTypeWithName(gv.WithKind("VerticalPodAutoscalerList"), &AutoscalerList{})
	s.AddKnownTypes(gv, &v1.VerticalPodAutoscalerCheckpoint{}, &v1.VerticalPodAutoscalerCheckpointList{})
	metav1.AddToGroupVersion(s, gv)
	return s
}
