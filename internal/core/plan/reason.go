// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// Why names the reason of a decision. Its text is a stable name for metrics and logs; Reason.String is for people.
type ReasonCode uint8

// The reasons for a pod to change.
const (
	Fits           ReasonCode = iota // none: the pod is as it should be
	BelowRange                       // a request is below the lower bound
	AboveRange                       // a request is above the upper bound
	MissingRequest                   // a recommended resource is not requested at all
	OutOfMemory                      // killed for memory soon after its start
	Drifted                          // within range, but old enough and far enough from the target
	BoostOver                        // the CPU startup boost has served
	TooBigToPlace                    // cannot be scheduled, and is recommended to be smaller
)

// The reasons to leave a pod alone.
const (
	ModeOff               ReasonCode = iota + 32 // the autoscaler's mode changes no running pods
	GateOff                                      // the mode needs a feature gate that is off
	NoAdvice                                     // nothing is recommended for any of its containers
	PodTooYoung                                  // within range, and not old enough for less
	AutoscalerTooYoung                           // within range, and the autoscaler is not old enough for less
	SmallChange                                  // within range, and close to the target
	SameSize                                     // a replacement would get what the pod has
	Boosted                                      // its startup boost lasts
	NoController                                 // no controller would replace it
	Starting                                     // Pending: a resize must wait until it runs
	NoContainerRunning                           // all containers wait for their next start: a resize must wait too
	Unscheduled                                  // waits for a node
	TooFewReplicas                               // its group has fewer pods than the minimum
	ReplicasUnknown                              // its controller wants none, or it cannot be said how many
	BudgetSpent                                  // as many pods as may be missing are missing after this pass
	NotReady                                     // as many pods as may be missing are not ready yet
	RequirementsUnmet                            // the user's eviction requirements do not hold
	QoSChange                                    // a resize may not change the quality-of-service class
	BackingOff                                   // changes made before did not help
	NoNodeFits                                   // a replacement of the new size would fit no node
	ResizeWaiting                                // the kubelet waits for room on the node
	ResizeRunning                                // the kubelet is at it
	ResizeFailed                                 // the kubelet reports an error
	ResizeImpossible                             // the node can never give it
	ResizeUnclear                                // the kubelet reports something this version does not know
	MemoryInUse                                  // the kubelet does not lower a memory limit below what is used
	NotSmallerThanRefused                        // the node refused this much before
	EvictionRefused                              // the API server refused to evict it
	DisruptionBudget                             // a PodDisruptionBudget did not allow to evict it
	ResizeRefused                                // the API server refused to resize it
	ResizeOverQuota                              // a quota or LimitRange refused to resize it, and would refuse a replacement
	Unanswered                                   // the outcome of an eviction or resize is unknown
	AwaitingReplacement                          // its resize was refused, and it is not known whether a replacement would be, too
	Probing                                      // evictions did not help; another pod is evicted first, to find out whether one helps now
	ReplacementMissing                           // pods evicted before have no replacement
	ReplacementRefused                           // the API server would refuse the pod with the new size
	OverQuota                                    // the pod with the new size would exceed a ResourceQuota
	RateLimited                                  // its turn did not come in this pass: rate limit
	OutOfTime                                    // its turn did not come in this pass: the pass ended
	AlreadyEvicted                               // evicted, and the watch still shows it
	AlreadyGone                                  // deleted or replaced before its turn came

	lastCode = AlreadyGone
)

var codeNames = map[ReasonCode]string{
	Fits: "Fits", BelowRange: "BelowRange", AboveRange: "AboveRange", MissingRequest: "MissingRequest",
	OutOfMemory: "OutOfMemory", Drifted: "Drifted", BoostOver: "BoostOver", TooBigToPlace: "TooBigToPlace",
	ModeOff: "ModeOff", GateOff: "GateOff", NoAdvice: "NoAdvice", PodTooYoung: "Young", AutoscalerTooYoung: "Fresh", SmallChange: "SmallChange",
	SameSize: "SameSize", Boosted: "Boosted", NoController: "Unowned", Starting: "Starting", NoContainerRunning: "NothingRuns", Unscheduled: "Unscheduled",
	TooFewReplicas: "TooFewReplicas", ReplicasUnknown: "ReplicasUnknown", BudgetSpent: "BudgetSpent",
	NotReady: "NotReady", RequirementsUnmet: "RequirementsUnmet", QoSChange: "QoSChange", BackingOff: "BackingOff",
	NoNodeFits: "Unplaceable", ResizeWaiting: "ResizeWaiting", ResizeRunning: "ResizeRunning",
	ResizeFailed: "ResizeFailed", ResizeImpossible: "ResizeImpossible", ResizeUnclear: "ResizeUnclear",
	MemoryInUse: "MemoryInUse", NotSmallerThanRefused: "NotSmallerThanRefused",
	EvictionRefused: "EvictionRefused", DisruptionBudget: "DisruptionBudget", ResizeRefused: "ResizeRefused",
	ResizeOverQuota: "ResizeOverQuota", Unanswered: "Unanswered", ReplacementMissing: "ReplacementMissing",
	AwaitingReplacement: "AwaitingReplacement", Probing: "Probing",
	RateLimited: "RateLimited", OutOfTime: "OutOfTime", AlreadyEvicted: "AlreadyEvicted", AlreadyGone: "AlreadyGone",
	ReplacementRefused: "ReplacementRefused", OverQuota: "OverQuota",
}

// String returns the name of the reason.
func (w ReasonCode) String() string {
	if n, ok := codeNames[w]; ok {
		return n
	}
	return fmt.Sprintf("Why(%d)", uint8(w))
}

// A Reason says why a decision was taken. Which fields mean something depends on Why. The text is made when it is asked
// for, so that a pass over many pods makes none.
type Reason struct {
	Code      ReasonCode
	Fallback  ReasonCode // why an eviction, and not a resize
	Resource  cluster.Resource
	Container string        // "" when the pod has only one
	From, To  int64         // of the resource: the request, and what it should be
	Have      int           // pods, percent or attempts
	Want      int           // what Have would have to be, or is counted of
	For       time.Duration // how long something took
	Until     time.Time     // when the reason ends by itself
	Text      string        // what the kubelet or the API server said, or a mode
}

// String returns the reason as a sentence without its full stop.
func (r Reason) String() string {
	s := r.sentence()
	if b := fallbackTexts[r.Fallback]; b != "" {
		s += "; " + b
	}
	return s
}

// What an eviction says of the resize that was not possible.
var fallbackTexts = map[ReasonCode]string{
	NoContainerRunning: "evicted because a resize is refused while no container runs",
	QoSChange:          "evicted because a resize would change the quality-of-service class",
	ResizeWaiting:      "evicted because the node had no room for a resize",
	ResizeRunning:      "evicted because the resize did not end",
	ResizeFailed:       "evicted because the resize failed",
	ResizeImpossible:   "evicted because the node can never give as much",
	ResizeUnclear:      "evicted because the state of the resize is unclear",
	ResizeRefused:      "evicted because the API server refused the resize",
}

func (r Reason) sentence() string {
	what := r.Resource.String()
	if r.Container != "" {
		what = r.Container + ": " + what
	}
	change := cluster.Format(r.Resource, r.From) + " → " + cluster.Format(r.Resource, r.To)
	switch r.Code {
	case Fits:
		return "has the recommended size"
	case BelowRange:
		return what + " below range: " + change
	case AboveRange:
		return what + " above range: " + change
	case MissingRequest:
		return what + " not requested: should be " + cluster.Format(r.Resource, r.To)
	case OutOfMemory:
		when := "right"
		if r.For >= time.Second {
			when = span(r.For)
		}
		if r.Container != "" {
			return fmt.Sprintf("%s: out of memory %s after its start: %s %s", r.Container, when, r.Resource, change)
		}
		return fmt.Sprintf("out of memory %s after its start: %s %s", when, r.Resource, change)
	case Drifted:
		return fmt.Sprintf("%d%% off after %s: %s %s", r.Have, span(r.For), what, change)
	case BoostOver:
		return "startup boost is over: " + what + " " + change
	case TooBigToPlace:
		return "cannot be scheduled: " + what + " " + change
	case ModeOff:
		return "update mode " + r.Text + " leaves running pods alone"
	case GateOff:
		return "update mode " + r.Text + " needs its feature gate"
	case NoAdvice:
		return "nothing is recommended yet"
	case PodTooYoung:
		if r.Until.IsZero() {
			return "within range, and not started yet"
		}
		return "within range until " + clock(r.Until) + ", when it is old enough for less"
	case AutoscalerTooYoung:
		return "within range until " + clock(r.Until) + ", when the autoscaler is old enough for less"
	case SmallChange:
		return fmt.Sprintf("within range, and only %d%% off (%d%% would be enough)", r.Have, r.Want)
	case SameSize:
		return "would get the same size"
	case Boosted:
		if r.Until.IsZero() {
			return "startup boost lasts until it is ready"
		}
		return "startup boost lasts until " + clock(r.Until)
	case NoController:
		return "no controller would replace it"
	case Starting:
		return "is starting; a resize waits until it runs"
	case NoContainerRunning:
		return "waits for its next start; a resize is refused while no container runs"
	case Unscheduled:
		return "waits for a node"
	case TooFewReplicas:
		return fmt.Sprintf("too few replicas: %d, and %d are the minimum for an update", r.Have, r.Want)
	case ReplicasUnknown:
		return "its controller wants no replicas, or does not say how many"
	case BudgetSpent:
		return fmt.Sprintf("budget spent: %d of %d pods changed in this pass", r.Have, r.Want)
	case NotReady:
		return fmt.Sprintf("waits for pods to become ready: %d of %d are", r.Have, r.Want)
	case RequirementsUnmet:
		return "eviction requirements are not met"
	case QoSChange:
		return "a resize would change the quality-of-service class"
	case BackingOff:
		return fmt.Sprintf("backing off until %s after %s did not help", clock(r.Until), count(r.Have, r.Text))
	case NoNodeFits:
		return "fits no node: " + r.Text
	case ResizeWaiting:
		return said("resize waits for room on the node", r.Text)
	case ResizeRunning:
		return "resize is under way"
	case ResizeFailed:
		return said("resize failed", r.Text)
	case ResizeImpossible:
		return said("the node can never give as much", r.Text)
	case ResizeUnclear:
		return said("the state of the resize is unclear", r.Text)
	case MemoryInUse:
		return said("the kubelet does not lower a memory limit below what is used", r.Text)
	case NotSmallerThanRefused:
		return "the node refused a resize to no more than this"
	case ReplacementRefused:
		return said("the API server would refuse the pod with the new size", r.Text)
	case OverQuota:
		return said("the pod with the new size would exceed a ResourceQuota", r.Text)
	}
	return r.outcome()
}

// outcome says what became of a change that was tried, or why it was not tried.
func (r Reason) outcome() string {
	switch r.Code {
	case EvictionRefused:
		return again(said("the API server refused the eviction", r.Text), r.Until)
	case DisruptionBudget:
		return again(said("a PodDisruptionBudget does not allow the eviction", r.Text), r.Until)
	case ResizeRefused:
		return again(said("the API server refused the resize", r.Text), r.Until)
	case ResizeOverQuota:
		s := said("a ResourceQuota or LimitRange does not allow the resize", r.Text)
		return again(s+"; the pod is not evicted instead, because its replacement would be refused, too", r.Until)
	case Unanswered:
		if r.For > 0 {
			return again(said("for "+span(r.For)+" the API server has given no clear answer to attempts to change it", r.Text), r.Until)
		}
		return again(said("the API server gave no clear answer, the change may have been made", r.Text), r.Until)
	case AwaitingReplacement:
		return "waits until another evicted pod has its replacement; " + said("the API server refused the resize", r.Text)
	case ReplacementMissing:
		return fmt.Sprintf("pods evicted before have no replacement: %d of %d pods exist, %s after the eviction", r.Have, r.Want, span(r.For))
	case Probing:
		return "evictions before did not help; another pod is evicted first, to find out whether an eviction helps now"
	case RateLimited:
		return "waits for the rate limit of evictions and resizes"
	case OutOfTime:
		return "the pass ended before its turn"
	case AlreadyEvicted:
		return "was evicted and is still shown as running"
	case AlreadyGone:
		return "was deleted or replaced before its turn"
	}
	return r.Code.String()
}

// again adds to a text when the next attempt may be made.
func again(s string, until time.Time) string {
	if until.IsZero() {
		return s
	}
	return s + "; next attempt after " + clock(until)
}

func said(s, text string) string {
	if text == "" {
		return s
	}
	return s + ": " + text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func clock(t time.Time) string { return t.UTC().Format("15:04") }

// span writes a duration with its one or two largest units: "42s", "3m", "13h30m", "2d".
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < day && d%time.Hour >= time.Minute:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d < day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}
