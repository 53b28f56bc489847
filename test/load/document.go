// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

const introduction = `<!-- Written by "make load WRITE=1". -->
# Performance in large clusters

Measured with ` + "`make load`" + `: real components, and an API server that keeps everything in memory, sends and accepts the encodings of a real one, and computes the
usage of pods from a seed. Components, server and load of the webhook share the cores of one machine, so another machine gives other times, and
so does other work on it. Memory, requests and CPU time depend less on that.
[load.md](load.md) has the load on a real API server and on Prometheus. [soak.md](soak.md) has an hour of such a cluster with churn and faults.

- Each VPA targets a Deployment (70 %%), a StatefulSet (20 %%) or a CronJob (10 %%). Every fifth workload has two containers. Usage follows a wave of one hour, with noise.
- At the start there are checkpoints of 8 days, and no VPA has a recommendation. Requests suit the usage, but for 1 %% of the workloads.
- Each component may send 500 requests per second, and 500 at once. All other flags have their defaults: a pass each minute. A pass that writes more than 500 statuses and
  checkpoints waits for this limit: with 10,000 VPAs in the first half hour, but not with 2,500.
- The steady state begins one minute after the last first recommendation, or as many later as the title says, and lasts for %.0f s. In the first half hour, bounds and targets
  still follow the new samples, so more statuses are written. Then the webhook gets 500 reviews per second for 20 s. A latency counts from
  the time at which the review was due; an empty server shows how much of it is due to the machine and the client: if that alone exceeds the budget, the machine was too busy to tell.
- A budget with the mark *missed* is not reached. The budgets are those for 10,000 VPAs with 100,000 pods, and that of the memory is for one process.
- Upstream's recommender and updater are measured one after the other, and its webhook is not. Its updater gets the recommendations of podfit where upstream's recommender made none
  within four minutes. When upstream's recommender 1.8 starts, it loads all checkpoints once for each namespace that has a VPA (` + "`InitFromCheckpoints`" + `): 12,000 checkpoints and 500
  namespaces are 6 million loads. It may complete no pass in the steady state; its writes then are those of the updater alone.
`

// document returns docs/performance.md.
func document(results []*Result) (string, error) {
	if len(results) == 0 {
		return "", errors.New("there are no results; measure before you write")
	}
	var out strings.Builder
	fmt.Fprintf(&out, introduction, results[0].Window)
	fmt.Fprintf(&out, "\nMachine: %s.\n", machine())
	for _, g := range grouped(results) {
		fmt.Fprintf(&out, "\n## %s\n\n", title(g[0]))
		measures(g).write(&out)
		fmt.Fprintln(&out)
		memory(g).write(&out)
		if t := steps(g); len(t) > 1 {
			fmt.Fprintln(&out)
			t.write(&out)
		}
		var loads []string
		for _, r := range g {
			loads = append(loads, fmt.Sprintf("%.1f (%s)", r.Load, r.System))
		}
		fmt.Fprintf(&out, "\nLoad average of the machine before each start, from other work: %s.\n", strings.Join(loads, ", "))
	}
	if t := growths(results); t != nil {
		fmt.Fprintf(&out, "\n## Four times the work\n\nFour times the workloads may cost %s times as much.\n\n", number(growth))
		t.write(&out)
	}
	if t := extrapolation(results); t != nil {
		fmt.Fprint(&out, "\n## A million containers, on paper\n\nA straight line through the smallest and the largest measured size of `podfit run`. The measure with the largest share "+
			"of its budget breaks first.\n\n")
		t.write(&out)
	}
	writeMissed(&out, results)
	largest := slices.MaxFunc(results, func(a, b *Result) int {
		return 10*(a.Workloads-b.Workloads) + rank(a) - rank(b)
	})
	fmt.Fprintf(&out, "\n## Requests\n\nThose of `%s` with %s. Documents are discovery and versions. Bytes are those of the whole run, before compression.\n\n", largest.System, title(largest))
	traffic(largest).write(&out)
	return out.String(), nil
}

func rank(r *Result) int {
	if r.System == oneProcess {
		return 1
	}
	return 0
}

// writeMissed lists the budgets that are missed with the largest fleet.
func writeMissed(out *strings.Builder, results []*Result) {
	fmt.Fprint(out, "\n## Missed budgets\n\n")
	none := true
	for _, r := range results {
		for _, m := range missed(r) {
			fmt.Fprintf(out, "- %s, %s: %s\n", title(r), r.System, m)
			none = false
		}
	}
	if none {
		fmt.Fprintln(out, "None.")
	}
}

// million is the number of containers for which the growth is computed.
const million = 1_000_000

// extrapolation returns what a million containers would need, nil without results of two sizes.
func extrapolation(results []*Result) table {
	var runs []*Result
	for _, r := range results {
		if r.System == oneProcess && !r.Churn && !r.New && r.Settled == 0 {
			runs = append(runs, r)
		}
	}
	if len(runs) < 2 {
		return nil
	}
	small, large := runs[0], runs[len(runs)-1]
	if small.Containers == large.Containers {
		return nil
	}
	out := table{{"measure", "for each 1,000 containers", "for a million", "budget for 120,000", "share of the budget"}}
	for _, w := range rows {
		a, known := w.value(small)
		b, ok := w.value(large)
		if !known || !ok || !w.grows && w.unit != "/s" {
			continue
		}
		slope := (b - a) / float64(large.Containers-small.Containers)
		predicted := b + slope*float64(million-large.Containers)
		line := []string{w.label(), number(slope * 1000), number(math.Round(predicted)), "–", "–"}
		if w.budget > 0 {
			line[3], line[4] = number(w.budget), number(predicted/w.budget)
		}
		out = append(out, line)
	}
	return out
}

// machine describes the machine.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.SplitSeq(string(text), "\n") {
			if rest, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), ":"))
				break
			}
		}
	}
	total := "unknown memory"
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			kib, _ := strconv.ParseFloat(fields[1], 64)
			total = fmt.Sprintf("%.0f GiB of memory", kib/mebibyte)
		}
	}
	return fmt.Sprintf("%s, %d cores, %s, %s, %s", model, runtime.NumCPU(), total, runtime.GOOS, runtime.Version())
}
