// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// Everything of a document is on the page, in the order of its fields, and nothing is markup or moves a cursor.
func TestWrite_hostileDocument_isCompleteAndInert(t *testing.T) {
	const bad = "<script>\x1b\u202e"
	text := func(name string) string { return name + bad }
	d := &Document{
		Command: "explain", Title: text("title"), Head: []string{text("head")}, Tags: []string{text("tag")}, Notes: []string{text("note")}, Figures: []Figure{{text("figure"), text("value"), text("detail")}},
		Sections: []Section{{
			Title: text("section"), Lead: text("lead"), About: text("about"), Text: []string{text("text")}, Command: text("command"), List: []string{text("list")},
			Table:  &Table{Columns: []Column{{Title: text("column")}, {Title: "n", Right: true}}, Rows: []Row{{Cells: []string{text("cell"), "1"}, High: true}, {Cells: []string{"last", "2"}, Dot: "d1"}}},
			Charts: []Chart{{Image: "<svg></svg>", Caption: text("caption")}}, Details: []string{text("closed")}, Summary: text("summary"), Parts: []Section{{Title: text("part"), Class: "act"}},
		}},
		Rest: []string{text("rest")}, Foot: []string{text("foot")},
	}
	var out bytes.Buffer
	if err := Write(&out, d); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	rest := page
	for _, want := range []string{
		"title", "head", "tag", "note", "figure", "value", "detail", "section", "lead", "about", "text", "command", "list", "column", "cell", "caption", "summary", "closed", "part", "rest", "foot",
	} {
		_, after, found := strings.Cut(rest, want+"&lt;script&gt;<")
		if !found {
			t.Errorf("%s is missing or too early in\n%s", want, page)
			continue
		}
		rest = after
	}
	for _, want := range []string{`<tr class="high"><td>cell`, `<td class="n">1</td>`, `<td><span class="dot d1"></span>last</td>`, `<div class="part act">`, `<th scope="col" class="n">n</th>`} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is missing in\n%s", want, page)
		}
	}
	if strings.ContainsAny(page, "\x1b\u202e") || strings.Contains(page, "<script") {
		t.Errorf("hostile text is part of the markup:\n%s", page)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestWrite_outputFails_returnsTheError(t *testing.T) {
	if err := Write(full{}, &Document{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("error %v", err)
	}
}
