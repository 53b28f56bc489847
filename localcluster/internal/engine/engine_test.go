// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
	"podfit.dev/podfit/localcluster/internal/machine"
)

const Mi = 1 << 20

func TestRuntime_memoryAboveLimit_reportsOOMKilled(t *testing.T) {
	e := newEngine(t, 1)
	id := e.run("hog", map[string]string{"sim.podfit.dev/app.memory": "ramp(50Mi,300Mi,10s)"}, &api.LinuxContainerResources{MemoryLimitInBytes: 200 * Mi})
	e.pass(5 * time.Second)
	if s := e.status(id); s.State != api.ContainerState_CONTAINER_RUNNING || s.Reason != "" {
		t.Fatalf("status below the limit: %v", s)
	}
	e.pass(2 * time.Second)
	if s := e.status(id); s.State != api.ContainerState_CONTAINER_EXITED || s.ExitCode != 137 || s.Reason != "OOMKilled" || s.FinishedAt <= s.StartedAt {
		t.Errorf("status above the limit: %v", s)
	}
	if stats, _ := e.ListContainerStats(t.Context(), nil); len(stats) != 0 {
		t.Errorf("stats of an exited container: %v", stats)
	}
	if r := e.report(); r.OOMKills != 1 || r.State != "exited" {
		t.Errorf("report: %+v", r)
	}
	if err := e.StopContainer(t.Context(), id, 0); err != nil || e.status(id).ExitCode != 137 {
		t.Error("stopping an exited container changed its exit status")
	}
}

func TestRuntime_CPUAboveLimit_isThrottledUntilResize(t *testing.T) {
	e := newEngine(t, 1)
	id := e.run("busy", map[string]string{"sim.podfit.dev/app.cpu": "900m"}, &api.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: 50000, CpuShares: 102})
	e.pass(10 * time.Second)
	near(t, "CPU in use", e.cpu(id), 0.5)
	r := e.report()
	near(t, "throttled seconds", r.ThrottledSeconds, 4)
	near(t, "throttled periods", float64(r.ThrottledPeriods), 100)
	_, all := e.Readings()
	near(t, "throttled periods, as cadvisor has them", float64(all["/kubepods/poduid-busy/"+id].ThrottledPeriods), 100)
	near(t, "CPU seconds of the pod", all["/kubepods/poduid-busy"].CPUSeconds, 5)
	near(t, "CPU seconds of the machine", all["/"].CPUSeconds, 5)

	if err := e.UpdateContainerResources(t.Context(), id, &api.ContainerResources{Linux: &api.LinuxContainerResources{CpuQuota: 200000}}); err != nil {
		t.Fatal(err)
	}
	e.pass(10 * time.Second)
	near(t, "CPU in use after the resize", e.cpu(id), 0.9)
	near(t, "throttled seconds after the resize", e.report().ThrottledSeconds, 4)
	if got := e.status(id).Resources.Linux; got.CpuQuota != 200000 || got.CpuPeriod != 100000 || got.CpuShares != 102 {
		t.Errorf("resources after a resize of only the quota: %v", got)
	}
}

func TestRuntime_resizeFails_limitsStay(t *testing.T) {
	e := newEngine(t, 1)
	id := e.run("fixed", map[string]string{"sim.podfit.dev/app.resize": "fails"}, &api.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: 50000})
	e.pass(time.Second)
	err := e.UpdateContainerResources(t.Context(), id, &api.ContainerResources{Linux: &api.LinuxContainerResources{CpuQuota: 200000}})
	if got := e.status(id).Resources.Linux; err == nil || got.CpuQuota != 50000 {
		t.Errorf("error %v, quota %d; want an error and the old quota", err, got.CpuQuota)
	}
}

// metrics-server divides the first CPU time of a container by its age.
func TestRuntime_containerStartsBetweenTicks_firstReadingIsItsUsage(t *testing.T) {
	e := newEngine(t, 1)
	e.Tick(time.Now().Add(-5 * time.Second)) // the last tick is long ago
	id := e.run("late", map[string]string{"sim.podfit.dev/app.cpu": "300m"}, nil)
	e.containers[id].created = e.containers[id].created.Add(-2 * time.Second) // the start was slow
	at := time.Now().Add(time.Second)
	e.Tick(at)
	_, all := e.Readings()
	r := all["/kubepods/poduid-late/"+id]
	near(t, "CPU in use since the start", r.CPUSeconds/at.Sub(r.Created).Seconds(), 0.3)
}

func TestRuntime_memoryLimitResized_isEnforced(t *testing.T) {
	e := newEngine(t, 1)
	id := e.run("grows", map[string]string{"sim.podfit.dev/app.memory": "ramp(50Mi,300Mi,10s)"}, &api.LinuxContainerResources{MemoryLimitInBytes: 200 * Mi})
	e.pass(5 * time.Second)
	if err := e.UpdateContainerResources(t.Context(), id, &api.ContainerResources{Linux: &api.LinuxContainerResources{MemoryLimitInBytes: 400 * Mi}}); err != nil {
		t.Fatal(err)
	}
	e.pass(20 * time.Second)
	if s := e.status(id); s.State != api.ContainerState_CONTAINER_RUNNING {
		t.Fatalf("status: %v", s)
	}
	if err := e.UpdateContainerResources(t.Context(), id, &api.ContainerResources{Linux: &api.LinuxContainerResources{MemoryLimitInBytes: 100 * Mi}}); err != nil {
		t.Fatal(err)
	}
	e.pass(time.Second)
	if s := e.status(id); s.Reason != "OOMKilled" {
		t.Errorf("status with a limit below the usage: %v", s)
	}
}

func TestRuntime_scenarioSpeed_scalesTime(t *testing.T) {
	e := newEngine(t, 144)
	id := e.run("daily", map[string]string{"sim.podfit.dev/app.cpu": "sine(100m,500m,24h)", "sim.podfit.dev/app.exit": "after=18h"}, nil)
	e.pass(5 * time.Minute)
	near(t, "CPU at noon", e.cpu(id), 0.5)
	e.pass(3 * time.Minute)
	if s := e.status(id); s.State != api.ContainerState_CONTAINER_EXITED || s.ExitCode != 0 || s.Reason != "Completed" {
		t.Errorf("status in the evening: %v", s)
	}
}

func TestRuntime_overrideWhileRunning_changesUsage(t *testing.T) {
	e := newEngine(t, 1)
	id := e.run("app", map[string]string{"sim.podfit.dev/app.cpu": "100m"}, nil)
	e.pass(time.Second)
	near(t, "CPU by annotation", e.cpu(id), 0.1)
	e.Learn(map[string]Pod{"uid-app": {Annotations: map[string]string{"sim.podfit.dev/app.cpu": "200m"}}})
	e.pass(time.Second)
	near(t, "CPU by the new annotation", e.cpu(id), 0.2)
	if code := e.call(http.MethodPut, "/demands/ns/ap*/app", `{"cpu": "300m"}`, nil); code != http.StatusOK {
		t.Fatal(code)
	}
	e.pass(time.Second)
	near(t, "CPU by override", e.cpu(id), 0.3)
	e.call(http.MethodDelete, "/demands/ns/ap*/app", "", nil)
	e.pass(time.Second)
	near(t, "CPU after the override", e.cpu(id), 0.2)
	if code := e.call(http.MethodPut, "/demands/ns/app/app", `{"cpu": "much"}`, nil); code != http.StatusBadRequest {
		t.Errorf("invalid override: got status %d", code)
	}
	if code := e.call(http.MethodPut, "/scenario", "rules: [{namespace: ns, memory: 64Mi}]", nil); code != http.StatusOK {
		t.Fatal(code)
	}
	e.pass(time.Second)
	if r := e.report(); r.Memory != 64*Mi {
		t.Errorf("memory with the new scenario: %d bytes", r.Memory)
	}
}

func TestRuntime_probeBeforeReadyTime_fails(t *testing.T) {
	e := newEngine(t, 1)
	id := e.run("slow", map[string]string{"sim.podfit.dev/app.ready": "after=1h"}, nil)
	if _, _, err := e.ExecSync(t.Context(), id, AskReady, time.Second); err == nil {
		t.Error("ready before the ready time")
	}
	if _, _, err := e.ExecSync(t.Context(), id, AskAlive, time.Second); err != nil {
		t.Errorf("liveness probe: %v", err)
	}
	e.Learn(map[string]Pod{"uid-slow": {}})
	if _, _, err := e.ExecSync(t.Context(), id, AskReady, time.Second); err != nil {
		t.Errorf("readiness probe: %v", err)
	}
}

func TestRuntime_listWithFilter_returnsMatches(t *testing.T) {
	e := newEngine(t, 1)
	first := e.run("first", nil, nil)
	second := e.run("second", nil, nil)
	if err := e.StopContainer(t.Context(), second, 0); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*api.ContainerFilter{
		"id":       {Id: first},
		"state":    {State: &api.ContainerStateValue{State: api.ContainerState_CONTAINER_RUNNING}},
		"sandbox":  {PodSandboxId: e.containers[first].sandbox.id},
		"selector": {LabelSelector: map[string]string{"pod": "first"}},
	} {
		if all, _ := e.ListContainers(t.Context(), f); len(all) != 1 || all[0].Id != first {
			t.Errorf("by %s: %v", name, all)
		}
	}
	if all, _ := e.ListPodSandbox(t.Context(), &api.PodSandboxFilter{LabelSelector: map[string]string{"pod": "first"}}); len(all) != 1 {
		t.Errorf("sandboxes: %v", all)
	}
	if s := e.status(second); s.ExitCode != 143 {
		t.Errorf("status of a stopped container: %v", s)
	}
}

func TestRuntime_removedObject_returnsNotFound(t *testing.T) {
	e := newEngine(t, 1)
	id := e.run("short", nil, nil)
	sandbox := e.containers[id].sandbox
	if err := e.RemovePodSandbox(t.Context(), sandbox.id); err != nil {
		t.Fatal(err)
	}
	_, err := e.Runtime.ContainerStatus(t.Context(), id, false)
	_, err2 := e.PodSandboxStatus(t.Context(), sandbox.id, false)
	if status.Code(err) != codes.NotFound || status.Code(err2) != codes.NotFound {
		t.Errorf("got %v, %v", err, err2)
	}
	if e.machine.Used() != 0 {
		t.Error("removed container still runs")
	}
	if err := e.RemovePodSandbox(t.Context(), sandbox.id); err != nil {
		t.Errorf("removing twice: %v", err)
	}
}

func TestRuntime_podAddresses_areUniqueAndReserved(t *testing.T) {
	seen := map[string]bool{}
	for node := range 3 {
		a := addresses{first: node * addressesPerNode, taken: map[string]bool{}}
		for range addressesPerNode - 2 {
			ip := a.take()
			if seen[ip] || !strings.HasPrefix(ip, "198.18.") && !strings.HasPrefix(ip, "198.19.") {
				t.Fatalf("address %s was assigned", ip)
			}
			seen[ip] = true
		}
		a.give("198.18.0.7")
	}
}

func TestRuntime_containerStarts_writesLog(t *testing.T) {
	e := newEngine(t, 1)
	id := e.run("talks", nil, nil)
	text, err := os.ReadFile(e.status(id).LogPath)
	if err != nil || !strings.Contains(string(text), " stdout F ns/talks/app starts\n") {
		t.Errorf("the log is %q, %v", text, err)
	}
}

// An engine is a Runtime on a simulated clock.
type testEngine struct {
	*Runtime
	t   *testing.T
	now time.Time
}

func newEngine(t *testing.T, speed float64) *testEngine {
	now := time.Now()
	r := NewRuntime("node-1", 0, &machine.Machine{Cores: 4, Memory: 8 << 30}, Clock{Epoch: now, Speed: speed}, &Stage{})
	r.ticked = now
	return &testEngine{Runtime: r, t: t, now: now}
}

func (e *testEngine) run(pod string, annotations map[string]string, limits *api.LinuxContainerResources) (id string) {
	e.t.Helper()
	frame := &api.PodSandboxConfig{
		Metadata:     &api.PodSandboxMetadata{Namespace: "ns", Name: pod, Uid: "uid-" + pod},
		Labels:       map[string]string{"pod": pod},
		Annotations:  annotations,
		LogDirectory: filepath.Join(e.t.TempDir(), pod),
	}
	sandbox, err := e.RunPodSandbox(e.t.Context(), frame, "")
	if err != nil {
		e.t.Fatal(err)
	}
	id, err = e.CreateContainer(e.t.Context(), sandbox, &api.ContainerConfig{
		Metadata: &api.ContainerMetadata{Name: "app"}, Image: &api.ImageSpec{Image: "any"}, Labels: frame.Labels, LogPath: "app/0.log",
		Linux: &api.LinuxContainerConfig{Resources: limits},
	}, frame)
	if err == nil {
		err = e.StartContainer(e.t.Context(), id)
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return id
}

func (e *testEngine) pass(d time.Duration) {
	for end := e.now.Add(d); e.now.Before(end); {
		e.now = e.now.Add(250 * time.Millisecond)
		e.Tick(e.now)
	}
}

func (e *testEngine) status(id string) *api.ContainerStatus {
	e.t.Helper()
	s, err := e.ContainerStatus(e.t.Context(), id, false)
	if err != nil {
		e.t.Fatal(err)
	}
	return s.Status
}

func (e *testEngine) cpu(id string) float64 {
	e.t.Helper()
	s, err := e.ContainerStats(e.t.Context(), id)
	if err != nil {
		e.t.Fatal(err)
	}
	return float64(s.Cpu.UsageNanoCores.Value) / 1e9
}

// report returns the report of the only container.
func (e *testEngine) report() Report {
	e.t.Helper()
	var all []Report
	e.call(http.MethodGet, "/containers", "", &all)
	if len(all) != 1 {
		e.t.Fatalf("reports: %+v", all)
	}
	return all[0]
}

func (e *testEngine) call(method, path, body string, v any) (code int) {
	e.t.Helper()
	w := httptest.NewRecorder()
	Control(e.clock, e.stage, []*Runtime{e.Runtime}).ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	if v != nil {
		if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
			e.t.Fatal(err)
		}
	}
	return w.Code
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.01*want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
