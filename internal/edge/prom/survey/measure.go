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

	"podfit.dev/podfit/internal/core/cluster"
)

// A Measure is one of the values of an Hour. Each has a query of its own.
type Measure uint8

// The measures.
const (
	CPU Measure = iota
	Memory
	Kills
	Throttled
	KilledRequest // the memory request of a container in an hour with an OOM kill
	measureCount
)

func (m Measure) String() string {
	return [...]string{"CPU usage", "memory usage", "OOM kills", "CPU throttling", "memory requests of OOM-killed containers"}[m]
}

// The metrics of cAdvisor and kube-state-metrics, and the recording rule of the Kubernetes mixin, which kube-prometheus-stack installs.
const (
	cpuMetric       = "container_cpu_usage_seconds_total"
	memoryMetric    = "container_memory_working_set_bytes"
	restartsMetric  = "kube_pod_container_status_restarts_total"
	reasonMetric    = "kube_pod_container_status_last_terminated_reason"
	oomMetric       = "container_oom_events_total"
	requestsMetric  = "kube_pod_container_resource_requests"
	periodsMetric   = "container_cpu_cfs_periods_total"
	throttledMetric = "container_cpu_cfs_throttled_periods_total"
	ownerMetric     = "namespace_workload_pod:kube_pod_owner:relabel"
)

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// A selector selects the series of some namespaces.
type selector struct {
	namespaces []string // none: all
	labels     []Label
	pods       string // regular expression for the names of pods of one workload, whose values are merged; "": all pods
}

// matchers returns the matchers, in braces, with additional ones.
func (s selector) matchers(more ...string) string {
	all := cluster.Each(s.labels, func(l *Label) string { return l.Name + "=" + strconv.Quote(l.Value) })
	switch len(s.namespaces) {
	case 0:
		all = append(all, `namespace!=""`)
	case 1:
		all = append(all, "namespace="+strconv.Quote(s.namespaces[0]))
	default:
		quoted := cluster.Each(s.namespaces, func(name *string) string { return regexp.QuoteMeta(*name) })
		all = append(all, "namespace=~"+strconv.Quote(strings.Join(quoted, "|")))
	}
	if s.pods != "" {
		all = append(all, "pod=~"+strconv.Quote(s.pods))
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
	const leastThrottled = "0.01" // the share below which throttling is not read
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
		return aggregate("sum", kills(s), s, joined)
	case KilledRequest:
		return aggregate("max", fmt.Sprintf("%s(max_over_time(%s%s[1h])) and on (namespace,pod,container) (%s)",
			byContainer, requestsMetric, s.containers(`resource="memory"`), kills(s)), s, joined)
	default:
		return aggregate("max", fmt.Sprintf("increase(%s%s[1h]) / (increase(%s%s[1h]) > 0) > %s",
			throttledMetric, in, periodsMetric, in, leastThrottled), s, joined)
	}
}

const byContainer = "max by (namespace,pod,container) "

// kills returns the expression of the OOM kills of containers in an hour: the restarts of which the reason was OOMKilled, or else the kills
// that cAdvisor counted, also of processes without a restart. Several replicas of kube-state-metrics report the same restart.
func kills(s selector) string {
	in := s.containers()
	return fmt.Sprintf("(%[1]s(round(increase(%[2]s%[3]s[1h])) > 0) and on (namespace,pod,container) %[1]s(max_over_time(%[4]s%[5]s[1h]) > 0)) or %[1]s(round(increase(%[6]s%[3]s[1h])) > 0)",
		byContainer, restartsMetric, in, reasonMetric, s.containers(`reason="OOMKilled"`), oomMetric)
}

// anyKills returns the expression of the namespaces in which a container was probably OOM-killed in the last day. The counter of cAdvisor is
// read every five minutes only, because all containers have it.
func anyKills(s selector) string {
	return fmt.Sprintf("count by (namespace) ((last_over_time(%s%s[1d]) > 0) or max_over_time((%s%s > 0)[1d:5m]))",
		reasonMetric, s.containers(`reason="OOMKilled"`), oomMetric, s.containers())
}

// aggregate merges the series of a container: those of several scrapers, those before and after a restart, and, with joined, those
// of all pods of a workload. topk makes the owner unique, because a pod with two owners would be an error.
func aggregate(operator, expression string, s selector, joined bool) string {
	if s.pods != "" {
		return operator + " by (" + clusterLabel + ",container) (" + expression + ")"
	}
	if !joined {
		return operator + " by (namespace,pod,container) (" + expression + ")"
	}
	return fmt.Sprintf("%s by (namespace,workload,workload_type,container) ((%s) * on (namespace,pod) group_left (workload,workload_type) "+
		"topk by (namespace,pod) (1, group by (namespace,pod,workload,workload_type) (last_over_time(%s%s[1h]))))",
		operator, expression, ownerMetric, s.matchers(`workload!=""`))
}

func promDuration(d time.Duration) string {
	return strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10) + "s"
}

func (m Measure) metrics() []string {
	return [measureCount][]string{
		CPU: {cpuMetric}, Memory: {memoryMetric}, Kills: {restartsMetric, oomMetric}, Throttled: {periodsMetric}, KilledRequest: {requestsMetric},
	}[m]
}
