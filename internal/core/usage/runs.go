// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/runs"
)

// HasRuns reports whether the pods of a workload run to their end.
func HasRuns(w cluster.Workload) bool {
	return w.Group == "batch" && (w.Kind == "Job" || w.Kind == "CronJob")
}

// measures reports whether the samples of a container of a pod are kept: of ordinary init containers only if they are sized by run.
func (c *Config) measures(of *cluster.Container) bool {
	return of.IsSized() || of.Role == cluster.Init && c.InitRuns
}

// setInit records whether the container is an ordinary init container in its newest pod. An init container has no model state: an algorithm sizes
// what runs as long as its pod.
func (wl *workload) setInit(s *ContainerHistory, init bool) {
	switch {
	case init == s.runs.IsInit():
	case init:
		s.runs, s.extension = runs.OfInit(), nil
	default:
		s.runs = nil
		if wl.extend != nil {
			s.extension = wl.extend()
		}
	}
}

// run returns the run of a container in the pod with a name, to be updated; nil if it is not kept. at is its start or the present, in Unix
// seconds. over is true if it has ended.
func (wl *workload) run(s *ContainerHistory, pod string, at int64, over bool) *runs.Run {
	if !wl.runs && !s.runs.IsInit() {
		return nil
	}
	if s.runs == nil {
		s.runs = new(runs.Log)
	}
	return s.runs.Of(hash(pod), at, over)
}

func (wl *workload) observeRun(s *ContainerHistory, sample *Sample, taken cluster.Set) {
	r := wl.run(s, sample.Pod.Name, sample.At.Unix(), false)
	if r == nil {
		return
	}
	var millicores, bytes int64
	if taken.Has(cluster.CPU) {
		millicores = int64(sample.CPU * 1000)
	}
	if taken.Has(cluster.Memory) {
		bytes = int64(sample.Memory)
	}
	r.Observe(sample.At.Unix(), millicores, bytes)
}

// observeOfRun adds a sample that counts only for the run of a pod: a reading of a kubelet, or the highest memory.
func (in *instance) observeOfRun(sample *Sample) cluster.Set {
	r := in.pod.workload.run(in.series, sample.Pod.Name, sample.At.Unix(), false)
	if r == nil {
		return 0
	}
	if sample.Reading {
		r.Read(sample.At.Unix(), int64(sample.CPU*1000), int64(sample.Memory))
	} else {
		r.Peak(int64(sample.Memory))
	}
	in.series.version++
	return cluster.Of(cluster.Memory)
}

// noteRun records the start and the end of a container in a pod. now is in Unix seconds; times after it are those of a clock that is ahead.
func (wl *workload) noteRun(s *ContainerHistory, p *cluster.Pod, c *cluster.Container, now int64) {
	started, ended := p.StartOf(c), int64(0)
	if c.Exit != nil && c.Exit.Now {
		started, ended = c.Exit.Started.Unix(), c.Exit.Finished.Unix()
	}
	if started <= 0 || now <= 0 {
		return
	}
	started, ended = min(started, now), min(ended, now)
	r := wl.run(s, p.Name, started, ended > 0)
	if r == nil {
		return
	}
	before := *r
	if r.Bound(started, ended); *r != before {
		s.version++
	}
}
