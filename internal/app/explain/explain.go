// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package explain is the command podfit explain: it reads the cluster once, plans the next pass of the updater without carrying it out, and
// writes what has happened to a workload, what happens next and what can be done.
//
// It sends only requests to get and list objects.
package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/compatibility"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/core/integer"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/rationale"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/event"
	"podfit.dev/podfit/internal/edge/kube/inspection"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/metrics"
	report "podfit.dev/podfit/internal/edge/report/explanation"
)

// An Updater is the updater whose next pass is explained.
type Updater interface {
	Flags(*pflag.FlagSet)
	Validate() error
	// WatcherOptions selects what it reads of the cluster.
	WatcherOptions() watcher.Options
	// Restrict makes it serve only one namespace.
	Restrict(namespace string)
	Interval() time.Duration
	// StatusLease returns the lease without which the updater changes no pods, and the maximum age of its renewal; "" if it needs none.
	StatusLease() (namespace, name string, timeout time.Duration)
	// Preview plans its next pass without carrying it out. changed is another version of an autoscaler, or nil.
	Preview(now time.Time, w *watcher.World, states []ledger.State, explained map[string]bool, changed *cluster.Autoscaler) (*plan.Pass, plan.World, plan.Budget)
	// Assumed returns the settings that differ from cluster to cluster and that are not on the command line, as flags.
	Assumed(fs *pflag.FlagSet) []string
}

// columns is the width of texts about messages that are not for a terminal.
const columns = 100

// Config is the configuration of podfit explain.
type Config struct {
	Kube      kube.Config
	Namespace string
	Container string
	Output    string
	If        conditions
	At        string
	jobs      Running
	judge     Judge           // only for a list
	given     *pflag.FlagSet  // of the jobs
	known     bool            // the flags of the jobs are known, so their Deployments need not be read
	assumed   map[string]bool // jobs whose flags are not known

	prometheus *process.PrometheusConfig // nil: heaps are not read

	onlyNamespace bool     // read nothing outside of the namespace of the object, and no nodes
	excluded      []string // names and patterns of other namespaces whose pods are not named
}

// writeText returns a function that writes an explanation as wide as the terminal, perhaps with all notes.
func writeText(allNotes bool) func(io.Writer, *explanation.Explanation) error {
	return func(w io.Writer, e *explanation.Explanation) error {
		return report.WriteText(w, e, process.Columns(w, report.Usual), allNotes)
	}
}

var formats = map[string]func(io.Writer, *explanation.Explanation) error{
	"text": writeText(false), "wide": writeText(true), "json": report.WriteJSON, "html": report.WriteHTML,
}

// NewCommand returns "podfit explain".
func NewCommand(s process.Streams, jobs Running, judge Judge) *cobra.Command {
	var keys strings.Builder
	for _, k := range rationale.IfKeys() {
		fmt.Fprintf(&keys, "  %s\n      %s\n", k.Form, k.Meaning)
	}
	c := Config{Kube: process.Reader("explain"), Output: "text", jobs: jobs, judge: judge, prometheus: new(process.PrometheusConfig)}
	cmd := &cobra.Command{
		Use:   "explain [KIND/NAME | MESSAGE]",
		Short: "Explain what happened to a workload and what happens next",
		Long: `Explains a workload, a pod, a VPA or a node: what has happened, what the next
pass of the updater does with each pod and why, and what you can do, as commands
to copy. Without an object, it lists the workloads that need attention.

It reads the cluster once, with rights to get and list only, and changes
nothing. Only the heaps of Java virtual machines need a Prometheus
(--prometheus). Parts of the cluster that you may not read are named in the
output. The next pass is planned by the same code as in the updater. The flags
of the running updater and recommender are read from their Deployments; flags of
this command take precedence.

With the name of an event, condition or reason instead of an object, or with a
text of podfit in quotes, it prints what that means and what to do about it,
without a cluster.

Conditions for --if:
` + keys.String(),
		Example: `  podfit explain
  podfit explain deploy/cart -n shop
  podfit explain pod/cart-7d9f-q8z -n shop -o json
  podfit explain vpa/cart -n shop --min-replicas=1
  podfit explain deploy/cart -n shop --if profile=cost --if maxAllowed.memory=1Gi
  podfit explain node/n7
  podfit explain deploy/cart -n shop -o html > cart.html
  podfit explain BudgetSpent`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.given = cmd.Flags()
			if asksForMessage(args) {
				return writeMessages(s.Out, args[0], c.Output)
			}
			if err := c.Validate(); err != nil {
				return process.UsageError{Err: err}
			}
			const timeout = 2 * time.Minute // of the whole command
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if len(args) == 0 {
				return c.list(ctx, s.Out)
			}
			r, err := parseReference(args)
			if err != nil {
				return err
			}
			return c.run(ctx, time.Now(), r, s.Out)
		},
	}
	c.Flags(cmd.Flags())
	cmd.ValidArgsFunction = c.complete
	process.CompleteFlag(cmd, "output", "text", "wide", "json", "html")
	return cmd
}

// Flags binds the configuration to flags.
func (c *Config) Flags(fs *pflag.FlagSet) {
	fs.StringVarP(&c.Namespace, "namespace", "n", c.Namespace, "Namespace of the object. Empty means the namespace of the kubeconfig's context.")
	fs.StringVarP(&c.Container, "container", "c", c.Container, "Explain only this container. Empty means all containers.")
	fs.StringVarP(&c.Output, "output", "o", c.Output, "Format of the output: text, wide (text with all notes), json or html.")
	fs.Var(&c.If, "if", "Also show the size under this condition, such as profile=cost; may be repeated. --help-all lists the keys.")
	fs.StringVar(&c.At, "at", c.At, "Explain this time instead of now: RFC 3339, a time of today (local time) such as 02:58, or a difference such as -20m or +2h. "+
		"In the past, only what events and the records of the updater contain. In the future, the pass at that time if nothing else changes.")
	process.ReaderFlags(fs, &c.Kube)
	c.prometheus.Flags(fs, "Java virtual machines")
	c.jobs.Updater.Flags(fs)
	c.jobs.Recommender.Flags(fs)
}

// Validate returns an error for each invalid flag, with the flag's name and the values it accepts.
func (c *Config) Validate() error {
	var errs process.Problems
	errs.AddIf(formats[c.Output] == nil, "--output must be text, wide, json or html, got %q", c.Output)
	_, err := parseAt(c.At, time.Now())
	return errors.Join(append(errs, err, c.prometheus.Validate(), c.jobs.Updater.Validate(), c.jobs.Recommender.Validate())...)
}

func (c *Config) run(ctx context.Context, now time.Time, r reference, out io.Writer) error {
	clients, err := kube.NewClients(c.Kube)
	if err != nil {
		return err
	}
	r.namespace = c.namespace()
	if err := clients.Responds(ctx); err != nil {
		return err
	}
	e, err := c.explain(ctx, now, clients, r.namespace, func(s *cluster.Snapshot, w finder) (explanation.Subject, error) { return find(r, s, w) })
	if err != nil {
		return err
	}
	return formats[c.Output](out, e)
}

func (c *Config) namespace() string {
	if c.Namespace != "" {
		return c.Namespace
	}
	return c.Kube.Namespace()
}

// explain reads the cluster and explains the object that find returns.
func (c *Config) explain(
	ctx context.Context, now time.Time, clients *kube.Clients, namespace string, find func(*cluster.Snapshot, finder) (explanation.Subject, error),
) (*explanation.Explanation, error) {
	var flags explanation.Gaps
	c.assumed = map[string]bool{"updater": !c.known, "recommender": !c.known}
	if !c.known && !c.onlyNamespace {
		flags = c.adopt(ctx, clients)
	}
	if err := compatibility.ApplyGiven(c.given); err != nil {
		return nil, err
	}
	world, read, err := c.load(ctx, clients, namespace)
	if err != nil {
		return nil, err
	}
	snapshot := world.Snapshot()
	found, err := find(snapshot, world)
	if errors.As(err, new(notFound)) && slices.ContainsFunc(read.Forbidden, func(u explanation.Unread) bool { return u.Part == "pods of other namespaces" }) {
		return nil, fmt.Errorf("%w (other namespaces were not searched: you may not list their pods)", err)
	}
	if err != nil {
		return nil, err
	}
	if err := c.checkContainer(&found); err != nil {
		return nil, err
	}
	at, err := parseAt(c.At, now)
	if err != nil {
		return nil, err
	}
	in := &explanation.Input{
		Now: now, Subject: found, Container: c.Container, Replicas: world.Scale(found.Workload), Ifs: c.If,
		Updater: explanation.Updater{Interval: c.jobs.Updater.Interval()}, Cluster: explanation.Cluster{Nodes: world.Nodes()},
		Gaps: explanation.Gaps{
			Forbidden: append(read.Forbidden, flags.Forbidden...), Missing: append(read.Missing, flags.Missing...), Remarks: append(read.Remarks, flags.Remarks...),
			NoAutoscalers: read.NoAutoscalers,
		},
	}
	in.Pods = live(found.Pods)
	if c.assumed["updater"] {
		in.Assumed = c.jobs.Updater.Assumed(c.given)
	}
	states := c.records(ctx, in, clients)
	if at.Before(now) {
		c.inspect(ctx, in, world, clients, found.Namespace)
		return explanation.Past(in, recordOf(states, found.Workload), at)
	}
	if at.After(now) {
		in.Now = at
		in.Remarks = append(in.Remarks, "This is planned for "+at.Format("2006-01-02 15:04 MST")+" as if nothing changed until then.")
	}
	planned := c.plan(in, world, states)
	c.size(ctx, in, world, planned, clients)
	c.noteSizing(in)
	c.readLease(ctx, now, in, clients)
	c.inspect(ctx, in, world, clients, found.Namespace)
	c.readHeaps(ctx, now, in)
	return explanation.Explain(in), nil
}

// load reads the cluster. If the user may not list the pods of all namespaces, it reads one namespace.
func (c *Config) load(ctx context.Context, clients *kube.Clients, namespace string) (*watcher.World, explanation.Gaps, error) {
	if c.onlyNamespace {
		c.jobs.Updater.Restrict(namespace)
	}
	options := c.jobs.Updater.WatcherOptions()
	options.Log = slog.New(slog.DiscardHandler)
	options.Nodes = !c.onlyNamespace
	world := watcher.NewWorld(clients, options)
	failed := world.Load(ctx)
	var out explanation.Gaps
	if c.onlyNamespace {
		out.Miss("nodes", "Only namespace "+namespace+" was read: the nodes and their free room are not known.")
	}
	if forbidden(failed, "pods") && !c.onlyNamespace {
		c.jobs.Updater.Restrict(namespace)
		options.Namespace = namespace
		options.Ignored = nil
		world = watcher.NewWorld(clients, options)
		failed = world.Load(ctx)
		note := "You may not list the pods of all namespaces, so only namespace " + namespace + " was read: the free room on nodes is not known."
		out.Forbidden = append(out.Forbidden, explanation.Unread{Part: "pods of other namespaces", Note: note})
	}
	for _, u := range failed {
		switch {
		case u.Resource == "pods":
			return nil, out, fmt.Errorf("read the pods, which each explanation needs: %w", kube.Explained(u.Err))
		case u.Resource == watcher.AutoscalersFeed && apierrors.IsNotFound(u.Err):
			out.Remarks = append(out.Remarks, "The cluster has no kind VerticalPodAutoscaler, so no VPA governs any pod. To install it: podfit crds | kubectl apply --server-side --force-conflicts -f -")
		default:
			out.NoAutoscalers = out.NoAutoscalers || u.Resource == watcher.AutoscalersFeed
			unread(&out, u.Resource, u.Err, lack(&u))
		}
	}
	slices.SortStableFunc(out.Forbidden, func(a, b explanation.Unread) int { // first the nodes, because the text names the first parts only
		return integer.FalseFirst(a.Part != "nodes", b.Part != "nodes")
	})
	return world, out, ctx.Err()
}

func forbidden(unread []watcher.Unread, resource string) bool {
	return slices.ContainsFunc(unread, func(u watcher.Unread) bool { return u.Resource == resource && apierrors.IsForbidden(u.Err) })
}

// lack describes a resource that could not be read.
func lack(u *watcher.Unread) string {
	cause := oneLine(u.Err)
	switch {
	case apierrors.IsForbidden(u.Err):
		cause = "you have no right to list them"
	case apierrors.IsNotFound(u.Err):
		cause = "the API server does not have them"
	}
	text := fmt.Sprintf("Cannot read %s (%s)", u.Resource, cause)
	if u.Lost != "" {
		return text + ", so podfit does not know " + u.Lost + "."
	}
	return text + "."
}

func (c *Config) checkContainer(found *explanation.Subject) error {
	if c.Container == "" || len(found.Pods) == 0 {
		return nil
	}
	var names []string
	for _, p := range found.Pods {
		for i := range p.Containers {
			if !slices.Contains(names, p.Containers[i].Name) {
				names = append(names, p.Containers[i].Name)
			}
		}
	}
	if slices.Contains(names, c.Container) {
		return nil
	}
	return process.UsageError{Err: fmt.Errorf("%s has no container %q; its containers are %s", found.Name, c.Container, strings.Join(names, ", "))}
}

func live(pods []*cluster.Pod) []*cluster.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *cluster.Pod) bool { return !p.Live() })
}

// plan adds the decisions of the next pass on the pods, and returns what it is planned for.
func (c *Config) plan(in *explanation.Input, world *watcher.World, states []ledger.State) *plan.World {
	in.Waiting = recordOf(states, in.Subject.Workload).Waiting
	explained := cluster.SetOf(in.Pods, func(p *cluster.Pod) string { return p.UID })
	pass, planned, budget := c.jobs.Updater.Preview(in.Now, world, states, explained, nil)
	in.Budget = budget
	in.AllPods = planned.Pods
	in.Plan = explanation.PlanOf(pass, explained)
	if c.jobs.Updater.WatcherOptions().Namespace == "" { // the reader may list the pods of all namespaces
		for i := range in.Decisions {
			r := &in.Decisions[i].Reason
			if namespace, _, _ := strings.Cut(r.Elsewhere, "/"); !process.MatchesNamespace(c.excluded, namespace) {
				*r = r.Revealed()
			}
		}
	}
	noteKills(in)
	if in.Autoscaler != nil {
		in.Rules = world.Rules(in.Autoscaler)
	}
	c.planSwitched(in, world, states, explained)
	return &planned
}

// noteKills says that the running updater may know more OOM kills: a pod has its last one only, and the updater counts those that it has seen.
func noteKills(in *explanation.Input) {
	if slices.ContainsFunc(in.Decisions, func(d decision.Decision) bool { return d.Reason.Code == decision.FewKills }) {
		in.Miss("earlier OOM kills", "A pod shows only its last OOM kill, so more may be known to the running updater, which then deletes the pod earlier.")
	}
}

// planSwitched adds what the next pass would do if the update mode of the VPA changed running pods. A second VPA that another one governs is
// not switched on: that would change nothing.
func (c *Config) planSwitched(in *explanation.Input, world *watcher.World, states []ledger.State, explained map[string]bool) {
	a := in.Autoscaler
	if a == nil || a.Mode.Updates() || len(in.Pods) == 0 || in.Governing != nil && in.Governing != a {
		return
	}
	on := *a
	on.Mode = cluster.InPlaceOrRecreate
	pass, _, _ := c.jobs.Updater.Preview(in.Now, world, states, explained, &on)
	in.Switched = &explanation.Switched{Mode: on.Mode, Plan: explanation.PlanOf(pass, explained)}
}

// records returns the records of the updater. Without them, the plan is that of an updater that has just started.
func (c *Config) records(ctx context.Context, in *explanation.Input, clients *kube.Clients) []ledger.State {
	o := checkpoint.StorageOptions{Namespace: c.jobs.Updater.WatcherOptions().Namespace, Log: slog.New(slog.DiscardHandler)}
	states, err := checkpoint.NewStates(clients, o, "explain").Load(ctx)
	miss(&in.Gaps, "updatestates", err, "The records of the updater (UpdateState) were not read (%s): back-offs after earlier attempts are not known.")
	return states
}

// recordOf returns the record of a workload, or an empty one.
func recordOf(states []ledger.State, w cluster.Workload) *ledger.State {
	found := cluster.Find(states, func(s *ledger.State) bool { return s.Workload == w && !w.IsZero() })
	return cmp.Or(found, &ledger.State{Workload: w})
}

// inspect adds what only an explanation needs. What cannot be read is reported in Missing.
func (c *Config) inspect(ctx context.Context, in *explanation.Input, world *watcher.World, clients *kube.Clients, namespace string) {
	if in.Autoscaler != nil {
		status, _ := world.Status(in.Autoscaler.Key)
		in.Conditions = cluster.Each(status.Conditions, func(s *v1.VerticalPodAutoscalerCondition) explanation.Condition {
			return explanation.Condition{Type: string(s.Type), Reason: s.Reason, Message: s.Message, True: s.Status == "True", Since: s.LastTransitionTime.Time}
		})
	}
	if namespace == "" {
		return
	}
	in.Disruption, _ = world.DisruptionBudgets(namespace)
	if len(in.Pods) > 0 {
		labels, err := inspection.Labels(ctx, clients, in.Pods[0].Key)
		miss(&in.Gaps, "labels of pods", err, "The labels of the pods were not read (%s).")
		in.Labels = labels
	}
	events, err := event.List(ctx, clients, namespace)
	miss(&in.Gaps, "events", err, "Events were not read (%s).")
	in.Events = about(events, in)
	c.measure(ctx, in, clients, namespace)
}

// about returns the events about the VPA and the pods, and about the pods that the VPA has replaced.
func about(events []explanation.Event, in *explanation.Input) []explanation.Event {
	return slices.DeleteFunc(events, func(e explanation.Event) bool {
		if in.Autoscaler != nil && (e.Kind == "VerticalPodAutoscaler" && e.Name == in.Autoscaler.Name || e.VPA == in.Autoscaler.Name) {
			return false
		}
		return e.Kind != "Pod" || !slices.ContainsFunc(in.Pods, func(p *cluster.Pod) bool { return p.Name == e.Name })
	})
}

// measure adds the current usage of the pods. A cluster without the Metrics API has none.
func (c *Config) measure(ctx context.Context, in *explanation.Input, clients *kube.Clients, namespace string) {
	client, err := metrics.New(clients.Config, clients.HTTP, namespace)
	if err != nil {
		return
	}
	reading, err := client.Read(ctx)
	if apierrors.IsNotFound(err) {
		in.Miss("the current usage", "The cluster has no Metrics API, so the current usage is not known.")
	} else {
		miss(&in.Gaps, "the current usage", err, "The current usage was not read (%s).")
	}
	for i := range reading.Samples {
		s := &reading.Samples[i]
		s.Has = s.Present(in.Now).Has
	}
	in.Usage = slices.DeleteFunc(reading.Samples, func(s usage.Sample) bool {
		return s.Has.Empty() || !slices.ContainsFunc(in.Pods, func(p *cluster.Pod) bool { return p.Key == s.Pod })
	})
}

// miss adds a part that could not be read, if there is an error, with a sentence about it in which %s is the error.
func miss(gaps *explanation.Gaps, part string, err error, note string) {
	if err != nil {
		unread(gaps, part, err, fmt.Sprintf(note, oneLine(err)))
	}
}

// unread adds a part that could not be read because of an error, with a sentence about it.
func unread(gaps *explanation.Gaps, part string, err error, note string) {
	if apierrors.IsForbidden(err) {
		gaps.Forbidden = append(gaps.Forbidden, explanation.Unread{Part: part, Note: note})
		return
	}
	gaps.Miss(part, note)
}

// oneLine returns the text of an error on one line, and a short one if the API server refuses the request: the path and the user of each
// request hide what is missing from a user who may read one namespace only.
func oneLine(err error) string {
	if apierrors.IsForbidden(err) {
		return "you have no right to do this"
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// parseAt returns the time of --at; "" is now.
func parseAt(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return now, nil
	}
	if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
		if d, err := time.ParseDuration(text); err == nil {
			return now.Add(d), nil
		}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04", "2006-01-02T15:04"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at.In(now.Location()), nil
		}
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if at, err := time.Parse(layout, text); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), at.Second(), 0, now.Location()), nil
		}
	}
	return time.Time{}, fmt.Errorf("--at must be a time such as 2026-11-22T02:58:00Z or 02:58 (local time), or a difference such as -20m or +2h, got %q", text)
}
