// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacityplan

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/kube"
)

// Status returns the status of a plan with the histories of its pools, without the time of the update. before are the conditions of the
// present status. Parts of the history are left out until the status is within its size limit.
func Status(p *capacity.Plan, histories map[string]*capacity.History, before []metav1.Condition) v1alpha1.CapacityPlanStatus {
	out := v1alpha1.CapacityPlanStatus{Conditions: conditions(p, before)}
	if u := &p.Unplaced; u.Pods > 0 {
		out.UnplacedPods = &v1alpha1.UnplacedPods{
			Count: int32(u.Pods), CPU: *quantity(cluster.CPU, u.Requests.CPU), Memory: *quantity(cluster.Memory, u.Requests.Memory), Example: u.Example.String(),
		}
	}
	for i := range p.Pools {
		pool := poolStatus(&p.Pools[i])
		if h := histories[pool.Name]; h != nil {
			pool.History = storeHistory(h, capacity.DayOf(p.Now))
		}
		out.Pools = append(out.Pools, pool)
	}
	shrink(&out)
	return out
}

// shrink leaves out workloads, then changes, then the oldest days, until the status is within its size limit.
func shrink(s *v1alpha1.CapacityPlanStatus) {
	for _, reduce := range []func(*v1alpha1.CapacityPoolStatus) bool{
		halve,
		func(p *v1alpha1.CapacityPoolStatus) bool {
			n := len(p.Changes)
			p.Changes = p.Changes[n-n/2:]
			return n > 0
		},
		func(p *v1alpha1.CapacityPoolStatus) bool { return dropDays(&p.History, 7) },
	} {
		for sizeOf(s) > v1alpha1.MaxCapacityPlanSize {
			reduced := false
			for i := range s.Pools {
				reduced = reduce(&s.Pools[i]) || reduced
			}
			if !reduced {
				break
			}
		}
	}
}

func sizeOf(s *v1alpha1.CapacityPlanStatus) int {
	data, err := json.Marshal(s)
	if err != nil {
		return 0 // plain values are always encoded
	}
	return len(data)
}

func poolStatus(p *capacity.PoolPlan) v1alpha1.CapacityPoolStatus {
	out := v1alpha1.CapacityPoolStatus{
		Name: p.Name, Nodes: int32(p.Nodes), SchedulableNodes: int32(p.Schedulable), Pods: int32(p.Pods), PendingPods: int32(p.Pending),
		WorkloadsWithoutRecommendation: int32(p.Unadvised), LeadTimeDays: int32(p.LeadTime),
		CPU: resourceStatus(&p.Resources[0]), Memory: resourceStatus(&p.Resources[1]),
	}
	out.Changes = cluster.Each(p.Changes, func(c *capacity.Change) v1alpha1.CapacityChange {
		return v1alpha1.CapacityChange{Day: c.Day.String(), Cause: string(c.Cause), Workload: storeWorkload(c.Workload, 0, c.Amount)}
	})
	return out
}

func resourceStatus(r *capacity.ResourcePlan) v1alpha1.CapacityResource {
	res := r.Resource
	out := v1alpha1.CapacityResource{
		Capacity: *quantity(res, r.Capacity), CapacityWithoutLargestNode: *quantity(res, r.WithoutLargest), Requested: *quantity(res, r.Requested),
		Recoverable: *quantity(res, r.Recoverable), RecoverableWorkloads: int32(r.GiveBack),
		OrderBy: r.Outlook.OrderBy.String(), ForecastDays: int32(r.Outlook.Reach), Advice: string(r.Advice), Message: wording.Shortened(r.AdviceText(), maxMessage),
	}
	if r.UsedKnown {
		out.Used = quantity(res, r.Used)
	}
	if r.Fit.Node != "" {
		out.LargestPod = &v1alpha1.CapacityRoom{Node: r.Fit.Node, CPU: *quantity(cluster.CPU, r.Fit.Free.CPU), Memory: *quantity(cluster.Memory, r.Fit.Free.Memory)}
	}
	for _, c := range r.Outlook.Crossings {
		out.Thresholds = append(out.Thresholds, v1alpha1.CapacityThreshold{
			Percent: percent(c.Threshold), State: string(c.State), Since: c.Since.String(),
			Earliest: c.Earliest.String(), Expected: c.Expected.String(), Latest: c.Latest.String(),
		})
	}
	if r.Outlook.Shortage == capacity.NoShortage {
		out.GrowthPerDay = quantity(res, int64(math.Round(r.Outlook.Slope)))
	}
	if r.GrewDays > 0 {
		g := &r.Grew
		out.Growth = &v1alpha1.CapacityGrowth{
			Days: int32(r.GrewDays), Total: *quantity(res, r.GrewTotal), NewWorkloads: *quantity(res, g.New.Amount(res)),
			GoneWorkloads: *quantity(res, g.Gone.Amount(res)), Replicas: *quantity(res, g.Replicas.Amount(res)), RequestsPerPod: *quantity(res, g.PerPod.Amount(res)),
		}
	}
	return out
}

func percent(share float64) int32 { return int32(math.Round(100 * share)) }

// quantity returns an amount as a quantity: CPU in millicores, memory rounded up to MiB.
func quantity(res cluster.Resource, v int64) *resource.Quantity {
	return new(kube.Quantity(res, cluster.Pick(res, v, mebibytes(v)<<20)))
}

// mebibytes returns bytes in MiB, rounded up.
func mebibytes(v int64) int64 { return (v + (1<<20 - 1)) >> 20 }

const maxMessage = 1000 // bytes

// conditions returns the conditions of a plan. A condition whose status does not change keeps its transition time.
func conditions(p *capacity.Plan, before []metav1.Condition) []metav1.Condition {
	var above, order, lost, unforeseen []string
	today := capacity.DayOf(p.Now)
	for i := range p.Pools {
		pool := &p.Pools[i]
		for k := range pool.Resources {
			r := &pool.Resources[k]
			name := pool.Name + " " + r.Resource.String()
			if text := aboveText(r); text != "" {
				above = append(above, name+" "+text)
			}
			if r.Outlook.OrderBy != 0 && r.Outlook.OrderBy <= today {
				order = append(order, name+": "+r.AdviceText())
			}
			if !r.CanLoseANode() {
				lost = append(lost, fmt.Sprintf("%s: requested %s, %s remain without the largest node", name, wording.Total(r.Resource, r.Requested), wording.Total(r.Resource, r.WithoutLargest)))
			}
			if r.Outlook.Shortage != capacity.NoShortage {
				unforeseen = append(unforeseen, name+": "+string(r.Outlook.Shortage))
			}
		}
	}
	out := append([]metav1.Condition(nil), before...)
	now := metav1.NewTime(p.Now.Truncate(time.Second))
	set := func(name string, status bool, reason, otherwise string, pools []string, without string) {
		c := metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: reason, Message: wording.Shortened(strings.Join(pools, "; "), maxMessage), LastTransitionTime: now}
		if status {
			c.Status = metav1.ConditionTrue
		}
		if len(pools) == 0 {
			c.Reason = otherwise
			c.Message = without
		}
		meta.SetStatusCondition(&out, c)
	}
	set(v1alpha1.PlanAboveThreshold, len(above) > 0, "AboveThreshold", "BelowThreshold", above, "The requests of all pools are below the thresholds.")
	set(v1alpha1.PlanOrderNow, len(order) > 0, "OrderDateReached", "NoOrderDue", order, "No order-by date is today or past.")
	set(v1alpha1.PlanCanLoseANode, len(lost) == 0, "RequestsExceedRemainingNodes", "RequestsFit", lost, "The requests of each pool fit without its largest node.")
	set(v1alpha1.PlanForecast, len(unforeseen) == 0, "NotEnoughHistory", "ForecastComputed", unforeseen, "There is a forecast for each pool.")
	return out
}

// aboveText names the highest threshold that requests are above, "" if they are below all.
func aboveText(r *capacity.ResourcePlan) string {
	text := ""
	for _, c := range r.Outlook.Crossings {
		if c.State == capacity.Above {
			text = fmt.Sprintf("has %d %% requested, above %d %% since %s", percent(r.Share(r.Requested)), percent(c.Threshold), c.Since)
			if r.Recoverable > 0 {
				text += fmt.Sprintf("; %s could be given back", wording.Total(r.Resource, r.Recoverable))
			}
		}
	}
	return text
}
