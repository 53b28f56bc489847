// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package page is what a report shows to people: headings, paragraphs, tables, lists and charts. It writes them as one page of HTML. Package
// terminal writes them as text.
package page

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"unicode"

	"podfit.dev/podfit/internal/look"
)

// A Document is what a report shows, in the order of its fields.
type Document struct {
	Command  string // of podfit
	Title    string
	Head     []string // facts about the whole report
	Tags     []string // short names of what is special
	Notes    []string // what a reader must know before relying on the rest
	Figures  []Figure
	Sections []Section
	Rest     []string // what the sections do not contain
	Foot     []string
	Style    string // of charts, if there are any
}

// A Figure is a number that a reader should see first.
type Figure struct{ Name, Value, Detail string }

// A Section is a part of a document. A format leaves out the fields that it cannot show.
type Section struct {
	Title   string
	Class   string // "act" or "wait": see the style sheet
	Lead    string // emphasized
	About   string // follows Lead in the same paragraph
	Text    []string
	Command string
	List    []string
	Table   *Table
	Charts  []Chart
	Details []string // a list that is closed at first
	Summary string   // the title of Details
	Parts   []Section
}

// A Chart is an image with a caption.
type Chart struct {
	Image   template.HTML
	Caption string
}

// A Table is a table with a cell for each column in each row.
type Table struct {
	Columns []Column
	Rows    []Row
	Class   string // "numbers" or "text": see the style sheet
	Hanging int    // indent of further lines of a cell that a terminal prints below its row
}

// A Column is a column of a table.
type Column struct {
	Title string
	Right bool // numbers
	Least int  // the narrowest it may become in a terminal; 0: it keeps its width
	Below bool // if it does not fit beside the others, a terminal prints it below the row
}

// A Row is a row of a table.
type Row struct {
	Cells []string
	High  bool   // needs attention
	Young bool   // only to be seen, not to be relied on
	Best  bool   // of all rows
	Dot   string // class of the colour of a dot before the first cell
}

// Titled reports whether any column has a title.
func (t *Table) Titled() bool {
	return slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Title != "" })
}

var (
	//go:embed page.html
	source string
	//go:embed page.css
	style string

	page = template.Must(template.New("page").Parse(source))
)

// AddTo adds the template "document-content", which shows a Section without its title, to others. Its style is in package look.
func AddTo(others *template.Template) { template.Must(others.New("document").Parse(source)) }

// Write writes a document as one file of HTML. It has no scripts, loads nothing, and its Content-Security-Policy allows only its own style, by
// its hash. All texts are escaped, and have no control characters and no characters that change the direction of text.
func Write(w io.Writer, d *Document) error {
	all := look.Style(d.Style + style)
	var out bytes.Buffer
	err := page.Execute(&out, struct {
		*Document
		Policy template.HTMLAttr // not escaped, so that it is short
		Style  template.CSS
	}{d, template.HTMLAttr(`content="` + look.Policy(all) + `"`), template.CSS(all)})
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	_, err = w.Write(Plain(out.Bytes()))
	return err
}

// Plain returns HTML without control characters and characters that change the direction of text.
func Plain(html []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return -1
		}
		return r
	}, html)
}
