// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"fmt"
)

// bounds are the least and the most that a field may be. The markers in api/podfit/v1alpha1 are their only source: the CRD is
// generated from these, and zz_generated.bounds.go from the CRD.
//
//go:generate go test . -run TestBounds -update
type bounds[T cmp.Ordered] struct{ least, most T }

// boundsOf returns the bounds of the field at a path below spec, which has to have some.
func boundsOf[B any](table map[string]B, path string) B {
	b, ok := table[path]
	if !ok {
		panic(fmt.Sprintf("field %s has no bounds in the CRD", path))
	}
	return b
}
