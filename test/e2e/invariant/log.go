// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"fmt"
	"k8s.io/apimachinery/pkg/labels"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Log is everything that was observed. Each list may be in any order.
type Log struct {
	Writes      []Write
	Autoscalers []Autoscaler
	Pods        []Pod
	Controllers []Controller
	Budgets     []Budget
}

// A Write is a write request of podfit, or the creation of a pod by any user.
type Write struct {
	At      time.Time // the API server received it
	User    string    // service account without its namespace, such as vpa-updater; other users in full
	Process string    // differs between two processes of one service account

	Verb, Resource, Subresource string
	Namespace, Name             string
	UID                         string // precondition of the request, "" if it has none

	Code    int
	Message string // of a refusal
	Body    string // of the request
	DryRun  bool

	Requests map[string]Amounts // of a resize: what it asks for, by container
	Lease    Lease              // of a write to a lease: what it wrote
	Shaped   string             // of the creation of a pod: the patch by which podfit's webhook changed it
}

// A Lease is the holder of a lease, and its duration.
type Lease struct {
	Holder string // "" when the lease is released
	For    time.Duration
}

// Amounts are millicores of "cpu" and bytes of "memory"; what is missing is not set.
type Amounts map[string]int64

// A Ref names a controller of pods.
type Ref struct{ Kind, Namespace, Name string }

// A Pod is a state of a pod.
type Pod struct {
	At              time.Time // when it was observed
	Namespace, Name string
	UID             string
	Controller      Ref // direct owner
	Created         time.Time
	Labels          map[string]string
	Requests        map[string]Amounts // by container: from the status, or from the spec before the container runs
	Scheduled       bool               // has a node
	Ready           bool
	Deleting        bool
	Finished        bool // Succeeded or Failed
	Gone            bool // deleted
	OOM             bool // the present or last termination of a container is OOMKilled
	Boosted         bool // has a startup boost of CPU
	Unreviewed      bool // the test kept podfit's webhook from sizing it
}

// A Controller is a state of a direct owner of pods.
type Controller struct {
	At     time.Time
	Ref    Ref
	Owner  Ref // zero when it is the topmost
	Wanted int // replicas
	Gone   bool
}

// A Budget is a state of a PodDisruptionBudget.
type Budget struct {
	At              time.Time
	Namespace, Name string
	Selector        labels.Selector
	Healthy         int // desiredHealthy of the status
	Gone            bool
}

// An Autoscaler is a state of a VerticalPodAutoscaler.
type Autoscaler struct {
	At              time.Time
	Namespace, Name string
	Target          Ref
	MinReplicas     int
	Writer          string    // user who last wrote the status
	Recommended     time.Time // when the recommendation was last written; zero if never
	RoleLabel       string    // the label of pods by which they are sized apart; "" for none
	Ranges          []Range
	Gone            bool
}

// A Range is the recommendation for a container, with the bounds of its resource policy.
type Range struct {
	Container                     string
	Lower, Target, Upper          Amounts
	AllowedLeast, AllowedGreatest Amounts
	OfRoles                       map[string]Amounts // the targets of pods with some roles
}

// NodeSize is the label with the size of the node of a pod of a DaemonSet, which the log has and Kubernetes does not.
const NodeSize = "podfit.dev/node-size"

// forRole returns the VPA with the ranges of a pod with a role: podfit keeps such pods from 15 % below to 20 % above their target. If the role is the
// size of the node, the range is in proportion to the target.
func (a *Autoscaler) forRole(p *Pod) *Autoscaler {
	role := p.Labels[a.RoleLabel]
	if role == "" {
		return a
	}
	out := *a
	out.Ranges = slices.Clone(a.Ranges)
	for i := range out.Ranges {
		r := &out.Ranges[i]
		r.Lower, r.Target, r.Upper = maps.Clone(r.Lower), maps.Clone(r.Target), maps.Clone(r.Upper)
		for _, of := range r.OfRoles {
			for res := range of {
				if own, ok := r.OfRoles[role][res]; ok {
					r.Lower[res], r.Upper[res] = r.Lower[res]*own/r.Target[res], r.Upper[res]*own/r.Target[res]
					r.Target[res] = own
				}
				if a.RoleLabel == NodeSize {
					continue
				}
				r.Lower[res], r.Upper[res] = r.Target[res]*85/100, r.Target[res]*120/100
			}
		}
	}
	return &out
}

// isPlaceholder reports whether podfit has created the pod to hold room. Only podfit may set its label.
func (p *Pod) isPlaceholder() bool {
	return p.Labels["podfit.dev/placeholder"] == "true" && p.Controller == (Ref{})
}

// OK reports whether the write was done.
func (w *Write) OK() bool { return w.Code >= 200 && w.Code < 300 && !w.DryRun }

func (w *Write) isEviction() bool { return w.Resource == "pods" && w.Subresource == "eviction" }
func (w *Write) isDeletion() bool {
	return w.Resource == "pods" && w.Subresource == "" && w.Verb == "delete"
}
func (w *Write) isResize() bool { return w.Resource == "pods" && w.Subresource == "resize" }

// isSurge reports whether a write to a Deployment has the record of a surge in its body.
func (w *Write) isSurge() bool {
	return w.Resource == "deployments" && strings.Contains(w.Body, `"podfit.dev/surge"`)
}

// isDuty reports whether only a leader may make a write.
func (w *Write) isDuty() bool {
	switch w.Resource {
	case "pods":
		return w.Subresource != "" || w.Verb == "patch"
	case "verticalpodautoscalers", "verticalpodautoscalercheckpoints", "usagehistories", "updatestates", "capacityplans":
		return true
	}
	return false
}

// accounts are podfit's service accounts. The value is true for accounts that write recommendations.
var accounts = map[string]bool{"vpa-recommender": true, "vpa-updater": false, "vpa-admission-controller": false, "podfit": true}

func (w *Write) isPodfits() bool {
	_, ok := accounts[w.User]
	return ok
}

func (w *Write) object() string {
	s := w.Resource
	if w.Subresource != "" {
		s += "/" + w.Subresource
	}
	return s + " " + w.Namespace + "/" + w.Name
}

// String is a line of evidence.
func (w *Write) String() string {
	s := fmt.Sprintf("%s %s (%s): %s %s: %d", clock(w.At), w.User, w.Process, w.Verb, w.object(), w.Code)
	if w.DryRun {
		s += " (dry run)"
	}
	if w.Message != "" {
		s += ": " + w.Message
	}
	return s
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// A Rule is an invariant.
type Rule string

// The rules.
const (
	Advised    Rule = "advised"     // a pod is evicted, deleted or resized only when its recommendation requires it
	InBudget   Rule = "in-budget"   // no eviction breaks podfit's limits or a PodDisruptionBudget, and only OOM-killed pods are deleted
	SoleLeader Rule = "sole-leader" // of several candidates only the leader acts, and only while it holds the lease
	Admitted   Rule = "admitted"    // no pod is refused that the webhook has changed
	Settles    Rule = "settles"     // the same resize is not applied to the same pod repeatedly
	BacksOff   Rule = "backs-off"   // a refused request is not repeated at the same pace
	Effective  Rule = "effective"   // pods are rarely replaced by pods with the same requests
	Fresh      Rule = "fresh"       // a pod is changed only by a recommendation that was written recently
)

// A Violation is a rule that was broken.
type Violation struct {
	Rule      Rule
	From      time.Time // of its first write
	At        time.Time // of its last write
	Namespace string    // "" for cluster-scoped objects
	Object    string
	Text      string
	Evidence  []string
	Times     int // number of violations of the rule for the object; the other fields describe the first
}

// String writes the violation with its evidence.
func (v Violation) String() string {
	s := fmt.Sprintf("%s %s: %s: %s", clock(v.At), v.Rule, v.Object, v.Text)
	if v.Times > 1 {
		s += fmt.Sprintf(" (%d times)", v.Times)
	}
	for _, e := range v.Evidence {
		s += "\n    " + e
	}
	return s
}

// Limits are the values that the rules compare with.
type Limits struct {
	// Stale is how old the state may be that a decision is based on: the length of a pass and the delay of its watches.
	Stale time.Duration
	// Lag is how much later than podfit's watches the watches of the collector may deliver a state.
	Lag time.Duration
	// Tolerance and MinReplicas are the updater's flags --eviction-tolerance and --min-replicas.
	Tolerance   float64
	MinReplicas int
	// Refusals is how often the same request may be refused within RefusedWithin.
	Refusals      int
	RefusedWithin time.Duration
	// Repeats is how often the same change may be applied within RepeatedWithin.
	Repeats        int
	RepeatedWithin time.Duration
	// Fresh is the maximum age of the recommendation by which a pod is changed; 0 if the age is not checked. It suits workloads with less than a day of
	// history: the bounds of others hardly move, so their recommendations are rarely written.
	Fresh time.Duration
	// Futile is how often pods of a workload may be replaced by pods with the same requests within FutileWithin.
	Futile       int
	FutileWithin time.Duration
}

// DefaultLimits are the limits for an updater with default flags and an interval of 5 s.
func DefaultLimits() Limits {
	return Limits{
		Stale: 6 * time.Second, Lag: time.Second, Tolerance: 0.5, MinReplicas: 2,
		Refusals: 6, RefusedWithin: 2 * time.Minute, Repeats: 3, RepeatedWithin: 10 * time.Minute, Futile: 2, FutileWithin: 30 * time.Minute,
	}
}

// Judge returns the violations in a log, sorted by time: one per rule and object, with a count.
func Judge(l Log, limits Limits) []Violation { return Merge(Each(l, limits)) }

// Each returns all violations in a log, sorted by time. A violation that was found stays the same when the log grows.
func Each(l Log, limits Limits) []Violation {
	c := newCase(l, limits)
	var all []Violation
	for _, rule := range []func(*judgement) []Violation{advised, fresh, inBudget, soleLeader, takesTurns, admitted, settles, backsOff, effective} {
		all = append(all, rule(c)...)
	}
	for i := range all {
		all[i].Times = 1
		if all[i].From.IsZero() {
			all[i].From = all[i].At
		}
	}
	slices.SortStableFunc(all, func(a, b Violation) int { return a.At.Compare(b.At) })
	return all
}

// Merge returns one violation per rule and object, with a count.
func Merge(all []Violation) []Violation {
	type same struct {
		rule   Rule
		object string
	}
	first := map[same]int{}
	var out []Violation
	for _, v := range all {
		k := same{v.Rule, v.Object}
		i, seen := first[k]
		if !seen {
			first[k] = len(out)
			out = append(out, v)
			continue
		}
		out[i].Times += v.Times
	}
	return out
}
