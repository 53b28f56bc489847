// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"podfit.dev/podfit/test/e2e/bed"
)

// A process is a component under measurement.
type process struct {
	*bed.Process
	name    string
	address string // of its metrics
	started time.Time

	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	steady   bool // the samples belong to the steady state
	resident []float64
	passes   map[string][]float64 // durations by metric
	last     map[string]histogram
	steps    map[string]histogram // of passes, by metric and step, since the start
}

// A histogram is the state of one histogram of the metrics of a process.
type histogram struct {
	Count uint64
	Sum   float64
}

// The metrics with the durations of passes.
const (
	recommenderPass = "vpa_recommender_execution_latency_seconds"
	updaterPass     = "vpa_updater_execution_latency_seconds"
)

const mebibyte = 1 << 20

// sampling is the time between two readings of the memory and of the metrics of a process.
const sampling = time.Second

// startProcess starts a component with the flags that all of them have.
func startProcess(c bed.Command) (*process, error) {
	port, err := bed.FreePort()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	c.Args = append(c.Args, "--address="+address)
	c.Env = append(c.Env, "KUBERNETES_SERVICE_HOST=") // not in a pod, even if this process is
	started := time.Now()
	child, err := bed.Start(c)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &process{Process: child, name: c.Name, address: address, started: started, stop: stop, passes: make(map[string][]float64), last: make(map[string]histogram)}
	p.done.Go(func() { p.sample(ctx) })
	return p, nil
}

// Stop ends the measurement and the process.
func (p *process) Stop() error {
	p.stop()
	p.done.Wait()
	return p.Process.Stop()
}

// begin begins the steady state.
func (p *process) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steady = true
}

func (p *process) sample(ctx context.Context) {
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := p.memory("VmRSS")
		families := p.scrape(ctx)
		p.mu.Lock()
		if p.steady {
			p.resident = append(p.resident, now)
		}
		if len(families) > 0 {
			p.steps = stepsOf(families)
		}
		for _, metric := range []string{recommenderPass, updaterPass} {
			h := p.steps[metric+"/total"]
			if passes := h.Count - p.last[metric].Count; passes > 0 {
				if p.steady {
					p.passes[metric] = append(p.passes[metric], (h.Sum-p.last[metric].Sum)/float64(passes))
				}
				p.last[metric] = h
			}
		}
		p.mu.Unlock()
	}
}

// stepsOf returns the histograms of the steps of passes, by metric and step.
func stepsOf(families map[string]*dto.MetricFamily) map[string]histogram {
	out := make(map[string]histogram)
	for _, metric := range []string{recommenderPass, updaterPass} {
		for _, m := range families[metric].GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "step" {
					out[metric+"/"+l.GetValue()] = histogram{m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()}
				}
			}
		}
	}
	return out
}

// scrape returns the metrics whose durations are measured. Without an answer there are none.
func (p *process) scrape(ctx context.Context) map[string]*dto.MetricFamily {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/metrics", nil)
	if err != nil {
		return nil
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil
	}
	var lines []string // other metrics of upstream's components can have many series
	for line := range strings.SplitSeq(string(text), "\n") {
		if strings.Contains(line, "_execution_latency_seconds") {
			lines = append(lines, line)
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(strings.Join(lines, "\n") + "\n"))
	if err != nil {
		return nil
	}
	return families
}

func (p *process) memory(name string) float64 { return memoryOf(p.PID(), name) }

// memoryOf returns a value of /proc/PID/status in MiB, 0 after the process has ended.
func memoryOf(pid int, name string) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib / 1024
		}
	}
	return 0
}

// cpu returns the CPU time that the process has used, in seconds.
func (p *process) cpu() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100 // the clock of the kernel has 100 ticks in a second
}

// usage returns what the process has used.
func (p *process) usage() Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Usage{Process: p.name, Peak: p.memory("VmHWM"), Resident: percentile(p.resident, 0.5), CPU: p.cpu(), Steps: p.steps}
}

// durations returns the durations of the passes of the steady state.
func (p *process) durations(metric string) []float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.passes[metric])
}

// percentile returns the value below which a share of the values is, 0 without values.
func percentile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

// loadAverage returns the load average of the last minute, 0 if it is not known.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}
