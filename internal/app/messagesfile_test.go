// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/app/explain/messages"
)

// messagesFile returns the entries of the page of messages as JSON, for package messages.
func messagesFile(t *testing.T, page string) string {
	t.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(messageEntries(page)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var (
	entryHeading = regexp.MustCompile("^###+ ([A-Z][a-z]+):? (`.*)$")
	logRow       = regexp.MustCompile("^\\| (error|warning) \\| `([^`]+)`(?:<br>Remedy: (.*?))? \\|")
	markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

func messageEntries(page string) []messages.Entry {
	var out []messages.Entry
	section := "" // the text above the next table of the log
	for line := range strings.Lines(page) {
		line = markdownLink.ReplaceAllString(strings.TrimSuffix(line, "\n"), "$1")
		key, value, _ := strings.Cut(line, ": ")
		switch h, row := entryHeading.FindStringSubmatch(line), logRow.FindStringSubmatch(line); {
		case h != nil:
			out = append(out, messages.Entry{Message: messages.Message{Kind: h[1], Name: h[2]}})
		case row != nil:
			out = append(out, messages.Entry{Message: messages.Message{
				Kind: strings.ToUpper(row[1][:1]) + row[1][1:] + " in the log", Name: "`" + row[2] + "`", Remedy: row[3], About: section,
			}})
		case len(out) > 0 && strings.HasPrefix(line, "- "):
			setMessage(&out[len(out)-1], strings.TrimPrefix(key, "- "), value)
		case strings.HasPrefix(line, "Package `"):
			_, section, _ = strings.Cut(line, ". ")
		}
	}
	for i := range out {
		for _, span := range codeSpan.FindAllStringSubmatch(out[i].Name, -1) {
			out[i].Names = append(out[i].Names, span[1])
		}
	}
	return out
}

func setMessage(e *messages.Entry, key, value string) {
	switch key {
	case "Object":
		e.Object = value
	case "Text":
		e.Text = strings.Trim(value, "`")
	case "Other text":
		e.Others = append(e.Others, strings.Trim(value, "`"))
	case "Meaning":
		e.Meaning = value
	case "Remedy":
		e.Remedy = value
	}
}
