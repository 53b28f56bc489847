// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package explanation describes for a person what has happened to the pods of a workload, what happens next, what can be done about it,
// and why. Its input is the state of the cluster and the decisions of a planned pass.
//
// It decides nothing: the decisions and gates come from package plan. So an explanation differs from what the updater does only as far as its input does:
// what the updater remembers of earlier passes, and its flags.
package explanation

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/changelog"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/gate"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/rationale"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/runs"
	"podfit.dev/podfit/internal/core/runtimeguard"
	"podfit.dev/podfit/internal/core/usage"
)

// A Kind is the kind of object that is explained.
type Kind uint8

// The kinds.
const (
	OfWorkload Kind = iota
	OfPod
	OfAutoscaler
	OfNode
)

// A Subject is what is explained.
type Subject struct {
	Kind      Kind
	Name      string           // as it is shown: "shop/Deployment/cart"
	Namespace string           // "" for a node
	Workload  cluster.Workload // of the pods; zero for a node, or if there is none
	Command   string           // the workload for kubectl: "deploy/cart"; "" if there is none
	Pods      []*cluster.Pod   // sorted

	Autoscaler *cluster.Autoscaler   // nil: no VPA governs the pods, or that is not known
	Others     []*cluster.Autoscaler // further VPAs of the same workload
	Governing  *cluster.Autoscaler   // the one of all these that changes pods; nil if there is none
}

// Input is what is known about a subject.
type Input struct {
	Now time.Time // times are shown in its location
	Subject
	Container string        // only this container; "" for all
	Replicas  cluster.Scale // of the workload

	Plan
	Switched *Switched // nil if the update mode of the VPA changes pods, or if that is not known
	Updater
	Rules rollout.Rules // the rules for changes that apply to the VPA; zero if they are not known

	Cluster
	Labels    []string                          // of the pods, "key=value", sorted
	HeapUsage map[string]runtimeguard.HeapUsage // of all pods, by container with a JVM; none if Prometheus was not read
	Usage     []usage.Sample                    // current usage; nil if it is not known

	Conditions []Condition // of the VPA
	Events     []Event     // about the VPA and the pods, the newest last

	Sizing *rationale.Sizing // what the sizes are computed from; nil if that is not known
	Former Former            // the workload whose usage history this one continues, or can continue
	Lack   string            // why it is not known how much usage the recommendation is based on; "" if that is known
	Vendor bool              // the VPA names a recommender that is no profile of podfit, so another program sizes it
	Ifs    []rationale.If    // the conditions of WHAT IF; nil: the usual ones

	Gaps
}

// Former is a workload that this one has replaced: podfit.dev/continues names it, or it no longer exists and its stored usage history fits.
type Former struct {
	cluster.Workload
	Exists bool
	Age    time.Duration // how much of its usage history is stored
}

// Plan is what the next pass does with the pods.
type Plan struct {
	Decisions     []decision.Decision    // a pod without VPA has none
	Gates         map[string][]gate.Gate // by UID of the pod
	EvictionGates map[string][]gate.Gate // of pods that wait for a resize, by UID
}

// PlanOf returns what a pass does with some pods, by UID.
func PlanOf(pass *plan.Pass, pods map[string]bool) Plan {
	out := Plan{Gates: map[string][]gate.Gate{}, EvictionGates: map[string][]gate.Gate{}}
	out.Decisions = slices.DeleteFunc(slices.Clone(pass.Decisions()), func(d decision.Decision) bool { return !pods[d.Pod.UID] })
	for uid := range pods {
		out.Gates[uid], out.EvictionGates[uid] = pass.Gates(uid), pass.EvictionGates(uid)
	}
	return out
}

// Switched is the plan of the next pass under an update mode that changes pods.
type Switched struct {
	Mode cluster.Mode
	Plan
}

// Updater is what is known about the running updater.
type Updater struct {
	Budget   plan.Budget
	Interval time.Duration         // between two passes
	Waiting  []ledger.WaitingState // pods that its last passes left, as it recorded
	Paused   string                // why it changes no pods at all, as a full sentence; "" if it does, or if that is not known
}

// Cluster has the objects around the pods.
type Cluster struct {
	Nodes      []cluster.Node
	AllPods    []*cluster.Pod // of all nodes; nil if they are not known
	Disruption []cluster.DisruptionBudget
}

// Gaps are what is not known.
type Gaps struct {
	Assumed   []string // settings of the updater that were assumed
	Forbidden []Unread // what the user has no right to read
	Missing   []Unread // what else is not known
	Remarks   []string // what else limits the explanation, as full sentences

	NoAutoscalers bool // the VPAs could not be read, so whether one governs the pods is not known
}

// UpdaterFlags is the part of the cluster that Assumed is about.
const UpdaterFlags = "flags of the updater"

// Unread is a part of the cluster that is not known.
type Unread struct {
	Part string // a plural noun, such as nodes; "" if the explanation does not depend on it
	Note string // a full sentence
}

// Miss adds a part that is not known, with a sentence about it.
func (g *Gaps) Miss(part, note string) { g.Missing = append(g.Missing, Unread{part, note}) }

// Parts returns the names of the parts that are not known.
func (g *Gaps) Parts() []string {
	var out []string
	for _, u := range slices.Concat(g.Forbidden, g.Missing) {
		if u.Part != "" && !slices.Contains(out, u.Part) {
			out = append(out, u.Part)
		}
	}
	return out
}

// Unknown returns a sentence for each part of the cluster that is not known, and the remarks.
func (g *Gaps) Unknown() []string {
	notes := cluster.Each(slices.Concat(g.Forbidden, g.Missing), func(u *Unread) string { return u.Note })
	return append(notes, g.Remarks...)
}

// A Condition is a condition of a VPA.
type Condition struct {
	Type, Reason, Message string
	True                  bool
	Since                 time.Time
}

// An Event is an event of the API server.
type Event struct {
	At                          time.Time
	Kind, Name, Reason, Message string // of the object and of the event
	VPA                         string // that caused a change of a pod, which may be gone
	Count                       int32
}

// An Explanation is the result.
type Explanation struct {
	At         time.Time
	Subject    string
	Facts      []string // the rest of the first line: replicas, VPA, update mode
	Situations []Situation
	Now        []string
	History    []string // how much usage of each container is known: "app 45 s of 8 d"
	Runs       []Run    // that are stored, by container, the newest first
	Changes    []Change // of the recommendation, the newest first
	Next       []Step
	IfMode     cluster.Mode // an update mode that changes pods, if that of the VPA does not
	IfOn       []Step       // what would be next with IfMode
	You        []Advice
	Heaps      []Heap
	Why        []rationale.Why
	WhatIf     []rationale.Counterfactual
	Gaps
}

// A Run is a run of a container of a Job or CronJob, or of an init container.
type Run struct {
	runs.Run
	Container string
}

// A Change is a change of the recommendation for a container.
type Change struct {
	changelog.Change
	Container string
	From      int64 // the target before it, in millicores or bytes; 0 if it is not on record
}

// A Step is what the updater does next with some pods.
type Step struct {
	Pods      []string
	Act       decision.Act
	Code      string      // of the reason
	Reason    string      // full sentences
	NotBefore time.Time   // a pod is not changed before; zero if that is not known
	By        time.Time   // the pass that changes the pods has begun by then; zero if they are left
	Refused   string      // why the API server would refuse the eviction now; "" if it would not
	Fallback  string      // what happens if the pods wait too long; "" if nothing does
	Gates     []gate.Gate // of the first of the pods
}

// Advice is what a person can do.
type Advice struct {
	Text    string `json:"text"`
	Command string `json:"command,omitempty"` // to copy; "" if there is none
}

// Explain describes the subject.
func Explain(in *Input) *Explanation {
	out := &Explanation{
		At: in.Now, Subject: in.Name, Facts: facts(in), Situations: situations(in), Now: now(in), History: history(in), Runs: storedRuns(in),
		Changes: changes(in), Next: next(in), Heaps: heaps(in), Gaps: in.Gaps,
	}
	if in.Switched != nil {
		other := *in
		other.Plan = in.Switched.Plan
		other.EvictionGates = nil
		out.IfMode, out.IfOn = in.Switched.Mode, next(&other)
	}
	out.Remarks = append(slices.Clone(out.Remarks), disagreements(in, out.Next)...)
	out.You = you(in, out.Situations, out.Next)
	if in.Sizing != nil {
		out.Why = slices.DeleteFunc(rationale.WhyOf(in.Sizing), func(w rationale.Why) bool { return !in.shows(w.Container) })
		for i := range out.Why {
			out.Why[i].StartupBoost.GateOff = !in.Budget.StartupBoost
		}
		changes := in.Ifs
		if changes == nil {
			changes = rationale.UsualIfs(in.Sizing)
		}
		out.WhatIf = slices.DeleteFunc(rationale.WhatIf(in.Sizing, changes), func(c rationale.Counterfactual) bool { return !in.shows(c.Container) })
	}
	return out
}
