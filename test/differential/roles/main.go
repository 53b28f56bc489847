// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command roles replays the recorded pods in pairs, each pair as a workload of two pods with different roles. It compares one size for both pods
// with a size for each role.
//
//	go -C test/differential run ./roles TRACE PROFILE
package main

import (
	"fmt"
	"os"

	"github.com/jedib0t/go-pretty/v6/table"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/trace"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "roles:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want a trace and the name of a profile, got %q", args)
	}
	workloads, err := trace.Read(args[0])
	if err != nil {
		return err
	}
	pairs := pairsOf(workloads)
	t := table.NewWriter()
	t.AppendHeader(table.Row{"sizes", "resource", "requests", "slack", "days without exceed", "pairs with groups"})
	var one result
	for i, sizes := range []string{oneSize, byRole, ownMemory} {
		r := replayAll(pairs, args[1], sizes)
		if i == 0 {
			one = r
		}
		for k, res := range cluster.All {
			m := &r.of[k]
			if m.podDays == 0 {
				continue
			}
			t.AppendRow(table.Row{sizes, res, fmt.Sprintf("%.2f", m.requested/one.of[k].requested), fmt.Sprintf("%.2f", 1-m.used/m.requested),
				fmt.Sprintf("%.2f %%", 100*float64(m.podDays-m.exceeds)/float64(m.podDays)), fmt.Sprintf("%d of %d", r.grouped, len(pairs))})
		}
	}
	fmt.Println(t.Render())
	return nil
}
