// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/commandline"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/test/kubetest"
)

// call runs podfit and returns its output and exit code.
func call(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), args, Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	return out.String(), errs.String(), code
}

// Rows 1, 4 and 10 of docs/decisions/0007.
func TestMain_wrongCall_namesTheRemedyAndExitsWith2(t *testing.T) {
	for line, want := range map[string]string{
		"recomend":                                `unknown command "recomend" for "podfit"` + "\n\nDid you mean this?\n\trecommend\n", //nolint:misspell // the mistake of a user
		"recomender":                              `unknown command "recomender" for "podfit"` + "\n\nDid you mean this?\n\trecommender\n\nSee 'podfit --help'",
		"bactest --trace x":                       `unknown command "bactest" for "podfit"` + "\n\nDid you mean this?\n\tbacktest\n",
		"something":                               `unknown command "something" for "podfit"` + "\nSee",
		"run extra":                               `podfit run takes no arguments, got "extra"` + "\nSee 'podfit run --help'",
		"help nothing":                            `unknown command "nothing" for "podfit"` + "\nSee 'podfit help --help'",
		"help backtst":                            `unknown command "backtst" for "podfit"` + "\n\nDid you mean this?\n\tbacktest\n",
		"completion bsh":                          `unknown command "bsh" for "podfit completion"` + "\nSee 'podfit completion --help'",
		"version -o yaml":                         `--output must be text or json, got "yaml"`,
		"version 2":                               `podfit version takes no arguments, got "2"`,
		"crds x":                                  `podfit crds takes no arguments, got "x"`,
		"run --dryrun":                            "unknown flag: --dryrun (did you mean --dry-run?)\nSee 'podfit run --help'",
		"run --dry_runn":                          "unknown flag: --dry_runn (did you mean --dry-run?)",
		"run --minreplicas=3":                     "unknown flag: --minreplicas (did you mean --min-replicas?)",
		"backtest --trase x":                      "unknown flag: --trase (did you mean --trace?)",
		"run --xyzzy":                             "unknown flag: --xyzzy\nSee",
		"run -q":                                  "unknown shorthand flag: 'q' in -q",
		"updater --min-replicas=abc":              `--min-replicas must be a whole number, got "abc"`,
		"updater --min-replicas":                  "flag needs an argument: --min-replicas",
		"updater --eviction-tolerance=half":       `--eviction-tolerance must be a number, got "half"`,
		"updater --updater-interval=10":           `--updater-interval must be a duration such as 90s, 10m or 1h30m, got "10"`,
		"updater --dry-run=maybe":                 `--dry-run must be true or false, got "maybe"`,
		"updater --feature-gates=Sideways=true":   `--feature-gates: unknown feature gate "Sideways"; known gates are`,
		"run --min-replicas=99999999999999999999": `--min-replicas must be a whole number`,
	} {
		_, stderr, code := call(t, append([]string{"podfit"}, strings.Fields(line)...)...)
		if code != exitUsage || !strings.HasPrefix(stderr, "podfit: "+want) {
			t.Errorf("podfit %s: exit code %d and %q, want 2 and %q", line, code, stderr, want)
		}
	}
}

// Rows 8, 9 and 20 of docs/decisions/0007.
func TestMain_kubeconfigIsUnusable_errorIsTheLastLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hostname")
	if err := os.WriteFile(file, []byte("machine-7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for kubeconfig, want := range map[string]string{
		"~/.kube/config": "podfit: read kubeconfig ~/.kube/config: the shell did not replace ~",
		file:             "podfit: " + file + " is not a kubeconfig",
	} {
		for _, terminal := range []bool{false, true} {
			var errs bytes.Buffer
			code := Main(t.Context(), []string{"podfit", "run", "--dry-run", "--kubeconfig=" + kubeconfig}, Streams{In: strings.NewReader(""), Out: io.Discard, Err: &errs, Terminal: terminal})
			lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
			if code != exitError || !strings.HasPrefix(lines[len(lines)-1], want) {
				t.Errorf("%s: exit code %d and %q, want 1 and %q in the last line", kubeconfig, code, errs.String(), want)
			}
			if terminal && len(lines) != 1 {
				t.Errorf("%s: on a terminal, the error has lines before it: %q", kubeconfig, errs.String())
			}
		}
	}
}

// The same without a terminal, as with podfit run --dry-run 2>&1 | tee log: the command ends with one line that names the cause.
func TestMain_dryRunWithoutTerminal_unusableClusterEndsIt(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for _, command := range []string{"run", "updater"} {
		for _, terminal := range []bool{false, true} {
			var errs bytes.Buffer
			code := Main(t.Context(), []string{"podfit", command, "--dry-run", "--kubeconfig=" + kubetest.Kubeconfig(t, server.URL)}, Streams{In: strings.NewReader(""), Out: io.Discard, Err: &errs, Terminal: terminal})
			lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
			if last := lines[len(lines)-1]; code != exitError || !strings.HasPrefix(last, "podfit: cannot use the cluster at "+server.URL) || !strings.Contains(last, "install the CRDs") {
				t.Errorf("%s, terminal %t: exit code %d and %q", command, terminal, code, errs.String())
			}
		}
	}
}

// Rows 2 and 12 of docs/decisions/0007.
func TestMain_version_isPrintedByCommandAndFlag(t *testing.T) {
	want := regexp.MustCompile(`^podfit \S+.* go1\.\S+ \w+/\w+\n$`)
	command, _, code := call(t, "podfit", "version")
	if code != exitOK || !want.MatchString(command) {
		t.Errorf("podfit version: exit code %d and %q", code, command)
	}
	parsed := map[string]string{}
	text, _, code := call(t, "podfit", "version", "-o", "json")
	if err := json.Unmarshal([]byte(text), &parsed); err != nil || code != exitOK || parsed["version"] == "" || !strings.Contains(command, parsed["version"]+" "+parsed["goVersion"]+" "+parsed["platform"]) {
		t.Errorf("podfit version -o json: exit code %d, %v, and %q, want what is in %q", code, err, text, command)
	}
	if flag, _, code := call(t, "podfit", "--version"); code != exitOK || flag != command {
		t.Errorf("podfit --version: exit code %d and %q, want %q", code, flag, command)
	}
}

// Row 19 of docs/decisions/0007.
func TestMain_calledByKubectl_namesThePlugin(t *testing.T) {
	for _, name := range []string{"kubectl-podfit", "/usr/local/bin/kubectl-podfit", "kubectl-podfit.exe"} {
		stdout, _, code := call(t, name, "backtest", "--help")
		if code != exitOK || !strings.Contains(stdout, "kubectl podfit backtest") {
			t.Errorf("%s backtest --help: exit code %d and\n%s", name, code, stdout)
		}
		_, stderr, _ := call(t, name, "run", "extra")
		if want := "kubectl podfit run takes no arguments"; !strings.Contains(stderr, want) {
			t.Errorf("%s run extra: got %q, want %q", name, stderr, want)
		}
	}
	if stdout, _, code := call(t, "kubectl_complete-podfit", "backt"); code != exitOK || !strings.HasPrefix(stdout, "backtest\t") {
		t.Errorf("completion for kubectl: exit code %d and %q, want backtest", code, stdout)
	}
}

// Row 11 of docs/decisions/0007.
func TestHelp_essentialFlags_areAboutTenAndFitOnAScreen(t *testing.T) {
	for name, flags := range commandline.Essential {
		essential := strings.Fields(flags)
		if n := len(essential); n < 6 || n > 12 {
			t.Errorf("%s has %d essential flags, want about ten", name, n)
		}
		for _, flag := range essential {
			if command(t, name).Flags().Lookup(flag) == nil {
				t.Errorf("podfit %s has no flag --%s; remove it from commandline.Essential", name, flag)
			}
		}
		help, _, code := call(t, "podfit", name, "--help")
		if n := strings.Count(help, "\n"); code != exitOK || n > 75 {
			t.Errorf("podfit %s --help: exit code %d and %d lines, want at most 75", name, code, n)
		}
		if got, want := listedFlags(help), append(slices.Clone(essential), "help", commandline.HelpAll); !slices.Equal(got, want) {
			t.Errorf("podfit %s --help lists %q, want %q", name, got, want)
		}
		if want := "\nDetails and all flags: podfit " + name + " --help-all\n"; !strings.Contains(help, want) {
			t.Errorf("podfit %s --help does not say %q:\n%s", name, want, help)
		}
	}
	for _, c := range Root(Streams{}).Commands() {
		all, _, _ := call(t, "podfit", c.Name(), "--help")
		if n := len(listedFlags(all)); n > 14 {
			t.Errorf("podfit %s --help lists %d flags; choose about ten for commandline.Essential", c.Name(), n)
		}
	}
}

// Row 11 of docs/decisions/0007.
func TestHelpAll_eachFlagOfEachCommand_isInOneGroup(t *testing.T) {
	groups := map[string]string{}
	for _, g := range commandline.FlagGroups {
		for _, flag := range strings.Fields(g.Flags) {
			if other := groups[flag]; other != "" {
				t.Errorf("--%s is in the groups %q and %q; remove it from one in commandline.FlagGroups", flag, other, g.Title)
			}
			groups[flag] = g.Title
		}
	}
	unused := maps.Clone(groups)
	for name := range commandline.Essential {
		help, _, code := call(t, "podfit", name, "--help-all")
		listed := map[string]int{}
		for _, flag := range listedFlags(help) {
			listed[flag]++
		}
		c := command(t, name)
		c.InitDefaultHelpFlag()
		if code != exitOK || strings.Contains(help, "\nFlags:\n") || !strings.Contains(strings.Join(strings.Fields(help), " "), strings.Join(strings.Fields(c.Long), " ")) {
			t.Errorf("podfit %s --help-all: exit code %d, flags without a group or an incomplete description in\n%s", name, code, help)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			delete(unused, f.Name)
			switch {
			case process.HasNoEffect(f):
				if _, ineffective, _ := strings.Cut(help, "have no effect:\n"); !slices.Contains(listedFlags(ineffective), f.Name) {
					t.Errorf("podfit %s --help-all does not list --%s as a flag without effect", name, f.Name)
				}
			case f.Hidden:
			case groups[f.Name] == "":
				t.Errorf("--%s of podfit %s has no group in the help; add it to one in commandline.FlagGroups", f.Name, name)
			}
			if listed[f.Name] != 1 && !f.Hidden {
				t.Errorf("podfit %s --help-all lists --%s %d times", name, f.Name, listed[f.Name])
			}
		})
	}
	for flag := range unused {
		t.Errorf("no command has the flag --%s; remove it from commandline.FlagGroups", flag)
	}
}

// listedFlags returns the names of the flags that a help lists.
func listedFlags(help string) (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^  (?:-\w, |    )--([\w-]+)`).FindAllStringSubmatch(help, -1) {
		names = append(names, m[1])
	}
	return names
}

// A shell offers all flags, not only the essential ones.
func TestCompletion_flags_areAllOffered(t *testing.T) {
	for name := range commandline.Essential {
		stdout, _, _ := call(t, "podfit", "__complete", name, "--")
		command(t, name).Flags().VisitAll(func(f *pflag.Flag) {
			if offered := strings.Contains("\n"+stdout, "\n--"+f.Name+"\t"); !offered && !f.Hidden && f.Deprecated == "" {
				t.Errorf("podfit %s: --%s is not offered", name, f.Name)
			}
		})
	}
}

// Row 18 of docs/decisions/0007.
func TestCompletion_flagsWithFewValues_areCompleted(t *testing.T) {
	for line, want := range map[string][]string{
		"backtest --recommenders ":            {"default", "balanced", "cost", "critical"},
		"backtest --recommenders default,bal": {"default,balanced"},
		"backtest --output ":                  {"table", "json", "csv", "html"},
		"run --make-room s":                   {"shrink", "split"},
		"updater --oom-rescue ":               {"off", "evict", "delete"},
	} {
		args := append([]string{"podfit", "__complete"}, strings.Split(line, " ")...)
		stdout, _, code := call(t, args...)
		got := map[string]bool{}
		for _, candidate := range strings.Split(stdout, "\n") {
			got[candidate] = true
		}
		for _, w := range want {
			if !got[w] {
				t.Errorf("%q: exit code %d, and %q is not among the candidates %q", line, code, w, stdout)
			}
		}
	}
	stdout, _, _ := call(t, "podfit", "__complete", "run", "--make-room", "s")
	if strings.Contains(stdout, "move") {
		t.Errorf("values with another prefix are offered: %q", stdout)
	}
}

// A value that shells offer must be valid.
func TestCompletion_choices_areAccepted(t *testing.T) {
	for flag, values := range commandline.Choices {
		for _, value := range values {
			c := runDefaults()
			fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
			c.Flags(fs)
			if err := fs.Set(flag, value); err != nil {
				t.Errorf("--%s=%s: %v", flag, value, err)
			}
			if err := c.Validate(); err != nil {
				t.Errorf("--%s=%s: %v", flag, value, err)
			}
		}
	}
}
