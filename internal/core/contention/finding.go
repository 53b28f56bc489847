// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package contention finds containers that compete for CPU, and the cause: usage above the request for a long time, CPU throttling, a
// missing CPU request, and a JVM that uses all cores of its node.
//
// A Monitor keeps the average usage of the last five minutes of each container, and since when that is above the request. The other
// functions need no memory. All results are the same for the same input, and their texts have rounded amounts, so that they change rarely.
package contention

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
)

// A Reason is the cause of a Finding: the reason of a condition of a VPA.
type Reason string

// The causes, by the condition that has them.
const (
	// UsageAboveRequest.
	RequestTooLow Reason = "RequestTooLow"
	OneReplica    Reason = "OneReplica"
	Starting      Reason = "Starting"
	NodeHasSpare  Reason = "NodeHasSpare"

	// CPUThrottled.
	AtLimit         Reason = "AtLimit"
	KernelTooOld    Reason = "KernelTooOld"
	BurstsOfThreads Reason = "BurstsOfThreads"

	// NoCPURequest.
	NotControlled Reason = "NotControlled"
	NotApplied    Reason = "NotApplied"

	// JVMSeesAllCores.
	RequestInBand Reason = "RequestInBand"
)

// A Finding is a problem with the CPU of a workload. The zero value is none.
type Finding struct {
	Reason  Reason
	Message string
}

// mostDescribed is the maximum number of containers that a message describes.
const mostDescribed = 3

// An opinion is the finding about one container.
type opinion struct {
	Finding
	rank    int   // the highest one determines the reason of all
	lacking int64 // millicores on a busy node
}

// join returns one finding for all containers, with the reason of the most urgent one. The message describes the most urgent ones first, others
// in the given order. It does not count the rest, because their number changes often and is bounded.
func join(opinions []opinion) Finding {
	if len(opinions) == 0 {
		return Finding{}
	}
	slices.SortStableFunc(opinions, func(a, b opinion) int { return cmp.Or(b.rank-a.rank, cmp.Compare(b.lacking, a.lacking)) })
	sentences := cluster.Each(opinions[:min(len(opinions), mostDescribed)], func(o *opinion) string { return o.Message })
	if len(opinions) > mostDescribed {
		sentences = append(sentences, "Other containers have this condition, too.")
	}
	return Finding{opinions[0].Reason, strings.Join(sentences, " ")}
}

// cpu returns millicores with two significant digits, as text.
func cpu(millicores int64) string {
	if millicores <= 0 {
		return "0"
	}
	step := math.Pow(10, max(math.Floor(math.Log10(float64(millicores)))-1, 0))
	return cluster.Format(cluster.CPU, int64(math.Round(float64(millicores)/step)*step))
}

// where returns "pod web-0" or "several pods, such as web-0". The message does not count them, because the number changes often.
func where(pods int, first string) string {
	if pods == 1 {
		return "pod " + first
	}
	return "several pods, such as " + first
}

// A Situation is what is known about how a recommendation is applied.
type Situation struct {
	Autoscaler *cluster.Autoscaler
	Advice     []cluster.Advice // the present recommendation
	Governs    bool             // the autoscaler is the one that is applied to the pods
	Packs      bool             // the profile sizes for full nodes
}

// target returns the recommended CPU request of a container in millicores, without the upper bound that the user sets, and with it.
func (s *Situation) target(container string) (wanted, capped int64, known bool) {
	a := cluster.Find(s.Advice, func(a *cluster.Advice) bool { return a.Container == container })
	if a == nil {
		return 0, 0, false
	}
	target, ok := a.Target.Get(cluster.CPU)
	return max(a.Uncapped.Amount(cluster.CPU), target), target, ok
}

// notApplied returns why a container does not have the recommended CPU request, as far as the recommender knows it, with a remedy.
func (s *Situation) notApplied(container string, request int64) string {
	a := s.Autoscaler
	policy := a.Policy(container)
	wanted, target, known := s.target(container)
	switch {
	case policy != nil && policy.Off:
		return "Its container policy has mode Off, so podfit does not size it. Set the CPU request in the pod template, or remove mode Off."
	case !policy.Controls().Has(cluster.CPU):
		return "controlledResources of this VPA does not contain cpu. Set the CPU request in the pod template, or add cpu to controlledResources."
	case !known:
		return "There is no recommendation for its CPU yet."
	case target <= request && wanted > request:
		return fmt.Sprintf("The recommendation is limited to %s by maxAllowed or a limit of the node. Raise maxAllowed.", cpu(target))
	case target <= request:
		return fmt.Sprintf("The recommendation of %s is not above the request; it rises if the usage lasts. Set minAllowed for cpu to raise the request earlier.", cpu(target))
	case !a.Mode.Applies():
		return fmt.Sprintf("The recommendation is %s, and updateMode Off does not apply it. Set the CPU request in the pod template, or set another updateMode.", cpu(target))
	case a.Mode.OnlyNewPods():
		return fmt.Sprintf("The recommendation is %s, and updateMode Initial applies it only to new pods. Delete the pods one by one, or set another updateMode.", cpu(target))
	}
	return fmt.Sprintf("The recommendation is %s, and the updater has not applied it to these pods. The reason of the condition Updating says why.", cpu(target))
}
