// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fragments"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/actuation"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	report "podfit.dev/podfit/internal/edge/report/capacity"
	"podfit.dev/podfit/internal/edge/report/terminal"
)

const (
	patience = 10 * time.Minute // from an eviction until the pod is gone and its replacement is ready
	settling = time.Minute      // after that, until PodDisruptionBudgets count the replacement, and the rest can be planned
	interval = 2 * time.Second  // between two readings
	cleanUp  = 15 * time.Second // for removing the cordon, also if the command is interrupted
)

// A drainer carries out the plan with the fewest moves: it cordons a node, and evicts pods of it one after the other. After each move it reads the
// cluster, and plans the rest. It stops at the first problem, and then removes the cordon that it has set.
type drainer struct {
	*Config
	clients *kube.Clients
	pods    *actuation.PodWriter
	streams process.Streams

	done outcome
}

// An outcome is the output as JSON.
type outcome struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Node       string           `json:"node"` // "": no plan was found
	Planned    []fragments.Move `json:"planned"`
	Made       []made           `json:"made"`
	Reached    bool             `json:"reached"`
	Stopped    string           `json:"stopped,omitempty"` // why it ended before
}

type made struct {
	Pod         string `json:"pod"`
	Replacement string `json:"replacement"`
	Node        string `json:"node"`
}

func (d *drainer) run(ctx context.Context) error {
	d.done = outcome{APIVersion: report.Version, Kind: "CapacityMoves", Made: []made{}, Planned: []fragments.Move{}}
	err := d.carryOut(ctx)
	if err != nil {
		d.done.Stopped = err.Error()
	}
	if d.Output == "json" {
		out := json.NewEncoder(d.streams.Out)
		out.SetIndent("", "  ")
		return errors.Join(err, out.Encode(d.done))
	}
	return err
}

// say tells a person what is done.
func (d *drainer) say(format string, args ...any) {
	out := d.streams.Out
	if d.Output == "json" {
		out = d.streams.Err
	}
	fmt.Fprintln(out, terminal.Plain(fmt.Sprintf(format, args...)))
}

func (d *drainer) carryOut(ctx context.Context) error {
	plan, at, err := d.plan(ctx, "")
	switch {
	case err != nil:
		return fmt.Errorf("%w; nothing was changed", err)
	case at.reached:
		d.say("There is room for %s already. Nothing was changed.", report.Amount(d.size))
		return nil
	case len(plan.Moves) == 0 || len(plan.Moves) > d.MaxMoves:
		d.say("No plan of at most %d moves (--max-moves) was found. Nothing was changed.", d.MaxMoves)
		return nil
	}
	d.done.Node, d.done.Planned = plan.Node, plan.Moves
	d.say("Plan: cordon node %s, and evict these pods of it, one after the other:", plan.Node)
	dry := d.pods.DryRun()
	if !at.cordoned {
		err = dry.Cordon(ctx, plan.Node, true)
	}
	for _, m := range plan.Moves {
		d.say("  %s (%s)", m.Pod, report.Amount(m.Size))
		err = errors.Join(err, dry.Evict(ctx, m.Of))
	}
	if err != nil {
		return fmt.Errorf("dry run, nothing was changed: %w", err)
	}
	d.say("Dry run: the API server accepts each of these requests now.")
	if d.DryRun {
		return nil
	}
	if !d.Yes && !d.confirm(ctx) {
		d.say("Nothing was changed.")
		return ctx.Err()
	}
	plan, now, err := d.plan(ctx, plan.Node) // the person may have taken a while
	switch {
	case err != nil:
		return fmt.Errorf("%w; nothing was changed", err)
	case len(plan.Moves) == 0 || len(plan.Moves) > d.MaxMoves || now != at:
		return fmt.Errorf("node %s or its pods have changed since the plan was made; nothing was changed; run the command again", d.done.Node)
	case at.cordoned:
		return d.follow(ctx, plan)
	}
	switch err = d.pods.Cordon(ctx, plan.Node, true); {
	case kube.IsRefusal(err):
		return fmt.Errorf("%w; nothing was changed", err)
	case err == nil: // otherwise, it may be cordoned
		err = d.follow(ctx, plan)
	}
	if err == nil && d.size == (room.Amount{}) {
		return nil // the node is to be removed
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	if undo := d.pods.Cordon(last, plan.Node, false); undo != nil {
		return errors.Join(err, fmt.Errorf("%w; if it is still cordoned, run: kubectl uncordon %s", undo, plan.Node))
	}
	d.say("Node %s takes pods again.", plan.Node)
	return err
}

// confirm asks a person.
func (d *drainer) confirm(ctx context.Context) bool {
	fmt.Fprint(d.streams.Err, "Carry it out? [y/N] ")
	answer := make(chan string, 1)
	go func() { // it ends with the process if nobody answers
		var text string
		_, _ = fmt.Fscanln(d.streams.In, &text) // no answer is none
		answer <- text
	}()
	select {
	case text := <-answer:
		return strings.EqualFold(text, "y") || strings.EqualFold(text, "yes")
	case <-ctx.Done():
		return false
	}
}

// follow makes the moves of a plan, each of which is planned again after the one before.
func (d *drainer) follow(ctx context.Context, plan *fragments.Plan) error {
	node := plan.Node
	for {
		err := d.move(ctx, plan.Moves[0].Of)
		if err != nil {
			return err
		}
		if plan, err = d.rest(ctx, node); err != nil {
			return err
		}
		if len(plan.Moves) > 0 {
			continue
		}
		d.done.Reached = true
		if d.size == (room.Amount{}) {
			d.say("Node %s runs no pods any more, except for those of DaemonSets and static pods. It is cordoned: remove it, or run: kubectl uncordon %s", node, node)
		} else {
			d.say("Node %s has room for %s.", node, report.Amount(d.size))
		}
		return nil
	}
}

// rest plans the moves that are left, none if the aim is reached.
func (d *drainer) rest(ctx context.Context, node string) (*fragments.Plan, error) {
	for deadline := time.Now().Add(settling); ; {
		plan, at, err := d.plan(ctx, node)
		switch {
		case err != nil:
			return nil, err
		case !at.cordoned:
			return nil, fmt.Errorf("others have uncordoned node %s", node)
		case at.reached || len(plan.Moves) > 0 && len(d.done.Made)+len(plan.Moves) <= d.MaxMoves:
			return plan, nil
		case !time.Now().Before(deadline) || !kube.Sleep(ctx, interval):
			return nil, errors.Join(ctx.Err(), fmt.Errorf("no plan of at most %d further moves was found for node %s", d.MaxMoves-len(d.done.Made), node))
		}
	}
}

// A state is whether the node of a plan is cordoned, and whether there is nothing left to do.
type state struct{ cordoned, reached bool }

// plan reads the cluster, and returns the plan with the fewest moves, of the given node if that is not "". Each pod of it runs on the node of the plan.
func (d *drainer) plan(ctx context.Context, node string) (best *fragments.Plan, at state, err error) {
	s, r, err := d.read(ctx, d.clients, node)
	if err == nil && len(r.Missing) > 0 {
		err = fmt.Errorf("moves are planned only if the whole cluster can be read: %s", strings.Join(r.Missing, "; "))
	}
	if err != nil {
		return nil, at, err
	}
	best = new(fragments.Plan)
	for i := range r.Fragments {
		p := &r.Fragments[i]
		plan := &p.Empty
		if p.Room != nil {
			plan = p.Room
			at.reached = at.reached || plan.Node != "" && len(plan.Moves) == 0
		}
		if len(plan.Moves) > 0 && (len(best.Moves) == 0 || len(plan.Moves) < len(best.Moves)) {
			best = plan
		}
		for _, n := range p.Nodes {
			at.reached = at.reached || p.Room == nil && n.Name == node && n.Pods == 0
		}
	}
	if best.Unused != "" && d.size == (room.Amount{}) {
		return nil, at, fmt.Errorf("to free node %s saves nothing, because node %s runs no pods and replacements could start there; remove or cordon that node first", best.Node, best.Unused)
	}
	n := cluster.Find(s.world.Nodes, func(n *cluster.Node) bool { return n.Name == best.Node || n.Name == node })
	at.cordoned = n != nil && n.Cordoned
	return best, at, nil
}

// move evicts a pod, and waits until it is gone and its controller has as many available pods as it wants.
func (d *drainer) move(ctx context.Context, p *cluster.Pod) error {
	before, scale := d.siblings(ctx, p)
	wanted := scale.Replicas
	if wanted == 0 {
		return fmt.Errorf("pod %[2]s was not evicted, because the number of pods that %[1]s wants could not be read", p.Controller, p.Key)
	}
	d.say("Evict %s, and wait for its replacement.", p)
	if err := d.pods.Evict(ctx, p); err != nil {
		if !kube.IsRefusal(err) {
			err = fmt.Errorf("%w; the pod may have been evicted", err)
		}
		return err
	}
	began := time.Now()
	since := map[string]time.Time{} // when a pod was first seen ready, because the clocks of the nodes may differ from the one here
	limited, cancel := context.WithTimeout(ctx, patience+scale.MinReady)
	defer cancel()
	for kube.Sleep(limited, interval) {
		pods, now := d.siblings(limited, p)
		ready := 0
		var replacement *cluster.Pod
		for _, q := range pods {
			isNew := !slices.ContainsFunc(before, func(o *cluster.Pod) bool { return o.UID == q.UID })
			switch {
			case isNew && q.Node == p.Node:
				return fmt.Errorf("the replacement of pod %s is on node %s again, although the node is cordoned", p.Key, p.Node)
			case q.UID == p.UID || !q.Live() || !q.Ready || time.Since(cluster.Memo(&since, q.UID+q.ReadySince.String(), time.Now)) < scale.MinReady:
				continue
			case isNew:
				replacement = q
			}
			ready++
		}
		gone := !slices.ContainsFunc(pods, func(q *cluster.Pod) bool { return q.UID == p.UID })
		switch {
		case now.Replicas != 0 && now.Replicas != wanted:
			return fmt.Errorf("the number of pods that %s wants has changed from %d to %d", p.Controller, wanted, now.Replicas)
		case now.Replicas != 0 && gone && replacement != nil && ready >= int(wanted):
			d.say("  %s is ready on node %s after %s.", replacement, replacement.Node, time.Since(began).Round(time.Second))
			d.done.Made = append(d.done.Made, made{p.String(), replacement.String(), replacement.Node})
			return nil
		}
	}
	return errors.Join(ctx.Err(), fmt.Errorf("pod %s was evicted %s ago, and it still exists or its replacement is not ready; check the events of the namespace", p.Key, time.Since(began).Round(time.Second)))
}

// siblings reads the pods of the controller of a pod, and how many it wants: 0 if they cannot be read now.
func (d *drainer) siblings(ctx context.Context, p *cluster.Pod) (pods []*cluster.Pod, scale cluster.Scale) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	w := watcher.NewWorld(d.clients, watcher.Options{Namespace: p.Namespace, Pods: watcher.AllPods, VPAsOptional: true, Log: slog.New(slog.DiscardHandler)})
	for _, u := range w.Load(ctx) {
		if u.Resource == "pods" {
			return nil, scale
		}
	}
	pods = slices.DeleteFunc(slices.Clone(w.Snapshot().Pods), func(q *cluster.Pod) bool { return q.Controller != p.Controller })
	return pods, w.Scale(p.Controller)
}
