// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package event

// The event reasons that upstream has, too.
const (
	EvictedByVPA         = "EvictedByVPA"
	EvictedPod           = "EvictedPod"
	InPlaceResizedByVPA  = "InPlaceResizedByVPA"
	InPlaceResizeSkipped = "InPlaceResizeSkipped"
)

// The reasons of warnings, which only podfit has.
const (
	InvalidAnnotation = "InvalidAnnotation"
	Reverted          = "RecommendationReverted"
)

// A Message explains an event reason to operators, for docs/messages.md.
type Message struct {
	Reason  string
	Object  string // the kind of the object of the event
	Meaning string
	Remedy  string
}

// Messages returns the explanations of the events that Recorder itself composes.
func Messages() []Message { return messages }

var messages = []Message{
	{
		Reason: EvictedByVPA, Object: "Pod",
		Meaning: "The updater evicted the pod, because its requests differ from the recommendation. The controller of the pod creates a replacement, which gets the recommended requests at admission.",
		Remedy: "No action is required. The log of the updater has the reason: `kubectl -n kube-system logs -l app.kubernetes.io/component=updater --tail=-1 | grep POD`. " +
			"To prevent evictions, set `spec.updatePolicy.updateMode` to `InPlace`, `Initial` or `Off`.",
	},
	{
		Reason: EvictedPod, Object: "VerticalPodAutoscaler",
		Meaning: "The updater evicted a pod of this VPA. The same eviction is reported on the pod as `EvictedByVPA`.",
		Remedy:  "See the event `EvictedByVPA`. If it repeats without a change of the recommendation, see the decision reason `BackingOff`.",
	},
	{
		Reason: InPlaceResizedByVPA, Object: "Pod",
		Meaning: "The API server accepted a resize of the pod to the recommended requests. The kubelet applies it afterwards.",
		Remedy:  "No action is required. To see whether the kubelet has applied it, run `kubectl -n NAMESPACE get pod POD -o jsonpath='{.status.conditions}'`.",
	},
	{
		Reason: InPlaceResizeSkipped, Object: "Pod",
		Meaning: "The node of the pod was too small for an earlier resize, and the recommendation is not lower now. The updater does not try again until it is.",
		Remedy:  "Set `maxAllowed` in the VPA, or delete the pod, so that it is scheduled to a larger node: `kubectl -n NAMESPACE delete pod POD`.",
	},
}
