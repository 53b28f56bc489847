// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench measures podfit's model and upstream's own code on the same input, and checks podfit's budgets. It prints a table
// and exits with 1 if a budget is exceeded.
//
// Times are CPU times of the process, the minimum of several runs, to reduce the influence of other processes. Upstream needs
// quadratic time to load VPAs, so large inputs are measured for upstream only with -all.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"k8s.io/klog/v2"
)

// A row is one measurement. A side that is not measured is nil.
type row struct {
	what     string
	upstream func() float64
	podfit   func() float64
	budget   float64 // maximum for podfit
	unit     unit
}

func main() {
	all := flag.Bool("all", false, "measure upstream where it takes minutes, too")
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(discard{})

	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "what\tupstream\tpodfit\tratio\tbudget\t\t")
	failed := 0
	for _, r := range rows(*all) {
		ours, ratio, theirs := r.podfit(), "", "not measured"
		if r.upstream != nil {
			u := r.upstream()
			theirs = r.unit.format(u)
			if ours > 0 {
				ratio = fmt.Sprintf("%.3g times", u/ours)
			}
		}
		verdict := "ok"
		if ours > r.budget {
			verdict = "EXCEEDED"
			failed++
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t\n", r.what, theirs, r.unit.format(ours), ratio, r.unit.format(r.budget), verdict)
	}
	t.Flush()
	if failed > 0 {
		fmt.Printf("%d of the budgets are exceeded\n", failed)
		os.Exit(1)
	}
}

// A unit formats a number.
type unit uint8

const (
	seconds unit = iota
	bytes
	count
)

func (u unit) format(v float64) string {
	switch u {
	case bytes:
		return fmt.Sprintf("%.0f B", v)
	case count:
		return fmt.Sprintf("%g", v)
	}
	d := time.Duration(v * 1e9)
	switch {
	case d < time.Microsecond:
		return d.Round(time.Nanosecond).String()
	case d < time.Millisecond:
		return strings.Replace(d.Round(10*time.Nanosecond).String(), "µs", " µs", 1)
	}
	return d.Round(d / 1000).String()
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// cpu returns the CPU seconds that the process has used.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// once returns the minimum time of an action in several runs. The preparation is not measured.
func once[T any](runs int, prepare func() T, do func(T)) func() float64 {
	return func() float64 {
		least := 0.0
		for i := range runs {
			x := prepare()
			runtime.GC()
			start := cpu()
			do(x)
			if took := cpu() - start; i == 0 || took < least {
				least = took
			}
			runtime.KeepAlive(x)
		}
		return least
	}
}

// each returns the time of one of n repetitions of an action, the minimum of five runs.
func each[T any](n int, prepare func() T, do func(x T, i int)) func() float64 {
	return func() float64 {
		x := prepare()
		i := 0
		total := once(5, func() int { return 0 }, func(int) {
			for range n {
				do(x, i)
				i++
			}
		})()
		runtime.KeepAlive(x)
		return total / float64(n)
	}
}

// heap returns by how many bytes the heap grows for each of n objects. The input is prepared before and not counted. The objects
// are created twice, so that one-time allocations are not counted either.
func heap[In, Out any](n int, prepare func() In, do func(In) Out) func() float64 {
	return func() float64 {
		settled := func() uint64 {
			debug.FreeOSMemory()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		in := prepare()
		do(in)
		in = prepare()
		before := settled()
		out := do(in)
		grown := float64(settled()) - float64(before)
		runtime.KeepAlive(in)
		runtime.KeepAlive(out)
		return grown / float64(n)
	}
}

// allocations returns the number of allocations in one of n repetitions of an action.
func allocations[T any](n int, prepare func() T, do func(x T, i int)) func() float64 {
	return func() float64 {
		x := prepare()
		do(x, 0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range n {
			do(x, i+1)
		}
		runtime.ReadMemStats(&after)
		return float64((after.Mallocs - before.Mallocs) / uint64(n))
	}
}
