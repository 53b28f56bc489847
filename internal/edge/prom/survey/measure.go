// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Measure is one of the values of an Hour. Each has a query of its own.
type Measure uint8

// The measures.
const (
	CPU Measure = iota
	Memory
	Kills
	Throttled
	measureCount
)

func (m Measure) String() string {
	return [...]string{"CPU usage", "memory usage", "OOM kills", "CPU throttling"}[m]
}

// The metrics of cAdvisor and kube-state-metrics, and the recording rule of the Kubernetes mixin, which kube-prometheus-stack installs.
const (
	cpuMetric       = "container_cpu_usage_seconds_total"
	memoryMetric    = "container_memory_working_set_bytes"
	restartsMetric  = "kube_pod_container_status_restarts_total"
	reasonMetric    = "kube_pod_container_status_last_terminated_reason"
	periodsMetric   = "container_cpu_cfs_periods_total"
	throttledMetric = "container_cpu_cfs_throttled_periods_total"
	ownerMetric     = "namespace_workload_pod:kube_pod_owner:relabel"
)

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// leastThrottled is the share below which throttling is not read.
const leastThrottled = "0.01"

// A selector selects the series of some namespaces.
type selector struct {
	namespaces []string // none: all
	labels     []Label
}

// matchers returns the matchers, in braces, with additional ones.
func (s selector) matchers(more ...string) string {
	var all []string
	for _, l := range s.labels {
		all = append(all, l.Name+"="+strconv.Quote(l.Value))
	}
	switch len(s.namespaces) {
	case 0:
		all = append(all, `namespace!=""`)
	case 1:
		all = append(all, "namespace="+strconv.Quote(s.namespaces[0]))
	default:
		quoted := make([]string, len(s.namespaces))
		for i, name := range s.namespaces {
			quoted[i] = regexp.QuoteMeta(name)
		}
		all = append(all, "namespace=~"+strconv.Quote(strings.Join(quoted, "|")))
	}
	return "{" + strings.Join(append(all, more...), ",") + "}"
}

// containers returns the matchers of series of containers. cAdvisor has series of whole pods, too, without the name of a container.
func (s selector) containers(more ...string) string {
	return s.matchers(append([]string{`pod!=""`, `container!=""`, `container!="POD"`}, more...)...)
}

// expression returns the PromQL expression of a measure. It is evaluated at the end of each hour. With joined, pods are replaced by
// their owners.
func (m Measure) expression(s selector, joined bool, window time.Duration) string {
	in := s.containers()
	switch m {
	case CPU:
		if window > time.Hour/2 { // no subquery, because an hour has only one such window
			return aggregate("max", fmt.Sprintf("rate(%s%s[1h])", cpuMetric, in), s, joined)
		}
		w := promDuration(window)
		return aggregate("max", fmt.Sprintf("max_over_time(rate(%s%s[%s])[1h:%s])", cpuMetric, in, w, w), s, joined)
	case Memory:
		return aggregate("max", fmt.Sprintf("max_over_time(%s%s[1h])", memoryMetric, in), s, joined)
	case Kills:
		// Several replicas of kube-state-metrics report the same restart. Each restart counts of which the reason was OOMKilled.
		const by = "max by (namespace,pod,container) "
		return aggregate("sum", fmt.Sprintf("%s(round(increase(%s%s[1h])) > 0) and on (namespace,pod,container) %s(max_over_time(%s%s[1h]) > 0)",
			by, restartsMetric, in, by, reasonMetric, s.containers(`reason="OOMKilled"`)), s, joined)
	default:
		return aggregate("max", fmt.Sprintf("increase(%s%s[1h]) / (increase(%s%s[1h]) > 0) > %s",
			throttledMetric, in, periodsMetric, in, leastThrottled), s, joined)
	}
}

// aggregate merges the series of a container: those of several scrapers, those before and after a restart, and, with joined, those
// of all pods of a workload. topk makes the owner unique, because a pod with two owners would be an error.
func aggregate(operator, expression string, s selector, joined bool) string {
	if !joined {
		return operator + " by (namespace,pod,container) (" + expression + ")"
	}
	return fmt.Sprintf("%s by (namespace,workload,workload_type,container) ((%s) * on (namespace,pod) group_left (workload,workload_type) "+
		"topk by (namespace,pod) (1, group by (namespace,pod,workload,workload_type) (last_over_time(%s%s[1h]))))",
		operator, expression, ownerMetric, s.matchers(`workload!=""`))
}

// promDuration returns a duration in the format of Prometheus.
func promDuration(d time.Duration) string {
	return strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10) + "s"
}

// metrics returns the metrics that a measure needs besides those of usage.
func (m Measure) metrics() []string {
	return [measureCount][]string{
		CPU: {cpuMetric}, Memory: {memoryMetric}, Kills: {restartsMetric, reasonMetric}, Throttled: {periodsMetric, throttledMetric},
	}[m]
}
