// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"fmt"
)

// bounds are the minimum and the maximum of a field. Their only source are the markers in api/podfit/v1alpha1: the CRD is
// generated from the markers, and zz_generated.bounds.go from the CRD.
//
//go:generate go test . -run TestBounds -update
type bounds[T cmp.Ordered] struct{ least, most T }

// boundsOf returns the bounds of the field at a path below spec. It panics if the field has no bounds.
func boundsOf[B any](table map[string]B, path string) B {
	b, ok := table[path]
	if !ok {
		panic(fmt.Sprintf("field %s has no bounds in the CRD", path))
	}
	return b
}
