// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

var (
	codeBlock  = regexp.MustCompile("(?s)```[a-z]*\n(.*?)```")
	inlineCode = regexp.MustCompile("`(podfit [^`]+)`")
	ownCommand = regexp.MustCompile(`(?m)^(?:\$ )?(?:kubectl )?(podfit .*)$`)
	word       = regexp.MustCompile(`(?:[^\s'"]+|'[^']*'|"[^"]*")+`)
)

// commandsOf returns the commands of podfit in a page: those in code blocks and in the text.
func commandsOf(page string) (all []string) {
	for _, block := range codeBlock.FindAllStringSubmatch(page, -1) {
		for _, m := range ownCommand.FindAllStringSubmatch(strings.ReplaceAll(block[1], "\\\n", " "), -1) {
			all = append(all, m[1])
		}
	}
	for _, m := range inlineCode.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		all = append(all, strings.ReplaceAll(m[1], "\n", " "))
	}
	return all
}

// Each command of podfit in the documentation exists, with the flags that are shown.
func TestPages_commandsOfPodfit_exist(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	total := 0
	for _, path := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range commandsOf(string(text)) {
			total++
			if err := parseCommand(command); err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(path), command, err)
			}
		}
	}
	if total < 80 {
		t.Errorf("only %d commands were found", total)
	}
}

var (
	pageLink = regexp.MustCompile(`\]\(([^)\s#]*)(?:#([^)\s]*))?\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInID  = regexp.MustCompile(`[^\w\- ]`)
)

// headingIDs returns the identifiers of the headings of a page, as GitHub makes them.
func headingIDs(page string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		id := notInID.ReplaceAllString(strings.ToLower(m[1]), "")
		out[strings.ReplaceAll(id, " ", "-")] = true
	}
	return out
}

// Each link from a page to a file of the repository leads to a file, and to a heading if it names one.
func TestPages_links_leadToFilesAndHeadings(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob("../../docs/decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	total := 0
	for _, path := range slices.Concat(pages, decisions, []string{"../../README.md", "../../CONTRIBUTING.md", "../../CHANGELOG.md"}) {
		for _, m := range pageLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(read(path), ""), -1) {
			target, id := m[1], m[2]
			if strings.HasPrefix(target, "https://") {
				continue
			}
			total++
			file := path
			if target != "" {
				file = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: the link %s leads nowhere", path, m[0])
			} else if id != "" && !headingIDs(read(file))[id] {
				t.Errorf("%s: the link %s names a heading that does not exist", path, m[0])
			}
		}
	}
	if total < 200 {
		t.Errorf("only %d links were found", total)
	}
}

// crdsApplied matches a command that applies the CRDs of the binary, as in a page, a table, a message or a test.
var crdsApplied = regexp.MustCompile(`podfit crds \\*\| *(kubectl apply[^` + "`" + `"#;&\n]*)`)

// All documents, messages and manifests have the same command, which updates CRDs whoever has created them.
func TestPages_commandThatAppliesTheCRDs_isTheSameEverywhere(t *testing.T) {
	total := 0
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != "../.." && (strings.HasPrefix(name, ".") || name == "dist" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".md", ".go", ".txt", ".tpl", ".yaml"}, filepath.Ext(name)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range crdsApplied.FindAllStringSubmatch(string(text), -1) {
			total++
			if !strings.HasPrefix(m[1], "kubectl apply --server-side --force-conflicts -f -") {
				t.Errorf("%s: podfit crds | %s", path, m[1])
			}
		}
		return nil
	})
	if err != nil || total < 20 {
		t.Errorf("%d commands, %v", total, err)
	}
}

// parseCommand parses a command as a shell and podfit do, up to a comment or a pipe. Words in capitals are placeholders.
func parseCommand(command string) error {
	command, _, _ = strings.Cut(command, " #")
	command, _, _ = strings.Cut(strings.ReplaceAll(command, `\|`, "|"), " |")
	command, _, _ = strings.Cut(command, " > ")
	var words []string
	for _, w := range word.FindAllString(command, -1)[1:] {
		words = append(words, strings.Trim(w, `'"`))
	}
	if words[0] == strings.ToUpper(words[0]) {
		return nil
	}
	c, rest, err := Root(Streams{Out: io.Discard, Err: io.Discard}).Find(words)
	if err != nil {
		return err
	}
	c.Flags().ParseErrorsAllowlist = pflag.ParseErrorsAllowlist{}
	err = c.ParseFlags(rest)
	if missing := (*pflag.ValueRequiredError)(nil); errors.As(err, &missing) {
		return nil // the text names a flag without a value
	}
	return err
}
