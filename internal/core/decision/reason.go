// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rollout"
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
	NoController                                 // no controller would replace the pod
	Starting                                     // the pod is Pending: a resize is possible once it runs
	NoContainerRunning                           // no container runs: a resize is possible once one does
	Unscheduled                                  // the pod has no node yet
	TooFewReplicas                               // the group has fewer live pods than the minimum
	ReplicasUnknown                              // the controller's number of replicas is 0 or unknown
	BudgetSpent                                  // as many pods of the group as may be disrupted are changed in this pass, or were within Budget.Window
	NotReady                                     // as many pods as may be unavailable are not ready
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
	Probing                                      // earlier evictions had no effect; another pod is evicted first as a probe
	ReplacementMissing                           // evicted pods have no replacement
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
	BlastRadius    // enough requests were changed in the last hour
	AwaitingCanary // another pod shows first whether the new size works
	Reverted       // the new size did not work, and the previous size applies

	Surging     // a surge of the workload is in progress
	SurgeFailed // a surge of the pod ended without its removal

	AwaitingCapacity // no node has room for the replacement, and capacity was asked for
	CapacityNotFound // the request for capacity has failed

	NoCapacityProvider // no node has room for the replacement, and capacity cannot be asked for

	NoWayBack // a new size could not be reverted by an eviction

	ResizeStalled // the kubelet does not complete the resize of a pod to rescue, and the mode does not evict it

	NotSizedAtAdmission // a dry run shows that a replacement would not get the recommended requests

	NotAnnounced // it cannot be stored that the updater acts, so a restart could repeat the action

	DryRunUnanswered // dry runs of replacements in the namespace have no answer, and evictions are in doubt

	lastCode = DryRunUnanswered
)

// codeNames are label values of metrics, so they are never changed.
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
	ResizeOverQuota: "ResizeOverQuota", Unanswered: "Unanswered", ServerNotReached: "ServerNotReached", ReplacementMissing: "ReplacementMissing",
	AwaitingReplacement: "AwaitingReplacement", Probing: "Probing",
	RateLimited: "RateLimited", OutOfTime: "OutOfTime", AlreadyEvicted: "AlreadyEvicted", AlreadyGone: "AlreadyGone",
	ReplacementRefused: "ReplacementRefused", OverQuota: "OverQuota",
	LeftToHPA: "LeftToHPA", HPANotWritten: "HPANotWritten", NodeOutOfMemory: "NodeOutOfMemory",
	FewKills: "FewKills", DataWouldBeLost: "DataWouldBeLost", BudgetsUnknown: "BudgetsUnknown", BudgetOfOthers: "BudgetOfOthers",
	RescueInProgress: "RescueInProgress", NotEnoughMemory: "NotEnoughMemory", DeletionRefused: "DeletionRefused", Interrupted: "Interrupted",
	MakesRoom: "MakesRoom", MovesForRoom: "MovesForRoom", Incomplete: "Incomplete", LargerNode: "LargerNode", AwaitingRoom: "AwaitingRoom", RoomReserved: "RoomReserved", ChangesTooOften: "ChangesTooOften",
	Frozen: "Frozen", OutsideWindow: "ChangeWindow", BlastRadius: "BlastRadius",
	AwaitingCanary: "Canary", Reverted: "Reverted",
	Surging: "Surging", SurgeFailed: "SurgeFailed",
	AwaitingCapacity: "AwaitingCapacity", CapacityNotFound: "CapacityNotFound", NoCapacityProvider: "NoCapacityProvider", NoWayBack: "NoWayBack",
	ResizeStalled: "ResizeStalled", NotSizedAtAdmission: "NotSizedAtAdmission", NotAnnounced: "NotAnnounced",
	DryRunUnanswered: "DryRunUnanswered",
}

// String returns the name of the reason.
func (c ReasonCode) String() string {
	if n, ok := codeNames[c]; ok {
		return n
	}
	return fmt.Sprintf("ReasonCode(%d)", uint8(c))
}

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
	Note      string        // a further sentence, "" if there is none
	Part      bool          // the pod gets only a part of the increase for now
	Surge     bool          // the pod is not evicted but replaced by a surge
}

// String returns the reason as full sentences.
func (r Reason) String() string {
	s := r.sentence() + "."
	if r.Part {
		s += " The pod gets a part of the increase now, and the rest when its node has room."
	}
	if r.Note != "" {
		s += " " + r.Note
	}
	if b := fallbackSentences[r.Fallback]; b != "" {
		if r.Surge {
			b = strings.Replace(b, "The pod is evicted", "A surge replaces the pod", 1)
		}
		s += " " + b
	}
	return s
}

// fallbackSentences explain why a pod is evicted and not resized.
var fallbackSentences = map[ReasonCode]string{
	NoContainerRunning: "The pod is evicted because it cannot be resized while no container is running.",
	QoSChange:          "The pod is evicted because a resize would change its QoS class.",
	ResizeWaiting:      "The pod is evicted because the node had no room for a resize.",
	ResizeRunning:      "The pod is evicted because its resize did not complete in time.",
	ResizeFailed:       "The pod is evicted because its resize failed.",
	ResizeImpossible:   "The pod is evicted because its node cannot provide the requests.",
	ResizeUnclear:      "The pod is evicted because the state of its resize is unknown.",
	ResizeRefused:      "The pod is evicted because the API server refused to resize it.",
	DisruptionBudget:   "The pod is deleted because a PodDisruptionBudget does not allow its eviction, and lacks only pods that are OOM-killed.",
}

// fixedSentences are the sentences without values.
var fixedSentences = map[ReasonCode]string{
	Fits:                  "The pod has the recommended requests",
	NoAdvice:              "There is no recommendation for any container of the pod",
	SameSize:              "A replacement would get the same requests as the pod. Check minAllowed and maxAllowed of the VPA and the LimitRanges of the namespace",
	NoController:          "No controller owns the pod, so nothing would replace it after an eviction. Delete and create the pod to apply the recommendation",
	Starting:              "The pod is starting. It can be resized when it runs",
	NoContainerRunning:    "No container of the pod is running, and Kubernetes refuses to resize such a pod",
	Unscheduled:           "The pod has no node yet. Its events show the cause",
	ReplicasUnknown:       "The number of replicas that the controller wants is unknown or 0. Check the scale subresource of the controller",
	RequirementsUnmet:     "The eviction requirements of the VPA do not hold",
	QoSChange:             "A resize would change the QoS class of the pod, which Kubernetes refuses. Update mode InPlaceOrRecreate or Recreate evicts such pods",
	ResizeStalled:         "The pod is OOM-killed, and the kubelet does not complete the resize that gives it more memory. Update mode InPlace does not evict it: delete the pod, or set update mode InPlaceOrRecreate",
	NotSmallerThanRefused: "The node cannot provide the requests: it refused the same or a smaller size before. The pod is resized when the recommendation falls",
	Probing:               "Earlier evictions had no lasting effect. Another pod is evicted first to test whether an eviction helps now",
	RateLimited:           "The rate limit allows no more evictions or resizes in this pass",
	OutOfTime:             "The pass ended before the pod was changed",
	AlreadyEvicted:        "The pod was evicted, and the watch still shows it as running",
	AlreadyGone:           "The pod was deleted or replaced before it was changed",
	HPANotWritten:         "The target utilization of the HorizontalPodAutoscaler must change before the request of the pod, and it has not been changed yet",
	DryRunUnanswered: "Earlier evictions had no effect, so a dry run must show first whether a replacement gets the recommended requests. The API server does not answer dry runs in the namespace in time. " +
		"The next pass tries again",
	NoWayBack: "The VPA has a canary, and the pod is not evicted, because podfit cannot store UpdateState objects: if the new size failed, new pods would get it again. " +
		"Install the CRDs and the rights of deploy/, or set the annotation podfit.dev/rollout to all",
	DataWouldBeLost: "A PodDisruptionBudget does not allow the eviction of the OOM-killed pod, and it is not deleted because it has a volume with data (emptyDir, hostPath or ephemeral). " +
		"If the data may be lost, delete the pod",
	BudgetsUnknown: "A PodDisruptionBudget does not allow the eviction of the OOM-killed pod, and it is not deleted because podfit cannot read PodDisruptionBudgets. " +
		"Grant list and watch on poddisruptionbudgets, or delete the pod",
}

// sentence returns the text of the reason without the final period.
func (r Reason) sentence() string {
	if s, ok := fixedSentences[r.Code]; ok {
		return s
	}
	switch r.Code {
	case BelowRange:
		return fmt.Sprintf("The %s is below the lower bound; the target is %s", r.request(), r.target())
	case AboveRange:
		return fmt.Sprintf("The %s is above the upper bound; the target is %s", r.request(), r.target())
	case MissingRequest:
		return fmt.Sprintf("%s has no %s request; the target is %s", r.container(), label(r.Resource), r.target())
	case OutOfMemory:
		after := "less than 1s"
		if r.For >= time.Second {
			after = Span(r.For)
		}
		return fmt.Sprintf("%s was OOM-killed %s after its start; %s", r.container(), after, r.change()) + r.pressure()
	case NodeOutOfMemory:
		return fmt.Sprintf("%s has no memory limit and was OOM-killed because its node was short of memory. A larger request protects it; %s", r.container(), r.change()) + r.pressure()
	case Drifted:
		return fmt.Sprintf("The requests differ from the targets by %d%% and the pod has run for %s; %s", r.Have, Span(r.For), r.change())
	case BoostOver:
		return "The CPU startup boost has ended; " + r.change()
	case TooBigToPlace:
		return "The pod cannot be scheduled and its recommendation is smaller; " + r.change()
	case LeftToHPA:
		return fmt.Sprintf("HorizontalPodAutoscaler %s scales the workload by %s utilization, so the %s request is not changed; %s", r.Text, label(r.Resource), label(r.Resource), r.change())
	case MakesRoom:
		return "Pod " + r.Text + " on the same node needs room; " + r.change()
	case MovesForRoom:
		return "Pod " + r.Text + " on the same node needs the room of the pod, and another node has room for a replacement"
	case Incomplete:
		return "The pod has only a part of an increase, because its node had no room for all of it; " + r.change()
	case LargerNode:
		return "The pod was scaled down to its node " + r.Text + ", and a larger node fits its recommendation; " + r.change()
	case ModeOff:
		return "Update mode " + r.Text + " does not change running pods"
	case GateOff:
		return "Update mode " + r.Text + " requires the feature gate InPlace. Enable it with --feature-gates=InPlace=true"
	case PodTooYoung:
		if r.Until.IsZero() {
			return "The requests are within their bounds, and the pod has not started yet"
		}
		return "The requests are within their bounds, so the pod, which is new, is not changed before " + timestamp(r.Until)
	case AutoscalerTooYoung:
		return "The requests are within their bounds, so the pod is not changed before " + timestamp(r.Until) + ", because the VPA is new"
	case SmallChange:
		return fmt.Sprintf("The requests are within their bounds and differ from the targets by %d%%, less than the threshold of %d%%", r.Have, r.Want)
	case Boosted:
		if r.Until.IsZero() {
			return "The CPU startup boost is active until the pod is ready"
		}
		return "The CPU startup boost is active until " + timestamp(r.Until)
	case TooFewReplicas:
		return fmt.Sprintf("The controller has %s, less than the minimum of %d. Lower minReplicas of the VPA or --min-replicas to allow updates", count(r.Have, "live pod"), r.Want)
	case BudgetSpent:
		return fmt.Sprintf("The disruption budget is used up: this pass changes %d of %s", r.Have, count(r.Want, "pod"))
	case NotReady:
		return fmt.Sprintf("Too few pods are ready: %d of %d", r.Have, r.Want)
	case BackingOff:
		last := "The last " + r.Text
		if r.Have != 1 {
			last = "The last " + count(r.Have, r.Text)
		}
		return last + " had no lasting effect. Check that the admission controller runs and that nothing else sets the requests" + nextAttempt(r.Until)
	case NotSizedAtAdmission:
		return r.notSized() + nextAttempt(r.Until)
	case ChangesTooOften:
		return fmt.Sprintf("The pods of the workload were replaced %d times in a short time, because the recommendation keeps changing", r.Have) + nextAttempt(r.Until)
	case NoNodeFits:
		return "No node can hold a pod with the requests " + r.Text + ". Add a larger node, or set maxAllowed in the VPA"
	default:
		return r.outcome()
	}
}

// outcome returns the text for a change that was tried, is in progress, or would be refused.
func (r Reason) outcome() string {
	switch r.Code {
	case ResizeRunning:
		if r.Until.IsZero() {
			return "A resize of the pod is in progress"
		}
		return "A resize of the OOM-killed pod is in progress. Its rescue waits for the resize until " + timestamp(r.Until)
	case ResizeWaiting:
		return r.quote("The resize waits for room on the node")
	case AwaitingRoom:
		return r.quote("The pod has a part of the increase. The rest waits for room on the node, which lacks")
	case RoomReserved:
		return "The free room on the node is reserved for the resize of pod " + r.Text + ", at most until " + timestamp(r.Until)
	case Surging:
		return "A surge of the Deployment is in progress. It replaces pod " + r.Text + " and is taken back at " + timestamp(r.Until) + " if the new pod is not ready"
	case SurgeFailed:
		return r.quote("The surge of the pod was taken back") + nextAttempt(r.Until)
	case AwaitingCapacity:
		s := "No node has free room for a replacement with the requests " + r.Text + ". The pod is evicted when the requested capacity is there"
		if r.Until.IsZero() {
			return s + ", after other requests for capacity"
		}
		return s + ", if that is before " + timestamp(r.Until)
	case CapacityNotFound:
		return r.quote("No node has free room for a replacement, and the request for capacity failed") + nextAttempt(r.Until)
	case NoCapacityProvider:
		return "No node has free room for a replacement with the requests " + r.Text + ", and the cluster has no way to ask for capacity"
	case ResizeFailed:
		return r.quote("The kubelet failed to resize the pod")
	case ResizeImpossible:
		return r.quote("The node cannot provide the requests")
	case ResizeUnclear:
		return r.quote("The pod has a resize state that this version of podfit does not support")
	case MemoryInUse:
		return r.quote("The kubelet does not lower the memory limit below the current usage") + ". The resize completes when the usage falls"
	case ReplacementRefused:
		return r.quote("The API server would refuse a pod with the new requests")
	case OverQuota:
		return r.quote("A pod with the new requests would exceed a ResourceQuota")
	case EvictionRefused:
		return r.quote("The API server refused the eviction") + nextAttempt(r.Until)
	case DisruptionBudget:
		return r.quote("A PodDisruptionBudget does not allow the eviction") + nextAttempt(r.Until)
	case ResizeRefused:
		return r.quote("The API server refused the resize") + nextAttempt(r.Until)
	case ResizeOverQuota:
		return r.quote("A ResourceQuota or LimitRange does not allow the resize") +
			". The pod is not evicted, because its replacement would be refused too" + nextAttempt(r.Until)
	case Unanswered:
		if r.For > 0 {
			return r.quote("The API server has confirmed no change of the pod for "+Span(r.For)) + nextAttempt(r.Until)
		}
		return r.quote("The API server did not confirm the change, so the outcome is unknown") + nextAttempt(r.Until)
	case ServerNotReached:
		return r.quote("No connection to the API server could be opened, so the pod was not changed") + nextAttempt(r.Until)
	case NotAnnounced:
		return r.quote("The action is not carried out, because the updater cannot store its announcement, and a restart could repeat the action") + nextAttempt(r.Until)
	case AwaitingReplacement:
		return r.quote("The API server refused the resize") + ". The pod may be evicted when another evicted pod has its replacement"
	case Interrupted:
		return "The previous updater ended while it changed pods of this workload, so it is unknown which pods it changed. No pod is changed until " + timestamp(r.Until)
	case Frozen, OutsideWindow, BlastRadius, AwaitingCanary, Reverted:
		return r.waiting()
	case ReplacementMissing:
		return fmt.Sprintf("Evicted pods have no replacement: %d of %d pods exist %s after the eviction. Check the events of the controller",
			r.Have, r.Want, Span(r.For))
	case DeletionRefused:
		return r.quote("The API server refused the deletion") + nextAttempt(r.Until)
	case FewKills, BudgetOfOthers, RescueInProgress, NotEnoughMemory:
		return r.rescue()
	default:
		return r.Code.String()
	}
}

// waiting returns the text for a change that the user's rules delay.
func (r Reason) waiting() string {
	text := strings.TrimRight(r.Text, ". \n")
	switch {
	case r.Code == Frozen:
		return "Changes are frozen by the " + text
	case r.Code == OutsideWindow && r.Text != "":
		return "No pod is changed, because the annotation " + rollout.AnnotationWindow + " is invalid: " + text
	case r.Code == OutsideWindow && r.Until.IsZero():
		return "No change window is open, and none opens in the next 8 years"
	case r.Code == OutsideWindow:
		return "No change window is open. The next one opens at " + timestamp(r.Until)
	}
	if r.Code == AwaitingCanary {
		return "Pod " + text + " gets the new size first and is watched (annotation podfit.dev/rollout)" + nextAttempt(r.Until)
	}
	if r.Code == Reverted {
		return "The recommendation is held back, because after the last change " + text + nextAttempt(r.Until)
	}
	if text == "" {
		return "It is unknown what an earlier updater has changed in the last hour, because it could not store that" + nextAttempt(r.Until)
	}
	return fmt.Sprintf("With this pod, pods with %d%% of the requests of %s would be changed in an hour, more than the limit of %d%%%s", r.Have, text, r.Want, nextAttempt(r.Until))
}

// rescue returns the text for a pod to rescue whose eviction a disruption budget does not allow, and which is not deleted.
func (r Reason) rescue() string {
	const refused = "A PodDisruptionBudget does not allow the eviction of the OOM-killed pod, and it is not deleted "
	switch r.Code {
	case FewKills:
		return fmt.Sprintf(refused+"before %d OOM kills in a row; %d are known", r.Want, r.Have)
	case BudgetOfOthers:
		if r.Want == 0 {
			return refused + "because more than one PodDisruptionBudget selects it (" + strings.TrimRight(r.Text, ".") + "). Delete the pod, or all but one of them"
		}
		return fmt.Sprintf(refused+"because PodDisruptionBudget %s lacks other pods, too: it requires %s (healthy or OOM-killed: %d). "+
			"Find out why the others are not ready, or delete the pod", r.Text, count(r.Want, "healthy pod"), r.Have)
	case RescueInProgress:
		if r.Text != "" {
			return refused + "in the same pass as pod " + r.Text + " of the same workload"
		}
		return refused + "before the replacement of another deleted pod is ready"
	default:
		return fmt.Sprintf(refused+"because a replacement with %s was OOM-killed too, and the recommendation of %s is not noticeably more. Raise maxAllowed, or find out why the container needs more memory",
			quantity(cluster.Memory, r.From), quantity(cluster.Memory, r.To))
	}
}

// pressure returns a clause about the node of an OOM-killed pod.
func (r Reason) pressure() string {
	if r.Text == "" {
		return ""
	}
	return ". Node " + r.Text + " reports memory pressure"
}

// request returns the resource, the request and the container: "memory request 64Mi of container app".
func (r Reason) request() string {
	return label(r.Resource) + " request " + quantity(r.Resource, r.From) + r.ofContainer()
}

func (r Reason) ofContainer() string {
	if r.Container == "" {
		return ""
	}
	return " of container " + r.Container
}

func (r Reason) target() string { return quantity(r.Resource, r.To) }

// change returns a clause with the request and the target.
func (r Reason) change() string {
	return fmt.Sprintf("the %s request%s is %s and the target is %s", label(r.Resource), r.ofContainer(), quantity(r.Resource, r.From), r.target())
}

// container returns the subject of a sentence.
func (r Reason) container() string {
	if r.Container == "" {
		return "The container"
	}
	return "Container " + r.Container
}

// quote appends the message of the kubelet or the API server to a sentence.
func (r Reason) quote(s string) string {
	text := strings.TrimRight(r.Text, ". \n")
	if text == "" {
		return s
	}
	return s + ": " + text
}

// nextAttempt returns a sentence with the time from which the next attempt is allowed, to be appended to another.
func nextAttempt(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ". The next attempt is possible after " + timestamp(t)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// timestamp writes a time with its date and zone: events and logs are read days later and in other time zones.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// notSized returns why a replacement would not get the recommended requests. Want is 1 if the admission controller took part, and Text
// is set if a webhook could not be called.
func (r Reason) notSized() string {
	if r.Text != "" {
		return "A replacement would not be created: in a dry run, the API server could not call a webhook (" + r.Text + ")"
	}
	why := "The webhook of the admission controller was not called for it. Check that the webhook is registered and can be reached from the API server"
	if r.Want == 1 {
		why = "The admission controller was called, so another webhook, policy or LimitRange changes the requests afterwards"
	}
	return fmt.Sprintf("In a dry run, a replacement gets the %s and not the target %s. %s", r.request(), r.target(), why)
}

// label returns the name of a resource in a sentence.
func label(res cluster.Resource) string {
	if res == cluster.CPU {
		return "CPU"
	}
	return res.String()
}

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

// Span writes a duration with its one or two largest units: "42s", "3m", "13h30m", "2d".
func Span(d time.Duration) string {
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
