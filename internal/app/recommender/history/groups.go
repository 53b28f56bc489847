// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// A group is the stored history of a group of pods of a workload.
type group struct {
	of         cluster.Workload
	containers []usage.History
}

// keepLoaded keeps the loaded model states, and those of groups apart.
func (k *Checkpointer) keepLoaded(all map[cluster.Workload][]usage.History) {
	k.loadedModelStates = all
	k.loadedGroups = map[cluster.Workload][]group{}
	for w, hs := range all {
		if of, isGroup := w.Ungrouped(); isGroup {
			k.loadedGroups[of] = append(k.loadedGroups[of], group{w, hs})
			delete(all, w)
		}
	}
}

// StoredRoles returns the roles of the groups of a workload that are loaded and not restored.
func (k *Checkpointer) StoredRoles(w cluster.Workload) []string {
	var roles []string
	for _, g := range k.loadedGroups[w] {
		if g.of == w.InGroup(cluster.WholePod) {
			continue
		}
		roles = append(roles, strings.TrimPrefix(g.of.Name, w.Name+"/"))
	}
	return roles
}

// restoreGroups adds the loaded histories of groups of pods to their usage store.
func (k *Checkpointer) restoreGroups(ours []*cluster.Autoscaler) {
	if len(k.loadedGroups) == 0 {
		return
	}
	governed := k.groups.Governed()
	for _, a := range ours {
		var later []group
		for _, g := range k.loadedGroups[a.Target] {
			switch {
			case g.of != a.Target.InGroup(cluster.WholePod) && !a.SizesByRole():
				later = append(later, g)
			case slices.Contains(governed, g.of):
				k.restoreGroup(a, g)
			}
			// Others are one too many, or of pods that have no pod-level resources any more.
		}
		if k.loadedGroups[a.Target] = later; len(later) == 0 {
			delete(k.loadedGroups, a.Target)
		}
	}
}

// restoreGroup adds the loaded histories of a group of pods to their usage store.
func (k *Checkpointer) restoreGroup(a *cluster.Autoscaler, g group) {
	for i := range g.containers {
		if err := k.groups.Unpack(g.of, &g.containers[i]); err != nil {
			k.log.Warn("Cannot restore the usage history of a group of pods. Their size in the status of the VPA stays until they have been measured for --role-history",
				slog.String("vpa", a.Key.String()), slog.String("container", g.containers[i].Container), slog.Any("error", err))
		}
	}
}

// An unsavedGroup is a group of pods whose history is to be stored.
type unsavedGroup struct {
	of          cluster.Workload
	containers  []usage.History
	checkpoints map[string]usage.Checkpoint // by container
	isStored    bool
}

func (k *Checkpointer) pack(now time.Time, g *unsavedGroup) {
	g.checkpoints = map[string]usage.Checkpoint{}
	for _, s := range k.groups.All(g.of) {
		if packed, c, ok := k.groups.Pack(g.of, s.Container(), now); ok {
			g.containers = append(g.containers, packed)
			g.checkpoints[s.Container()] = c
		}
	}
}

// beginGroup lets a worker store the history of a group of pods that is due.
func (k *Checkpointer) beginGroup(ctx context.Context, now time.Time, workers *errgroup.Group, of cluster.Workload, isDue bool) *unsavedGroup {
	g := &unsavedGroup{of: of}
	if !isDue || ctx.Err() != nil {
		return g
	}
	process.Attempt(k.log, k.health, of.String(), func() {
		k.pack(now, g)
		workers.Go(func() error {
			process.Attempt(k.log, k.health, of.String(), func() { k.storeGroup(ctx, g) })
			return nil
		})
	})
	return g
}

func (k *Checkpointer) storeGroup(ctx context.Context, g *unsavedGroup) {
	defer func() { k.health.Active(time.Now()) }()
	if _, err := k.store.ModelStates.Write(ctx, g.of, g.containers); err != nil {
		k.log.Debug("Cannot store the usage history of a group of pods. The next pass tries again", slog.String("workload", g.of.String()), slog.Any("error", err))
		return
	}
	g.containers = nil // not needed any more
	g.isStored = true
}

// savedGroup records that the history of a group of pods is stored, if it is.
func (k *Checkpointer) savedGroup(now time.Time, g *unsavedGroup) {
	if !g.isStored {
		return
	}
	for container, c := range g.checkpoints {
		k.groups.Saved(g.of, container, c)
		k.savedAt[usage.Ref{Workload: g.of, Container: container}] = now
	}
}
