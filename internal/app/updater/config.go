// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/nodeusage"
	"podfit.dev/podfit/internal/app/updater/throttling"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/rescue"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/core/surge"
	"podfit.dev/podfit/internal/edge/kube/capacity"
	"podfit.dev/podfit/internal/edge/prom"
)

// Config is the updater's configuration.
type Config struct {
	process.Common
	Election process.Election

	Budget plan.Budget // the values that flags set directly; see Config.budget for the others

	Interval          time.Duration
	RateLimit         float64 // evictions per second; 0 or less means no limit
	RateBurst         int
	UseStatus         bool // update pods only while the status lease of the admission controller is valid
	StatusName        string
	StatusNamespace   string
	StatusTimeout     time.Duration
	Address           string
	BoostSyncs        int     // number of startup boosts that are removed concurrently
	FreezeConfigMap   string  // name of the ConfigMap that freezes the cluster; "" if there is none
	OOMRescue         string  // off, evict or delete
	MakeRoom          string  // what is done to make room for resizes on full nodes
	ResizePreemption  string  // whether the scheduler preempts pods for deferred resizes
	Mover             string  // how pods are replaced: evict, room or surge
	NodeGuard         bool    // move pods from nodes that are nearly out of memory
	NodeGuardPressure float64 // percent of a minute: memory pressure from which a node counts as such; 0: pressure is not read
	KubeletInsecure   bool    // trust any certificate of kubelets
	Rules             string  // rulesPodfit or rulesUpstream
	EarlyPasses       bool    // run a pass before the end of the interval when pods wait for a change
	UpdatingCondition bool    // write the condition Updating of VPAs
	DryRun            bool

	CapacityBeforeEviction string // off or ask
	PlaceholderImage       string // what placeholder pods run
	ProvisioningClass      string // class name of the ProvisioningRequests to create

	Prometheus PrometheusConfig

	// Recommends reports whether the recommender of this process serves an autoscaler. nil: podfit's recommender serves those that name no
	// recommender or a profile.
	Recommends func(*cluster.Autoscaler) bool

	Tables io.Writer // where a dry run writes tables; nil: nowhere

	Journal func(now time.Time, decisions []decision.Decision) // gets the decisions of each pass after they were carried out; nil: none does
}

// The values of --updater-rules.
const (
	rulesPodfit   = "podfit"
	rulesUpstream = "upstream"
)

// The values of --oom-rescue.
const (
	rescueOff    = "off"
	rescueEvict  = "evict"
	rescueDelete = "delete"
)

var rescueModes = map[string]rescue.Mode{
	rescueOff: rescue.Off, rescueEvict: rescue.ByEviction, rescueDelete: rescue.ByDeletion,
}

// Defaults returns upstream's defaults.
func Defaults() Config {
	c := Config{
		Common: process.CommonDefaults(), Election: process.ElectionDefaults("vpa-updater"), Budget: plan.DefaultBudget(),
		Interval: time.Minute, RateLimit: -1, RateBurst: 1, UseStatus: true, StatusName: "vpa-admission-controller", StatusTimeout: time.Minute,
		Address: ":8943", BoostSyncs: 1, FreezeConfigMap: "podfit-freeze", OOMRescue: rescueDelete, MakeRoom: room.Split.String(), ResizePreemption: preemptionAuto,
		Mover: string(surge.ForRoom), NodeGuard: true, NodeGuardPressure: 10, Rules: rulesPodfit, EarlyPasses: true, UpdatingCondition: true,

		CapacityBeforeEviction: capacityAsk, PlaceholderImage: "registry.k8s.io/pause:3.10.1", ProvisioningClass: capacity.ProvisioningClass,
		Prometheus: PrometheusConfig{prom.Config{NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container"}}, // as in the kubelet's cAdvisor
	}
	c.Budget.StatefulSetPause = 10 * time.Second
	return c
}

// Flags binds the configuration to flags, with upstream's names.
func (c *Config) Flags(fs *pflag.FlagSet) {
	c.Common.Flags(fs)
	c.Election.Flags(fs)
	c.OwnFlags(fs)
	c.Prometheus.flags(fs)
	fs.StringVar(&c.Address, "address", c.Address, "Address on which /metrics and /health-check are served.")
	fs.BoolVar(&c.KubeletInsecure, "kubelet-insecure-tls", c.KubeletInsecure, "If true, do not verify the serving certificates of kubelets (--kubelet-usage, --node-guard-pressure). Otherwise the authority of the cluster must have signed them.")
}

// OwnFlags binds the flags that only the updater has.
func (c *Config) OwnFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&c.Interval, "updater-interval", c.Interval, "Time between two updater passes. A pass compares running pods with their recommendations.")
	fs.IntVar(&c.Budget.MinReplicas, "min-replicas", c.Budget.MinReplicas, "Minimum number of replicas that a controller must have before its pods are evicted. At least 0.")
	fs.Float64Var(&c.Budget.Tolerance, "eviction-tolerance", c.Budget.Tolerance, "Fraction of a controller's replicas that may be disrupted at the same time. Between 0 and 1.")
	fs.Float64Var(&c.RateLimit, "eviction-rate-limit", c.RateLimit, "Maximum number of evictions per second. 0 or less means no limit.")
	fs.IntVar(&c.RateBurst, "eviction-rate-burst", c.RateBurst, "Burst of evictions that --eviction-rate-limit allows. At least 1 if there is a limit.")
	fs.Float64Var(&c.Budget.Threshold, "pod-update-threshold", c.Budget.Threshold, "Relative change of requests from which a pod that is within its bounds is updated. 0.1 is 10 %. At least 0.")
	fs.DurationVar(&c.Budget.Lifetime, "in-recommendation-bounds-eviction-lifetime-threshold", c.Budget.Lifetime, "Minimum age of a pod that is within its bounds before it is updated.")
	fs.DurationVar(&c.Budget.QuickOOM, "evict-after-oom-threshold", c.Budget.QuickOOM, "A pod is updated immediately if one of its containers was OOM-killed within this time after its start.")
	fs.BoolVar(&c.Budget.SkipInPlace, "in-place-skip-disruption-budget", c.Budget.SkipInPlace, "If true, resize in place regardless of the disruption budget if the resize restarts no container.")
	fs.BoolVar(&c.UseStatus, "use-admission-controller-status", c.UseStatus, "If true, update pods only while the admission controller renews its status lease.")
	fs.StringVar(&c.StatusName, "admission-controller-status-lease-name", c.StatusName, "Name of the admission controller's status lease.")
	fs.StringVar(&c.StatusNamespace, "admission-controller-status-lease-namespace", c.StatusNamespace, "Namespace of the admission controller's status lease. Empty means the environment variable NAMESPACE, or kube-system if that is unset.")
	fs.DurationVar(&c.StatusTimeout, "admission-controller-status-lease-timeout", c.StatusTimeout, "Maximum age of the last renewal of the admission controller's status lease. The updater changes no pods if the lease is older.")
	fs.IntVar(&c.BoostSyncs, "concurrent-cpu-startup-boost-syncs", c.BoostSyncs, "Number of pods whose CPU startup boost is removed concurrently. At least 1.")
	fs.BoolVar(&c.Budget.MustFit, "replacement-must-fit", c.Budget.MustFit, "If true, do not evict a pod if its replacement fits on no existing node. "+
		"Set to false in clusters that add nodes on demand.")
	fs.Float64Var(&c.Budget.NamespaceShare, "max-change-per-hour-namespace", c.Budget.NamespaceShare, "Maximum share of the requests of a namespace that is changed in an hour, counted by the requests of changed pods. "+
		"Above 0, at most 1. 1 means no limit. The first change of an hour is always possible.")
	fs.Float64Var(&c.Budget.ClusterShare, "max-change-per-hour-cluster", c.Budget.ClusterShare, "Maximum share of the requests of the cluster that is changed in an hour, counted by the requests of changed pods. "+
		"Above 0, at most 1. 1 means no limit. The first change of an hour is always possible.")
	fs.StringVar(&c.FreezeConfigMap, "freeze-configmap", c.FreezeConfigMap, "Name of a ConfigMap in podfit's namespace that stops all changes of running pods while its key freeze is true. "+
		"Empty means that there is none. The ConfigMap need not exist.")
	fs.StringVar(&c.OOMRescue, "oom-rescue", c.OOMRescue, "How pods with an OOM-killed container get more memory at once, whatever their age and the number of replicas. "+
		"off: only by the rules for all pods. evict: by a resize or an eviction. "+
		"delete: also by deleting a pod that is not ready and was OOM-killed three times in a row, if a PodDisruptionBudget does not allow its eviction and lacks only such pods.")
	fs.StringVar(&c.MakeRoom, "make-room", c.MakeRoom, "What to do if a resize does not fit on its node: off (wait), shrink (first resize other pods on the node in place to their lower targets), "+
		"split (also resize by what fits now, and by the rest later) or move (also evict a pod whose replacement fits on another node). "+
		"The annotation podfit.dev/make-room of a VPA overrides it.")
	fs.StringVar(&c.ResizePreemption, "scheduler-resize-preemption", c.ResizePreemption, "Whether the scheduler preempts pods for deferred resizes (KEP-5836). If it does, --make-room=move moves no pods. "+
		"on, off, or auto: read from the metrics of the API server whether its feature gate is on. If they cannot be read, no pods are moved.")
	fs.StringVar(&c.Mover, "mover", c.Mover, "How pods are replaced: evict (by an eviction), room (pods of Deployments that move to make room, by a surge: one replica more, and the pod is removed when that is ready) "+
		"or surge (all pods of Deployments, by a surge). Deployments with a HorizontalPodAutoscaler are never surged. The annotation podfit.dev/mover of a VPA overrides it.")
	fs.BoolVar(&c.NodeGuard, "node-guard", c.NodeGuard, "If true, and pods whose memory limits follow the highest usage (as with profile packed) run on a node, move pods that use more memory than they request from it "+
		"when all its pods use more than 85 % of its memory, or soon will: at most one a minute and three an hour.")
	fs.Float64Var(&c.NodeGuardPressure, "node-guard-pressure", c.NodeGuardPressure, "Memory pressure of a node (PSI, full avg60) in percent, from which --node-guard also moves pods if they use at least 70 % of its memory. "+
		"Between 0 and 100. 0 means that pressure does not count. It is read from the kubelets, which requires the component deploy/rights/node-guard.")
	fs.StringVar(&c.CapacityBeforeEviction, "capacity-before-eviction", c.CapacityBeforeEviction, "What to do before a pod is evicted whose replacement has no room on any node now. "+
		"off: evict it. ask: create a ProvisioningRequest where the API server serves autoscaling.x-k8s.io/v1, else a placeholder pod with the size of the replacement, "+
		"and evict the pod when the ProvisioningRequest is provisioned or the placeholder pod has a node, within 10 minutes. If podfit can create neither, the pod is not evicted.")
	fs.StringVar(&c.ProvisioningClass, "provisioning-class", c.ProvisioningClass, "Class of the ProvisioningRequests of --capacity-before-eviction. The autoscaler of the cluster must serve it.")
	fs.StringVar(&c.PlaceholderImage, "placeholder-image", c.PlaceholderImage, "Image of the placeholder pods of --capacity-before-eviction. It must do nothing and run as any user.")
	fs.DurationVar(&c.Budget.EvictionBackoff, "eviction-backoff", c.Budget.EvictionBackoff, "How long the pods of a workload are left unchanged after an eviction without effect, for example because the replacement "+
		"has its old requests again. Each further one doubles it, up to 6 hours or this value if that is more. At least 0. 0 means no back-off, as in upstream.")
	fs.DurationVar(&c.Budget.StatefulSetPause, "statefulset-pause", c.Budget.StatefulSetPause, "How long a pod of a StatefulSet must be ready before the next one is evicted. It also waits for minReadySeconds, as in every controller. "+
		"At least 0. Upstream has no pause: 0.")
	fs.StringVar(&c.Rules, "updater-rules", c.Rules, "Which rules apply to evictions and resizes where no other flag decides: podfit (not if the change would have no effect, if the replacement would be rejected, "+
		"if an evicted pod has no replacement, if the same action was refused recently, or if the VPA is too young; pods that are not ready count as unavailable; unscheduled pods that shrink are replaced) or upstream (none of these rules, and no early passes).")
	fs.BoolVar(&c.EarlyPasses, "early-passes", c.EarlyPasses, "If true, also run a pass within a second after a change that pods wait for, such as an OOM kill, a deferred resize or a new recommendation. "+
		"If false, run a pass every --updater-interval only, as upstream does.")
	fs.BoolVar(&c.UpdatingCondition, "updating-condition", c.UpdatingCondition, "If true, report on each VPA how many of its pods need no change, and why the others wait (condition Updating). If false, remove the condition.")
	fs.BoolVar(&c.DryRun, "dry-run", c.DryRun, "If true, log the changes that podfit would make, and change nothing in the cluster.")
}

// FreezeSwitch returns the ConfigMap that freezes the cluster. It has no name if there is none.
func (c *Config) FreezeSwitch() cluster.Key {
	if c.FreezeConfigMap == "" {
		return cluster.Key{}
	}
	return cluster.Key{Namespace: process.OwnNamespace(c.StatusNamespace), Name: c.FreezeConfigMap}
}

// Validate returns an error for each invalid flag, with the flag's name and the values it accepts.
func (c *Config) Validate() error {
	return errors.Join(c.Common.Validate(), c.Election.Validate(), c.ValidateOwn(), c.Prometheus.Validate())
}

// settle applies the consequences of --dry-run: a dry run takes no leader lease.
func (c *Config) settle() {
	c.ReadOnly = c.DryRun
	c.Election.Enabled = c.Election.Enabled && !c.DryRun
}

// guardsNodes reports whether nodes are watched. podfit must see the pods of all namespaces to know what a node uses.
func (c *Config) guardsNodes() bool {
	return c.NodeGuard && c.WatchesAllPods() && c.Rules == rulesPodfit
}

// usageWait returns how long a pass waits for the usage of nodes.
func (c *Config) usageWait() time.Duration {
	if c.passesEarly() {
		return nodeusage.Wait
	}
	return nodeusage.LongWait
}

// ValidateOwn returns an error for each invalid flag that only the updater has.
func (c *Config) ValidateOwn() error {
	var errs process.Problems
	errs.AddIf(c.Interval <= 0, "--updater-interval must be greater than 0, got %v", c.Interval)
	errs.AddIf(!(c.Budget.Tolerance >= 0 && c.Budget.Tolerance <= 1), "--eviction-tolerance must be between 0 and 1, got %v", c.Budget.Tolerance)
	errs.AddIf(c.Budget.MinReplicas < 0, "--min-replicas must be at least 0, got %d", c.Budget.MinReplicas)
	errs.AddIf(c.RateLimit > 0 && c.RateBurst < 1, "--eviction-rate-burst must be at least 1 if --eviction-rate-limit is set, got %d", c.RateBurst)
	errs.AddIf(c.Budget.EvictionBackoff < 0, "--eviction-backoff must be at least 0, got %v", c.Budget.EvictionBackoff)
	errs.AddIf(c.Budget.StatefulSetPause < 0, "--statefulset-pause must be at least 0, got %v", c.Budget.StatefulSetPause)
	errs.AddIf(c.BoostSyncs < 1, "--concurrent-cpu-startup-boost-syncs must be at least 1, got %d", c.BoostSyncs)
	_, ok := room.ParseAllowed(c.MakeRoom)
	errs.AddIf(!ok, "--make-room must be off, shrink, split or move, got %q", c.MakeRoom)
	errs.AddIf(!slices.Contains([]string{preemptionAuto, preemptionOn, preemptionOff}, c.ResizePreemption), "--scheduler-resize-preemption must be auto, on or off, got %q", c.ResizePreemption)
	errs.AddIf(!surge.Mover(c.Mover).IsValid(), "--mover must be evict, room or surge, got %q", c.Mover)
	errs.AddIf(!(c.NodeGuardPressure >= 0 && c.NodeGuardPressure <= 100), "--node-guard-pressure must be between 0 and 100, got %v", c.NodeGuardPressure)
	errs.AddIf(c.CapacityBeforeEviction != capacityOff && c.CapacityBeforeEviction != capacityAsk, "--capacity-before-eviction must be off or ask, got %q", c.CapacityBeforeEviction)
	errs.AddIf(c.PlaceholderImage == "", "--placeholder-image must not be empty")
	errs.AddIf(c.ProvisioningClass == "", "--provisioning-class must not be empty")
	errs.AddIf(!(c.Budget.Threshold >= 0), "--pod-update-threshold must be at least 0, got %v", c.Budget.Threshold)
	errs = append(errs, validateShare("max-change-per-hour-namespace", c.Budget.NamespaceShare), validateShare("max-change-per-hour-cluster", c.Budget.ClusterShare))
	if problems := validation.IsDNS1123Subdomain(c.FreezeConfigMap); c.FreezeConfigMap != "" && len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--freeze-configmap must be the name of a ConfigMap, got %q: %s", c.FreezeConfigMap, problems[0]))
	}
	errs.AddIf(c.Rules != rulesPodfit && c.Rules != rulesUpstream, "--updater-rules must be %s or %s, got %q", rulesPodfit, rulesUpstream, c.Rules)
	_, ok = rescueModes[c.OOMRescue]
	errs.AddIf(!ok, "--oom-rescue must be off, evict or delete, got %q", c.OOMRescue)
	return errors.Join(errs...)
}

func validateShare(flag string, value float64) error {
	if value > 0 && value <= 1 {
		return nil
	}
	return fmt.Errorf("--%s must be above 0 and at most 1, got %v", flag, value)
}

// PrometheusConfig is how the CPU throttling and the objectives of canaries are read from Prometheus. Without an address, they are not read.
type PrometheusConfig struct{ prom.Config }

// flags binds the configuration to flags with the names that the recommender has for its Prometheus. "podfit run" has the flags of the
// recommender.
func (c *PrometheusConfig) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Address, "prometheus-address", c.Address, "URL of a Prometheus that scrapes cAdvisor. The updater reads there whether the CPU of canaries is throttled, "+
		"and the query that canaries wait for (annotations podfit.dev/rollout and podfit.dev/canary-query). Empty means that canaries are judged without throttling, and wait for their query.")
	fs.BoolVar(&c.Insecure, "prometheus-insecure", c.Insecure, "If true, do not verify the TLS certificate of Prometheus.")
	fs.StringVar(&c.TokenFile, "prometheus-bearer-token-file", c.TokenFile, "Path of a file that contains the bearer token for Prometheus.")
	fs.StringVar(&c.NamespaceLabel, "container-namespace-label", c.NamespaceLabel, "Label of the usage metrics that contains the namespace.")
	fs.StringVar(&c.PodLabel, "container-pod-name-label", c.PodLabel, "Label of the usage metrics that contains the pod name.")
	fs.StringVar(&c.ContainerLabel, "container-name-label", c.ContainerLabel, "Label of the usage metrics that contains the container name.")
}

// Validate returns an error for each invalid flag.
func (c *PrometheusConfig) Validate() error {
	if c.Address == "" {
		return nil
	}
	var errs process.Problems
	errs.AddIf(!process.IsURL(c.Address), "--prometheus-address must be a URL such as http://prometheus.monitoring.svc, got %q", c.Address)
	for _, l := range []struct{ flag, value string }{
		{"container-namespace-label", c.NamespaceLabel}, {"container-pod-name-label", c.PodLabel}, {"container-name-label", c.ContainerLabel},
	} {
		errs.AddIf(l.value == "", "--%s must not be empty if --prometheus-address is set", l.flag)
	}
	return errors.Join(errs...)
}

// newThrottling returns an observer of canaries, or nil if there is no Prometheus.
func newThrottling(c *Config, h *process.Health, log *slog.Logger) (*throttling.Observer, error) {
	p := c.Prometheus.Config
	if p.Address == "" {
		return nil, nil
	}
	p.Timeout = throttling.QueryTimeout
	p.Length, p.Resolution = time.Hour, time.Minute // of histories, which are not read
	client, err := prom.New(p)
	if err != nil {
		return nil, process.UsageError{Err: fmt.Errorf("--prometheus-address: %w", err)}
	}
	return throttling.New(client, c.Interval, h, log), nil
}
