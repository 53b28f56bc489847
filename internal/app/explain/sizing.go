// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/rationale"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// size adds what the recommendation is computed from: the profile, and the usage history that the recommender has stored in the cluster.
func (c *Config) size(ctx context.Context, in *explanation.Input, world *watcher.World, planned *plan.World, clients *kube.Clients) {
	a := in.Autoscaler
	if a == nil || in.Subject.Kind == explanation.OfNode || in.Subject.Workload.IsZero() {
		return
	}
	catalog := c.jobs.Recommender.Catalog()
	err := process.ReadProfiles(ctx, clients, catalog)
	miss(&in.Gaps, "sizingprofiles", err, "SizingProfiles were not read (%s): only built-in profiles are known.")
	if a.Recommender != "" && a.Recommender != "default" && !c.jobs.Recommender.IsNamed(a) && !catalog.Contains(a) {
		if !catalog.IsListed() {
			in.Lack = "whether " + a.Recommender + " is a SizingProfile or another recommender is not known"
			in.Miss("the profile", "Whether "+a.Recommender+" is a SizingProfile or another recommender is not known, so the size is not explained.")
			return
		}
		in.Vendor = true
		return
	}
	choice := catalog.Of(a)
	if !choice.Usable {
		in.Lack = "the parameters of profile " + a.Recommender + " are not known"
		in.Miss("the profile", "The parameters of profile "+a.Recommender+" are not known, so the size cannot be explained.")
		return
	}
	pods := live(world.Snapshot().PodsOf(in.Subject.Workload)) // the recommendation is for all of them, also if one is explained
	nodes := fleet.NewNodes(world.Nodes(), world.Selectors())
	store, workloads := c.history(ctx, in, pods, nodes, world, clients, choice)
	s := &rationale.Sizing{
		Now: in.Now, Profile: workloads.Profile(choice, in.Subject.Workload), Histories: store.All(in.Subject.Workload), Autoscaler: a, Kills: killsOf(pods), Pods: pods, Global: c.jobs.Recommender.MaxAllowed(),
	}
	declared, _ := criticality.DeclaredBy(pods)
	smallest := nodes.Smallest(pods)
	for _, p := range recommend.Builtins() {
		other := *a
		other.Recommender = p.Name
		if of := catalog.Of(&other); of.Usable {
			s.Profiles = append(s.Profiles, of.For(declared, smallest))
		}
	}
	if len(in.Pods) > 0 {
		s.Pod, s.Limits = in.Pods[0], planned.LimitsOf(in.Pods[0])
	}
	if len(s.Histories) == 0 {
		in.Miss("the usage history", "The cluster stores no usage history of the workload, so the size cannot be explained.")
		return
	}
	in.Sizing = s
}

// history returns the stored usage history of the workload. The checkpoint of a VPA has it for the default profile, and a UsageHistory for
// the others.
func (c *Config) history(
	ctx context.Context, in *explanation.Input, pods []*cluster.Pod, nodes *fleet.Nodes, world *watcher.World, clients *kube.Clients, choice *sizing.Choice,
) (*usage.Store, sizing.Workloads) {
	w := in.Subject.Workload
	a := in.Autoscaler
	store := c.jobs.Recommender.Store()
	workloads := sizing.Workloads{}
	store.Tick(in.Now)
	store.Configure(w, a.Policies)
	assignments := sizing.Assignments{w: sizing.Assignment{Choice: choice, By: a}}
	workloads.Apply(store, in.Now, cluster.NewSnapshot(slices.Clone(pods), []*cluster.Autoscaler{a}), assignments, nodes)
	o := checkpoint.StorageOptions{Namespace: w.Namespace, Log: slog.New(slog.DiscardHandler)}
	stored, checkpoints, histories := checkpoint.ReadStored(ctx, clients, o)
	if checkpoints != nil || histories != nil {
		in.Lack = review.UnreadUsage
	}
	miss(&in.Gaps, "checkpoints", checkpoints, "Checkpoints were not read (%s).")
	miss(&in.Gaps, "usagehistories", histories, "Usage histories were not read (%s).")
	in.Former = formerOf(in, stored, world.Scale)
	stored.Restore(store, map[cluster.Key]cluster.Workload{a.Key: w}, []cluster.Workload{w})
	workloads.SkipRestore()
	for _, p := range pods {
		store.Track(p)
	}
	return store, workloads
}

// formerOf returns the workload that the annotation of the VPA names if it still exists. Without the annotation, it returns the workload that was
// deleted within a day of the first sample of the subject, and whose checkpoints have the same containers; zero if there is none.
func formerOf(in *explanation.Input, stored checkpoint.Stored, scale func(cluster.Workload) cluster.Scale) explanation.Former {
	a := in.Autoscaler
	if named := a.Former(); !named.IsZero() {
		if scale(named).Known {
			return explanation.Former{Workload: named, Exists: true}
		}
		return explanation.Former{}
	}
	type usageOf struct {
		first, last time.Time
		containers  map[string]bool
	}
	var all map[cluster.Workload]*usageOf
	for key, c := range stored.Checkpoints {
		w := c.Workload
		if w.Group != a.Target.Group || w.Kind != a.Target.Kind || c.FirstSample.IsZero() {
			continue
		}
		of := cluster.Memo(&all, w, func() *usageOf { return &usageOf{c.FirstSample, c.LastSample, map[string]bool{}} })
		of.containers[key.Container] = true
		of.first = cluster.Earliest(of.first, c.FirstSample)
		of.last = cluster.Latest(of.last, c.LastSample)
	}
	own := all[a.Target]
	if own == nil {
		return explanation.Former{}
	}
	var out explanation.Former
	for _, w := range slices.SortedFunc(maps.Keys(all), cluster.Workload.Compare) {
		of := all[w]
		if w == a.Target || !maps.Equal(of.containers, own.containers) || own.first.Sub(of.last).Abs() > 24*time.Hour || !of.first.Before(own.first) || !scale(w).Gone {
			continue
		}
		if age := of.last.Sub(of.first); age > out.Age {
			out = explanation.Former{Workload: w, Age: age}
		}
	}
	return out
}

// killsOf returns the memory limits, by container, with which the pods were OOM-killed; the highest of several.
func killsOf(pods []*cluster.Pod) map[string]int64 {
	out := map[string]int64{}
	for _, p := range pods {
		for i := range p.Containers {
			if c := &p.Containers[i]; c.Exit != nil && c.Exit.OOM {
				_, limits := c.Running()
				out[c.Name] = max(out[c.Name], limits.Memory)
			}
		}
	}
	return out
}

type conditions []rationale.If

// Set implements pflag.Value.
func (c *conditions) Set(text string) error {
	parsed, err := rationale.ParseIf(text)
	if err != nil {
		return err
	}
	*c = append(*c, parsed)
	return nil
}

// String implements pflag.Value.
func (c *conditions) String() string {
	return strings.Join(cluster.Each(*c, func(i *rationale.If) string { return i.String() }), " ")
}

// Type implements pflag.Value.
func (c *conditions) Type() string { return "KEY=VALUE" }
