// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command promises reads the report of podfit backtest --nodes -o json, and prints its figures of nodes and whether the profile packed keeps what
// docs/backtest.md says of it. With -check, a promise that is not kept is an error.
//
//	podfit backtest --trace FILE --recommenders default,packed --nodes memory=64Gi,cpu=16 -o json | go -C test/differential run ./promises [-check]
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"podfit.dev/podfit/internal/core/packing"
)

// What is promised of packed. Ratios are to the nodes of the first profile, on nodes of 64 GiB.
const (
	ratioHere     = 0.62 // for bitbrains.csv.gz
	ratioOther    = 0.65 // for other machines
	ratioMemory   = 64 << 30
	mostShort     = 0.005
	leastKillFree = 0.993
)

func main() {
	check := flag.Bool("check", false, "If true, a promise that is not kept is an error.")
	flag.Parse()
	kept, err := run(os.Stdin, os.Stdout)
	if err == nil && *check && !kept {
		err = errors.New("a promise is not kept")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "promises:", err)
		os.Exit(1)
	}
}

// run prints the figures and the verdicts, and reports whether all promises are kept.
func run(in io.Reader, out io.Writer) (kept bool, err error) {
	var report struct {
		Trace string           `json:"trace"`
		Nodes []packing.Report `json:"nodes"`
	}
	if err := json.NewDecoder(in).Decode(&report); err != nil {
		return false, fmt.Errorf("read the report: %w", err)
	}
	t := table.NewWriter()
	t.AppendHeader(table.Row{"nodes", "profile", "nodes", "first fit", "day maximum", "ratio", "short", "most of halves", "CPU saturated", "kill-free", "kill-free, peaks"})
	var verdicts []string
	kept = true
	for i := range report.Nodes {
		r := &report.Nodes[i]
		size := fmt.Sprintf("%.0f GiB, %g cores", r.Shape.Memory/(1<<30), r.Shape.CPU)
		for k := range r.Results {
			x := &r.Results[k]
			t.AppendRow(table.Row{
				fmt.Sprintf("%s, %d replicas", size, r.Shape.Copies), x.Recommender, fmt.Sprintf("%.1f", x.Nodes), fmt.Sprintf("%.1f", x.FirstFit), fmt.Sprintf("%.1f", x.DayMaximum),
				fmt.Sprintf("%.2f, %.2f–%.2f", x.Ratio, x.RatioFrom, x.RatioTo),
				percent(x.Short), percent(x.ShortTo), percent(x.Saturated), percent(x.KillFreeProportional), percent(x.KillFreePeaks),
			})
			if !strings.HasPrefix(x.Recommender, "packed") {
				continue
			}
			for _, p := range promises(report.Trace, r, x) {
				verdict := "kept"
				if !p.kept {
					verdict, kept = "NOT KEPT", false
				}
				verdicts = append(verdicts, fmt.Sprintf("%s: %s: %s", size, p.text, verdict))
			}
		}
	}
	if len(verdicts) == 0 {
		return false, errors.New("the report has no nodes of the profile packed; use podfit backtest --nodes and --recommenders default,packed")
	}
	fmt.Fprintf(out, "%s\n%s\n%s\n", report.Trace, t.Render(), strings.Join(verdicts, "\n"))
	return kept, nil
}

// A promise is what is promised and the figure, and whether it is kept.
type promise struct {
	text string
	kept bool
}

// promises returns those for a size of nodes. A figure that is not known keeps none.
func promises(trace string, r *packing.Report, x *packing.Result) (out []promise) {
	if r.Shape.Memory == ratioMemory {
		most := ratioOther
		if filepath.Base(trace) == "bitbrains.csv.gz" {
			most = ratioHere
		}
		out = append(out, promise{fmt.Sprintf("at most %.2f of the nodes of %s, got %.3f", most, r.Results[0].Recommender, x.Ratio), x.Ratio <= most})
	}
	return append(out,
		promise{fmt.Sprintf("at most %.1f %% of the node-days short, got %s", 100*mostShort, percent(x.Short)), x.Short != nil && *x.Short <= mostShort},
		promise{fmt.Sprintf("at least %.1f %% of the container-days kill-free, got %s", 100*leastKillFree, percent(x.KillFreePeaks)), x.KillFreePeaks != nil && *x.KillFreePeaks >= leastKillFree})
}

func percent(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f %%", 100**v)
}
