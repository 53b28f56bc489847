// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/edge/kube"
)

// runConfig is the configuration of all three jobs in one process. What they share is said once.
type runConfig struct {
	Common
	Election    Election
	Address     string
	Recommender RecommenderConfig
	Updater     UpdaterConfig
	Admission   AdmissionConfig
}

func runDefaults() runConfig {
	return runConfig{
		Common: CommonDefaults(), Election: ElectionDefaults("podfit"), Address: ":8942",
		Recommender: RecommenderDefaults(), Updater: UpdaterDefaults(), Admission: AdmissionDefaults(),
	}
}

// Flags binds every flag of the three components; those that several of them have stand for all.
func (c *runConfig) Flags(fs *pflag.FlagSet) {
	c.Common.Flags(fs)
	c.Election.Flags(fs)
	c.Recommender.own(fs)
	c.Updater.own(fs)
	c.Admission.own(fs)
	fs.StringVar(&c.Address, "address", c.Address, "Address of /metrics and /health-check.")
}

// Validate says what is wrong with the configuration, naming the flag and the remedy.
func (c *runConfig) Validate() error {
	return errors.Join(c.Common.Validate(), c.Election.Validate(),
		c.Recommender.validateOwn(), c.Updater.validateOwn(), c.Admission.validateOwn())
}

// share gives the three jobs what was said once. In a dry run none takes a lease from those who work, and the updater does
// not wait for a sign of life of the webhook: this process would be it.
func (c *runConfig) share() {
	c.dryRun = c.Updater.DryRun
	if c.dryRun {
		c.Election.Enabled, c.Updater.UseStatus, c.Admission.Register = false, false, false
	}
	for _, common := range []*Common{&c.Recommender.Common, &c.Updater.Common, &c.Admission.Common} {
		*common = c.Common
	}
	if c.Updater.StatusNamespace == "" {
		c.Updater.StatusNamespace = c.Admission.StatusNamespace
	}
	c.Admission.noProfiles = c.Recommender.nameGiven()
}

func newRunCommand(s Streams) *cobra.Command {
	c := runDefaults()
	return longRunning{
		use: "run", short: "Do all three jobs in one process",
		long: `Runs recommender, updater and admission controller in one process that watches the cluster once. It takes every flag of
the three. With --leader-elect several replicas can run: all of them serve admission, the leader recommends and updates.

With --dry-run it says what it would do and changes nothing in the cluster: it only reads. That is how to look from your own
machine. To size new pods from there, the API server must reach this process: --register-by-url --webhook-address=ADDRESS.`,
		config: &c, common: func() *Common { return &c.Common }, address: func() string { return c.Address },
		prepare: func(p *process) (func(context.Context) error, error) {
			c.share()
			clients, err := c.Common.connect(p.log, "run")
			if err != nil {
				return nil, err
			}
			world := kube.NewWorld(clients, c.Common.watched(kube.Options{
				Pods: kube.AllPods, Evictions: true, Nodes: true, Limits: true, Quotas: true, Log: p.log,
			}))
			p.reg.MustRegister(newWatchMetrics(world))
			recommend, err := recommending(&c.Recommender, p, clients, world)
			if err != nil {
				return nil, err
			}
			update := updating(&c.Updater, p, clients, world)
			admit, err := admission(&c.Admission, p, clients, world)
			if err != nil {
				return nil, err
			}
			led := func(ctx context.Context) error {
				return lead(ctx, p, c.Election, clients.Leases, func(ctx context.Context) error {
					g, ctx := errgroup.WithContext(ctx)
					g.Go(func() error { return recommend(ctx) })
					g.Go(func() error { return update(ctx) })
					return g.Wait()
				})
			}
			return func(ctx context.Context) error { return withWorld(ctx, world, led, admit) }, nil
		},
	}.command(s)
}
