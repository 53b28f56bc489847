// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/edge/kube"
	report "podfit.dev/podfit/internal/edge/report/capacity"
)

// Config is the configuration of podfit capacity.
type Config struct {
	Kube   kube.Config
	Source string
	process.PrometheusConfig

	Pools     []string
	LeadTime  int // days; -1: that of the CapacityPlan
	Fragments bool
	For       map[string]string
	size      room.Amount // of For; Validate sets it
	Apply     bool
	MaxMoves  int
	DryRun    bool // of Apply
	Yes       bool // carry it out without a question

	Output   string
	NoColour bool
	FailOn   []string
}

// The sources of the history.
const (
	sourceAuto       = "auto"
	sourcePlan       = "plan"
	sourcePrometheus = "prometheus"
)

// The values of --fail-on.
const (
	failAbove    = "above"
	failOrder    = "order"
	failNode     = "node"
	failForecast = "forecast"
)

// choices are the values of the flags that accept one of a few words.
var choices = map[string][]string{
	"source":  {sourceAuto, sourcePlan, sourcePrometheus},
	"output":  report.Formats,
	"fail-on": {failAbove, failOrder, failNode, failForecast},
}

// Defaults returns the defaults.
func Defaults() Config {
	return Config{Kube: process.Reader("capacity"), Source: sourceAuto, LeadTime: -1, MaxMoves: 10, Output: "table"}
}

// Flags binds the configuration to flags.
func (c *Config) Flags(f *pflag.FlagSet) {
	process.ReaderFlags(f, &c.Kube)

	f.StringVar(&c.Source, "source", c.Source, "Where the history of requests is from: plan (the CapacityPlan that the recommender keeps), prometheus (kube-state-metrics), "+
		"or auto: prometheus if --prometheus or the environment variable "+process.PrometheusVariable+" is set, else plan.")
	c.PrometheusConfig.Flags(f, "kube-state-metrics")

	f.StringSliceVar(&c.Pools, "pool", c.Pools, "Name of a pool of nodes. Can be repeated. The default is all pools.")
	f.IntVar(&c.LeadTime, "lead-time", c.LeadTime, "Days from an order of nodes until they run pods, for all pools. -1 means the value of the CapacityPlan, or 14.")

	f.BoolVar(&c.Fragments, "fragments", c.Fragments, "If true, also show how the free room is divided among nodes: what no pod of a "+
		"usual size can use, the fewest moves that free a node, and what keeps a cluster autoscaler from removing nodes.")
	f.StringToStringVar(&c.For, "for", c.For, "With --fragments or --apply, the fewest moves that make room for a pod of this size, such as cpu=8,memory=32Gi.")
	f.BoolVar(&c.Apply, "apply", c.Apply, "If true, carry out the plan with the fewest moves that free a node or, with --for, make room, instead of the report: after a dry run and a question, cordon the node, "+
		"and evict its pods, each when the replacement of the one before is ready. At the first problem it stops and uncordons the node.")
	f.IntVar(&c.MaxMoves, "max-moves", c.MaxMoves, "With --apply, the maximum number of pods that are evicted.")
	f.BoolVar(&c.DryRun, "dry-run", c.DryRun, "With --apply, end after the dry run.")
	f.BoolVar(&c.Yes, "yes", c.Yes, "With --apply, do not ask.")

	f.StringVarP(&c.Output, "output", "o", c.Output, "Format: "+strings.Join(report.Formats, ", ")+".")
	f.BoolVar(&c.NoColour, "no-color", c.NoColour, "If true, use no colours. The environment variable NO_COLOR has the same effect.")
	f.StringSliceVar(&c.FailOn, "fail-on", c.FailOn, "Exit with code 4 if a pool is above a threshold (above), must be ordered for today (order), cannot lose its largest node (node), or has no forecast (forecast). Can be repeated.")
}

// Validate returns all invalid flags as one error.
func (c *Config) Validate() error {
	var errs process.Problems
	errs.AddChoice("source", c.Source, choices["source"])
	errs.AddChoice("output", c.Output, choices["output"])
	for _, f := range c.FailOn {
		errs.AddChoice("fail-on", f, choices["fail-on"])
	}
	errs.AddIf(c.LeadTime < -1 || c.LeadTime > maxLeadTime, "--lead-time must be between 0 and %d days, or -1, got %d", maxLeadTime, c.LeadTime)
	c.Fragments = c.Fragments || c.Apply
	errs.AddIf(!c.Fragments && len(c.For) > 0, "--for needs --fragments")
	errs.AddIf(!c.Apply && (c.DryRun || c.Yes), "--dry-run and --yes need --apply")
	errs.AddIf(c.Apply && (c.MaxMoves < 1 || len(c.FailOn) > 0 || c.Output != "table" && c.Output != "json"), "--apply needs --max-moves of 1 or more and --output table or json, and does not combine with --fail-on")
	for _, name := range slices.Sorted(maps.Keys(c.For)) {
		res, known := cluster.ParseResource(name)
		amount, err := cluster.ParseAmount(res, c.For[name])
		errs.AddIf(!known || err != nil || amount == 0, "--for must be a size such as cpu=8,memory=32Gi, got %s=%s", name, c.For[name])
		*cluster.Pick(res, &c.size.CPU, &c.size.Memory) = amount
	}
	errs.AddIf(c.Prometheus != "" && c.Source == sourcePlan, "--prometheus and --source plan cannot both be set")
	return errors.Join(append(errs, c.PrometheusConfig.Validate())...)
}

const maxLeadTime = 730 // days

func (c *Config) fromPrometheus() bool {
	return c.Source == sourcePrometheus || c.Source == sourceAuto && c.GivenURL() != ""
}
