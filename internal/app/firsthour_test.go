// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"podfit.dev/podfit/internal/app/commandline"
	"podfit.dev/podfit/test/kubetest"
)

// The rows are those of docs/decisions/0007.

func TestFirstHour_eachRow_hasATest(t *testing.T) {
	page, err := os.ReadFile("../../docs/decisions/0007-prices-pages-and-the-first-hour.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	rows := regexp.MustCompile(`(?m)^\| (\d+) \|.*\|(.*)\|$`).FindAllStringSubmatch(string(page), -1)
	for i, row := range rows {
		if row[1] != strconv.Itoa(i+1) || !strings.Contains(row[2], "`Test") {
			t.Errorf("row %s of the page is number %d and has the tests %s", row[1], i+1, row[2])
		}
	}
	for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(page), -1) {
		if !tests[name[1]] {
			t.Errorf("the test %s does not exist", name[1])
		}
	}
	if len(rows) != 23 {
		t.Errorf("the page has %d rows, want 23", len(rows))
	}
}

// Row 13.
func TestMain_severalMistakes_areListedAtOnce(t *testing.T) {
	for line, want := range map[string][]string{
		"backtest --prometheus localhost:9090 --recommenders magic,magic --parallel 0 --learning 5h": {
			"podfit: the call has 6 mistakes:",
			"  --prometheus requires --namespace NAME or --all-namespaces",
			`  --prometheus must be a URL such as http://localhost:9090, got "localhost:9090" (did you mean http://localhost:9090?)`,
			`  --recommenders: there is no profile "magic"; `,
			"  --recommenders lists magic twice",
			"  --parallel must be at least 1, got 0",
			`  --learning must be a number of whole days such as 2d, at least 1d, got "5h"`,
			"See 'podfit backtest --help'",
		},
		"backtest --trase x.csv --outptu=json -q --parallel many": {
			"podfit: unknown flag: --trase (did you mean --trace?)", // pflag stops at the first that it cannot parse
			"See 'podfit backtest --help'",
		},
		"run --eviction-tolerance=7 --hpa=never": {
			"podfit: the call has 2 mistakes:",
			"  --hpa must be leave or ignore, got \"never\"",
			"  --eviction-tolerance must be between 0 and 1, got 7",
			"See 'podfit run --help'",
		},
		"backtest": {"podfit: one of --trace and --prometheus is required", "See 'podfit backtest --help'"},
	} {
		_, stderr, code := call(t, append([]string{"podfit"}, strings.Fields(line)...)...)
		lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
		if code != exitUsage || len(lines) != len(want) {
			t.Errorf("podfit %s: exit code %d and %d lines, want 2 and %d:\n%s", line, code, len(lines), len(want), stderr)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(lines[i], want[i]) {
				t.Errorf("podfit %s: line %d is %q, want %q", line, i+1, lines[i], want[i])
			}
		}
	}
}

// Row 3.
func TestMain_flagsOfKubectl_areAccepted(t *testing.T) {
	trace := writeTrace(t, 10)
	for _, line := range []string{
		"backtest --trace TRACE -o json", "backtest --trace TRACE -ojson", "backtest --trace TRACE -o wide", "backtest --trace TRACE -n lab", "backtest --trace TRACE -A",
		"backtest --trace TRACE --all-namespaces --output=csv",
	} {
		args := append([]string{"podfit"}, strings.Fields(strings.ReplaceAll(line, "TRACE", trace))...)
		if stdout, stderr, code := call(t, args...); code != exitOK || stdout == "" || stderr != "" {
			t.Errorf("podfit %s: exit code %d and %q", line, code, stderr)
		}
	}
	for line, want := range map[string]string{
		"backtest --trace TRACE -n lab -n shop":                                          "no samples of namespace shop",
		"backtest --trace TRACE -A -n lab":                                               "--namespace and --all-namespaces cannot both be set",
		"run --dry-run -n shop --context nope --as jane --kubeconfig TRACE":              "is not a kubeconfig",
		"run --dry-run -A -n shop":                                                       "--namespace and --all-namespaces cannot both be set",
		"updater --dry-run -A --kubeconfig TRACE":                                        "is not a kubeconfig",
		"recommend -A -l app=web --context nope --as jane -o yaml --kubeconfig TRACE":    "is not a kubeconfig",
		"recommend -n shop -n team-* -o wide --kubeconfig TRACE":                         "is not a kubeconfig",
		"explain deploy/cart -n shop --context nope --as jane -ojson --kubeconfig TRACE": "is not a kubeconfig",
		"capacity --context nope --as jane -o json --kubeconfig TRACE":                   "is not a kubeconfig",
		"web -n shop --context nope --as jane --kubeconfig TRACE":                        "is not a kubeconfig",
		"web -A --kubeconfig TRACE":                                                      "is not a kubeconfig",
		"web -A -n shop":                                                                 "--namespace and --all-namespaces cannot both be set",
		"recommend -A -n shop":                                                           "--all-namespaces and --namespace cannot both be set",
	} {
		args := append([]string{"podfit"}, strings.Fields(strings.ReplaceAll(line, "TRACE", trace))...)
		if _, stderr, code := call(t, args...); code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("podfit %s: exit code %d and %q, want %q", line, code, stderr, want)
		}
	}
}

// Row 15.
func TestBacktest_shortTrace_isMeasuredWithLessLearning(t *testing.T) {
	trace := writeTrace(t, 4)
	_, stderr, code := call(t, "podfit", "backtest", "--trace", trace)
	if want := "podfit: nothing to measure: no container has a full day of samples after its first 8 days, which are used for learning; " +
		"the longest history has 4 full days: use --learning 2d, or provide a longer one\n"; code != exitError || stderr != want {
		t.Errorf("exit code %d and %q, want 1 and %q", code, stderr, want)
	}
	stdout, stderr, code := call(t, "podfit", "backtest", "--trace", trace, "--learning", "2d")
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "measured after 2 days of learning") || !strings.Contains(stdout, "USD per month: default ") {
		t.Errorf("--learning 2d: exit code %d, %q and\n%s", code, stderr, stdout)
	}
}

// Row 16.
func TestBacktest_costs_haveTheirCurrency(t *testing.T) {
	trace := writeTrace(t, 10)
	for args, want := range map[string]string{
		"":                                 "USD per month: default ",
		"--currency=EUR":                   "EUR per month: default ",
		"--cpu-price=0.03":                 "cost per month: default ", // the currency of a price is unknown
		"--cpu-price=0.03 --currency=EUR":  "EUR per month: default ",
		"--memory-price=0.01 --currency=€": "€ per month: default ",
	} {
		stdout, _, code := call(t, append([]string{"podfit", "backtest", "--trace", trace}, strings.Fields(args)...)...)
		if code != exitOK || !strings.Contains(stdout, "\n"+want) {
			t.Errorf("backtest %s: exit code %d, and no line with %q:\n%s", args, code, want, stdout)
		}
	}
}

// Row 11.
func TestHelp_eachCommand_fitsTheTerminal(t *testing.T) {
	for _, program := range []string{"podfit", "kubectl-podfit"} {
		t.Run(program, func(t *testing.T) { helpFits(t, program) })
	}
}

func helpFits(t *testing.T, program string) {
	const width = 80
	name := strings.ReplaceAll(program, "-", " ")
	for _, c := range append(Root(Streams{}).Commands(), &cobra.Command{Use: "help"}, &cobra.Command{}) {
		for _, flag := range []string{"--help", "--help-all"} {
			help, _, code := call(t, append([]string{program}, strings.Fields(c.Name()+" "+flag)...)...)
			if commandline.Essential[c.Name()] == "" && flag == "--help-all" {
				continue
			}
			if code != exitOK || !strings.Contains(help, "\nUsage:\n  "+name) {
				t.Fatalf("podfit %s %s: exit code %d and\n%s", c.Name(), flag, code, help)
			}
			about, rest, _ := strings.Cut(help, "\nUsage:\n")
			for line := range strings.Lines(about + rest) {
				line = strings.TrimRight(line, " \n")
				first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
				isList := strings.Contains(about, line) && strings.HasPrefix(line, "  ")
				isCommand := strings.HasPrefix(line, "  "+name)                        // on one line, to be copied
				tooLong := len(first) > 25 || strings.HasPrefix(line, "  completion ") // a word that pflag does not break, and a text of cobra
				if n := utf8.RuneCountInString(line); n > width && !isList && !isCommand && !tooLong {
					t.Errorf("podfit %s %s: a line has %d columns: %s", c.Name(), flag, n, line)
				}
			}
		}
	}
}

// Row 11.
func TestHelp_root_groupsAllCommands(t *testing.T) {
	help, _, _ := call(t, "podfit")
	for _, want := range []string{"\nSee what podfit would do; nothing is changed, except by capacity --apply:\n", "\n  backtest  ", "\nRun podfit:\n  admission-controller ", "\nInstall podfit, and more:\n  completion ", "podfit [command]", "Examples:"} {
		if !strings.Contains(help, want) {
			t.Errorf("the help does not contain %q:\n%s", want, help)
		}
	}
	if strings.Contains(help, "\nAdditional Commands:\n") {
		t.Errorf("a command has no group:\n%s", help)
	}
	for _, c := range Root(Streams{}).Commands() {
		if n := strings.Count(help, "\n  "+c.Name()+" "); n == 0 {
			t.Errorf("the help does not list %s:\n%s", c.Name(), help)
		}
	}
}

// Row 19.
func TestHelp_calledByKubectl_examplesNameThePlugin(t *testing.T) {
	for _, line := range []string{"--help", "backtest --help", "run --help", "crds --help"} {
		help, _, _ := call(t, append([]string{"/usr/local/bin/kubectl-podfit"}, strings.Fields(line)...)...)
		if !strings.Contains(help, "\n  kubectl podfit ") {
			t.Errorf("%s does not name the plugin:\n%s", line, help)
		}
		for text := range strings.Lines(help) {
			if strings.HasPrefix(text, "  podfit ") {
				t.Errorf("%s names podfit, not the plugin: %s", line, text)
			}
		}
	}
}

// Row 18.
func TestCompletion_clusterOfTheKubeconfig_offersItsNamespaces(t *testing.T) {
	api := kubetest.NewFakeAPI(t)
	api.Apply("/api/v1/namespaces", `{"metadata":{"name":"shop"}}`)
	kubeconfig := kubetest.Kubeconfig(t, api.URL())
	for _, name := range []string{"podfit __complete", "kubectl_complete-podfit"} { // kubectl calls the second for kubectl podfit
		for _, c := range []string{"run", "recommender", "updater", "admission-controller", "recommend", "explain", "web"} {
			args := append(strings.Fields(name), c, "--kubeconfig", kubeconfig)
			if stdout, _, _ := call(t, append(args, "-n", "s")...); !strings.HasPrefix(stdout, "shop\n") {
				t.Errorf("%s %s -n s: got %q, want shop", name, c, stdout)
			}
			if stdout, _, _ := call(t, append(args, "--context", "")...); !strings.HasPrefix(stdout, "c\n") {
				t.Errorf("%s %s --context: got %q, want c", name, c, stdout)
			}
		}
	}
}
