// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"podfit.dev/podfit/internal/core/contention"
)

// ContainerThrottling returns the CPU throttling of the containers of pods in the contention.ThrottlingWindow before now, sorted by pod and
// container. It sends one request. Without data, the result is empty. Values that Prometheus does not have are NaN.
func (c *Client) ContainerThrottling(ctx context.Context, q contention.ThrottlingQuery, now time.Time) ([]contention.Throttling, error) {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	value, _, err := c.api.Query(ctx, c.containerThrottlingQuery(q), now)
	if err != nil {
		return nil, fmt.Errorf("read the CPU throttling of containers in namespace %s: %w", q.Namespace, err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("read the CPU throttling of containers in namespace %s: the result must be a vector, got a %s", q.Namespace, value.Type())
	}
	found := map[[2]string]*contention.Throttling{}
	for _, s := range vector {
		pod, container := string(s.Metric[model.LabelName(c.config.PodLabel)]), string(s.Metric[model.LabelName(c.config.ContainerLabel)])
		if pod == "" || container == "" {
			continue
		}
		t := found[[2]string{pod, container}]
		if t == nil {
			t = &contention.Throttling{Pod: pod, Container: container, Throttled: math.NaN(), All: math.NaN(), P95: math.NaN(), Mean: math.NaN()}
			found[[2]string{pod, container}] = t
		}
		v := float64(s.Value)
		switch string(s.Metric[partLabel]) {
		case "throttled":
			t.Throttled = v
		case "all":
			t.All = v
		case "p95":
			t.P95 = v
		case "mean":
			t.Mean = v
		}
	}
	out := make([]contention.Throttling, 0, len(found))
	for _, t := range found {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b contention.Throttling) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	})
	return out, nil
}

// containerThrottlingQuery returns periods and usage as one expression, because each query of a workload costs a request. A restart begins
// another series of the same container: the periods of both count, and the higher usage. No pods select nothing.
func (c *Client) containerThrottlingQuery(q contention.ThrottlingQuery) string {
	window := promDuration(contention.ThrottlingWindow)
	by := fmt.Sprintf("by (%s, %s)", c.config.PodLabel, c.config.ContainerLabel)
	usage := c.podSelector(c.config.CPUMetric, q.Namespace, q.Pods)
	var parts []string
	for _, p := range []struct{ name, expression string }{
		{"throttled", fmt.Sprintf("sum %s (increase(%s[%s]))", by, c.podSelector(throttledPeriods, q.Namespace, q.Pods), window)},
		{"all", fmt.Sprintf("sum %s (increase(%s[%s]))", by, c.podSelector(allPeriods, q.Namespace, q.Pods), window)},
		{"p95", fmt.Sprintf("max %s (quantile_over_time(0.95, rate(%s[5m])[%s:1m]))", by, usage, window)},
		{"mean", fmt.Sprintf("max %s (rate(%s[%s]))", by, usage, window)},
	} {
		parts = append(parts, fmt.Sprintf(`label_replace(%s, %q, %q, "", "")`, p.expression, partLabel, p.name))
	}
	return strings.Join(parts, " or ")
}
