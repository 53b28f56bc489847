// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package deploy embeds the custom resource definitions in the binary, for "podfit crds".
//
// "kubectl apply -f deploy/" installs podfit from this directory. kubectl does not read subdirectories, so 00-crds.yaml contains
// the files of crds/. "make generate" writes both, and a test compares them.
package deploy

import (
	_ "embed"
	"slices"
)

//go:embed 00-crds.yaml
var crds []byte

// CRDs returns the custom resource definitions as one YAML stream.
func CRDs() []byte { return slices.Clone(crds) }
