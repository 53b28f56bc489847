// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package messages looks up what podfit's events, conditions, reasons and warnings mean, by their names or by their texts. The file messages.json
// has the entries of docs/messages.md; "make generate" writes both.
package messages

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"podfit.dev/podfit/internal/core/cluster"
)

//go:embed messages.json
var file []byte

// A Message is one entry of docs/messages.md. Its fields are Markdown without links.
type Message struct {
	Kind    string `json:"kind"` // such as Event, Reason, or Warning
	Name    string `json:"name"` // with the state of a condition, such as "`Updating` False, reason `UpToDate`"
	Object  string `json:"object,omitempty"`
	Text    string `json:"text,omitempty"` // an example, or the text with "…" for names and values
	Meaning string `json:"meaning,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	About   string `json:"about,omitempty"` // what holds for all messages in the log of a part of podfit
}

// An Entry is a message in the file, with what else it can be found by.
type Entry struct {
	Message
	Names  []string `json:"names"`            // the parts of Name in code font
	Others []string `json:"others,omitempty"` // further examples of Text
}

// Find returns the messages with a name, or else those whose text contains a part, or else those whose text is most similar; none if no
// text is similar.
func Find(what string) []Message {
	const leastPart = 10 // how many characters of a text find it
	const similar = 0.5  // the least share of the words of two texts that both have, so that they are the same text with other names and values
	all := entries()
	what = strings.ToLower(strings.TrimSpace(what))
	for _, is := range []func(name string) bool{
		func(name string) bool { return name == what },
		func(name string) bool { return len(what) >= leastPart && strings.Contains(name, what) },
	} {
		named := slices.DeleteFunc(slices.Clone(all), func(e Entry) bool {
			return !slices.ContainsFunc(slices.Concat(e.Names, []string{e.Text}, e.Others), func(name string) bool { return is(strings.ToLower(name)) })
		})
		if what != "" && len(named) > 0 {
			return cluster.Each(named, func(e *Entry) Message { return e.Message })
		}
	}
	best := []Message(nil)
	least := similar
	words := wordsOf(what)
	for i := range all {
		s := overlap(words, wordsOf(strings.Join(all[i].Names, " ")))
		for _, text := range slices.Concat([]string{all[i].Text}, all[i].Others) {
			s = max(s, overlap(words, wordsOf(text)))
		}
		switch {
		case s > least:
			best = []Message{all[i].Message}
			least = s
		case s == least:
			best = append(best, all[i].Message)
		}
	}
	return best
}

// Names returns the names of events, conditions and reasons, sorted.
func Names() []string {
	var out []string
	for _, e := range entries() {
		for _, name := range e.Names {
			if !strings.Contains(name, " ") {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// entries returns the entries of the file, which is a part of this binary.
func entries() []Entry {
	var out []Entry
	if err := json.Unmarshal(file, &out); err != nil {
		panic(err)
	}
	return out
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
