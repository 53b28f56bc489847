// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// A decisionMessage explains a reason code to operators.
type decisionMessage struct {
	Code    decision.ReasonCode
	Example decision.Reason   // without Code
	Others  []decision.Reason // examples of its other texts, without Code
	Meaning string
	Remedy  string
}

// Text returns the example as podfit writes it in logs and events.
func (m *decisionMessage) Text() string { return m.textOf(m.Example) }

func (m *decisionMessage) textOf(r decision.Reason) string {
	r.Code = m.Code
	return r.String()
}

// FallbackText returns what the reason of an eviction ends with if the code is the reason why the pod is not resized; "" if there is no such text.
func (m *decisionMessage) FallbackText() string {
	r := decision.Reason{Code: decision.Fits}
	without := r.String()
	r.Fallback = m.Code
	return strings.TrimSpace(strings.TrimPrefix(r.String(), without))
}

// A reason that may need attention leaves a pod as it is, and its remedy is more than to wait.
func TestNeedsAttention_reasons_leaveAPodAndHaveARemedy(t *testing.T) {
	for _, m := range decisionMessages {
		if !m.Code.NeedsAttention() {
			continue
		}
		if m.Code < decision.ModeOff {
			t.Errorf("%s is a reason to change a pod", m.Code)
		}
		if m.Remedy == "" || m.Remedy == "No action is required." || strings.HasPrefix(m.Remedy, "Wait.") {
			t.Errorf("%s has the remedy %q", m.Code, m.Remedy)
		}
	}
}

func TestMessages_everyCode_hasTextMeaningAndRemedy(t *testing.T) {
	explained := map[string]bool{}
	for _, m := range decisionMessages {
		if !strings.HasSuffix(m.Text(), ".") || m.Meaning == "" || m.Remedy == "" {
			t.Errorf("%s: %q %q %q", m.Code, m.Text(), m.Meaning, m.Remedy)
		}
		if explained[m.Code.String()] {
			t.Errorf("%s is explained twice", m.Code)
		}
		explained[m.Code.String()] = true
		if text := m.FallbackText(); text != "" && !strings.HasPrefix(text, "The pod is ") {
			t.Errorf("%s as the cause of an eviction: %q", m.Code, text)
		}
	}
	for name := range textsOfReasons(t) {
		if !explained[name] {
			t.Errorf("%s is not explained", name)
		}
		delete(explained, name)
	}
	for name := range explained {
		t.Errorf("%s is explained, and has no entry in core/decision", name)
	}
}

// docs/messages.md is the only place that has all texts of all reasons: a text without an example there could change unnoticed.
func TestDecisionMessages_eachTextOfEachReason_hasExample(t *testing.T) {
	texts := textsOfReasons(t)
	for _, m := range decisionMessages {
		examples := append(slices.Clone(m.Others), m.Example)
		has := func(is func(r decision.Reason) bool) bool { return slices.ContainsFunc(examples, is) }
		of := texts[m.Code.String()]
		if of == nil {
			t.Errorf("core/decision has no texts for %s", m.Code)
		}
		for field, examplesOf := range map[string]struct{ one, other bool }{
			"undated": {has(func(r decision.Reason) bool {
				return r.Until.IsZero() && (r.Text == "" || !slices.Contains(of, "withText"))
			}), has(func(r decision.Reason) bool { return !r.Until.IsZero() })},
			"withText": {has(func(r decision.Reason) bool { return r.Text != "" }), has(func(r decision.Reason) bool { return r.Text == "" })},
			"instead":  {m.FallbackText() != "", true},
		} {
			if slices.Contains(of, field) && !(examplesOf.one && examplesOf.other) {
				t.Errorf("%s has no example with and without the text %s", m.Code, field)
			}
		}
	}
}

// textsOfReasons returns the fields of each entry with a text in core/decision, by the name of its reason.
func textsOfReasons(t *testing.T) map[string][]string {
	out := map[string][]string{}
	src := parse(t, decisionDir)
	for _, file := range src.files {
		ast.Inspect(file, func(n ast.Node) bool {
			entry, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			name, fields := "", []string(nil)
			for _, e := range entry.Elts {
				if kv, keyed := e.(*ast.KeyValueExpr); keyed {
					fields = append(fields, constantName(kv.Key))
					if constantName(kv.Key) == "name" {
						name, _ = src.constant(kv.Value)
					}
				}
			}
			if name != "" {
				out[name] = fields
			}
			return true
		})
	}
	return out
}

// exampleTime is the time in the examples.
var exampleTime = time.Date(2026, time.March, 2, 14, 30, 0, 0, time.UTC)

const mebibyte = 1 << 20

// decisionMessages explain the reasons for a pod to change, followed by those of the reasons to leave it as it is.
var decisionMessages = []decisionMessage{
	{
		Code:    decision.Fits,
		Meaning: "The pod runs with the recommended size, so nothing is done.",
		Remedy:  "No action is required.",
	},
	{
		Code: decision.BelowRange, Example: decision.Reason{Resource: cluster.Memory, Container: "app", From: 250 * mebibyte, To: 400 * mebibyte},
		Others: []decision.Reason{
			{Resource: cluster.CPU, From: 1000, To: 2000, Part: true},
			{Resource: cluster.Memory, Container: "app", From: 250 * mebibyte, To: 400 * mebibyte, Fallback: decision.QoSChange, Surge: true},
		},
		Meaning: "A request of a container is below the lower bound of its recommendation. The pod is resized or evicted, whatever its age.",
		Remedy: "No action is required. To see the bounds, run `kubectl -n NAMESPACE describe vpa VPA`. " +
			"To allow only increases or only decreases by eviction, set `spec.updatePolicy.evictionRequirements`.",
	},
	{
		Code: decision.AboveRange, Example: decision.Reason{Resource: cluster.CPU, Container: "app", From: 1000, To: 163},
		Meaning: "A request of a container is above the upper bound of its recommendation. The pod is resized or evicted, whatever its age.",
		Remedy:  "No action is required. If the container needs the larger request, set `minAllowed` for it in `spec.resourcePolicy.containerPolicies` of the VPA.",
	},
	{
		Code: decision.MissingRequest, Example: decision.Reason{Resource: cluster.CPU, Container: "app", To: 163},
		Meaning: "A container has a recommendation for a resource and no request for it. The pod is resized or evicted.",
		Remedy: "No action is required. If the same workload is evicted for this reason again and again, its new pods do not get the recommendation: " +
			"check the admission controller with `kubectl -n kube-system logs -l app.kubernetes.io/component=admission-controller --tail=-1`.",
	},
	{
		Code: decision.OutOfMemory, Example: decision.Reason{Resource: cluster.Memory, Container: "app", From: 250 * mebibyte, To: 400 * mebibyte, For: 3 * time.Minute},
		Others: []decision.Reason{
			{Resource: cluster.Memory, From: 250 * mebibyte, To: 400 * mebibyte, Text: "node-7"},
		},
		Meaning: "A container was OOM-killed within `--evict-after-oom-threshold` (10 minutes by default) after its start, and its recommendation differs from its request. " +
			"The pod is resized or evicted immediately.",
		Remedy: "No action is required: each OOM kill raises the recommendation. If the kills continue, look at the condition `OOMKillLoop` with `kubectl -n NAMESPACE describe vpa VPA`.",
	},
	{
		Code: decision.NodeOutOfMemory, Example: decision.Reason{Resource: cluster.Memory, Container: "app", From: 250 * mebibyte, To: 400 * mebibyte, Text: "node-7"},
		Meaning: "A container without a memory limit was OOM-killed. So not its limit was too low, but its node was short of memory. With a larger request the scheduler reserves more memory for the pod, and the kernel kills other containers first. " +
			"The pod is resized or evicted immediately (`--oom-rescue`).",
		Remedy: "No action is required. If it repeats, find out which pods on the node use more memory than they request: `kubectl top pods -A --sort-by=memory`.",
	},
	{
		Code: decision.LargerNode, Example: decision.Reason{Resource: cluster.Memory, Container: "app", From: 4096 * mebibyte, To: 6144 * mebibyte, Text: "node-7"},
		Meaning: "The recommendation fitted on no node before, so the pod was scaled down to its node. A node has arrived that fits it, so the pod is evicted, although its requests are within the bounds and it may be younger than " +
			"`--in-recommendation-bounds-eviction-lifetime-threshold`. Its VPA must have that age.",
		Remedy: "No action is required.",
	},
	{
		Code: decision.Drifted, Example: decision.Reason{Resource: cluster.CPU, Container: "app", From: 500, To: 400, Have: 20, For: 13 * time.Hour},
		Meaning: "The requests are within the bounds, but the pod is older than `--in-recommendation-bounds-eviction-lifetime-threshold` (12 hours by default), and its requests differ from " +
			"the target by at least `--pod-update-threshold` (10 % by default). The difference is that of CPU plus that of memory, so it can be above 100 %.",
		Remedy: "No action is required. To make such updates rarer, raise one of the two flags of the updater.",
	},
	{
		Code: decision.BoostOver, Example: decision.Reason{Resource: cluster.CPU, Container: "app", From: 2000, To: 400},
		Meaning: "The startup boost of a container has ended. The pod is resized in place to its CPU request without the boost; it is never evicted for this.",
		Remedy:  "No action is required.",
	},
	{
		Code: decision.TooBigToPlace, Example: decision.Reason{Resource: cluster.Memory, Container: "app", From: 64 * 1024 * mebibyte, To: 4 * 1024 * mebibyte},
		Meaning: "The pod has waited for a node for more than two minutes, and its recommendation is now smaller than its requests. It is evicted, so that its replacement gets the smaller size.",
		Remedy:  "No action is required. To prevent recommendations that fit no node, set `maxAllowed` in the VPA or `--container-recommendation-max-allowed-cpu` and `--container-recommendation-max-allowed-memory` of the recommender.",
	},
	{
		Code: decision.MakesRoom, Example: decision.Reason{Resource: cluster.CPU, Container: "app", From: 3000, To: 2000, Text: "shop/cart-0"},
		Others:  []decision.Reason{{Resource: cluster.CPU, Container: "app", From: 3000, To: 2000}},
		Meaning: "The resize of another pod does not fit on the node, and this pod requests more than its target. It is resized in place to its target, without a restart, whatever its age. The text names the other pod, if it is in the same namespace; `podfit explain` names it also if it is in another one, for users who may list the pods of all namespaces.",
		Remedy:  "No action is required. To exclude the pods of a VPA, set its annotation `podfit.dev/make-room` to `off`: `kubectl -n NAMESPACE annotate vpa VPA podfit.dev/make-room=off --overwrite`. The flag `--make-room` of the updater applies to all VPAs without the annotation.",
	},
	{
		Code: decision.MovesForRoom, Example: decision.Reason{Text: "shop/cart-0"},
		Others: []decision.Reason{{}},
		Meaning: "The resize of another pod does not fit on the node, and shrinking pods on the node is not enough. This pod is replaced by a surge or an eviction, because its replacement fits on another node and no other set of moves costs less. " +
			"It happens only with `--make-room=move`. The text names the other pod as for `MakesRoom`.",
		Remedy: "No action is required. To exclude the pods of a VPA, set its annotation `podfit.dev/make-room` to `shrink`: `kubectl -n NAMESPACE annotate vpa VPA podfit.dev/make-room=shrink --overwrite`.",
	},
	{
		Code: decision.NodeNearlyFull, Example: decision.Reason{Text: "node-7 use 91 % of its memory"},
		Others: []decision.Reason{
			{Text: "node-7 will soon use more than 85 % of its memory and now use 79 % of its memory"},
			{Text: "node-7 wait for memory 12 % of the time (pressure) and use 74 % of its memory"},
		},
		Meaning: "Memory limits of pods on the node follow their highest usage, and are above their requests. A part of the node is for such peaks, and the pods use it, or will soon, or wait for memory (`--node-guard-pressure`). " +
			"The pod uses more memory than it requests, so it is replaced by a surge or an eviction, and its replacement fits on another node. Without that, the kubelet evicts pods when the node is out of memory, without regard to PodDisruptionBudgets.",
		Remedy: "If it repeats, find out which pods use more memory than they request: `kubectl top pods -A --sort-by=memory`. To exclude the pods of a VPA, set its annotation `podfit.dev/make-room` to `off`: `kubectl -n NAMESPACE annotate vpa VPA podfit.dev/make-room=off --overwrite`. To move no pods for this reason, set `--node-guard=false`.",
	},
	{
		Code: decision.Incomplete, Example: decision.Reason{Resource: cluster.CPU, Container: "app", From: 700, To: 1000},
		Meaning: "The node had no room for the whole increase of the pod, so the pod was resized by a part of it. The node has room for the rest now, so the pod is resized again, whatever its age.",
		Remedy:  "No action is required. To resize pods only in full, set `--make-room=shrink`.",
	},
	{
		Code: decision.ModeOff, Example: decision.Reason{Text: "Initial"},
		Meaning: "The update mode of the VPA does not change running pods: `Off` applies nothing, and `Initial` applies the recommendation only to new pods.",
		Remedy:  "To update running pods, set `spec.updatePolicy.updateMode` to `InPlaceOrRecreate` or `Recreate`. To apply the recommendation once, run `kubectl -n NAMESPACE rollout restart WORKLOAD` (mode `Initial` only).",
	},
	{
		Code: decision.GateOff, Example: decision.Reason{Text: "InPlace"},
		Meaning: "The update mode of the VPA requires a feature gate that is disabled in the updater, so the updater changes no pods of this VPA.",
		Remedy:  "Start the updater and the admission controller with `--feature-gates=InPlace=true`, or set `spec.updatePolicy.updateMode` to `InPlaceOrRecreate`.",
	},
	{
		Code:    decision.NoAdvice,
		Meaning: "The status of the VPA contains no recommendation for any container of the pod, or the container policy of each recommended container has mode `Off`.",
		Remedy: "Wait a few minutes after the pods have started. If this continues, look at the conditions with `kubectl -n NAMESPACE describe vpa VPA`, " +
			"and check that usage is measured: `kubectl -n NAMESPACE top pods --containers`.",
	},
	{
		Code: decision.NodeSizeUnknown, Example: decision.Reason{Text: "n7"},
		Meaning: "The recommendation has sizes for the nodes of a DaemonSet, and the size of the node of this pod is not known: the right to list and watch nodes is missing, or the node has not reported its resources. The pod is not changed, because it could get the size of another node.",
		Remedy:  "Grant `list` and `watch` on nodes, as podfit's manifests do. To size all pods of the DaemonSet alike: `kubectl -n NAMESPACE annotate vpa VPA podfit.dev/role-label=none`.",
	},
	{
		Code: decision.PodTooYoung, Example: decision.Reason{Until: exampleTime},
		Others:  []decision.Reason{{}},
		Meaning: "The requests are within the bounds, and the pod is younger than `--in-recommendation-bounds-eviction-lifetime-threshold`. Until the given time, only a request outside of the bounds is a reason to update it.",
		Remedy:  "No action is required. To apply the target now, delete the pod: `kubectl -n NAMESPACE delete pod POD`.",
	},
	{
		Code: decision.AutoscalerTooYoung, Example: decision.Reason{Until: exampleTime},
		Meaning: "The requests are within the bounds, and the VPA is younger than `--in-recommendation-bounds-eviction-lifetime-threshold`: its target is based on little history.",
		Remedy:  "No action is required. To apply the target now, delete the pod: `kubectl -n NAMESPACE delete pod POD`.",
	},
	{
		Code: decision.SmallChange, Example: decision.Reason{Have: 4, Want: 10},
		Others:  []decision.Reason{{Have: 12, Want: 15, Text: "podfit.dev/min-change"}},
		Meaning: "The requests are within the bounds, and differ from the target by less than `--pod-update-threshold`, or less than the annotation `podfit.dev/min-change` of the VPA or its namespace. The difference is that of CPU plus that of memory.",
		Remedy:  "No action is required. To update pods for smaller differences, lower `--pod-update-threshold` of the updater or the annotation.",
	},
	{
		Code: decision.SameSize,
		Meaning: "The pod should change, but a replacement would get the size that the pod has. For example, a container is OOM-killed, or a request is outside of the bounds, " +
			"and minAllowed, maxAllowed, a LimitRange or a fixed limit keeps the request where it is.",
		Remedy: "Find out what bounds the size: compare `minAllowed` and `maxAllowed` with the uncapped target in `kubectl -n NAMESPACE describe vpa VPA`, and look at `kubectl -n NAMESPACE get limitrange -o yaml`. " +
			"With `controlledValues: RequestsOnly`, raise the limit in the pod template.",
	},
	{
		Code: decision.Boosted, Example: decision.Reason{Until: exampleTime},
		Others:  []decision.Reason{{}},
		Meaning: "The startup boost of the pod has not ended. Nothing else is changed until then.",
		Remedy:  "No action is required. If the pod never becomes ready, find the cause with `kubectl -n NAMESPACE describe pod POD`.",
	},
	{
		Code:    decision.NoController,
		Meaning: "No controller owns the pod, so an eviction would delete it without a replacement. The updater does not change such pods.",
		Remedy:  "Create the pod by a controller such as a Deployment, and reference that in `spec.targetRef` of the VPA.",
	},
	{
		Code:    decision.Starting,
		Meaning: "The pod is pending on its node. It can be resized when its containers run.",
		Remedy:  "No action is required. If the pod stays pending, find the cause with `kubectl -n NAMESPACE describe pod POD`.",
	},
	{
		Code: decision.NoContainerRunning,
		Meaning: "No container of the pod runs: all of them have ended, and none has started again yet. Some versions of Kubernetes refuse to resize such a pod. " +
			"In mode `InPlaceOrRecreate` the pod is evicted instead; in mode `InPlace` it is left as it is.",
		Remedy: "Find out why the containers end: `kubectl -n NAMESPACE logs POD --previous`. In mode `InPlace`, delete the pod, so that a replacement gets the recommendation.",
	},
	{
		Code: decision.Unscheduled, Example: decision.Reason{},
		Meaning: "The pod has no node yet. It is left as it is for two minutes after its creation, and longer if its recommendation is not smaller than its requests, or its update mode does not evict.",
		Remedy:  "Find out why the scheduler cannot place the pod: `kubectl -n NAMESPACE describe pod POD`.",
	},
	{
		Code: decision.TooFewReplicas, Example: decision.Reason{Have: 1, Want: 2},
		Meaning: "The controller of the pod has fewer live pods than the minimum: `spec.updatePolicy.minReplicas` of the VPA, or else `--min-replicas` of the updater (2 by default). Its pods are not disrupted.",
		Remedy: "Run more replicas, or allow the disruption: `kubectl -n NAMESPACE patch vpa VPA --type merge -p '{\"spec\":{\"updatePolicy\":{\"minReplicas\":1}}}'`. To apply the recommendation once, delete the pod. " +
			"If pods can be resized in place without a restart, `--in-place-skip-disruption-budget` of the updater waives the minimum for resizes.",
	},
	{
		Code: decision.ReplicasUnknown,
		Meaning: "The updater does not know how many pods the controller should have, or the controller should have none. This is normal for a few seconds after the controller has appeared or is scaled to zero. " +
			"It is reported as an event if it lasts for more than one pass.",
		Remedy: "Check that the controller exists: `kubectl -n NAMESPACE get pod POD -o jsonpath='{.metadata.ownerReferences}'`. " +
			"For a custom controller, check that the updater may read its scale subresource: `kubectl auth can-i get RESOURCE --subresource=scale --as=system:serviceaccount:kube-system:vpa-updater`.",
	},
	{
		Code: decision.BudgetSpent, Example: decision.Reason{Have: 1, Want: 3},
		Others:  []decision.Reason{{Have: 1, Want: 3, Text: "podfit.dev/eviction-tolerance"}},
		Meaning: "This pass, or an earlier one in about the last `--updater-interval`, changes as many pods of the controller as the disruption budget allows (`--eviction-tolerance`, half of the replicas by default, or the annotation `podfit.dev/eviction-tolerance` of the VPA or its namespace). The pod gets its turn in a later pass.",
		Remedy:  "No action is required. To resize more pods at the same time, raise `--eviction-tolerance` of the updater or the annotation. Of the pods of a workload, at most two are evicted at a time, see the reason `Probing`.",
	},
	{
		Code: decision.NotReady, Example: decision.Reason{Have: 1, Want: 3},
		Others:  []decision.Reason{{Have: 1, Want: 3, Until: exampleTime}},
		Meaning: "So many pods of the controller are not available that no further pod may be disrupted (`--eviction-tolerance`). A pod is available when it has been ready for the `minReadySeconds` of its controller and, in a StatefulSet, for `--statefulset-pause`. This is normal while replacements start.",
		Remedy:  "If it lasts, find out why pods are not ready: `kubectl -n NAMESPACE get pods` and `kubectl -n NAMESPACE describe pod POD`.",
	},
	{
		Code:    decision.RequirementsUnmet,
		Meaning: "The eviction requirements of the VPA do not allow this change: no container satisfies all of them. For example, `TargetHigherThanRequests` allows no eviction that only lowers requests.",
		Remedy:  "No action is required if this is intended. Otherwise change `spec.updatePolicy.evictionRequirements` of the VPA.",
	},
	{
		Code:    decision.QoSChange,
		Meaning: "A resize to the recommended size would change the quality-of-service class of the pod, which the API server refuses. In mode `InPlaceOrRecreate` the pod is evicted instead.",
		Remedy: "In mode `InPlace`, delete the pod, so that a replacement gets the recommendation, or set update mode `InPlaceOrRecreate`. To keep the class `Guaranteed`, let VPA control both resources and both requests and limits " +
			"(`controlledResources`, `controlledValues: RequestsAndLimits`).",
	},
	{
		Code: decision.BackingOff, Example: decision.Reason{Until: exampleTime, Have: 3, Text: "eviction"},
		Others: []decision.Reason{{Until: exampleTime, Have: 1, Text: "resize"}},
		Meaning: "The last changes did not help: replacements came back without the recommended size, or a resize was undone. The workload is left as it is until the given time; the delay doubles up to 6 hours, from `--eviction-backoff` after an eviction and from 5 minutes after a resize. " +
			"Usually the admission webhook was not called for new pods, or another program sets requests after it.",
		Remedy: "Compare the requests of a new pod with the VPA: `kubectl -n NAMESPACE get pod POD -o yaml`. Without the annotation `vpaUpdates`, the webhook was not called: check `kubectl get mutatingwebhookconfiguration vpa-webhook-config -o yaml` " +
			"and the log of the admission controller. With it, look in `metadata.managedFields` for the program that changed the requests afterwards.",
	},
	{
		Code: decision.EffectUnknown, Example: decision.Reason{Until: exampleTime},
		Meaning: "A pod was evicted, and its replacement has the same requests. When podfit observed the replacement, these were the recommendation, so it has them whether or not the admission controller runs. The next eviction of the workload waits as after one without effect (reason `BackingOff`).",
		Remedy:  "No action is required. If it repeats, the recommendation keeps falling and rising: see `podfit explain`.",
	},
	{
		Code: decision.NotYetAtAdmission, Example: decision.Reason{Until: exampleTime, Resource: cluster.CPU, From: 100, To: 700},
		Meaning: "podfit created a replacement of the pod in a dry run, to see whether an eviction has an effect. The admission controller was called, but the replacement did not get the recommended requests. " +
			"The admission controller may learn of a new target later than the updater, so podfit repeats the dry run.",
		Remedy: "No action is required. If the next dry run has the same result, the reason is `NotSizedAtAdmission`.",
	},
	{
		Code: decision.NotSizedAtAdmission, Example: decision.Reason{Until: exampleTime, Resource: cluster.CPU, From: 100, To: 700},
		Others: []decision.Reason{
			{Until: exampleTime, Resource: cluster.CPU, From: 100, To: 700, Want: 1},
			{Until: exampleTime, Text: "pods.example.com: connection refused"},
		},
		Meaning: "The replacement of an evicted pod came back without the recommended size, of this workload or of the last one that was changed in the cluster. So before the next eviction or surge, podfit created a replacement in a dry run (`kubectl create --dry-run=server`), " +
			"and it would not get the recommended size either. No pod is evicted. podfit repeats the dry run after `--eviction-backoff`, and continues as soon as it succeeds.",
		Remedy: "If the reason says that the webhook was not called: check `kubectl get mutatingwebhookconfiguration vpa-webhook-config -o yaml`, that the API server can reach the Service of the admission controller, and its log. " +
			"If it was called: look for another mutating webhook for pods with `kubectl get mutatingwebhookconfigurations` (and, if the API server serves it, a policy with `kubectl get mutatingadmissionpolicies`), and for a LimitRange with `kubectl -n NAMESPACE get limitranges -o yaml`.",
	},
	{
		Code: decision.ChangesTooOften, Example: decision.Reason{Until: exampleTime, Have: 3},
		Meaning: "Soon after the pods of the workload were replaced, their new requests were outside the bounds of the recommendation again. The workload is left as it is until the given time; the delay doubles from `--eviction-backoff` to 6 hours. The first rescue of an OOM-killed replacement follows at once, and each further one waits as long as the kubelet before it restarts a container: from 10 seconds to 5 minutes. " +
			"Usually the recommendation moves up and down.",
		Remedy: "Look at the recommendation over time: `kubectl -n NAMESPACE get vpa VPA -o yaml`. If it moves up and down, check that one recommender writes it, and set `minAllowed` in the VPA, or use a `SizingProfile` with a longer history.",
	},
	{
		Code: decision.NoNodeFits, Example: decision.Reason{Text: cluster.Amounts(64000, 512*1024*mebibyte).String()},
		Meaning: "No ready node that matches the node selector and the tolerations of the pod is large enough for the recommended size, even if it were empty. If podfit does not evaluate the node affinity of the pod, for example because it is very long, only the node of the pod counts. A node that can be added counts, unless its group is at its maximum, other pods need its nodes, or its autoscaler waits after a failed scale-up. The pod is not changed, because its replacement could not be scheduled. A pod that already waits for a node has this reason if no node is large enough for its requests.",
		Remedy: "Set `maxAllowed` in the VPA, add a larger node, or raise the maximum of the group of nodes. If a cluster autoscaler adds node types that do not exist yet, set `--max-node-cpu` and `--max-node-memory`, or `--replacement-must-fit=false` for the updater. " +
			"To see the sizes of nodes, run `kubectl get nodes -o custom-columns=NAME:.metadata.name,CPU:.status.allocatable.cpu,MEMORY:.status.allocatable.memory`.",
	},
	{
		Code: decision.ResizeWaiting, Example: decision.Reason{Text: "Node didn't have enough resource: cpu, requested: 2000, used: 3100, capacity: 4000"},
		Meaning: "The kubelet deferred the resize until the node has room. After 5 minutes the pod is evicted, if the update mode allows it.",
		Remedy:  "In mode `InPlace`, make room on the node or delete the pod. Otherwise no action is required. To see the state of the resize, run `kubectl -n NAMESPACE get pod POD -o jsonpath='{.status.conditions}'`.",
	},
	{
		Code:    decision.ResizeRunning,
		Others:  []decision.Reason{{Until: exampleTime}},
		Meaning: "The kubelet is resizing the pod. If that takes more than an hour, the pod is evicted, if the update mode allows it. A pod that is not ready because of OOM kills waits for 10 minutes (`--oom-rescue`).",
		Remedy:  "If it lasts, look at the node: `kubectl -n NAMESPACE describe pod POD`, then the log of the kubelet.",
	},
	{
		Code:    decision.ResizeStalled,
		Meaning: "A container of the pod is OOM-killed again and again, and the kubelet has not completed for 10 minutes the resize that gives it more memory. The update mode `InPlace` does not allow an eviction.",
		Remedy:  "Delete the pod, so that its replacement starts with the new size, or set update mode `InPlaceOrRecreate`. For the cause, look at the node: `kubectl -n NAMESPACE describe pod POD`, then the log of the kubelet.",
	},
	{
		Code: decision.ResizeFailed, Example: decision.Reason{Text: "failed to set cgroup value"},
		Meaning: "The kubelet reported an error during the resize. The pod is evicted, if the update mode allows it.",
		Remedy:  "Read the message, which is from the kubelet: `kubectl -n NAMESPACE describe pod POD`. In mode `InPlace`, delete the pod after the cause is fixed.",
	},
	{
		Code: decision.ResizeImpossible, Example: decision.Reason{Text: "Node didn't have enough capacity: memory, requested: 68719476736, capacity: 33554432000"},
		Meaning: "The node of the pod is too small for the recommended size, or its kubelet cannot resize this pod. In mode `InPlaceOrRecreate` the pod is evicted, so that a larger node can take the replacement. " +
			"In mode `InPlace` the pod is left as it is until the recommendation is lower.",
		Remedy: "In mode `InPlace`, set `maxAllowed` in the VPA, or delete the pod, so that it is scheduled to a larger node.",
	},
	{
		Code: decision.ResizeUnclear, Example: decision.Reason{Text: "Paused"},
		Meaning: "The kubelet reported a state of the resize that this version of podfit does not know. The pod is evicted, if the update mode allows it.",
		Remedy:  "Look at the pod conditions with `kubectl -n NAMESPACE get pod POD -o jsonpath='{.status.conditions}'`, and update podfit if the cluster has a newer Kubernetes version than it supports.",
	},
	{
		Code: decision.MemoryInUse, Example: decision.Reason{Text: "cannot decrease memory limits: new limit is below current usage"},
		Meaning: "The kubelet does not lower the memory limit of a container below its current usage. The pod is not evicted for this. The resize succeeds when usage falls, or the recommendation rises.",
		Remedy:  "If it lasts, restart the pod at a suitable time: `kubectl -n NAMESPACE delete pod POD`. To leave limits as they are, set `controlledValues: RequestsOnly` in the VPA.",
	},
	{
		Code: decision.NotSmallerThanRefused,
		Meaning: "The node was too small for an earlier resize of the pod, and the recommendation is not noticeably lower now. The pod is left as it is, because the update mode `InPlace` does not evict, or another reason prevents an eviction. " +
			"Upstream's event for this is `InPlaceResizeSkipped`.",
		Remedy: "Set `maxAllowed` in the VPA, or delete the pod, so that it is scheduled to a larger node: `kubectl -n NAMESPACE delete pod POD`.",
	},
	{
		Code: decision.EvictionRefused, Example: decision.Reason{Text: `admission webhook "guard.example.com" denied the request`, Until: exampleTime},
		Meaning: "The API server refused the eviction: an admission webhook or policy denied it, or the updater may not evict. The text is from the API server. The next attempt is after the given time; the delay doubles up to 90 minutes.",
		Remedy: "Read the text. For missing permissions, run `kubectl auth can-i create pods --subresource=eviction -n NAMESPACE --as=system:serviceaccount:kube-system:vpa-updater`. " +
			"For a webhook, find it with `kubectl get validatingwebhookconfigurations`.",
	},
	{
		Code: decision.DisruptionBudget, Example: decision.Reason{Text: "The disruption budget web needs 3 healthy pods and has 3 currently", Until: exampleTime},
		Meaning: "A PodDisruptionBudget does not allow the eviction now. podfit tries again after the given time, or earlier if more pods are ready than at all earlier attempts.",
		Remedy:  "Run `kubectl -n NAMESPACE get pdb`: ALLOWED DISRUPTIONS must be above 0. Fix unhealthy pods. If all pods are healthy, the budget never allows a disruption: lower `minAvailable` or raise `maxUnavailable`, or add a replica.",
	},
	{
		Code: decision.ResizeRefused, Example: decision.Reason{Text: `admission webhook "guard.example.com" denied the request`, Until: exampleTime},
		Meaning: "The API server refused to resize the pod. The text is from the API server. In mode `InPlaceOrRecreate` podfit evicts the pod instead, if the refusal will not pass by itself. Otherwise the next attempt is after the given time.",
		Remedy: "Read the text. For missing permissions, run `kubectl auth can-i patch pods --subresource=resize -n NAMESPACE --as=system:serviceaccount:kube-system:vpa-updater`. " +
			"Kubernetes before 1.33 cannot resize pods in place unless the feature gate InPlacePodVerticalScaling is enabled: use update mode `Recreate` there.",
	},
	{
		Code: decision.ResizeOverQuota, Example: decision.Reason{Text: "exceeded quota: compute, requested: requests.memory=1Gi, used: requests.memory=9Gi, limited: requests.memory=10Gi", Until: exampleTime},
		Meaning: "A ResourceQuota or LimitRange refused the resize. The pod is not evicted instead, because its replacement would be refused, too. The next attempt is after the given time, or earlier if the recommendation is lower.",
		Remedy:  "Run `kubectl -n NAMESPACE describe resourcequota,limitrange`. Raise the quota or the range, or set `maxAllowed` in the VPA.",
	},
	{
		Code: decision.Unanswered, Example: decision.Reason{For: 12 * time.Minute, Text: "context deadline exceeded", Until: exampleTime},
		Others:  []decision.Reason{{Text: "context deadline exceeded", Until: exampleTime}},
		Meaning: "The API server did not answer a request to evict or resize the pod, so the change may have been made. It is reported as an event if there was no answer for 10 minutes.",
		Remedy: "Check the API server and the webhooks that it calls for pods: `kubectl get --raw='/readyz?verbose'` and `kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations`. " +
			"Check the network between the updater and the API server.",
	},
	{
		Code: decision.ServerNotReached, Example: decision.Reason{Text: "dial tcp 10.96.0.1:443: connect: connection refused", Until: exampleTime},
		Meaning: "The updater could not open a connection to the API server to evict or resize the pod. The API server got no request, so it refused nothing and the pod was not changed.",
		Remedy:  "No action is required if the API server restarted. Otherwise check that it runs, and the network between the updater and the API server.",
	},
	{
		Code: decision.AwaitingReplacement, Example: decision.Reason{Text: `admission webhook "guard.example.com" denied the request`},
		Meaning: "The API server refused to resize the pod, and it is not known whether it would refuse a replacement, too. So podfit first evicts one other pod of the controller and waits for its replacement.",
		Remedy:  "No action is required. If it lasts, the replacement is missing: look at `kubectl -n NAMESPACE get events` for the reason why the controller cannot create pods.",
	},
	{
		Code:    decision.Probing,
		Meaning: "Two pods of the workload were evicted, or one if this pod was OOM-killed, and have no replacement with the recommended size yet. The remaining pods follow when the replacements have the recommended size, so that few pods are evicted in vain if they do not get it. After evictions without effect and the back-off, podfit evicts one pod first.",
		Remedy:  "No action is required. With `--early-passes=false`, two pods follow per `--updater-interval`, so that a large workload takes longer: set a shorter interval or, for as many evictions at once as the eviction tolerance allows, `--updater-rules=upstream`. If it lasts, the replacements are missing: see the reason `ReplacementMissing`. After evictions without effect, see the reason `BackingOff`.",
	},
	{
		Code: decision.ReplacementMissing, Example: decision.Reason{Have: 2, Want: 3, For: 6 * time.Minute},
		Meaning: "The controller has fewer pods than it wants: either an evicted pod has no replacement after 5 minutes, or the controller wants more pods since the eviction and cannot create them. None of its pods is evicted until all exist. Exceptions: a pod of a StatefulSet that has not been ready for 10 minutes, because the StatefulSet creates no pod with a higher ordinal before it is ready, and a pod whose eviction makes room for the missing pods in a ResourceQuota that podfit may read.",
		Remedy:  "Find out why no pod is created: `kubectl -n NAMESPACE describe replicaset`, or describe the controller of the pods. Usual causes are a ResourceQuota, an admission webhook, or a missing ServiceAccount.",
	},
	{
		Code: decision.ReplacementRefused, Example: decision.Reason{Text: "the memory limit 2Gi of container app is above the maximum 1Gi of a LimitRange"},
		Meaning: "With the recommended size, the pod violates a rule of the API server, such as a LimitRange. The admission controller would leave a replacement as the pod template specifies it, so an eviction would not help. The text names the rule.",
		Remedy:  "Correct the LimitRange, the pod template, or `minAllowed` and `maxAllowed` in the VPA. See the refusals in the section about the annotation `vpaUpdates` for each text.",
	},
	{
		Code: decision.OverQuota, Example: decision.Reason{Text: "the memory requests of the pod are 2Gi, and ResourceQuota compute has 1Gi left"},
		Meaning: "With the recommended size, the pod would exceed a ResourceQuota of its namespace. It is left as it is until the quota has room. The evicted pod counts until it has ended, so a replacement must fit beside it. If podfit may not read quotas, a refused resize of another pod of the workload shows that there is no room.",
		Remedy:  "Run `kubectl -n NAMESPACE describe resourcequota`. Raise the quota, or set `maxAllowed` in the VPA.",
	},
	{
		Code:    decision.RateLimited,
		Meaning: "The rate limit did not allow the change in this pass (`--eviction-rate-limit`, `--eviction-rate-burst`). The pod gets its turn in a later pass.",
		Remedy:  "No action is required. To change more pods per pass, raise `--eviction-rate-limit` of the updater.",
	},
	{
		Code:    decision.OutOfTime,
		Meaning: "The pass ended before the turn of the pod: the updater stopped or lost its lease, or the pass took longer than `--updater-interval` (at least one minute). The pod gets its turn in a later pass.",
		Remedy:  "If it occurs in most passes, the API server answers slowly: look at the metric `rest_client_request_duration_seconds`, and raise `--kube-api-qps` and `--kube-api-burst` of the updater.",
	},
	{
		Code:    decision.AlreadyEvicted,
		Meaning: "The pod was evicted in the last 5 minutes, and the watch still shows it as running.",
		Remedy:  "If it lasts, the pod does not terminate: look at its `deletionTimestamp`, grace period and finalizers with `kubectl -n NAMESPACE get pod POD -o yaml`.",
	},
	{
		Code:    decision.AlreadyGone,
		Meaning: "The pod was deleted or replaced by another one of the same name before podfit could change it.",
		Remedy:  "No action is required.",
	},
	{
		Code: decision.LeftToHPA, Example: decision.Reason{Resource: cluster.CPU, From: 500, To: 250, Text: "web"},
		Meaning: "The recommendation differs from the request, but a HorizontalPodAutoscaler (HPA) scales the same workload by the utilization of that request. A change of the request would change the number of replicas, so podfit leaves the request and its limit alone.",
		Remedy: "See the condition `HorizontalPodAutoscaler` of the VPA. To change the request and the target of the HPA together, run `kubectl -n NAMESPACE annotate vpa VPA podfit.dev/hpa=preserve-scale-point --overwrite`. " +
			"Or scale by an absolute value (`averageValue`) or another metric.",
	},
	{
		Code:    decision.HPANotWritten,
		Meaning: "The VPA has the annotation `podfit.dev/hpa: preserve-scale-point`. The target utilization of the HorizontalPodAutoscaler must change before the request of the pod, and the API server refused this or did not answer. The pod gets its turn in a later pass.",
		Remedy: "The log of the updater has the cause: `kubectl -n kube-system logs -l app.kubernetes.io/component=updater --tail=-1 | grep HorizontalPodAutoscaler`. " +
			"Ask whether the updater may change HPAs: `kubectl auth can-i patch horizontalpodautoscalers -n NAMESPACE --as=system:serviceaccount:kube-system:vpa-updater`. " +
			"If the answer is no, grant the right with the folder `deploy/rights/hpa-targets`, or set `rights.hpaTargets=true` in the chart.",
	},
	{
		Code: decision.FewKills, Example: decision.Reason{Have: 1, Want: 3},
		Meaning: "The pod is OOM-killed, and a PodDisruptionBudget does not allow its eviction. It is deleted after three OOM kills in a row that podfit has observed, if the recommendation has more memory.",
		Remedy:  "No action is required. To apply the recommendation now, delete the pod: `kubectl -n NAMESPACE delete pod POD`.",
	},
	{
		Code:    decision.DataWouldBeLost,
		Meaning: "The pod is OOM-killed again and again, and a PodDisruptionBudget does not allow its eviction. It is not deleted, because it has a `hostPath`, ephemeral or CSI volume, whose content would be lost. An `emptyDir` does not count, because each eviction loses it, too.",
		Remedy:  "If the data may be lost, delete the pod: `kubectl -n NAMESPACE delete pod POD`. To let podfit evict it, set `unhealthyPodEvictionPolicy: AlwaysAllow` in the PodDisruptionBudget.",
	},
	{
		Code:    decision.BudgetsUnknown,
		Meaning: "The pod is OOM-killed again and again, and a PodDisruptionBudget does not allow its eviction. It is not deleted, because the updater cannot read PodDisruptionBudgets and does not know which pods they lack.",
		Remedy:  "Grant `list` and `watch` on `poddisruptionbudgets`, as `deploy/10-rbac.yaml` does, or delete the pod: `kubectl -n NAMESPACE delete pod POD`.",
	},
	{
		Code: decision.BudgetOfOthers, Example: decision.Reason{Text: "cart", Have: 1, Want: 2},
		Others:  []decision.Reason{{Text: "cart, shop"}},
		Meaning: "The pod is OOM-killed again and again, and a PodDisruptionBudget does not allow its eviction. It is not deleted, because the PodDisruptionBudget also lacks pods that are not ready for other reasons, or more than one PodDisruptionBudget selects the pod.",
		Remedy:  "Find out why the other pods are not ready: `kubectl -n NAMESPACE get pods` and `kubectl -n NAMESPACE describe pdb`. To let podfit evict pods that are not ready, set `unhealthyPodEvictionPolicy: AlwaysAllow` in the PodDisruptionBudget.",
	},
	{
		Code:    decision.RescueInProgress,
		Others:  []decision.Reason{{Text: "cart-0"}},
		Meaning: "Another pod of the workload was deleted to rescue it from OOM kills. The next one is deleted when the replacement is ready, was OOM-killed with the new size, too, or has been running for 10 minutes without becoming ready.",
		Remedy:  "No action is required. If the replacement does not become ready, find the cause with `kubectl -n NAMESPACE describe pod POD`.",
	},
	{
		Code: decision.NotEnoughMemory, Example: decision.Reason{From: 400 * mebibyte, To: 400 * mebibyte},
		Meaning: "A pod of the workload was deleted to rescue it from OOM kills, and its replacement is OOM-killed with the new size, too. The next pod is deleted only if the recommendation has at least 10 % more memory.",
		Remedy:  "Raise `maxAllowed` in the VPA, or find out why the container needs more memory.",
	},
	{
		Code: decision.DeletionRefused, Example: decision.Reason{Text: `pods "cart-1" is forbidden`, Until: exampleTime},
		Meaning: "The API server refused the deletion of a pod that is OOM-killed again and again. The text after the colon is from the API server. The delay doubles from 1 minute to 90 minutes.",
		Remedy: "Ask whether the updater may delete pods: `kubectl auth can-i delete pods -n NAMESPACE --as=system:serviceaccount:kube-system:vpa-updater`. " +
			"If the answer is no, grant the right with the folder `deploy/rights/oom-rescue`, or set `rights.oomRescue=true` in the chart. " +
			"If deletions are not acceptable, set `--oom-rescue=evict` for the updater.",
	},
	{
		Code: decision.Interrupted, Example: decision.Reason{Until: exampleTime},
		Meaning: "The updater that led before ended without recording the outcomes of its last pass, for example because it was killed. It may have changed pods of this workload, and the " +
			"watch may not show that yet. The `UpdateState` object of the workload has the time of that pass in `status.actingSince`.",
		Remedy: "No action is required: the updater continues after 5 minutes. If this occurs often, find out why the updater restarts: `kubectl -n kube-system describe pod -l app.kubernetes.io/component=updater`.",
	},
	{
		Code: decision.Frozen, Example: decision.Reason{Text: "ConfigMap kube-system/podfit-freeze (incident 7)"},
		Meaning: "All changes of running pods are stopped, by the annotation `podfit.dev/freeze` of the VPA or its namespace, or for the whole cluster by the ConfigMap of `--freeze-configmap`. " +
			"The text names the switch. New pods get their recommended size as before. OOM-killed pods wait, too.",
		Remedy: "Find out who set the switch and why. To end the freeze, remove it: `kubectl -n NAMESPACE annotate vpa VPA podfit.dev/freeze-`, `kubectl annotate namespace NAMESPACE podfit.dev/freeze-`, or `kubectl -n kube-system delete configmap podfit-freeze`.",
	},
	{
		Code: decision.OutsideWindow, Example: decision.Reason{Until: exampleTime},
		Others: []decision.Reason{{}, {Text: "unknown time zone Berlin"}},
		Meaning: "The annotation `podfit.dev/change-window` of the VPA or its namespace allows changes only at certain times, and it is not such a time, or the annotation is invalid. " +
			"Pods with a container that was OOM-killed soon after its start do not wait.",
		Remedy: "No action is required if the time is as intended. If the annotation is invalid, correct it: the text names the mistake. See [rollout.md](rollout.md#change-windows).",
	},
	{
		Code: decision.InitialDelay, Example: decision.Reason{Until: exampleTime},
		Meaning: "The annotation `podfit.dev/initial-delay` of the VPA or its namespace allows changes of running pods only after a time since the first recommendation. " +
			"New pods get their recommended size. Pods with a container that was OOM-killed soon after its start do not wait.",
		Remedy: "No action is required. To change the pods now, shorten the delay: `kubectl -n NAMESPACE annotate vpa VPA podfit.dev/initial-delay=0s --overwrite`.",
	},
	{
		Code: decision.BlastRadius, Example: decision.Reason{Have: 24, Want: 20, Text: "namespace shop", Until: exampleTime},
		Others:  []decision.Reason{{Until: exampleTime}},
		Meaning: "In the last hour, podfit has changed pods with as large a share of the requests of the namespace or the cluster as `--max-change-per-hour-namespace` or `--max-change-per-hour-cluster` allows, and the change of this pod would exceed it.",
		Remedy:  "No action is required. To change more pods per hour, raise the flag.",
	},
	{
		Code: decision.AwaitingRoom, Example: decision.Reason{Text: "memory=72Mi"},
		Meaning: "The node had no room for the whole increase of the pod, so the pod was resized by a part of it. The rest follows when the node has room. The text has what the node lacks. " +
			"If the requests of the pod are still outside their bounds after 5 minutes, the pod is evicted, if the update mode allows it. " +
			"If podfit may not read quotas, it first requests the whole increase, which a quota may refuse, and waits for the kubelet for another 5 minutes.",
		Remedy: "No action is required. To make room, remove pods from the node, or allow moves with `--make-room=move`. Room is made only where the pods of all namespaces are watched.",
	},
	{
		Code: decision.RoomReserved, Example: decision.Reason{Text: "shop/web-7d4-x2x9z", Until: exampleTime},
		Others: []decision.Reason{{Until: exampleTime}},
		Meaning: "The node has too little room for the resizes of all its pods. Pods get room by priority, then in the order in which they began to wait. A resize of this pod would take room that another pod gets first: by a resize of the same pass, or when other pods have moved. " +
			"The text names that pod as for `MakesRoom`. A pod waits for others at most 5 minutes; then it gets free room before all others. OOM-killed pods do not wait for others.",
		Remedy: "No action is required. To give the pod room first, set a PriorityClass with a higher value in the pod template of its workload.",
	},
	{
		Code: decision.AwaitingCanary, Example: decision.Reason{Text: "web-7d4-x2x9z", Until: exampleTime},
		Meaning: "The VPA has the annotation `podfit.dev/rollout: canary`, or its SizingProfile has `rollout: canary`. One pod of the workload gets the new size first. The others follow if it runs without OOM kills and restarts, and is ready, for `podfit.dev/canary-duration`. " +
			"With `podfit.dev/canary-query`, they also wait until its value after the change is known. A further sentence says so, or why CPU throttling cannot be compared.",
		Remedy: "No action is required. To change all pods at once: `kubectl -n NAMESPACE annotate vpa VPA podfit.dev/rollout=all --overwrite`.",
	},
	{
		Code: decision.ObjectiveMissed, Example: decision.Reason{Text: "its value is not < 0.01", Note: "Its last value was 0.03."},
		Others:  []decision.Reason{{Text: "it has no value"}},
		Meaning: "The VPA has a canary and the annotation `podfit.dev/canary-query`. The canary has run well for `podfit.dev/canary-duration`, but the query does not hold, or its value is not known. The canary keeps its new size, also if the recommendation changes, and new pods get the recommendation; the other running pods keep their size. podfit reverts nothing because of the query.",
		Remedy: "Find out whether the new size is the cause. If it is, raise `minAllowed` of the VPA, and then delete the canary, so that its replacement gets the new recommendation. If the query is wrong, correct it; `kubectl -n NAMESPACE annotate vpa VPA podfit.dev/canary-query-` removes it, and then the other pods follow. " +
			"If Prometheus does not execute it, the text has the error. If its value is not known, check `--prometheus-address` of the updater and whether Prometheus has the metrics with the label `namespace`. See [rollout.md](rollout.md#objective).",
	},
	{
		Code: decision.Protected, Example: decision.Reason{Text: "karpenter.sh/do-not-disrupt: true"},
		Meaning: "The pod should change, that is possible only by an eviction, a surge or a deletion, and an annotation of the pod forbids to end it: " +
			"`cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\"` or `karpenter.sh/do-not-disrupt: \"true\"`. An OOM rescue does not end it either. Resizes in place are not affected. The same holds for pods that are sized by their role (`podfit.dev/role-label` of the VPA), whatever the remedy below says: remove that annotation of the VPA, or delete the pod.",
		Remedy: "Delete the pod when it may end, or remove the annotation. To disregard the annotations of all pods of a VPA: `kubectl -n NAMESPACE annotate vpa VPA podfit.dev/ignore-do-not-disrupt=rescue`, " +
			"which lets only OOM rescues end them, or `=always`. Update mode `InPlaceOrRecreate` resizes such pods in place. See [rollout.md](rollout.md#pods-that-must-not-be-disrupted).",
	},
	{
		Code: decision.DryRunUnanswered,
		Meaning: "Evictions had no effect, so the updater creates the replacement of a pod in a dry run before it evicts the pod. In this pass, two dry runs in the namespace had no answer within 10 s, for example because a webhook for pods hangs. " +
			"The other pods of the namespace wait for the next pass, so that they do not delay those of other namespaces.",
		Remedy: "Find out which webhook for pods hangs: `kubectl -n NAMESPACE run test --image=registry.k8s.io/pause:3.10 --dry-run=server` has the same delay, and `kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations` lists the webhooks.",
	},
	{
		Code: decision.NotAnnounced, Example: decision.Reason{Text: "UpdateState shop/deployment-web: exceeded quota: objects, requested: count/updatestates.podfit.dev=1", Until: exampleTime},
		Meaning: "Before an eviction, a surge, a deletion, the change of a canary or a request for capacity, the updater stores in an `UpdateState` object that it acts, so that the next updater repeats nothing after a kill or a crash. This write failed or had no answer within 5 s, so the pod is left. " +
			"The text has the object and the error. Resizes in place that restart no container, and evictions of OOM-killed pods that are not ready, do not wait. The pause before the next attempt doubles with each failure, from 10 s to 10 minutes. " +
			"If many writes in a namespace fail in a row, all pods of the namespace wait.",
		Remedy: "Remove the cause that the text names: an admission webhook or policy that denies or delays `updatestates.podfit.dev`, a ResourceQuota on `count/updatestates.podfit.dev`, or a missing right " +
			"(`kubectl auth can-i create updatestates.podfit.dev -n NAMESPACE --as=system:serviceaccount:kube-system:vpa-updater`, likewise `patch`).",
	},
	{
		Code: decision.NoWayBack,
		Meaning: "The VPA has a canary, and the pod would have to be evicted for its new size. The webhook reads from `UpdateState` objects which sizes were reverted, and the updater cannot store them, because the CRD or a right is missing. " +
			"So new pods would get a size again that has failed. Such a workload is changed only by resizes in place. OOM-killed pods do not wait.",
		Remedy: "Install the CRDs (`podfit crds | kubectl apply --server-side --force-conflicts -f -`) and grant the rights of `deploy/10-rbac.yaml`. To change the pods without a way back: `kubectl -n NAMESPACE annotate vpa VPA podfit.dev/rollout=all --overwrite`.",
	},
	{
		Code: decision.Reverted, Example: decision.Reason{Text: "a container of pod web-7d4-x2x9z, or of its replacement, was OOM-killed", Until: exampleTime},
		Meaning: "The first pod with the new size did not run well, so pods with that size got the previous size, and new pods get it, too. The recommendation is held back until the given time: 24 hours, doubled with each revert in a row. The text has the cause. The VPA has the condition `Reverted`.",
		Remedy:  "Find out why the pod failed: `kubectl -n NAMESPACE describe pod POD`. If the size is the cause, set `minAllowed` in the VPA. If it is not, end the wait with the annotation `podfit.dev/rollout: all` of the VPA.",
	},
	{
		Code: decision.Surging, Example: decision.Reason{Text: "web-6d4cf56db6-x2vqk", Until: exampleTime},
		Meaning: "A surge replaces a pod of the Deployment: the Deployment has one replica more, and the pod that the text names is removed when all other pods are ready. There is one surge of a Deployment at a time. " +
			"The annotation `podfit.dev/surge` of the Deployment has the number of replicas before.",
		Remedy: "No action is required. To end a surge at once, set `spec.replicas` of the Deployment to the number that you want: podfit then removes its annotation and keeps your number.",
	},
	{
		Code: decision.SurgeFailed, Example: decision.Reason{Text: "not all pods were ready within 10m", Until: exampleTime},
		Meaning: "A surge of the pod could not begin, or ended without its removal, and the number of replicas is as before. The text has the cause. After a back-off, podfit tries again. " +
			"If the additional pod was not created or found no node, podfit evicts the pod instead, if the rules for evictions allow it.",
		Remedy: "Find out why the additional pod was not ready: `kubectl -n NAMESPACE describe deployment DEPLOYMENT` and the events of its pods. If a controller or a GitOps tool resets `spec.replicas`, " +
			"set the annotation `podfit.dev/mover` of the VPA to `evict`.",
	},
	{
		Code: decision.AwaitingCapacity, Example: decision.Reason{Text: cluster.Amounts(2000, 4096*mebibyte).String(), Until: exampleTime},
		Others: []decision.Reason{{Text: cluster.Amounts(2000, 4096*mebibyte).String()}},
		Meaning: "No node has free room for a replacement with the new requests, so the pod is not evicted yet. podfit has created a ProvisioningRequest or a placeholder pod with the size of the replacement, " +
			"or creates it when the requests for the same workload and for other workloads are done. When the ProvisioningRequest is provisioned or the placeholder pod has a node, the pod is evicted.",
		Remedy: "No action is required if a cluster autoscaler adds nodes. Otherwise add a node. To see the requests, run `kubectl get pods -A -l podfit.dev/placeholder=true` and, " +
			"if the cluster has ProvisioningRequests, `kubectl get provisioningrequests -A -l podfit.dev/placeholder=true`. " +
			"To evict pods without waiting, set `--capacity-before-eviction=off` for the updater.",
	},
	{
		Code: decision.CapacityNotFound, Example: decision.Reason{Text: "no node had room for the placeholder pod in time", Until: exampleTime},
		Meaning: "No node has free room for a replacement with the new requests, and the request for capacity failed: the placeholder pod got no node in time, the autoscaler did not provision the " +
			"ProvisioningRequest, the API server refused it (for example because of a ResourceQuota), or others deleted it. The pod is not evicted, because its replacement would be Pending. The next request follows after a back-off.",
		Remedy: "Add a node, raise the limits of the cluster autoscaler, raise the ResourceQuota that the text names, or lower `maxAllowed` of the VPA. " +
			"To evict pods nevertheless, set `--capacity-before-eviction=off` for the updater.",
	},
	{
		Code: decision.NoCapacityProvider, Example: decision.Reason{Text: cluster.Amounts(2000, 4096*mebibyte).String()},
		Meaning: "No node has free room for a replacement with the new requests, so the pod is not evicted: its replacement would be Pending. podfit cannot ask for capacity, because it may create neither " +
			"ProvisioningRequests nor placeholder pods. The log has the cause.",
		Remedy: "Grant the rights: `kubectl apply -f deploy/rights/placeholders/placeholders.yaml`, or `rights.placeholders=true` in the chart. Or add a node. To evict pods nevertheless, set `--capacity-before-eviction=off` for the updater.",
	},
	{
		Code: decision.NoFreeRoom, Example: decision.Reason{Text: cluster.Amounts(1000, 2048*mebibyte).String()},
		Meaning: "The pod should shrink, but its replacement would be Pending: its node is cordoned or not ready, or the resizes of other pods that wait there take what the pod would free, and no other node " +
			"is known to have room. No capacity is asked for, because that would add a node to save a part of one.",
		Remedy: "No action is required if the node is drained soon or the resizes end. Otherwise uncordon the node or add one. To evict such pods nevertheless, set `--capacity-before-eviction=off` for the updater.",
	},
}
