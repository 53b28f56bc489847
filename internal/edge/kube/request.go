// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PageSize is the number of objects in one page of a list.
const PageSize = 500

// A PatchOp is one operation of a JSON patch.
type PatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Utc returns a time of the API in UTC, or the zero time if it is not set.
func Utc(t metav1.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// HasJSONForm reports whether a time can be written as JSON: its year in UTC has four digits. A time with an offset can be read although it
// has another year in UTC.
func HasJSONForm(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 0 && year <= 9999
}
