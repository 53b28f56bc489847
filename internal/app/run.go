// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/admission"
	"podfit.dev/podfit/internal/app/explain"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender"
	"podfit.dev/podfit/internal/app/updater"
	"podfit.dev/podfit/internal/app/web"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/prom"
	"podfit.dev/podfit/internal/edge/prom/survey"
	page "podfit.dev/podfit/internal/edge/web"
)

// runConfig is the configuration of "podfit run": all three components in one process. Shared flags exist once.
type runConfig struct {
	process.Common
	Election    process.Election
	Address     string
	Recommender recommender.Config
	Updater     updater.Config
	Admission   admission.Config
	Web         web.Config
}

func runDefaults() runConfig {
	return runConfig{
		Common: process.CommonDefaults(), Election: process.ElectionDefaults("podfit"), Address: ":8942",
		Recommender: recommender.Defaults(), Updater: updater.Defaults(), Admission: admission.Defaults(), Web: web.Defaults(),
	}
}

// Flags binds the flags of the three components. A flag that several components have applies to all of them.
func (c *runConfig) Flags(fs *pflag.FlagSet) {
	c.Common.Flags(fs)
	c.Election.Flags(fs)
	c.Recommender.OwnFlags(fs)
	c.Updater.OwnFlags(fs)
	c.Admission.OwnFlags(fs)
	c.Web.Flags(fs)
	fs.StringVar(&c.Address, "address", c.Address, "Address on which /metrics and /health-check are served.")
}

// Validate returns an error for each invalid flag, with the flag's name and the values it accepts.
func (c *runConfig) Validate() error {
	return errors.Join(c.Common.Validate(), c.Election.Validate(),
		c.Recommender.ValidateOwn(), c.Updater.ValidateOwn(), c.Admission.ValidateOwn(), c.throttlingSource().Validate(), c.Web.Validate())
}

// throttlingSource returns where the updater reads the CPU throttling of canaries: in the Prometheus of the recommender, if the user has
// named one.
func (c *runConfig) throttlingSource() *updater.PrometheusConfig {
	if !c.Recommender.HasPrometheus() {
		return new(updater.Defaults().Prometheus)
	}
	return &updater.PrometheusConfig{Config: c.Recommender.ThrottlingSource().Config}
}

// share copies the shared flags to the three components. In a dry run, leader election and webhook registration are disabled,
// and the updater does not wait for the webhook's status lease, because the webhook of this process does not renew it.
func (c *runConfig) share() {
	c.ReadOnly = c.Updater.DryRun
	if c.ReadOnly {
		c.Election.Enabled = false
		c.Updater.UseStatus = false
		c.Admission.Register = false
	}
	for _, common := range []*process.Common{&c.Recommender.Common, &c.Updater.Common, &c.Admission.Common} {
		*common = c.Common
	}
	c.Updater.StatusNamespace = cmp.Or(c.Updater.StatusNamespace, c.Admission.StatusNamespace)
	c.Admission.NoProfiles = c.Recommender.NameGiven()
	if c.Recommender.NameGiven() {
		c.Updater.Recommends = c.Recommender.Serves
	}
	c.Updater.Prometheus = *c.throttlingSource()
	c.Updater.KubeletInsecure = c.Recommender.KubeletInsecure
}

func newRunCommand(s Streams) *cobra.Command {
	c := runDefaults()
	return process.LongRunning{
		Use: "run", Short: "Run all three components in one process",
		Long: `Runs the recommender, the updater and the admission controller in one process
with shared watches. It accepts the flags of all three. With --leader-elect,
several replicas can run: all of them serve the webhook, and only the leader
recommends and updates.

With --dry-run, podfit logs the changes that it would make and changes nothing
in the cluster. Use it to try podfit from your own machine. To size new pods
from your machine, the API server must be able to reach this process: use
--register-by-url --webhook-address=ADDRESS.`,
		Example: `  # Log what podfit would change in one namespace, and change nothing
  podfit run --dry-run --context staging -n shop

  # Let replacements of pods wait for nodes that are added on demand
  podfit run --leader-elect --replacement-must-fit=false`,
		Config: &c, Common: func() *process.Common { return &c.Common }, Address: func() string { return c.Address },
		Prepare: func(ctx context.Context, p *process.Process) (func(context.Context) error, error) {
			c.share()
			clients, world, err := c.Common.Connect(ctx, p, "run", watcher.Options{
				Pods: watcher.AllPods, Evictions: true, Nodes: true, NodeGroups: true, Limits: true, Quotas: true, Budgets: true, Profiles: !c.Admission.NoProfiles,
				Rules: true, Held: true, FreezeSwitch: c.Updater.FreezeSwitch(),
			})
			if err != nil {
				return nil, err
			}
			waiting, err := c.Recommender.Standby(&c.Election, p, clients)
			if err != nil {
				return nil, err
			}
			recommend, err := recommender.Work(&c.Recommender, p, clients, world, waiting)
			if err != nil {
				return nil, err
			}
			c.Updater.Tables = s.Out
			served, err := webPage(&c, p, clients, world)
			if err != nil {
				return nil, err
			}
			update := updater.Work(&c.Updater, p, clients, world)
			admit, err := admission.Work(&c.Admission, p, clients, world)
			if err != nil {
				return nil, err
			}
			led := func(ctx context.Context) error {
				return process.Lead(ctx, p, c.Election, clients.Leases, process.Together(recommend, update))
			}
			standby := func(ctx context.Context) error { return waiting.Run(ctx, p, c.Recommender.Interval) }
			return func(ctx context.Context) error {
				return process.WithWorld(ctx, world, append(served, led, admit, standby)...)
			}, nil
		},
	}.Command(s)
}

// webPage returns the work of the web page, none if it is off. The page shows the decisions of the updater of this process.
func webPage(c *runConfig, p *process.Process, clients *kube.Clients, world *watcher.World) ([]func(context.Context) error, error) {
	if c.Web.Address == "" {
		return nil, nil
	}
	journal := new(web.Journal)
	c.Updater.Journal = journal.Record
	updaterConfig := c.Updater
	recommenderConfig := c.Recommender
	explainer := func(clients *kube.Clients, excluded []string, log *slog.Logger) page.Explainer {
		jobs := func() explain.Running {
			return explain.Running{Updater: updater.SettingsOf(updaterConfig), Recommender: recommender.SettingsOf(recommenderConfig)}
		}
		return explain.NewPage(clients, jobs, false, excluded, log)
	}
	recorded, err := recordedUsage(&c.Recommender)
	if err != nil {
		return nil, err
	}
	work, err := web.Work(&c.Web, p, &c.Common, clients, web.Data{World: world, Journal: journal, Explainer: explainer, Prometheus: recorded})
	if err != nil {
		return nil, err
	}
	return []func(context.Context) error{work}, nil
}

// recordedUsage returns the Prometheus from which the page reads hourly peaks: that of the recommender, nil if the user has named none.
func recordedUsage(c *recommender.Config) (*survey.Config, error) {
	if !c.HasPrometheus() {
		return nil, nil
	}
	h := &c.History
	transport, err := prom.Transport(h.Config)
	if err != nil {
		return nil, err
	}
	return &survey.Config{Address: h.Address, Transport: transport}, nil
}
