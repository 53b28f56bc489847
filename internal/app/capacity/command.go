// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package capacity is the job of "podfit capacity": it reads the state of the cluster once, and the history from the CapacityPlan or from
// Prometheus, and reports how much of the capacity of each pool of nodes is requested and when the pool will be full. It changes nothing, except with
// --apply.
package capacity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/actuation"
	"podfit.dev/podfit/internal/edge/kube/capacityplan"
	report "podfit.dev/podfit/internal/edge/report/capacity"
	"podfit.dev/podfit/internal/edge/report/terminal"
)

// NewCommand returns "podfit capacity".
func NewCommand(s process.Streams) *cobra.Command {
	c := Defaults()
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Show when each pool of nodes will be full",
		Long: `Shows for each pool of nodes how much of its capacity the pods request, when
requests reach 70 % and 100 % of it, the last day for an order of nodes, and how
much workloads could give back according to the recommendations of their VPAs.
Without --apply, it sends only requests that read.

With --fragments, it also shows how free room is divided among nodes: what no
pod of a usual size can use, the fewest moves that free a node and, with --for,
make room for a pod. It also shows which nodes a cluster autoscaler could
remove, and what keeps it from removing the others. --apply makes the moves of
one node, after a dry run and a question.

A date such as "9 Dec (2–20 Dec)" is the expected day and a range: in 8 of 10
cases requests reach the capacity in the range. The range comes from the errors
of the same forecast on the past. Workloads that arrive later are not part of
it. The order-by date is the first day of the range, minus the lead time (14
days), minus 3 days. Without 14 days of history there is no date.

The history comes from the CapacityPlan, which the recommender keeps, or from
kube-state-metrics in a Prometheus. Settings such as the lead time and the pools
are in the spec of the plan: kubectl edit capacityplan cluster

Exit codes:
  0  success
  1  failure: a source cannot be read, output not written, or --apply stopped
  2  invalid command line; nothing was read
  3  the report is incomplete: it contains what is missing
  4  the report is complete, and --fail-on applies`,
		Example: `  podfit capacity  # history of the CapacityPlan
  podfit capacity --prometheus http://localhost:9090  # before podfit runs in the cluster
  podfit capacity --pool worker --lead-time 30
  podfit capacity -o html > capacity.html
  podfit capacity --fail-on order,node -o json > capacity.json  # in a daily job
  podfit capacity --fragments --for cpu=8,memory=32Gi  # moves that make room
  podfit capacity --apply --max-moves 5 --dry-run  # what would free a node`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return process.UsageError{Err: fmt.Errorf("podfit capacity takes no arguments, got %q; --pool selects a pool", args[0])}
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.Validate(); err != nil {
				return process.UsageError{Err: err}
			}
			if c.Apply && !c.DryRun && !c.Yes && !s.Terminal {
				return process.UsageError{Err: errors.New("--apply asks before it changes anything: run it on a terminal, or add --yes or --dry-run")}
			}
			return c.run(cmd.Context(), s)
		},
	}
	c.Flags(cmd.Flags())
	for flag, values := range choices {
		process.CompleteFlag(cmd, flag, values...)
	}
	return cmd
}

// The exit codes of the command in addition to those of all commands.
const (
	exitPartial = 3
	exitFailOn  = 4
)

func (c *Config) run(ctx context.Context, streams process.Streams) error {
	c.Kube.ReadOnly = !c.Apply
	clients, err := kube.NewClients(c.Kube)
	if err != nil {
		return err
	}
	if err := clients.Reach(ctx, ""); err != nil {
		return err
	}
	if c.Apply {
		return (&drainer{Config: c, clients: clients, pods: actuation.NewPodWriter(clients), streams: streams}).run(ctx)
	}
	_, r, err := c.read(ctx, clients, "")
	if err != nil {
		return err
	}
	return c.report(streams.Out, r)
}

// read returns the state of the cluster, and the report about it: with a plan for one node if that is not "".
func (c *Config) read(ctx context.Context, clients *kube.Clients, node string) (*scene, *report.Report, error) {
	stored, notes, missing, err := c.stored(ctx, clients)
	if err != nil {
		return nil, nil, err
	}
	settings, allocatable := capacityplan.Settings(&stored.Spec)
	if c.LeadTime >= 0 {
		settings.LeadTime = c.LeadTime
		for i := range settings.Rules.Pools {
			settings.Rules.Pools[i].LeadTime = c.LeadTime
		}
	}
	s, err := c.readScene(ctx, clients)
	if err != nil {
		return nil, nil, err
	}
	r := &report.Report{Cluster: c.Kube.ClusterName(clients), Source: "the CapacityPlan", Missing: append(missing, s.missing...), Notes: append(notes, s.notes...), For: c.size}
	r.BackedOff = cluster.Each(cluster.Where(s.world.Groups, func(g *cluster.NewNode) bool { return g.BackedOff }), func(g **cluster.NewNode) string { return (*g).Name })
	s.world.Rules = settings.Rules
	s.world.Allocatable = allocatable
	histories := capacityplan.Histories(&stored.Status)
	if c.fromPrometheus() && !c.Apply {
		if err := c.readPast(ctx, clients, s, histories, r); err != nil {
			return nil, nil, err
		}
	}
	pools, unplaced := capacity.Measure(&s.world)
	if pools, err = c.selected(pools); err != nil {
		return nil, nil, err
	}
	if c.Fragments {
		s.addFragments(r, pools, c.Apply, node)
	}
	for i := range pools { // the present values count, also if the history has none of today
		name := pools[i].Name
		histories[name] = cmp.Or(histories[name], new(capacity.History))
		histories[name].Record(s.now, &pools[i])
	}
	r.Plan = capacity.Assess(s.now, pools, unplaced, histories, settings)
	return s, r, nil
}

// stored reads the CapacityPlan, and returns notes about it, or what is missing without the right to read it. Without one there is no history yet, which
// is no error.
func (c *Config) stored(ctx context.Context, clients *kube.Clients) (plan *v1alpha1.CapacityPlan, notes, missing []string, err error) {
	const outdated = time.Hour // the age of a status that the recommender does not keep up to date any more
	plan, err = capacityplan.New(clients).Read(ctx)
	needed := !c.fromPrometheus()
	absent := errors.Is(err, kube.ErrNotFound) || errors.Is(err, kube.ErrUnsupported)
	switch {
	case err == nil:
		if u := plan.Status.Updated; needed && u != nil && time.Since(u.Time) > outdated {
			notes = append(notes, fmt.Sprintf("The CapacityPlan was last written on %s: check that the recommender runs with --capacity-plan.", u.UTC().Format("2 Jan 15:04")))
		}
		return plan, notes, nil, nil
	case errors.Is(err, capacityplan.ErrInvalid):
		return plan, []string{err.Error() + "; what can be decoded is used."}, nil, nil
	case !needed && (absent || errors.Is(err, kube.ErrForbidden)):
	case absent:
		notes = append(notes, "There is no CapacityPlan, so there is no history. Run podfit recommender or podfit run in the cluster, or give a Prometheus with --prometheus.")
	case errors.Is(err, kube.ErrForbidden):
		missing = append(missing, "no right to read the CapacityPlan, so no history and no dates: grant get on capacityplans.podfit.dev, or give a Prometheus with --prometheus")
	default:
		return nil, nil, nil, err
	}
	return new(v1alpha1.CapacityPlan), notes, missing, nil
}

func (c *Config) selected(pools []capacity.Pool) ([]capacity.Pool, error) {
	if len(c.Pools) == 0 {
		return pools, nil
	}
	names := cluster.Each(pools, func(p *capacity.Pool) string { return p.Name })
	for _, p := range c.Pools {
		if !slices.Contains(names, p) {
			return nil, process.UsageError{Err: fmt.Errorf("--pool: there is no pool %q; the pools are %s", p, strings.Join(names, ", "))}
		}
	}
	return slices.DeleteFunc(pools, func(p capacity.Pool) bool { return !slices.Contains(c.Pools, p.Name) }), nil
}

func (c *Config) report(out io.Writer, r *report.Report) error {
	width, _, isTerminal := process.TerminalSize(out)
	p := &terminal.Printer{Width: width, Colour: isTerminal && !c.NoColour && os.Getenv("NO_COLOR") == ""}
	if err := report.Write(out, c.Output, r, p); err != nil {
		return err
	}
	if len(r.Missing) > 0 {
		return process.ExitError{Code: exitPartial, Err: fmt.Errorf("the report is incomplete: %s", strings.Join(r.Missing, "; "))}
	}
	if reasons := c.failures(&r.Plan); len(reasons) > 0 {
		return process.ExitError{Code: exitFailOn, Err: errors.New(strings.Join(reasons, "; "))}
	}
	return nil
}

func (c *Config) failures(p *capacity.Plan) []string {
	today := capacity.DayOf(p.Now)
	var out []string
	for i := range p.Pools {
		for _, r := range p.Pools[i].Resources {
			above := slices.ContainsFunc(r.Outlook.Crossings, func(x capacity.Crossing) bool { return x.State == capacity.Above })
			for _, x := range []struct {
				name  string
				holds bool
				text  string
			}{
				{failAbove, above, "is above a threshold"},
				{failOrder, r.Outlook.OrderBy != 0 && r.Outlook.OrderBy <= today, "must be ordered now"},
				{failNode, !r.CanLoseANode(), "does not fit without the largest node"},
				{failForecast, r.Outlook.Shortage != capacity.NoShortage, "has no forecast"},
			} {
				if x.holds && slices.Contains(c.FailOn, x.name) {
					out = append(out, fmt.Sprintf("--fail-on %s: %s of pool %s %s", x.name, r.Resource, p.Pools[i].Name, x.text))
				}
			}
		}
	}
	return out
}
