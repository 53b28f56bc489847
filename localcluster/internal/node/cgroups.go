// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"podfit.dev/podfit/localcluster/internal/engine"
)

const (
	podPrefix = "pod"
	cpuPeriod = 100000 // microseconds

	unlimitedMemory = int64(9223372036854771712) // value of cgroups for no limit
	unlimitedCPU    = int64(-1)
)

// cgroups is the kubelet's container manager, with a table instead of /sys/fs/cgroup.
type cgroups struct {
	cm.ContainerManager // the stub, for methods that do not concern cgroups

	node               cm.NodeConfig // the policies of the CPU manager and of the memory manager, which pin no containers here
	capacity, reserved v1.ResourceList

	mu   sync.Mutex
	pods map[types.UID]*podCgroup
}

type podCgroup struct {
	name   cm.CgroupName
	config cm.ResourceConfig
}

func newCgroups(node cm.NodeConfig, capacity, reserved v1.ResourceList) *cgroups {
	return &cgroups{ContainerManager: cm.NewStubContainerManager(), node: node, capacity: capacity, reserved: reserved, pods: map[types.UID]*podCgroup{}}
}

// managers returns the policies of the CPU manager and of the memory manager.
func managers(c Config) cm.NodeConfig {
	out := cm.NodeConfig{CPUManagerPolicy: c.CPUManager, MemoryManagerPolicy: "None"}
	if c.MemoryManager == "static" {
		out.MemoryManagerPolicy = string(memorymanager.PolicyTypeStatic)
	}
	return out
}

func (g *cgroups) NewPodContainerManager() cm.PodContainerManager         { return podCgroups{cgroups: g} }
func (g *cgroups) GetNodeConfig() cm.NodeConfig                           { return g.node }
func (g *cgroups) GetPodCgroupRoot() string                               { return engine.CgroupRoot }
func (g *cgroups) GetNodeAllocatableReservation() v1.ResourceList         { return g.reserved.DeepCopy() }
func (g *cgroups) SystemCgroupsLimit() v1.ResourceList                    { return v1.ResourceList{} }
func (g *cgroups) UpdateQOSCgroups(klog.Logger) error                     { return nil }
func (g *cgroups) PrepareDynamicResources(context.Context, *v1.Pod) error { return nil }

func (g *cgroups) GetCapacity(bool) v1.ResourceList {
	all := g.capacity.DeepCopy()
	all[v1.ResourceEphemeralStorage] = *resource.NewQuantity(diskSize, resource.BinarySI)
	return all
}

func (g *cgroups) GetNodeAllocatableAbsolute() v1.ResourceList {
	left := g.capacity.DeepCopy()
	for name, reserved := range g.reserved {
		q := left[name]
		q.Sub(reserved)
		left[name] = q
	}
	return left
}

// podCgroups gives the kubelet access to the table.
type podCgroups struct {
	*cgroups
	noMemory
}

// noMemory stands for what a table cannot know; the kubelet asks cadvisor for it.
type noMemory struct{}

func (noMemory) GetPodCgroupMemoryUsage(*v1.Pod) (uint64, error) {
	return 0, fmt.Errorf("memory usage is not available from cgroups, use cAdvisor")
}

func (g podCgroups) GetPodContainerName(pod *v1.Pod) (cm.CgroupName, string) {
	name := cm.CgroupName{strings.TrimPrefix(engine.CgroupRoot, "/")}
	switch qos.GetPodQOS(pod) {
	case v1.PodQOSBurstable:
		name = append(name, "burstable")
	case v1.PodQOSBestEffort:
		name = append(name, "besteffort")
	}
	name = append(name, podPrefix+string(pod.UID))
	return name, "/" + strings.Join(name, "/")
}

func (g podCgroups) EnsureExists(_ klog.Logger, pod *v1.Pod) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pods[pod.UID] == nil {
		name, _ := g.GetPodContainerName(pod)
		c := cm.ResourceConfig{Memory: new(unlimitedMemory), CPUQuota: new(unlimitedCPU), CPUShares: new(uint64(cm.MinShares)), CPUPeriod: new(uint64(cpuPeriod))}
		apply(&c, cm.ResourceConfigForPod(pod, true, cpuPeriod, false, kubeletconfig.NoneMemoryReservationPolicy))
		g.pods[pod.UID] = &podCgroup{name: name, config: c}
	}
	return nil
}

func (g podCgroups) Exists(pod *v1.Pod) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pods[pod.UID] != nil
}

func (g podCgroups) Destroy(_ klog.Logger, name cm.CgroupName) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(name) > 0 {
		delete(g.pods, types.UID(strings.TrimPrefix(name[len(name)-1], podPrefix)))
	}
	return nil
}

func (g podCgroups) ReduceCPULimits(klog.Logger, cm.CgroupName) error { return nil }

func (g podCgroups) GetAllPodsFromCgroups() (map[types.UID]cm.CgroupName, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[types.UID]cm.CgroupName{}
	for uid, c := range g.pods {
		all[uid] = c.name
	}
	return all, nil
}

func (g podCgroups) IsPodCgroup(path string) (bool, types.UID) {
	parts := strings.Split(path, "/")
	uid, ok := strings.CutPrefix(parts[len(parts)-1], podPrefix)
	return ok && strings.HasPrefix(path, engine.CgroupRoot+"/"), types.UID(uid)
}

func (g podCgroups) GetPodCgroupConfig(pod *v1.Pod, _ v1.ResourceName) (*cm.ResourceConfig, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.pods[pod.UID]
	if c == nil {
		return nil, fmt.Errorf("pod %s/%s has no cgroup", pod.Namespace, pod.Name)
	}
	var copied cm.ResourceConfig
	apply(&copied, &c.config)
	return &copied, nil
}

func (g podCgroups) SetPodCgroupConfig(_ klog.Logger, pod *v1.Pod, config *cm.ResourceConfig) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.pods[pod.UID]
	if c == nil {
		return fmt.Errorf("pod %s/%s has no cgroup", pod.Namespace, pod.Name)
	}
	apply(&c.config, config)
	return nil
}

// apply sets the fields of into that from has.
func apply(into, from *cm.ResourceConfig) {
	if from == nil {
		return
	}
	set(&into.Memory, from.Memory)
	set(&into.CPUShares, from.CPUShares)
	set(&into.CPUQuota, from.CPUQuota)
	set(&into.CPUPeriod, from.CPUPeriod)
	set(&into.PidsLimit, from.PidsLimit)
}

func set[T any](into **T, from *T) {
	if from != nil {
		*into = new(*from)
	}
}

func resources(milliCPU, memory int64) v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}
}
