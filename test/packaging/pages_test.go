// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A pageCommand is a command in a code block of a page: one line with its continuation lines, or a loop of the shell.
type pageCommand struct {
	page string // path in the repository
	text string // without the prompt and without a comment at its end
}

var (
	// firstWords are the words with which a command of a page begins.
	firstWords = []string{
		"kubectl", "podfit", "helm", "make", "skopeo", "sed", "ln", "source", "export", "for", "go", "docker", "curl", "git", "cat", "echo", "cd", "mkdir",
		"while", "if", "sudo", "krew", "tar", "sha256sum", "brew", "kustomize", "oc", "jq", "watch", "bin/podfit", "./podfit",
		"podfit_demo_VERSION_linux_amd64/demo",
	}
	assignment     = regexp.MustCompile(`^[A-Z_]+=`)
	endOfLine      = regexp.MustCompile(`\s+#.*$`)
	fence          = regexp.MustCompile("^```([a-z]*)$")
	blockLanguages = []string{"", "sh", "bash", "shell", "console"} // of code blocks that may have commands
)

// isCommand reports whether a line of a code block is a command.
func isCommand(line string) bool {
	word, _, _ := strings.Cut(line, " ")
	return slices.Contains(firstWords, word) || assignment.MatchString(line)
}

// pageCommands returns the commands in the code blocks of a page, and the lines after a command that are none.
func pageCommands(page, text string) (all []pageCommand, unknown []string) {
	language, inside := "", false
	var block []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch m := fence.FindStringSubmatch(line); {
		case m != nil && !inside:
			language, inside, block = m[1], true, nil
		case m != nil:
			inside = false
			if slices.Contains(blockLanguages, language) {
				commands, others := blockCommands(block)
				for _, c := range commands {
					all = append(all, pageCommand{page, c})
				}
				unknown = append(unknown, others...)
			}
		case inside:
			block = append(block, line)
		}
	}
	return all, unknown
}

// blockCommands returns the commands of a code block. A block with prompts has commands after the prompts and output on the other lines. Of
// another block, either all lines are commands or comments, or none is.
func blockCommands(block []string) (commands, unknown []string) {
	prompts := slices.ContainsFunc(block, func(line string) bool { return strings.HasPrefix(line, "$ ") })
	for len(block) > 0 {
		line := block[0]
		length := 1
		if prompted, found := strings.CutPrefix(line, "$ "); found || !prompts && isCommand(line) {
			length = commandLength(block, prompted)
			text := strings.Join(append([]string{prompted}, block[1:length]...), "\n")
			if length == 1 {
				text = endOfLine.ReplaceAllString(text, "")
			}
			commands = append(commands, text)
		} else if text := strings.TrimSpace(line); !prompts && text != "" && !strings.HasPrefix(text, "#") {
			unknown = append(unknown, line)
		}
		block = block[length:]
	}
	if len(commands) == 0 {
		return nil, nil // output or a picture
	}
	return commands, unknown
}

// commandLength returns the number of lines of the command at the beginning of a block, whose first line without prompt is given.
func commandLength(block []string, first string) int {
	length := 1
	if strings.HasPrefix(first, "for ") || strings.HasPrefix(first, "while ") {
		for length < len(block) && block[length-1] != "done" {
			length++
		}
		return length
	}
	for length < len(block) && strings.HasSuffix(block[length-1], `\`) {
		length++
	}
	return length
}

// allPages returns the paths of the pages in the repository that have commands for a reader.
func allPages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(found) < 20 {
		t.Fatalf("%d pages, %v", len(found), err)
	}
	pages := []string{"README.md", "CONTRIBUTING.md"}
	for _, path := range found {
		pages = append(pages, "docs/"+filepath.Base(path))
	}
	return pages
}

// commandsOfPages returns the commands of all pages, in order.
func commandsOfPages(t *testing.T) (all []pageCommand) {
	t.Helper()
	for _, page := range allPages(t) {
		commands, unknown := pageCommands(page, read(t, filepath.Join(root, page)))
		all = append(all, commands...)
		for _, line := range unknown {
			t.Errorf("%s: the line %q stands between commands but does not begin with one of %v", page, line, firstWords)
		}
	}
	return all
}

func TestPageCommands_blocks_commandsAreFound(t *testing.T) {
	const page = "```\nkubectl get vpa    # all\n  # more\nhelm upgrade vpa c \\\n  --set a=b\n```\ntext\n```\n" +
		"$ podfit recommend\nmake of it what you like\n```\n" +
		"```yaml\nmake: x\n```\n```\nmain ─▶ app\n```\n```sh\nfor c in a b; do\necho $c\ndone\nA=b podfit web\nmystery\n```\n"
	got, unknown := pageCommands("p", page)
	var texts []string
	for _, c := range got {
		texts = append(texts, c.text)
	}
	want := []string{"kubectl get vpa", "helm upgrade vpa c \\\n  --set a=b", "podfit recommend", "for c in a b; do\necho $c\ndone", "A=b podfit web"}
	if !slices.Equal(texts, want) || !slices.Equal(unknown, []string{"mystery"}) {
		t.Errorf("commands %q, unknown %q", texts, unknown)
	}
}

const warning = "is a warning; the test runs the command that the page recommends instead"

// elsewhere are the commands that TestPages_everyCommand_isRun does not run.
var elsewhere = []struct {
	page, command string
	test          string // the test that runs the command or what it calls; a make target that .ci/run calls; "" with the reason alone
	why           string
}{
	{"README.md", "tar -xzf podfit_demo_VERSION_linux_amd64.tar.gz", "TestRelease_builtInTwoFolders_isIdenticalAndComplete", "needs a release"},
	{"README.md", "podfit_demo_VERSION_linux_amd64/demo", "TestRelease_builtInTwoFolders_isIdenticalAndComplete", "needs a release, and lasts for minutes"},
	{"README.md", "make demo", "TestBoards_workloadsOfTheDemo_eachPanelHasData", "runs the workloads of the demo, which lasts for minutes"},
	{"README.md", "make test", "make test", "takes long"},
	{"docs/backtest.md", "podfit backtest --trace usage.csv.gz --recommenders default,balanced --nodes memory=64Gi,cpu=16,replicas=8", "TestBacktest_nodes_countsThoseThatTheRequestsNeed", "needs recorded usage of days"},
	{"README.md", "make images", "TestImages_builtInTwoFolders_areIdenticalAndRun", "builds podfit for five platforms"},
	{"CONTRIBUTING.md", "make build", "make test", "is a part of make test"},
	{"CONTRIBUTING.md", "make quick", "make verify", "takes minutes; it is parts of make verify and make test"},
	{"CONTRIBUTING.md", "make test", "make test", "takes long"},
	{"CONTRIBUTING.md", "make nightly", "", "runs this test, and takes hours"},
	{"CONTRIBUTING.md", "make verify", "make verify", "takes minutes"},
	{
		"docs/load.md", "go test ./internal/app/web -run XXX -bench firstByte -benchtime 100x",
		"TestPage_tenTimesTheWorkloads_rendersWithTheSameAllocations", "is a benchmark",
	},
	{"docs/load.md", "go -C tools/release test -run TestRelease_builtInTwoFolders -v .", "TestRelease_builtInTwoFolders_isIdenticalAndComplete", "takes long"},
	{"docs/install.md", "make images", "TestImages_builtInTwoFolders_areIdenticalAndRun", "builds podfit for five platforms"},
	{"docs/install.md", "make images PLATFORMS=linux/amd64", "TestImages_builtInTwoFolders_areIdenticalAndRun", "builds podfit again"},
	{
		"docs/install.md", "skopeo copy --all oci:dist/images:podfit:TAG docker://REGISTRY/podfit:TAG", "TestImages_eachPlatform_hasFourEntrypointsOverOneLayer",
		"is a command of others and needs a registry; the test reads the layout as skopeo does",
	},
	{"docs/install.md", "kubectl delete -f deploy/", "TestPages_everyCommand_isRun", warning},
	{"docs/install.md", "kubectl delete -k deploy/", "TestPages_everyCommand_isRun", warning},
	{"docs/releases.md", "tar -xzf podfit_demo_VERSION_linux_amd64.tar.gz", "TestRelease_builtInTwoFolders_isIdenticalAndComplete", "needs a release"},
	{"docs/releases.md", "podfit_demo_VERSION_linux_amd64/demo", "TestRelease_builtInTwoFolders_isIdenticalAndComplete", "needs a release, and lasts for minutes"},
	{"docs/releases.md", "make release", "TestRelease_builtInTwoFolders_isIdenticalAndComplete", "builds podfit for all platforms"},
	{"docs/releases.md", "make release RELEASEPLATFORMS=linux/amd64", "TestRelease_builtInTwoFolders_isIdenticalAndComplete", "builds podfit again"},
	{"docs/releases.md", "make release VERSION=0.1.0", "TestRelease_builtInTwoFolders_isIdenticalAndComplete", "builds podfit for all platforms"},
}

// firstDay is the page that TestFirstDayPage_allCommands_workFromTopToBottom runs.
const firstDay = "docs/first-day.md"

// testFunctions returns the names of all test functions in the repository.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
			all[m[1]] = true
		}
		return err
	})
	if err != nil || len(all) < 1000 {
		t.Fatalf("%d tests, %v", len(all), err)
	}
	return all
}

// Each entry of the list elsewhere belongs to a command of a page, and names a test that exists.
func TestPages_commandsRunElsewhere_existAndHaveATest(t *testing.T) {
	all, tests, ci := append(commandsOfPages(t), inlineCommands(t)...), testFunctions(t), read(t, filepath.Join(root, ".ci", "run"))
	for _, e := range elsewhere {
		if !slices.Contains(all, pageCommand{e.page, e.command}) {
			t.Errorf("%s has no command %q", e.page, e.command)
		}
		if e.test != "" && !tests[e.test] && !strings.Contains(ci, "\n"+e.test+"\n") {
			t.Errorf("%s: %s: the test %s does not exist", e.page, e.command, e.test)
		}
		if e.why == "" {
			t.Errorf("%s: %s: no reason", e.page, e.command)
		}
	}
	if !tests["TestFirstDayPage_allCommands_workFromTopToBottom"] {
		t.Errorf("no test runs %s", firstDay)
	}
}

// unrun returns the commands of all pages that are neither run nor listed in elsewhere, sorted.
func unrun(t *testing.T, run map[pageCommand]bool) (out []pageCommand) {
	t.Helper()
	for _, c := range commandsOfPages(t) {
		listed := isElsewhere(c)
		if listed && run[c] {
			t.Errorf("%s: %s is run, and listed as run elsewhere", c.page, c.text)
		}
		if !listed && !run[c] && c.page != firstDay {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b pageCommand) int { return cmp.Or(cmp.Compare(a.page, b.page), cmp.Compare(a.text, b.text)) })
	return out
}

func isElsewhere(c pageCommand) bool {
	for _, e := range elsewhere {
		if c == (pageCommand{e.page, e.command}) {
			return true
		}
	}
	return false
}
