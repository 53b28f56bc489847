// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/compatibility"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/surge"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// actingNow is how long an UpdateState may show that an updater changes pods of a workload while that is the usual course of a pass. After
// that, the updater has ended before it recorded the outcomes.
const actingNow = time.Minute

// A Settings holds the flags of an updater for a command that shows what it does.
type Settings struct{ config Config }

// NewSettings returns the defaults of the updater.
func NewSettings() *Settings { return &Settings{Defaults()} }

// SettingsOf returns the settings of an updater of this process, without what only carrying out a pass needs.
func SettingsOf(c Config) *Settings {
	c.Journal = nil
	c.Tables = nil
	c.Prometheus = Defaults().Prometheus
	return &Settings{c}
}

var previewFlags = []string{
	"updater-interval", "min-replicas", "eviction-tolerance", "pod-update-threshold", "in-recommendation-bounds-eviction-lifetime-threshold",
	"evict-after-oom-threshold", "in-place-skip-disruption-budget", "replacement-must-fit", "max-change-per-hour-namespace",
	"max-change-per-hour-cluster", "freeze-configmap", "oom-rescue", "make-room", "scheduler-resize-preemption", "mover", "capacity-before-eviction", "eviction-backoff", "updater-rules",
	"statefulset-pause",
	"use-admission-controller-status", "admission-controller-status-lease-name", "admission-controller-status-lease-namespace", "admission-controller-status-lease-timeout",
	"ignored-vpa-object-namespaces", compatibility.FlagName, "hpa", "feature-gates", "fit-nodes", "max-node-cpu", "max-node-memory", "size-sidecars", "size-pod-level",
}

// Flags binds the flags of the updater that determine its decisions.
func (s *Settings) Flags(fs *pflag.FlagSet) {
	all := pflag.NewFlagSet("updater", pflag.ContinueOnError)
	s.config.Common.Flags(all)
	s.config.OwnFlags(all)
	for _, name := range previewFlags {
		fs.AddFlag(all.Lookup(name))
	}
}

// Validate returns an error for each invalid flag, with the flag's name and the values it accepts.
func (s *Settings) Validate() error {
	return errors.Join(s.config.Common.Validate(), s.config.ValidateOwn())
}

// assumedFlags are the flags whose value matters most, and that are reported if they are assumed.
var assumedFlags = []string{"min-replicas", "updater-interval", "in-recommendation-bounds-eviction-lifetime-threshold", "hpa", "make-room", "oom-rescue"}

// Assumed returns the flags with the largest effect that are not on the command line, with their values.
func (s *Settings) Assumed(given *pflag.FlagSet) []string {
	return process.Assumed(given, assumedFlags)
}

// StatusLease returns the status lease of the admission controller, and after which time without a renewal the updater changes no pods; "" if it
// does not look at one.
func (s *Settings) StatusLease() (namespace, name string, timeout time.Duration) {
	if !s.config.UseStatus {
		return "", "", 0
	}
	return process.OwnNamespace(s.config.StatusNamespace), s.config.StatusName, s.config.StatusTimeout
}

// Interval returns the time between two passes.
func (s *Settings) Interval() time.Duration { return s.config.Interval }

// Restrict makes the updater serve only one namespace, because the others cannot be read.
func (s *Settings) Restrict(namespace string) {
	s.config.Namespace = namespace
	s.config.IgnoredNamespaces = nil
}

// WatcherOptions selects what the updater reads of the cluster.
func (s *Settings) WatcherOptions() watcher.Options {
	return s.config.Watched(watcher.Options{
		Pods: watcher.LivePods, Nodes: true, NodeGroups: true, Limits: true, Quotas: true, Budgets: true, Rules: true, FreezeSwitch: s.config.FreezeSwitch(),
	})
}

type previewWorld interface {
	world
	Surging() []cluster.Workload
	Scaled() (scaled map[cluster.Workload]bool, known bool)
}

// Preview plans the pass that an updater with these settings would begin at the time now. states are the stored records of earlier
// passes. explained are the UIDs of the pods of which all gates are recorded. changed is another version of an autoscaler, or nil. It sends
// no request.
func (s *Settings) Preview(now time.Time, w *watcher.World, states []ledger.State, explained map[string]bool, changed *cluster.Autoscaler) (*plan.Pass, plan.World, plan.Budget) {
	if changed != nil {
		return s.preview(now, changedWorld{w, changed}, states, explained)
	}
	return s.preview(now, w, states, explained)
}

// A changedWorld is a cluster with another version of one autoscaler.
type changedWorld struct {
	previewWorld
	changed *cluster.Autoscaler
}

// Snapshot implements world.
func (w changedWorld) Snapshot() *cluster.Snapshot {
	s := w.previewWorld.Snapshot()
	autoscalers := slices.Clone(s.Autoscalers)
	for i := range autoscalers {
		if autoscalers[i].Key == w.changed.Key {
			autoscalers[i] = w.changed
		}
	}
	return cluster.NewSnapshot(s.Pods, autoscalers)
}

func (s *Settings) preview(now time.Time, w previewWorld, states []ledger.State, explained map[string]bool) (*plan.Pass, plan.World, plan.Budget) {
	c := s.config
	c.DryRun = true
	c.settle()
	u := newUpdater(c, w, nil, noEvents{}, nil, NewMetrics(prometheus.NewRegistry()), process.NewHealth(c.Interval), slog.New(slog.DiscardHandler))
	for i := range states {
		if now.Sub(states[i].ActingSince) < actingNow {
			states[i].ActingSince = time.Time{}
		}
	}
	u.ledger.Restore(now, states)
	snapshot := w.Snapshot()
	gathered := u.gather(snapshot, u.served(snapshot.Autoscalers))
	gathered.Surges = surgesOf(w)
	gathered.Throttling = map[cluster.Workload]rollout.Throttling{} // what the updater has read is not known
	for i := range states {
		if hasRecorded(&states[i], decision.ObjectiveMissed) {
			gathered.Throttling[states[i].Workload] = rollout.Throttling{Objective: rollout.Reading{Recorded: true}}
		}
	}
	if c.CapacityBeforeEviction != capacityOff && c.WatchesAllPods() {
		gathered.Provider = headroom.PlaceholderPods // whether podfit may create them is not known without a request that writes
		if slices.ContainsFunc(states, func(s ledger.State) bool { return hasRecorded(&s, decision.NoCapacityProvider) }) {
			gathered.Provider = headroom.NoProvider
		}
	}
	gathered.SchedulerPreempts = c.ResizePreemption == preemptionOn
	gathered.Explained = explained
	return plan.Begin(now, gathered, u.budget), gathered, u.budget
}

// hasRecorded reports whether the updater recorded that pods wait for a reason.
func hasRecorded(s *ledger.State, why decision.ReasonCode) bool {
	return slices.ContainsFunc(s.Waiting, func(w ledger.WaitingState) bool { return w.Reason == why.String() })
}

// surgesOf returns the surges in progress, nil if it is not known whether a HorizontalPodAutoscaler scales the workloads.
func surgesOf(w previewWorld) *surge.State {
	scaled, known := w.Scaled()
	if !known {
		return nil
	}
	active := map[cluster.Workload]cluster.Surge{}
	for _, d := range w.Surging() {
		active[d] = cluster.Surge{}
	}
	return &surge.State{Active: active, Scaled: scaled}
}
