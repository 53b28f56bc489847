// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"os"
	"regexp"
	"testing"

	"podfit.dev/podfit/internal/core/gate"
)

// A gate without words is shown by its name in the code.
func TestGates_each_hasWords(t *testing.T) {
	source, err := os.ReadFile("../../../core/gate/gate.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`Name = "(\w+)"|\bName\s+= "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(found) != len(gates) {
		t.Errorf("%d gates, and %d have words", len(found), len(gates))
	}
	for _, m := range found {
		if name := gate.Name(m[1] + m[2]); gateWords(name) == string(name) {
			t.Errorf("gate %s has no words", name)
		}
	}
}
