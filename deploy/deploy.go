// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package deploy carries the custom resource definitions in the binary, so that "podfit crds" prints the ones it was built with.
//
// The folder is what an administrator applies: "kubectl apply -f deploy/" installs everything. kubectl does not look into
// sub-folders, so 00-crds.yaml repeats crds/; "make generate" writes both, and a test compares them.
package deploy

import (
	_ "embed"
	"slices"
)

//go:embed 00-crds.yaml
var crds []byte

// CRDs returns the custom resource definitions as one YAML stream.
func CRDs() []byte { return slices.Clone(crds) }
