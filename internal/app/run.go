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

// runConfig is the configuration of "podfit run": all three components in one process. Shared flags exist once.
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

// Flags binds the flags of the three components. A flag that several components have applies to all of them.
func (c *runConfig) Flags(fs *pflag.FlagSet) {
	c.Common.Flags(fs)
	c.Election.Flags(fs)
	c.Recommender.own(fs)
	c.Updater.own(fs)
	c.Admission.own(fs)
	fs.StringVar(&c.Address, "address", c.Address, "Address of /metrics and /health-check.")
}

// Validate returns an error for each invalid flag, with the flag's name and the values it accepts.
func (c *runConfig) Validate() error {
	return errors.Join(c.Common.Validate(), c.Election.Validate(),
		c.Recommender.validateOwn(), c.Updater.validateOwn(), c.Admission.validateOwn())
}

// share copies the shared flags to the three components. In a dry run, leader election and webhook registration are disabled,
// and the updater does not wait for the webhook's status lease, because the webhook of this process does not renew it.
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
		use: "run", short: "Run all three components in one process",
		long: `Runs the recommender, the updater and the admission controller in one process with shared watches. It accepts the
flags of all three. With --leader-elect, several replicas can run: all of them serve the webhook, and only the leader
recommends and updates.

With --dry-run, podfit logs the changes that it would make and changes nothing in the cluster. Use it to try podfit from
your own machine. To size new pods from your machine, the API server must be able to reach this process: use
--register-by-url --webhook-address=ADDRESS.`,
		config: &c, common: func() *Common { return &c.Common }, address: func() string { return c.Address },
		prepare: func(p *process) (func(context.Context) error, error) {
			c.share()
			clients, err := c.Common.connect(p.log, "run")
			if err != nil {
				return nil, err
			}
			world := kube.NewWorld(clients, c.Common.watched(kube.Options{
				Pods: kube.AllPods, Evictions: true, Nodes: true, Limits: true, Log: p.log,
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
