// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import "testing"

// An explanation that comes and goes must not hide that podfit stays behind upstream.
func TestLag_passesBehindUpstream_countsThoseWithoutExplanation(t *testing.T) {
	type pass struct{ missing, explained, undone int }
	tests := map[string]struct {
		passes []pass
		want   bool // behind for more than three passes
	}{
		"not behind":                              {[]pass{{}, {}, {}, {}, {}}, false},
		"three unexplained passes":                {[]pass{{1, 0, 0}, {1, 0, 0}, {1, 0, 0}}, false},
		"four unexplained passes":                 {[]pass{{1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}}, true},
		"explained passes":                        {[]pass{{2, 2, 0}, {2, 3, 0}, {2, 2, 0}, {2, 2, 0}, {2, 2, 0}}, false},
		"one of two pods is explained":            {[]pass{{2, 1, 0}, {2, 1, 0}, {2, 1, 0}, {2, 1, 0}}, true},
		"every other pass is explained":           {[]pass{{1, 0, 0}, {1, 1, 0}, {1, 0, 0}, {1, 1, 0}, {1, 0, 0}, {1, 1, 0}, {1, 0, 0}}, true},
		"podfit has as many pods in between":      {[]pass{{1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {1, 0, 0}}, false},
		"two of four passes after undone resizes": {[]pass{{1, 0, 0}, {1, 0, 1}, {1, 0, 1}, {1, 0, 2}}, false},
		"undone resizes before the lag":           {[]pass{{0, 0, 5}, {1, 0, 5}, {1, 0, 5}, {1, 0, 5}, {1, 0, 5}}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var l lag
			undone := 0
			for _, p := range tt.passes {
				undone = p.undone
				l.note(p.missing, p.explained, undone)
			}
			if got := l.exceeds(3, undone); got != tt.want {
				t.Errorf("exceeds three passes: %t, want %t", got, tt.want)
			}
		})
	}
}
