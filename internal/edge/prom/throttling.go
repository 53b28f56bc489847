// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"podfit.dev/podfit/internal/core/rollout"
)

// The counters of CPU periods that cAdvisor has for containers with a CPU limit.
const (
	throttledPeriods = "container_cpu_cfs_throttled_periods_total"
	allPeriods       = "container_cpu_cfs_periods_total"
)

// partLabel is the label with which the query marks its parts.
const partLabel = "podfit_part"

// Throttling returns the CPU periods of the containers that a query selects, sorted by name. It sends one request. Without data, the result
// is empty.
func (c *Client) Throttling(ctx context.Context, q rollout.ThrottlingQuery, now time.Time) ([]rollout.ContainerThrottling, error) {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	value, _, err := c.api.Query(ctx, c.throttlingQuery(q, now), now)
	if err != nil {
		return nil, fmt.Errorf("read the CPU throttling of pods in namespace %s: %w", q.Namespace, err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("read the CPU throttling of pods in namespace %s: the result must be a vector, got a %s", q.Namespace, value.Type())
	}
	byName := map[string]*rollout.ContainerThrottling{}
	for _, s := range vector {
		name := string(s.Metric[model.LabelName(c.config.ContainerLabel)])
		if name == "" {
			continue
		}
		t := byName[name]
		if t == nil {
			t = &rollout.ContainerThrottling{Container: name}
			byName[name] = t
		}
		v := float64(s.Value)
		switch string(s.Metric[partLabel]) {
		case "canaries throttled":
			t.Canaries.Throttled = v
		case "canaries all":
			t.Canaries.All = v
		case "others throttled":
			t.Others.Throttled = v
		case "others all":
			t.Others.All = v
		case "before throttled":
			t.Before.Throttled = v
		case "before all":
			t.Before.All = v
		}
	}
	var out []rollout.ContainerThrottling
	for _, t := range byName {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b rollout.ContainerThrottling) int { return cmp.Compare(a.Container, b.Container) })
	return out, nil
}

// throttlingQuery returns the sums of all parts as one expression, because each query of a workload costs a request. Periods are counters,
// so increase handles restarts of containers. It extrapolates both counters of a share alike.
func (c *Client) throttlingQuery(q rollout.ThrottlingQuery, now time.Time) string {
	var parts []string
	add := func(part string, pods []string, length, offset time.Duration) {
		if len(pods) == 0 || length < time.Second {
			return
		}
		span := "[" + promDuration(length.Truncate(time.Second)) + "]"
		if offset >= time.Second {
			span += " offset " + promDuration(offset.Truncate(time.Second))
		}
		for _, m := range []struct{ metric, kind string }{{throttledPeriods, "throttled"}, {allPeriods, "all"}} {
			parts = append(parts, fmt.Sprintf(`label_replace(sum by (%s) (increase(%s%s)), %q, "%s %s", "", "")`,
				c.config.ContainerLabel, c.podSelector(m.metric, q.Namespace, pods), span, partLabel, part, m.kind))
		}
	}
	add("canaries", q.Canaries, now.Sub(q.Since), 0)
	add("others", q.Others, now.Sub(q.Since), 0)
	if q.Changed != "" {
		add("before", []string{q.Changed}, q.Before, now.Sub(q.Change))
	}
	return strings.Join(parts, " or ")
}

// podSelector returns a selector for the series of a metric about the containers of pods.
func (c *Client) podSelector(metric, namespace string, pods []string) string {
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = regexp.QuoteMeta(p)
	}
	return fmt.Sprintf(`%s{%s=%s, %s=~%s, %s!="", %s!="POD"}`, metric, c.config.NamespaceLabel, strconv.Quote(namespace),
		c.config.PodLabel, strconv.Quote(strings.Join(names, "|")), c.config.ContainerLabel, c.config.ContainerLabel)
}
