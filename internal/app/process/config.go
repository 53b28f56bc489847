// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Common is the configuration that every component shares.
type Common struct {
	Kubeconfig        string
	QPS               float64 // client requests a second; negative is without limit
	Burst             float64 // client requests in one go; upstream's flag takes fractions
	Profiling         bool
	Namespace         string   // --vpa-object-namespace: only autoscalers of this namespace; "" is all
	IgnoredNamespaces []string // --ignored-vpa-object-namespaces
	Gates             Gates
	Log               LogConfig
	ReadOnly          bool // nothing is changed or stored
}

// CommonDefaults returns upstream's defaults.
func CommonDefaults() Common {
	return Common{QPS: 50, Burst: 100, Gates: Gates{}, Log: LogDefaults()}
}

// Flags binds the configuration to flags, with upstream's names.
func (c *Common) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "Path to a kubeconfig. Only required if out-of-cluster.")
	fs.Float64Var(&c.QPS, "kube-api-qps", c.QPS, "QPS limit when making requests to the Kubernetes API server. Negative means without limit.")
	fs.Float64Var(&c.Burst, "kube-api-burst", c.Burst, "Burst of requests allowed to the Kubernetes API server.")
	fs.BoolVar(&c.Profiling, "profiling", c.Profiling, "Serve /debug/pprof on --address.")
	fs.StringVar(&c.Namespace, "vpa-object-namespace", c.Namespace,
		"Only serve VerticalPodAutoscalers of this namespace. Empty means all namespaces. Excludes --ignored-vpa-object-namespaces.")
	fs.Var((*csv)(&c.IgnoredNamespaces), "ignored-vpa-object-namespaces",
		"Comma-separated namespaces whose VerticalPodAutoscalers are not served. Excludes --vpa-object-namespace.")
	fs.Var(&c.Gates, "feature-gates", "Comma-separated NAME=true|false. Known: "+strings.Join(gateNames(), ", ")+".")
	c.Log.Flags(fs)
}

// Validate says what is wrong with the configuration, naming the flag and the remedy.
func (c *Common) Validate() error {
	var errs []error
	if c.Namespace != "" && len(c.IgnoredNamespaces) > 0 {
		errs = append(errs, errors.New("--vpa-object-namespace and --ignored-vpa-object-namespaces exclude each other: give one of them"))
	}
	if math.IsNaN(c.QPS) {
		errs = append(errs, fmt.Errorf("--kube-api-qps is %v: give a rate, or a negative number for none", c.QPS))
	}
	if !(c.Burst >= 0) { // which not a number is neither
		errs = append(errs, fmt.Errorf("--kube-api-burst is %v: give 0 or more", c.Burst))
	}
	return errors.Join(errs...)
}

// Serves reports whether autoscalers of a namespace are served.
func (c *Common) Serves(namespace string) bool {
	if c.Namespace != "" {
		return namespace == c.Namespace
	}
	return !slices.Contains(c.IgnoredNamespaces, namespace)
}

// Election is the configuration of leader election.
type Election struct {
	Enabled           bool
	LeaseDuration     time.Duration
	RenewDeadline     time.Duration
	RetryPeriod       time.Duration
	ResourceLock      string
	ResourceName      string
	ResourceNamespace string
}

// ElectionDefaults returns upstream's defaults for a component whose lease has a name.
func ElectionDefaults(lease string) Election {
	return Election{
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ResourceLock: "leases", ResourceName: lease, ResourceNamespace: "kube-system",
	}
}

// Flags binds the configuration to flags, with upstream's names.
func (e *Election) Flags(fs *pflag.FlagSet) {
	fs.BoolVar(&e.Enabled, "leader-elect", e.Enabled, "Elect a leader before working, so that several replicas can run.")
	fs.DurationVar(&e.LeaseDuration, "leader-elect-lease-duration", e.LeaseDuration,
		"How long the others wait before they take over a lease that is not renewed.")
	fs.DurationVar(&e.RenewDeadline, "leader-elect-renew-deadline", e.RenewDeadline,
		"How long the leader tries to renew before it steps down. Less than the lease duration.")
	fs.DurationVar(&e.RetryPeriod, "leader-elect-retry-period", e.RetryPeriod, "Time between attempts to get or renew the lease.")
	fs.StringVar(&e.ResourceLock, "leader-elect-resource-lock", e.ResourceLock, "Kind of object that holds the lock: leases.")
	fs.StringVar(&e.ResourceName, "leader-elect-resource-name", e.ResourceName, "Name of the lease.")
	fs.StringVar(&e.ResourceNamespace, "leader-elect-resource-namespace", e.ResourceNamespace, "Namespace of the lease.")
}

// Validate says what is wrong with the configuration.
func (e *Election) Validate() error {
	if !e.Enabled {
		return nil
	}
	var errs []error
	if e.ResourceLock != "leases" {
		errs = append(errs, fmt.Errorf("--leader-elect-resource-lock is %q: only leases is supported", e.ResourceLock))
	}
	if e.LeaseDuration < time.Second { // a lease counts in whole seconds
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration must be at least 1s, got %v", e.LeaseDuration))
	}
	if e.LeaseDuration <= e.RenewDeadline {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration (%v) must be greater than --leader-elect-renew-deadline (%v)", e.LeaseDuration, e.RenewDeadline))
	}
	if e.RenewDeadline <= e.RetryPeriod {
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline (%v) must be greater than --leader-elect-retry-period (%v)", e.RenewDeadline, e.RetryPeriod))
	}
	return errors.Join(errs...)
}

// DefaultMinReplicas is how many replicas a controller must have for the updater to disrupt its pods, unless a flag says otherwise.
const DefaultMinReplicas = 2

// The feature gates, with upstream's names. All are alpha and off unless asked for.
const (
	CPUStartupBoost = "CPUStartupBoost"
	InPlaceGate     = "InPlace"
	PerVPAConfig    = "PerVPAConfig"
	allAlpha        = "AllAlpha"
	allBeta         = "AllBeta"
)

func gateNames() []string {
	return []string{allAlpha, allBeta, CPUStartupBoost, InPlaceGate, PerVPAConfig}
}

// Gates is which feature gates were set, by name.
type Gates map[string]bool

// On reports whether a gate is on: set by name, or by AllAlpha.
func (g Gates) On(name string) bool {
	if v, ok := g[name]; ok {
		return v
	}
	return g[allAlpha]
}

// Set reads "NAME=true,NAME=false".
func (g *Gates) Set(text string) error {
	if *g == nil {
		*g = Gates{}
	}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, value, ok := strings.Cut(item, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=true or NAME=false", item)
		}
		if name == "InPlaceOrRecreate" { // on for good since upstream 1.7
			if !strings.EqualFold(value, "true") {
				return errors.New("InPlaceOrRecreate can not be turned off; use the update mode of the VerticalPodAutoscaler")
			}
			continue
		}
		if !slices.Contains(gateNames(), name) {
			return fmt.Errorf("unknown feature gate %q; known are %s", name, strings.Join(gateNames(), ", "))
		}
		switch strings.ToLower(value) {
		case "true":
			(*g)[name] = true
		case "false":
			(*g)[name] = false
		default:
			return fmt.Errorf("feature gate %s is %q: give true or false", name, value)
		}
	}
	return nil
}

// String writes the gates that were set, sorted.
func (g *Gates) String() string {
	var items []string
	for name, on := range *g {
		items = append(items, fmt.Sprintf("%s=%t", name, on))
	}
	slices.Sort(items)
	return strings.Join(items, ",")
}

// Type names the flag's type in help texts.
func (g *Gates) Type() string { return "mapStringBool" }

// csv is a flag that holds a comma-separated list; an empty text is an empty list.
type csv []string

func (c *csv) Set(text string) error {
	*c = nil
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			*c = append(*c, item)
		}
	}
	return nil
}

func (c *csv) String() string { return strings.Join(*c, ",") }

// Type names the flag's type in help texts.
func (c *csv) Type() string { return "string" }

// OwnNamespace returns the namespace for a lease: the flag, else the NAMESPACE variable, else kube-system.
func OwnNamespace(flag string) string {
	if flag != "" {
		return flag
	}
	if ns := os.Getenv("NAMESPACE"); ns != "" {
		return ns
	}
	return "kube-system"
}

// Dashes lets every flag be written with underscores, as upstream does.
func Dashes(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

// deprecated are the flags that upstream has deprecated, with what to do instead.
var deprecated = []struct{ flag, remedy string }{
	{"min-checkpoints", "it has no effect; --update-worker-count says how much is written at a time"},
	{"humanize-memory", "use --round-memory-bytes instead"},
}

// warnOfDeprecated says which flags are given that upstream has deprecated, with another value than the default.
func warnOfDeprecated(log *slog.Logger, fs *pflag.FlagSet) {
	for _, d := range deprecated {
		if f := fs.Lookup(d.flag); f != nil && f.Changed && f.Value.String() != f.DefValue {
			log.Warn("This flag is deprecated", "flag", "--"+d.flag, "remedy", d.remedy)
		}
	}
}
