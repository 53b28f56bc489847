// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"flag"
	"testing"
)

// setFlag sets a flag of rapid until the test ends, unless the flag was set on the command line.
func setFlag(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	before := f.Value.String()
	if before != f.DefValue {
		return
	}
	if err := f.Value.Set(value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Value.Set(before); err != nil {
			t.Error(err)
		}
	})
}
