// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import "testing"

func TestReflow_paragraphsAndLists_areWrappedApart(t *testing.T) {
	for name, tt := range map[string]struct {
		width      int
		text, want string
	}{
		"paragraphs": {20, "One two three\nfour five.\n\nSix seven eight nine ten.", "One two three four\nfive.\n\nSix seven eight nine\nten."},
		"wider":      {40, "One two three\nfour five.", "One two three four five."},
		"list":       {30, "Codes:\n  0  success\n  1  failure: a file cannot\n     be read", "Codes:\n  0  success\n  1  failure: a file cannot be\n     read"},
		"names":      {34, "  run      all of them in one process\n  updater  one", "  run      all of them in one\n           process\n  updater  one"},
		"long names": {24, "  a-very-long-name  its description", "  a-very-long-name\n        its description"},
		"own lines":  {30, "Keys:\n  profile=NAME\n      the workload has another profile\n  hpa=ignore\n      none", "Keys:\n  profile=NAME\n      the workload has another\n      profile\n  hpa=ignore\n      none"},
		"long word":  {10, "see https://example.com/a/long/address now", "see\nhttps://example.com/a/long/address\nnow"},
		"empty":      {10, "", ""},
	} {
		if got := Reflow(tt.text, tt.width); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}

func TestMistakes_oneOrSeveral_areOneOrSeveralLines(t *testing.T) {
	for text, want := range map[string]string{
		"a is wrong":             "a is wrong",
		"a is wrong\nb is wrong": "the call has 2 mistakes:\n  a is wrong\n  b is wrong",
	} {
		if got := Mistakes(textError(text)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

type textError string

func (e textError) Error() string { return string(e) }
