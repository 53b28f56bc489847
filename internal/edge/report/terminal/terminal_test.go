// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"slices"
	"testing"
)

func TestRows_wideLettersAndLongCells_areAlignedAndCut(t *testing.T) {
	rows := [][]string{{"POOL", "CPU", "ADVICE"}, {"生命", "12", ""}, {"a-long-name", "3", "wait"}}
	if got, want := Widths(rows), []int{11, 3, 6}; !slices.Equal(got, want) {
		t.Errorf("widths %v, want %v", got, want)
	}
	got := Rows([]Column{{Width: 6}, {Width: 3, Right: true}, {Width: 6}}, rows)
	want := []string{
		"POOL    CPU  ADVICE",
		"生命     12",
		"a-lon…    3  wait",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Rows(nil, nil); len(got) != 0 || Widths(nil) != nil {
		t.Errorf("a table without rows: %q", got)
	}
}

func TestWrap_longText_isBrokenBetweenWords(t *testing.T) {
	if got, want := Wrap("three words and 生命 more", 10), []string{"three", "words and", "生命 more"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPad_wideLetters_countTwice(t *testing.T) {
	if got := Pad("生命", 6); got != "生命  " || Width(got) != 6 {
		t.Errorf("got %q of width %d", got, Width(got))
	}
}
