// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/runtimeguard"
)

// The types of this file decode what shows the language runtime of a container. They never fail, so that such a field is no reason to admit
// a pod unchanged, and keep only what runtimeguard reads.

// environment is the variables of a container that runtimeguard reads. The list is not nil if the container has a list.
type environment struct {
	list []corev1.EnvVar
	more bool // some variables were not read
}

func (e *environment) UnmarshalJSON(text []byte) error {
	*e = environment{}
	if bytes.Equal(text, null) {
		return nil
	}
	e.list = []corev1.EnvVar{}
	err := elements(text, runtimeguard.MostVariables, tooManyValues, func(element []byte) error {
		if isOther(element) {
			return nil
		}
		var from struct {
			Name  shortText `json:"name"`
			Value shortText `json:"value"`
		}
		if kjson.Unmarshal(element, &from) != nil {
			e.more = true
		} else if runtimeguard.IsRead(string(from.Name)) {
			e.list = append(e.list, corev1.EnvVar{Name: string(from.Name), Value: string(from.Value)})
		}
		return nil
	})
	e.more = e.more || err != nil
	return nil
}

// isOther reports whether a variable is certainly none that is read. It saves decoding most variables.
func isOther(element []byte) bool {
	name, ok := bytes.CutPrefix(element, []byte(`{"name":"`))
	if !ok {
		return false
	}
	end := bytes.IndexByte(name, '"')
	return end >= 0 && bytes.IndexByte(name[:end], '\\') < 0 && !runtimeguard.IsRead(string(name[:end]))
}

// shortText is a string of which only the beginning is kept.
type shortText string

func (s *shortText) UnmarshalJSON(text []byte) error {
	const quotes = len(`""`)
	if text[0] == '"' && len(text) <= runtimeguard.MostText+quotes && bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		*s = shortText(text[1 : len(text)-1])
		return nil
	}
	var whole string
	if err := kjson.Unmarshal(text, &whole); err != nil {
		return err
	}
	if len(whole) > runtimeguard.MostText {
		whole = strings.Clone(whole[:runtimeguard.MostText])
	}
	*s = shortText(whole)
	return nil
}

// words is the beginning of a list of strings.
type words []string

func (w *words) UnmarshalJSON(text []byte) error {
	*w = nil
	_ = elements(text, runtimeguard.MostWords, tooManyValues, func(element []byte) error {
		var word shortText
		_ = kjson.Unmarshal(element, &word)
		*w = append(*w, string(word))
		return nil
	})
	return nil
}

// nonEmpty is whether a field contains a list with elements.
type nonEmpty bool

func (n *nonEmpty) UnmarshalJSON(text []byte) error {
	*n = elements(text, 0, tooManyValues, nil) != nil // no element is allowed
	return nil
}

// runtimeLabels are the labels of a pod that name runtimes.
type runtimeLabels map[string]string

func (l *runtimeLabels) UnmarshalJSON(text []byte) error {
	*l = nil
	if !bytes.Contains(text, []byte("podfit.dev/")) || values(text) > 1+2*runtimeguard.MostLabels { // the object, names and values
		return nil
	}
	var all map[string]shortText
	if kjson.Unmarshal(text, &all) != nil {
		return nil
	}
	for key, value := range all {
		if key == runtimeguard.Label || strings.HasPrefix(key, runtimeguard.LabelPrefix) {
			cluster.Put(l, key, string(value))
		}
	}
	return nil
}
