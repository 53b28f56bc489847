// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command load measures podfit with many workloads, at an API server that keeps everything in memory. It runs podfit's components as three
// processes and as one, and optionally upstream's, on the same input, and prints the results beside the budgets. With -write, it also
// writes docs/performance.md from the results of all sizes that were measured. With -soak, it runs podfit with churn and faults instead, and judges what
// the API server got from it.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/load/fleet"
)

// options are the flags of the command.
type options struct {
	sizes   string
	pods    int
	systems string
	write   bool
	soak    time.Duration
	skip    string
	setup   Setup
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func execute(ctx context.Context, args []string, out, progress io.Writer) error {
	debug.SetGCPercent(400) // the API server shares the CPU with the components
	o := options{setup: Setup{Fleet: fleet.Config{Seed: 1}}}
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.StringVar(&o.sizes, "workloads", "1000", "comma-separated numbers of workloads, with a VPA each")
	flags.IntVar(&o.pods, "pods", 10, "pods of each workload")
	flags.StringVar(&o.systems, "systems", "separate,run", "comma-separated systems to measure: separate, run, upstream")
	flags.BoolVar(&o.write, "write", false, "write docs/performance.md from the results of all sizes; with -soak, docs/soak.md")
	flags.DurationVar(&o.soak, "soak", 0, "run podfit for so long with churn and faults, in days of 40 s, instead of measuring it")
	flags.StringVar(&o.skip, "skip", "", "text in the names of faults that a soak leaves out")
	flags.IntVar(&o.setup.QPS, "qps", 500, "requests per second that a component may send")
	flags.DurationVar(&o.setup.Limit, "limit", 4*time.Minute, "how long the first recommendations may take")
	flags.DurationVar(&o.setup.Settle, "settle", time.Minute, "how long the updater may correct pods before the steady state; from 10m on, that is a table of its own")
	flags.DurationVar(&o.setup.Steady, "steady", 130*time.Second, "how long the steady state is measured")
	flags.DurationVar(&o.setup.Webhook, "webhook", 20*time.Second, "how long the webhook is loaded; 0 for not at all")
	flags.IntVar(&o.setup.Rate, "reviews", 500, "admission reviews per second")
	flags.BoolVar(&o.setup.Churn, "churn", false, "change workloads in the steady state: rollouts, scaling, jobs, a deleted namespace")
	flags.DurationVar(&o.setup.Fleet.History, "history", 8*24*time.Hour, "for which checkpoints exist at the start; 0 for a new installation")
	flags.Uint64Var(&o.setup.Fleet.Seed, "seed", 1, "seed of names, sizes and usage")
	flags.StringVar(&o.setup.Podfit, "podfit", "", "path of podfit; empty: it is built")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := bed.Root()
	if err != nil {
		return err
	}
	if o.soak > 0 {
		return o.soakFor(ctx, root, out, progress)
	}
	store := filepath.Join(root, ".cache", "load")
	if o.systems != "" {
		results, err := o.measure(ctx, root, store, progress)
		if err != nil {
			return err
		}
		printResults(out, results)
	}
	if !o.write {
		return nil
	}
	results, err := stored(store)
	if err != nil {
		return err
	}
	page, err := document(results)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "performance.md"), []byte(page), 0o644)
}

// soakFor soaks podfit, and stores and prints the report.
func (o options) soakFor(ctx context.Context, root string, out, progress io.Writer) error {
	setup := SoakSetup{
		Fleet: o.setup.Fleet, Days: int(o.soak / simulatedDay), Length: simulatedDay, Recommender: 15 * time.Second, Updater: 10 * time.Second, Bound: 90 * time.Second,
		Podfit: o.setup.Podfit, Skip: o.skip, Dir: filepath.Join(root, ".cache", "soak"),
	}
	var err error
	if setup.Fleet.Workloads, err = strconv.Atoi(o.sizes); err != nil || setup.Fleet.Workloads < 1 || o.pods < 1 || setup.Days < 4 {
		return fmt.Errorf("a soak needs one number of workloads, at least one pod and %v, got %q, %d and %v", 4*simulatedDay, o.sizes, o.pods, o.soak)
	}
	setup.Fleet.Pods = o.pods
	if setup.Podfit == "" {
		if setup.Podfit, err = bed.Build(ctx, root, progress); err != nil {
			return err
		}
	}
	fmt.Fprintf(progress, "%d days of %v, seed %d\n", setup.Days, setup.Length, setup.Fleet.Seed)
	report, err := runSoak(ctx, setup, progress)
	if report != nil {
		report.print(out)
		err = errors.Join(err, report.write(filepath.Join(setup.Dir, "report.json")))
	}
	if err == nil && o.write {
		err = os.WriteFile(filepath.Join(root, "docs", "soak.md"), []byte(report.page()), 0o644)
	}
	if err == nil && len(report.Violations) > 0 {
		err = fmt.Errorf("%d violations", len(report.Violations))
	}
	return err
}

// measure measures all sizes and systems, and stores the results.
func (o options) measure(ctx context.Context, root, store string, progress io.Writer) ([]*Result, error) {
	var err error
	if o.setup.Podfit == "" {
		if o.setup.Podfit, err = bed.Build(ctx, root, progress); err != nil {
			return nil, err
		}
	}
	if slices.Contains(strings.Split(o.systems, ","), "upstream") {
		if o.setup.Upstream, err = buildUpstream(ctx, root, progress); err != nil {
			return nil, err
		}
	}
	var out []*Result
	for text := range strings.SplitSeq(o.sizes, ",") {
		s := o.setup
		if s.Fleet.Workloads, err = strconv.Atoi(text); err != nil || s.Fleet.Workloads < 1 || o.pods < 1 {
			return nil, fmt.Errorf("the numbers of workloads and pods must be at least 1, got %q and %d", text, o.pods)
		}
		s.Fleet.Pods = o.pods
		for name := range strings.SplitSeq(o.systems, ",") {
			result, err := measureSystem(ctx, s, name, store, progress)
			if err != nil {
				return nil, fmt.Errorf("%s with %s workloads: %w", name, text, err)
			}
			out = append(out, result)
			s.Statuses = result.statuses
		}
	}
	return out, nil
}

// measureSystem measures one system, and stores the result.
func measureSystem(ctx context.Context, s Setup, name, store string, progress io.Writer) (*Result, error) {
	s.System = map[string]string{"separate": separate, "run": oneProcess, "upstream": upstream}[name]
	if s.System == "" {
		return nil, errors.New("the systems are separate, run and upstream")
	}
	size := fmt.Sprintf("%dx%d", s.Fleet.Workloads, s.Fleet.Pods)
	if s.Churn {
		size += "-churn"
	}
	if s.Fleet.History == 0 {
		size += "-new"
	}
	if s.settles() {
		size += "-settled"
	}
	s.Dir = filepath.Join(store, size, name)
	result, err := measure(ctx, s, progress)
	if err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(result, "", "\t")
	if err != nil {
		return nil, err
	}
	return result, os.WriteFile(filepath.Join(s.Dir, "result.json"), b, 0o644)
}

// buildUpstream returns the folder of upstream's components. They are built the first time.
func buildUpstream(ctx context.Context, root string, progress io.Writer) (string, error) {
	c := exec.CommandContext(ctx, "go", "run", ".")
	c.Dir = filepath.Join(root, "test", "upstream")
	c.Stderr = progress
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("build upstream: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// stored returns the results that earlier commands have stored, the smaller sizes first.
func stored(dir string) ([]*Result, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "result.json"))
	if err != nil {
		return nil, err
	}
	var out []*Result
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		r := new(Result)
		if err := json.Unmarshal(b, r); err != nil {
			return nil, fmt.Errorf("read %s: %w", f, err)
		}
		out = append(out, r)
	}
	order := []string{separate, oneProcess, upstream}
	slices.SortStableFunc(out, func(a, b *Result) int {
		return cmp.Or(a.Workloads-b.Workloads, strings.Compare(title(a), title(b)), slices.Index(order, a.System)-slices.Index(order, b.System))
	})
	return out, nil
}

// printResults prints the tables of results.
func printResults(w io.Writer, results []*Result) {
	for _, g := range grouped(results) {
		fmt.Fprintf(w, "\n%s\n\n", title(g[0]))
		measures(g).write(w)
		fmt.Fprintln(w)
		memory(g).write(w)
		fmt.Fprintln(w)
		steps(g).write(w)
		for _, r := range g {
			fmt.Fprintf(w, "\nRequests of %s\n\n", r.System)
			traffic(r).write(w)
			for _, m := range missed(r) {
				fmt.Fprintf(w, "\nBudget missed by %s: %s\n", r.System, m)
			}
		}
	}
	if t := growths(results); t != nil {
		fmt.Fprintln(w)
		t.write(w)
	}
}

// title names the size of a run.
func title(r *Result) string {
	out := fmt.Sprintf("%s VPAs, %s pods, %s containers", thousands(r.Workloads), thousands(r.Workloads*r.Pods), thousands(r.Containers))
	if r.New {
		out += ", no stored history"
	}
	if r.Churn {
		out += ", with churn"
	}
	if r.Settled > 0 {
		out += fmt.Sprintf(", %d minutes later", r.Settled)
	}
	return out
}

// thousands writes a number with commas.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// grouped returns the results by size, in the same order.
func grouped(results []*Result) [][]*Result {
	var out [][]*Result
	for _, r := range results {
		at := slices.IndexFunc(out, func(g []*Result) bool { return title(g[0]) == title(r) })
		if at < 0 {
			out = append(out, nil)
			at = len(out) - 1
		}
		out[at] = append(out[at], r)
	}
	return out
}
