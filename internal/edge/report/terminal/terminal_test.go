// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"slices"
	"testing"

	"podfit.dev/podfit/internal/look/page"
)

func TestTable_wideLettersAndLongCells_areAlignedAndCut(t *testing.T) {
	table := &page.Table{Columns: []page.Column{{Title: "POOL", Least: 6}, {Title: "CPU", Right: true}, {Title: "ADVICE", Below: true}}, Rows: []page.Row{
		{Cells: []string{"生命", "12", ""}}, {Cells: []string{"a-long-name", "3", "wait for the nodes"}, High: true},
	}}
	for width, want := range map[int]string{
		0:  "POOL         CPU  ADVICE\n生命          12\na-long-name    3  wait for the nodes\n",
		31: "POOL    CPU  ADVICE\n生命     12\na-lon…    3  wait for the nodes\n",
		10: "POOL    CPU\n生命     12\na-lon…    3\n    wait for the nodes\n",
	} {
		p := Printer{Width: width}
		p.Table(table)
		if got := p.Text.String(); got != want {
			t.Errorf("with %d columns: got\n%s\nwant\n%s", width, got, want)
		}
	}
	p := Printer{Colour: true}
	p.Table(table)
	if want := "\x1b[1mPOOL         CPU  ADVICE\x1b[0m\n生命          12\n\x1b[31ma-long-name    3  wait for the nodes\x1b[0m\n"; p.Text.String() != want {
		t.Errorf("with colours: got %q, want %q", p.Text.String(), want)
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
