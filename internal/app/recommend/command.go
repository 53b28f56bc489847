// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package recommend is the job that compares the present requests of a cluster with recommended ones, once, and changes nothing.
package recommend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/metrics"
	"podfit.dev/podfit/internal/edge/price"
	"podfit.dev/podfit/internal/edge/prom/survey"
	report "podfit.dev/podfit/internal/edge/report/review"
	"podfit.dev/podfit/internal/edge/report/terminal"
	"podfit.dev/podfit/internal/spelling"
)

// NewCommand returns "podfit recommend".
func NewCommand(s process.Streams) *cobra.Command {
	c := Defaults()
	cmd := &cobra.Command{
		Use:   "recommend [KIND/NAME ...]",
		Short: "Compare the requests of a cluster with recommended ones",
		Long: `Compares the present requests of containers with recommended ones: which are too
low (a risk), which are too high (waste), what that costs, and how sure each
number is. It sends only requests that read, and works without podfit or VPAs in
the cluster.

Confidence is the number of days that usage covers × the share of the samples
that are present. Numbers from less than 6 hours of usage are marked young. They
are no advice: totals and manifests leave them out without --include-young, and
--fail-on never counts them. "Could be freed" is about requests. Money is only
saved if nodes go: their number is printed apart.

Exit codes:
  0  success
  1  failure: a source cannot be read, or output cannot be written
  2  invalid command line; nothing was read
  3  the report is incomplete: it contains what is missing
  4  the report is complete, and --fail-on or --fail-saving applies`,
		Example: `  podfit recommend  # the cluster of the kubeconfig
  podfit recommend deploy/cart -n shop
  podfit recommend --prometheus http://localhost:9090 --prices prices.yaml
  podfit recommend --source metrics --for 30m  # without Prometheus and VPAs: provisional numbers
  podfit recommend -n 'team-*' -o kustomize > kustomization.yaml
  podfit recommend --fail-on risk --quiet -o json > report.json  # in CI`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Names = args
			if err := c.Validate(); err != nil {
				return process.UsageError{Err: err}
			}
			const readingInterval = time.Minute // between two readings of the Metrics API; the recommender has the same
			j := job{Config: c, streams: s, interval: readingInterval}
			return j.run(cmd.Context())
		},
	}
	c.Flags(cmd.Flags())
	for flag, values := range choices {
		process.CompleteFlag(cmd, flag, values...)
	}
	process.CompleteFlag(cmd, "profile", builtinNames()...)
	process.CompleteFlag(cmd, "group-by", "workload", "namespace", "pool", "label=")
	return cmd
}

type job struct {
	Config
	streams  process.Streams
	interval time.Duration // between two readings of the Metrics API
}

func (c *Config) window() time.Duration {
	d, err := model.ParseDuration(c.History)
	if err != nil {
		return 0 // Validate has excluded it
	}
	return time.Duration(d)
}

// run reads, reviews and reports. An interrupt ends reading; what was read until then is reported.
func (j *job) run(ctx context.Context) error {
	if j.source() == sourceTrace {
		s, subjects, err := j.readTrace()
		if err != nil {
			return err
		}
		return j.report(s, subjects)
	}
	clients, err := kube.NewClients(j.Kube)
	if err == nil {
		err = clients.Reach(ctx, j.onlyNamespace())
	}
	if err != nil {
		return interrupted(ctx, err)
	}
	s, err := j.readScene(ctx, clients)
	if err != nil {
		return interrupted(ctx, err)
	}
	if err := j.check(s); err != nil {
		return err
	}
	from, err := j.locate(ctx, clients)
	if err != nil {
		return interrupted(ctx, err)
	}
	s.Cluster = j.Kube.ClusterName(clients)
	if s.Prices, err = j.prices(ctx, s, from); err != nil {
		return interrupted(ctx, err)
	}
	subjects, err := j.read(ctx, clients, s, from)
	if err != nil {
		return interrupted(ctx, err)
	}
	if names := s.otherProfiles(); len(names) > 0 && s.Source != review.SourceVPAs && len(j.Profiles) == 0 {
		s.Missing = append(s.Missing, "workloads of the recommenders "+strings.Join(names, ", ")+" are sized by the default profile, because there is no right to read SizingProfiles")
	}
	return j.report(s, subjects)
}

// read reads usage from the source, and sets the source, the notes and the gaps of the report.
func (j *job) read(ctx context.Context, clients *kube.Clients, s *scene, from *process.PrometheusEndpoint) ([]review.Subject, error) {
	source := j.source()
	unreadable := ""
	if from != nil {
		var subjects []review.Subject
		recorded, err := j.newHistory(ctx, clients, from)
		if err == nil {
			subjects, err = j.readHistory(ctx, recorded, s)
		}
		if err == nil || source == sourcePrometheus || ctx.Err() != nil {
			s.Source, s.Window, s.Peaks = from.Name, j.window(), true
			j.noteUnused(s, "for")
			return subjects, err
		}
		unreadable = fmt.Sprintf("%s was found, but cannot be read: %v", from.Name, err)
		s.Notes = append(s.Notes, unreadable)
	}
	if source == sourceAuto {
		source = sourceMetrics
		if s.hasVPAs() {
			source = sourceCluster
		}
	}
	if source == sourceCluster {
		s.Source = review.SourceVPAs
		j.noteUnused(s, "for")
		j.noteUnused(s, "history")
		return j.readStored(ctx, clients, s)
	}
	sampler, err := metrics.New(clients.Config, clients.HTTP, j.onlyNamespace())
	if err != nil {
		return nil, err
	}
	j.announce(unreadable)
	s.Source = "Metrics API"
	s.Window = j.For
	j.noteUnused(s, "history")
	return j.readMetrics(ctx, sampler, s)
}

// noteUnused adds a note if a flag for another source of usage is set: for or history.
func (j *job) noteUnused(s *scene, flag string) {
	defaults := Defaults()
	if flag == "for" && j.For != defaults.For || flag == "history" && j.History != defaults.History {
		s.Notes = append(s.Notes, "--"+flag+" has no effect, because usage is from "+s.Source+".")
	}
}

// announce says before the Metrics API is read how long that takes, and why it is read if the user has not asked for it. unreadable is the note
// about a Prometheus that was found but cannot be read, "" if there is none.
func (j *job) announce(unreadable string) {
	if j.Quiet {
		return
	}
	text := fmt.Sprintf("Reading the Metrics API for %v (--for)", j.For)
	if j.source() != sourceMetrics {
		text += ", because there are no VPAs and no Prometheus that can be read"
	}
	if j.newPreview() == nil {
		text += ". The report is printed at the end"
	}
	text += ". "
	fmt.Fprintln(j.streams.Err, terminal.Plain(text+unreadable))
}

// prices returns the prices of the nodes: from the file, or OpenCost, or assumed ones.
func (j *job) prices(ctx context.Context, s *scene, from *process.PrometheusEndpoint) (review.Prices, error) {
	switch {
	case j.NoMoney:
		return review.Prices{}, nil
	case j.Prices != "":
		return price.ReadFile(j.Prices, s.Nodes)
	case j.OpenCost != "":
		transport, err := j.Transport()
		if err != nil {
			return review.Prices{}, err
		}
		return openCost(ctx, j.OpenCost, transport, s)
	case from != nil:
		found, err := openCost(ctx, from.Address, from.Transport, s)
		if err == nil || ctx.Err() != nil {
			return found, err
		}
	}
	return price.Assumed(), nil
}

// openCost returns the prices of the nodes by OpenCost's metrics in a Prometheus.
func openCost(ctx context.Context, address string, transport http.RoundTripper, s *scene) (review.Prices, error) {
	from, err := survey.New(survey.Config{Address: address, Transport: transport, Timeout: 30 * time.Second, MaxReply: 4 << 20})
	if err != nil {
		return review.Prices{}, err
	}
	return price.OpenCost(ctx, from, address, s.Nodes, s.Now)
}

// check returns an error if there is nothing to review, or if an argument or profile is unknown.
func (j *job) check(s *scene) error {
	for _, name := range j.Names {
		if !slices.ContainsFunc(s.workloads, func(w *workload) bool { return isNamed(name, w.key) }) {
			return fmt.Errorf("there is no %s with live pods in %s%s", name, j.scopeText(), s.whyIdle(name))
		}
	}
	if len(s.workloads) == 0 {
		return fmt.Errorf("there are no workloads with live pods in %s", j.scopeText())
	}
	for _, name := range j.Profiles {
		if !s.catalog.Contains(&cluster.Autoscaler{Recommender: name}) {
			names := builtinNames()
			return process.UsageError{Err: fmt.Errorf("--profile: there is no profile %q%s; use one of %s, or a SizingProfile of the cluster", name, spelling.Hint(name, names), strings.Join(names, ", "))}
		}
	}
	return nil
}

func (c *Config) scopeText() string {
	text := "the cluster"
	if len(c.Namespaces) > 0 {
		text = "namespace " + strings.Join(c.Namespaces, ", ")
	}
	if len(c.Excluded) > 0 {
		text += ", without " + strings.Join(c.Excluded, ", ")
	}
	return text
}

// books returns a book without usage for each profile.
func (j *job) books(s *scene) []*book {
	profiles := j.Profiles
	if len(profiles) == 0 {
		profiles = []string{""}
	}
	return cluster.Each(profiles, func(name *string) *book { return newBook(*name, s) })
}

// readStored returns the subjects according to the stored usage history. What cannot be read is added to the gaps of the scene.
func (j *job) readStored(ctx context.Context, clients *kube.Clients, s *scene) ([]review.Subject, error) {
	stored, checkpoints, histories := checkpoint.ReadStored(ctx, clients, checkpoint.StorageOptions{Namespace: j.onlyNamespace()})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, err := range []error{checkpoints, histories} {
		if err != nil {
			s.Missing = append(s.Missing, err.Error())
			s.unread = true
		}
	}
	books := j.books(s)
	for _, b := range books {
		b.restore(stored)
	}
	return j.allSubjects(s, books, (*book).adviseStored, books[0].storedEvidence), nil
}

// allSubjects returns the reviewed containers, with the recommendations of the books, without CronJobs that have none and no pods. The OOM kills in the status of the live pods are added to
// the evidence, unless the source of usage knows more.
func (j *job) allSubjects(
	s *scene, books []*book, advise func(*book, *workload) []cluster.Advice, evidence func(w *workload, container string) review.Evidence,
) (out []review.Subject) {
	for _, w := range s.workloads {
		advice := cluster.Each(books, func(b **book) []cluster.Advice { return advise(*b, w) })
		if s.isIdle(w) && !slices.ContainsFunc(advice, func(a []cluster.Advice) bool { return len(a) > 0 }) {
			continue
		}
		for _, container := range w.containers {
			known := evidence(w, container)
			known.AddStatusKills(w.live, container, s.Now.Add(-j.window()))
			subject := j.subject(s, w, container, books, advice)
			subject.Evidence = &known
			out = append(out, subject)
		}
	}
	return out
}

func (j *job) subject(s *scene, w *workload, container string, books []*book, advice [][]cluster.Advice) review.Subject {
	out := review.Subject{Workload: w.key, Container: container}
	if w.vpa != nil {
		out.VPA = w.vpa.Name
	}
	if t := s.templates[w.key]; t != nil {
		if of := t.Container(container); of != nil {
			out.Template, out.Sidecar = &review.Size{Requests: of.Requests, Limits: of.Limits}, of.Role == cluster.Sidecar
			out.Requests, out.Limits = of.Requests, of.Limits // if no pod has others
		} else {
			out.Injected = true
		}
	}
	sized := w.vpa
	if sized != nil {
		own := *w.vpa
		own.Advice = advice[0] // it has sizes of groups only if it is that of the status
		sized = &own
	}
	var shown *cluster.Pod
	for _, p := range w.live {
		c := p.Container(container)
		if c == nil {
			continue
		}
		requests, limits := c.Running()
		out.Places = append(out.Places, review.Place{Pod: p.Name, Node: p.Node, Requests: requests, Own: sized.OwnTarget(p, container)})
		if w.vpa.Represents(p, shown) {
			shown = p
			out.Requests, out.Limits, out.JVM, out.PodLevel = requests, limits, review.IsJVM(p, c), review.PodLevelOf(p)
		}
	}
	for i, b := range books {
		t := review.Target{Profile: s.catalog.Of(b.sizedBy[w.key]).Name, Amount: target(advice[i], container)}
		out.Targets = append(out.Targets, t)
	}
	out.Packs, out.Unpacked = books[0].packing(w, container)
	for i, res := range cluster.All {
		out.Kept[i] = j.kept(w, container, res, &out)
	}
	return out
}

// kept returns whether a request stays as it is because of an HPA.
func (j *job) kept(w *workload, container string, res cluster.Resource, s *review.Subject) review.Kept {
	if w.vpa != nil && !w.vpa.Policy(container).Controls().Has(res) {
		return review.Kept{Reason: review.NotControlled, By: w.vpa.Name}
	}
	a := &cluster.Autoscaler{Target: w.key, Horizontal: w.hpas}
	first, n := a.ScaledBy(container, res)
	if n == 0 || j.HPA == hpaIgnore {
		return review.Kept{}
	}
	out := review.Kept{Reason: review.ScaledByHPA, By: first.HPA.Name, Percent: first.Metric.Percent}
	wanted, ok := s.Targets[0].Amount.Get(res)
	before := s.Requests.Amount(res)
	switch {
	case j.HPA == hpaKeep:
	case n > 1 || first.Metric.Container == "" && len(w.containers) > 1:
		out.Reason = review.SeveralMetrics
	case ok && before != 0 && wanted != 0:
		out.Reason = review.FollowsHPA
		out.Percent = int32(max(float64(out.Percent)*float64(before)/float64(wanted)+0.5, 1))
	}
	return out
}

func (j *job) report(s *scene, subjects []review.Subject) error {
	r, o := j.review(s, subjects)
	young := slices.ContainsFunc(r.Rows, func(r *review.Row) bool { return !r.Young.Has.Empty() })
	if young && !r.IncludeYoung && slices.Contains([]string{"patch", "kustomize", "helm-values", "vpa"}, j.Output) {
		fmt.Fprintln(j.streams.Err, "Numbers from less than 6 hours of usage are not in the manifests (--include-young).")
	}
	if err := report.Write(j.streams.Out, j.Output, r, o); err != nil {
		return err
	}
	return j.verdict(r)
}

func (j *job) review(s *scene, subjects []review.Subject) (*review.Report, report.Options) {
	config := s.Config
	config.Profiles = j.Profiles
	if len(config.Profiles) == 0 {
		config.Profiles = []string{profilesOf(subjects)}
	}
	config.Limits = review.LimitRule(j.Limits)
	config.IncludeYoung = j.IncludeYoung
	config.Notes = append(slices.Clip(config.Notes), s.noteUnmeasured(subjects)...)
	if s.whole {
		config.Pods = s.snapshot.Pods
	}
	r := review.New(config, subjects)
	width, _, onTerminal := process.TerminalSize(j.streams.Out)
	o := report.Options{
		Width: width, Colour: onTerminal && !j.NoColour && os.Getenv("NO_COLOR") == "", Top: j.Top, Sort: j.Sort, MinSaving: j.MinSaving,
	}
	switch {
	case j.GroupBy == "namespace":
		o.Groups = r.ByNamespace()
	case j.GroupBy == "pool":
		o.Groups = r.ByPool()
	case j.GroupBy != "workload":
		o.Groups = r.ByLabel(strings.TrimPrefix(j.GroupBy, "label="), s.labels)
	}
	return r, o
}

// profilesOf returns the profile of all subjects, or "profile of each VPA" if there are several.
func profilesOf(subjects []review.Subject) string {
	names := slices.Compact(cluster.Each(subjects, func(s *review.Subject) string { return s.Targets[0].Profile }))
	if len(names) > 1 {
		return "profile of each VPA"
	}
	return strings.Join(names, "")
}

// verdict returns the error that leads to the exit code.
func (j *job) verdict(r *review.Report) error {
	if len(r.Missing) > 0 {
		return process.ExitError{Code: exitPartial, Err: fmt.Errorf("the report is incomplete: %s", strings.Join(r.Missing, "; "))}
	}
	var reasons []string
	for _, row := range r.Rows {
		if !row.Young.Has.Empty() && j.FailOn == "waste" {
			continue
		}
		if j.FailOn == "risk" && row.Risk == review.SeverityHigh || j.FailOn == "waste" && row.Waste == review.SeverityHigh {
			reasons = append(reasons, fmt.Sprintf("--fail-on %s: %s, container %s has a high %s", j.FailOn, row.Workload, row.Container, j.FailOn))
			break
		}
	}
	if j.FailSaving > 0 && r.Summary.Recoverable >= j.FailSaving {
		reasons = append(reasons, fmt.Sprintf("--fail-saving %v: %s %.2f a month could be saved", j.FailSaving, r.Prices.Currency, r.Summary.Recoverable))
	}
	if len(reasons) > 0 {
		return process.ExitError{Code: exitFailOn, Err: errors.New(strings.Join(reasons, "; "))}
	}
	return nil
}

// The exit codes of the command in addition to those of all commands.
const (
	exitPartial = 3
	exitFailOn  = 4
)
