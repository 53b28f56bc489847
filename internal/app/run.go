// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/app/admission"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender"
	"podfit.dev/podfit/internal/app/updater"
	"podfit.dev/podfit/internal/edge/kube"
)

// runConfig is the configuration of all three jobs in one process. What they share is said once.
type runConfig struct {
	process.Common
	Election    process.Election
	Address     string
	Recommender recommender.Config
	Updater     updater.Config
	Admission   admission.Config
}

func runDefaults() runConfig {
	return runConfig{
		Common: process.CommonDefaults(), Election: process.ElectionDefaults("podfit"), Address: ":8942",
		Recommender: recommender.Defaults(), Updater: updater.Defaults(), Admission: admission.Defaults(),
	}
}

// Flags binds every flag of the three components; those that several of them have stand for all.
func (c *runConfig) Flags(fs *pflag.FlagSet) {
	c.Common.Flags(fs)
	c.Election.Flags(fs)
	c.Recommender.OwnFlags(fs)
	c.Updater.OwnFlags(fs)
	c.Admission.OwnFlags(fs)
	fs.StringVar(&c.Address, "address", c.Address, "Address of /metrics and /health-check.")
}

// Validate says what is wrong with the configuration, naming the flag and the remedy.
func (c *runConfig) Validate() error {
	return errors.Join(c.Common.Validate(), c.Election.Validate(),
		c.Recommender.ValidateOwn(), c.Updater.ValidateOwn(), c.Admission.ValidateOwn())
}

// share gives the three jobs what was said once. In a dry run none takes a lease from those who work, and the updater does
// not wait for a sign of life of the webhook: this process would be it.
func (c *runConfig) share() {
	c.ReadOnly = c.Updater.DryRun
	if c.ReadOnly {
		c.Election.Enabled, c.Updater.UseStatus, c.Admission.Register = false, false, false
	}
	for _, common := range []*process.Common{&c.Recommender.Common, &c.Updater.Common, &c.Admission.Common} {
		*common = c.Common
	}
	if c.Updater.StatusNamespace == "" {
		c.Updater.StatusNamespace = c.Admission.StatusNamespace
	}
	c.Admission.NoProfiles = c.Recommender.NameGiven()
}

func newRunCommand(s Streams) *cobra.Command {
	c := runDefaults()
	return process.LongRunning{
		Use: "run", Short: "Do all three jobs in one process",
		Long: `Runs recommender, updater and admission controller in one process that watches the cluster once. It takes every flag of
the three. With --leader-elect several replicas can run: all of them serve admission, the leader recommends and updates.

With --dry-run it says what it would do and changes nothing in the cluster: it only reads. That is how to look from your own
machine. To size new pods from there, the API server must reach this process: --register-by-url --webhook-address=ADDRESS.`,
		Config: &c, Common: func() *process.Common { return &c.Common }, Address: func() string { return c.Address },
		Prepare: func(p *process.Process) (func(context.Context) error, error) {
			c.share()
			clients, err := c.Common.Connect(p.Log, "run")
			if err != nil {
				return nil, err
			}
			world := kube.NewWorld(clients, c.Common.Watched(kube.Options{
				Pods: kube.AllPods, Evictions: true, Nodes: true, Limits: true, Log: p.Log,
			}))
			p.Registry.MustRegister(process.NewWatchMetrics(world))
			recommend, err := recommender.Work(&c.Recommender, p, clients, world)
			if err != nil {
				return nil, err
			}
			update := updater.Work(&c.Updater, p, clients, world)
			admit, err := admission.Work(&c.Admission, p, clients, world)
			if err != nil {
				return nil, err
			}
			led := func(ctx context.Context) error {
				return process.Lead(ctx, p, c.Election, clients.Leases, func(ctx context.Context) error {
					g, ctx := errgroup.WithContext(ctx)
					g.Go(func() error { return recommend(ctx) })
					g.Go(func() error { return update(ctx) })
					return g.Wait()
				})
			}
			return func(ctx context.Context) error { return process.WithWorld(ctx, world, led, admit) }, nil
		},
	}.Command(s)
}
