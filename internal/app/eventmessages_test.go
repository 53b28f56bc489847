// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"podfit.dev/podfit/internal/edge/kube/event"
)

// An eventMessage explains an event reason to operators.
type eventMessage struct {
	Reason  string
	Object  string // the kind of the object of the event
	Meaning string
	Remedy  string
}

var eventMessages = []eventMessage{
	{
		Reason: event.EvictedByVPA, Object: "Pod",
		Meaning: "The updater evicted the pod, because its requests differ from the recommendation. The controller of the pod creates a replacement, which gets the recommended requests at admission.",
		Remedy: "No action is required. The log of the updater has the reason: `kubectl -n kube-system logs -l app.kubernetes.io/component=updater --tail=-1 | grep POD`. " +
			"To prevent evictions, set `spec.updatePolicy.updateMode` to `InPlace`, `Initial` or `Off`.",
	},
	{
		Reason: event.EvictedPod, Object: "VerticalPodAutoscaler",
		Meaning: "The updater evicted a pod of this VPA. The same eviction is reported on the pod as `EvictedByVPA`.",
		Remedy:  "See the event `EvictedByVPA`. If it repeats without a change of the recommendation, see the decision reason `BackingOff`.",
	},
	{
		Reason: event.InPlaceResizedByVPA, Object: "Pod",
		Meaning: "The API server accepted a resize of the pod to the recommended requests. The kubelet applies it afterwards.",
		Remedy:  "No action is required. To see whether the kubelet has applied it, run `kubectl -n NAMESPACE get pod POD -o jsonpath='{.status.conditions}'`.",
	},
	{
		Reason: event.InPlaceResizeSkipped, Object: "Pod",
		Meaning: "The node of the pod was too small for an earlier resize, and the recommendation is not lower now. The updater does not try again until it is.",
		Remedy:  "Set `maxAllowed` in the VPA, or delete the pod, so that it is scheduled to a larger node: `kubectl -n NAMESPACE delete pod POD`.",
	},
	{
		Reason: event.UpdateHeld, Object: "VerticalPodAutoscaler",
		Meaning: "A pod of this VPA should be updated, and is left as it is for a reason that may need your attention. After the colon, the text has the reason. " +
			"There is one event per VPA and reason until a pod of the VPA is updated.",
		Remedy: "Search for the text after the colon in the section about decision reasons, which has a remedy for each. The log of the updater names all such pods: `kubectl -n kube-system logs -l app.kubernetes.io/component=updater --tail=-1 | grep POD`.",
	},
	{
		Reason: event.ReplacementMissing, Object: "VerticalPodAutoscaler",
		Meaning: "The updater evicted pods, and 5 minutes later their controller has fewer pods than it wants. None of its pods is evicted until all exist. Exceptions: a pod of a StatefulSet that has not been ready for 10 minutes, because the StatefulSet creates no pod with a higher ordinal before it is ready, and a pod whose eviction makes room for the missing pods in a ResourceQuota that podfit may read. There is one event until then.",
		Remedy: "Find out why no pod is created: `kubectl -n NAMESPACE get events --field-selector type=Warning` and `kubectl -n NAMESPACE describe replicaset`. " +
			"Usual causes are a ResourceQuota, an admission webhook, or a missing ServiceAccount.",
	},
	{
		Reason: event.ResizeRefused, Object: "VerticalPodAutoscaler",
		Meaning: "The API server refused to resize a pod in place, and the update mode is `InPlaceOrRecreate`, so the updater evicts the pod instead. The text after the colon is from the API server. " +
			"There is one event per VPA until a resize succeeds.",
		Remedy: "If evictions are acceptable, no action is required. Otherwise set update mode `InPlace` (feature gate `InPlace`), and remove the cause that the API server names. " +
			"For missing permissions, run `kubectl auth can-i patch pods --subresource=resize -n NAMESPACE --as=system:serviceaccount:kube-system:vpa-updater`.",
	},
	{
		Reason: event.OOMRescued, Object: "VerticalPodAutoscaler",
		Meaning: "A container of a pod was OOM-killed and its recommendation has more memory, so the updater resized, evicted or deleted the pod at once (`--oom-rescue`). A pod is deleted if a PodDisruptionBudget does not allow its eviction " +
			"and lacks only OOM-killed pods; then the pod has the event, too. The text after the first sentence is the reason.",
		Remedy: "No action is required. If it repeats, look at the condition `OOMKillLoop`, and find out why the container needs more and more memory. To prevent deletions, set `--oom-rescue=evict` for the updater.",
	},
	{
		Reason: event.InvalidAnnotation, Object: "VerticalPodAutoscaler",
		Meaning: "An annotation about the time, the rollout or the size of changes, about language runtimes, limits or startup boosts is invalid (`podfit.dev/change-window`, `podfit.dev/rollout`, `podfit.dev/canary-duration`, `podfit.dev/runtime-guards`, `podfit.dev/inject-cpu-count`, `podfit.dev/inject-heap-percent`, `podfit.dev/cpu-limits`, `podfit.dev/memory-limits`, `podfit.dev/learn-startup-boost`, `podfit.dev/eviction-tolerance`, `podfit.dev/min-change`, `podfit.dev/initial-delay`, `podfit.dev/max-step`, `podfit.dev/memory-per-cpu`, `podfit.dev/continues`). The text has the mistake. " +
			"With an invalid change window, no running pod is changed, except for OOM-killed ones. It is a warning, written once per mistake; the condition `AnnotationInvalid` has the same text.",
		Remedy: "Correct the annotation of the VPA or the namespace. See [rollout.md](rollout.md), [runtimes.md](runtimes.md), [limits.md](limits.md) and [startup.md](startup.md) for the form.",
	},
	{
		Reason: event.Reverted, Object: "VerticalPodAutoscaler",
		Meaning: "The first pod with a new size (`podfit.dev/rollout: canary`) was OOM-killed, restarted or was not ready, so podfit goes back to the previous size, and holds the recommendation back. The text has the cause and the end of the wait. It is a warning.",
		Remedy:  "See the decision reason `Reverted`.",
	},
	{
		Reason: event.Surge, Object: "Pod",
		Meaning: "The updater replaces this pod by a surge: it has raised `spec.replicas` of the Deployment by one, and the ReplicaSet removes this pod when all other pods are ready. Then the number of replicas is as before. " +
			"The text after the first sentence is the reason.",
		Remedy: "No action is required. To evict the pods of a VPA instead, set its annotation: `kubectl -n NAMESPACE annotate vpa VPA podfit.dev/mover=evict --overwrite`. The flag `--mover` of the updater applies to all VPAs without the annotation.",
	},
	{
		Reason: event.NotAutoscaled, Object: "Pod",
		Meaning: "The namespace contains VPAs, but no controller owns this pod, so no VPA can apply to it. There is one event per pod and start of the updater.",
		Remedy:  "If the pod is meant to be autoscaled, create it by a controller such as a Deployment, and reference that in `spec.targetRef` of a VPA. Otherwise no action is required.",
	},
}
