// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contention

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

const (
	// ThrottlingWindow is the time over which throttling is measured.
	ThrottlingWindow = 30 * time.Minute
	// MostPods is the maximum number of pods of a workload whose throttling is read.
	MostPods = 50
	// leastPeriods is the least number of CPU periods (100 ms each) in which a container ran, so that the share is no accident.
	leastPeriods = 1000
	// atLimit is the share of the limit from which usage is at the limit.
	atLimit = 0.95
)

// A ThrottlingQuery selects the pods of a workload whose CPU throttling is read.
type ThrottlingQuery struct {
	Namespace string
	Pods      []string // names, at most MostPods
}

// A Throttling is the CPU throttling of a container of a pod in the ThrottlingWindow. Values may be NaN if they are not known.
type Throttling struct {
	Pod, Container string
	Throttled, All float64 // CPU periods in which the container was throttled, and in which it ran
	P95, Mean      float64 // usage in cores: 95th percentile of five-minute averages, and average
}

// Limited returns a query for the live pods that have a container with a CPU limit, and false if there is none. Other containers cannot be
// throttled.
func Limited(namespace string, pods []*cluster.Pod) (ThrottlingQuery, bool) {
	q := ThrottlingQuery{Namespace: namespace}
	for _, p := range pods {
		if len(q.Pods) == MostPods {
			break
		}
		limited := cluster.Find(p.Containers, func(c *cluster.Container) bool { return c.Role != cluster.Init && limitOf(c) > 0 })
		if p.Live() && p.Phase == cluster.Running && limited != nil {
			q.Pods = append(q.Pods, p.Name)
		}
	}
	return q, len(q.Pods) > 0
}

func limitOf(c *cluster.Container) int64 {
	_, limits := c.Running()
	return limits.Amount(cluster.CPU)
}

// bounds are the shares that decide about throttling. Those that end a condition are further away than those that begin it.
type bounds struct{ throttled, p95, mean float64 }

var (
	beginning = bounds{throttled: 0.25, p95: atLimit, mean: 0.5}
	ending    = bounds{throttled: 0.20, p95: 0.90, mean: 0.55}
)

// Throttled returns the finding for the CPU throttling of the pods of a workload. kernels has the kernel version of each node. lasting is true
// if the last result was a finding, too. Throttling between the two causes, near the limit but not at it, is no finding.
func Throttled(measured []Throttling, pods []*cluster.Pod, kernels map[string]string, lasting bool) Finding {
	b := beginning
	if lasting {
		b = ending
	}
	byName := make(map[string]*cluster.Pod, len(measured))
	for _, p := range pods {
		if p.Live() {
			byName[p.Name] = p
		}
	}
	var found [len(throttlingReasons)]Groups
	for i := range measured {
		t := &measured[i]
		p := byName[t.Pod]
		if p == nil {
			continue
		}
		c := p.Container(t.Container)
		if c == nil {
			continue
		}
		reason := t.cause(limitOf(c), kernels[p.Node], b)
		if at := slices.Index(throttlingReasons[:], reason); at >= 0 {
			found[at].add(p, c, t)
		}
	}
	var out []opinion
	for rank, groups := range found {
		reason := throttlingReasons[rank]
		for _, g := range groups {
			p := byName[g.First]
			out = append(out, opinion{Finding{reason, g.throttling.describe(&g, reason, limitOf(p.Container(g.Container)), kernels[p.Node])}, -rank, 0})
		}
	}
	return join(out)
}

// throttlingReasons are the causes of CPUThrottled. The first that any container has is that of the condition.
var throttlingReasons = [...]Reason{AtLimit, KernelTooOld, BurstsOfThreads}

// cause returns why a container is throttled, or "" if it is not throttled often or the cause is not known.
func (t *Throttling) cause(limit int64, kernel string, b bounds) Reason {
	share := t.Throttled / t.All
	if limit <= 0 || !(t.All >= leastPeriods) || !(share > b.throttled) || math.IsInf(share, 0) {
		return ""
	}
	cores := float64(limit) / 1000
	switch {
	case t.P95 >= b.p95*cores:
		return AtLimit
	case t.Mean < b.mean*cores && hasThrottlingDefect(kernel):
		return KernelTooOld
	case t.Mean < b.mean*cores:
		return BurstsOfThreads
	}
	return ""
}

func (t *Throttling) describe(g *Group, reason Reason, limit int64, kernel string) string {
	text := fmt.Sprintf("The CPU of container %s is throttled in about %.0f %% of its CPU periods in %s, with a limit of %s. ",
		g.Container, 10*math.Round(10*min(t.Throttled/t.All, 1)), where(g.Pods, g.First), cluster.Format(cluster.CPU, limit))
	if reason == AtLimit {
		return text + "Its usage is at the limit. Raise the CPU limit or remove it."
	}
	if reason == KernelTooOld {
		return text + fmt.Sprintf("It uses less than half of the limit, and kernel %s of its node throttles without need: the fix is in Linux 5.4. Upgrade the kernel, or remove the CPU limit.", kernel)
	}
	return text + "It uses less than half of the limit on average, so many threads run at the same time for less than 100 ms. " +
		"Reduce the number of threads, or raise the CPU limit or remove it."
}

// A kernelFix is the first version of a series of Linux kernels that has the fix for throttling without need: slices of the quota that
// expired on one CPU were lost ("sched/fair: Fix low cpu usage with high throttling by removing expiration of cpu-local slices", Linux 5.4).
type kernelFix struct {
	series string // beginning of the version; the rest is compared with fixed
	vendor string // part of the version that names the distribution; "" for stable kernels of kernel.org
	fixed  []int
}

// The distributions number their kernels by builds of a fixed version, so the build decides.
var kernelFixes = []kernelFix{
	{"3.10.0-", "el7", []int{1062, 8, 1}},
	{"4.18.0-", "el8", []int{147, 2, 1}},
	{"4.15.0-", "", []int{67}}, // Ubuntu
	{"5.3.0-", "", []int{24}},  // Ubuntu
	{"4.14.", "", []int{154}},
	{"4.19.", "", []int{84}},
	{"5.3.", "", []int{9}},
}

// hasThrottlingDefect reports whether a kernel is known to lack the fix: it is older than 5.4 and no version that has a backport. It is
// false if the version is not known.
func hasThrottlingDefect(version string) bool {
	numbers := leading(version)
	if len(numbers) < 2 || slices.Compare(numbers[:2], []int{5, 4}) >= 0 {
		return false
	}
	for _, f := range kernelFixes {
		if rest, ok := strings.CutPrefix(version, f.series); ok && strings.Contains(rest, f.vendor) {
			return slices.Compare(leading(rest), f.fixed) < 0
		}
	}
	return true
}

// leading returns the numbers at the beginning of a version, separated by dots, at most four.
func leading(version string) []int {
	var out []int
	for part := range strings.SplitSeq(version, ".") {
		rest := strings.TrimLeft(part, "0123456789")
		n, err := strconv.Atoi(strings.TrimSuffix(part, rest))
		if err != nil || len(out) == 4 {
			break
		}
		out = append(out, n)
		if rest != "" {
			break
		}
	}
	return out
}
