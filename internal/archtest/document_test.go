// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// listed returns the packages below internal that a directory listing names, by their path below internal. Each level has two more spaces
// before the name. Names after "; " of the form a/b are listed, too.
func listed(listing string) (out []string) {
	parents := []string{}
	for _, line := range strings.Split(listing, "\n") {
		m := listedFolder.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		depth := len(m[1]) / 2
		parents = append(parents[:min(depth, len(parents))], m[2])
		if parents[0] != "internal" || len(parents) == 1 {
			continue
		}
		folder := strings.Join(parents[1:], "/")
		out = append(out, folder)
		for _, also := range listedAlso.FindAllStringSubmatch(m[3], -1) {
			if rest, ok := strings.CutPrefix(also[1], m[2]+"/"); ok {
				out = append(out, folder+"/"+rest)
			}
		}
	}
	return out
}

var (
	listedFolder = regexp.MustCompile(`^( *)([a-z0-9]+)/(?: +(.*))?$`)
	listedAlso   = regexp.MustCompile(`; ([a-z]+/[a-z]+):`)
)

func TestListed_levels_arePathsBelowInternal(t *testing.T) {
	got := listed("api/   types\ninternal/\n  core/    pure\n    plan/     plan\n  edge/   edges\n    web/     pages; web/webtest: clusters\ndocs/  pages")
	if want := []string{"core", "core/plan", "edge", "edge/web", "edge/web/webtest"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The directory listing names each package once: a second line would be another meaning of the name.
func TestDirectory_listingOfPackages_isCompleteAndWithoutDuplicates(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, listing, _ := strings.Cut(string(text), "## Directory layout")
	listing, _, _ = strings.Cut(listing, "## Import rules")
	times := map[string]int{}
	for _, name := range listed(listing) {
		times[name]++
	}
	packages := lines(t)
	for name := range packages {
		base := name[strings.LastIndex(name, "/")+1:]
		if times[name] == 0 && !strings.HasSuffix(base, "test") {
			t.Errorf("docs/architecture.md does not list internal/%s", name)
		}
	}
	for name, n := range times {
		exists := slices.ContainsFunc(slices.Collect(maps.Keys(packages)), func(p string) bool { return p == name || strings.HasPrefix(p, name+"/") })
		if n > 1 || !exists && name != "archtest" {
			t.Errorf("docs/architecture.md lists internal/%s %d times, and it exists: %t", name, n, exists)
		}
	}
}

// The map from features to files names only files and packages that exist.
func TestDirectory_mapOfFeatures_namesExistingPaths(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Features and their files")
	table, _, _ = strings.Cut(table, "\n## ")
	paths := regexp.MustCompile("`([a-z]+(?:/[a-z_.]+)*)`").FindAllStringSubmatch(table, -1)
	if len(paths) < 50 {
		t.Errorf("found only %d paths", len(paths))
	}
	for _, m := range paths {
		if m[1] == "internal" || m[1] == "checks" {
			continue
		}
		if _, err := os.Stat("../" + m[1]); err != nil {
			t.Errorf("docs/architecture.md names internal/%s, which does not exist", m[1])
		}
	}
}

// The glossary has one meaning for each term, sorted, so that a reader finds it.
func TestGlossary_terms_areSortedAndUnique(t *testing.T) {
	glossary, err := os.ReadFile("../../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	var terms []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \|$`).FindAllStringSubmatch(string(glossary), -1) {
		if m[1] != "term" && m[1] != "---" {
			terms = append(terms, strings.ToLower(m[1]))
		}
	}
	if len(terms) < 20 || !slices.IsSorted(terms) || len(slices.Compact(slices.Clone(terms))) != len(terms) {
		t.Errorf("%d terms, sorted: %t; want at least 20, sorted, each once: %q", len(terms), slices.IsSorted(terms), terms)
	}
}

// mostWords is how long the pages may be that a reader must read as a whole.
var mostWords = map[string]int{"docs/architecture.md": 2500, "README.md": 1300}

func TestPages_wholeReads_areShort(t *testing.T) {
	for page, most := range mostWords {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(strings.Fields(string(text))); n > most {
			t.Errorf("%s has %d words, at most %d are allowed", page, n, most)
		}
	}
}

// onePlace lists what only some packages do, by what shows it in the source.
var onePlace = []struct {
	what, remedy string
	source       *regexp.Regexp
	allowed      []string // packages
}{
	{ // so that each decoder keeps its first error and checks limits in the same way
		"encodes binary values", "use internal/core/codec",
		regexp.MustCompile(`"encoding/(binary|gob)"`), []string{"core/codec"},
	},
	{ // a vector that is reset and filled again shows a part of its values to a scrape in between
		"empties a vector of metrics", "publish a complete set with process.SnapshotGauge",
		regexp.MustCompile(`(?s)client_golang/prometheus".*\.Reset\(`), nil,
	},
	{ // some letters take two columns, and accents none
		"measures or draws columns of a terminal", "use internal/edge/report/terminal",
		regexp.MustCompile(`go-pretty/|go-runewidth|x/text/width|\.RuneCountInString\(.*(\+|-)|%-?\*[sdv]`),
		[]string{"edge/report/terminal", "edge/report"}, // edge/report arranges columns by what fits
	},
	{ // the library knows when the terminal wraps the line, and estimates the remaining time
		"draws a progress bar", "use github.com/schollz/progressbar",
		regexp.MustCompile(`\\r\\x1b|\\r\\033|\\x1b\[K`), nil,
	},
	{
		"quotes CSV", "use encoding/csv",
		regexp.MustCompile(`(ReplaceAll|NewReplacer)\([^\n]*("\\"\\""|` + "`\"\"`" + `)`), nil,
	},
}

// What has one solution is solved in one place.
func TestSource_codecsWidthsAndGauges_areInOnePlace(t *testing.T) {
	for name, files := range sources(t) {
		for file, text := range files {
			for _, p := range onePlace {
				if p.source.MatchString(text) && !slices.Contains(p.allowed, name) {
					t.Errorf("%s %s; %s", file, p.what, p.remedy)
				}
			}
		}
	}
	for i, violation := range []string{
		"import \"encoding/binary\"",
		"import \"github.com/prometheus/client_golang/prometheus\"\n\nfunc f(v *prometheus.GaugeVec) { v.Reset() }",
		`s + strings.Repeat(" ", 10-utf8.RuneCountInString(s))` + "\n" + `n := utf8.RuneCountInString(s) + 2`,
		`fmt.Fprintf(out, "\r\x1b[K%s", line)`,
		`strings.ReplaceAll(s, "\"", "\"\"")`,
	} {
		if !onePlace[i].source.MatchString(violation) {
			t.Errorf("%q is not found: it %s", violation, onePlace[i].what)
		}
	}
}

// sources returns the files of each package below internal, without tests, by the path of the package below internal and of the file.
func sources(t *testing.T) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		name := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
		if out[name] == nil {
			out[name] = map[string]string{}
		}
		out[name][filepath.ToSlash(path)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
