// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rationale

import (
	"testing"
	"unicode/utf8"
)

// A condition that is accepted is accepted in the form that the output shows, with the same meaning.
func FuzzParseIf_anyText_acceptedOnesAreReadAgain(f *testing.F) {
	for _, k := range IfKeys() {
		f.Add(k.Form)
	}
	for _, s := range []string{"profile=cost", "without=2026-11-21", "maxAllowed=1.5Gi", "minAllowed.cpu=0.1m", "maxAllowed=1e9", "maxAllowed=m", "hpa=", "=", " decide = anew "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseIf(text)
		if err != nil || !utf8.ValidString(text) {
			return
		}
		again, err := ParseIf(got.String())
		if err != nil || again != got {
			t.Errorf("%q is read as %+v, and %q as %+v, error %v", text, got, got.String(), again, err)
		}
	})
}
