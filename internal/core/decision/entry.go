// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package decision

import "podfit.dev/podfit/internal/core/rollout"

// An entry is what podfit knows about a reason. Texts are sentences without the final period, and have the names of values in braces.
type entry struct {
	name      string // a label value of metrics, so it is never changed
	attention bool   // the reason to leave a pod does not end by itself, or indicates a problem
	text      string
	undated   string // the text if Until is zero; "" if it is the same
	withText  string // the text if Text is set; "" if it is the same
	instead   string // why a pod is evicted or deleted if the reason is its Fallback, with the final period; "" if it is never that
}

const keptAlive = "A PodDisruptionBudget does not allow the eviction of the OOM-killed pod, and it is not deleted "

// entries has all reasons. A new reason needs an entry, and an explanation for docs/messages.md.
var entries = map[ReasonCode]entry{
	Fits:           {name: "Fits", text: "The pod has the recommended requests"},
	BelowRange:     {name: "BelowRange", text: "The {request} is below the lower bound; the target is {target}"},
	AboveRange:     {name: "AboveRange", text: "The {request} is above the upper bound; the target is {target}"},
	MissingRequest: {name: "MissingRequest", text: "{Container} has no {resource} request; the target is {target}"},
	OutOfMemory:    {name: "OutOfMemory", text: "{Container} was OOM-killed {soon} after its start; {change}{pressure}"},
	Drifted:        {name: "Drifted", text: "The requests differ from the targets by {have}% and the pod has run for {for}; {change}"},
	BoostOver:      {name: "BoostOver", text: "The CPU startup boost has ended; {change}"},
	TooBigToPlace:  {name: "TooBigToPlace", text: "The pod cannot be scheduled and its recommendation is smaller; {change}"},
	NodeOutOfMemory: {name: "NodeOutOfMemory", text: "{Container} has no memory limit and was OOM-killed because its node was short of " +
		"memory. A larger request protects it; {change}{pressure}"},
	MakesRoom: {name: "MakesRoom", text: "{Pod} on the same node needs room; {change}"},
	MovesForRoom: {name: "MovesForRoom", text: "{Pod} on the same node needs the room of the pod, and another node has room for a " +
		"replacement"},
	NodeNearlyFull: {name: "NodeNearlyFull", text: "The pods of node {text}, and this one uses more than it requests. It moves before the kubelet evicts a pod"},
	Incomplete:     {name: "Incomplete", text: "The pod has only a part of an increase, because its node had no room for all of it; {change}"},
	LargerNode: {name: "LargerNode", text: "The pod was scaled down to its node {text}, and a larger node fits its recommendation; " +
		"{change}"},
	ModeOff: {name: "ModeOff", text: "Update mode {text} does not change running pods"},
	GateOff: {name: "GateOff", attention: true, text: "Update mode {text} requires the feature gate InPlace. Enable it with " +
		"--feature-gates=InPlace=true"},
	NoAdvice: {name: "NoAdvice", text: "There is no recommendation for any container of the pod"},
	PodTooYoung: {name: "Young",
		text:    "The requests are within their bounds, so the pod, which is new, is not changed before {until}",
		undated: "The requests are within their bounds, and the pod has not started yet",
	},
	AutoscalerTooYoung: {name: "Fresh", text: "The requests are within their bounds, so the pod is not changed before {until}, because " +
		"the VPA is new"},
	SmallChange: {name: "SmallChange",
		text:     "The requests are within their bounds and differ from the targets by {have}%, less than the threshold of {want}%",
		withText: "The requests are within their bounds and differ from the targets by {have}%, and annotation {text} requires {want}%",
	},
	SameSize: {name: "SameSize", attention: true, text: "A replacement would get the same requests as the pod. Check minAllowed and " +
		"maxAllowed of the VPA and the LimitRanges of the namespace"},
	Boosted: {name: "Boosted",
		text:    "The CPU startup boost is active until {until}",
		undated: "The CPU startup boost is active until the pod is ready",
	},
	NodeSizeUnknown: {name: "NodeSizeUnknown", attention: true, text: "The pods of the DaemonSet are sized by their node, and the size of node {text} could not be read. " +
		"Grant the right to list and watch nodes"},
	NoController: {name: "Unowned", attention: true, text: "No controller owns the pod, so nothing would replace it after an eviction. " +
		"Delete and create the pod to apply the recommendation"},
	Starting: {name: "Starting", text: "The pod is starting. It can be resized when it runs"},
	NoContainerRunning: {name: "NothingRuns",
		text:    "No container of the pod is running, and some versions of Kubernetes refuse to resize such a pod",
		instead: "The pod is evicted because no container is running, and some versions of Kubernetes refuse to resize such a pod.",
	},
	Unscheduled: {name: "Unscheduled", attention: true, text: "The pod has no node yet. Its events show the cause"},
	TooFewReplicas: {name: "TooFewReplicas", attention: true, text: "The controller has {live pods}, less than the minimum of {want}. " +
		"Lower minReplicas of the VPA or --min-replicas to allow updates"},
	ReplicasUnknown: {name: "ReplicasUnknown", text: "The number of replicas that the controller wants is unknown or 0. Check the scale " +
		"subresource of the controller"},
	BudgetSpent: {name: "BudgetSpent",
		text:     "The disruption budget is used up: {have} of {wanted pods} change now, changed shortly before, or have no replacement yet",
		withText: "The disruption budget is used up: {have} of {wanted pods} change now, changed shortly before, or have no replacement yet (annotation {text})",
	},
	NotReady: {name: "NotReady",
		text:    "Too few pods are available: {have} of {want}. The next one has been ready for long enough at {until}",
		undated: "Too few pods are ready: {have} of {want}",
	},
	RequirementsUnmet: {name: "RequirementsUnmet", text: "The eviction requirements of the VPA do not hold"},
	QoSChange: {name: "QoSChange", attention: true,
		text: "A resize would change the QoS class of the pod, which Kubernetes refuses. Update mode InPlaceOrRecreate or Recreate " +
			"evicts such pods",
		instead: "The pod is evicted because a resize would change its QoS class.",
	},
	BackingOff: {name: "BackingOff", attention: true, text: "The last {actions} had no lasting effect. Check that the admission " +
		"controller runs and that nothing else sets the requests{next}"},
	EffectUnknown: {name: "EffectUnknown", attention: true, text: "It is not known whether the last eviction had an effect: before its " +
		"replacement was observed, the recommendation changed to the requests of the evicted pod{next}"},
	NoNodeFits: {name: "Unplaceable", attention: true, text: "No node can hold a pod with the requests {text}. Add a larger node, or set " +
		"maxAllowed in the VPA"},
	ResizeWaiting: {name: "ResizeWaiting",
		text:    "The resize waits for room on the node{quote}",
		instead: "The pod is evicted because the node had no room for a resize.",
	},
	ResizeRunning: {name: "ResizeRunning",
		text:    "A resize of the OOM-killed pod is in progress. Its rescue waits for the resize until {until}",
		undated: "A resize of the pod is in progress",
		instead: "The pod is evicted because its resize did not complete in time.",
	},
	ResizeFailed: {name: "ResizeFailed",
		text:    "The kubelet failed to resize the pod{quote}",
		instead: "The pod is evicted because its resize failed.",
	},
	ResizeImpossible: {name: "ResizeImpossible", attention: true,
		text:    "The node cannot provide the requests{quote}",
		instead: "The pod is evicted because its node cannot provide the requests.",
	},
	ResizeUnclear: {name: "ResizeUnclear",
		text:    "The pod has a resize state that this version of podfit does not support{quote}",
		instead: "The pod is evicted because the state of its resize is unknown.",
	},
	MemoryInUse: {name: "MemoryInUse", attention: true, text: "The kubelet does not lower the memory limit below the current " +
		"usage{quote}. The resize completes when the usage falls"},
	NotSmallerThanRefused: {name: "NotSmallerThanRefused", attention: true, text: "The node cannot provide the requests: it refused the " +
		"same or a smaller size before. The pod is resized when the recommendation falls"},
	EvictionRefused: {name: "EvictionRefused", attention: true, text: "The API server refused the eviction{quote}{next}"},
	DisruptionBudget: {name: "DisruptionBudget", attention: true,
		text:    "A PodDisruptionBudget does not allow the eviction{quote}{next}",
		instead: "The pod is deleted because a PodDisruptionBudget does not allow its eviction, and lacks only pods that are OOM-killed.",
	},
	ResizeRefused: {name: "ResizeRefused", attention: true,
		text:    "The API server refused the resize{quote}{next}",
		instead: "The pod is evicted because the API server refused to resize it.",
	},
	ResizeOverQuota: {name: "ResizeOverQuota", attention: true, text: "A ResourceQuota or LimitRange does not allow the resize{quote}. " +
		"The pod is not evicted, because its replacement would be refused too{next}"},
	Unanswered: {name: "Unanswered", text: "The API server {unconfirmed}{quote}{next}"},
	ServerNotReached: {name: "ServerNotReached", attention: true, text: "No connection to the API server could be opened, so the pod was " +
		"not changed{quote}{next}"},
	AwaitingReplacement: {name: "AwaitingReplacement", text: "The API server refused the resize{quote}. The pod may be evicted when " +
		"another evicted pod has its replacement"},
	Probing: {name: "Probing", text: "Other pods of the workload are evicted first, to see whether their replacements get the " +
		"recommended requests. At most 2 pods are evicted at a time. It is 1 pod after an OOM kill, and after evictions without a lasting effect"},
	ReplacementMissing: {name: "ReplacementMissing", text: "Pods are missing after an eviction: {have} of {want} pods exist, {for} after " +
		"the eviction. Check the events of the controller"},
	ReplacementRefused: {name: "ReplacementRefused", text: "The API server would refuse a pod with the new requests{quote}"},
	OverQuota:          {name: "OverQuota", attention: true, text: "A pod with the new requests would exceed a ResourceQuota{quote}"},
	RateLimited:        {name: "RateLimited", text: "The rate limit allows no more evictions or resizes in this pass"},
	OutOfTime:          {name: "OutOfTime", text: "The pass ended before the pod was changed"},
	AlreadyEvicted:     {name: "AlreadyEvicted", text: "The pod was evicted, and the watch still shows it as running"},
	AlreadyGone:        {name: "AlreadyGone", text: "The pod was deleted or replaced before it was changed"},
	LeftToHPA: {name: "LeftToHPA", text: "HorizontalPodAutoscaler {text} scales the workload by {resource} utilization, so the " +
		"{resource} request is not changed; {change}"},
	HPANotWritten: {name: "HPANotWritten", attention: true, text: "The target utilization of the HorizontalPodAutoscaler must change " +
		"before the request of the pod, and it has not been changed yet"},
	FewKills: {name: "FewKills", text: keptAlive + "before {want} OOM kills in a row; {have} are known"},
	DataWouldBeLost: {name: "DataWouldBeLost", attention: true, text: keptAlive + "because it has a volume with data (hostPath, " +
		"ephemeral or CSI). If the data may be lost, delete the pod"},
	BudgetsUnknown: {name: "BudgetsUnknown", attention: true, text: keptAlive + "because podfit cannot read PodDisruptionBudgets. Grant " +
		"list and watch on poddisruptionbudgets, or delete the pod"},
	BudgetOfOthers: {name: "BudgetOfOthers", attention: true, text: keptAlive + "because {budgets}"},
	RescueInProgress: {name: "RescueInProgress",
		text:     keptAlive + "before the replacement of another deleted pod is ready",
		withText: keptAlive + "in the same pass as pod {text} of the same workload",
	},
	NotEnoughMemory: {name: "NotEnoughMemory", attention: true, text: keptAlive + "because a replacement with {from} was OOM-killed too, " +
		"and the recommendation of {to} is not noticeably more. Raise maxAllowed, or find out why the container needs more memory"},
	DeletionRefused: {name: "DeletionRefused", attention: true, text: "The API server refused the deletion{quote}{next}"},
	Interrupted: {name: "Interrupted", text: "The previous updater ended while it changed pods of this workload, so it is unknown which " +
		"pods it changed. No pod is changed until {until}"},
	AwaitingRoom: {name: "AwaitingRoom", text: "The pod has a part of the increase. The rest waits for room on the node, which " +
		"lacks{quote}"},
	RoomReserved: {name: "RoomReserved", text: "The free room on the node is reserved for the resize of {pod}, at most until {until}"},
	ChangesTooOften: {name: "ChangesTooOften", attention: true, text: "The pods of the workload were replaced {have} times in a short " +
		"time, because the recommendation keeps changing{next}"},
	Frozen: {name: "Frozen", attention: true, text: "Changes are frozen by the {cause}"},
	OutsideWindow: {name: "ChangeWindow",
		text:     "No change window is open. The next one opens at {until}",
		undated:  "No change window is open, and none opens in the next 8 years",
		withText: "No pod is changed, because the annotation " + rollout.AnnotationWindow + " is invalid: {cause}",
	},
	InitialDelay: {name: "InitialDelay", text: "The recommendation is new, and annotation " + rollout.AnnotationDelay + " allows no change " +
		"before {until}"},
	BlastRadius: {name: "BlastRadius",
		text: "It is unknown what an earlier updater has changed in the last hour, because it could not store that{next}",
		withText: "With this pod, pods with {have}% of the requests of {cause} would be changed in an hour, more than the limit of " +
			"{want}%{next}",
	},
	AwaitingCanary: {name: "Canary", text: "Pod {cause} gets the new size first and is watched (annotation podfit.dev/rollout){next}"},
	ObjectiveMissed: {name: "ObjectiveMissed", attention: true, text: "The canary has run well, but no running pod of the workload is changed while the query of the annotation " +
		"podfit.dev/canary-query does not hold: {cause}"},
	Reverted: {name: "Reverted", text: "The recommendation is held back, because after the last change {cause}{next}"},
	Surging: {name: "Surging", text: "A surge of the Deployment is in progress. It replaces pod {text} and is taken back at {until} if " +
		"the new pod is not ready"},
	SurgeFailed: {name: "SurgeFailed", text: "The surge of the pod was taken back{quote}{next}"},
	AwaitingCapacity: {name: "AwaitingCapacity",
		text: "No node has free room for a replacement with the requests {text}. The pod is evicted when the requested capacity is " +
			"there, if that is before {until}",
		undated: "No node has free room for a replacement with the requests {text}. The pod is evicted when the requested capacity is " +
			"there, after other requests for capacity",
	},
	CapacityNotFound: {name: "CapacityNotFound", attention: true, text: "No node has free room for a replacement, and the request for " +
		"capacity failed{quote}{next}"},
	NoCapacityProvider: {name: "NoCapacityProvider", attention: true, text: "No node has free room for a replacement with the requests " +
		"{text}, and the cluster has no way to ask for capacity"},
	NoFreeRoom: {name: "NoFreeRoom", text: "No node has free room for the smaller replacement of the pod, with the requests {text}, so " +
		"it is not evicted"},
	NoWayBack: {name: "NoWayBack", attention: true, text: "The VPA has a canary, and the pod is not evicted, because podfit cannot store " +
		"UpdateState objects: if the new size failed, new pods would get it again. Install the CRDs and the rights of deploy/, or set " +
		"the annotation podfit.dev/rollout to all"},
	ResizeStalled: {name: "ResizeStalled", attention: true, text: "The pod is OOM-killed, and the kubelet does not complete the resize " +
		"that gives it more memory. Update mode InPlace does not evict it: delete the pod, or set update mode InPlaceOrRecreate"},
	NotYetAtAdmission: {name: "NotYetAtAdmission", text: "In a dry run, a replacement gets the {request} and not the target {target}, which the admission " +
		"controller may not know yet{next}"},
	NotSizedAtAdmission: {name: "NotSizedAtAdmission", attention: true,
		text:     "In a dry run, a replacement gets the {request} and not the target {target}. {culprit}{next}",
		withText: "A replacement would not be created: in a dry run, the API server could not call a webhook ({text}){next}",
	},
	NotAnnounced: {name: "NotAnnounced", attention: true, text: "The action is not carried out, because the updater cannot store its " +
		"announcement, and a restart could repeat the action{quote}{next}"},
	Protected: {name: "Protected", attention: true, text: "The pod is not replaced, because of the annotation {cause}"},
	DryRunUnanswered: {name: "DryRunUnanswered", attention: true, text: "Earlier evictions had no effect, so a dry run must show first " +
		"whether a replacement gets the recommended requests. The API server does not answer dry runs in the namespace in time. The next " +
		"pass tries again"},
}
