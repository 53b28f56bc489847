// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"fmt"
	"log/slog"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/room"
)

// reportRooms logs the plans for nodes that are too full for the resizes of their pods, before the first step: a record for each node and one
// for each step in its order, when the plan is new. A dry run also writes them as tables.
func (u *updater) reportRooms(served []*cluster.Autoscaler, plans []room.Plan) {
	u.reportInvalidMakeRoom(served)
	current := make(map[string]string, len(plans))
	for _, p := range plans {
		key := p.Key()
		current[p.Node] = key
		if u.roomReported[p.Node] == key {
			continue
		}
		rows := p.Rows()
		u.log.Info("Node has too little room for the resizes of its pods", slog.String("node", p.Node), slog.String("free", p.Free.String()), slog.Int("count", len(rows)))
		for i, r := range rows {
			u.log.Info("Planned step for a node with too little room", slog.String("node", p.Node), slog.Int("step", i+1), slog.String("action", r.Action),
				slog.String("pod", r.Pod), slog.String("from", r.From), slog.String("to", r.To), slog.String("reason", r.Reason))
		}
		if u.config.DryRun && u.config.Tables != nil {
			fmt.Fprint(u.config.Tables, p.Table())
		}
	}
	u.roomReported = current
}

// reportUnknownRoom logs that no room is made because the pods of some namespaces are not watched.
func (u *updater) reportUnknownRoom() {
	if u.budget.MakeRoom != room.Off && !u.config.WatchesAllPods() {
		u.log.Info("Not all namespaces are watched, so the free room on nodes is unknown and --make-room has no effect")
	}
}

// reportInvalidMakeRoom logs annotations podfit.dev/make-room without a valid value, once for each value.
func (u *updater) reportInvalidMakeRoom(served []*cluster.Autoscaler) {
	var current map[cluster.Key]string
	for _, a := range served {
		if _, ok := room.ParseAllowed(a.MakeRoom); ok || a.MakeRoom == "" {
			continue
		}
		if current == nil {
			current = map[cluster.Key]string{}
		}
		current[a.Key] = a.MakeRoom
		if u.roomInvalid[a.Key] != a.MakeRoom {
			u.log.Warn("The annotation podfit.dev/make-room is invalid, so --make-room applies; it must be off, shrink, split or move",
				slog.String("vpa", a.Key.String()), slog.String("used", a.MakeRoom))
		}
	}
	u.roomInvalid = current
}
