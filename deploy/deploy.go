// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package deploy carries the custom resource definitions in the binary, so that "podfit crds" prints the ones it was built with.
//
// The folder is what an administrator applies: "kubectl apply -f deploy/" installs everything. kubectl does not look into
// sub-folders, so 00-crds.yaml repeats crds/; "make generate" writes both, and a test compares them.
package deploy

import (
	"bytes"
	"embed"
	"fmt"
)

//go:embed crds/*.yaml
var crds embed.FS

// CRDs returns the custom resource definitions as one YAML stream, sorted by name.
func CRDs() ([]byte, error) {
	entries, err := crds.ReadDir("crds")
	if err != nil {
		return nil, fmt.Errorf("list the embedded CRDs: %w", err)
	}
	var out bytes.Buffer
	for _, e := range entries {
		b, err := crds.ReadFile("crds/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("read the embedded CRD %s: %w", e.Name(), err)
		}
		out.Write(b)
	}
	return out.Bytes(), nil
}
