// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/exec"
	"podfit.dev/podfit/localcluster/internal/demand"
	"podfit.dev/podfit/localcluster/internal/machine"
	"podfit.dev/podfit/localcluster/internal/scenario"
)

// The commands of probes in simulated containers. All other commands succeed and do nothing.
var (
	AskReady = []string{"simulated", "ready?"}
	AskAlive = []string{"simulated", "alive?"}
)

// A Clock is the scenario's clock, which may run faster than real time.
type Clock struct {
	Epoch time.Time `json:"epoch"` // start of the scenario
	Speed float64   `json:"speed"` // scenario seconds per second
}

// At returns the scenario time at a real time.
func (c Clock) At(now time.Time) time.Duration {
	return time.Duration(float64(now.Sub(c.Epoch)) * c.Speed)
}

// A Runtime is a container runtime for the kubelet whose containers are entries in a table. One lock guards all fields: many
// goroutines of the kubelet call it, and each call is short.
type Runtime struct {
	cri.RuntimeService // unsupported methods are in unimplemented

	node   string
	clock  Clock
	stage  *Stage
	booted time.Time
	ips    addresses

	mu         sync.Mutex
	machine    *machine.Machine
	sandboxes  map[string]*sandbox
	containers map[string]*container
	pods       map[string]Pod // by UID
	ooms       map[string]int // by namespace/pod/container
	ticked     time.Time
	seen       int     // version of the stage when wishes were last updated
	cpuSeconds float64 // of exited containers
}

type sandbox struct {
	id      string
	config  *api.PodSandboxConfig
	state   api.PodSandboxState
	created time.Time
	ip      string
}

type container struct {
	id       string
	sandbox  *sandbox
	config   *api.ContainerConfig
	state    api.ContainerState
	created  time.Time
	started  time.Time
	finished time.Time
	exit     int32
	reason   string
	limits   *api.LinuxContainerResources
	runs     *machine.Container
}

// A Pod has the fields of a pod that the kubelet does not pass to the container runtime.
type Pod struct {
	Owner       string
	Labels      map[string]string
	Annotations map[string]string
}

// NewRuntime returns the runtime of one node.
func NewRuntime(node string, index int, m *machine.Machine, clock Clock, stage *Stage) *Runtime {
	return &Runtime{
		RuntimeService: unimplemented{},
		node:           node,
		clock:          clock,
		stage:          stage,
		booted:         time.Now(),
		ips:            addresses{first: index * addressesPerNode, taken: map[string]bool{}},
		machine:        m,
		sandboxes:      map[string]*sandbox{},
		containers:     map[string]*container{},
		pods:           map[string]Pod{},
		ooms:           map[string]int{},
		ticked:         time.Now(),
	}
}

// Tick simulates the machine until now.
func (r *Runtime) Tick(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version := r.stage.Version(); version != r.seen {
		r.seen = version
		for _, c := range r.containers {
			r.cast(c)
		}
	}
	if now.After(r.ticked) { // it is not if a container started after now
		r.tick(now)
	}
}

// tick simulates the machine until now, with the present containers.
func (r *Runtime) tick(now time.Time) {
	ended := r.machine.Tick(r.clock.At(now), now.Sub(r.ticked))
	r.ticked = now
	for _, c := range r.containers {
		if c.runs == nil {
			continue
		}
		if i := slices.IndexFunc(ended, func(e machine.End) bool { return e.Container == c.runs }); i >= 0 {
			if ended[i].Reason == "OOMKilled" {
				r.ooms[c.key()]++
			}
			r.ends(c, now, ended[i].Code, ended[i].Reason)
		}
	}
}

// Learn replaces what is known about the node's pods.
func (r *Runtime) Learn(pods map[string]Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods = pods
	for _, c := range r.containers {
		r.cast(c)
	}
}

// cast sets what a running container does, from the scenario.
func (r *Runtime) cast(c *container) {
	if c.runs == nil {
		return
	}
	meta := c.sandbox.config.Metadata
	known, ok := r.pods[meta.Uid]
	if !ok {
		known = Pod{Labels: c.sandbox.config.Labels, Annotations: c.sandbox.config.Annotations}
	}
	wish, err := r.stage.Wish(scenario.Container{
		Namespace: meta.Namespace, Pod: meta.Name, Name: c.config.Metadata.Name,
		Owner: known.Owner, Labels: known.Labels, Annotations: known.Annotations,
	})
	if err != nil {
		c.log(time.Now(), "what to simulate is not clear: %v", err)
	}
	c.runs.Wish = wish
}

func (r *Runtime) ends(c *container, now time.Time, code int32, reason string) {
	c.state = api.ContainerState_CONTAINER_EXITED
	c.finished = now
	c.exit = code
	c.reason = reason
	if c.runs != nil {
		r.cpuSeconds += c.runs.CPUSeconds
		r.machine.Stop(c.runs)
	}
	c.log(now, "ends: %s (%d)", reason, code)
}

// Version returns name and version of the runtime.
func (r *Runtime) Version(context.Context, string) (*api.VersionResponse, error) {
	return &api.VersionResponse{Version: "0.1.0", RuntimeName: "simulated", RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1"}, nil
}

// Status reports that the runtime and its network are ready.
func (r *Runtime) Status(context.Context, bool) (*api.StatusResponse, error) {
	return &api.StatusResponse{Status: &api.RuntimeStatus{Conditions: []*api.RuntimeCondition{
		{Type: api.RuntimeReady, Status: true}, {Type: api.NetworkReady, Status: true},
	}}}, nil
}

// RunPodSandbox creates a sandbox with an unused address.
func (r *Runtime) RunPodSandbox(_ context.Context, config *api.PodSandboxConfig, _ string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &sandbox{id: newID(), config: config, created: time.Now(), ip: r.ips.take()}
	r.sandboxes[s.id] = s
	return s.id, nil
}

// StopPodSandbox stops a sandbox and its containers.
func (r *Runtime) StopPodSandbox(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sandboxes[id]
	if !ok {
		return nil
	}
	s.state = api.PodSandboxState_SANDBOX_NOTREADY
	for _, c := range r.containers {
		if c.sandbox == s && c.state == api.ContainerState_CONTAINER_RUNNING {
			r.ends(c, time.Now(), 137, "Error")
		}
	}
	return nil
}

// RemovePodSandbox removes a sandbox and its containers.
func (r *Runtime) RemovePodSandbox(ctx context.Context, id string) error {
	if err := r.StopPodSandbox(ctx, id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.sandboxes[id]; ok {
		r.ips.give(s.ip)
		for _, c := range r.containers {
			if c.sandbox == s {
				delete(r.containers, c.id)
			}
		}
		delete(r.sandboxes, id)
	}
	return nil
}

// PodSandboxStatus describes a sandbox.
func (r *Runtime) PodSandboxStatus(_ context.Context, id string, _ bool) (*api.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sandboxes[id]
	if !ok {
		return nil, notFound("sandbox", id)
	}
	return &api.PodSandboxStatusResponse{Status: &api.PodSandboxStatus{
		Id:          s.id,
		Metadata:    s.config.Metadata,
		State:       s.state,
		CreatedAt:   s.created.UnixNano(),
		Network:     &api.PodSandboxNetworkStatus{Ip: s.ip},
		Linux:       &api.LinuxPodSandboxStatus{Namespaces: &api.Namespace{Options: s.config.GetLinux().GetSecurityContext().GetNamespaceOptions()}},
		Labels:      s.config.Labels,
		Annotations: s.config.Annotations,
	}}, nil
}

// ListPodSandbox lists sandboxes.
func (r *Runtime) ListPodSandbox(_ context.Context, f *api.PodSandboxFilter) ([]*api.PodSandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*api.PodSandbox
	for _, s := range r.sandboxes {
		if f.GetId() != "" && f.Id != s.id || f.GetState() != nil && f.State.State != s.state || !selects(f.GetLabelSelector(), s.config.Labels) {
			continue
		}
		all = append(all, &api.PodSandbox{
			Id: s.id, Metadata: s.config.Metadata, State: s.state, CreatedAt: s.created.UnixNano(),
			Labels: s.config.Labels, Annotations: s.config.Annotations,
		})
	}
	return all, nil
}

// UpdatePodSandboxResources does nothing.
func (r *Runtime) UpdatePodSandboxResources(context.Context, *api.UpdatePodSandboxResourcesRequest) (*api.UpdatePodSandboxResourcesResponse, error) {
	return &api.UpdatePodSandboxResourcesResponse{}, nil
}

// CreateContainer creates a container that does not run yet.
func (r *Runtime) CreateContainer(_ context.Context, sandboxID string, config *api.ContainerConfig, _ *api.PodSandboxConfig) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sandboxes[sandboxID]
	if !ok {
		return "", notFound("sandbox", sandboxID)
	}
	limits := &api.LinuxContainerResources{}
	merge(limits, config.GetLinux().GetResources())
	c := &container{id: newID(), sandbox: s, config: config, created: time.Now(), limits: limits}
	r.containers[c.id] = c
	return c.id, nil
}

// StartContainer starts a container.
func (r *Runtime) StartContainer(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return notFound("container", id)
	}
	now := time.Now()
	if now.After(r.ticked) { // the container uses no CPU before its start
		r.tick(now)
	}
	c.state = api.ContainerState_CONTAINER_RUNNING
	c.started = now
	c.runs = &machine.Container{Limits: limitsOf(c.limits), Instance: demand.Instance(c.key())}
	r.cast(c)
	r.machine.Start(c.runs, r.clock.At(now))
	c.log(now, "starts")
	return nil
}

// StopContainer stops a container immediately, like a program that exits on SIGTERM.
func (r *Runtime) StopContainer(_ context.Context, id string, _ int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return notFound("container", id)
	}
	if c.state == api.ContainerState_CONTAINER_RUNNING {
		r.ends(c, time.Now(), 143, "Error")
	}
	return nil
}

// RemoveContainer removes a container.
func (r *Runtime) RemoveContainer(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.containers[id]; ok && c.state == api.ContainerState_CONTAINER_RUNNING {
		r.ends(c, time.Now(), 137, "Error")
	}
	delete(r.containers, id)
	return nil
}

// ListContainers lists containers.
func (r *Runtime) ListContainers(_ context.Context, f *api.ContainerFilter) ([]*api.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*api.Container
	for _, c := range r.containers {
		if f.GetId() != "" && f.Id != c.id || f.GetState() != nil && f.State.State != c.state ||
			f.GetPodSandboxId() != "" && f.PodSandboxId != c.sandbox.id || !selects(f.GetLabelSelector(), c.config.Labels) {
			continue
		}
		all = append(all, &api.Container{
			Id: c.id, PodSandboxId: c.sandbox.id, Metadata: c.config.Metadata, Image: c.config.Image, ImageRef: c.config.Image.GetImage(),
			ImageId: c.config.Image.GetImage(), State: c.state, CreatedAt: c.created.UnixNano(), Labels: c.config.Labels, Annotations: c.config.Annotations,
		})
	}
	return all, nil
}

// ContainerStatus describes a container with its actual resources.
func (r *Runtime) ContainerStatus(_ context.Context, id string, _ bool) (*api.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return nil, notFound("container", id)
	}
	limits := &api.LinuxContainerResources{}
	merge(limits, c.limits)
	return &api.ContainerStatusResponse{Status: &api.ContainerStatus{
		Id: c.id, Metadata: c.config.Metadata, State: c.state,
		CreatedAt: c.created.UnixNano(), StartedAt: nano(c.started), FinishedAt: nano(c.finished),
		ExitCode: c.exit, Reason: c.reason,
		Image: c.config.Image, ImageRef: c.config.Image.GetImage(), ImageId: c.config.Image.GetImage(),
		Labels: c.config.Labels, Annotations: c.config.Annotations, Mounts: c.config.Mounts, LogPath: c.logPath(),
		Resources: &api.ContainerResources{Linux: limits},
	}}, nil
}

// UpdateContainerResources resizes a container: the machine enforces the new limits from now on.
func (r *Runtime) UpdateContainerResources(_ context.Context, id string, resources *api.ContainerResources) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return notFound("container", id)
	}
	if c.runs != nil && c.runs.Wish.ResizeFails {
		return status.Error(codes.Internal, "the container cannot be resized (sim.podfit.dev/"+c.config.GetMetadata().GetName()+".resize: fails)")
	}
	merge(c.limits, resources.GetLinux())
	if c.runs != nil {
		c.runs.Limits = limitsOf(c.limits)
	}
	c.log(time.Now(), "resized: cpu quota %d, shares %d, memory limit %d", c.limits.CpuQuota, c.limits.CpuShares, c.limits.MemoryLimitInBytes)
	return nil
}

// ExecSync runs the command of a probe.
func (r *Runtime) ExecSync(_ context.Context, id string, command []string, _ time.Duration) ([]byte, []byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok || c.state != api.ContainerState_CONTAINER_RUNNING {
		return nil, nil, notFound("running container", id)
	}
	if slices.Equal(command, AskReady) && !c.runs.Ready(r.clock.At(time.Now())) {
		return []byte("not ready yet"), nil, exec.CodeExitError{Err: fmt.Errorf("not ready yet"), Code: 1}
	}
	return nil, nil, nil
}

// ReopenContainerLog does nothing, because logs are opened for each line.
func (r *Runtime) ReopenContainerLog(context.Context, string) error { return nil }

// UpdateRuntimeConfig does nothing.
func (r *Runtime) UpdateRuntimeConfig(context.Context, *api.RuntimeConfig) error { return nil }

// ContainerStats returns the usage of one container.
func (r *Runtime) ContainerStats(_ context.Context, id string) (*api.ContainerStats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok || c.runs == nil {
		return nil, notFound("container", id)
	}
	return r.stats(c), nil
}

// ListContainerStats returns the usage of the running containers.
func (r *Runtime) ListContainerStats(_ context.Context, f *api.ContainerStatsFilter) ([]*api.ContainerStats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*api.ContainerStats
	for _, c := range r.containers {
		if c.state != api.ContainerState_CONTAINER_RUNNING || f.GetId() != "" && f.Id != c.id ||
			f.GetPodSandboxId() != "" && f.PodSandboxId != c.sandbox.id || !selects(f.GetLabelSelector(), c.config.Labels) {
			continue
		}
		all = append(all, r.stats(c))
	}
	return all, nil
}

func (r *Runtime) stats(c *container) *api.ContainerStats {
	at := r.ticked.UnixNano()
	memory := uint64(c.runs.Memory)
	return &api.ContainerStats{
		Attributes: &api.ContainerAttributes{Id: c.id, Metadata: c.config.Metadata, Labels: c.config.Labels, Annotations: c.config.Annotations},
		Cpu: &api.CpuUsage{Timestamp: at,
			UsageCoreNanoSeconds: &api.UInt64Value{Value: uint64(c.runs.CPUSeconds * 1e9)},
			UsageNanoCores:       &api.UInt64Value{Value: uint64(c.runs.CPU * 1e9)}},
		Memory: &api.MemoryUsage{Timestamp: at,
			WorkingSetBytes: &api.UInt64Value{Value: memory}, UsageBytes: &api.UInt64Value{Value: memory}, RssBytes: &api.UInt64Value{Value: memory}},
		WritableLayer: &api.FilesystemUsage{Timestamp: at, FsId: &api.FilesystemIdentifier{Mountpoint: ImageMount},
			UsedBytes: &api.UInt64Value{Value: 4096}, InodesUsed: &api.UInt64Value{Value: 1}},
	}
}

// key returns namespace/pod/container.
func (c *container) key() string {
	meta := c.sandbox.config.Metadata
	return meta.Namespace + "/" + meta.Name + "/" + c.config.Metadata.Name
}

func (c *container) logPath() string {
	if c.sandbox.config.LogDirectory == "" || c.config.LogPath == "" {
		return ""
	}
	return filepath.Join(c.sandbox.config.LogDirectory, c.config.LogPath)
}

// log writes a line to the log file that kubectl logs reads. Errors are ignored.
func (c *container) log(now time.Time, format string, args ...any) {
	path := c.logPath()
	if path == "" || os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	fmt.Fprintf(f, "%s stdout F %s %s\n", now.UTC().Format(time.RFC3339Nano), c.key(), line)
}

// merge sets the fields of into that are not zero in from.
func merge(into, from *api.LinuxContainerResources) {
	if from == nil {
		return
	}
	set := func(into *int64, from int64) {
		if from != 0 {
			*into = from
		}
	}
	set(&into.CpuPeriod, from.CpuPeriod)
	set(&into.CpuQuota, from.CpuQuota)
	set(&into.CpuShares, from.CpuShares)
	set(&into.MemoryLimitInBytes, from.MemoryLimitInBytes)
	set(&into.OomScoreAdj, from.OomScoreAdj)
}

func limitsOf(l *api.LinuxContainerResources) machine.Limits {
	limits := machine.Limits{Memory: max(0, l.MemoryLimitInBytes), Shares: l.CpuShares, OOMScoreAdj: l.OomScoreAdj}
	if l.CpuQuota > 0 && l.CpuPeriod > 0 {
		limits.CPU = float64(l.CpuQuota) / float64(l.CpuPeriod)
	}
	return limits
}

func selects(selector, labels map[string]string) bool {
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return true
}

func notFound(what, id string) error {
	return status.Errorf(codes.NotFound, "%s %s not found", what, id)
}

func nano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func newID() string {
	b := make([]byte, 32)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// addressesPerNode is more than the maximum number of pods on a node.
const addressesPerNode = 1024

// addresses assigns pod IPs from 198.18.0.0/15, which RFC 2544 reserves for tests.
type addresses struct {
	first, next int
	taken       map[string]bool
}

func (a *addresses) take() string {
	for {
		n := a.first + 1 + a.next%(addressesPerNode-2)
		a.next++
		ip := fmt.Sprintf("198.%d.%d.%d", 18+n>>16&1, n>>8&255, n&255)
		if !a.taken[ip] {
			a.taken[ip] = true
			return ip
		}
	}
}

func (a *addresses) give(ip string) { delete(a.taken, ip) }
