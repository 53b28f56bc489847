// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/edge/trace"
	"podfit.dev/podfit/test/e2e/bed"
)

// The environment variables: the trace, a file or a folder as for podfit backtest, and the minutes that the scene takes.
const (
	traceVariable   = "PODFIT_TRACE"
	minutesVariable = "PODFIT_PACKING_MINUTES"

	defaultMinutes = intervals / perMinute
)

// speed is how much faster than recorded the usage is played.
const (
	speed     = 60
	perMinute = 60 * speed / interval
)

// adviseAt is the part of the scene after which the next recommendations are written: after a day, if the scene takes 30 minutes.
const adviseAt = 0.8

// TestPacking_dayOfATrace_packedNeedsNoMoreNodes runs 40 workloads of a trace on two clusters of at most three nodes: one with the requests and memory limits of upstream's rule, and
// one with those of the profile packed. It plays 30 hours of their usage in 30 minutes, and compares nodes, killed containers, evictions by the kubelet, and the
// moves of the node guard.
//
// Real: the API server, the scheduler, the kubelets' code, metrics-server, and podfit's updater and admission controller with their default flags. Simulated:
// the containers use what the trace says. The test takes the place of the recommender: the requests at the start of the day, and the recommendations then and
// 24 hours later, are those of podfit backtest, so that they do not change in between, also after OOM kills. The test also takes the place of a cluster
// autoscaler (pool).
//
// The times of podfit, the scheduler and the kubelet are not 60 times shorter. So the node guard reads usage every 15 minutes of the trace, and may move one
// pod an hour.
func TestPacking_dayOfATrace_packedNeedsNoMoreNodes(t *testing.T) {
	path := os.Getenv(traceVariable)
	if path == "" {
		t.Skip("takes 30 minutes, and needs a trace: make packing-scene TRACES=FILE")
	}
	minutes := defaultMinutes
	if text := os.Getenv(minutesVariable); text != "" {
		var err error
		if minutes, err = strconv.Atoi(text); err != nil || minutes < 1 || minutes > defaultMinutes {
			t.Fatalf("%s must be a whole number of minutes from 1 to %d, got %q", minutesVariable, defaultMinutes, text)
		}
	}
	all, err := trace.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := choose(all)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d workloads, amounts multiplied by %.2f, from %s", len(s.machines), s.scale, time.Unix(s.from, 0).UTC().Format(time.RFC3339))
	root, err := bed.Root()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := bed.Build(t.Context(), root, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	tool, err := bed.BuildCluster(t.Context(), root, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	results := make([]*result, len(rules()))
	t.Run("rules", func(t *testing.T) {
		for i, r := range rules() {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				results[i] = newWorld(t, &s, r, root, binary, tool).play(minutes * perMinute)
			})
		}
	})
	if slices.Contains(results, nil) {
		t.Fatal("a cluster has no result")
	}
	fmt.Print(table(results))
	upstream, packed := results[0], results[1]
	if packed.nodes > upstream.nodes || packed.nodesStart > upstream.nodesStart {
		t.Errorf("packed needs %d nodes at the start and %d at most, upstream's rule %d and %d; want not more", packed.nodesStart, packed.nodes, upstream.nodesStart, upstream.nodes)
	}
	if n := len(packed.evicted); n > 0 {
		t.Errorf("with packed, the kubelets evicted %d pods, want none", n)
	}
}

// A result is what happened in a cluster.
type result struct {
	title string // of the rule
	observer
	changes
}

// play starts the workloads, plays their usage in the first intervals, at most a number, and returns what happened.
func (w *world) play(most int) *result {
	w.Helper()
	adviseFrom := int(adviseAt * float64(most))
	later := make([]size, len(w.machines))
	for i := range w.machines {
		later[i] = w.rule.size(&w.machines[i].Workload, w.from+int64(adviseFrom)*interval)
	}
	w.start()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	begin := time.Now()
	missed, advised := 0, false
	for at := 0; ; {
		now := time.Now()
		next := int(now.Sub(begin) / (interval * time.Second / speed))
		if next >= most {
			break
		}
		if next != at {
			w.must(w.Play(w.Context(), w.demands(next)))
			missed += next - at - 1
		}
		if next >= adviseFrom && !advised {
			advised = true
			for i := range w.machines {
				w.advise(&w.machines[i], &later[i])
			}
		}
		w.hour = float64(next*interval) / 3600
		pods, err := w.pods(w.Context())
		if err == nil {
			err = errors.Join(w.observe(now, pods, w.demanded(at, next)), w.adaptNodes(now, pods))
		}
		if err != nil {
			w.Logf("hour %.1f: %v", w.hour, err)
		}
		at = next
		select {
		case <-ticker.C:
		case <-w.Context().Done():
			w.Fatal(w.Context().Err())
		}
	}
	if missed > most/20 {
		w.Errorf("%d of %d intervals were left out, because the machine was too slow", missed, most)
	}
	return w.end()
}

// demanded returns the largest memory that each workload has demanded in some intervals, in bytes.
func (w *world) demanded(from, to int) map[string]float64 {
	out := map[string]float64{}
	for i := range w.machines {
		m := &w.machines[i]
		for _, use := range m.usage[from : to+1] {
			out[m.Key.Name] = max(out[m.Key.Name], use.memory)
		}
	}
	return out
}

// end returns what happened, after all checks.
func (w *world) end() *result {
	w.Helper()
	changes, err := w.changes(w.Context())
	w.must(err)
	moved := map[string]bool{}
	for _, m := range changes.moves {
		moved[m.pod] = true
	}
	for _, c := range slices.Concat(changes.moves, changes.replaced) {
		w.Logf("%s: %s %s of node %s: %s: %s", c.at.UTC().Format(time.TimeOnly), c.do, c.pod, c.node, c.reason, c.text)
	}
	for _, text := range excess(changes.moves) {
		w.Error(text)
	}
	w.checkInvariants(moved)
	return &result{w.rule.title, w.observed, changes}
}

// table returns the results as a table, a column for each rule.
func table(results []*result) string {
	var out strings.Builder
	line := func(what string, value func(*result) string) {
		fmt.Fprintf(&out, "| %s |", what)
		for _, r := range results {
			fmt.Fprintf(&out, " %s |", value(r))
		}
		out.WriteString("\n")
	}
	number := func(what string, value func(*result) int) {
		line(what, func(r *result) string { return strconv.Itoa(value(r)) })
	}
	line("", func(r *result) string { return r.title })
	line("---", func(*result) string { return "---" })
	line("nodes that the requests at the start fill", func(r *result) string { return fmt.Sprintf("%.2f", r.requested) })
	number("nodes at the start", func(r *result) int { return r.nodesStart })
	number("nodes at most", func(r *result) int { return r.nodes })
	number("pods that stayed Pending", func(r *result) int { return len(r.stayed) })
	number("replacements for which no node had room (placeholder pods)", func(r *result) int { return len(r.placeholders) })
	number("containers killed at their memory limit", func(r *result) int { return len(r.killed) })
	number("kills at the memory limit", func(r *result) int { return r.killsLimit })
	number("kills because a node had no memory", func(r *result) int { return r.killsNode })
	number("evictions by kubelets", func(r *result) int { return len(r.evicted) })
	number("moves by the node guard", func(r *result) int { return len(r.moves) })
	number("resizes in place by the updater", func(r *result) int { return r.resized })
	number("evictions by the updater for other reasons", func(r *result) int { return len(r.replaced) })
	line("largest share of a node's memory in use", func(r *result) string { return fmt.Sprintf("%.0f %%", 100*r.used) })
	return out.String()
}
