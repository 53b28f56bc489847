// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"podfit.dev/podfit/test/e2e/bed"
)

// block returns the lines of the block of code in README.md whose first line has the prefix.
func block(t *testing.T, prefix string) []string {
	t.Helper()
	root, err := bed.Root()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range strings.Split("\n"+string(readme), "\n```") {
		if _, text, _ = strings.Cut(text, "\n"); i%2 == 1 && strings.HasPrefix(text, prefix) {
			return strings.Split(text, "\n")
		}
	}
	t.Fatalf("README.md has no block of code that begins with %q", prefix)
	return nil
}

// What differs between two runs becomes a placeholder. The replacements are made in this order.
var varying = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\bworker-[a-z0-9]{8,10}-[a-z0-9]{5}\b`), "POD"},
	{regexp.MustCompile(`\bsince ((Mon|Tue|Wed|Thu|Fri|Sat|Sun)( \d+ [A-Z][a-z]{2})?|\d+:\d+( UTC)?)`), "since TIME"},
	{regexp.MustCompile(`\bfrom \d+ (s|min) of usage`), "from N of usage"},
	{regexp.MustCompile(`(^|\s)((Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?\d\d:\d\d\b`), "${1}TIME"},
	// The replicas of a workload, as ×3, do not vary.
	{regexp.MustCompile(`(^|[\s(…])\d[\d.,]*(\s?%|\s(cores?|GiB)\b|[a-zA-Z×]*)`), "${1}N"},
	{regexp.MustCompile(`\bN containers?\b`), "N containers"},
	{regexp.MustCompile(`N…N`), "N"}, // the pods of a workload have requests that differ by less than 10 %
	{regexp.MustCompile(`\s+`), " "}, // widths of columns
}

// normalized returns a text with placeholders.
func normalized(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.by)
	}
	return strings.TrimSpace(text)
}

func normalizedLines(lines []string) []string {
	var out []string
	for _, line := range lines {
		if line = normalized(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// inOrder reports the first line of README.md that does not occur in the output after the lines before it.
func inOrder(t *testing.T, what string, readme, output []string) {
	t.Helper()
	rest := output
	for _, line := range readme {
		i := slices.Index(rest, line)
		if i < 0 {
			t.Errorf("README.md has another output of %s: the real output does not have, after the lines before it,\n%s\nThe real output, with placeholders:\n%s",
				what, line, strings.Join(output, "\n"))
			return
		}
		rest = rest[i+1:]
	}
}

// Which reason is the last one depends on the timing: a pass sees a pod before or after it is 30s old, before or after its container is
// OOM-killed, and with one recommendation or the next.
var lastReason = regexp.MustCompile(`last reason: (` +
	`The requests differ from the targets by N and the pod has run for N; the (CPU|memory) request is N and the target is N` +
	`|The (CPU|memory) request N is (below the lower|above the upper) bound; the target is N` +
	`|The container was OOM-killed N after its start; the memory request is N and the target is N)\.$`)

// summaryLines returns the lines of the demo's table with placeholders, also for each reason that a workload of the demo may have.
func summaryLines(lines []string) []string {
	out := normalizedLines(lines)
	for i := range out {
		out[i] = lastReason.ReplaceAllString(out[i], "last reason: REASON")
	}
	return out
}

// Usage of less than two minutes is not counted in minutes.
var shortUsage = regexp.MustCompile(`(less than N hour, N|N minutes, N hours) are needed`)

// sentences returns an explanation as items: a sentence of a text, or a row of a table. A text is wrapped where the widths of its varying parts
// require it.
func sentences(lines []string) []string {
	var out []string
	text := false // in a section with a text
	for _, line := range lines {
		section, _, _ := strings.Cut(line, " ")
		switch {
		case slices.Contains([]string{"NOW", "NEXT", "YOU", "NOTE"}, section):
			text = true
			out = append(out, section)
			line = strings.TrimPrefix(line, section)
		case section != "":
			text = false
		}
		line = normalized(line)
		if last := len(out) - 1; text && last >= 0 && !strings.HasSuffix(out[last], ".") {
			line = out[last] + " " + line
			out = out[:last]
		}
		for text {
			sentence, rest, found := strings.Cut(line, ". ")
			if !found {
				break
			}
			out = append(out, sentence+".")
			line = rest
		}
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	for i := range out {
		out[i] = shortUsage.ReplaceAllString(out[i], "more is needed")
	}
	return out
}

// checkSummary compares the table in README.md with the last one that the demo printed. README.md has the first workloads only.
func checkSummary(t *testing.T, output string) {
	t.Helper()
	readme := block(t, strings.Join(head()[:1], "")+" ")
	start := strings.LastIndex(output, "\n"+head()[0]+" ")
	if start < 0 {
		t.Fatal("the demo printed no table")
	}
	table, _, _ := strings.Cut(output[start+1:], "\n\n")
	printed := summaryLines(strings.Split(table, "\n"))
	want := summaryLines(readme)
	if len(printed) < len(want) || !slices.Equal(printed[:len(want)], want) {
		t.Errorf("README.md has the table\n%s\nThe demo printed\n%s\nWith placeholders, README.md has\n%s\nand the demo printed\n%s",
			strings.Join(readme, "\n"), table, strings.Join(want, "\n"), strings.Join(printed, "\n"))
	}
}

// runReadme runs the command in the first line of a block of README.md as a user of the cluster, and returns its output and the block's.
func runReadme(t *testing.T, prefix, kubeconfig string) (output, readme []string) {
	t.Helper()
	readme = block(t, "$ "+prefix)
	root, err := bed.Root()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, ".cache", "bin", "podfit"), strings.Fields(readme[0])[2:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PROMETHEUS_URL=", "XDG_CACHE_HOME="+t.TempDir())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", readme[0], err, errs.String())
	}
	t.Logf("%s\n%s", readme[0], out.String())
	return strings.Split(out.String(), "\n"), readme[1:]
}

// checkExplain runs podfit explain as in README.md, which has a part of the output. The other lines are optional: they are of further events
// (how often a pod of the worker is OOM-killed and evicted depends on the timing), commands, notes and the other resource.
func checkExplain(t *testing.T, kubeconfig string) {
	t.Helper()
	output, readme := runReadme(t, "podfit explain", kubeconfig)
	inOrder(t, "podfit explain", sentences(readme), sentences(output))
}

// TestReadme_recommend_isTheRealOutput runs podfit recommend as in README.md, on the workloads of the demo in a cluster without podfit.
//
// Row 22 of docs/decisions/0007.
func TestReadme_recommend_isTheRealOutput(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end tests are not short")
	}
	t.Parallel()
	ctx := t.Context()
	root, err := bed.Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bed.Build(ctx, root, os.Stderr); err != nil {
		t.Fatal(err)
	}
	// The worker lives for 6s until it is OOM-killed. With the usual scrape interval, metrics-server has no usage of it.
	c, err := bed.Up(ctx, bed.Options{Root: root, Nodes: 3, NodeCPU: 4, NodeMemory: "16Gi", Metrics: 15 * time.Second, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Down(); err != nil {
			t.Error(err)
		}
	})
	objects, err := bed.Parse(manifests)
	if err != nil {
		t.Fatal(err)
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "VerticalPodAutoscaler" })
	if err := c.ApplyYAML(ctx, "", "{apiVersion: v1, kind: Namespace, metadata: {name: store}}"); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(ctx, "store", objects...); err != nil {
		t.Fatal(err)
	}
	wait, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := bed.Until(wait, 250*time.Millisecond, func(ctx context.Context) error { return settled(ctx, c.Kube) }); err != nil {
		t.Fatal(err)
	}
	output, readme := runReadme(t, "podfit recommend", c.Kubeconfig)
	if printed, want := normalizedLines(output), normalizedLines(readme); !slices.Equal(printed, want) {
		t.Errorf("README.md has another output of podfit recommend. With placeholders, README.md has\n%s\nand podfit printed\n%s",
			strings.Join(want, "\n"), strings.Join(printed, "\n"))
	}
}

// settled returns nil if both pods of the worker have been OOM-killed, a pod of the CronJob exists, and all other pods run and have metrics.
func settled(ctx context.Context, kube *bed.Kube) error {
	pods, err := kube.CoreV1().Pods("store").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	usage, err := kube.Metrics.MetricsV1beta1().PodMetricses("store").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	measured := map[string]bool{}
	for _, u := range usage.Items {
		measured[u.Name] = true
	}
	ready := map[string]int{}
	for i := range pods.Items {
		p := &pods.Items[i]
		switch app := p.Labels[appLabel]; {
		case app == "worker" && killed(p), app == "report", measured[p.Name]:
			ready[app]++
		}
	}
	if ready["report"] == 0 {
		err = errors.Join(err, errors.New("the CronJob has no pod yet"))
	}
	for app, want := range map[string]int{"web": 3, "worker": 2, "db": 3, "agent": 3, "orders": 2, "checkout": 2} {
		if ready[app] != want {
			err = errors.Join(err, fmt.Errorf("%d of %d pods of %s are ready", ready[app], want, app))
		}
	}
	return err
}

// killed reports whether a container of a pod has been OOM-killed.
func killed(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return slices.ContainsFunc([]*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated},
			func(s *corev1.ContainerStateTerminated) bool { return s != nil && s.Reason == "OOMKilled" })
	})
}
