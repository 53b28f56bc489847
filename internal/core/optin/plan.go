// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package optin decides which autoscalers podfit creates, changes and deletes in namespaces that opt in by a label, and when a write that had no
// effect is tried again. It never selects an autoscaler of a person: one without podfit's label, or with another name than podfit gives.
package optin

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
)

const (
	grace            = 10 * time.Minute // from the removal of the label of a namespace to the deletion of its autoscalers
	mostPerNamespace = 1000             // autoscalers of podfit; with as many, no more are created
	mostWrites       = 300              // in a pass
	longestName      = 170              // of an autoscaler; the names of its checkpoints add that of a container

	// The delays between attempts of a write that was refused, had no effect or was undone. The first is longer than the delay of a watch.
	firstBackoff, lastBackoff = 2 * time.Minute, time.Hour
)

// Kinds are the groups and kinds of the workloads that get an autoscaler.
var Kinds = [][2]string{{"apps", "Deployment"}, {"apps", "StatefulSet"}, {"apps", "DaemonSet"}, {"batch", "CronJob"}}

// A Setting is what the autoscalers of a namespace should have.
type Setting struct {
	Mode    cluster.Mode
	Profile string
	Policy  cluster.ContainerPolicy // of all containers
}

// A Namespace is what the labels and annotations of a namespace say.
type Namespace struct {
	Name    string
	On      bool   // it opts in
	Problem string // why its autoscalers stay as they are: an invalid value, or ""
	Setting
}

// A Change is a write of podfit's autoscaler of a workload, and why.
type Change struct {
	Act     string // create, update, end or delete, as in the metric; end records that the namespace does not opt in any more
	Target  cluster.Workload
	Setting Setting
	UID     string // "" if it does not exist
	Reason  string
	turn    int // in its namespace
}

// A Book has the earlier writes. It is not stored.
type Book map[Change]record

type record struct {
	count, successes int
	until            time.Time
}

// Key returns the name of podfit's autoscaler of a workload.
func Key(w cluster.Workload) cluster.Key {
	return cluster.Key{Namespace: w.Namespace, Name: "podfit-" + strings.ToLower(w.Kind) + "-" + w.Name}
}

// Plan returns the writes of a pass, with one of each namespace before the second of another. All autoscalers and topmost workloads must be known.
// Nothing is done in a namespace that is missing or has a problem.
func (b Book) Plan(now time.Time, namespaces map[string]Namespace, workloads []cluster.Workload, autoscalers []*cluster.Autoscaler) (due []Change) {
	maps.DeleteFunc(b, func(_ Change, r record) bool { return now.Sub(r.until) > lastBackoff })
	count, turns := map[string]int{}, map[string]int{} // by namespace
	add := func(n Namespace, c Change) {
		c.Setting = n.Setting
		if n.Problem == "" && !b[c.id()].until.After(now) {
			c.turn = turns[n.Name]
			turns[n.Name]++
			due = append(due, c)
		}
	}
	named := map[cluster.Workload]int{} // the number of its autoscalers
	for _, a := range autoscalers {
		named[a.Target]++
	}
	for _, a := range autoscalers {
		// Without podfit's label or name, an autoscaler belongs to a person.
		if n, known := namespaces[a.Namespace]; known && a.OptedIn && a.Key == Key(a.Target) {
			count[n.Name]++
			if act, reason := decide(now, &n, a, named[a.Target] > 1); act != "" {
				add(n, Change{Act: act, Target: a.Target, UID: a.UID, Reason: reason})
			}
		}
	}
	for _, w := range workloads {
		if n := namespaces[w.Namespace]; n.On && named[w] == 0 && count[n.Name] < mostPerNamespace && len(Key(w).Name) <= longestName {
			count[n.Name]++
			add(n, Change{Act: "create", Target: w, Reason: "the workload has no VPA"})
		}
	}
	slices.SortStableFunc(due, func(a, b Change) int { return cmp.Compare(a.turn, b.turn) })
	return due[:min(len(due), mostWrites)]
}

// decide returns what to do with an autoscaler of podfit, and why. covered is true if the target has another autoscaler.
func decide(now time.Time, n *Namespace, a *cluster.Autoscaler, covered bool) (act, reason string) {
	same := len(a.Policies) == 1 && n.Setting == Setting{a.Mode, a.Recommender, a.Policies[0]}
	switch ended := a.OptInEnded; {
	case covered:
		return "delete", "the workload has another VPA"
	case n.On && (!same || !ended.IsZero()):
		return "update", "the VPA differs from the setting of the namespace"
	case !n.On && (ended.IsZero() || ended.After(now.Add(time.Minute))): // the clocks of replicas may differ a little
		return "end", "the namespace does not opt in any more"
	case !n.On && now.Sub(ended) >= grace:
		return "delete", "the namespace has not opted in for 10 minutes"
	}
	return "", ""
}

// Tried records an attempt, and returns how often the same write succeeded in the last hours.
func (b Book) Tried(now time.Time, c *Change, succeeded bool) int {
	if c.Act == "end" { // if the label returns, the record of its end must not stay for the back-off of earlier updates
		maps.DeleteFunc(b, func(o Change, _ record) bool { return o.Act == "update" && o.Target == c.Target })
	}
	r := b[c.id()]
	if succeeded {
		r.successes = min(r.successes+1, attempt.MaxCount)
	}
	r.count = min(r.count+1, attempt.MaxCount)
	r.until = now.Add(attempt.Doubled(firstBackoff, lastBackoff, r.count))
	b[c.id()] = r
	return r.successes
}

// id returns what the attempts of a write have in common.
func (c *Change) id() Change { return Change{Act: c.Act, Target: c.Target, Setting: c.Setting} }
