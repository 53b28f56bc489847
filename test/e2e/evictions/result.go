// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/kubernetes"

	"podfit.dev/podfit/test/e2e/bed"
)

// A result is what a run measured.
type result struct {
	options
	*tracker
	took                  time.Duration // from the start of the updater until all pods have the recommended requests
	requests              counts
	cpu                   cpuTimes
	loadBefore, loadAfter string
}

// print prints the result as a table, and the requests to the API server during the run.
func (r *result) print(out io.Writer) {
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "updater\tVPAs\tpods\tsatisfied\tseconds, p50\tp95\tlast\tfewest ready pods of 2\tevictions\trefused\tAPI writes\tCPU seconds, updater\tAPI server\tload average\t")
	evictions, refused := r.requests.evictions()
	fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.1f\t%.1f\t%.1f\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%s → %s\t\n", r.Updater, r.VPAs, r.VPAs*r.replicas, len(r.seconds), r.quantile(0.5), r.quantile(0.95), r.quantile(1),
		r.least, evictions, refused, r.requests.writes(), r.cpu[updaterProcess], r.cpu[string(bed.APIServer)], r.loadBefore, r.loadAfter)
	t.Flush()
	cores := runtime.NumCPU()
	all := r.cpu.sum()
	fmt.Fprintf(out, "\nAll components share this machine. They used %.1f CPU seconds, which takes %d cores at least %.0f s.\n", all, cores, all/float64(cores))
	r.printCPU(out, evictions)
	r.printRequests(out, evictions)
}

// printCPU prints the CPU time of each process.
func (r *result) printCPU(out io.Writer, evictions int) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out)
	fmt.Fprintln(t, "CPU seconds\tms per eviction\t process\t")
	for _, name := range r.cpu.largest() {
		fmt.Fprintf(t, "%.1f\t%.2f\t %s\t\n", r.cpu[name], 1000*perEviction(r.cpu[name], evictions), name)
	}
	t.Flush()
}

// printRequests prints the requests of each kind to the API server, by all clients.
func (r *result) printRequests(out io.Writer, evictions int) {
	fmt.Fprintf(out, "\nRequests to the API server by all clients, in %s:\n", r.took.Round(100*time.Millisecond))
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "requests\tper eviction\t request\t")
	for _, k := range r.requests.largest(20) {
		fmt.Fprintf(t, "%d\t%.2f\t %s\t\n", r.requests[k], perEviction(float64(r.requests[k]), evictions), k)
	}
	t.Flush()
}

func perEviction(amount float64, evictions int) float64 { return amount / float64(max(evictions, 1)) }

// A request is a kind of requests in the metrics of the API server.
type request struct{ verb, resource, subresource, code string }

func (r request) String() string {
	object := r.resource
	if r.subresource != "" {
		object += "/" + r.subresource
	}
	return fmt.Sprintf("%-6s %s: %s", r.verb, object, r.code)
}

// counts contains the number of API requests of each kind.
type counts map[request]int

// requestCounts reads the number of requests that the API server has answered.
func requestCounts(ctx context.Context, k kubernetes.Interface) (counts, error) {
	text, err := k.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of the API server: %w", err)
	}
	return parseCounts(string(text)), nil
}

// parseCounts adds the values of apiserver_request_total by verb, resource, subresource and code.
func parseCounts(metrics string) counts {
	out := counts{}
	for line := range strings.SplitSeq(metrics, "\n") {
		rest, ok := strings.CutPrefix(line, "apiserver_request_total{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(rest, "} ")
		of := map[string]string{}
		for label := range strings.SplitSeq(labels, ",") {
			name, quoted, _ := strings.Cut(label, "=")
			of[name] = strings.Trim(quoted, `"`)
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		out[request{of["verb"], of["resource"], of["subresource"], of["code"]}] += int(n)
	}
	return out
}

func (c counts) minus(o counts) counts {
	out := counts{}
	for k, n := range c {
		if n -= o[k]; n > 0 {
			out[k] = n
		}
	}
	return out
}

// isWrite reports whether requests of this kind change objects.
func (r request) isWrite() bool {
	return slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}, r.verb)
}

func (c counts) writes() (sum int) {
	for k, n := range c {
		if k.isWrite() {
			sum += n
		}
	}
	return sum
}

// evictions returns the number of evictions, and of those that were refused.
func (c counts) evictions() (done, refused int) {
	for k, n := range c {
		switch {
		case k.resource != "pods" || k.subresource != "eviction":
		case strings.HasPrefix(k.code, "2"):
			done += n
		default:
			refused += n
		}
	}
	return done, refused
}

// largest returns the kinds of requests with the largest numbers.
func (c counts) largest(most int) []request {
	kinds := slices.SortedFunc(maps.Keys(c), func(a, b request) int {
		return cmp.Or(cmp.Compare(c[b], c[a]), strings.Compare(a.String(), b.String()))
	})
	return kinds[:min(most, len(kinds))]
}

// cpuTimes contains the CPU seconds of processes, by name.
type cpuTimes map[string]float64

func (c cpuTimes) minus(o cpuTimes) cpuTimes {
	out := cpuTimes{}
	for name, seconds := range c {
		out[name] = seconds - o[name]
	}
	return out
}

func (c cpuTimes) sum() (all float64) {
	for _, seconds := range c {
		all += seconds
	}
	return all
}

// largest returns the processes, those with the most CPU time first.
func (c cpuTimes) largest() []string {
	return slices.SortedFunc(maps.Keys(c), func(a, b string) int {
		return cmp.Or(cmp.Compare(c[b], c[a]), strings.Compare(a, b))
	})
}

// cpuSeconds returns the CPU time that a process has used, or 0 if that cannot be read.
func cpuSeconds(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name of the command, in parentheses, may contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	const ticksPerSecond = 100
	sum := 0.0
	for _, field := range fields[11:13] { // time in user mode and in the kernel
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0
		}
		sum += ticks / ticksPerSecond
	}
	return sum
}
