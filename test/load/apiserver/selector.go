// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/url"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// A selector selects objects by labels and fields.
type selector struct {
	labels labels.Selector
	fields fields.Selector
}

func selectorOf(query url.Values) (selector, error) {
	l, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return selector{}, err
	}
	f, err := fields.ParseSelector(query.Get("fieldSelector"))
	return selector{labels: l, fields: f}, err
}

func (s selector) everything() bool { return s.labels.Empty() && s.fields.Empty() }

func (s selector) matches(o *Object) bool {
	return o != nil && (s.labels.Empty() || s.labels.Matches(o.Labels)) && (s.fields.Empty() || s.fields.Matches(fieldsOf{o}))
}

// fieldsOf has the fields of an object that field selectors may name.
type fieldsOf struct{ *Object }

// Has implements fields.Fields.
func (f fieldsOf) Has(field string) bool { return f.Get(field) != "" }

// Get implements fields.Fields.
func (f fieldsOf) Get(field string) string {
	switch field {
	case "metadata.name":
		return f.Name
	case "metadata.namespace":
		return f.Namespace
	case "reason":
		return f.reason
	}
	if f.Pod != nil {
		switch field {
		case "status.phase":
			return f.Pod.Phase
		case "spec.nodeName":
			return f.Pod.Node
		}
	}
	return ""
}
