// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// A noteMessage explains a kind of note to operators.
type noteMessage struct {
	Kind    admissible.NoteKind
	Meaning string
	Remedy  string
}

// Text returns an example of the note as podfit writes it in the annotation vpaUpdates.
func (m *noteMessage) Text() string {
	res := cluster.Memory
	if m.Kind == admissible.RaisedOutOfBand || m.Kind == admissible.LoweredOutOfBand {
		res = cluster.CPU
	}
	return admissible.Note{Resource: res, Kind: m.Kind}.String()
}

// A refusalMessage explains a kind of refusal to operators.
type refusalMessage struct {
	Kind    admissible.RefusalKind
	Meaning string
	Remedy  string
}

// Text returns an example of the refusal as podfit writes it.
func (m *refusalMessage) Text() string {
	r := admissible.Refusal{Kind: m.Kind, Resource: cluster.Memory, Container: "app", Have: 2 << 30, Want: 1 << 30, Quota: "compute"}
	switch m.Kind {
	case admissible.AboveRatio:
		r.Have, r.Want = 4000, 2000 // thousandths
	case admissible.RequestBelowMin, admissible.LimitBelowMin:
		r.Have, r.Want = r.Want, r.Have
	default: // the amount is above a bound
	}
	return r.String()
}

// A keptMessage explains to operators why a CPU limit is not removed.
type keptMessage struct {
	Kind    policy.KeptKind
	Meaning string
	Remedy  string
}

// Text returns the reason as podfit writes it.
func (m *keptMessage) Text() string {
	k := policy.KeptCPULimit{Kind: m.Kind}
	return k.Why()
}

const (
	seeLimitRanges = " To see the LimitRanges, run `kubectl -n NAMESPACE get limitrange -o yaml`."
	seeQuotas      = " To see the quotas, run `kubectl -n NAMESPACE describe resourcequota`."
)

var noteMessages = []noteMessage{
	{
		Kind: admissible.RaisedToRangeMin, Meaning: "The recommendation was raised to the minimum of a LimitRange for containers.",
		Remedy: "No action is required. To allow smaller containers, lower `min` of the LimitRange." + seeLimitRanges,
	},
	{
		Kind: admissible.LoweredToRangeMax, Meaning: "The recommendation was lowered so that the request and its proportional limit do not exceed the maximum of a LimitRange for containers.",
		Remedy: "If the container needs more, raise `max` of the LimitRange. With `controlledValues: RequestsOnly`, limits are not raised." + seeLimitRanges,
	},
	{
		Kind: admissible.RaisedForLimit, Meaning: "The memory limit should follow the highest usage (`limits.memory: peaks`), but keeps its ratio to the request, for example because of a ResourceQuota. The request was raised so that the limit is a fifth above the highest usage of 14 days.",
		Remedy: "No action is required. To allow a smaller request, remove the reason ([limits.md](limits.md)), or raise the limit in the pod template relative to the request.",
	},
	{
		Kind: admissible.RaisedToMinAllowed, Meaning: "The recommendation was raised to `minAllowed` of the container policy.",
		Remedy: "No action is required. To allow a smaller size, lower `minAllowed` in the VPA.",
	},
	{
		Kind: admissible.LoweredToMaxAllowed, Meaning: "The recommendation was lowered to `maxAllowed` of the container policy.",
		Remedy: "If the container needs more, raise `maxAllowed` in the VPA. The uncapped target is in `kubectl -n NAMESPACE describe vpa VPA`.",
	},
	{
		Kind: admissible.LoweredToLimit, Meaning: "The container policy has `controlledValues: RequestsOnly`, and the recommendation is above the limit of the container. The request was lowered to the limit.",
		Remedy: "Raise the limit in the pod template, or set `controlledValues: RequestsAndLimits`.",
	},
	{
		Kind: admissible.NoLimitOriginally, Meaning: "No limit was set, because the container has none and no LimitRange has a default.",
		Remedy: "No action is required.",
	},
	{
		Kind: admissible.NoRequestRecommended, Meaning: "No limit was set, because there is no recommendation for the request of this resource.",
		Remedy: "No action is required.",
	},
	{
		Kind: admissible.LimitOverflow, Meaning: "The limit that keeps the ratio of limit to request exceeds the largest possible number, which was set instead.",
		Remedy: "Correct the ratio of limit to request in the pod template.",
	},
	{
		Kind: admissible.HeldToAdmitted, Meaning: "The API server would reject the pod with the recommended size, so the pod gets the nearest size that the API server admits. Upstream has no such text.",
		Remedy: "Look at the condition `RecommendationNotAdmitted` of the VPA, and compare `minAllowed` and `maxAllowed` with the LimitRange and the limits in the pod template." + seeLimitRanges,
	},
	{
		Kind: admissible.HeldToScalePoint, Meaning: "A HorizontalPodAutoscaler (HPA) scales the workload by this request, and the VPA has the annotation `podfit.dev/hpa: preserve-scale-point`. " +
			"The target utilization of the HPA stays between 50 and 90 %, so the request cannot follow the recommendation further.",
		Remedy: "Change the target of the HPA or the request in the pod template, so that their product fits the recommendation. Or scale by an absolute value (`averageValue`).",
	},
	{
		Kind: admissible.HeldToNode, Meaning: "The recommendation of all containers together fits on no node that may take the pod, so the containers were scaled down in proportion, " +
			"but none below its lower bound. The status of the VPA contains the full recommendation. Upstream has no such text.",
		Remedy: "Look at the condition `NeedsLargerNode` of the VPA, and add a larger node. If your autoscaler adds larger nodes, set `--max-node-cpu` and `--max-node-memory`, or `--fit-nodes=false`.",
	},
	{
		Kind: admissible.HeldToQuota, Meaning: "The recommendation of all containers together exceeds a ResourceQuota of the namespace even if no other pod uses it, so the containers were scaled down in proportion, " +
			"but none below its lower bound. Upstream has no such text.",
		Remedy: "If the pod needs more, raise the quota." + seeQuotas,
	},
	{
		Kind: admissible.LoweredToContainers, Meaning: "The init container would request more than the containers and sidecars of the pod together, which would make the pod larger, so its request was lowered to their sum. " +
			"Its limit is that of the recommendation. Upstream has no such text.",
		Remedy: "No action is required. If the init container needs the request, set `minAllowed` for it in the VPA.",
	},
	{
		Kind: admissible.RaisedOutOfBand, Meaning: "The container runs a JVM without CPU limit, and the guard `cpu` is on. A JVM may read a CPU request from 989m to 1000m, or from 2538m to 2562m, " +
			"as if no request was set, and then uses all cores of the node. So the request was raised to the next amount above the range.",
		Remedy: "No action is required. To choose the number of processors yourself, set `-XX:ActiveProcessorCount`.",
	},
	{
		Kind: admissible.LoweredOutOfBand, Meaning: "As above, but `maxAllowed`, a LimitRange or the size of the node does not allow a request above the range, so the request was lowered to the next amount below it.",
		Remedy: "No action is required. To get the larger request, raise the bound.",
	},
	{
		Kind: admissible.RaisedToHeap, Meaning: "The container runs a JVM, the guard `memory` is on, and the options of the JVM set a heap that is larger than the recommendation. The request was raised to the heap.",
		Remedy: "If the JVM does not need the heap, lower `-Xmx` or `-XX:MaxRAMPercentage`. To allow smaller requests, set `maxAllowed` in the VPA, or remove the guard.",
	},
}

var refusalMessages = []refusalMessage{
	{
		Kind: admissible.NotRefused, Meaning: "The API server accepts the pod. There is no text.",
		Remedy: "No action is required.",
	},
	{
		Kind: admissible.RequestAboveLimit, Meaning: "With the recommended request, the limit would be below the request. The API server rejects such pods.",
		Remedy: "Raise the limit in the pod template, or set `controlledValues: RequestsAndLimits` in the VPA.",
	},
	{
		Kind: admissible.RequestMissing, Meaning: "A LimitRange with a minimum or a ratio requires a request, and neither the pod template nor the recommendation sets one above zero.",
		Remedy: "Set the request in the pod template, or `defaultRequest` in the LimitRange." + seeLimitRanges,
	},
	{
		Kind: admissible.LimitMissing, Meaning: "A LimitRange with a maximum or a ratio requires a limit, and neither the pod template nor the LimitRange sets one above zero.",
		Remedy: "Set the limit in the pod template, or `default` in the LimitRange." + seeLimitRanges,
	},
	{
		Kind: admissible.RequestBelowMin, Meaning: "The request would be below the minimum of a LimitRange.",
		Remedy: "Lower `min` of the LimitRange, or raise `maxAllowed` in the VPA." + seeLimitRanges,
	},
	{
		Kind: admissible.LimitBelowMin, Meaning: "The limit would be below the minimum of a LimitRange.",
		Remedy: "Raise the limit in the pod template, or lower `min` of the LimitRange." + seeLimitRanges,
	},
	{
		Kind: admissible.RequestAboveMax, Meaning: "The request would be above the maximum of a LimitRange.",
		Remedy: "Raise `max` of the LimitRange, or lower `minAllowed` in the VPA." + seeLimitRanges,
	},
	{
		Kind: admissible.LimitAboveMax, Meaning: "The limit would be above the maximum of a LimitRange. A limit rises in proportion to the request unless the container policy has `controlledValues: RequestsOnly`.",
		Remedy: "Raise `max` of the LimitRange, lower `minAllowed`, or set `controlledValues: RequestsOnly` in the VPA." + seeLimitRanges,
	},
	{
		Kind: admissible.AboveRatio, Meaning: "The ratio of limit to request would exceed `maxLimitRequestRatio` of a LimitRange.",
		Remedy: "Lower the limit in the pod template, set `controlledValues: RequestsAndLimits` in the VPA, or raise the ratio in the LimitRange." + seeLimitRanges,
	},
	{
		Kind: admissible.SumAbovePodLevel, Meaning: "The containers together would request more than `spec.resources.requests` of the pod.",
		Remedy: "Raise the pod-level requests in the pod template, or set `maxAllowed` in the VPA.",
	},
	{
		Kind: admissible.LimitAbovePodLevel, Meaning: "The limit of a container would be above `spec.resources.limits` of the pod.",
		Remedy: "Raise the pod-level limits in the pod template, or set `maxAllowed` in the VPA.",
	},
	{
		Kind: admissible.OverQuota, Meaning: "With the recommended size, the pod would need more than a ResourceQuota has left.",
		Remedy: "Raise the quota, delete pods that are not required, or set `maxAllowed` in the VPA." + seeQuotas,
	},
	{
		Kind: admissible.QuotaRequires, Meaning: "A ResourceQuota limits a resource, so each container must have a request or a limit for it, and a container has none.",
		Remedy: "Set the request or limit in the pod template, or default values in a LimitRange." + seeLimitRanges,
	},
	{
		Kind: admissible.QuotaNotCounted, Meaning: "A ResourceQuota is new, and its status does not yet show how much is used. The API server rejects pods until it does.",
		Remedy: "Wait a few seconds. If it lasts, check that kube-controller-manager runs, because it writes the status." + seeQuotas,
	},
	{
		Kind: admissible.NoPodLeft, Meaning: "A ResourceQuota that counts the pod only with its new size, such as one with scope `NotBestEffort`, allows no more pods.",
		Remedy: "Raise `pods` of the quota." + seeQuotas,
	},
	{
		Kind: admissible.TooManyQuotas, Meaning: "The namespace has more ResourceQuotas than podfit evaluates, so podfit does not change pods in it.",
		Remedy: "Delete ResourceQuotas that are not required." + seeQuotas,
	},
}

var keptMessages = []keptMessage{
	{
		Kind: policy.KeptByPolicy, Meaning: "The container policy has `controlledValues: RequestsOnly`, so podfit changes no limit of the container.",
		Remedy: "Remove the limit from the pod template, or set `controlledValues: RequestsAndLimits`.",
	},
	{
		Kind: policy.KeptForWholeCores, Meaning: "The VPA has the annotation `vpa-post-processor.kubernetes.io/CONTAINER_integerCPU`. A container gets cores of its own from the static CPU manager policy only with a limit.",
		Remedy: "If the container does not need cores of its own, remove the annotation.",
	},
	{
		Kind: policy.KeptForRequest, Meaning: "The container has a CPU limit, but no CPU request. Without the limit it would have neither.",
		Remedy: "Set a CPU request in the pod template.",
	},
	{
		Kind: policy.KeptForJVM, Meaning: "The container runs a JVM whose number of processors is not set. Without a CPU limit it takes all cores of the node, and chooses its threads by them.",
		Remedy: "Set `-XX:ActiveProcessorCount` in the pod template, or annotate the VPA with `podfit.dev/inject-cpu-count=request`. See [runtimes.md](runtimes.md).",
	},
	{
		Kind: policy.KeptForDotNet, Meaning: "The container runs .NET, and its number of processors is not set. Without a CPU limit it takes all cores of the node, and chooses its threads and heaps by them.",
		Remedy: "Set `DOTNET_PROCESSOR_COUNT` in the pod template, or annotate the VPA with `podfit.dev/inject-cpu-count=request`. See [runtimes.md](runtimes.md).",
	},
	{
		Kind: policy.KeptInPodLevel, Meaning: "The pod has a CPU limit in `spec.resources`, which bounds all containers together. podfit does not remove it.",
		Remedy: "Remove the pod-level CPU limit from the pod template.",
	},
	{
		Kind: policy.KeptByDefault, Meaning: "A LimitRange of the namespace has a default CPU limit, which the API server sets on each container without one. A LimitRange with `max` has the default, too.",
		Remedy: "Remove `default.cpu` and `max.cpu` from the LimitRange." + seeLimitRanges,
	},
	{
		Kind: policy.KeptForUnknownQuota, Meaning: "podfit cannot read the ResourceQuotas, or the watch is out of date. A quota of `limits.cpu` rejects each pod without a limit.",
		Remedy: "Grant the admission controller the right to list and watch ResourceQuotas, as `deploy/` does.",
	},
	{
		Kind: policy.KeptForAPIServer, Meaning: "A LimitRange or ResourceQuota of the namespace rejects pods without CPU limit. After the last colon is the refusal, see below.",
		Remedy: "Remove `limits.cpu` from the ResourceQuota, and `maxLimitRequestRatio` and `max` for CPU from the LimitRange." + seeLimitRanges + seeQuotas,
	},
}
