// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/contention"
	"podfit.dev/podfit/internal/core/rollout"
)

// The counters of CPU periods that cAdvisor has for containers with a CPU limit.
const (
	throttledPeriods = "container_cpu_cfs_throttled_periods_total"
	allPeriods       = "container_cpu_cfs_periods_total"
)

const partLabel = "podfit_part"

// Throttling returns the CPU periods of the containers that a query selects, sorted by name. It sends one request. Without data, the result
// is empty.
func (c *Client) Throttling(ctx context.Context, q rollout.ThrottlingQuery, now time.Time) ([]rollout.ContainerThrottling, error) {
	byName := map[string]*rollout.ContainerThrottling{}
	err := c.vector(ctx, c.throttlingQuery(q, now), now, func(labels map[string]string, v float64) {
		name := labels[c.config.ContainerLabel]
		if name == "" {
			return
		}
		byName[name] = cmp.Or(byName[name], &rollout.ContainerThrottling{Container: name})
		t := byName[name]
		setPart(labels, v, map[string]*float64{
			"canaries throttled": &t.Canaries.Throttled, "canaries all": &t.Canaries.All, "others throttled": &t.Others.Throttled,
			"others all": &t.Others.All, "before throttled": &t.Before.Throttled, "before all": &t.Before.All,
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the CPU throttling of pods in namespace %s: %w", q.Namespace, err)
	}
	return sorted(byName, func(a, b rollout.ContainerThrottling) int { return cmp.Compare(a.Container, b.Container) }), nil
}

func setPart(labels map[string]string, v float64, parts map[string]*float64) {
	if to := parts[labels[partLabel]]; to != nil {
		*to = v
	}
}

func sorted[K comparable, V any](found map[K]*V, compare func(a, b V) int) []V {
	var out []V
	for _, v := range found {
		out = append(out, *v)
	}
	slices.SortFunc(out, compare)
	return out
}

// throttlingQuery returns the sums of all parts as one expression, because each query of a workload costs a request. Periods are counters,
// so increase handles restarts of containers. It extrapolates both counters of a share alike.
func (c *Client) throttlingQuery(q rollout.ThrottlingQuery, now time.Time) string {
	var parts [][2]string
	add := func(part string, pods []string, length, offset time.Duration) {
		if len(pods) == 0 || length < time.Second {
			return
		}
		span := "[" + promDuration(length.Truncate(time.Second)) + "]"
		if offset >= time.Second {
			span += " offset " + promDuration(offset.Truncate(time.Second))
		}
		for _, m := range []struct{ metric, kind string }{{throttledPeriods, "throttled"}, {allPeriods, "all"}} {
			sum := fmt.Sprintf("sum by (%s) (increase(%s%s))", c.config.ContainerLabel, c.podSelector(m.metric, q.Namespace, pods), span)
			parts = append(parts, [2]string{part + " " + m.kind, sum})
		}
	}
	add("canaries", q.Canaries, now.Sub(q.Since), 0)
	add("others", q.Others, now.Sub(q.Since), 0)
	if q.Changed != "" {
		add("before", []string{q.Changed}, q.Before, now.Sub(q.Change))
	}
	return union(parts)
}

// union returns one expression for several ones, each with its name before it. setPart reads the names.
func union(parts [][2]string) string {
	return strings.Join(cluster.Each(parts, func(p *[2]string) string {
		return fmt.Sprintf(`label_replace(%s, %q, %q, "", "")`, p[1], partLabel, p[0])
	}), " or ")
}

// podSelector returns a selector for the series of a metric about the containers of pods.
func (c *Client) podSelector(metric, namespace string, pods []string) string {
	return fmt.Sprintf(`%s{%s=%s, %s=~%s, %s!="", %s!="POD"}`, metric, c.config.NamespaceLabel, strconv.Quote(namespace),
		c.config.PodLabel, anyOf(pods), c.config.ContainerLabel, c.config.ContainerLabel)
}

// anyOf returns the quoted pattern of some names.
func anyOf(names []string) string {
	return strconv.Quote(strings.Join(cluster.Each(names, func(name *string) string { return regexp.QuoteMeta(*name) }), "|"))
}

// ContainerThrottling returns the CPU throttling of the containers of pods in the contention.ThrottlingWindow before now, sorted by pod and
// container. It sends one request. Without data, the result is empty. Values that Prometheus does not have are NaN.
func (c *Client) ContainerThrottling(ctx context.Context, q contention.ThrottlingQuery, now time.Time) ([]contention.Throttling, error) {
	found := map[[2]string]*contention.Throttling{}
	err := c.vector(ctx, c.containerThrottlingQuery(q), now, func(labels map[string]string, v float64) {
		pod := labels[c.config.PodLabel]
		container := labels[c.config.ContainerLabel]
		if pod == "" || container == "" {
			return
		}
		t := found[[2]string{pod, container}]
		if t == nil {
			t = &contention.Throttling{Pod: pod, Container: container, Throttled: math.NaN(), All: math.NaN(), P95: math.NaN(), Mean: math.NaN()}
			found[[2]string{pod, container}] = t
		}
		setPart(labels, v, map[string]*float64{"throttled": &t.Throttled, "all": &t.All, "p95": &t.P95, "mean": &t.Mean})
	})
	if err != nil {
		return nil, fmt.Errorf("read the CPU throttling of containers in namespace %s: %w", q.Namespace, err)
	}
	return sorted(found, func(a, b contention.Throttling) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	}), nil
}

// containerThrottlingQuery returns periods and usage as one expression, because each query of a workload costs a request. A restart begins
// another series of the same container: the periods of both count, and the higher usage. No pods select nothing.
func (c *Client) containerThrottlingQuery(q contention.ThrottlingQuery) string {
	window := promDuration(contention.ThrottlingWindow)
	by := fmt.Sprintf("by (%s, %s)", c.config.PodLabel, c.config.ContainerLabel)
	usage := c.podSelector(c.config.CPUMetric, q.Namespace, q.Pods)
	return union([][2]string{
		{"throttled", fmt.Sprintf("sum %s (increase(%s[%s]))", by, c.podSelector(throttledPeriods, q.Namespace, q.Pods), window)},
		{"all", fmt.Sprintf("sum %s (increase(%s[%s]))", by, c.podSelector(allPeriods, q.Namespace, q.Pods), window)},
		{"p95", fmt.Sprintf("max %s (quantile_over_time(0.95, rate(%s[5m])[%s:1m]))", by, usage, window)},
		{"mean", fmt.Sprintf("max %s (rate(%s[%s]))", by, usage, window)},
	})
}
