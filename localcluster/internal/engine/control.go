// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"slices"
	"time"

	api "k8s.io/cri-api/pkg/apis/runtime/v1"
	"podfit.dev/podfit/localcluster/internal/scenario"
)

// A Report is the state of a container in the simulation, as seen from outside the cluster.
type Report struct {
	Namespace        string  `json:"namespace"`
	Pod              string  `json:"pod"`
	Container        string  `json:"container"`
	UID              string  `json:"uid"`
	Node             string  `json:"node"`
	Owner            string  `json:"owner,omitempty"`
	State            string  `json:"state"` // created, running or exited
	Reason           string  `json:"reason,omitempty"`
	ExitCode         int32   `json:"exitCode"`
	Restarts         uint32  `json:"restarts"`
	OOMKills         int     `json:"oomKills"`
	CPU              float64 `json:"cpuCores"`       // in use now
	CPUWanted        float64 `json:"cpuWantedCores"` // demand without limits
	CPULimit         float64 `json:"cpuLimitCores"`  // 0: none
	CPUShares        int64   `json:"cpuShares"`
	Memory           int64   `json:"memoryBytes"`
	MemoryLimit      int64   `json:"memoryLimitBytes"` // 0: none
	CPUSeconds       float64 `json:"cpuSeconds"`       // since its start, like the fields below
	ThrottledSeconds float64 `json:"throttledSeconds"`
	StarvedSeconds   float64 `json:"starvedSeconds"`
	Periods          int64   `json:"cfsPeriods"`
	ThrottledPeriods int64   `json:"cfsThrottledPeriods"`
	AgeSeconds       float64 `json:"scenarioAgeSeconds"`
}

// reports returns the report of the newest container of each name.
func (r *Runtime) reports(now time.Time) []Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := map[string]*container{}
	for _, c := range r.containers {
		key := c.sandbox.config.Metadata.Uid + "/" + c.config.Metadata.Name
		if n := newest[key]; n == nil || n.created.Before(c.created) {
			newest[key] = c
		}
	}
	var all []Report
	for _, c := range newest {
		meta := c.sandbox.config.Metadata
		limits := limitsOf(c.limits)
		report := Report{
			Namespace: meta.Namespace, Pod: meta.Name, Container: c.config.Metadata.Name, UID: meta.Uid, Node: r.node, Owner: r.pods[meta.Uid].Owner,
			State: "created", Reason: c.reason, ExitCode: c.exit, Restarts: c.config.Metadata.Attempt, OOMKills: r.ooms[c.key()],
			CPULimit: limits.CPU, CPUShares: limits.Shares, MemoryLimit: limits.Memory,
		}
		if run := c.runs; run != nil {
			report.CPU = run.CPU
			report.CPUWanted = run.Wanted()
			report.Memory = run.Memory
			report.CPUSeconds = run.CPUSeconds
			report.ThrottledSeconds = run.ThrottledSeconds
			report.StarvedSeconds = run.StarvedSeconds
			report.Periods = int64(math.Round(run.Periods))
			report.ThrottledPeriods = int64(math.Round(run.ThrottledPeriods))
			report.AgeSeconds = (r.clock.At(now) - run.Started).Seconds()
			report.State = "running"
		}
		if c.state == api.ContainerState_CONTAINER_EXITED {
			report.State = "exited"
		}
		all = append(all, report)
	}
	return all
}

// Control returns the handler of the control API for tests and demos:
//
//	GET /containers             the Report of every container
//	GET /clock                  the scenario's time
//	GET /demands                the active overrides
//	PUT /demands/{ns}/{pod}/{container}     set an override to a Script; pod may end with *
//	DELETE /demands/{ns}/{pod}/{container}  remove the override
//	PUT /scenario               replace the scenario file
func Control(clock Clock, stage *Stage, runtimes []*Runtime) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containers", func(w http.ResponseWriter, _ *http.Request) {
		all := []Report{}
		for _, r := range runtimes {
			all = append(all, r.reports(time.Now())...)
		}
		slices.SortFunc(all, func(a, b Report) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container), cmp.Compare(a.UID, b.UID))
		})
		answer(w, all)
	})
	mux.HandleFunc("GET /clock", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"seconds": clock.At(time.Now()).Seconds(), "speed": clock.Speed, "epoch": clock.Epoch})
	})
	mux.HandleFunc("GET /demands", func(w http.ResponseWriter, _ *http.Request) { answer(w, stage.Overrides()) })
	override := func(w http.ResponseWriter, q *http.Request, script scenario.Script) {
		key := q.PathValue("namespace") + "/" + q.PathValue("pod") + "/" + q.PathValue("container")
		if err := stage.Override(key, script); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, stage.Overrides())
	}
	mux.HandleFunc("PUT /demands/{namespace}/{pod}/{container}", func(w http.ResponseWriter, q *http.Request) {
		var script scenario.Script
		d := json.NewDecoder(q.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&script); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		override(w, q, script)
	})
	mux.HandleFunc("DELETE /demands/{namespace}/{pod}/{container}", func(w http.ResponseWriter, q *http.Request) {
		override(w, q, scenario.Script{})
	})
	mux.HandleFunc("PUT /scenario", func(w http.ResponseWriter, q *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, q.Body, 1<<20))
		var f scenario.File
		if err == nil {
			f, err = scenario.Parse(text)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		stage.Play(f)
		answer(w, f)
	})
	return mux
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v)
}
