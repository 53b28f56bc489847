// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
)

// A ReasonCode is the cause of a decision. Its text is a stable name for metrics and logs; Reason.String is the sentence for
// users.
type ReasonCode uint8

// The reasons for a pod to change.
const (
	Fits            ReasonCode = iota // none: the pod has the recommended requests
	BelowRange                        // a request is below the lower bound
	AboveRange                        // a request is above the upper bound
	MissingRequest                    // a recommended resource has no request
	OutOfMemory                       // a container was OOM-killed soon after its start
	Drifted                           // within bounds, but old enough and different enough from the target
	BoostOver                         // the CPU startup boost has ended
	TooBigToPlace                     // the pod cannot be scheduled and its recommendation is smaller
	NodeOutOfMemory                   // a container without a memory limit was OOM-killed, and its request is raised
	MakesRoom                         // another pod on the node needs the room that this one does not need
	MovesForRoom                      // another pod on the node needs the room, and this one fits on another node
	Incomplete                        // the pod got a part of an increase because its node had no room for all of it
	LargerNode                        // the pod was scaled down to its node, and a larger node fits its recommendation
	NodeNearlyFull                    // the pods of the node use the memory that is for peaks, and this one uses more than it requests
)

// The reasons to leave a pod alone.
const (
	ModeOff               ReasonCode = iota + 32 // the VPA's update mode changes no running pods
	GateOff                                      // the update mode needs a feature gate that is off
	NoAdvice                                     // there is no recommendation for any container
	PodTooYoung                                  // within bounds, and the pod is too young for a smaller change
	AutoscalerTooYoung                           // within bounds, and the VPA is too young for a smaller change
	SmallChange                                  // within bounds and close to the target
	SameSize                                     // a replacement would get the same requests
	Boosted                                      // the CPU startup boost is active
	NodeSizeUnknown                              // pods are sized by their node, and its size is not known
	NoController                                 // no controller would replace the pod
	Starting                                     // the pod is Pending: a resize is possible once it runs
	NoContainerRunning                           // no container runs: a resize is possible once one does
	Unscheduled                                  // the pod has no node yet
	TooFewReplicas                               // the group has fewer live pods than the minimum
	ReplicasUnknown                              // the controller's number of replicas is 0 or unknown
	BudgetSpent                                  // as many pods of the group as may be disrupted are changed in this pass, or were within the window of the budget (disruption.Limits)
	NotReady                                     // as many pods as may be unavailable are not available
	RequirementsUnmet                            // the VPA's eviction requirements do not hold
	QoSChange                                    // a resize must not change the QoS class
	BackingOff                                   // earlier changes had no lasting effect
	NoNodeFits                                   // no node can hold a replacement with the new requests
	ResizeWaiting                                // the kubelet waits for room on the node
	ResizeRunning                                // the kubelet is resizing the pod
	ResizeFailed                                 // the kubelet reports an error
	ResizeImpossible                             // the node can never provide the requests
	ResizeUnclear                                // the kubelet reports a state that this version does not know
	MemoryInUse                                  // the kubelet does not lower a memory limit below the usage
	NotSmallerThanRefused                        // the node refused the same or a smaller size before
	EvictionRefused                              // the API server refused the eviction
	DisruptionBudget                             // a PodDisruptionBudget does not allow the eviction
	ResizeRefused                                // the API server refused the resize
	ResizeOverQuota                              // a quota or LimitRange refused the resize and would refuse a replacement
	Unanswered                                   // the outcome of an eviction or resize is unknown
	ServerNotReached                             // no connection to the API server could be opened for an eviction or resize
	AwaitingReplacement                          // the resize was refused, and it is unknown whether a replacement would be refused too
	Probing                                      // it is not known yet whether the evictions of other pods help
	ReplacementMissing                           // pods are missing after an eviction
	ReplacementRefused                           // the API server would refuse a pod with the new requests
	OverQuota                                    // a pod with the new requests would exceed a ResourceQuota
	RateLimited                                  // the rate limit allows no more actions in this pass
	OutOfTime                                    // the pass ended before the action was tried
	AlreadyEvicted                               // evicted, and the watch still shows the pod
	AlreadyGone                                  // deleted or replaced before the action was tried
	LeftToHPA                                    // a HorizontalPodAutoscaler scales the pods by the request that should change
	HPANotWritten                                // the target of a HorizontalPodAutoscaler could not be changed before the request

	FewKills         // a pod to rescue was OOM-killed too few times in a row to be deleted
	DataWouldBeLost  // a deletion to rescue the pod would lose data
	BudgetsUnknown   // podfit cannot read PodDisruptionBudgets
	BudgetOfOthers   // a disruption budget lacks other pods than OOM-killed ones
	RescueInProgress // the replacement of another deleted pod is not ready yet
	NotEnoughMemory  // the replacement of a deleted pod was OOM-killed with about as much memory
	DeletionRefused  // the API server refused the deletion

	Interrupted // the updater before this one ended while it changed pods of the workload

	AwaitingRoom // the pod got a part of an increase, and its node has no room for the rest
	RoomReserved // the node has room for the increase of the pod, which another pod gets first

	ChangesTooOften // pods were evicted again soon after they were replaced, because the recommendation keeps changing

	Frozen         // the user has stopped all changes
	OutsideWindow  // no change window is open
	InitialDelay   // the first recommendation is too new
	BlastRadius    // enough requests were changed in the last hour
	AwaitingCanary // another pod shows first whether the new size works
	Reverted       // the new size did not work, and the previous size applies

	Surging     // a surge of the workload is in progress
	SurgeFailed // a surge of the pod ended without its removal

	AwaitingCapacity // no node has room for the replacement, and capacity was asked for
	CapacityNotFound // the request for capacity has failed

	NoCapacityProvider // no node has room for the replacement, and capacity cannot be asked for
	NoFreeRoom         // no node has room for the replacement of a pod that shrinks, for which no capacity is asked for

	NoWayBack // a new size could not be reverted by an eviction

	ResizeStalled // the kubelet does not complete the resize of a pod to rescue, and the mode does not evict it

	NotYetAtAdmission   // a dry run shows that the admission controller may not know the recommended requests yet
	NotSizedAtAdmission // a dry run shows that a replacement would not get the recommended requests

	NotAnnounced // it cannot be stored that the updater acts, so a restart could repeat the action

	DryRunUnanswered // dry runs of replacements in the namespace have no answer, and evictions are in doubt

	Protected // an annotation of the pod forbids to evict it

	EffectUnknown // the replacement of the last evicted pod does not show whether the eviction had an effect

	ObjectiveMissed // the canary has run well, but a query that must hold does not, or its value is unknown
)

// String returns the name of the reason.
func (c ReasonCode) String() string {
	if e, ok := entries[c]; ok {
		return e.name
	}
	return fmt.Sprintf("ReasonCode(%d)", uint8(c))
}

// NeedsAttention reports whether a reason to leave a pod does not end by itself, or indicates a problem.
func (c ReasonCode) NeedsAttention() bool { return entries[c].attention }

// A Reason is the cause of a decision. Code determines which of the other fields are set. The text is made on demand, so that
// a pass over many pods makes none.
type Reason struct {
	Code      ReasonCode
	Fallback  ReasonCode // why the pod is evicted and not resized; Fits when a resize is no alternative
	Resource  cluster.Resource
	Container string        // "" when the pod has only one
	From, To  int64         // of the resource: the request and the target
	Have      int           // pods, percent or attempts
	Want      int           // the value that Have is compared with
	For       time.Duration // how long something took
	Until     time.Time     // when the reason ends by itself
	Text      string        // message of the kubelet or the API server, an update mode, or another pod
	Elsewhere string        // instead of Text, another pod in another namespace: not in String, see Revealed
	Note      string        // a further sentence, "" if there is none
	Part      bool          // the pod gets only a part of the increase for now
	Surge     bool          // the pod is not evicted but replaced by a surge
}

// String returns the reason as full sentences.
func (r Reason) String() string {
	s := wording.Fill(r.template(), r.value) + "."
	if r.Part {
		s += " The pod gets a part of the increase now, and the rest when its node has room."
	}
	if r.Note != "" {
		s += " " + r.Note
	}
	if b := entries[r.Fallback].instead; b != "" {
		if r.Surge {
			b = strings.Replace(b, "The pod is evicted", "A surge replaces the pod", 1)
		}
		s += " " + b
	}
	return s
}

// Revealed returns the reason with the name of a pod in another namespace in its text. It is for readers who may list the pods of all
// namespaces: conditions, events and logs of a namespace name nothing of another one.
func (r Reason) Revealed() Reason {
	if r.Elsewhere != "" {
		r.Text = r.Elsewhere
		r.Elsewhere = ""
	}
	return r
}

// template returns the text of the reason with the names of values.
func (r Reason) template() string {
	e, ok := entries[r.Code]
	switch {
	case !ok:
		return r.Code.String()
	case e.withText != "" && r.Text != "":
		return e.withText
	case e.undated != "" && r.Until.IsZero():
		return e.undated
	}
	return e.text
}

func (r Reason) value(name string) string {
	if v, ok := values[name]; ok {
		return v(r)
	}
	return name
}

var values = map[string]func(Reason) string{
	"text":  func(r Reason) string { return r.Text },
	"cause": Reason.cause,
	"quote": func(r Reason) string { return around(": ", r.cause(), "") },
	"pod":   Reason.pod,
	"Pod":   func(r Reason) string { return capitalized(r.pod()) },

	"resource":  func(r Reason) string { return wording.Name(r.Resource) },
	"Container": func(r Reason) string { return cmp.Or(around("Container ", r.Container, ""), "The container") },
	"request": func(r Reason) string { // "memory request 64Mi of container app"
		return wording.Name(r.Resource) + " request " + quantity(r.Resource, r.From) + r.ofContainer()
	},
	"target": Reason.target,
	"change": func(r Reason) string {
		return fmt.Sprintf("the %s request%s is %s and the target is %s",
			wording.Name(r.Resource), r.ofContainer(), quantity(r.Resource, r.From), r.target())
	},
	"pressure": func(r Reason) string { return around(". Node ", r.Text, " reports memory pressure") },
	"from":     func(r Reason) string { return quantity(cluster.Memory, r.From) },
	"to":       func(r Reason) string { return quantity(cluster.Memory, r.To) },

	"have":        func(r Reason) string { return strconv.Itoa(r.Have) },
	"want":        func(r Reason) string { return strconv.Itoa(r.Want) },
	"live pods":   func(r Reason) string { return wording.Count(r.Have, "live pod") },
	"wanted pods": func(r Reason) string { return wording.Count(r.Want, "pod") },
	"actions": func(r Reason) string { // the last ones, which Have counts
		return wording.Form(r.Have, r.Text, wording.Count(r.Have, r.Text))
	},
	"budgets": Reason.budgets,
	"culprit": Reason.culprit,
	"unconfirmed": func(r Reason) string { // For is set if the API server has not answered for so long
		if r.For > 0 {
			return "has confirmed no change of the pod for " + wording.Span(r.For)
		}
		return "did not confirm the change, so the outcome is unknown"
	},

	"until": func(r Reason) string { return timestamp(r.Until) },
	"next": func(r Reason) string {
		if r.Until.IsZero() {
			return ""
		}
		return ". The next attempt is possible after " + timestamp(r.Until)
	},
	"for": func(r Reason) string { return wording.Span(r.For) },
	"soon": func(r Reason) string {
		if r.For < time.Second {
			return "less than 1s"
		}
		return wording.Span(r.For)
	},
}

// cause returns the message of the kubelet or the API server without its final period.
func (r Reason) cause() string { return strings.TrimRight(r.Text, ". \n") }

func (r Reason) ofContainer() string { return around(" of container ", r.Container, "") }

func (r Reason) target() string { return quantity(r.Resource, r.To) }

// pod returns the other pod that the reason is about, in a sentence.
func (r Reason) pod() string { return cmp.Or(around("pod ", r.Text, ""), "another pod") }

// budgets returns why a pod is not deleted although it is OOM-killed. Want is 0 if more than one PodDisruptionBudget selects it.
func (r Reason) budgets() string {
	if r.Want == 0 {
		return "more than one PodDisruptionBudget selects it (" + strings.TrimRight(r.Text, ".") + "). Delete the pod, or all but one of them"
	}
	return fmt.Sprintf("PodDisruptionBudget %s lacks other pods, too: it requires %s (healthy or OOM-killed: %d). "+
		"Find out why the others are not ready, or delete the pod", r.Text, wording.Count(r.Want, "healthy pod"), r.Have)
}

// culprit returns why a replacement would not get the recommended requests. Want is 1 if the admission controller took part.
func (r Reason) culprit() string {
	if r.Want == 1 {
		return "The admission controller was called, so another webhook, policy or LimitRange changes the requests afterwards"
	}
	return "The webhook of the admission controller was not called for it. " +
		"Check that the webhook is registered and can be reached from the API server"
}

// timestamp writes a time with its date and zone: events and logs are read days later and in other time zones.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// around returns a word with text before and after it; "" if there is no word.
func around(before, word, after string) string {
	if word == "" {
		return ""
	}
	return before + word + after
}

func capitalized(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// quantity writes an amount with its unit: "100m" or "2 cores" of CPU, "64Mi" or "0 bytes" of memory.
func quantity(res cluster.Resource, amount int64) string {
	s := cluster.Format(res, amount)
	switch {
	case res == cluster.CPU && amount == 1000:
		return s + " core"
	case res == cluster.CPU && amount%1000 == 0:
		return s + " cores"
	case res == cluster.Memory && amount < 1<<10:
		return s + " bytes"
	}
	return s
}
