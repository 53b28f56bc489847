// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/compatibility"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// Common is the configuration that every component shares.
type Common struct {
	kube.Config       // with ReadOnly, it is a dry run
	Compatibility     compatibility.Mode
	Profiling         bool
	Namespace         string   // --vpa-object-namespace: serve only VPAs of this namespace; "" means all
	AllNamespaces     bool     // --all-namespaces: excludes Namespace; has no other effect
	IgnoredNamespaces []string // --ignored-vpa-object-namespaces
	HPA               string   // HPALeave or HPAIgnore
	OwnConditions     bool     // VPAs get the conditions that upstream does not have
	SizeSidecars      bool     // sidecars (init containers with restartPolicy Always) are sized
	SizePodLevel      bool     // pod-level resources follow the containers, also down
	NodeFit           NodeFit
	Gates             Gates
	Log               LogConfig
}

// The values of --hpa.
const (
	HPALeave  = "leave"
	HPAIgnore = "ignore" // upstream's behaviour
)

// CommonDefaults returns upstream's defaults.
func CommonDefaults() Common {
	return Common{
		Config: kube.Config{QPS: 50, Burst: 100}, Compatibility: compatibility.Podfit, HPA: HPALeave, OwnConditions: true,
		SizeSidecars: true, SizePodLevel: true, NodeFit: NodeFit{Scale: true}, Gates: Gates{}, Log: LogDefaults(),
	}
}

// Flags binds the configuration to flags, with upstream's names.
func (c *Common) Flags(fs *pflag.FlagSet) {
	c.Compatibility.Bind(fs)
	ReaderFlags(fs, &c.Config)
	fs.Float64Var(&c.QPS, "kube-api-qps", c.QPS, "Maximum number of requests per second to the API server. Negative means no limit.")
	fs.Float64Var(&c.Burst, "kube-api-burst", c.Burst, "Burst of requests to the API server that --kube-api-qps allows. At least 0.")
	fs.BoolVar(&c.Profiling, "profiling", c.Profiling, "If true, serve /debug/pprof on --address.")
	fs.StringVar(&c.Namespace, "vpa-object-namespace", c.Namespace,
		"Serve only VPAs in this namespace. Empty means all namespaces. Excludes --ignored-vpa-object-namespaces.")
	fs.StringVarP(&c.Namespace, "namespace", "n", c.Namespace, "Serve only VPAs in this namespace. Same as --vpa-object-namespace.")
	fs.BoolVarP(&c.AllNamespaces, "all-namespaces", "A", c.AllNamespaces, "If true, serve the VPAs of all namespaces. This is the default. Excludes --namespace.")
	fs.Var((*csv)(&c.IgnoredNamespaces), "ignored-vpa-object-namespaces",
		"Comma-separated list of namespaces whose VPAs are not served. Excludes --vpa-object-namespace.")
	fs.StringVar(&c.HPA, "hpa", c.HPA, "What to do with requests by which a HorizontalPodAutoscaler scales the same workload: "+
		"leave (do not change them, unless the VPA has the annotation podfit.dev/hpa) or ignore (change them like other requests).")
	fs.BoolVar(&c.SizeSidecars, "size-sidecars", c.SizeSidecars, "If true, native sidecars (init containers with restartPolicy Always) are measured and sized like other containers, and other init containers by run. "+
		"All components need the same value.")
	fs.BoolVar(&c.SizePodLevel, "size-pod-level", c.SizePodLevel, "If true, pod-level requests and limits (spec.resources) follow those of the containers. "+
		"If false, they only grow, and only as far as the API server requires for the containers. All components need the same value.")
	fs.BoolVar(&c.OwnConditions, "own-conditions", c.OwnConditions, "If true, report findings on VPAs as conditions that upstream does not have. If false, remove them. All components need the same value.")
	c.NodeFit.Flags(fs)
	fs.Var(&c.Gates, "feature-gates", "Comma-separated list of NAME=true|false. Known gates: "+strings.Join(gateNames(), ", ")+".")
	c.Log.Flags(fs)
}

// Validate returns an error for each invalid flag, with the flag's name and the values it accepts.
func (c *Common) Validate() error {
	var errs Problems
	errs.AddIf(c.Namespace != "" && len(c.IgnoredNamespaces) > 0, "--vpa-object-namespace and --ignored-vpa-object-namespaces cannot both be set")
	errs.AddIf(c.Namespace != "" && c.AllNamespaces, "--namespace and --all-namespaces cannot both be set")
	errs.AddIf(c.HPA != HPALeave && c.HPA != HPAIgnore, "--hpa must be %s or %s, got %q", HPALeave, HPAIgnore, c.HPA)
	errs.AddIf(math.IsNaN(c.QPS), "--kube-api-qps must be a number, got %v", c.QPS)
	errs.AddIf(!(c.Burst >= 0), "--kube-api-burst must be at least 0, got %v", c.Burst) // also true for NaN
	errs = append(errs, c.Compatibility.Validate(), c.NodeFit.Validate())
	return errors.Join(errs...)
}

// Serves reports whether VPAs of a namespace are served.
func (c *Common) Serves(namespace string) bool {
	if c.Namespace != "" {
		return namespace == c.Namespace
	}
	return !slices.Contains(c.IgnoredNamespaces, namespace)
}

// WatchesAllPods reports whether the pods of all namespaces are watched, so that the free room on nodes is known.
func (c *Common) WatchesAllPods() bool {
	return c.Namespace == "" && !slices.ContainsFunc(c.IgnoredNamespaces, func(ns string) bool { return strings.TrimSpace(ns) != "" })
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

// ElectionDefaults returns upstream's defaults for a component with the given lease name.
func ElectionDefaults(lease string) Election {
	return Election{
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ResourceLock: "leases", ResourceName: lease, ResourceNamespace: "kube-system",
	}
}

// Flags binds the configuration to flags, with upstream's names.
func (e *Election) Flags(fs *pflag.FlagSet) {
	fs.BoolVar(&e.Enabled, "leader-elect", e.Enabled, "If true, use leader election. Required if several replicas run.")
	fs.DurationVar(&e.LeaseDuration, "leader-elect-lease-duration", e.LeaseDuration,
		"Time after the last renewal of the lease at which another replica may take it over. At least 1s, and greater than --leader-elect-renew-deadline.")
	fs.DurationVar(&e.RenewDeadline, "leader-elect-renew-deadline", e.RenewDeadline,
		"Time for which the leader tries to renew the lease before it stops leading. Greater than --leader-elect-retry-period.")
	fs.DurationVar(&e.RetryPeriod, "leader-elect-retry-period", e.RetryPeriod, "Time between two attempts to acquire or renew the lease.")
	fs.StringVar(&e.ResourceLock, "leader-elect-resource-lock", e.ResourceLock, "Type of the lock object. Only leases is supported.")
	fs.StringVar(&e.ResourceName, "leader-elect-resource-name", e.ResourceName, "Name of the lease for leader election.")
	fs.StringVar(&e.ResourceNamespace, "leader-elect-resource-namespace", e.ResourceNamespace, "Namespace of the lease for leader election.")
}

// Validate returns an error for each invalid flag, with the flag's name and the values it accepts.
func (e *Election) Validate() error {
	if !e.Enabled {
		return nil
	}
	var errs Problems
	errs.AddIf(e.ResourceLock != "leases", "--leader-elect-resource-lock must be leases, got %q", e.ResourceLock)
	errs.AddIf(e.LeaseDuration < time.Second, "--leader-elect-lease-duration must be at least 1s, got %v", e.LeaseDuration) // a lease stores its duration in whole seconds
	errs.AddIf(e.LeaseDuration <= e.RenewDeadline, "--leader-elect-lease-duration (%v) must be greater than --leader-elect-renew-deadline (%v)", e.LeaseDuration, e.RenewDeadline)
	errs.AddIf(e.RenewDeadline <= e.RetryPeriod, "--leader-elect-renew-deadline (%v) must be greater than --leader-elect-retry-period (%v)", e.RenewDeadline, e.RetryPeriod)
	return errors.Join(errs...)
}

// DefaultMinReplicas is the default minimum number of replicas of a workload whose pods the updater evicts.
const DefaultMinReplicas = 2

// The feature gates, with upstream's names. All are alpha and disabled by default.
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

// Gates holds the feature gates that were set, by name.
type Gates map[string]bool

// On reports whether a gate is enabled, by its own name or by AllAlpha.
func (g Gates) On(name string) bool {
	if v, ok := g[name]; ok {
		return v
	}
	return g[allAlpha]
}

// Set parses "NAME=true,NAME=false".
func (g *Gates) Set(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, value, ok := strings.Cut(item, "=")
		if !ok {
			return fmt.Errorf("feature gate must be NAME=true or NAME=false, got %q", item)
		}
		if name == "InPlaceOrRecreate" { // always enabled since upstream 1.7
			if !strings.EqualFold(value, "true") {
				return errors.New("feature gate InPlaceOrRecreate cannot be disabled; set updateMode in the VPA instead")
			}
			continue
		}
		if !slices.Contains(gateNames(), name) {
			return fmt.Errorf("unknown feature gate %q; known gates are %s", name, strings.Join(gateNames(), ", "))
		}
		on := strings.EqualFold(value, "true")
		if !on && !strings.EqualFold(value, "false") {
			return fmt.Errorf("feature gate %s must be true or false, got %q", name, value)
		}
		cluster.Put(g, name, on)
	}
	return nil
}

// String returns the gates that were set, sorted by name.
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

// csv is a flag value that holds a comma-separated list. The empty string is the empty list.
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

// OwnNamespace returns the namespace for a lease: the flag, or the environment variable NAMESPACE, or kube-system.
func OwnNamespace(flag string) string {
	return cmp.Or(flag, os.Getenv("NAMESPACE"), "kube-system")
}

// Dashes allows underscores instead of dashes in the names of flags, as upstream does.
func Dashes(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

// deprecated lists the flags that upstream has deprecated, with their replacement.
var deprecated = []struct{ flag, remedy string }{
	{"min-checkpoints", "the flag has no effect; --update-worker-count sets the number of concurrent writes"},
	{"humanize-memory", "use --round-memory-bytes instead"},
}

// warnOfDeprecated logs a warning for each deprecated flag that is set to a value other than its default.
func warnOfDeprecated(log *slog.Logger, fs *pflag.FlagSet) {
	for _, d := range deprecated {
		if f := fs.Lookup(d.flag); f != nil && f.Changed && f.Value.String() != f.DefValue {
			log.Warn("Flag is deprecated", slog.String("flag", "--"+d.flag), slog.String("remedy", d.remedy))
		}
	}
}

// NodeFit is the configuration of what happens with pods whose recommendation fits on no node.
type NodeFit struct {
	Scale                  bool     // --fit-nodes
	MaxNodeCPU, MaxNodeMem Quantity // allocatable amounts of the largest node that can be added
}

// Flags binds the configuration to flags.
func (n *NodeFit) Flags(fs *pflag.FlagSet) {
	fs.BoolVar(&n.Scale, "fit-nodes", n.Scale, "If true, scale a pod down whose recommendation fits on no node, or exceeds a ResourceQuota even if no other pod uses it: "+
		"its containers in proportion, none below its lower bound. If false, apply the recommendation, as upstream does. All components need the same value.")
	fs.Var(&n.MaxNodeCPU, "max-node-cpu", "Allocatable CPU of the largest node that can be added to the cluster. Empty means that the existing nodes count, "+
		"or no maximum if --max-node-memory is set. All components need the same value.")
	fs.Var(&n.MaxNodeMem, "max-node-memory", "Allocatable memory of the largest node that can be added to the cluster. Empty means that the existing nodes count, "+
		"or no maximum if --max-node-cpu is set. All components need the same value.")
}

// Validate returns an error for each invalid flag, with the flag's name and the values it accepts.
func (n *NodeFit) Validate() error {
	var errs Problems
	errs.AddIf(n.MaxNodeCPU.Given && n.MaxNodeCPU.Sign() <= 0, "--max-node-cpu must be greater than 0, got %s", &n.MaxNodeCPU)
	errs.AddIf(n.MaxNodeMem.Given && n.MaxNodeMem.Sign() <= 0, "--max-node-memory must be greater than 0, got %s", &n.MaxNodeMem)
	return errors.Join(errs...)
}

// Options returns the options of watcher.Fleet. An amount that is not given is 0.
func (n *NodeFit) Options() watcher.FleetOptions {
	return watcher.FleetOptions{Scale: n.Scale, MaxCPU: n.MaxNodeCPU.MilliValue(), MaxMemory: n.MaxNodeMem.Value()}
}
