// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/rationale"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// archive reads the stored usage of whole namespaces, and the profiles.
type archive interface {
	Namespace(ctx context.Context, namespace string) (checkpoint.Stored, error)
	Catalog(ctx context.Context) (*sizing.Catalog, error)
}

// clusterArchive is the archive of a cluster. It keeps nothing.
type clusterArchive struct{ clients *kube.Clients }

// Namespace implements archive. A cluster without the CRD of UsageHistories has only checkpoints.
func (c clusterArchive) Namespace(ctx context.Context, namespace string) (checkpoint.Stored, error) {
	stored, checkpoints, histories := checkpoint.ReadStored(ctx, c.clients, checkpoint.StorageOptions{Namespace: namespace, Log: slog.New(slog.DiscardHandler)})
	return stored, errors.Join(checkpoints, histories)
}

// Catalog implements archive. A cluster without the CRD of SizingProfiles has only built-in profiles, and so has a user who may not list them:
// a right in a namespace does not include them. The recommendations of these profiles are in the status of VPAs nevertheless.
func (c clusterArchive) Catalog(ctx context.Context) (*sizing.Catalog, error) {
	catalog := sizing.NewCatalog(recommend.DefaultParams(), false)
	if err := process.ReadProfiles(ctx, c.clients, catalog); err != nil && !errors.Is(err, kube.ErrForbidden) {
		return nil, err
	}
	return catalog, nil
}

// restore restores the stored usage history of the workloads that autoscalers govern, as the recommender does at its start. What cannot be
// decoded is left out.
func restore(
	now time.Time, catalog *sizing.Catalog, snapshot *cluster.Snapshot, governing []*cluster.Autoscaler, nodes *fleet.Nodes, from checkpoint.Stored,
) (*usage.Store, sizing.Workloads) {
	store := usage.NewStore(usage.DefaultConfig())
	workloads := sizing.Workloads{}
	store.Tick(now)
	assignments := make(sizing.Assignments, len(governing))
	targets := make(map[cluster.Key]cluster.Workload, len(governing))
	for _, a := range governing {
		store.Configure(a.Target, nil)
		assignments[a.Target] = sizing.Assignment{Choice: catalog.Of(a), By: a}
		targets[a.Key] = a.Target
	}
	workloads.Apply(store, now, snapshot, assignments, nodes)
	from.Restore(store, targets, slices.Collect(maps.Values(targets)))
	workloads.SkipRestore()
	for _, a := range governing {
		for _, p := range snapshot.PodsOf(a.Target) {
			store.Track(p)
		}
	}
	return store, workloads
}

// storedUsage is what the stored usage of all workloads shows.
type storedUsage struct {
	evidence map[usage.Ref]*review.Evidence
	updated  time.Time // when some of it was last stored
	problems []string  // why a part could not be read
}

// newest returns when a part was last stored.
func newest(a checkpoint.Stored) (at time.Time) {
	for _, c := range a.Checkpoints {
		at = cluster.Latest(at, c.Updated)
	}
	for _, histories := range a.Histories {
		for i := range histories {
			at = cluster.Latest(at, histories[i].Updated)
		}
	}
	return at
}

// evidence returns what the stored usage of each container with a VPA shows, as podfit recommend counts it. It reads one namespace after the
// other, so its memory is that of the largest one. A namespace whose usage podfit may not read is not judged; the others are.
func (s *source) evidence(ctx context.Context, in *overview.World) (storedUsage, error) {
	const maxProblems = 3 // bounds the namespaces whose error is shown
	var out storedUsage
	catalog, err := s.archive.Catalog(ctx)
	if err != nil {
		return out, err
	}
	byNamespace := make(map[string][]*cluster.Autoscaler)
	for _, a := range overview.Governors(in.Snapshot, s.startupBoost) {
		byNamespace[a.Namespace] = append(byNamespace[a.Namespace], a)
	}
	maps.DeleteFunc(byNamespace, func(namespace string, _ []*cluster.Autoscaler) bool { return in.Excluded[namespace] })
	nodes := fleet.NewNodes(s.world.Nodes(), s.world.Selectors())
	out.evidence = make(map[usage.Ref]*review.Evidence)
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		from, err := s.archive.Namespace(ctx, namespace)
		lack := ""
		switch {
		case errors.Is(err, kube.ErrForbidden):
			lack = review.UnreadUsage
			if len(out.problems) < maxProblems {
				out.problems = append(out.problems, err.Error())
			}
		case err != nil:
			return out, err
		}
		out.updated = cluster.Latest(out.updated, newest(from))
		now := time.Now()
		store, _ := restore(now, catalog, in.Snapshot, byNamespace[namespace], nodes, from)
		for _, a := range byNamespace[namespace] {
			for _, p := range in.Snapshot.PodsOf(a.Target) {
				for i := range p.Containers {
					ref := usage.Ref{Workload: a.Target, Container: p.Containers[i].Name}
					if p.Containers[i].Role == cluster.Init || out.evidence[ref] != nil {
						continue
					}
					e := review.StoredEvidence(a, ref.Container, store.Series(ref.Workload, ref.Container), now)
					e.Lack = cmp.Or(lack, e.Lack)
					out.evidence[ref] = &e
				}
			}
		}
	}
	return out, ctx.Err()
}

// Judge returns the overview of a cluster that is loaded, with the risks that the page shows without current usage, and what of the stored
// usage could not be read. noAutoscalers is whether VPAs could not be read.
func Judge(ctx context.Context, clients *kube.Clients, world *watcher.World, noAutoscalers bool) (*overview.Overview, []string) {
	in := overview.World{Now: time.Now(), Snapshot: world.Snapshot(), Nodes: world.Nodes(), Unread: review.UnreadUsage, NoAutoscalers: noAutoscalers}
	stored, err := (&source{world: world, archive: clusterArchive{clients}}).evidence(ctx, &in)
	if err != nil {
		return overview.Of(&in), []string{"The stored usage was not read: " + err.Error()}
	}
	in.Evidence = stored.evidence
	return overview.Of(&in), stored.problems
}

// compare returns what each profile would recommend for a workload, by its stored usage.
func (s *source) compare(ctx context.Context, row *overview.Row, from checkpoint.Stored) ([]overview.ProfileSize, error) {
	const maxProfiles = 16 // bounds the profiles that a page compares
	snapshot := s.world.Snapshot()
	at := slices.IndexFunc(snapshot.AutoscalersOf(row.Workload), func(a *cluster.Autoscaler) bool { return a.Name == row.VPA })
	if at < 0 {
		return nil, nil
	}
	a := snapshot.AutoscalersOf(row.Workload)[at]
	catalog, ok, err := s.catalog.get(ctx, freshCatalog, s.archive.Catalog)
	if !ok {
		return nil, errors.Join(errors.New("profiles are not read yet"), err)
	}
	choice := catalog.Of(a)
	if !choice.Usable {
		return nil, nil
	}
	now := time.Now()
	nodes := fleet.NewNodes(s.world.Nodes(), s.world.Selectors())
	store, workloads := restore(now, catalog, snapshot, []*cluster.Autoscaler{a}, nodes, from)
	in := &rationale.Sizing{Now: now, Profile: workloads.Profile(choice, row.Workload), Histories: store.All(row.Workload), Autoscaler: a, Pods: snapshot.PodsOf(row.Workload)}
	declared, _ := criticality.DeclaredBy(snapshot.PodsOf(row.Workload))
	sizes := nodes.Smallest(snapshot.PodsOf(row.Workload))
	names := cluster.Each(recommend.Builtins(), func(p *recommend.Profile) string { return p.Name })
	custom, _ := s.world.ProfileNames()
	for _, name := range append(names, custom...) {
		other := *a
		other.Recommender = name
		if of := catalog.Of(&other); of.Usable && of.Name == name && len(in.Profiles) < maxProfiles {
			in.Profiles = append(in.Profiles, of.For(declared, sizes))
		}
	}
	return sizesOf(in), nil
}

// sizesOf returns the present recommendation and those of the other profiles.
func sizesOf(in *rationale.Sizing) []overview.ProfileSize {
	var out []overview.ProfileSize
	add := func(name string, own bool, sizes []rationale.Counterfactual) {
		for _, c := range sizes {
			s := cluster.FindOrAdd(&out, func(s *overview.ProfileSize) bool { return s.Container == c.Container && s.Profile == name },
				overview.ProfileSize{Container: c.Container, Profile: name, Own: own, Killed: rationale.Unknown.String()})
			if c.Known && c.Target > 0 {
				s.Target = s.Target.Set(c.Resource, c.Target)
			} else {
				s.Reason = cmp.Or(s.Reason, c.Reason)
			}
			if c.Resource == cluster.Memory {
				s.DaysAbove, s.Days, s.Killed = c.DaysAbove, c.Days, c.Killed.String()
			}
		}
	}
	add(in.Profile.Name, true, rationale.Present(in))
	for _, p := range in.Profiles {
		if p.Name != in.Profile.Name {
			add(p.Name, false, rationale.WhatIf(in, []rationale.If{{Key: rationale.IfProfile, Value: p.Name}}))
		}
	}
	slices.SortStableFunc(out, func(a, b overview.ProfileSize) int { return strings.Compare(a.Container, b.Container) })
	return out
}
