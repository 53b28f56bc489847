// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

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
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/edge/profile"
	"podfit.dev/podfit/internal/edge/trace"
)

// BacktestConfig says what to replay, how, and what to write.
type BacktestConfig struct {
	Trace        string
	History      BacktestHistory // used when it has an address
	Namespaces   []string
	Recommenders []string
	Timeline     string
	Output       string
	Since, Until string
	Mode         string
	Parallel     int
	Workloads    int
	Prices       replay.Prices
	Tolerance    replay.Tolerance
	Quiet        bool

	given map[string]bool // the flags that were given
}

// BacktestDefaults returns the defaults. The prices are those of a general-purpose machine at a large cloud, on demand;
// what matters is their ratio.
func BacktestDefaults() BacktestConfig {
	return BacktestConfig{
		Recommenders: []string{"default", "balanced"},
		Output:       "table",
		Mode:         "profile",
		Parallel:     runtime.GOMAXPROCS(0),
		Workloads:    20,
		Prices:       replay.Prices{Core: 0.031611, GiB: 0.004237},
		Tolerance:    replay.DefaultTolerance(nil),
	}
}

// NewBacktestCommand returns "podfit backtest".
func NewBacktestCommand() *cobra.Command {
	c := BacktestDefaults()
	var names []string
	for _, p := range recommend.BacktestProfiles() {
		names = append(names, fmt.Sprintf("  %-17s%s", p.Name, p.About))
	}
	cmd := &cobra.Command{
		Use:   "backtest {--trace PATH | --prometheus URL --namespace NAME}",
		Short: "Replay recorded usage through several ways to size, side by side",
		Long: `Replays what containers used through the same core that runs in a cluster, and shows for each recommender what it would
have cost and how often usage would have been above the request. Nothing is changed anywhere.

A decision at a minute has seen only what was measured before it. The first 8 days of a container are for learning
and are not measured.

Recommenders:
` + strings.Join(names, "\n") + `

Exit codes:
  0  done
  1  the work failed: a file or Prometheus cannot be read or makes no sense, something cannot be written, or there was
     nothing to judge by (that is no failure with --timeline: the timeline is whole whatever the length of the trace)
  2  the call is wrong; nothing was read`,
		Example: `  podfit backtest --trace usage.csv.gz --recommenders default,balanced,cost
  podfit backtest --trace traces/ --recommenders default,balanced --output html > report.html
  podfit backtest --prometheus http://localhost:9090 --namespace shop
  podfit backtest --trace traces/ --recommenders balanced --timeline requests.csv --output json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usageError{c.stray(args[0])}
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.given = map[string]bool{}
			cmd.Flags().Visit(func(f *pflag.Flag) { c.given[f.Name] = true })
			return backtest(cmd.Context(), c, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.Var(&once{to: &c.Trace}, "trace", "a trace, *.csv or *.csv.gz, or a folder of them")
	f.StringSliceVar(&c.Namespaces, "namespace", c.Namespaces, "the namespaces to replay; a trace has all of its own without")
	c.History.flags(f)
	f.StringSliceVar(&c.Recommenders, "recommenders", c.Recommenders, "what to compare: names, and files *.yaml with a SizingProfile")
	f.StringVar(&c.Timeline, "timeline", c.Timeline, "write the requests as they would have changed to this file (CSV)")
	f.StringVar(&c.Output, "output", c.Output, "the report's format: table, json, csv or html")
	f.StringVar(&c.Since, "since", c.Since, "leave out samples from before this time (RFC 3339, a date, or Unix seconds)")
	f.StringVar(&c.Until, "until", c.Until, "leave out samples from this time on")
	f.StringVar(&c.Mode, "mode", c.Mode, "how changes are applied: Recreate, InPlaceOrRecreate, or what each profile is meant for (profile)")
	f.IntVar(&c.Parallel, "parallel", c.Parallel, "how many workloads to replay at a time; the result does not depend on it")
	f.IntVar(&c.Workloads, "workloads", c.Workloads, "how many workloads the table and the HTML report show, the worst first; -1 for all")
	f.Float64Var(&c.Prices.Core, "cpu-price", c.Prices.Core, "what a core costs in an hour")
	f.Float64Var(&c.Prices.GiB, "memory-price", c.Prices.GiB, "what a GiB costs in an hour")
	f.Float64Var(&c.Tolerance.DaysAbove, "oom-budget", 0, "the share of days above the memory request that a winner may have; not given: the largest that one of the recommenders promises")
	f.Float64Var(&c.Tolerance.Shortfall, "cpu-shortfall", c.Tolerance.Shortfall, "the share of CPU usage above the request that a winner may have")
	f.BoolVar(&c.Quiet, "quiet", c.Quiet, "no progress bar")
	return cmd
}

// once is a text that may be given once. What the shell makes of --trace *.csv would lose all but one otherwise.
type once struct {
	to    *string
	given bool
}

func (o *once) String() string { return "" }
func (o *once) Type() string   { return "path" }

// Set implements pflag.Value.
func (o *once) Set(s string) error {
	if o.given {
		return errors.New("it is given twice; put the files into one folder")
	}
	*o.to, o.given = s, true
	return nil
}

// stray says what is wrong with an argument that is no flag.
func (c *BacktestConfig) stray(arg string) error {
	_, builtin := recommend.BacktestProfile(arg)
	switch {
	case builtin || isFile(arg):
		return fmt.Errorf("backtest takes no arguments; give recommenders with --recommenders, separated by commas without blanks, not %q", arg)
	case c.Trace != "":
		return fmt.Errorf("backtest takes no arguments, but there is %q; --trace takes one file or one folder", arg)
	case c.History.Address != "":
		return fmt.Errorf("backtest takes no arguments, but there is %q", arg)
	case isURL(arg):
		return fmt.Errorf("backtest takes no arguments; give the Prometheus with --prometheus %s", arg)
	}
	return fmt.Errorf("backtest takes no arguments; give the trace with --trace %s", arg)
}

// Validate returns what is wrong with the configuration.
func (c *BacktestConfig) Validate() error {
	for _, problem := range [...]error{c.validateSource(), c.validateRecommenders(), c.validateNumbers()} {
		if problem != nil {
			return problem
		}
	}
	switch {
	case reporters[c.Output] == nil:
		return fmt.Errorf("--output %q is not table, json, csv or html", c.Output)
	case c.Mode != "profile" && c.Mode != "Recreate" && c.Mode != "InPlaceOrRecreate":
		return fmt.Errorf("--mode %q is not profile, Recreate or InPlaceOrRecreate", c.Mode)
	case c.Parallel < 1:
		return fmt.Errorf("--parallel is %d; at least 1 is needed", c.Parallel)
	case c.Timeline == "" && c.given["timeline"]:
		return errors.New("--timeline names no file")
	case c.Timeline != "" && isTrace(c.Timeline) && inFolder(c.Timeline, c.Trace):
		return fmt.Errorf("--timeline %s is in the folder of the trace, where a backtest would read it as a trace; write it elsewhere", c.Timeline)
	case c.Timeline != "" && sameFile(c.Timeline, c.Trace):
		return fmt.Errorf("--timeline %s is the trace; write it elsewhere", c.Timeline)
	}
	_, _, err := c.times()
	return err
}

// validateSource returns what is wrong with where to read from.
func (c *BacktestConfig) validateSource() error {
	switch {
	case c.Trace == "" && c.History.Address == "":
		return errors.New("--trace says which trace to replay, or --prometheus where usage is stored; one of them is required")
	case c.Trace != "" && c.History.Address != "":
		return errors.New("--trace and --prometheus exclude each other")
	}
	for i, n := range c.Namespaces {
		switch {
		case strings.TrimSpace(n) != n || n == "":
			return fmt.Errorf("--namespace: %q is no name of a namespace; separate names by commas without blanks", n)
		case slices.Contains(c.Namespaces[:i], n):
			return fmt.Errorf("--namespace names %s twice", n)
		}
	}
	if c.Trace != "" {
		for _, name := range historyFlags {
			if c.given[name] {
				return fmt.Errorf("--%s goes with --prometheus and means nothing to a trace; --since, --until and --namespace leave out what is in one", name)
			}
		}
		return nil
	}
	switch {
	case len(c.Namespaces) == 0:
		return errors.New("--prometheus needs --namespace")
	case c.Since != "" && c.given["history-length"]:
		return errors.New("--since and --history-length both say where to begin; give one of them")
	}
	return c.History.validate()
}

// validateRecommenders returns what is wrong with what to compare.
func (c *BacktestConfig) validateRecommenders() error {
	if len(c.Recommenders) == 0 {
		return errors.New("--recommenders names none")
	}
	seen := map[string]bool{}
	for _, n := range c.Recommenders {
		if _, ok := recommend.BacktestProfile(n); !ok && !isFile(n) {
			names, meant := profileNames(), ""
			if near := profile.Nearest(n, names); near != "" {
				meant = fmt.Sprintf(" (did you mean %s?)", near)
			}
			return fmt.Errorf("--recommenders: there is no %q%s; there are %s, and files *.yaml with a SizingProfile", n, meant, strings.Join(names, ", "))
		}
		if seen[n] {
			return fmt.Errorf("--recommenders names %s twice", n)
		}
		seen[n] = true
	}
	return nil
}

// validateNumbers returns which number is out of its range. What is not a number is in none.
func (c *BacktestConfig) validateNumbers() error {
	for _, n := range [...]struct {
		flag  string
		value float64
		most  float64
		unit  string
	}{
		{"cpu-price", c.Prices.Core, 1e6, "a core costs so much in an hour"},
		{"memory-price", c.Prices.GiB, 1e6, "a GiB costs so much in an hour"},
		{"oom-budget", c.Tolerance.DaysAbove, 1, "it is a share of days, such as 0.03 for 3 %"},
		{"cpu-shortfall", c.Tolerance.Shortfall, 1, "it is a share of CPU usage, such as 0.01 for 1 %"},
	} {
		if !(n.value >= 0 && n.value <= n.most) {
			return fmt.Errorf("--%s is %g; it must be between 0 and %g: %s", n.flag, n.value, n.most, n.unit)
		}
	}
	return nil
}

// isTrace reports whether a file in a folder of traces would be read as one.
func isTrace(path string) bool {
	return strings.HasSuffix(path, ".csv") || strings.HasSuffix(path, ".csv.gz")
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
	var names []string
	for _, p := range recommend.BacktestProfiles() {
		names = append(names, p.Name)
	}
	return names
}

// isFile reports whether a recommender is named by the file that describes it.
func isFile(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") || strings.HasSuffix(name, ".json")
}

// profiles returns what to compare.
func (c *BacktestConfig) profiles() ([]recommend.Profile, error) {
	var out []recommend.Profile
	from := map[string]string{}
	for _, n := range c.Recommenders {
		p, ok := recommend.BacktestProfile(n)
		if !ok {
			var err error
			if p, err = profile.ReadFile(n); err != nil {
				return nil, err
			}
		}
		if other := from[p.Name]; other != "" {
			return nil, fmt.Errorf("%s and %s are both named %s", other, n, p.Name)
		}
		from[p.Name] = n
		if mode, ok := cluster.ParseMode(c.Mode); ok {
			p.Mode = mode
		}
		out = append(out, p)
	}
	return out, nil
}

var reporters = map[string]func(io.Writer, *trace.Report, int) error{
	"table": trace.WriteTable,
	"json":  func(w io.Writer, r *trace.Report, _ int) error { return trace.WriteJSON(w, r) },
	"csv":   func(w io.Writer, r *trace.Report, _ int) error { return trace.WriteCSV(w, r) },
	"html":  trace.WriteHTML,
}

// backtest reads, replays and reports.
func backtest(ctx context.Context, c BacktestConfig, out, errs io.Writer) error {
	if err := c.Validate(); err != nil {
		return usageError{err}
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
		return err
	}
	var timeline *os.File
	if c.Timeline != "" { // find out now, not after the work, that it cannot be written; what is in it stays until then
		if timeline, err = os.OpenFile(c.Timeline, os.O_WRONLY|os.O_CREATE, 0o666); err != nil {
			return fmt.Errorf("write timeline: %w", err)
		}
		defer timeline.Close()
	}
	report, err := c.replay(ctx, profiles, workloads, newProgress(errs, c.Quiet, len(workloads)*len(c.Recommenders)))
	if err != nil {
		return err
	}
	if timeline != nil {
		if err := errors.Join(emptied(timeline), trace.WriteTimeline(timeline, report), timeline.Close()); err != nil {
			return fmt.Errorf("write timeline: %w", err)
		}
	}
	if err := reporters[c.Output](out, report, c.Workloads); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	switch {
	case report.Judged():
		return nil
	case timeline != nil: // it is whole
		_, err := fmt.Fprintf(errs, "podfit: %s\n", trace.Unjudged)
		return err
	}
	return errors.New(trace.Unjudged)
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
func (c *BacktestConfig) times() (since, until int64, err error) {
	if since, err = boundary("--since", c.Since, 0); err != nil {
		return 0, 0, err
	}
	if until, err = boundary("--until", c.Until, 1<<62); err != nil {
		return 0, 0, err
	}
	if since >= until {
		return 0, 0, errors.New("--since is not before --until")
	}
	return since, until, nil
}

// read reads the usage, and leaves out what is of other namespaces, and before or after the times asked for.
func (c *BacktestConfig) read(ctx context.Context) ([]replay.Workload, error) {
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
		return nil, fmt.Errorf("%s: no samples in the time asked for; there are some from %s to %s", c.source(), from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	return workloads, nil
}

// inNamespaces returns the workloads of the namespaces asked for. A namespace without any is an error: its name is
// mistyped, or nothing is recorded of it, and neither should look like a result.
func (c *BacktestConfig) inNamespaces(all []replay.Workload) ([]replay.Workload, error) {
	if len(c.Namespaces) == 0 {
		return all, nil
	}
	var there []string
	var out []replay.Workload
	for _, w := range all {
		if !slices.Contains(there, w.Key.Namespace) {
			there = append(there, w.Key.Namespace)
		}
		if slices.Contains(c.Namespaces, w.Key.Namespace) {
			out = append(out, w)
		}
	}
	for _, n := range c.Namespaces {
		switch {
		case slices.Contains(there, n):
		case c.History.Address != "":
			return nil, fmt.Errorf("%s has no usage of namespace %s; see that --namespace, --prometheus-job and the flags that name labels are right", c.History.Address, n)
		default:
			most := there[:min(len(there), 10)]
			return nil, fmt.Errorf("%s: no samples of namespace %s; there are some of %s", c.Trace, n, strings.Join(most, ", "))
		}
	}
	return out, nil
}

// source names where the usage is from.
func (c *BacktestConfig) source() string {
	if c.History.Address == "" {
		return c.Trace
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
	return 0, fmt.Errorf("%s %q is neither RFC 3339, nor a date, nor Unix seconds", flag, s)
}

// replay replays every workload through every recommender, several at a time, and puts the results together in the
// order of the input.
func (c *BacktestConfig) replay(ctx context.Context, profiles []recommend.Profile, workloads []replay.Workload, bar *progress) (*trace.Report, error) {
	r := &trace.Report{Source: c.source(), Workloads: make([]trace.Workload, len(workloads)), Prices: c.Prices, Tolerance: c.Tolerance, Chosen: c.given["oom-budget"]}
	scores := make([][][]replay.Score, len(profiles))
	for k := range profiles {
		r.Recommenders = append(r.Recommenders, trace.Recommender{Name: profiles[k].Name, About: profiles[k].About, OOMBudget: profiles[k].OOMBudget})
		scores[k] = make([][]replay.Score, len(workloads))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.Parallel)
	for i := range workloads {
		group.Go(func() error {
			w := &workloads[i]
			usage := replay.Prepare(w)
			wl := trace.Workload{Workload: w, Changes: make([][]replay.Change, len(profiles)), Outcomes: make([]replay.Outcome, len(profiles))}
			for k, p := range profiles {
				if err := ctx.Err(); err != nil {
					return err
				}
				wl.Changes[k] = replay.Run(w, p, replay.RulesFor(p))
				scores[k][i] = usage.Measure(wl.Changes[k])
				wl.Outcomes[k] = replay.OutcomeOf(scores[k][i], c.Prices)
				bar.step()
			}
			for _, s := range scores[0][i] {
				wl.Pods = max(wl.Pods, s.Pods)
			}
			wl.Best = replay.Best(wl.Outcomes, c.Tolerance)
			r.Workloads[i] = wl
			return nil
		})
	}
	err := group.Wait()
	bar.end()
	switch {
	case errors.Is(err, context.Canceled):
		return nil, errors.New("interrupted")
	case err != nil:
		return nil, err
	}
	for k := range profiles {
		var all []replay.Score
		for i := range workloads {
			all = append(all, scores[k][i]...)
		}
		r.Total = append(r.Total, replay.OutcomeOf(all, c.Prices))
	}
	r.Best = replay.Best(r.Total, c.Tolerance)
	r.From, r.To = extent(workloads)
	return r, nil
}

// extent returns when the first and the last sample were taken.
func extent(workloads []replay.Workload) (from, to time.Time) {
	first, last := int64(1<<62), int64(0)
	for i := range workloads {
		s := workloads[i].Samples
		first, last = min(first, s[0].At), max(last, s[len(s)-1].At)
	}
	return time.Unix(first, 0).UTC(), time.Unix(last, 0).UTC()
}

// progress is a bar on a terminal. Elsewhere it is nothing.
type progress struct {
	mu          sync.Mutex
	w           io.Writer // nil: no bar
	done, total int
	shown       int // percent
}

func newProgress(w io.Writer, quiet bool, total int) *progress {
	f, ok := w.(*os.File)
	if quiet || !ok || !term.IsTerminal(int(f.Fd())) {
		w = nil
	}
	return &progress{w: w, total: total, shown: -1}
}

func (p *progress) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if percent := 100 * p.done / p.total; p.w != nil && percent != p.shown {
		p.shown = percent
		const width = 40
		full := width * p.done / p.total
		fmt.Fprintf(p.w, "\r[%s%s] %3d %%  %d of %d replays", strings.Repeat("#", full), strings.Repeat(".", width-full), percent, p.done, p.total)
	}
}

// end wipes the bar.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w != nil {
		fmt.Fprint(p.w, "\r\033[K")
	}
}
