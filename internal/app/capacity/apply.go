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

// An application carries out the plan with the fewest moves: it cordons a node, and evicts pods of it one after the other. After each move it reads the
// cluster, and plans the rest. It ends at the first surprise, and then removes the cordon that it has set.
type application struct {
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

func (a *application) run(ctx context.Context) error {
	a.done = outcome{APIVersion: report.Version, Kind: "CapacityMoves", Made: []made{}, Planned: []fragments.Move{}}
	err := a.carryOut(ctx)
	if err != nil {
		a.done.Stopped = err.Error()
	}
	if a.Output == "json" {
		out := json.NewEncoder(a.streams.Out)
		out.SetIndent("", "  ")
		return errors.Join(err, out.Encode(a.done))
	}
	return err
}

// say tells a person what is done.
func (a *application) say(format string, args ...any) {
	out := a.streams.Out
	if a.Output == "json" {
		out = a.streams.Err
	}
	fmt.Fprintln(out, terminal.Plain(fmt.Sprintf(format, args...)))
}

func (a *application) carryOut(ctx context.Context) error {
	plan, at, err := a.plan(ctx, "")
	switch {
	case err != nil:
		return err
	case at.reached:
		a.say("There is room for %s already. Nothing was changed.", report.Amount(a.size))
		return nil
	case len(plan.Moves) == 0 || len(plan.Moves) > a.MaxMoves:
		a.say("No plan of at most %d moves (--max-moves) was found. Nothing was changed.", a.MaxMoves)
		return nil
	}
	a.done.Node, a.done.Planned = plan.Node, plan.Moves
	a.say("Plan: cordon node %s, and evict these pods of it, one after the other:", plan.Node)
	dry := a.pods.DryRun()
	if !at.cordoned {
		err = dry.Cordon(ctx, plan.Node, true)
	}
	for _, m := range plan.Moves {
		a.say("  %s (%s)", m.Pod, report.Amount(m.Size))
		err = errors.Join(err, dry.Evict(ctx, m.Of))
	}
	if err != nil {
		return fmt.Errorf("dry run, nothing was changed: %w", err)
	}
	a.say("Dry run: the API server accepts each of these requests now.")
	if a.DryRun {
		return nil
	}
	if !a.Yes && !a.confirm(ctx) {
		a.say("Nothing was changed.")
		return ctx.Err()
	}
	plan, now, err := a.plan(ctx, plan.Node) // the person may have taken a while
	switch {
	case err != nil:
		return err
	case len(plan.Moves) == 0 || len(plan.Moves) > a.MaxMoves || now != at:
		return fmt.Errorf("node %s or its pods have changed since the plan was made; nothing was changed", a.done.Node)
	case at.cordoned:
		return a.follow(ctx, plan)
	}
	if err := a.pods.Cordon(ctx, plan.Node, true); err != nil {
		return fmt.Errorf("%w; no pod was evicted", err)
	}
	err = a.follow(ctx, plan)
	if err == nil && a.size == (room.Amount{}) {
		return nil // the node is to be removed
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	if undo := a.pods.Cordon(last, plan.Node, false); undo != nil {
		return errors.Join(err, fmt.Errorf("%w: check whether the node is still to be cordoned", undo))
	}
	a.say("Node %s takes pods again.", plan.Node)
	return err
}

// confirm asks a person.
func (a *application) confirm(ctx context.Context) bool {
	fmt.Fprint(a.streams.Err, "Carry it out? [y/N] ")
	answer := make(chan string, 1)
	go func() { // it ends with the process if nobody answers
		var text string
		_, _ = fmt.Fscanln(a.streams.In, &text) // no answer is none
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
func (a *application) follow(ctx context.Context, plan *fragments.Plan) error {
	node := plan.Node
	for {
		err := a.move(ctx, plan.Moves[0].Of)
		if err != nil {
			return err
		}
		if plan, err = a.rest(ctx, node); err != nil {
			return err
		}
		if len(plan.Moves) > 0 {
			continue
		}
		a.done.Reached = true
		if a.size == (room.Amount{}) {
			a.say("Node %s runs no pods any more, except for those of DaemonSets and static pods. It is cordoned: remove it, or run: kubectl uncordon %s", node, node)
		} else {
			a.say("Node %s has room for %s.", node, report.Amount(a.size))
		}
		return nil
	}
}

// rest plans the moves that are left, none if the aim is reached.
func (a *application) rest(ctx context.Context, node string) (*fragments.Plan, error) {
	for deadline := time.Now().Add(settling); ; {
		plan, at, err := a.plan(ctx, node)
		switch {
		case err != nil:
			return nil, err
		case !at.cordoned:
			return nil, fmt.Errorf("node %s is not cordoned any more", node)
		case at.reached || len(plan.Moves) > 0 && len(a.done.Made)+len(plan.Moves) <= a.MaxMoves:
			return plan, nil
		case !time.Now().Before(deadline) || !kube.Sleep(ctx, interval):
			return nil, errors.Join(ctx.Err(), fmt.Errorf("no plan of at most %d further moves was found for node %s", a.MaxMoves-len(a.done.Made), node))
		}
	}
}

type standing struct{ cordoned, reached bool } // of the node of a plan

// plan reads the cluster, and returns the plan with the fewest moves, of the given node if that is not "". Each pod of it runs on the node of the plan.
func (a *application) plan(ctx context.Context, node string) (best *fragments.Plan, at standing, err error) {
	s, r, err := a.read(ctx, a.clients, node)
	if err == nil && len(r.Missing) > 0 {
		err = fmt.Errorf("the state of the cluster is not known: %s", strings.Join(r.Missing, "; "))
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
	if best.Unused != "" && a.size == (room.Amount{}) {
		return nil, at, fmt.Errorf("to free node %s, moves must not use another one: node %s runs no pods, and replacements could start there; remove or cordon it first", best.Node, best.Unused)
	}
	n := cluster.Find(s.world.Nodes, func(n *cluster.Node) bool { return n.Name == best.Node || n.Name == node })
	at.cordoned = n != nil && n.Cordoned
	return best, at, nil
}

// move evicts a pod, and waits until it is gone and its controller has as many available pods as it wants.
func (a *application) move(ctx context.Context, p *cluster.Pod) error {
	before, scale := a.siblings(ctx, p)
	wanted := scale.Replicas
	if wanted == 0 {
		return fmt.Errorf("how many pods %s wants is not known now; pod %s was not evicted", p.Controller, p.Key)
	}
	a.say("Evict %s.", p)
	if err := a.pods.Evict(ctx, p); err != nil {
		if !kube.IsRefusal(err) && !errors.Is(err, kube.ErrNotSent) {
			err = fmt.Errorf("%w; it may have been evicted", err)
		}
		return err
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, patience+scale.MinReady)
	defer cancel()
	for kube.Sleep(limited, interval) {
		pods, now := a.siblings(limited, p)
		ready := 0
		var replacement *cluster.Pod
		for _, q := range pods {
			isNew := !slices.ContainsFunc(before, func(o *cluster.Pod) bool { return o.UID == q.UID })
			switch {
			case isNew && q.Node == p.Node:
				return fmt.Errorf("the replacement of pod %s started on node %s again", p.Key, p.Node)
			case q.UID == p.UID || !q.Live() || !q.Ready || time.Since(q.ReadySince) < scale.MinReady:
				continue
			case isNew:
				replacement = q
			}
			ready++
		}
		gone := !slices.ContainsFunc(pods, func(q *cluster.Pod) bool { return q.UID == p.UID })
		switch {
		case now.Replicas != 0 && now.Replicas != wanted:
			return fmt.Errorf("%s now wants %d pods instead of %d", p.Controller, now.Replicas, wanted)
		case now.Replicas != 0 && gone && replacement != nil && ready >= int(wanted):
			a.say("  %s is ready on node %s after %s.", replacement, replacement.Node, time.Since(began).Round(time.Second))
			a.done.Made = append(a.done.Made, made{p.String(), replacement.String(), replacement.Node})
			return nil
		}
	}
	return errors.Join(ctx.Err(), fmt.Errorf("%s after its eviction, pod %s still exists, or has no replacement that is ready", time.Since(began).Round(time.Second), p.Key))
}

// siblings reads the pods of the controller of a pod, and how many it wants: 0 if they cannot be read now.
func (a *application) siblings(ctx context.Context, p *cluster.Pod) (pods []*cluster.Pod, scale cluster.Scale) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	w := watcher.NewWorld(a.clients, watcher.Options{Namespace: p.Namespace, Pods: watcher.AllPods, VPAsOptional: true, Log: slog.New(slog.DiscardHandler)})
	for _, u := range w.Load(ctx) {
		if u.Resource == "pods" {
			return nil, scale
		}
	}
	pods = slices.DeleteFunc(slices.Clone(w.Snapshot().Pods), func(q *cluster.Pod) bool { return q.Controller != p.Controller })
	return pods, w.Scale(p.Controller)
}
