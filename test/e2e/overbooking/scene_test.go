// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overbooking

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	vpav1 "podfit.dev/podfit/api/v1"
)

// pool is the pool of the nodes.
const pool = "worker"

// TestOverbooking_threeNodesOf64Cores runs podfit on a cluster that is overbooked: 154 of 192 cores are requested, and less than 20 % are used.
// Its parts are the lines that the specification expects, in the order of time.
//
// Real: the API server, the scheduler, the kubelets' code, metrics-server, Prometheus with podfit's alerts, and podfit. Simulated: the usage of the
// containers, of which a day passes in 30 seconds, and the past: 60 days of requests and 8 days of usage are written into blocks of Prometheus.
// In Prometheus, alerts fire without their waiting time. With it, and with their 30 minutes of usage, they are evaluated as if the state that
// Prometheus has scraped lasted for seven hours.
func TestOverbooking_threeNodesOf64Cores(t *testing.T) {
	w := newWorld(t)
	pods := w.run(t)
	byHand := observe(t.Context(), w.Cluster)
	w.startPrometheus(t, pods)
	t.Run("podfit capacity with 5 days of Prometheus has not enough history", w.fiveDays) // the CapacityPlan does not exist yet
	w.startPodfit(t)

	t.Run("all workloads have a recommendation", w.recommendations)
	t.Run("capacity plan and metrics report more than 70 percent", w.aboveThreshold)
	t.Run("wish for 20 cores is capped at a quarter of a node", w.cappedAtAQuarter)
	t.Run("throttling and a misread request are conditions with their causes", w.causes)
	t.Run("usage above requests has its cause after 40 repeated minutes", w.lastingCauses)
	t.Run("podfit capacity with 60 days of Prometheus contains the true date", w.trueDateOfCommand)
	t.Run("capacity plan after two backfilled weeks contains the true date", w.trueDateOfPlan)
	t.Run("alerts about the capacity fire in Prometheus", func(t *testing.T) {
		w.firing(t, "PodfitCapacityAbove70", "PodfitCannotLoseANode", "PodfitCapacityOrderNow")
	})
	t.Run("alerts with their causes fire if the state lasts for seven hours", w.lastingAlerts)
	t.Run("requests after applying are below 45 percent and cover the usage", func(t *testing.T) { w.applied(t, byHand) })
}

// recommendations waits until all VPAs have a recommendation. The first one is made from the history of Prometheus.
func (w *world) recommendations(t *testing.T) {
	eventually(t, "all VPAs have a recommendation", time.Minute, func(ctx context.Context) error {
		all, err := w.Autoscalers(ctx, namespace)
		if err != nil {
			return err
		}
		for _, a := range all {
			if target(a) == 0 && !keepsCPU(a.Name) {
				return fmt.Errorf("%s has none: %+v", a.Name, a.Status.Conditions)
			}
			// The 99th percentile of the busy hours is 0.7 cores, and the factor is 1.3. Percentiles are the upper ends of buckets.
			if got := target(a); strings.HasPrefix(a.Name, "service-") && (got < 0.9 || got > 1) {
				return fmt.Errorf("the target of %s is %v cores, want 1.3 times 0.7", a.Name, got)
			}
		}
		return nil
	})
}

// aboveThreshold checks what is reported about the pool: 154 of 192 cores, of which 15 to 20 % are used.
func (w *world) aboveThreshold(t *testing.T) {
	eventually(t, "the CapacityPlan reports the pool", time.Minute, func(ctx context.Context) error {
		p, err := w.plan(ctx)
		if err != nil {
			return err
		}
		above, node := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.PlanAboveThreshold), meta.FindStatusCondition(p.Status.Conditions, v1alpha1.PlanCanLoseANode)
		switch {
		case len(p.Status.Pools) != 1 || p.Status.Pools[0].Name != pool:
			return fmt.Errorf("pools %+v", p.Status.Pools)
		case above == nil || above.Status != "True" || !strings.Contains(above.Message, pool):
			return fmt.Errorf("conditions %+v", p.Status.Conditions)
		case node == nil || node.Status != "False":
			return fmt.Errorf("conditions %+v", p.Status.Conditions)
		}
		if got := p.Status.Pools[0].CPU; got.Requested.MilliValue() != requested*1000 || got.Capacity.MilliValue() != capacityCores*1000 {
			return fmt.Errorf("%s of %s cores are requested, want 154 of 192", got.Requested.String(), got.Capacity.String())
		}
		return nil
	})
	series := func(name string) string { return fmt.Sprintf("%s{pool=%q,resource=\"cpu\"}", name, pool) }
	for name, want := range map[string]float64{"podfit_capacity_requested": requested, "podfit_capacity_total": capacityCores, "podfit_capacity_without_largest_node": 128} {
		if got, err := w.metric(t.Context(), series(name)); err != nil || got != want {
			t.Errorf("%s is %v, want %v, error %v", name, got, want, err)
		}
	}
	eventually(t, "Prometheus has scraped that more than 70 % are requested", 30*time.Second, func(ctx context.Context) error {
		found, err := w.prometheus.query(ctx, `podfit_capacity_requested{resource="cpu"} / podfit_capacity_total > 0.7`)
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("got %+v", found)
		}
		return err
	})
	eventually(t, "15 to 20 % of the capacity are used once no container starts", oneDay+30*time.Second, func(ctx context.Context) error {
		usage, err := w.Usage(ctx)
		if err != nil {
			return err
		}
		used := 0.0
		for _, u := range usage {
			used += u.CPU
		}
		if used < 0.15*capacityCores || used > 0.20*capacityCores {
			return fmt.Errorf("%.1f cores are used", used)
		}
		return nil
	})
}

// cappedAtAQuarter checks the workload that wants 20 cores: three times the 6.6 that it uses.
func (w *world) cappedAtAQuarter(t *testing.T) {
	eventually(t, "the target is a quarter of a machine", time.Minute, func(ctx context.Context) error {
		a, err := w.Autoscaler(ctx, namespace, "wide")
		if err != nil {
			return err
		}
		c := a.Status.Recommendation.ContainerRecommendations[0]
		if got, wish := c.Target.Cpu().MilliValue(), c.UncappedTarget.Cpu().MilliValue(); got != 16_000 || wish < 19_500 || wish > 21_500 {
			return fmt.Errorf("the target is %dm, and %dm without limits; want 16 of about 20 cores", got, wish)
		}
		return hasCondition(a, v1alpha1.ConditionNeedsMoreReplicas, v1alpha1.ReasonAboveNodeShare, "With 2 replicas instead of 1,")
	})
}

// hasCondition returns an error if a condition of a VPA is not True with a reason and a part of its message.
func hasCondition(a *vpav1.VerticalPodAutoscaler, kind, reason, part string) error {
	for _, c := range a.Status.Conditions {
		if string(c.Type) == kind && c.Status == corev1.ConditionTrue && c.Reason == reason && strings.Contains(c.Message, part) {
			return nil
		}
	}
	return fmt.Errorf("%s has no condition %s with the reason %s and %q, only %+v", a.Name, kind, reason, part, a.Status.Conditions)
}

// A pools is the JSON of podfit capacity.
type pools struct {
	Pools []struct {
		Name string
		CPU  struct {
			Requested, Capacity float64
			OrderBy             string
			Thresholds          []threshold
		}
	}
}

// A threshold is a threshold of podfit capacity or of the CapacityPlan.
type threshold struct {
	Percent                           int32
	State, Earliest, Expected, Latest string
}

// full returns the forecast of 100 % of CPU.
func (p *pools) full(t *testing.T) threshold {
	t.Helper()
	if len(p.Pools) != 1 {
		t.Fatalf("pools %+v", p.Pools)
	}
	all := p.Pools[0].CPU.Thresholds
	i := slices.IndexFunc(all, func(x threshold) bool { return x.Percent == 100 })
	if i < 0 {
		t.Fatalf("thresholds %+v", all)
	}
	return all[i]
}

// contains returns an error if a date is outside the range of a threshold. Without a latest date the range has no end.
func (x threshold) contains(date time.Time) error {
	day := date.Format(time.DateOnly)
	if x.State != "Ahead" || x.Earliest == "" || day < x.Earliest || x.Latest != "" && day > x.Latest {
		return fmt.Errorf("100 %%: %+v; the true date is %s", x, day)
	}
	return nil
}

// trueDateOfCommand checks the dates of podfit capacity, which reads all 60 days at once.
func (w *world) trueDateOfCommand(t *testing.T) {
	var p pools
	if err := json.Unmarshal([]byte(w.capacity(t, "--prometheus", w.prometheus.url, "-o", "json")), &p); err != nil {
		t.Fatal(err)
	}
	full := p.full(t)
	if err := full.contains(trueDate(w.start)); err != nil {
		t.Error(err)
	}
	earliest, err := time.Parse(time.DateOnly, full.Earliest)
	if err != nil {
		t.Fatal(err)
	}
	if want := earliest.AddDate(0, 0, -leadTime-3).Format(time.DateOnly); p.Pools[0].CPU.OrderBy != want {
		t.Errorf("order by %s, want %s: the lead time and 3 days before the range", p.Pools[0].CPU.OrderBy, want)
	}
	if full.Latest == "" {
		t.Errorf("the range has no end: %+v", full)
	}
	text := w.capacity(t, "--prometheus", w.prometheus.url)
	t.Log("\n" + text)
	for _, want := range []string{"154 of 192 (80 %)", "history of Prometheus", "could give back", "Cannot lose a node"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// fiveDays checks that five days give no date.
func (w *world) fiveDays(t *testing.T) {
	short := startPrometheus(t, w.root, requestHistory(w.start, w.nodes, 5), "", nil)
	text := w.capacity(t, "--prometheus", short.url)
	if !strings.Contains(text, "not enough history: a forecast needs 14 days") || !strings.Contains(text, "154 of 192 (80 %)") {
		t.Errorf("output\n%s", text)
	}
}

// trueDateOfPlan checks the CapacityPlan. The recommender reads one week of Prometheus per minute, so it has a date from the second pass on.
func (w *world) trueDateOfPlan(t *testing.T) {
	eventually(t, "the CapacityPlan has a date", 2*time.Minute, func(ctx context.Context) error {
		p, err := w.plan(ctx)
		if err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.PlanForecast) {
			return fmt.Errorf("conditions %+v", p.Status.Conditions)
		}
		all := p.Status.Pools[0].CPU.Thresholds
		i := slices.IndexFunc(all, func(x v1alpha1.CapacityThreshold) bool { return x.Percent == 100 })
		if i < 0 {
			return fmt.Errorf("thresholds %+v", all)
		}
		x := all[i]
		return threshold{x.Percent, x.State, x.Earliest, x.Expected, x.Latest}.contains(trueDate(w.start))
	})
}

// applied lets podfit change the pods, and compares the requests and the usage above them with those before.
func (w *world) applied(t *testing.T, byHand *observer) {
	const needed = int(oneDay / (500 * time.Millisecond)) // observations of a day
	eventually(t, "a day has been observed with the requests by hand", time.Minute, func(context.Context) error {
		if n := byHand.most(); n < needed {
			return fmt.Errorf("%d of %d observations", n, needed)
		}
		return nil
	})
	before, err := byHand.stop()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range scene() {
		w.apply(t, x.autoscaler("InPlaceOrRecreate"))
	}
	eventually(t, "all pods have the recommended requests", 90*time.Second, func(ctx context.Context) error { return w.sized(ctx) })
	total := 0.0
	pods, err := w.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		total += cpuRequest(&pods[i])
	}
	t.Logf("%.1f cores are requested, %.0f %% of the capacity", total, 100*total/capacityCores)
	if total >= 0.45*capacityCores {
		t.Errorf("%.1f of %d cores are requested, want less than 45 %%", total, capacityCores)
	}
	applied := observe(t.Context(), w.Cluster)
	eventually(t, "a day has been observed with the recommended requests", time.Minute, func(context.Context) error {
		if n := applied.most(); n < needed {
			return fmt.Errorf("%d of %d observations", n, needed)
		}
		return nil
	})
	after, err := applied.stop()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, before, after)
	eventually(t, "the metrics and the alerts follow", 90*time.Second, func(ctx context.Context) error { // the CapacityPlan within 10 minutes
		got, err := w.metric(ctx, `podfit_capacity_requested{pool="`+pool+`",resource="cpu"}`)
		if err != nil {
			return err
		}
		if alerts, err := w.prometheus.alerts(ctx); err != nil || alerts["PodfitCapacityAbove70"] {
			return fmt.Errorf("alerts %v, error %w", alerts, err)
		}
		if got >= 0.45*capacityCores {
			return fmt.Errorf("%v cores are requested", got)
		}
		return nil
	})
}

// sized returns an error if a pod has another request than the target of its VPA.
func (w *world) sized(ctx context.Context) error {
	all, err := w.Autoscalers(ctx, namespace)
	if err != nil {
		return err
	}
	targets := map[string]float64{}
	for _, a := range all {
		targets[a.Name] = target(a)
	}
	pods, err := w.pods(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		got, want := cpuRequest(&pods[i]), targets[workloadOf(pods[i].Name)]
		if keepsCPU(workloadOf(pods[i].Name)) {
			continue
		}
		if want == 0 || got < want/2 || got > want*2 { // a small difference does not cause another resize
			return fmt.Errorf("pod %s has %v cores, want %v", pods[i].Name, got, want)
		}
	}
	return nil
}

// keepsCPU reports whether podfit does not change the CPU of a workload.
func keepsCPU(name string) bool {
	return slices.ContainsFunc(scene(), func(w workload) bool { return w.name == name && w.keepsCPU })
}

// compare checks that no pod's usage is above its request more often than before. A new pod is compared with the worst pod of its workload.
func compare(t *testing.T, before, after map[string]share) {
	t.Helper()
	worst := map[string]float64{}
	for name, s := range before {
		worst[workloadOf(name)] = max(worst[workloadOf(name)], s.of())
	}
	for name, s := range after {
		most, existed := worst[workloadOf(name)], false
		if b, ok := before[name]; ok {
			most, existed = b.of(), true
		}
		if s.of() > most {
			t.Errorf("the usage of pod %s is above its request in %.0f %% of the time, and was in %.0f %% with the request by hand (same pod: %t)", name, 100*s.of(), 100*most, existed)
		}
	}
}
