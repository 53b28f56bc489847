// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	info "github.com/google/cadvisor/info/v1"
	info2 "github.com/google/cadvisor/info/v2"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
)

const diskSize = 100 << 30

// An observer is the node's cadvisor: it reads the same tables as the container runtime. The kubelet serves what
// it says as /metrics/cadvisor, and decides evictions and the lowering of memory limits by it.
type observer struct {
	*Runtime
	booted time.Time
}

var _ cadvisor.Interface = observer{}

// A reading is what one cgroup has and uses.
type reading struct {
	created            time.Time
	labels             map[string]string
	image, name        string
	cpuSeconds, cpu    float64
	memory             uint64
	shares, quota      uint64 // quota: microseconds per period, 0 for none
	memoryLimit        uint64 // 0 for none
	periods, throttled uint64
	throttledNanos     uint64
	ooms               uint64
	processes          uint64
}

// readings are those of the machine, the pods and the containers, by cgroup.
func (o observer) readings() (at time.Time, all map[string]reading) {
	o.mu.Lock()
	defer o.mu.Unlock()
	used := min(o.machine.Used(), o.machine.Memory) // the kubelet subtracts it from the size, unsigned
	root := reading{created: o.booted, memory: uint64(used), cpuSeconds: o.cpuSeconds, memoryLimit: uint64(o.machine.Memory)}
	all = map[string]reading{}
	for _, c := range o.containers {
		if c.runs == nil || c.state != api.ContainerState_CONTAINER_RUNNING {
			continue
		}
		path := podPath(c.sandbox)
		r := reading{
			created: c.created, labels: c.config.Labels, image: c.config.Image.GetImage(), name: c.id,
			cpuSeconds: c.runs.CPUSeconds, cpu: c.runs.CPU, memory: uint64(c.runs.Memory),
			shares: uint64(c.limits.CpuShares), quota: uint64(max(0, c.limits.CpuQuota)), memoryLimit: uint64(max(0, c.limits.MemoryLimitInBytes)),
			periods: uint64(c.runs.Periods), throttled: uint64(c.runs.ThrottledPeriods), throttledNanos: uint64(c.runs.ThrottledSeconds * 1e9),
			ooms: uint64(o.ooms[c.key()]), processes: 1,
		}
		all[path+"/"+c.id] = r
		root.cpuSeconds += r.cpuSeconds
		root.cpu += r.cpu
		p := all[path]
		p.created = c.sandbox.created
		p.cpuSeconds += r.cpuSeconds
		p.cpu += r.cpu
		p.memory += r.memory
		p.processes++
		all[path] = p
	}
	all["/"] = root
	return o.ticked, all
}

func podPath(s *sandbox) string {
	if parent := s.config.GetLinux().GetCgroupParent(); parent != "" {
		return parent
	}
	return cgroupRoot + "/" + podPrefix + s.config.Metadata.Uid
}

func (o observer) Start() error { return nil }

func (o observer) ContainerInfoV2(name string, options info2.RequestOptions) (map[string]info2.ContainerInfo, error) {
	at, all := o.readings()
	found := map[string]info2.ContainerInfo{}
	for path, r := range all {
		if path == name || options.Recursive && within(path, name) {
			found[path] = r.v2(at)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("unknown container %q", name)
	}
	return found, nil
}

func (o observer) GetRequestedContainersInfo(name string, options info2.RequestOptions) (map[string]*info.ContainerInfo, error) {
	at, all := o.readings()
	found := map[string]*info.ContainerInfo{}
	for path, r := range all {
		if path == name || options.Recursive && within(path, name) {
			found[path] = r.v1(path, at)
		}
	}
	return found, nil
}

func within(path, parent string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(parent, "/")+"/")
}

func (r reading) v2(at time.Time) info2.ContainerInfo {
	one := r.v1("", at)
	return info2.ContainerInfo{
		Spec: info2.ContainerSpec{
			CreationTime: r.created, Labels: r.labels, Image: r.image, HasCpu: true, HasMemory: true,
			Cpu:    info2.CpuSpec{Limit: r.shares, Quota: r.quota, Period: cpuPeriod},
			Memory: info2.MemorySpec{Limit: r.memoryLimitOrNone()},
		},
		Stats: []*info2.ContainerStats{{
			Timestamp: at, Cpu: &one.Stats[0].Cpu, Memory: &one.Stats[0].Memory, Processes: &one.Stats[0].Processes,
			CpuInst: &info2.CpuInstStats{Usage: info2.CpuInstUsage{Total: uint64(r.cpu * 1e9)}},
		}},
	}
}

func (r reading) v1(path string, at time.Time) *info.ContainerInfo {
	c := &info.ContainerInfo{
		ContainerReference: info.ContainerReference{Name: path},
		Spec: info.ContainerSpec{
			CreationTime: r.created, Labels: r.labels, Image: r.image, HasCpu: true, HasMemory: true, HasProcesses: true,
			Cpu:    info.CpuSpec{Limit: r.shares, Quota: r.quota, Period: cpuPeriod},
			Memory: info.MemorySpec{Limit: r.memoryLimit},
		},
		Stats: []*info.ContainerStats{{
			Timestamp: at,
			Cpu: info.CpuStats{
				Usage: info.CpuUsage{Total: uint64(r.cpuSeconds * 1e9), User: uint64(r.cpuSeconds * 1e9)},
				CFS:   info.CpuCFS{Periods: r.periods, ThrottledPeriods: r.throttled, ThrottledTime: r.throttledNanos},
			},
			Memory:    info.MemoryStats{Usage: r.memory, MaxUsage: r.memory, WorkingSet: r.memory, RSS: r.memory},
			Processes: info.ProcessStats{ProcessCount: r.processes},
			OOMEvents: r.ooms,
		}},
	}
	if r.name != "" {
		c.Aliases = []string{r.name}
	}
	return c
}

func (r reading) memoryLimitOrNone() uint64 {
	if r.memoryLimit == 0 {
		return uint64(unlimitedMemory)
	}
	return r.memoryLimit
}

func (o observer) MachineInfo() (*info.MachineInfo, error) {
	return &info.MachineInfo{
		NumCores: int(o.machine.Cores), NumPhysicalCores: int(o.machine.Cores), NumSockets: 1, MemoryCapacity: uint64(o.machine.Memory),
		MachineID: o.node, SystemUUID: o.node, BootID: o.booted.UTC().Format(time.RFC3339Nano),
	}, nil
}

func (o observer) VersionInfo() (*info.VersionInfo, error) {
	return &info.VersionInfo{KernelVersion: "0.0.0-simulated", ContainerOsVersion: "simulated"}, nil
}

func (o observer) disk() info2.FsInfo {
	inodes := uint64(1 << 24)
	return info2.FsInfo{Timestamp: time.Now(), Device: "/dev/simulated", Mountpoint: "/", Capacity: diskSize, Available: diskSize * 9 / 10, Usage: diskSize / 10, Inodes: &inodes, InodesFree: &inodes}
}

func (o observer) ImagesFsInfo(context.Context) (info2.FsInfo, error)    { return o.disk(), nil }
func (o observer) ContainerFsInfo(context.Context) (info2.FsInfo, error) { return o.disk(), nil }
func (o observer) RootFsInfo() (info2.FsInfo, error)                     { return o.disk(), nil }
func (o observer) GetDirFsInfo(string) (info2.FsInfo, error)             { return o.disk(), nil }
