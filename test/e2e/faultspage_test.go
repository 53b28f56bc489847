// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// writesFaults is the name of the environment variable with which TestFaults writes docs/faults.md, if it runs all faults.
const writesFaults = "PODFIT_FAULTS_WRITE"

const faultsIntroduction = `<!-- Written by "make faults LONG=1 WRITE=1". -->
# Faults

` + "`make faults LONG=1`" + ` injects the faults of this table into a local cluster, one after the other: a real control plane with three simulated nodes, and the three components
of podfit as processes of their own, with the rights of ` + "`deploy/`" + `. ` + "`make faults`" + ` leaves out the faults that are marked *long*.

- **Recovered in** is the time from the end of the fault until podfit has recommended for workloads whose recommendation was removed, has resized two running pods, and has
  sized a new pod. The recommender and the updater make a pass every 5 s. The limit is 90 s, or four times as much on a busy machine. If an updater is killed while it changes the
  pods of a workload, the next one leaves that workload alone for five minutes; another workload shows the recovery.
- **Violations** are broken invariants: [test/e2e/README.md](../test/e2e/README.md#invariants) lists them. Besides, the recommendation must suit what the workload uses, no more than
  ten minutes of samples may be forgotten, unless the fault destroys what is stored, and no log may have a panic.

`

// faultTable returns the table of results.
func faultTable(table []result) string {
	var out strings.Builder
	out.WriteString("| fault | recovered in | violations |\n|---|---|---|\n")
	for _, r := range table {
		fmt.Fprintln(&out, r)
	}
	return out.String()
}

// faultsPage returns docs/faults.md.
func faultsPage(rows []fault, table []result) string {
	table = slices.Clone(table)
	kinds := map[string]bool{}
	long := map[string]bool{}
	for _, one := range rows {
		kinds[orElse(one.kind, one.name)] = true
		long[one.name] = one.long
	}
	var out strings.Builder
	out.WriteString(faultsIntroduction)
	violations := 0
	for _, r := range table {
		violations += r.violations
	}
	fmt.Fprintf(&out, "Machine: %s.\n\n%d faults of %d kinds, %d violations.\n\n", thisMachine(), len(rows), len(kinds), violations)
	for i, r := range table {
		if long[r.fault] {
			table[i].fault += " *(long)*"
		}
	}
	out.WriteString(faultTable(table))
	return out.String()
}

// writeFaults writes docs/faults.md.
func writeFaults(t *testing.T, table []result) {
	t.Helper()
	page := faultsPage(faults(shared.root), table)
	if err := os.WriteFile(filepath.Join(shared.root, "docs", "faults.md"), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}

// thisMachine describes the machine.
func thisMachine() string {
	field := func(path, name string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, name); ok {
				return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), ":"))
			}
		}
		return ""
	}
	memory := "unknown memory"
	if kib, err := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal:"), " kB")); err == nil {
		memory = fmt.Sprintf("%d GiB of memory", (kib+1<<19)>>20)
	}
	return fmt.Sprintf("%s, %d cores, %s, %s, %s", orElse(field("/proc/cpuinfo", "model name"), runtime.GOARCH), runtime.NumCPU(), memory, runtime.GOOS, runtime.Version())
}
