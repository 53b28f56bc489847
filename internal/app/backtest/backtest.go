// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package backtest is the job that replays recorded usage through several profiles and compares the results.
package backtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/common/model"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/edge/profile"
	"podfit.dev/podfit/internal/edge/prom"
	"podfit.dev/podfit/internal/edge/report"
	"podfit.dev/podfit/internal/edge/trace"
	"podfit.dev/podfit/internal/spelling"
)

// Config is the configuration of podfit backtest.
type Config struct {
	Trace        string
	History      History // used if its address is set
	Namespaces   []string
	All          bool // all namespaces
	Recommenders []string
	Nodes        []string
	Timeline     string
	Output       string
	Since, Until string
	Mode         string
	Learning     string
	Parallel     int
	Workloads    int
	Prices       replay.Prices
	Tolerance    replay.Tolerance
	Quiet        bool
	Verbose      int

	given map[string]bool // names of the flags on the command line
}

const defaultCurrency = "USD"

// Defaults returns the defaults. The prices are on-demand prices of a general-purpose machine at a large cloud provider;
// only their ratio matters for comparisons.
func Defaults() Config {
	return Config{
		Recommenders: []string{"default", "balanced"},
		Output:       "table",
		Mode:         "profile",
		Learning:     fmt.Sprintf("%dd", replay.DefaultLearning),
		Parallel:     runtime.GOMAXPROCS(0),
		Workloads:    20,
		Prices:       replay.Prices{Core: 0.031611, GiB: 0.004237, Currency: defaultCurrency},
		Tolerance:    replay.DefaultTolerance(nil),
	}
}

// NewCommand returns "podfit backtest".
func NewCommand() *cobra.Command {
	c := Defaults()
	names := cluster.Each(recommend.BacktestProfiles(), func(p *recommend.Profile) string { return fmt.Sprintf("  %-18s%s", p.Name, p.About) })
	cmd := &cobra.Command{
		Use:   "backtest {--trace PATH | --prometheus URL}",
		Short: "Compare profiles by replaying recorded usage",
		Long: `Replays recorded usage through the same code that runs in a cluster. For each
recommender it reports the cost of the requests and how often usage was above
the request. It changes nothing.

Each decision uses only samples that are older than the decision. The first 8
days of each container are used for learning and are not part of the results.
With a shorter history, use --learning.

Recommenders:
` + strings.Join(names, "\n") + `

Exit codes:
  0  success
  1  failure: a source cannot be read, output cannot be written, or no container
     has a complete day of samples after the learning days (without --timeline)
  2  invalid command line; nothing was read`,
		Example: `  podfit backtest --trace usage.csv.gz --recommenders default,balanced,cost
  podfit backtest --trace three-days.csv --learning 1d
  podfit backtest --trace traces/ --recommenders default,balanced -o html > report.html
  podfit backtest --prometheus http://localhost:9090 -n shop -n web
  podfit backtest --prometheus http://localhost:9090 --all-namespaces
  podfit backtest --trace traces/ --recommenders balanced --timeline requests.csv -o json
  podfit backtest --trace usage.csv.gz --recommenders default,packed --nodes memory=64Gi,cpu=16,replicas=8`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return process.UsageError{Err: c.stray(args[0])}
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.given = map[string]bool{}
			cmd.Flags().Visit(func(f *pflag.Flag) { c.given[f.Name] = true })
			return run(cmd.Context(), c, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.Var(&once{to: &c.Trace}, "trace", "Path of a trace (*.csv or *.csv.gz), or of a folder that contains traces.")
	f.StringSliceVarP(&c.Namespaces, "namespace", "n", c.Namespaces, "Namespace to replay. Can be repeated, or be a comma-separated list. With --trace, the default is all namespaces of the trace.")
	f.BoolVarP(&c.All, "all-namespaces", "A", c.All, "If true, replay all namespaces. With --prometheus, this flag or --namespace is required.")
	c.History.flags(f)
	f.StringSliceVar(&c.Recommenders, "recommenders", c.Recommenders, "Comma-separated list of profiles to compare: names of built-in profiles, and paths of YAML files that contain a SizingProfile.")
	f.StringArrayVar(&c.Nodes, "nodes", c.Nodes, "If set, also report how many nodes of this size the requests need, and how often usage exceeds the nodes. Can be repeated. Allocatable memory and CPU, such as memory=64Gi,cpu=16. Optionally, also pods=N: how many pods a node runs (default 110); replicas=N: how often each recorded pod runs (default 1, at most 100); and copies=N: how many pods of a workload on one node packed sizes for (default 1).")
	f.StringVar(&c.Timeline, "timeline", c.Timeline, "If non-empty, write the requests over time to this CSV file.")
	f.StringVarP(&c.Output, "output", "o", c.Output, "Format of the report: table (as many columns as fit the terminal), wide (all columns), json, csv or html.")
	f.StringVar(&c.Since, "since", c.Since, "Ignore samples before this time. RFC 3339, a date such as 2026-03-01, or Unix seconds.")
	f.StringVar(&c.Until, "until", c.Until, "Ignore samples at and after this time. Same formats as --since.")
	f.StringVar(&c.Mode, "mode", c.Mode, "How changes are applied: Recreate, InPlaceOrRecreate, or profile, which is the mode that each profile is designed for.")
	f.StringVar(&c.Learning, "learning", c.Learning, "Time at the start of each container that is used for learning and not measured, in whole days, such as 2d. The profiles need 8 days to learn; after fewer, the results are worse than they would be in a cluster.")
	f.IntVar(&c.Parallel, "parallel", c.Parallel, "Number of workloads that are replayed concurrently. At least 1. The result does not depend on it.")
	f.IntVar(&c.Workloads, "workloads", c.Workloads, "Number of workloads in the table and the HTML report, worst first. -1 means all.")
	f.Float64Var(&c.Prices.Core, "cpu-price", c.Prices.Core, "Price of one core for one hour.")
	f.Float64Var(&c.Prices.GiB, "memory-price", c.Prices.GiB, "Price of one GiB of memory for one hour.")
	f.StringVar(&c.Prices.Currency, "currency", c.Prices.Currency, "Currency of the prices, for display. If a price is set, the default is empty.")
	f.Float64Var(&c.Tolerance.DaysAbove, "oom-budget", 0, "Maximum fraction of days with memory usage above the request for the best recommender. Between 0 and 1. If unset, the largest fraction that one of the recommenders promises.")
	f.Float64Var(&c.Tolerance.Shortfall, "cpu-shortfall", c.Tolerance.Shortfall, "Maximum fraction of CPU usage above the request for the best recommender. Between 0 and 1.")
	f.BoolVar(&c.Quiet, "quiet", c.Quiet, "If true, show no progress bar.")
	f.CountVarP(&c.Verbose, "verbose", "v", "Also print the query to Prometheus that failed.")
	process.CompleteFlag(cmd, "recommenders", profileNames()...)
	process.CompleteFlag(cmd, "output", formats...)
	process.CompleteFlagWith(cmd, "namespace", func(ctx context.Context) []string { return c.knownNamespaces(ctx, cmd) })
	process.CompleteFlag(cmd, "mode", "profile", "Recreate", "InPlaceOrRecreate")
	return cmd
}

// knownNamespaces returns the namespaces that Prometheus or the trace knows; else those of the cluster. None if they cannot be read.
func (c *Config) knownNamespaces(ctx context.Context, cmd *cobra.Command) []string {
	switch {
	case process.IsURL(c.History.Address):
		length, err := model.ParseDuration(c.History.Length)
		if err != nil {
			return nil
		}
		client, err := c.History.client(time.Duration(length))
		if err != nil {
			return nil
		}
		now := time.Now()
		names, _ := client.Namespaces(ctx, now.Add(-client.Length()), now) // without them, nothing is offered
		return names
	case c.Trace != "":
		workloads, _ := trace.Read(c.Trace)
		return namespacesOf(workloads)
	}
	return process.ClusterNamespaces(ctx, cmd)
}

// namespacesOf returns the namespaces of workloads, sorted.
func namespacesOf(workloads []replay.Workload) []string {
	names := cluster.Each(workloads, func(w *replay.Workload) string { return w.Key.Namespace })
	slices.Sort(names)
	return slices.Compact(names)
}

// once is a flag value that may be set once. Otherwise --trace *.csv, which the shell expands, would use one file and ignore the others.
type once struct {
	to    *string
	given bool
}

func (o *once) String() string { return "" }
func (o *once) Type() string   { return "path" }

// Set implements pflag.Value.
func (o *once) Set(s string) error {
	if o.given && s != *o.to { // for the completion in a shell, cobra parses the flags twice
		return errors.New("the flag is set twice; to replay several files, put them into one folder")
	}
	*o.to, o.given = s, true
	return nil
}

// stray returns the error for an argument that is not a flag.
func (c *Config) stray(arg string) error {
	_, builtin := recommend.BacktestProfile(arg)
	switch {
	case builtin || isFile(arg):
		return fmt.Errorf("unexpected argument %q; list the recommenders in --recommenders, separated by commas without spaces", arg)
	case c.Trace != "":
		return fmt.Errorf("unexpected argument %q; --trace takes one file or one folder", arg)
	case c.History.Address != "":
		return fmt.Errorf("unexpected argument %q", arg)
	case process.IsURL(arg):
		return fmt.Errorf("unexpected argument %q; to read from Prometheus, use --prometheus %s", arg, arg)
	}
	return fmt.Errorf("unexpected argument %q; to read a trace, use --trace %s", arg, arg)
}

// Validate returns an error for each invalid flag, with the flag's name and the values it accepts.
func (c *Config) Validate() error {
	errs := process.Problems{c.validateSource(), c.validateNamespaces(), c.validateRecommenders(), c.validateNumbers(), c.validateTimeline()}
	errs.AddIf(reporters[c.Output] == nil, "--output must be table, wide, json, csv or html, got %q", c.Output)
	errs.AddIf(c.Mode != "profile" && c.Mode != "Recreate" && c.Mode != "InPlaceOrRecreate", "--mode must be profile, Recreate or InPlaceOrRecreate, got %q", c.Mode)
	errs.AddIf(c.Parallel < 1, "--parallel must be at least 1, got %d", c.Parallel)
	isInvisible := func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }
	errs.AddIf(strings.ContainsFunc(c.Prices.Currency, isInvisible) || len(c.Prices.Currency) > 12, "--currency must be a symbol or a code such as EUR, got %q", c.Prices.Currency)
	_, err := c.learningDays()
	errs = append(errs, err)
	_, _, err = c.times()
	errs = append(errs, err)
	_, err = c.shapes()
	return errors.Join(append(errs, err)...)
}

func (c *Config) learningDays() (int, error) {
	const day = 24 * time.Hour
	d, err := model.ParseDuration(c.Learning)
	if err != nil || d <= 0 || time.Duration(d)%day != 0 {
		return 0, fmt.Errorf("--learning must be a number of whole days such as 2d, at least 1d, got %q", c.Learning)
	}
	return int(time.Duration(d) / day), nil
}

// validateSource checks the flags that select the input.
func (c *Config) validateSource() error {
	switch {
	case c.Trace == "" && c.History.Address == "":
		return errors.New("one of --trace and --prometheus is required")
	case c.Trace != "" && c.History.Address != "":
		return errors.New("--trace and --prometheus cannot both be set")
	}
	var errs process.Problems
	if c.Trace != "" {
		for _, name := range historyFlags {
			errs.AddIf(c.given[name], "--%s requires --prometheus; use --since, --until and --namespace to select samples of a trace", name)
		}
		return errors.Join(errs...)
	}
	errs.AddIf(len(c.Namespaces) == 0 && !c.All, "--prometheus requires --namespace NAME or --all-namespaces")
	errs.AddIf(c.All && c.History.Labels[0] == "", "--all-namespaces requires --namespace-label")
	errs.AddIf(c.Since != "" && c.given["history-length"], "--since and --history-length cannot both be set")
	return errors.Join(append(errs, c.History.validate())...)
}

func (c *Config) validateNamespaces() error {
	if c.All && len(c.Namespaces) > 0 {
		return errors.New("--namespace and --all-namespaces cannot both be set")
	}
	var errs process.Problems
	for i, n := range c.Namespaces {
		isName := strings.TrimSpace(n) == n && n != ""
		errs.AddIf(!isName, "--namespace must be a list of names separated by commas without spaces, got %q", n)
		errs.AddIf(isName && slices.Contains(c.Namespaces[:i], n), "--namespace lists %s twice", n)
	}
	return errors.Join(errs...)
}

func (c *Config) validateTimeline() error {
	switch {
	case c.Timeline == "" && c.given["timeline"]:
		return errors.New("--timeline must not be empty")
	case c.Timeline != "" && trace.IsTrace(c.Timeline) && inFolder(c.Timeline, c.Trace):
		return fmt.Errorf("--timeline %s is in the folder of --trace, where the next backtest would read it as a trace; use another folder", c.Timeline)
	case c.Timeline != "" && sameFile(c.Timeline, c.Trace):
		return fmt.Errorf("--timeline %s and --trace are the same file", c.Timeline)
	}
	return nil
}

func (c *Config) validateRecommenders() error {
	if len(c.Recommenders) == 0 {
		return errors.New("--recommenders must not be empty")
	}
	var errs process.Problems
	for i, n := range c.Recommenders {
		if slices.Contains(c.Recommenders[:i], n) {
			errs = append(errs, fmt.Errorf("--recommenders lists %s twice", n))
			continue
		}
		if _, ok := recommend.BacktestProfile(n); !ok && !isFile(n) {
			names := profileNames()
			errs = append(errs, fmt.Errorf("--recommenders: there is no profile %q%s; use one of %s, or the path of a YAML file with a SizingProfile", n, spelling.Hint(n, names), strings.Join(names, ", ")))
		}
	}
	return errors.Join(errs...)
}

// validateNumbers checks the range of numeric flags. NaN is out of every range.
func (c *Config) validateNumbers() error {
	var errs process.Problems
	for _, n := range [...]struct {
		flag  string
		value float64
		most  float64
		unit  string
	}{
		{"cpu-price", c.Prices.Core, 1e6, "price of a core for an hour"},
		{"memory-price", c.Prices.GiB, 1e6, "price of a GiB for an hour"},
		{"oom-budget", c.Tolerance.DaysAbove, 1, "fraction of days; 0.03 is 3 %"},
		{"cpu-shortfall", c.Tolerance.Shortfall, 1, "fraction of CPU usage; 0.01 is 1 %"},
	} {
		errs.AddIf(!(n.value >= 0 && n.value <= n.most), "--%s must be between 0 and %g (%s), got %g", n.flag, n.most, n.unit, n.value)
	}
	return errors.Join(errs...)
}

func inFolder(path, folder string) bool {
	info, err := os.Stat(folder)
	return folder != "" && err == nil && info.IsDir() && sameFile(filepath.Dir(path), folder)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil || b == "" {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

func profileNames() []string {
	return cluster.Each(recommend.BacktestProfiles(), func(p *recommend.Profile) string { return p.Name })
}

// isFile reports whether a recommender is the path of a file that contains a SizingProfile.
func isFile(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") || strings.HasSuffix(name, ".json")
}

func (c *Config) profiles() ([]recommend.Profile, error) {
	var out []recommend.Profile
	from := map[string]string{}
	shapes, err := c.shapes()
	if err != nil {
		return nil, err
	}
	for _, n := range c.Recommenders {
		p, ok := recommend.BacktestProfile(n)
		if !ok {
			if p, err = profile.ReadFile(n); err != nil {
				return nil, err
			}
		}
		if p.Packs() && len(shapes) == 0 {
			return nil, fmt.Errorf("profile %s sizes containers by the size of their node, which is not known; set it, for example with --nodes memory=64Gi,cpu=16", p.Name)
		}
		if other := from[p.Name]; other != "" {
			return nil, fmt.Errorf("%s and %s have the same profile name %s", other, n, p.Name)
		}
		from[p.Name] = n
		if mode, ok := cluster.ParseMode(c.Mode); ok {
			p.Mode = mode
		}
		out = append(out, sizedFor(p, shapes)...)
	}
	return out, nil
}

var formats = []string{"table", "wide", "json", "csv", "html"}

var reporters = map[string]func(io.Writer, *replay.Comparison, report.Options) error{
	"table": report.WriteTable, "wide": report.WriteTable,
	"json": report.WriteJSON,
	"csv":  func(w io.Writer, c *replay.Comparison, _ report.Options) error { return report.WriteCSV(w, c) },
	"html": report.WriteHTML,
}

func run(ctx context.Context, c Config, out, errs io.Writer) error {
	if err := c.Validate(); err != nil {
		return process.UsageError{Err: err}
	}
	if (c.given["cpu-price"] || c.given["memory-price"]) && !c.given["currency"] {
		c.Prices.Currency = "" // the default is the currency of the default prices
	}
	profiles, err := c.profiles()
	if err != nil {
		return err
	}
	if !c.given["oom-budget"] {
		c.Tolerance.DaysAbove = replay.DefaultTolerance(profiles).DaysAbove
	}
	workloads, err := c.read(ctx)
	if err != nil {
		return c.withQuery(err)
	}
	var timeline *os.File
	if c.Timeline != "" { // find out now, not after the work, that it cannot be written; what is in it stays until then
		if timeline, err = os.OpenFile(c.Timeline, os.O_WRONLY|os.O_CREATE, 0o666); err != nil {
			return fmt.Errorf("write timeline: %w", err)
		}
		defer timeline.Close()
	}
	comparison, err := c.replay(ctx, profiles, workloads, newProgress(errs, c.Quiet, len(workloads)*len(profiles)))
	if err != nil {
		return err
	}
	if timeline != nil {
		if err := errors.Join(emptied(timeline), report.WriteTimeline(timeline, comparison), timeline.Close()); err != nil {
			return fmt.Errorf("write timeline: %w", err)
		}
	}
	if isTable := c.Output == "table" || c.Output == "wide"; isTable && !comparison.Judged() {
		return c.nothingMeasured(comparison, timeline != nil, errs)
	}
	width, _, _ := process.TerminalSize(out) // 0 if it is not a terminal
	options := report.Options{Workloads: c.Workloads, Width: width, AllColumns: c.Output == "wide"}
	if options.Nodes, err = c.pack(ctx, comparison); err != nil {
		return err
	}
	if err := reporters[c.Output](out, comparison, options); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if comparison.Judged() {
		return nil
	}
	return c.nothingMeasured(comparison, timeline != nil, errs)
}

// withQuery adds the query that failed to an error, if the user wants to see it.
func (c *Config) withQuery(err error) error {
	query, ok := errors.AsType[*prom.QueryError](err)
	if !ok {
		return err
	}
	switch {
	case c.Verbose > 0:
		return fmt.Errorf("%w; the query is: %s", err, query.Query)
	case query.Refused:
		return fmt.Errorf("%w (-v shows the query)", err)
	}
	return err
}

// nothingMeasured reports that the history is too short. This is not an error if the user gets a timeline, which is complete.
func (c *Config) nothingMeasured(comparison *replay.Comparison, hasTimeline bool, errs io.Writer) error {
	reason := report.NothingMeasured(comparison)
	if !hasTimeline {
		return errors.New(reason)
	}
	_, err := fmt.Fprintf(errs, "podfit: %s\n", reason)
	return err
}

// emptied empties a file, if it is one that keeps anything.
func emptied(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return f.Truncate(0)
}

// times returns from when on and until when samples count, in Unix seconds.
func (c *Config) times() (since, until int64, err error) {
	if since, err = boundary("--since", c.Since, 0); err != nil {
		return 0, 0, err
	}
	if until, err = boundary("--until", c.Until, 1<<62); err != nil {
		return 0, 0, err
	}
	if since >= until {
		return 0, 0, errors.New("--since must be before --until")
	}
	return since, until, nil
}

// read reads the usage, and leaves out what is of other namespaces, and before or after the times asked for.
func (c *Config) read(ctx context.Context) ([]replay.Workload, error) {
	since, until, err := c.times()
	if err != nil {
		return nil, err
	}
	var all []replay.Workload
	if c.History.Address == "" {
		all, err = trace.Read(c.Trace)
	} else {
		all, err = c.History.read(ctx, c.Namespaces, since, min(until, time.Now().Unix()))
	}
	if err != nil {
		return nil, err
	}
	if all, err = c.inNamespaces(all); err != nil {
		return nil, err
	}
	workloads := all[:0]
	for i := range all {
		if w := all[i].Between(since, until); len(w.Samples) > 0 {
			workloads = append(workloads, w)
		}
	}
	if len(workloads) == 0 {
		from, to := extent(all)
		return nil, fmt.Errorf("%s: no samples between --since and --until; samples are available from %s to %s", c.source(), from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	return workloads, nil
}

// inNamespaces returns the workloads of the namespaces asked for. A namespace without any is an error: its name is
// mistyped, or nothing is recorded of it, and neither should look like a result.
func (c *Config) inNamespaces(all []replay.Workload) ([]replay.Workload, error) {
	if len(c.Namespaces) == 0 {
		return all, nil
	}
	there := namespacesOf(all)
	for _, n := range c.Namespaces {
		switch {
		case slices.Contains(there, n):
		case c.History.Address != "":
			return nil, fmt.Errorf("%s has no usage of namespace %s; check --namespace, --prometheus-job, --namespace-label, --pod-label and --container-label", c.History.Address, n)
		default:
			most := there[:min(len(there), 10)]
			return nil, fmt.Errorf("%s: no samples of namespace %s; the trace has samples of %s", c.Trace, n, strings.Join(most, ", "))
		}
	}
	return slices.DeleteFunc(all, func(w replay.Workload) bool { return !slices.Contains(c.Namespaces, w.Key.Namespace) }), nil
}

// source names where the usage is from.
func (c *Config) source() string {
	if c.History.Address == "" {
		return c.Trace
	}
	if c.All {
		return "all namespaces of " + c.History.Address
	}
	return strings.Join(c.Namespaces, ", ") + " of " + c.History.Address
}

func boundary(flag, s string, otherwise int64) (int64, error) {
	if s == "" {
		return otherwise, nil
	}
	if at, err := strconv.ParseInt(s, 10, 64); err == nil {
		return at, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.Unix(), nil
		}
	}
	return 0, fmt.Errorf("%s must be RFC 3339, a date or Unix seconds, got %q", flag, s)
}

// replay replays every workload through every recommender, several at a time, and puts the results together in the
// order of the input.
func (c *Config) replay(ctx context.Context, profiles []recommend.Profile, workloads []replay.Workload, bar *progressbar.ProgressBar) (*replay.Comparison, error) {
	learning, err := c.learningDays()
	if err != nil {
		return nil, err
	}
	r := &replay.Comparison{
		Learning: learning, Source: c.source(), Recommenders: profiles, Workloads: make([]replay.WorkloadResult, len(workloads)),
		Prices: c.Prices, Tolerance: c.Tolerance, BudgetChosen: c.given["oom-budget"],
	}
	scores := make([][][]replay.Score, len(profiles))
	fullDays := make([]int, len(workloads))
	for k := range profiles {
		scores[k] = make([][]replay.Score, len(workloads))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.Parallel)
	for i := range workloads {
		group.Go(func() error {
			w := &workloads[i]
			usage := replay.Prepare(w, learning)
			fullDays[i] = usage.FullDays()
			wl := replay.WorkloadResult{Workload: w, Changes: make([][]replay.Change, len(profiles)), Outcomes: make([]replay.Outcome, len(profiles))}
			for k, p := range profiles {
				if err := ctx.Err(); err != nil {
					return err
				}
				wl.Changes[k] = replay.Run(w, p)
				scores[k][i] = usage.Measure(wl.Changes[k])
				wl.Outcomes[k] = replay.OutcomeOf(scores[k][i], c.Prices)
				_ = bar.Add(1) // fails only if the terminal does
			}
			for _, s := range scores[0][i] {
				wl.Pods = max(wl.Pods, s.Pods)
			}
			wl.Best = replay.Best(wl.Outcomes, c.Tolerance)
			r.Workloads[i] = wl
			return nil
		})
	}
	err = group.Wait()
	_ = bar.Clear() // an interrupted bar is still there
	switch {
	case errors.Is(err, context.Canceled):
		return nil, errors.New("interrupted")
	case err != nil:
		return nil, err
	}
	for k := range profiles {
		r.Total = append(r.Total, replay.OutcomeOf(slices.Concat(scores[k]...), c.Prices))
	}
	r.FullDays = slices.Max(fullDays)
	r.Best = replay.Best(r.Total, c.Tolerance)
	r.From, r.To = extent(workloads)
	return r, nil
}

// extent returns when the first and the last sample were taken.
func extent(workloads []replay.Workload) (from, to time.Time) {
	first := int64(1 << 62)
	last := int64(0)
	for i := range workloads {
		s := workloads[i].Samples
		first = min(first, s[0].At)
		last = max(last, s[len(s)-1].At)
	}
	return time.Unix(first, 0).UTC(), time.Unix(last, 0).UTC()
}

// newProgress returns a progress bar that is visible only on a terminal.
func newProgress(w io.Writer, quiet bool, total int) *progressbar.ProgressBar {
	f, ok := w.(*os.File)
	visible := ok && !quiet && term.IsTerminal(int(f.Fd()))
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetVisibility(visible),
		progressbar.OptionSetDescription("replays"),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionClearOnFinish(),
	)
}
