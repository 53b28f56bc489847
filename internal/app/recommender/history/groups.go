// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"log/slog"
	"slices"
	"strings"
	"time"

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

// packGroup returns what is to be stored of a group of pods: all its containers, as model state. Groups have no checkpoints.
func (k *Checkpointer) packGroup(now time.Time, of cluster.Workload, _ []usage.Ref) (modelStates []usage.History, all []*unsaved) {
	for _, s := range k.groups.All(of) {
		if packed, c, ok := k.groups.Pack(of, s.Container(), now); ok {
			modelStates = append(modelStates, packed)
			all = append(all, &unsaved{ref: usage.Ref{Workload: of, Container: s.Container()}, checkpoint: c})
		}
	}
	return modelStates, all
}
