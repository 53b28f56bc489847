// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "podfit.dev/podfit/api/v1"
)

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
