// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// A selectorHolder has the fields of controllers that select their pods.
type selectorHolder struct {
	Spec struct {
		Selector    json.RawMessage `json:"selector"`
		JobTemplate struct {
			Spec struct {
				Template struct {
					Metadata metav1.ObjectMeta `json:"metadata"`
				} `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
}

// Selector reads the pod selector of a controller from the API server. It is for deleted pods of which only the labels are
// known. For a controller without a selector, or of a kind that is not built in, the selector selects nothing.
func (w *World) Selector(ctx context.Context, c cluster.Workload) (labels.Selector, error) {
	if !projection.KindOf(c).IsWellKnown() {
		return labels.Nothing(), nil
	}
	at := projection.ResourceOfWellKnown(c.Kind)
	path := []string{"/apis", at.Group, at.Version}
	if at.Group == "" {
		path = []string{"/api", at.Version}
	}
	raw, err := w.clients.Core.CoreV1().RESTClient().Get().AbsPath(path...).Namespace(c.Namespace).Resource(at.Resource).Name(c.Name).
		SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("read the selector of %s: %w", c, kube.Refused(err))
	}
	s, err := parseSelector(c.Kind, raw)
	if err != nil {
		return nil, fmt.Errorf("read the selector of %s: %w", c, err)
	}
	return s, nil
}

// parseSelector returns the pod selector of a controller in JSON.
func parseSelector(kind string, object []byte) (labels.Selector, error) {
	var o selectorHolder
	if err := json.Unmarshal(object, &o); err != nil {
		return nil, err
	}
	switch {
	case kind == "CronJob":
		return exactly(o.Spec.JobTemplate.Spec.Template.Metadata.Labels), nil
	case len(o.Spec.Selector) == 0:
		return labels.Nothing(), nil
	case kind == "ReplicationController":
		var m map[string]string
		if err := json.Unmarshal(o.Spec.Selector, &m); err != nil {
			return nil, err
		}
		return exactly(m), nil
	}
	var s metav1.LabelSelector
	if err := json.Unmarshal(o.Spec.Selector, &s); err != nil {
		return nil, err
	}
	return metav1.LabelSelectorAsSelector(&s)
}

// exactly selects objects with all of the labels, and nothing if there are no labels.
func exactly(m map[string]string) labels.Selector {
	if len(m) == 0 {
		return labels.Nothing()
	}
	return labels.SelectorFromSet(m)
}
