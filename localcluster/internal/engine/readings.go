// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	api "k8s.io/cri-api/pkg/apis/runtime/v1"
	"podfit.dev/podfit/localcluster/internal/machine"
)

// A Reading has the limits and the usage of one cgroup.
type Reading struct {
	Created          time.Time // of a container: its start, because metrics-server divides its first CPU time by its age
	Labels           map[string]string
	Image, ID        string // of a container
	CPUSeconds       float64
	CPU              float64 // cores, now
	Memory           uint64  // bytes
	Shares           uint64
	Quota            uint64 // microseconds of each 100 ms; 0: none
	MemoryLimit      uint64 // bytes; 0: none
	Periods          uint64
	ThrottledPeriods uint64
	ThrottledSeconds float64
	OOMKills         uint64 // of all containers of this name in this pod
	Processes        uint64

	Pressure machine.Pressure // of memory; only of the machine
}

// Readings returns the readings of the machine, the pods and the containers by cgroup, and their time.
func (r *Runtime) Readings() (at time.Time, all map[string]Reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	root := Reading{
		Created: r.booted, CPUSeconds: r.cpuSeconds, MemoryLimit: uint64(r.machine.Memory),
		Memory: uint64(min(r.machine.Used(), r.machine.Memory)), // the kubelet subtracts it from the size as an unsigned number

		Pressure: r.machine.Pressure,
	}
	kubepods := Reading{Created: r.booted}
	all = map[string]Reading{}
	for _, c := range r.containers {
		if c.state != api.ContainerState_CONTAINER_RUNNING {
			continue
		}
		path := c.sandbox.cgroup()
		one := Reading{
			Created: c.started, Labels: c.config.Labels, Image: c.config.Image.GetImage(), ID: c.id,
			CPUSeconds: c.runs.CPUSeconds, CPU: c.runs.CPU, Memory: uint64(c.runs.Memory),
			Shares: uint64(c.limits.CpuShares), Quota: uint64(max(0, c.limits.CpuQuota)), MemoryLimit: uint64(max(0, c.limits.MemoryLimitInBytes)),
			Periods: uint64(c.runs.Periods), ThrottledPeriods: uint64(c.runs.ThrottledPeriods), ThrottledSeconds: c.runs.ThrottledSeconds,
			OOMKills: uint64(r.ooms[c.key()]), Processes: 1,
		}
		all[path+"/"+c.id] = one
		pod := all[path]
		pod.Created = c.sandbox.created
		pod.add(one)
		all[path] = pod
		kubepods.add(one)
		root.CPUSeconds += one.CPUSeconds
		root.CPU += one.CPU
	}
	all[CgroupRoot] = kubepods
	all["/"] = root
	return r.ticked, all
}

func (r *Reading) add(other Reading) {
	r.CPUSeconds += other.CPUSeconds
	r.CPU += other.CPU
	r.Memory += other.Memory
	r.Processes += other.Processes
}

// CgroupRoot is the parent of the cgroups of pods.
const CgroupRoot = "/kubepods"

func (s *sandbox) cgroup() string {
	if parent := s.config.GetLinux().GetCgroupParent(); parent != "" {
		return parent
	}
	return CgroupRoot + "/pod" + s.config.Metadata.Uid
}
