// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of rights in docs/scope.md and README")

// docs/scope.md lists the rights that the manifests grant, and no others, and README those to write.
func TestRights_pages_listExactlyTheGrantedOnes(t *testing.T) {
	var table strings.Builder
	table.WriteString("| account | rights |\n|---|---|\n")
	base, accounts := granted(t, manifests(t)), []string{"vpa-recommender", "vpa-updater", "vpa-admission-controller"}
	for _, account := range accounts {
		fmt.Fprintf(&table, "| `%s` | %s |\n", account, inWords(base[account]))
	}
	if len(base) != len(accounts) {
		t.Errorf("deploy/ grants rights to %v, and the page lists those of %v", slices.Sorted(maps.Keys(base)), accounts)
	}
	table.WriteString("\n| component of `deploy/rights` | value of the chart | adds to the updater, or the account that is named |\n|---|---|---|\n")
	folders, err := filepath.Glob("../../deploy/rights/*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("%d folders, %v", len(folders), err)
	}
	for _, folder := range folders { // sorted
		name := filepath.Base(folder)
		account, of := accountOf(name), ""
		if account != "vpa-updater" {
			of = "`" + account + "`: "
		}
		fmt.Fprintf(&table, "| `%s` | `rights.%s` | %s%s |\n", name, camelCase(name), of, inWords(granted(t, decode(t, folder+"/*.yaml"))[account]))
	}
	sameTable(t, "../../docs/scope.md", "<!-- rights: written by go test ./test/contract -update -->\n\n", table.String(), "\n<!-- end of rights -->")

	var written strings.Builder
	for _, account := range accounts {
		fmt.Fprintf(&written, "| `%s` | %s |\n", account, writable(base[account]))
	}
	sameTable(t, "../../README.md", "| account | may write |\n|---|---|\n", written.String(), "\n")
}

// sameTable checks the rows of a table of a page between two texts, or writes them.
func sameTable(t *testing.T, page, begin, want, end string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	have, after, ended := strings.Cut(rest, "\n"+end)
	if !found || !ended {
		t.Fatalf("%s has no table of rights", page)
	}
	if have+"\n" == want {
		return
	}
	if !*update {
		t.Fatalf("the rights in %s are not those of deploy/; run go test ./test/contract -update:\n%s", page, want)
	}
	if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// writable returns the resources for which an account has a right to write.
func writable(lines []string) string {
	all := map[string]bool{}
	for _, line := range lines {
		_, what, _ := strings.Cut(line, " ")
		what, verbs, _ := strings.Cut(what, ": ")
		what, _, _ = strings.Cut(what, "[")
		if _, resource, ok := strings.Cut(what, "/"); ok && slices.ContainsFunc(strings.Fields(verbs), func(verb string) bool { return !reads[verb] }) {
			all["`"+resource+"`"] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), ", ")
}

var reads = map[string]bool{"get": true, "list": true, "watch": true}

// inWords groups rights by their verbs.
func inWords(lines []string) string {
	groups := map[string][]string{}
	for _, line := range lines {
		where, what, _ := strings.Cut(line, " ")
		what, verbs, _ := strings.Cut(what, ": ")
		what, names, named := strings.Cut(what, "[")
		name := "`" + what + "`"
		if group, resource, ok := strings.Cut(what, "/"); ok && group != "" && group != "*" {
			name = "`" + resource + "." + group + "`"
			if group == "core" {
				name = "`" + resource + "`"
			}
		}
		if named {
			name += " (" + strings.ReplaceAll(strings.TrimSuffix(names, "]"), " ", ", ") + ")"
		}
		if where != "cluster" {
			verbs = "in " + where + " " + verbs
		}
		groups[verbs] = append(groups[verbs], name)
	}
	var out []string
	for _, verbs := range slices.Sorted(maps.Keys(groups)) {
		slices.Sort(groups[verbs])
		out = append(out, verbs+": "+strings.Join(groups[verbs], ", "))
	}
	return strings.Join(out, "; ")
}

// camelCase returns the key of the chart's values for a folder.
func camelCase(folder string) string {
	parts := strings.Split(folder, "-")
	for i := range parts {
		if i > 0 {
			parts[i] = strings.ToUpper(parts[i][:1]) + parts[i][1:]
		}
	}
	return strings.Join(parts, "")
}
