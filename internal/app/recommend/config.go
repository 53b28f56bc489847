// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/edge/kube"
	report "podfit.dev/podfit/internal/edge/report/review"
)

// Config is the configuration of podfit recommend.
type Config struct {
	// What is reviewed.
	Names         []string // KIND/NAME
	Namespaces    []string // names or globs
	Excluded      []string // likewise, of namespaces that are left out
	AllNamespaces bool
	Selector      string
	Kinds         []string
	Kube          kube.Config

	// Where usage is from.
	Source string
	Trace  string
	process.PrometheusConfig
	Params  []string // "name=value"
	History string
	For     time.Duration

	// How requests are determined.
	Profiles []string
	Limits   string
	HPA      string

	// Money.
	Prices   string // path
	OpenCost string
	NoMoney  bool

	// What is shown.
	Output    string
	GroupBy   string
	Sort      string
	Top       int
	MinSaving float64
	NoColour  bool

	IncludeYoung bool

	// Load on Prometheus.
	Load    string
	NoCache bool
	Quiet   bool

	// When the command fails in CI.
	FailOn     string
	FailSaving float64
}

// The sources of usage.
const (
	sourceAuto       = "auto"
	sourceCluster    = "cluster"
	sourcePrometheus = "prometheus"
	sourceMetrics    = "metrics"
	sourceTrace      = "trace"
)

// The values of --hpa.
const (
	hpaKeep       = "keep"
	hpaScalePoint = "scale-point"
	hpaIgnore     = "ignore"
)

// choices are the values of the flags that accept one of a few words.
var choices = map[string][]string{
	"source":  {sourceAuto, sourceCluster, sourcePrometheus, sourceMetrics, sourceTrace},
	"limits":  review.LimitRules(),
	"hpa":     {hpaKeep, hpaScalePoint, hpaIgnore},
	"sort":    {report.SortRisk, report.SortMoney, report.SortName},
	"load":    {"gentle", "normal"},
	"fail-on": {"risk", "waste"},
	"output":  report.Formats(),
}

// defaultProfile sizes workloads without a VPA if --profile is not set.
const defaultProfile = "balanced"

// Defaults returns the defaults.
func Defaults() Config {
	return Config{
		Kube: process.Reader("recommend"), Source: sourceAuto, History: "14d", For: 15 * time.Minute, Limits: "keep", HPA: hpaKeep,
		Output: "table", GroupBy: "workload", Sort: report.SortRisk, Top: 30, Load: "gentle",
	}
}

// Flags binds the configuration to flags.
func (c *Config) Flags(f *pflag.FlagSet) {
	f.StringSliceVarP(&c.Namespaces, "namespace", "n", c.Namespaces, "Namespace, or a pattern such as 'team-*'. Can be repeated. The default is all namespaces.")
	f.StringSliceVar(&c.Excluded, "exclude-namespaces", c.Excluded, "Namespace that is left out, or a pattern such as 'kube-*'. Can be repeated.")
	f.BoolVarP(&c.AllNamespaces, "all-namespaces", "A", c.AllNamespaces, "If true, review all namespaces, which is the default.")
	f.StringVarP(&c.Selector, "selector", "l", c.Selector, "Selector of pods by labels, as in kubectl.")
	f.StringSliceVar(&c.Kinds, "kind", c.Kinds, "Kind of workload, such as Deployment. Can be repeated. The default is all kinds.")
	process.ReaderFlags(f, &c.Kube)

	f.StringVar(&c.Source, "source", c.Source, "Where usage is from: cluster (VPA objects, their checkpoints and usage histories), prometheus, metrics (the Metrics API, read for the time of --for), trace (--trace), "+
		"or auto: trace or prometheus if their flag is set, else cluster if there are VPAs, else metrics.")
	f.StringVar(&c.Trace, "trace", c.Trace, "Path of a trace (*.csv or *.csv.gz), or of a folder that contains traces, as for podfit backtest.")
	c.PrometheusConfig.Flags(f, "containers")
	f.StringArrayVar(&c.Params, "prometheus-param", c.Params, "Parameter of each query to Prometheus, such as dedup=false or max_source_resolution=5m of Thanos, or extra_label=cluster=prod of VictoriaMetrics. Can be repeated.")
	f.StringVar(&c.History, "history", c.History, "Length of the usage history that is read from Prometheus.")
	f.DurationVar(&c.For, "for", c.For, "With --source metrics: how long usage is read. All numbers are provisional, and no request is lowered. On a terminal, the table is shown after each reading. At least 2m.")

	f.StringSliceVar(&c.Profiles, "profile", c.Profiles, "Sizing profile. Can be repeated: the first one determines the report, -o wide and json also have the others. "+
		"The default is the profile of the VPA, and "+defaultProfile+" for workloads without a VPA.")
	f.StringVar(&c.Limits, "limits", c.Limits, "What happens to limits: keep, proportional (in proportion to requests), none (removed), or memory-only (CPU limits are removed). A limit that would be below its request rises in proportion.")
	f.StringVar(&c.HPA, "hpa", c.HPA, "What to do with requests by which a HorizontalPodAutoscaler scales: keep (do not change them), scale-point (change them, and show the new target of the HPA), or ignore.")

	f.StringVar(&c.Prices, "prices", c.Prices, "Path of a YAML file with prices of nodes.")
	f.StringVar(&c.OpenCost, "opencost", c.OpenCost, "URL of a Prometheus with OpenCost's metrics node_cpu_hourly_cost and node_ram_hourly_cost. The default is --prometheus.")
	f.BoolVar(&c.NoMoney, "no-money", c.NoMoney, "If true, show no prices.")

	f.StringVarP(&c.Output, "output", "o", c.Output, "Format: "+strings.Join(report.Formats(), ", ")+".")
	f.StringVar(&c.GroupBy, "group-by", c.GroupBy, "Totals by namespace, pool (of nodes) or label=NAME (of pods), or workload: one row for each container.")
	f.StringVar(&c.Sort, "sort", c.Sort, "Order: risk (a list of risks and a list of waste), money, or name (also containers without a recommendation).")
	f.IntVar(&c.Top, "top", c.Top, "Number of rows in each list of the formats for people. 0 means all.")
	f.Float64Var(&c.MinSaving, "min-saving", c.MinSaving, "Show waste only from this amount of money in a month.")
	f.BoolVar(&c.IncludeYoung, "include-young", c.IncludeYoung, "If true, totals and manifests include recommendations from less than 6 hours of usage. They are always shown, marked young.")
	f.BoolVar(&c.NoColour, "no-color", c.NoColour, "If true, use no colours. The environment variable NO_COLOR has the same effect.")

	f.StringVar(&c.Load, "load", c.Load, "Load on Prometheus: gentle (one query at a time) or normal (two).")
	f.BoolVar(&c.NoCache, "no-cache", c.NoCache, "If true, neither read nor store the usage of past days in the user's cache folder.")
	f.BoolVar(&c.Quiet, "quiet", c.Quiet, "If true, show no progress.")

	f.StringVar(&c.FailOn, "fail-on", c.FailOn, "Exit with code 4 if a container has a high severity: risk or waste.")
	f.Float64Var(&c.FailSaving, "fail-saving", c.FailSaving, "Exit with code 4 if this amount of money or more could be saved in a month.")
}

// Validate returns all invalid flags as one error.
func (c *Config) Validate() error {
	var errs process.Problems
	c.validateChoices(&errs)
	c.validateScope(&errs)
	c.validateSource(&errs)
	errs = append(errs, c.validateProfiles())
	c.validateMoney(&errs)
	return errors.Join(errs...)
}

func (c *Config) validateChoices(errs *process.Problems) {
	for _, x := range [...]struct{ flag, value string }{
		{"source", c.Source}, {"limits", c.Limits}, {"hpa", c.HPA}, {"output", c.Output}, {"sort", c.Sort}, {"load", c.Load}, {"fail-on", c.FailOn},
	} {
		if x.flag != "fail-on" || x.value != "" {
			errs.AddChoice(x.flag, x.value, choices[x.flag])
		}
	}
	g := c.GroupBy
	errs.AddIf(g != "workload" && g != "namespace" && g != "pool" && (!strings.HasPrefix(g, "label=") || g == "label="), "--group-by must be workload, namespace, pool or label=NAME, got %q", g)
	errs.AddIf(c.Top < 0, "--top must be at least 0, got %d; 0 means all", c.Top)
}

func (c *Config) validateScope(errs *process.Problems) {
	errs.AddIf(c.AllNamespaces && len(c.Namespaces) > 0, "--all-namespaces and --namespace cannot both be set")
	*errs = append(*errs, process.CheckNamespaces("namespace", c.Namespaces)...)
	*errs = append(*errs, process.CheckNamespaces("exclude-namespaces", c.Excluded)...)
	_, err := labels.Parse(c.Selector)
	errs.AddIf(err != nil, "--selector must be a selector such as app=web,tier!=db, got %q", c.Selector)
	for _, name := range c.Names {
		kind, rest, ok := strings.Cut(name, "/")
		errs.AddIf(!ok || kind == "" || rest == "" || strings.Contains(rest, "/"), "a workload must be KIND/NAME, such as deploy/cart, got %q", name)
	}
}

// ownParams are the parameters of a query that podfit sets.
var ownParams = map[string]bool{"query": true, "time": true, "start": true, "end": true, "step": true, "timeout": true}

func (c *Config) validateSource(errs *process.Problems) {
	const shortest = 2 * time.Minute // time for which the Metrics API is read: two readings
	errs.AddIf(c.Source == sourceTrace && c.Trace == "", "--source trace requires --trace")
	errs.AddIf(c.Trace != "" && c.Source != sourceTrace && c.Source != sourceAuto, "--trace and --source %s cannot both be set", c.Source)
	errs.AddIf(c.Prometheus != "" && (c.Source == sourceTrace || c.Source == sourceAuto && c.Trace != ""), "--trace and --prometheus cannot both be set")
	errs.AddIf(c.OpenCost != "" && !process.IsURL(c.OpenCost), "--opencost must be a URL such as http://localhost:9090, got %q", c.OpenCost)
	*errs = append(*errs, c.PrometheusConfig.Validate())
	history, err := model.ParseDuration(c.History)
	errs.AddIf(err != nil || history <= 0, "--history must be a duration such as 12h or 14d, got %q", c.History)
	errs.AddIf(c.For < shortest, "--for must be at least %v, because one reading of usage is no basis for a recommendation; got %v", shortest, c.For)
	for _, p := range c.Params {
		name, _, ok := strings.Cut(p, "=")
		errs.AddIf(!ok || name == "", "--prometheus-param must be NAME=VALUE such as dedup=false, got %q", p)
		errs.AddIf(ok && ownParams[name], "--prometheus-param cannot set %s, which podfit sets for each query", name)
	}
	if u, err := url.Parse(c.Prometheus); err == nil {
		errs.AddIf(u.RawQuery != "", "--prometheus must be a URL without parameters, got ?%s; set them with --prometheus-param", u.RawQuery)
	}
}

func (c *Config) validateProfiles() error {
	for i, n := range c.Profiles {
		if n == "" {
			return errors.New("--profile must not be empty")
		}
		if slices.Contains(c.Profiles[:i], n) {
			return fmt.Errorf("--profile lists %s twice", n)
		}
		_, builtin := recommend.Builtin(n)
		if !builtin && c.source() == sourceTrace {
			return fmt.Errorf("--profile: there is no profile %q; use one of %s", n, strings.Join(builtinNames(), ", "))
		}
	}
	return nil
}

func (c *Config) validateMoney(errs *process.Problems) {
	for _, x := range [...]struct {
		flag  string
		value float64
	}{{"min-saving", c.MinSaving}, {"fail-saving", c.FailSaving}} {
		errs.AddIf(!(x.value >= 0) || math.IsInf(x.value, 1), "--%s must be an amount of money of at least 0, got %v", x.flag, x.value)
	}
	errs.AddIf(c.NoMoney && (c.Prices != "" || c.OpenCost != "" || c.FailSaving > 0 || c.MinSaving > 0), "--no-money excludes --prices, --opencost, --min-saving and --fail-saving")
	errs.AddIf(c.Prices != "" && c.OpenCost != "", "--prices and --opencost cannot both be set")
}

// source returns the source of usage, or auto if it depends on the cluster.
func (c *Config) source() string {
	switch {
	case c.Source != sourceAuto:
		return c.Source
	case c.Trace != "":
		return sourceTrace
	case c.Prometheus != "":
		return sourcePrometheus
	}
	return sourceAuto
}

func builtinNames() []string {
	return cluster.Each(recommend.Builtins(), func(p *recommend.Profile) string { return p.Name })
}
