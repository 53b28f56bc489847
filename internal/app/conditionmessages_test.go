// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"testing"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/app/recommender"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// A conditionMessage explains a condition of VPAs to operators.
type conditionMessage struct {
	Type    v1.VerticalPodAutoscalerConditionType
	Status  string // "" if podfit never sets the condition
	Reason  string // "" if the condition has no reason
	Meaning string
	Remedy  string
}

// The metric of conditions has a series for each condition of podfit and each of its reasons.
func TestConditionReasons_areThoseOfTheMessages(t *testing.T) {
	explained := map[string][]string{}
	for _, m := range conditionMessages {
		if name := string(m.Type); slices.Contains(v1alpha1.Conditions(), name) && !slices.Contains(explained[name], m.Reason) {
			explained[name] = append(explained[name], m.Reason)
		}
	}
	counted := recommender.ConditionReasons
	for _, name := range v1alpha1.Conditions() {
		have, want := slices.Sorted(slices.Values(counted[name])), slices.Sorted(slices.Values(explained[name]))
		if !slices.Equal(have, want) {
			t.Errorf("condition %s is counted by the reasons %q, and the messages have %q", name, have, want)
		}
	}
	if len(counted) != len(explained) {
		t.Errorf("%d conditions are counted, and the messages have %d", len(counted), len(explained))
	}
}

const seeNodes = "`kubectl get nodes -o custom-columns=NAME:.metadata.name,CPU:.status.allocatable.cpu,MEMORY:.status.allocatable.memory`."

var conditionMessages = []conditionMessage{
	{
		Type: v1.RecommendationProvided, Status: watcher.True,
		Meaning: "The status contains a recommendation for at least one container.",
		Remedy:  "No action is required.",
	},
	{
		Type: v1.RecommendationProvided, Status: watcher.False,
		Meaning: "There is no recommendation, although the target has running pods. This is normal for a minute or two after the pods have started. " +
			"It lasts if no usage is measured, if every container policy has mode `Off`, or if another condition of the VPA names a cause.",
		Remedy: "Check that usage is measured: `kubectl -n NAMESPACE top pods --containers`. If not, check the Metrics API: `kubectl get apiservice v1beta1.metrics.k8s.io`. " +
			"Then look at the log of the recommender: `kubectl -n kube-system logs -l app.kubernetes.io/component=recommender --tail=-1`.",
	},
	{
		Type: v1.RecommendationProvided, Status: watcher.False, Reason: recommender.ReasonNoPodsMatched,
		Meaning: "There is no recommendation, because the target has no pods that have started.",
		Remedy:  "Check `spec.targetRef` of the VPA, the replicas of the target, and whether its pods are pending: `kubectl -n NAMESPACE get vpa VPA -o jsonpath='{.spec.targetRef}'` and `kubectl -n NAMESPACE get pods`.",
	},
	{
		Type: v1.NoPodsMatched, Status: watcher.True, Reason: recommender.ReasonNoPodsMatched,
		Meaning: "The target has no pods that have started. A recommendation that exists is kept.",
		Remedy:  "No action is required if the target is scaled to zero or runs at times, such as a CronJob. Otherwise check `spec.targetRef` of the VPA, and whether its pods are pending: `kubectl -n NAMESPACE get pods`.",
	},
	{
		Type: v1.ConfigUnsupported, Status: watcher.True,
		Meaning: "podfit cannot use the target of the VPA: `spec.targetRef` is missing or invalid, the object does not exist, its kind has no scale subresource, podfit may not read it, " +
			"or another controller owns it (such as a ReplicaSet of a Deployment). The message has the cause. It begins with `Cannot read targetRef. Reason:`, " +
			"or ends with `it should point to a topmost well-known or scalable controller` or `is a topmost well-known or scalable controller`.",
		Remedy: "Reference the topmost controller in `spec.targetRef`, with the correct `apiVersion`, `kind` and `name`. " +
			"For a custom resource, check that its CRD has a scale subresource and that the recommender may read it: `kubectl auth can-i get RESOURCE --subresource=scale --as=system:serviceaccount:kube-system:vpa-recommender`.",
	},
	{
		Type:    v1.ConfigDeprecated,
		Meaning: "podfit does not set this condition, and removes it when it writes the status. Other recommenders set it if the VPA uses a deprecated field.",
		Remedy:  "No action is required.",
	},
	{
		Type:    v1.FetchingHistory,
		Meaning: "podfit does not set this condition. Another program that loads usage history may set it; while it is True, podfit writes no checkpoints of the VPA.",
		Remedy:  "If no such program runs, remove the condition, because no history is stored meanwhile: `kubectl -n NAMESPACE edit vpa VPA --subresource=status`.",
	},
	{
		Type:    v1.LowConfidence,
		Meaning: "podfit does not set this condition. It is part of the API of upstream. podfit shows low confidence by wide bounds.",
		Remedy:  "No action is required.",
	},
	{
		Type: v1alpha1.ConditionTargetConflict, Status: watcher.True, Reason: recommender.ReasonOlderGoverns,
		Meaning: "Several VPAs have the same target. Only one of them governs the pods: the oldest whose update mode is not `Off`. This VPA is not applied.",
		Remedy: "Delete one of the VPAs, or set `updateMode: \"Off\"` for this one. To list VPAs and their targets, run " +
			"`kubectl -n NAMESPACE get vpa -o custom-columns=NAME:.metadata.name,TARGET:.spec.targetRef.name,MODE:.spec.updatePolicy.updateMode,CREATED:.metadata.creationTimestamp`.",
	},
	{
		Type: v1alpha1.ConditionSizingProfileUsable, Status: watcher.False, Reason: v1alpha1.ReasonInvalid,
		Meaning: "The SizingProfile that the VPA references in `spec.recommenders` is invalid. The message has the cause, and whether the last valid parameters still apply.",
		Remedy:  "Correct it: `kubectl edit sizingprofile PROFILE`.",
	},
	{
		Type: v1alpha1.ConditionSizingProfileUsable, Status: watcher.False, Reason: v1alpha1.ReasonDeleted,
		Meaning: "The SizingProfile that the VPA references in `spec.recommenders` does not exist any more. Its last valid parameters still apply if this recommender has read them; otherwise the last recommendation stays as it is.",
		Remedy:  "Create the SizingProfile again, or name another profile in `spec.recommenders[0].name` of the VPA. To list profiles, run `kubectl get sizingprofiles`.",
	},
	{
		Type: v1alpha1.ConditionSizingProfileUsable, Status: watcher.False, Reason: v1alpha1.ReasonOtherProfile,
		Meaning: "The model state of the target belongs to the profile of another VPA, and the profile of this VPA uses another algorithm that cannot use it. This VPA has no recommendation.",
		Remedy:  "Name a profile of the same algorithm in both VPAs, or delete one of them. To compare two profiles, run `podfit backtest` with recorded usage.",
	},
	{
		Type: v1alpha1.ConditionMemoryLeakSuspected, Status: watcher.True, Reason: v1alpha1.ReasonGrowth,
		Meaning: "The memory of a container has grown steadily over days, as with a memory leak. The message has the rate, and when a limit will be reached. If the profile has `leakBound`, it bounds the recommendation.",
		Remedy:  "Examine the application for a memory leak. If the growth is intended, raise `leakBound` in the profile or set `minAllowed` in the VPA. A restart of the pods gives time: `kubectl -n NAMESPACE rollout restart WORKLOAD`.",
	},
	{
		Type: v1alpha1.ConditionDisruptiveProfile, Status: watcher.True, Reason: v1alpha1.ReasonModeEvicts,
		Meaning: "The profile of the VPA changes requests often, because it is designed for in-place resizes, and the update mode evicts a pod for each change.",
		Remedy:  "Set `spec.updatePolicy.updateMode` to `InPlaceOrRecreate` (Kubernetes 1.33 or later) or `Initial`, or name the profile `default`.",
	},
	{
		Type: v1alpha1.ConditionHistoryIncomplete, Status: watcher.True, Reason: v1alpha1.ReasonBackfillRunning,
		Meaning: "The recommender is reading usage history from Prometheus (`--storage=prometheus`). Until it has arrived, the recommendation does not decrease, and no first recommendation is made.",
		Remedy:  "Wait. The metric `podfit_recommender_history_backfill_namespaces` shows the progress. If it takes hours, reduce `--history-length`, or raise `--history-resolution`.",
	},
	{
		Type: v1alpha1.ConditionHistoryIncomplete, Status: watcher.True, Reason: v1alpha1.ReasonBackfillFailed,
		Meaning: "Usage history could not be read from Prometheus. The recommendation is based on usage since the start of the recommender, and does not decrease for a day.",
		Remedy:  "Check that Prometheus answers at `--prometheus-address`, then restart the recommender: `kubectl -n kube-system rollout restart deploy/vpa-recommender`.",
	},
	{
		Type: v1alpha1.ConditionOOMKillLoop, Status: watcher.True, Reason: v1alpha1.ReasonRequestBelowTarget,
		Meaning: "A container is OOM-killed repeatedly, and its pod does not have the recommended memory, because it has not been updated. The message has the cause, such as the update mode or too few replicas.",
		Remedy: "Look at the events of the VPA with `kubectl -n NAMESPACE describe vpa VPA`. To apply the recommendation immediately, delete the pod: `kubectl -n NAMESPACE delete pod POD`. " +
			"In mode `Off`, set the memory request in the pod template.",
	},
	{
		Type: v1alpha1.ConditionOOMKillLoop, Status: watcher.True, Reason: v1alpha1.ReasonTargetAtMaximum,
		Meaning: "A container is OOM-killed repeatedly, and needs more memory than `maxAllowed` permits.",
		Remedy:  "Raise `maxAllowed` in the VPA (or `--container-recommendation-max-allowed-memory` of the recommender), or examine why the container needs more memory.",
	},
	{
		Type: v1alpha1.ConditionOOMKillLoop, Status: watcher.True, Reason: v1alpha1.ReasonLimitFixed,
		Meaning: "A container is OOM-killed repeatedly at its memory limit, which is not changed because of `controlledValues: RequestsOnly` or the rule `keep` for memory limits.",
		Remedy:  "Raise the memory limit in the pod template, or set `controlledValues: RequestsAndLimits` in the VPA and another rule than `keep` ([limits.md](limits.md)).",
	},
	{
		Type: v1alpha1.ConditionAnnotationInvalid, Status: watcher.True, Reason: v1alpha1.ReasonInvalid,
		Meaning: "An annotation about the time, the rollout or the size of changes, about language runtimes, limits or startup boosts is invalid, or has no effect. The message names the annotation and the mistake. The updater sets the condition.",
		Remedy:  "Correct the annotation. See [rollout.md](rollout.md), [runtimes.md](runtimes.md), [limits.md](limits.md) and [startup.md](startup.md) for the form.",
	},
	{
		Type: v1alpha1.ConditionReverted, Status: watcher.True, Reason: v1alpha1.ReasonOOMKilled,
		Meaning: "The canary was OOM-killed with the new size, so pods have the previous size until the time in the message. The updater sets the condition.",
		Remedy:  "Set `minAllowed` for memory in the VPA, or find out why the container needs more memory. See the decision reason `Reverted`.",
	},
	{
		Type: v1alpha1.ConditionReverted, Status: watcher.True, Reason: v1alpha1.ReasonRestarted,
		Meaning: "A container of the canary restarted with the new size, so pods have the previous size until the time in the message.",
		Remedy:  "Find out why it ended: `kubectl -n NAMESPACE describe pod POD`. See the decision reason `Reverted`.",
	},
	{
		Type: v1alpha1.ConditionReverted, Status: watcher.True, Reason: v1alpha1.ReasonNotReady,
		Meaning: "The canary was not ready with the new size at the end of `podfit.dev/canary-duration`, so pods have the previous size until the time in the message.",
		Remedy:  "Find out why it is not ready: `kubectl -n NAMESPACE describe pod POD`. If it only needs longer to start, set a longer `podfit.dev/canary-duration`.",
	},
	{
		Type: v1alpha1.ConditionReverted, Status: watcher.True, Reason: v1alpha1.ReasonThrottled,
		Meaning: "The CPU of the canary was throttled with the new size, in a share of its CPU periods that is more than 10 percentage points above the share before the change and the share of the other pods in the same time. So pods have the previous size until the time in the message.",
		Remedy:  "Set `minAllowed` for CPU in the VPA, or a higher ratio of limit to request in the pod template. See the decision reason `Reverted`.",
	},
	{
		Type: v1alpha1.ConditionMemoryLimitInProportion, Status: watcher.True, Reason: v1alpha1.ReasonQuota,
		Meaning: "Memory limits should follow the highest usage (`limits.memory: peaks`), but keep their ratio to the request, because higher limits could exceed the ResourceQuota in the message. The request rises with that usage instead. The updater sets the condition, if it may read quotas.",
		Remedy:  "Remove `limits.memory` from the quota, or set `podfit.dev/memory-limits: proportional`. See [limits.md](limits.md).",
	},
	{
		Type: v1alpha1.ConditionOOMRescue, Status: watcher.True, Reason: v1alpha1.ReasonResized,
		Meaning: "The updater resized an OOM-killed pod in place at once to give it more memory. The message has the pod and the cause. The condition is removed after an hour.",
		Remedy:  "No action is required.",
	},
	{
		Type: v1alpha1.ConditionOOMRescue, Status: watcher.True, Reason: v1alpha1.ReasonEvicted,
		Meaning: "The updater evicted an OOM-killed pod at once to give it more memory. The message has the pod and the cause. The condition is removed after an hour.",
		Remedy:  "No action is required.",
	},
	{
		Type: v1alpha1.ConditionOOMRescue, Status: watcher.True, Reason: v1alpha1.ReasonDeleted,
		Meaning: "The updater deleted an OOM-killed pod to give it more memory, because a PodDisruptionBudget did not allow its eviction and lacked only OOM-killed pods. The condition is removed after an hour.",
		Remedy:  "No action is required. To prevent deletions, set `--oom-rescue=evict` for the updater, or `unhealthyPodEvictionPolicy: AlwaysAllow` in the PodDisruptionBudget, so that an eviction is possible.",
	},
	{
		Type: v1alpha1.ConditionOOMRescue, Status: watcher.False,
		Meaning: "A pod is OOM-killed and does not get the recommended memory now. The reason and the message are those of the updater's decision. The condition is removed when no such pod exists.",
		Remedy:  "Look up the reason in the section about decision reasons, which has a remedy for each.",
	},
	{
		Type: v1alpha1.ConditionUpdating, Status: watcher.False, Reason: v1alpha1.ReasonUpToDate,
		Meaning: "All pods of the VPA have requests within the bounds of the recommendation, so the updater changes none. The updater writes this condition at most every 10 seconds.",
		Remedy:  "No action is required.",
	},
	{
		Type: v1alpha1.ConditionUpdating, Status: watcher.True, Reason: v1alpha1.ReasonInProgress,
		Meaning: "The updater has resized or evicted the pods without the recommended size, and none waits.",
		Remedy:  "No action is required.",
	},
	{
		Type: v1alpha1.ConditionUpdating, Status: watcher.Unknown, Reason: v1alpha1.ReasonPaused,
		Meaning: "The updater has changed no pods for at least 2 minutes, and so does not know which ones wait. The message has the cause.",
		Remedy: "Check that the admission controller runs and renews its lease (`kubectl -n kube-system get lease vpa-admission-controller -o yaml`), or, if watches are not up to date, " +
			"the API server (`kubectl get --raw='/readyz?verbose'`).",
	},
	{
		Type: v1alpha1.ConditionUpdating, Status: watcher.True,
		Meaning: "Pods of the VPA do not have the recommended size yet. The reason is the most frequent reason of the updater's decisions to leave them as they are, and the message has an example. " +
			"The condition is removed if the update mode changes no running pods, or the VPA has no pods.",
		Remedy: "Look up the reason in the section about decision reasons, which has a remedy for each.",
	},
	{
		Type: v1alpha1.ConditionRecommendationNotAdmitted, Status: watcher.True, Reason: v1alpha1.ReasonHeldToAdmitted,
		Meaning: "The API server would reject pods with the recommended size, for example because of a LimitRange. Pods get the nearest size that the API server admits.",
		Remedy:  "Compare `minAllowed` and `maxAllowed` of the VPA with the LimitRange of the namespace (`kubectl -n NAMESPACE get limitrange -o yaml`) and the limits in the pod template.",
	},
	{
		Type: v1alpha1.ConditionRecommendationNotAdmitted, Status: watcher.True, Reason: v1alpha1.ReasonNoSizeAdmitted,
		Meaning: "The API server would reject pods with the recommended size and with each other size that podfit can set. Pods keep the resources of their template. The message has the rule that they violate.",
		Remedy:  "Search for the rule in the section about the annotation `vpaUpdates`. Correct the pod template, the LimitRange, or `minAllowed` and `maxAllowed` in the VPA.",
	},
	{
		Type: v1alpha1.ConditionNeedsLargerNode, Status: watcher.True, Reason: v1alpha1.ReasonScaledDown,
		Meaning: "The recommendation of all containers of a pod together fits on no node that may take the pod. The containers are scaled down in proportion, none below its lower bound. " +
			"The status keeps the recommendation. The message has the number of pods, the requests that a node must hold in addition to its DaemonSet pods, and the requests that the pods get.",
		Remedy: "Add a node of that size, or set `maxAllowed`. To see the sizes of nodes, run " + seeNodes +
			" If your cluster autoscaler adds larger nodes, set `--max-node-cpu` and `--max-node-memory` for all components. To get the behaviour of upstream, set `--fit-nodes=false`.",
	},
	{
		Type: v1alpha1.ConditionNeedsLargerNode, Status: watcher.True, Reason: v1alpha1.ReasonNoNodeFits,
		Meaning: "The recommendation fits on no node that may take the pod, and no smaller size is possible: the lower bounds fit on no node either, a LimitRange or minAllowed does not allow it, " +
			"the QoS class would change, or `--fit-nodes` is false. New pods stay Pending, and running pods are not changed unless `--replacement-must-fit` is false.",
		Remedy: "Add a node of that size, or set `maxAllowed`. To see the sizes of nodes, run " + seeNodes +
			" If your cluster autoscaler adds larger nodes, set `--max-node-cpu` and `--max-node-memory` for all components.",
	},
	{
		Type: v1alpha1.ConditionNeedsMoreReplicas, Status: watcher.True, Reason: v1alpha1.ReasonAboveNodeShare,
		Meaning: "The profile limits the CPU of a pod to a share of the smallest node (`mostOfNode`, with `mostOfNodeBase`), and the pods need more than that. All containers of a pod are lowered in proportion. " +
			"`uncappedTarget` has what they need. The message has the sum, the limit with its base, the present replicas n and the needed ones: ⌈n × needed CPU ÷ limit⌉, which is enough if the load is divided evenly among the replicas.",
		Remedy: "Raise the replicas of the workload, or `minReplicas` and `maxReplicas` of the HPA that sets them. If more replicas do not take a part of the load, use a SizingProfile with a larger `busyHours.mostOfNode`, or add larger nodes.",
	},
	{
		Type: v1alpha1.ConditionNeedsMoreReplicas, Status: watcher.False, Reason: v1alpha1.ReasonReplicasFixed,
		Meaning: "The pods need more CPU than the share of a node that the profile allows (`mostOfNode`), and more replicas are not possible: a DaemonSet runs one pod per node, and a Job or CronJob has no replicas that share its load. " +
			"All containers of a pod are lowered in proportion.",
		Remedy: "Use a SizingProfile with a larger `busyHours.mostOfNode`, add larger nodes, or reduce what a pod uses.",
	},
	{
		Type: v1alpha1.ConditionCriticalityInvalid, Status: watcher.True, Reason: v1alpha1.ReasonLabelInvalid,
		Meaning: "A live pod has the label `podfit.dev/criticality` with a value that is not a number from 1 to 3. The label has no effect: the pod counts with the criticality of its PriorityClass or of the profile. The message has the value, and the criticality that applies.",
		Remedy:  "Correct the label in the pod template of the workload, for example to `\"1.5\"`. See [algorithm.md](algorithm.md).",
	},
	{
		Type: v1alpha1.ConditionPackingNotPossible, Status: watcher.True, Reason: v1alpha1.ReasonNodesNotKnown,
		Meaning: "The profile sizes pods for full nodes (`packed`), and no node is known that the pods may run on: there are no live pods, or no node without taints matches their node selector and affinity. Each container gets the request of `balanced`.",
		Remedy:  "Start a pod, or correct its node selector. If nodes exist, check that the recommender may list and watch nodes: `kubectl auth can-i list nodes --as=system:serviceaccount:kube-system:vpa-recommender`.",
	},
	{
		Type: v1alpha1.ConditionPackingNotPossible, Status: watcher.True, Reason: v1alpha1.ReasonTooYoung,
		Meaning: "The profile sizes pods for full nodes (`packed`), and fewer than three days of usage are known, or too little is known since a pause of several days. The container gets the request of `balanced` until then.",
		Remedy:  "Nothing is required.",
	},
	{
		Type: v1alpha1.ConditionPackingNotPossible, Status: watcher.True, Reason: v1alpha1.ReasonLargerThanHalf,
		Meaning: "The profile sizes pods for full nodes (`packed`), and the highest usage of the container is more than half of the smallest node that its pods may run on. The free part of a node is too small for its peaks, so it gets the request of `balanced`.",
		Remedy:  "Nothing is required. To pack the pods, use larger nodes, or split the workload into more replicas.",
	},
	{
		Type: v1alpha1.ConditionPackingNotPossible, Status: watcher.True, Reason: v1alpha1.ReasonLimitByRequest,
		Meaning: "The profile sizes pods for full nodes (`packed`), which is for memory limits apart from requests. The limit of the container keeps its ratio to the request: because of `limits.memory` or the annotation `podfit.dev/memory-limits`, or because a language runtime sizes its heap by it. The container gets the request of `balanced`.",
		Remedy:  "Nothing is required. See [limits.md](limits.md).",
	},
	{
		Type: v1alpha1.ConditionHorizontalPodAutoscaler, Status: watcher.True, Reason: v1alpha1.ReasonRequestLeft,
		Meaning: "A HorizontalPodAutoscaler (HPA) scales the target by the utilization of a request that the VPA controls. podfit does not change that request and its limit, because the number of replicas would change with it. The recommendation stays in the status. The message names the HPA and the request.",
		Remedy: "If the request is correct, remove the resource from `controlledResources` of the VPA. To let podfit change the request and the target of the HPA together, run " +
			"`kubectl -n NAMESPACE annotate vpa VPA podfit.dev/hpa=preserve-scale-point --overwrite`. Or let the HPA scale by an absolute value (`averageValue`) or another metric. To get the behaviour of upstream, set `--hpa=ignore`.",
	},
	{
		Type: v1alpha1.ConditionHorizontalPodAutoscaler, Status: watcher.True, Reason: v1alpha1.ReasonScalePointPreserved,
		Meaning: "The VPA has the annotation `podfit.dev/hpa: preserve-scale-point`. podfit changes the request and the target of the HPA so that their product stays the same. The message has the range of the request in which that is possible.",
		Remedy:  "No action is required. If the recommendation is outside of the range, change the target of the HPA: `kubectl -n NAMESPACE edit hpa HPA`.",
	},
	{
		Type: v1alpha1.ConditionHorizontalPodAutoscaler, Status: watcher.True, Reason: v1alpha1.ReasonOthersReset,
		Meaning: "Something else, such as a GitOps tool, has overwritten the target that podfit set on the HPA several times. podfit has stopped changing the HPA and the request.",
		Remedy: "Exclude `spec.metrics` of the HPA from the tool (for Argo CD: `ignoreDifferences`), then remove the record: `kubectl -n NAMESPACE annotate hpa HPA podfit.dev/scale-point-`. " +
			"Or remove the annotation `podfit.dev/hpa` from the VPA.",
	},
	{
		Type: v1alpha1.ConditionUsageAboveRequest, Status: watcher.True, Reason: v1alpha1.ReasonRequestTooLow,
		Meaning: "A container has used more CPU than its request in each 5 minutes of the last 30, by more than 50m, and the request is too low: the recommendation is above it, the usage is at the limit, or its node has no spare CPU. " +
			"The message says why the recommendation is not applied, as far as the recommender knows it. The condition ends after 15 minutes at or below the request, or when the request is raised.",
		Remedy: "Follow the message. If it refers to the condition `Updating`, look up its reason in the section about decision reasons: `kubectl podfit explain -n NAMESPACE WORKLOAD`.",
	},
	{
		Type: v1alpha1.ConditionUsageAboveRequest, Status: watcher.True, Reason: v1alpha1.ReasonOneReplica,
		Meaning: "One replica, or at most half of them, uses more CPU than its request and more than three times the median of all replicas. A higher request would not help the workload. The message names the pod.",
		Remedy: "Examine the pod: the load may not be balanced, or a process is stuck in a loop. `kubectl -n NAMESPACE top pods --containers` compares the replicas. " +
			"To restart it, run `kubectl -n NAMESPACE delete pod POD`.",
	},
	{
		Type: v1alpha1.ConditionUsageAboveRequest, Status: watcher.True, Reason: v1alpha1.ReasonStarting,
		Meaning: "A container has used more CPU than its request for 30 minutes, and started less than 45 minutes ago, so the cause may be its start.",
		Remedy:  "Wait. If each start needs this much CPU, set `startupBoost` in the VPA.",
	},
	{
		Type: v1alpha1.ConditionUsageAboveRequest, Status: watcher.True, Reason: v1alpha1.ReasonNodeHasSpare,
		Meaning: "A container uses more CPU than its request, but the recommendation is not above the request, and the pods of its node use less than half of the allocatable CPU, so no other pod is harmed. " +
			"podfit knows this only if it watches all namespaces and reads usage from the Metrics API.",
		Remedy: "No action is required. To have the CPU also when the node is full, raise `minAllowed` for CPU in the VPA.",
	},
	{
		Type: v1alpha1.ConditionCPUThrottled, Status: watcher.True, Reason: v1alpha1.ReasonAtLimit,
		Meaning: "A container is throttled in more than 25 % of the CPU periods in which it ran, in the last 30 minutes, and the 95th percentile of its usage is at least 95 % of its CPU limit. " +
			"The condition ends below 20 % or 90 %. podfit reads it from Prometheus (`--prometheus-address` of the recommender); without Prometheus, throttling is not known and this condition is never set.",
		Remedy: "Raise the CPU limit in the pod template, or remove it. If the VPA controls the limit (`controlledValues: RequestsAndLimits`), it follows the request.",
	},
	{
		Type: v1alpha1.ConditionCPUThrottled, Status: watcher.True, Reason: v1alpha1.ReasonKernelTooOld,
		Meaning: "A container is throttled in more than 25 % of its CPU periods although it uses less than half of its CPU limit on average, and the kernel of its node lacks the fix for throttling without need. " +
			"Linux 5.4, 5.3.9, 4.19.84 and 4.14.154 have the fix, as do later kernels of Red Hat Enterprise Linux 7 and 8 and of Ubuntu.",
		Remedy: "Upgrade the kernel of the nodes: `kubectl get nodes -o custom-columns=NAME:.metadata.name,KERNEL:.status.nodeInfo.kernelVersion`. Until then, remove the CPU limit in the pod template.",
	},
	{
		Type: v1alpha1.ConditionCPUThrottled, Status: watcher.True, Reason: v1alpha1.ReasonBurstsOfThreads,
		Meaning: "A container is throttled in more than 25 % of its CPU periods although it uses less than half of its CPU limit on average, and the kernel of its node is not known to be the cause: " +
			"many threads run at the same time and use the quota of a period of 100 ms early.",
		Remedy: "Reduce the number of threads (`GOMAXPROCS`, `-XX:ActiveProcessorCount`, size of thread pools), or raise the CPU limit in the pod template or remove it.",
	},
	{
		Type: v1alpha1.ConditionNoCPURequest, Status: watcher.True, Reason: v1alpha1.ReasonNotControlled,
		Meaning: "A container has had no CPU request for an hour, and the VPA does not set one: its container policy has mode `Off`, or `controlledResources` does not contain `cpu`. " +
			"The scheduler counts no CPU for it, so it takes CPU on which the requests of other pods rely.",
		Remedy: "Set a CPU request in the pod template, or a default request in a LimitRange of the namespace, or let the VPA control the CPU of the container.",
	},
	{
		Type: v1alpha1.ConditionNoCPURequest, Status: watcher.True, Reason: v1alpha1.ReasonNotApplied,
		Meaning: "A container has had no CPU request for an hour, and the recommendation of the VPA is not applied to it. The message says why, as far as the recommender knows it.",
		Remedy:  "Follow the message. To give it a request at once, set one in the pod template.",
	},
	{
		Type: v1alpha1.ConditionJVMSeesAllCores, Status: watcher.True, Reason: v1alpha1.ReasonRequestInBand,
		Meaning: "A container with a JVM, without a CPU limit and without `-XX:ActiveProcessorCount`, has a CPU request that a JVM may take for no request: 989m to 1000m, or 2538m to 2562m. " +
			"OpenJDK before 11.0.17, 17.0.5 and 18.0.2 then uses all cores of the node. podfit does not know the version of the JDK and the cgroup version of the node; see [runtimes.md](runtimes.md).",
		Remedy: "Set `-XX:ActiveProcessorCount`, for example in the variable `JAVA_TOOL_OPTIONS` of the pod template, or a request outside of the range. " +
			"podfit avoids the range with `kubectl -n NAMESPACE annotate vpa VPA podfit.dev/runtime-guards=cpu --overwrite`.",
	},
}
