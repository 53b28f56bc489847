// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpdateState stores what the updater has recorded about its actions on the pods of a workload: attempts with their outcomes, when
// they may be repeated, evicted pods without a replacement, pods that were deleted by an OOM rescue, and pods whose node is too full
// for their resize. The updater writes it, and reads it when it becomes the leader.
// Deleting the object discards the records.
//
// An object exists only while there are such records. The updater deletes it afterwards.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=us,categories=podfit
// +kubebuilder:printcolumn:name="Kind",type="string",JSONPath=".spec.target.kind"
// +kubebuilder:printcolumn:name="Target",type="string",JSONPath=".spec.target.name"
// +kubebuilder:printcolumn:name="Last pod",type="string",JSONPath=".status.pods[0].name"
// +kubebuilder:printcolumn:name="Action",type="string",JSONPath=".status.pods[0].action"
// +kubebuilder:printcolumn:name="Outcome",type="string",JSONPath=".status.pods[0].outcome"
// +kubebuilder:printcolumn:name="Attempts",type="integer",JSONPath=".status.pods[0].attempts"
// +kubebuilder:printcolumn:name="Next",type="string",JSONPath=".status.pods[0].nextTime",priority=1
// +kubebuilder:printcolumn:name="Updated",type="date",JSONPath=".status.updated"
type UpdateState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec identifies the workload. The name of the object has no meaning.
	Spec UpdateStateSpec `json:"spec"`

	// status contains the records.
	// +optional
	Status UpdateStateStatus `json:"status,omitempty"`
}

// UpdateStateList is a list of UpdateState objects.
//
// +kubebuilder:object:root=true
type UpdateStateList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata"`

	Items []UpdateState `json:"items"`
}

// UpdateStateSpec identifies the workload of the records.
type UpdateStateSpec struct {
	// target is the workload: the topmost controller of the pods. The object whose target is the Namespace announces actions on many workloads
	// of the namespace, see status.actingOn. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="target cannot be changed"
	Target WorkloadReference `json:"target"`
}

// WorkloadReference identifies a workload in the namespace of the object.
type WorkloadReference struct {
	// group is the API group of the workload. Empty means the core API group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`

	// kind is the kind of the workload.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind"`

	// name is the name of the workload.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// The limits of an UpdateState.
const (
	// MaxUpdateStateSize is the maximum size of the spec and the status together, in bytes of JSON. The updater leaves out the records
	// of pods with the oldest attempts until the object is smaller.
	MaxUpdateStateSize = 32 << 10
	// MaxPodUpdates is the maximum number of entries of status.pods.
	MaxPodUpdates = 50
	// MaxMissingReplacements is the maximum number of entries of status.missingReplacements.
	MaxMissingReplacements = 4
	// MaxEvictedPods is the maximum number of entries of evicted.
	MaxEvictedPods = 30
	// MaxRequestedSizes is the maximum number of entries of requested.
	MaxRequestedSizes = 32
	// MaxRoomShortages is the maximum number of entries of status.roomShortages.
	MaxRoomShortages = 10
	// MaxRequestChanges is the maximum number of entries of status.changes.
	MaxRequestChanges = 62
	// MaxActingGroups is the maximum number of entries of status.actingOn.
	MaxActingGroups = 100
	// MaxActingWorkloads is the maximum number of workloads of an entry of status.actingOn.
	MaxActingWorkloads = 3000
	// MaxWaitingPods is the maximum number of entries of status.waitingPods.
	MaxWaitingPods = 10
)

// UpdateStateStatus contains the records of a workload. All times except those named newestPod are by the clock of the updater.
type UpdateStateStatus struct {
	// updated is the time at which the updater wrote the object.
	// +optional
	Updated *metav1.Time `json:"updated,omitempty"`

	// writer is the updater that wrote the object: the name of its host, which is the name of its pod in a cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Writer string `json:"writer,omitempty"`

	// actingSince is set while the updater changes pods of the workload, and removed when the outcomes are recorded. If an updater ends
	// before that, the next one changes no pod of the workload for 5 minutes after this time.
	// +optional
	ActingSince *metav1.MicroTime `json:"actingSince,omitempty"`

	// actingNewestPod is the creation time of the newest pod of the workload before these changes, by the clock of the API server. If an
	// updater ends before the outcomes are recorded, the next one takes pods that were created later for replacements.
	// +optional
	ActingNewestPod *metav1.Time `json:"actingNewestPod,omitempty"`

	// actingOn lists workloads on whose pods the updater acts, or has acted in the last minutes, by time. Only the UpdateState whose target
	// is the Namespace has it. It replaces actingSince if the updater changes pods of many workloads of a namespace at once. If an updater
	// is killed, the next one changes no pods of these workloads for 5 minutes after this time.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	ActingOn []ActingGroup `json:"actingOn,omitempty"`

	// lastEviction is the time of the last eviction of a pod of the workload, if the attempts of an entry of pods depend on it.
	// +optional
	LastEviction *metav1.MicroTime `json:"lastEviction,omitempty"`

	// pods contains the last attempt at each action on each pod, the most recent attempt first. At most 50: after a restart of the
	// updater, the other pods count as if nothing was tried.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	Pods []PodUpdate `json:"pods,omitempty"`

	// omittedPods is the number of entries for which pods has no room.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OmittedPods int32 `json:"omittedPods,omitempty"`

	// evictions describes the last eviction, until a replacement with the requested resources is observed.
	// +optional
	Evictions *EvictionRecord `json:"evictions,omitempty"`

	// missingReplacements lists evicted pods whose replacements have not been observed yet, by controller. At most 4.
	// +optional
	// +kubebuilder:validation:MaxItems=4
	// +listType=atomic
	MissingReplacements []MissingReplacement `json:"missingReplacements,omitempty"`

	// evictionRounds is set if the pods of the workload were evicted again after they had been replaced, because the recommendation
	// changed again. The next replacement is evicted after a back-off.
	// +optional
	EvictionRounds *EvictionRounds `json:"evictionRounds,omitempty"`

	// lastDeletion describes the last pod that was deleted by an OOM rescue, because a PodDisruptionBudget did not allow its eviction.
	// The next pod of the workload is deleted when the replacement is ready, or after a back-off if it is OOM-killed too.
	// +optional
	LastDeletion *DeletionRecord `json:"lastDeletion,omitempty"`

	// roomShortages lists pods whose node was too full for their resize, the most recent first. At most 10: after a restart of the
	// updater, the other pods count as if nothing was done for them.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	RoomShortages []RoomShortage `json:"roomShortages,omitempty"`
	// changes contains the requests of the pods that were changed in the last hour, by minute. They are only recorded if
	// --max-change-per-hour-namespace or --max-change-per-hour-cluster limits them.
	// +optional
	// +kubebuilder:validation:MaxItems=62
	// +listType=atomic
	Changes []RequestChange `json:"changes,omitempty"`

	// canary is the state of the canary of the workload, if its VerticalPodAutoscaler has the annotation podfit.dev/rollout: canary.
	// +optional
	Canary *CanaryRecord `json:"canary,omitempty"`

	// capacity describes the last request for capacity before an eviction, while it is open or its failure delays the next one.
	// +optional
	Capacity *CapacityRecord `json:"capacity,omitempty"`

	// waitingPods describes the pods that should change and that the last passes left, by reason, the most frequent first. It is for
	// information only, and is written at most every 5 minutes. At most 10.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	WaitingPods []WaitingPods `json:"waitingPods,omitempty"`

	// Records of further features are added here, one typed field per feature.
}

// ActingGroup lists workloads of the namespace on whose pods the updater has acted since a time.
type ActingGroup struct {
	// since is the start of the pass that acts, or up to 10 seconds before it.
	Since metav1.MicroTime `json:"since"`

	// workloads are the topmost controllers of the pods.
	// +kubebuilder:validation:MaxItems=3000
	// +listType=atomic
	Workloads []ActingWorkload `json:"workloads"`
}

// ActingWorkload is a workload on whose pods the updater acts.
type ActingWorkload struct {
	WorkloadReference `json:",inline"`

	// newestPod is the creation time of the newest pod of the workload before the actions, by the clock of the API server. If the updater is
	// killed, the next one takes pods that were created later for replacements. If they do not have the recommended resources, it evicts no
	// pod of the workload until the end of the back-off of an eviction without effect.
	// +optional
	NewestPod *metav1.Time `json:"newestPod,omitempty"`
}

// WaitingPods are pods that should change and wait for the same reason.
type WaitingPods struct {
	// reason is the name of the reason, as in docs/messages.md and the label reason of metrics.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// pods is the number of pods.
	// +kubebuilder:validation:Minimum=0
	Pods int32 `json:"pods"`

	// firstPod is the name of the first of them.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	FirstPod string `json:"firstPod,omitempty"`

	// notBefore is when the first of them may change, if the reason ends at a known time.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
}

// PodUpdate is the last attempt at an action on a pod.
type PodUpdate struct {
	// name is the name of the pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// uid is the UID of the pod.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid"`

	// action is Evict, Resize or Delete. Entries with an unknown action are ignored.
	// +kubebuilder:validation:MaxLength=32
	Action string `json:"action"`

	// outcome is Done if the API server carried out the action, NoAnswer if that is unknown, and otherwise the cause for which it did
	// not: Denied, DisruptionBudget, NodeCapacity, Quota, Unsupported, WebhookFailed, ServerBusy or NotReached. Entries with an unknown
	// outcome are ignored.
	// +kubebuilder:validation:MaxLength=32
	Outcome string `json:"outcome"`

	// message is the answer of the API server, shortened to about 300 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// attempts is the number of consecutive attempts without success. For a resize with outcome Done, it is the number of
	// consecutive earlier resizes that were undone by another client.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`

	// lastTime is the time of the last attempt.
	LastTime metav1.MicroTime `json:"lastTime"`

	// nextTime is the time from which the action may be tried again. It is for information only.
	// +optional
	NextTime *metav1.Time `json:"nextTime,omitempty"`

	// requested contains the requests and limits that the action should apply. At most 32 containers.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Requested []RequestedSize `json:"requested,omitempty"`

	// transientFailures is the number of the consecutive last attempts that failed for a cause that may pass by itself.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TransientFailures int32 `json:"transientFailures,omitempty"`

	// lastUnanswered is the time of the last attempt without an answer.
	// +optional
	LastUnanswered *metav1.MicroTime `json:"lastUnanswered,omitempty"`

	// unansweredSince is the time of the first of the consecutive last attempts without an answer.
	// +optional
	UnansweredSince *metav1.MicroTime `json:"unansweredSince,omitempty"`

	// failingSince is the time of the first of the consecutive last attempts with a failure that may be temporary.
	// +optional
	FailingSince *metav1.MicroTime `json:"failingSince,omitempty"`

	// readyPods is the largest number of other ready pods of the controller at the consecutive attempts that a PodDisruptionBudget refused.
	// The next attempt is made before nextTime if more are ready.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyPods int32 `json:"readyPods,omitempty"`

	// overQuota contains the last requests and limits that a ResourceQuota or LimitRange refused.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	OverQuota []RequestedSize `json:"overQuota,omitempty"`

	// overQuotaTime is the time of that refusal.
	// +optional
	OverQuotaTime *metav1.MicroTime `json:"overQuotaTime,omitempty"`

	// overQuotaTotal is what the pods of the workload requested in total at the time of that refusal. When they request so much less
	// that the refused increase fits below it, the refusal does not count any more.
	// +optional
	OverQuotaTotal *RequestedTotal `json:"overQuotaTotal,omitempty"`
}

// EvictionRounds describes the rounds of evictions of a workload. A round ends when a pod is evicted that was created after the round
// began.
type EvictionRounds struct {
	// lastTime is the time of the last eviction.
	LastTime metav1.MicroTime `json:"lastTime"`

	// newestPod is the creation time of the newest pod when the last round began, by the clock of the API server.
	// +optional
	NewestPod *metav1.MicroTime `json:"newestPod,omitempty"`

	// count is the number of rounds, with less than 12 hours between two evictions.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count,omitempty"`
}

// DeletionRecord describes the last deletion of a pod of the workload by an OOM rescue.
type DeletionRecord struct {
	// lastTime is the time of the deletion.
	LastTime metav1.MicroTime `json:"lastTime"`

	// newestPod is the creation time of the newest pod of the workload at that time, by the clock of the API server. Pods that were
	// created later are replacements.
	// +optional
	NewestPod *metav1.MicroTime `json:"newestPod,omitempty"`

	// uid is the UID of the deleted pod.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid,omitempty"`

	// memory is the amount of memory that the replacement should get: its limit, or its request if it has no limit.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// ineffective is the number of consecutive earlier deletions whose replacement was OOM-killed too.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ineffective int32 `json:"ineffective,omitempty"`
}

// RoomShortage is a pod whose node was too full for its resize, and what was done to make room.
type RoomShortage struct {
	// name is the name of the pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// uid is the UID of the pod.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid"`

	// since is the time since which the pod waits for all of its increase.
	Since metav1.MicroTime `json:"since"`

	// partialResizes is the number of resizes by a part of the increase. At most 3 are made.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PartialResizes int32 `json:"partialResizes,omitempty"`

	// movedPods is the number of pods that were evicted from the node to make room for this pod. At most 3 are.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MovedPods int32 `json:"movedPods,omitempty"`

	// requested contains the requests and limits of the last resize by a part. At most 32 containers.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Requested []RequestedSize `json:"requested,omitempty"`
}

// RequestedSize is the requested size of one container.
type RequestedSize struct {
	// container is the name of the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container"`

	// requests are the requests of the container.
	// +optional
	Requests *RequestedAmounts `json:"requests,omitempty"`

	// limits are the limits of the container.
	// +optional
	Limits *RequestedAmounts `json:"limits,omitempty"`

	// inserted is true if the container has no recommendation of its own.
	// +optional
	Inserted bool `json:"inserted,omitempty"`
}

// RequestedTotal contains the requests and limits of several pods in total.
type RequestedTotal struct {
	// requests are the requests of the pods.
	// +optional
	Requests *RequestedAmounts `json:"requests,omitempty"`

	// limits are the limits of the pods.
	// +optional
	Limits *RequestedAmounts `json:"limits,omitempty"`
}

// RequestedAmounts are amounts of resources.
type RequestedAmounts struct {
	// cpu is an amount of CPU.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is an amount of memory.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// CapacityRecord describes the last request for capacity before an eviction: a placeholder pod that holds room for the replacement.
type CapacityRecord struct {
	// uid is the UID of the pod that is going to be evicted. It is empty if there is no open request.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid,omitempty"`

	// pod is the name of that pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod,omitempty"`

	// requestTime is the time at which the placeholder pod was created, or may have been.
	// +optional
	RequestTime *metav1.MicroTime `json:"requestTime,omitempty"`

	// failures is the number of consecutive failed requests.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failures int32 `json:"failures,omitempty"`

	// failureTime is the time of the last failure.
	// +optional
	FailureTime *metav1.MicroTime `json:"failureTime,omitempty"`

	// message is the cause of the last failure, shortened to about 300 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// EvictionRecord describes the last eviction of a pod of the workload.
type EvictionRecord struct {
	PriorEviction `json:",inline"`

	// superseded contains what the replacement of an earlier eviction should get, if that is other and was not observed. At most 32 containers.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Superseded []RequestedSize `json:"superseded,omitempty"`

	// previous contains the requests with which the evicted pod ran. At most 32 containers.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Previous []RequestedSize `json:"previous,omitempty"`

	// unansweredPod is the UID of the pod if it is unknown whether the eviction was carried out.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	UnansweredPod string `json:"unansweredPod,omitempty"`

	// before describes the last eviction that was carried out, if unansweredPod is set.
	// +optional
	Before *PriorEviction `json:"before,omitempty"`
}

// PriorEviction describes an eviction. That of the field before is the last one with a known outcome.
type PriorEviction struct {
	// lastTime is the time of the eviction.
	LastTime metav1.MicroTime `json:"lastTime"`

	// newestPod is the creation time of the newest pod of the workload at that time, by the clock of the API server. Pods that were
	// created later are replacements.
	// +optional
	NewestPod *metav1.MicroTime `json:"newestPod,omitempty"`

	// requested contains the requests and limits that the replacement should get. At most 32 containers.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Requested []RequestedSize `json:"requested,omitempty"`

	// ineffective is the number of consecutive evictions whose replacement did not get the requested resources.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ineffective int32 `json:"ineffective,omitempty"`

	// judged is true if the replacement of the eviction was observed and ineffective counts it.
	// +optional
	Judged bool `json:"judged,omitempty"`

	// unknownEffect is the part of ineffective that is not reported as without effect: the evictions up to the last one with an unknown effect.
	// The effect is unknown if the recommendation changed to the size of the evicted pod before the replacement was observed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnknownEffect int32 `json:"unknownEffect,omitempty"`
}

// MissingReplacement lists the evicted pods of a controller whose replacements have not been observed.
type MissingReplacement struct {
	// controller is the direct controller of the pods.
	Controller WorkloadReference `json:"controller"`

	// verticalPodAutoscaler is the name of the VerticalPodAutoscaler by which the pods were evicted.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VerticalPodAutoscaler string `json:"verticalPodAutoscaler"`

	// evicted contains the evicted pods, the oldest eviction first. At most the last 30.
	// +optional
	// +kubebuilder:validation:MaxItems=30
	// +listType=atomic
	Evicted []EvictedPod `json:"evicted,omitempty"`

	// completeSince is the time since which the controller has had as many pods as it wants. It is not set if it has fewer.
	// +optional
	CompleteSince *metav1.MicroTime `json:"completeSince,omitempty"`

	// replaced is the number of pods that were created after the first of these evictions and replace pods that were evicted before it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replaced int32 `json:"replaced,omitempty"`

	// mostReplicas is the largest number of pods that the controller has wanted since these evictions. It is not set if it is unknown.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MostReplicas int32 `json:"mostReplicas,omitempty"`
}

// EvictedPod is a pod that was evicted, or may have been.
type EvictedPod struct {
	// uid is the UID of the pod.
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid"`

	// time is the time of the eviction.
	Time metav1.MicroTime `json:"time"`

	// newestPod is the creation time of the newest pod of the workload at that time, by the clock of the API server.
	// +optional
	NewestPod *metav1.MicroTime `json:"newestPod,omitempty"`
}

// RequestChange is the sum of the requests of the pods that were changed in one minute, before the change.
type RequestChange struct {
	// time is the start of the minute.
	Time metav1.Time `json:"time"`

	// requests is the sum.
	// +optional
	Requests *RequestedAmounts `json:"requests,omitempty"`
}

// The phases of a canary.
const (
	CanaryIdle     = "Idle"
	CanaryStarting = "Starting"
	CanaryWatching = "Watching"
	CanaryAccepted = "Accepted"
	CanaryHeld     = "Held"
)

// CanaryRecord is the state of the canary of a workload: the pod that gets a new size first.
type CanaryRecord struct {
	// phase is Idle, Starting (the canary is about to be changed), Watching (it has the new size), Accepted (the other pods may get the
	// size) or Held (the size was reverted, and pods get the requests in before until untilTime). A record with another phase is ignored.
	// +kubebuilder:validation:MaxLength=32
	Phase string `json:"phase"`

	// pod is the name of the canary.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod,omitempty"`

	// uid is the UID of the canary. Its replacement has another one.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid,omitempty"`

	// controller is the direct controller of the canary.
	// +optional
	Controller *WorkloadReference `json:"controller,omitempty"`

	// sinceTime is the time at which the canary was chosen, or, in phase Held, at which it was reverted.
	// +optional
	SinceTime *metav1.MicroTime `json:"sinceTime,omitempty"`

	// untilTime is the end of the cool-down, in phase Held.
	// +optional
	UntilTime *metav1.MicroTime `json:"untilTime,omitempty"`

	// before contains the requests of the canary before the change. At most 32 containers.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Before []RequestedSize `json:"before,omitempty"`

	// after contains the requests of the canary after the change. At most 32 containers.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	After []RequestedSize `json:"after,omitempty"`

	// restarts is the number of restarts of the containers of the canary that do not count as a failure.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Restarts int32 `json:"restarts,omitempty"`

	// cause is why the size was reverted: OOMKilled, Restarted, NotReady or Throttled.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Cause string `json:"cause,omitempty"`

	// reverts is the number of reverts in a row.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Reverts int32 `json:"reverts,omitempty"`

	// throttling is whether the CPU throttling of the canary was compared: Compared, NoCPULimit, NoPrometheus, NoAnswer (of Prometheus) or
	// NoData. Empty means that it was not compared yet. Another value counts as empty.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Throttling string `json:"throttling,omitempty"`

	// throttledPercent is the percentage of CPU periods in which the canary was throttled, with cause Throttled.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	ThrottledPercent int32 `json:"throttledPercent,omitempty"`

	// throttledBeforePercent is the percentage that throttledPercent was compared with.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	ThrottledBeforePercent int32 `json:"throttledBeforePercent,omitempty"`
}
