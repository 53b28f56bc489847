// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/recommend"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	sentenceEnd = regexp.MustCompile("[.:?] ([A-Z`*\\[]|podfit|metrics)")
	ruler       = regexp.MustCompile(`^\|[-|]+\|$`)
)

// claims returns the sentences of a page, each item of a list, and each row of a table. TestPages_everyCommand_isRun runs the
// commands in blocks.
func claims(page string) (out []string) {
	var paragraph []string
	end := func() {
		text := strings.Join(paragraph, " ")
		for text != "" {
			at := sentenceEnd.FindStringIndex(text)
			if at == nil {
				break
			}
			out, text = append(out, text[:at[0]+1]), text[at[0]+2:]
		}
		if text != "" {
			out = append(out, text)
		}
		paragraph = nil
	}
	block := false
	for line := range strings.SplitSeq(page, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			end()
			block = !block
		case block:
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, "#"), strings.HasPrefix(line, "!["):
			end()
		case strings.HasPrefix(line, "- "), strings.HasPrefix(line, "|"):
			end()
			if !ruler.MatchString(line) {
				out = append(out, strings.TrimSpace(line))
			}
		default:
			paragraph = append(paragraph, strings.TrimSpace(line))
		}
	}
	end()
	return out
}

func TestClaims_page_areItsSentencesItemsAndRows(t *testing.T) {
	const page = "# Title\n\nIt works. It is\nfast: `x` wins.\n\n```\ncommand. Not a claim\n```\n| a | b |\n|---|---|\n| c | d |\n- item. Two\n"
	if got := claims(page); !slices.Equal(got, []string{"It works.", "It is fast:", "`x` wins.", "| a | b |", "| c | d |", "- item. Two"}) {
		t.Errorf("got %q", got)
	}
}

// testdata/readme.txt has each claim of README.md and, in the next line, the tests that fail if it is false. "-" is for headings of tables and
// lists. A new claim needs a test.
func TestReadme_eachClaim_hasATestThatExists(t *testing.T) {
	text, err := os.ReadFile("testdata/readme.txt")
	if err != nil {
		t.Fatal(err)
	}
	proofs := map[string]string{}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		proofs[lines[i]] = strings.TrimSpace(lines[i+1])
	}
	tests := declaredTests(t)
	said := claims(readme(t))
	for _, claim := range said {
		proof, known := proofs[claim]
		switch {
		case !known:
			t.Errorf("README.md says %q, for which testdata/readme.txt has no test", claim)
		case proof == "-":
			if !strings.HasPrefix(claim, "| command |") && (!strings.HasPrefix(claim, "For ") || !strings.HasSuffix(claim, ":")) {
				t.Errorf("%q claims something and has no test", claim)
			}
		default:
			for _, name := range strings.Fields(proof) {
				if !tests[name] {
					t.Errorf("%q: the test %s does not exist", claim, name)
				}
			}
		}
	}
	for claim := range proofs {
		if !slices.Contains(said, claim) {
			t.Errorf("testdata/readme.txt has %q, which README.md does not say", claim)
		}
	}
	if len(said) < 60 {
		t.Errorf("only %d claims were found", len(said))
	}
}

// declaredTests returns the names of all tests of the repository.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, folder := range []string{"../../internal", "../../test", "../../tools", "../../localcluster"} {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range function.FindAllSubmatch(text, -1) {
				out[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// The first commands need a release and no compiler, the next ones a compiler and no release.
func TestReadme_firstBlocks_areTheDemoArchiveAndTheDemo(t *testing.T) {
	blocks := strings.Split(readme(t), "\n```")
	if len(blocks) < 4 || !strings.HasPrefix(blocks[1], "\ntar -xzf podfit_demo_VERSION_") || !strings.HasSuffix(blocks[0], "With the archive of a release, it needs no compiler:\n") ||
		!strings.HasPrefix(blocks[3], "\nmake demo ") {
		t.Errorf("README.md begins with %q", blocks[:min(4, len(blocks))])
	}
}

func TestReadme_links_exist(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(readme(t), -1)
	for _, m := range links {
		if _, err := os.Stat(filepath.Join("..", "..", m[1])); err != nil && !strings.HasPrefix(m[1], "https://") {
			t.Errorf("the link %s leads nowhere", m[1])
		}
	}
	if len(links) < 40 {
		t.Errorf("only %d links were found", len(links))
	}
}

// The VPA object of README.md has no unknown field, and its comment names update modes that exist.
func TestReadme_manifest_isAValidVPA(t *testing.T) {
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(readme(t))
	if block == nil {
		t.Fatal("README.md has no manifest")
	}
	var vpa v1.VerticalPodAutoscaler
	if err := yaml.UnmarshalStrict([]byte(block[1]), &vpa); err != nil {
		t.Fatal(err)
	}
	if vpa.APIVersion != v1.GroupVersion().String() || vpa.Kind != "VerticalPodAutoscaler" || vpa.Spec.TargetRef == nil || vpa.Spec.UpdatePolicy == nil {
		t.Fatalf("the manifest is %+v", vpa)
	}
	if mode := *vpa.Spec.UpdatePolicy.UpdateMode; mode != v1.UpdateModeInPlaceOrRecreate {
		t.Errorf("the manifest has the update mode %s", mode)
	}
	_, comment, _ := strings.Cut(block[1], "#")
	for _, mode := range []v1.UpdateMode{v1.UpdateModeOff, v1.UpdateModeInitial, v1.UpdateModeRecreate} {
		if !strings.Contains(comment, string(mode)) {
			t.Errorf("the comment does not name the update mode %s: %s", mode, comment)
		}
	}
}

// Only the race detector needs a C compiler.
func TestReadme_requirements_areThoseOfTheRepository(t *testing.T) {
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if len(version) != 2 || !strings.Contains(readme(t), "Go "+string(version[1])+",") {
		t.Errorf("go.mod needs Go %s", version)
	}
	for target, race := range map[string]bool{"test": true, "demo": false} {
		if text := recipe(t, target); strings.Contains(text, " $(RACE) ") != race {
			t.Errorf("make %s uses the race detector: %t\n%s", target, !race, text)
		}
	}
	if text := recipe(t, "demo"); !strings.Contains(text, "CGO_ENABLED=0 go ") {
		t.Errorf("make demo may need a C compiler:\n%s", text)
	}
}

// recipe returns the commands of a target of the Makefile.
func recipe(t *testing.T, target string) string {
	t.Helper()
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + target + `:.*\n((?:\t.*\n)+)`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("the Makefile has no target %s", target)
	}
	return string(m[1])
}

func TestReadme_makeBuild_writesTheCommand(t *testing.T) {
	if text := recipe(t, "build"); !regexp.MustCompile(`go build .* -o bin/podfit \.\n`).MatchString(text) {
		t.Errorf("make build runs\n%s", text)
	}
}

// The accounts of deploy/ without the components of deploy/rights.
func TestReadme_rights_noAccountChangesWorkloads(t *testing.T) {
	forbidden := map[string][]string{
		"core/pods": {"create", "delete"}, "apps/deployments": {"create", "delete", "update", "patch"},
		"autoscaling/horizontalpodautoscalers": {"create", "delete", "update", "patch"},
	}
	seen := map[string]bool{}
	for account, all := range granted(t, manifests(t)) {
		for _, right := range all {
			what, verbs, _ := strings.Cut(right, ": ")
			_, resource, _ := strings.Cut(what, " ")
			resource, _, _ = strings.Cut(resource, "[")
			seen[resource] = true
			for _, verb := range strings.Fields(verbs) {
				if slices.Contains(forbidden[resource], verb) || verb == "*" || verb == "deletecollection" || strings.HasSuffix(resource, "/*") || resource == "*" {
					t.Errorf("%s may %s %s", account, verb, resource)
				}
			}
		}
	}
	for resource := range forbidden {
		if !seen[resource] {
			t.Errorf("no account has rights on %s, so the names may be wrong", resource)
		}
	}
}

// kubectl deletes what the files of the folder contain.
func TestReadme_filesOfDeploy_containTheCRDs(t *testing.T) {
	files, err := filepath.Glob("../../deploy/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found = found || regexp.MustCompile(`(?m)^kind: CustomResourceDefinition\nmetadata:\n(?:  .*\n)*?  name: verticalpodautoscalers\.autoscaling\.k8s\.io$`).Match(text)
	}
	if !found {
		t.Error("no file in deploy/ has the CRD of VPAs")
	}
}

func TestReadme_license_isThatOfTheFile(t *testing.T) {
	text, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(string(text))[:4], " "); got != "Apache License Version 2.0," || !strings.Contains(readme(t), "License: [Apache 2.0](LICENSE).") {
		t.Errorf("LICENSE begins with %q", got)
	}
}

// README.md compares the profile balanced with the default by docs/backtest.md: requests of memory and CPU on bitbrains, at the prices that
// podfit recommend assumes.
func TestReadme_balanced_figuresAreThoseOfTheBacktest(t *testing.T) {
	page, err := os.ReadFile("../../docs/backtest.md")
	if err != nil {
		t.Fatal(err)
	}
	type figures struct{ slack, exceeds, bill float64 }
	of := func(profile string) (f figures) {
		memory := regexp.MustCompile("(?m)^\\| `" + profile + "`[^|]*\\| \\**([\\d.]+)\\**[^|]*\\| \\**([\\d.]+) %[^|]*\\| [^|]* \\| (\\d+) GiB").FindSubmatch(page)
		cpu := regexp.MustCompile("(?m)^\\| `" + profile + "`[^|]*\\| \\**[\\d.]+ at ([\\d.]+)").FindSubmatch(page)
		if memory == nil || cpu == nil {
			t.Fatalf("docs/backtest.md has no figures of %s", profile)
		}
		number := func(text []byte) float64 {
			v, err := strconv.ParseFloat(string(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		f.slack, f.exceeds = number(memory[1]), 100-number(memory[2])
		f.bill = number(memory[3])*0.00424 + number(cpu[1])*0.0316
		return f
	}
	text := strings.Join(strings.Fields(readme(t)), " ")
	upstream, balanced := of("default"), of("balanced")
	for _, want := range []string{
		fmt.Sprintf("memory usage is above its requests on %.1f %% of the days instead of %.1f %%, and its mean slack is lower", balanced.exceeds, upstream.exceeds),
		fmt.Sprintf("its requests cost %.0f %% more in total", 100*(balanced.bill/upstream.bill-1)),
		"Prices are assumed: 0.0316 a core-hour and 0.00424 a GiB-hour",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("README.md does not say %q", want)
		}
	}
	if balanced.slack >= upstream.slack {
		t.Errorf("the mean slack of balanced is %v, that of the default %v", balanced.slack, upstream.slack)
	}
}

func TestReadme_profiles_areTheBuiltInOnes(t *testing.T) {
	if n := len(recommend.Builtins()); n != 7 || !strings.Contains(readme(t), "There are five more built-in profiles") {
		t.Errorf("there are %d built-in profiles with default and balanced", n)
	}
}
