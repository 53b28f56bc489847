// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/runtimeguard"
)

// mostHeapPods is the maximum number of pods whose heaps a query reads.
const mostHeapPods = 20

// A HeapQuery selects the JVMs in one container of some pods. Only the first mostHeapPods count.
type HeapQuery struct {
	Namespace string
	Pods      []string
	Container string
	Only      bool     // the pods have no other container with a JVM, so series without the label of the container are about this one
	Matchers  []string // additional matchers of series, such as cluster="prod"
}

// HeapUsage returns what is recorded about heaps in the week before now. It sends one request. It reads the names of Micrometer, of
// client_java and of the JMX exporter, also those before client_java 1.0.
func (c *Client) HeapUsage(ctx context.Context, q HeapQuery, now time.Time) (runtimeguard.HeapUsage, error) {
	nan := math.NaN()
	u := runtimeguard.HeapUsage{Hours: nan, Collected: nan, Collections: nan, Lowest: nan, Ceiling: nan, NonHeap: nan, Beside: nan, GCShare: nan}
	parts := map[string]*float64{
		"hours": &u.Hours, "collected": &u.Collected, "collections": &u.Collections, "lowest": &u.Lowest, "ceiling": &u.Ceiling, "nonheap": &u.NonHeap,
		"beside": &u.Beside, "gc": &u.GCShare,
	}
	err := c.vector(ctx, c.heapQuery(q), now, func(labels map[string]string, v float64) { setPart(labels, v, parts) })
	if err != nil {
		return u, fmt.Errorf("read the heap of container %s in namespace %s: %w", q.Container, q.Namespace, err)
	}
	return u, nil
}

// heapQuery returns all values as one expression, because each query costs a request. Subqueries read a week in steps of 5 minutes, which is
// about 2,000 evaluations of each part. The heap in use is the sum of pools in some names, and one series in others; series that several
// scrapers have count once. A JVM reports the maximum -1 for pools that have none of their own.
func (c *Client) heapQuery(q HeapQuery) string {
	pod := c.config.PodLabel
	of := func(names, more string) string { return c.heapSelector(q, "__name__=~"+strconv.Quote(names), more) }
	sum := func(expression string) string {
		return fmt.Sprintf("sum by (%s) (max by (%s, id, gc, action, cause) (%s))", pod, pod, expression)
	}
	const used = "jvm_memory_used_bytes|jvm_memory_bytes_used"
	heap := sum(of(used, `area="heap"`))
	collected := of("jvm_gc_live_data_size_bytes|jvm_memory_pool_collection_used_bytes", `pool=~"|.*(Old Gen|Tenured Gen)"`)
	alone := q
	alone.Only = false
	workingSet := fmt.Sprintf("max by (%s) (%s)", pod, c.heapSelector(alone, `__name__="container_memory_working_set_bytes"`, ""))
	highest := func(expression string) string { return "max(max_over_time((" + expression + ")[7d:1h]))" }
	// An hour of which half is missing has too few moments before a collection.
	lowest := func(expression string) string {
		return highest("min_over_time((" + expression + ")[1h:5m]) and count_over_time((" + expression + ")[1h:5m]) >= 6")
	}
	parts := [][2]string{
		{"hours", "max(count_over_time((" + heap + ")[7d:1h]))"},
		{"collected", "max(max_over_time(" + collected + "[7d]))"},
		{"collections", "min(changes(" + collected + "[1d]))"},
		{"lowest", lowest(heap)},
		{"ceiling", "max(" + sum(of("jvm_memory_max_bytes|jvm_memory_bytes_max", `area="heap"`)+" > 0") + ")"},
		{"nonheap", highest(sum(of(used, `area="nonheap"`)))},
		{"beside", lowest(workingSet + " - " + heap)},
		{"gc", highest(sum("rate(" + of("jvm_gc_pause_seconds_sum|jvm_gc_collection_seconds_sum", "") + "[1h])"))},
	}
	return union(parts)
}

// heapSelector returns a selector for series about a container of pods.
func (c *Client) heapSelector(q HeapQuery, name, more string) string {
	container := c.config.ContainerLabel + "=" + strconv.Quote(q.Container)
	if q.Only {
		container = c.config.ContainerLabel + "=~" + strconv.Quote("|"+regexp.QuoteMeta(q.Container))
	}
	matchers := []string{name, c.config.NamespaceLabel + "=" + strconv.Quote(q.Namespace), c.config.PodLabel + "=~" + anyOf(q.Pods[:min(len(q.Pods), mostHeapPods)]), container}
	if more != "" {
		matchers = append(matchers, more)
	}
	return "{" + strings.Join(append(matchers, q.Matchers...), ", ") + "}"
}
