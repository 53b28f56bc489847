// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	info "github.com/google/cadvisor/info/v1"
	info2 "github.com/google/cadvisor/info/v2"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"podfit.dev/podfit/localcluster/internal/engine"
	"podfit.dev/podfit/localcluster/internal/machine"
)

const diskSize = 100 << 30

// An observer is the node's cAdvisor. It reads the tables of the container runtime. The kubelet serves its data at
// /metrics/cadvisor, and uses it for evictions and for decreases of memory limits.
type observer struct {
	runtime *engine.Runtime
	node    string
	cores   int
	memory  int64 // bytes
	booted  time.Time
}

var _ cadvisor.Interface = observer{}

func (o observer) Start() error { return nil }

func (o observer) ContainerInfoV2(name string, options info2.RequestOptions) (map[string]info2.ContainerInfo, error) {
	at, all := o.runtime.Readings()
	found := map[string]info2.ContainerInfo{}
	for path, r := range all {
		if path == name || options.Recursive && within(path, name) {
			found[path] = infoV2(r, at)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("unknown container %q", name)
	}
	return found, nil
}

func (o observer) GetRequestedContainersInfo(name string, options info2.RequestOptions) (map[string]*info.ContainerInfo, error) {
	at, all := o.runtime.Readings()
	found := map[string]*info.ContainerInfo{}
	for path, r := range all {
		if path == name || options.Recursive && within(path, name) {
			found[path] = infoV1(r, path, at)
		}
	}
	return found, nil
}

func within(path, parent string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(parent, "/")+"/")
}

func infoV2(r engine.Reading, at time.Time) info2.ContainerInfo {
	one := infoV1(r, "", at)
	return info2.ContainerInfo{
		Spec: info2.ContainerSpec{
			CreationTime: r.Created, Labels: r.Labels, Image: r.Image, HasCpu: true, HasMemory: true,
			Cpu:    info2.CpuSpec{Limit: r.Shares, Quota: r.Quota, Period: cpuPeriod},
			Memory: info2.MemorySpec{Limit: limitOrNone(r.MemoryLimit)},
		},
		Stats: []*info2.ContainerStats{{
			Timestamp: at, Cpu: &one.Stats[0].Cpu, Memory: &one.Stats[0].Memory, Processes: &one.Stats[0].Processes,
			CpuInst: &info2.CpuInstStats{Usage: info2.CpuInstUsage{Total: uint64(r.CPU * 1e9)}},
		}},
	}
}

func infoV1(r engine.Reading, path string, at time.Time) *info.ContainerInfo {
	c := &info.ContainerInfo{
		ContainerReference: info.ContainerReference{Name: path},
		Spec: info.ContainerSpec{
			CreationTime: r.Created, Labels: r.Labels, Image: r.Image, HasCpu: true, HasMemory: true, HasProcesses: true,
			Cpu:    info.CpuSpec{Limit: r.Shares, Quota: r.Quota, Period: cpuPeriod},
			Memory: info.MemorySpec{Limit: r.MemoryLimit},
		},
		Stats: []*info.ContainerStats{{
			Timestamp: at,
			Cpu: info.CpuStats{
				Usage: info.CpuUsage{Total: uint64(r.CPUSeconds * 1e9), User: uint64(r.CPUSeconds * 1e9)},
				CFS:   info.CpuCFS{Periods: r.Periods, ThrottledPeriods: r.ThrottledPeriods, ThrottledTime: uint64(r.ThrottledSeconds * 1e9)},
			},
			Memory:    info.MemoryStats{Usage: r.Memory, MaxUsage: r.Memory, WorkingSet: r.Memory, RSS: r.Memory, PSI: psi(&r.Pressure)},
			Processes: info.ProcessStats{ProcessCount: r.Processes},
			OOMEvents: r.OOMKills,
		}},
	}
	if r.ID != "" {
		c.Aliases = []string{r.ID}
	}
	return c
}

// psi returns pressure as Linux has it: microseconds and percent. When all tasks wait, some do.
func psi(p *machine.Pressure) info.PSIStats {
	data := info.PSIData{Total: uint64(p.Seconds * 1e6), Avg10: percent(p.Avg10), Avg60: percent(p.Avg60), Avg300: percent(p.Avg300)}
	return info.PSIStats{Full: data, Some: data}
}

// percent rounds to two digits, as Linux does.
func percent(share float64) float64 { return math.Round(share*1e4) / 100 }

func limitOrNone(limit uint64) uint64 {
	if limit == 0 {
		return uint64(unlimitedMemory)
	}
	return limit
}

func (o observer) MachineInfo() (*info.MachineInfo, error) {
	return &info.MachineInfo{
		NumCores: o.cores, NumPhysicalCores: o.cores, NumSockets: 1, MemoryCapacity: uint64(o.memory),
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
