// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package messages looks up what podfit's events, conditions, reasons and warnings mean, by their names or by their texts. The file messages.md
// is a copy of docs/messages.md; "make generate" writes both.
package messages

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

//go:embed messages.md
var page string

// A Message is one entry of the page. Its fields are Markdown without links.
type Message struct {
	Kind    string   `json:"kind"` // such as Event, Reason, or Warning
	Name    string   `json:"name"` // with the state of a condition, such as "`Updating` False, reason `UpToDate`"
	Object  string   `json:"object,omitempty"`
	Text    string   `json:"text,omitempty"` // an example, or the text with "…" for names and values
	Meaning string   `json:"meaning,omitempty"`
	Remedy  string   `json:"remedy,omitempty"`
	About   string   `json:"about,omitempty"` // what holds for all messages in the log of a part of podfit
	others  []string // further examples
}

var (
	heading = regexp.MustCompile("^###+ ([A-Z][a-z]+):? (`.*)$")
	logged  = regexp.MustCompile("^\\| (error|warning) \\| `([^`]+)`(?:<br>Remedy: (.*?))? \\|")
	link    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	code    = regexp.MustCompile("`([^`]+)`")
)

// Find returns the messages with a name, or else those whose text contains a part, or else those whose text is most similar; none if no
// text is similar.
func Find(what string) []Message {
	const leastPart = 10 // how many characters of a text find it
	const similar = 0.5  // the least share of the words of two texts that both have, so that they are the same text with other names and values
	all := parse(page)
	what = strings.ToLower(strings.TrimSpace(what))
	for _, is := range []func(name string) bool{
		func(name string) bool { return name == what },
		func(name string) bool { return len(what) >= leastPart && strings.Contains(name, what) },
	} {
		named := slices.DeleteFunc(slices.Clone(all), func(m Message) bool {
			return !slices.ContainsFunc(slices.Concat(m.names(), []string{m.Text}, m.others), func(name string) bool { return is(strings.ToLower(name)) })
		})
		if what != "" && len(named) > 0 {
			return named
		}
	}
	best := []Message(nil)
	least := similar
	words := wordsOf(what)
	for i := range all {
		s := overlap(words, wordsOf(strings.Join(all[i].names(), " ")))
		for _, text := range slices.Concat([]string{all[i].Text}, all[i].others) {
			s = max(s, overlap(words, wordsOf(text)))
		}
		switch {
		case s > least:
			best = []Message{all[i]}
			least = s
		case s == least:
			best = append(best, all[i])
		}
	}
	return best
}

// Names returns the names of events, conditions and reasons, sorted.
func Names() []string {
	var out []string
	for _, m := range parse(page) {
		for _, name := range m.names() {
			if !strings.Contains(name, " ") {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// names returns the names that a message can be found by: those in code font.
func (m *Message) names() []string {
	var out []string
	for _, span := range code.FindAllStringSubmatch(m.Name, -1) {
		out = append(out, span[1])
	}
	return out
}

func parse(page string) []Message {
	var out []Message
	section := "" // the text above the next table of the log
	for line := range strings.Lines(page) {
		line = link.ReplaceAllString(strings.TrimSuffix(line, "\n"), "$1")
		key, value, _ := strings.Cut(line, ": ")
		switch h, row := heading.FindStringSubmatch(line), logged.FindStringSubmatch(line); {
		case h != nil:
			out = append(out, Message{Kind: h[1], Name: h[2]})
		case row != nil:
			out = append(out, Message{
				Kind: strings.ToUpper(row[1][:1]) + row[1][1:] + " in the log", Name: "`" + row[2] + "`", Remedy: row[3], About: section,
			})
		case len(out) > 0 && strings.HasPrefix(line, "- "):
			out[len(out)-1].set(strings.TrimPrefix(key, "- "), value)
		case strings.HasPrefix(line, "Package `"):
			_, section, _ = strings.Cut(line, ". ")
		}
	}
	return out
}

func (m *Message) set(key, value string) {
	switch key {
	case "Object":
		m.Object = value
	case "Text":
		m.Text = strings.Trim(value, "`")
	case "Other text":
		m.others = append(m.others, strings.Trim(value, "`"))
	case "Meaning":
		m.Meaning = value
	case "Remedy":
		m.Remedy = value
	}
}

// wordsOf returns the different words of a text that are neither numbers nor the place of a name.
func wordsOf(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	words = slices.DeleteFunc(words, func(w string) bool { return strings.ContainsFunc(w, unicode.IsDigit) })
	slices.Sort(words)
	return slices.Compact(words)
}

// overlap returns which share of the words of two texts both have.
func overlap(a, b []string) float64 {
	both := 0
	for _, w := range a {
		if _, found := slices.BinarySearch(b, w); found {
			both++
		}
	}
	if both == 0 {
		return 0
	}
	return float64(both) / float64(len(a)+len(b)-both)
}
