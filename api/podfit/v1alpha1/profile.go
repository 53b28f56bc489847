// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SizingProfile is a profile for computing recommendations: a built-in profile, its base, with some parameters changed. A
// VerticalPodAutoscaler selects it by its name in spec.recommenders[0].name.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,shortName=szp,categories=podfit
// +kubebuilder:printcolumn:name="Base",type="string",JSONPath=".spec.base"
// +kubebuilder:printcolumn:name="About",type="string",JSONPath=".spec.about"
// +kubebuilder:printcolumn:name="OOM Budget",type="number",JSONPath=".spec.memory.oomBudget"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:validation:XValidation:rule="!(self.metadata.name in ['default', 'balanced', 'cost', 'critical', 'busy-hours', 'autopilot', 'packed'])",message="metadata.name must not be the name of a built-in profile; to change a built-in profile, choose another name and set spec.base"
type SizingProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the parameters of the profile.
	Spec SizingProfileSpec `json:"spec"`
}

// SizingProfileList is a list of SizingProfile objects.
//
// +kubebuilder:object:root=true
type SizingProfileList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata"`

	Items []SizingProfile `json:"items"`
}

// SizingProfileSpec contains the parameters of a profile. Unset parameters have the value of the base.
//
// +kubebuilder:validation:XValidation:rule="!has(self.histogram) || self.base == 'default'",message="histogram can only be set if base is default"
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || self.base in ['balanced', 'cost', 'critical', 'busy-hours']",message="memory can only be set if base is balanced, cost, critical or busy-hours"
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || self.base in ['balanced', 'cost', 'critical']",message="cpu can only be set if base is balanced, cost or critical"
// +kubebuilder:validation:XValidation:rule="!has(self.busyHours) || self.base == 'busy-hours'",message="busyHours can only be set if base is busy-hours"
// +kubebuilder:validation:XValidation:rule="!has(self.ensemble) || self.base == 'autopilot'",message="ensemble can only be set if base is autopilot"
// +kubebuilder:validation:XValidation:rule="!has(self.packed) || self.base == 'packed'",message="packed can only be set if base is packed"
type SizingProfileSpec struct {
	// base is the built-in profile whose parameters are changed. Default: balanced.
	// +optional
	// +kubebuilder:default=balanced
	Base Base `json:"base,omitempty"`

	// about describes the purpose of the profile in one line of at most 200 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	About string `json:"about,omitempty"`

	// rollout is how changes of running pods are rolled out for the VPAs that select the profile: all, which is the default, or canary: one
	// pod first, and the others when it has run well for canaryDuration. The annotation podfit.dev/rollout of a VPA overrides it.
	// +optional
	// +kubebuilder:validation:Enum=all;canary
	Rollout string `json:"rollout,omitempty"`

	// canaryDuration is how long a canary is watched. Default: 10m. Between 1m and 24h. The annotation podfit.dev/canary-duration of a VPA
	// overrides it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="must be between 1m and 24h"
	CanaryDuration *Duration `json:"canaryDuration,omitempty"`

	// runtimeGuards are rules for containers whose language runtime podfit knows, for the VPAs that select the profile. cpu keeps CPU requests
	// of a JVM without CPU limit out of the ranges that it may misread as all cores of the node (989m to 1000m, and 2538m to 2562m). memory
	// keeps the memory request of a JVM at or above the heap that its options set. Default: none. The annotation podfit.dev/runtime-guards of
	// a VPA overrides it.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	RuntimeGuards []RuntimeGuard `json:"runtimeGuards,omitempty"`

	// limits are rules for the limits of new pods, for the VPAs that select the profile.
	// +optional
	Limits *Limits `json:"limits,omitempty"`

	// startupBoost is whether podfit learns how much more CPU the starts of containers need, for the VPAs that select the profile. Default:
	// nothing is learnt. It needs the feature gate CPUStartupBoost. The field startupBoost of a VPA overrides what is learnt.
	// +optional
	StartupBoost *StartupBoost `json:"startupBoost,omitempty"`

	// histogram contains parameters for the base default: quantiles of a decaying histogram.
	// +optional
	Histogram *Histogram `json:"histogram,omitempty"`

	// memory contains parameters for memory, for the bases balanced, cost, critical and busy-hours.
	// +optional
	Memory *Memory `json:"memory,omitempty"`

	// cpu contains parameters for CPU, for the bases balanced, cost and critical.
	// +optional
	CPU *CPU `json:"cpu,omitempty"`

	// busyHours contains parameters for CPU, for the base busy-hours.
	// +optional
	BusyHours *BusyHours `json:"busyHours,omitempty"`

	// ensemble contains parameters for the base autopilot: the model with the lowest cost is used.
	// +optional
	Ensemble *Ensemble `json:"ensemble,omitempty"`

	// packed contains parameters for the base packed.
	// +optional
	Packed *Packed `json:"packed,omitempty"`
}

// Base is the name of a built-in profile.
//
// +kubebuilder:validation:Enum=default;balanced;cost;critical;busy-hours;autopilot;packed
type Base string

// RuntimeGuard is a rule for containers whose language runtime podfit knows.
//
// +kubebuilder:validation:Enum=cpu;memory
type RuntimeGuard string

// The rules.
const (
	GuardCPU    RuntimeGuard = "cpu"    // keep CPU requests out of the ranges that a JVM misreads
	GuardMemory RuntimeGuard = "memory" // keep memory requests at or above the heap of a JVM
)

// Limits are rules for limits.
type Limits struct {
	// cpu is what the admission controller does with the CPU limits of new pods: keep, which is the default, or remove. remove removes the CPU
	// limit of each regular container whose CPU the VPA controls, unless the API server would reject the pod without it or the container needs
	// it. Running pods keep their limits until they are replaced. The annotation podfit.dev/cpu-limits of a VPA overrides it.
	// +optional
	CPU LimitRule `json:"cpu,omitempty"`

	// memory is how the memory limits of containers follow: proportional, which is the default, keeps their ratio to the requests; keep leaves
	// them as they are; peaks sets them by the highest usage of 14 days, whatever the requests are. A container without a limit gets none. The
	// annotation podfit.dev/memory-limits of a VPA overrides it.
	// +optional
	Memory MemoryLimitRule `json:"memory,omitempty"`
}

// MemoryLimitRule is how the memory limit of a container is determined.
//
// +kubebuilder:validation:Enum=proportional;keep;peaks
type MemoryLimitRule string

// The rules.
const (
	ProportionalLimit MemoryLimitRule = "proportional" // the ratio to the request is kept
	UnchangedLimit    MemoryLimitRule = "keep"         // the limit is not changed
	LimitByPeaks      MemoryLimitRule = "peaks"        // the larger of twice the highest usage of 14 days, and 1 GiB above it
)

// LimitRule is what the admission controller does with a limit of a new pod.
//
// +kubebuilder:validation:Enum=keep;remove
type LimitRule string

// The rules.
const (
	KeepLimit   LimitRule = "keep"   // the limit stays
	RemoveLimit LimitRule = "remove" // the limit is removed
)

// StartupBoost contains the parameters of learnt startup boosts.
type StartupBoost struct {
	// learn enables learning: a new pod gets the CPU that the last starts of its containers needed, until it has been Ready for the learnt
	// duration. Default: false. The annotation podfit.dev/learn-startup-boost of a VPA overrides it.
	// +optional
	Learn bool `json:"learn,omitempty"`

	// maxFactor bounds the factor by which the recommended CPU request is multiplied. Default: 4. Between 1.1 and 10.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1.1 && self <= 10.0",message="must be between 1.1 and 10"
	MaxFactor *float64 `json:"maxFactor,omitempty"`

	// maxDuration bounds the time from Ready to the end of the boost. Default: 10m. Between 0s and 15m; with 0s a boost ends when the pod is
	// Ready.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('15m')",message="must be between 0s and 15m"
	MaxDuration *Duration `json:"maxDuration,omitempty"`
}

// Duration is a duration such as 90m, 12h or 1h30m.
//
// +kubebuilder:validation:MaxLength=24
// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(h|m|s))+$`
type Duration string

// Floors are the minimum recommendation for a pod. It is divided among the containers of the pod.
type Floors struct {
	// floorMillicores is the minimum CPU recommended for a pod, in millicores. It is divided among the containers of the pod.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	FloorMillicores *float64 `json:"floorMillicores,omitempty"`

	// floorMiB is the minimum memory recommended for a pod, in MiB. It is divided among the containers of the pod.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1048576
	FloorMiB *float64 `json:"floorMiB,omitempty"`
}

// Histogram contains the parameters of profiles with the base default.
//
// +kubebuilder:validation:XValidation:rule="!has(self.cpuLowerPercentile) || !has(self.cpuPercentile) || self.cpuLowerPercentile <= self.cpuPercentile",message="cpuLowerPercentile must be at most cpuPercentile"
// +kubebuilder:validation:XValidation:rule="!has(self.cpuUpperPercentile) || !has(self.cpuPercentile) || self.cpuUpperPercentile >= self.cpuPercentile",message="cpuUpperPercentile must be at least cpuPercentile"
// +kubebuilder:validation:XValidation:rule="!has(self.cpuLowerPercentile) || !has(self.cpuUpperPercentile) || self.cpuLowerPercentile <= self.cpuUpperPercentile",message="cpuLowerPercentile must be at most cpuUpperPercentile"
// +kubebuilder:validation:XValidation:rule="!has(self.memoryLowerPercentile) || !has(self.memoryPercentile) || self.memoryLowerPercentile <= self.memoryPercentile",message="memoryLowerPercentile must be at most memoryPercentile"
// +kubebuilder:validation:XValidation:rule="!has(self.memoryUpperPercentile) || !has(self.memoryPercentile) || self.memoryUpperPercentile >= self.memoryPercentile",message="memoryUpperPercentile must be at least memoryPercentile"
// +kubebuilder:validation:XValidation:rule="!has(self.memoryLowerPercentile) || !has(self.memoryUpperPercentile) || self.memoryLowerPercentile <= self.memoryUpperPercentile",message="memoryLowerPercentile must be at most memoryUpperPercentile"
type Histogram struct {
	// margin is the fraction of usage that is added as a safety margin: 0.15 adds 15 %. Between 0 and 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Margin *float64 `json:"margin,omitempty"`

	// weight is the weight of a CPU sample: constant, or request, which weights each sample by the CPU request of the container
	// at that time.
	// +optional
	// +kubebuilder:validation:Enum=constant;request
	Weight string `json:"weight,omitempty"`

	// cpuPercentile is the quantile of CPU usage for the target. Between 0.01 and 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.01 && self <= 1.0",message="must be between 0.01 and 1"
	CPUPercentile *float64 `json:"cpuPercentile,omitempty"`

	// cpuLowerPercentile is the quantile of CPU usage for the lower bound. Between 0.01 and 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.01 && self <= 1.0",message="must be between 0.01 and 1"
	CPULowerPercentile *float64 `json:"cpuLowerPercentile,omitempty"`

	// cpuUpperPercentile is the quantile of CPU usage for the upper bound. Between 0.01 and 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.01 && self <= 1.0",message="must be between 0.01 and 1"
	CPUUpperPercentile *float64 `json:"cpuUpperPercentile,omitempty"`

	// memoryPercentile is the quantile of memory peaks for the target. Between 0.01 and 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.01 && self <= 1.0",message="must be between 0.01 and 1"
	MemoryPercentile *float64 `json:"memoryPercentile,omitempty"`

	// memoryLowerPercentile is the quantile of memory peaks for the lower bound. Between 0.01 and 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.01 && self <= 1.0",message="must be between 0.01 and 1"
	MemoryLowerPercentile *float64 `json:"memoryLowerPercentile,omitempty"`

	// memoryUpperPercentile is the quantile of memory peaks for the upper bound. Between 0.01 and 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.01 && self <= 1.0",message="must be between 0.01 and 1"
	MemoryUpperPercentile *float64 `json:"memoryUpperPercentile,omitempty"`

	Floors `json:",inline"`
}

// Memory contains the parameters for memory of profiles with the base balanced, cost, critical or busy-hours.
//
// +kubebuilder:validation:XValidation:rule="!has(self.days) || !has(self.longDays) || self.longDays >= self.days",message="longDays must be at least days"
type Memory struct {
	// oomBudget is the maximum fraction of days with memory usage above the request that the profile aims for: 0.03 is 3 % of
	// days. Between 0.001 and 0.5.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.001 && self <= 0.5",message="must be between 0.001 and 0.5"
	OOMBudget *float64 `json:"oomBudget,omitempty"`

	// margin is the initial safety margin, as a difference of logarithms: 0.1 is about 10 %. It is calibrated per container. If
	// unset, it is derived from oomBudget. Between -0.5 and 3.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= -0.5 && self <= 3.0",message="must be between -0.5 and 3"
	Margin *float64 `json:"margin,omitempty"`

	// days is the look-back window for the highest peaks, in days. Between 1 and 14.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=14
	Days *int32 `json:"days,omitempty"`

	// longDays is the look-back window for the second highest peak, in days. Between 1 and 14, and at least days.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=14
	LongDays *int32 `json:"longDays,omitempty"`

	// choose enables the choice of the look-back window per container: a longer or shorter window is used if its past cost is
	// lower. If false, every container uses the configured window.
	// +optional
	Choose *bool `json:"choose,omitempty"`

	// lowHours enables a lower request for the hours of the day in which usage is usually low, if that saves enough. If false,
	// the request is the same for the whole day.
	// +optional
	LowHours *bool `json:"lowHours,omitempty"`

	// growBy is the minimum relative difference at which the request is raised. Between 0.06 and 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.06 && self <= 1.0",message="must be between 0.06 and 1"
	GrowBy *float64 `json:"growBy,omitempty"`

	// shrinkBy is the minimum relative difference at which the request is lowered. Between 0.08 and 0.95.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.08 && self <= 0.95",message="must be between 0.08 and 0.95"
	ShrinkBy *float64 `json:"shrinkBy,omitempty"`

	// shrinkAfter is the minimum time after a change before the request is lowered. Between 0s and 720h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('720h')",message="must be between 0s and 720h"
	ShrinkAfter *Duration `json:"shrinkAfter,omitempty"`

	// leakBound limits the memory request of a container whose memory grows steadily, to leakBound times its request at the time
	// at which the growth was first detected. If unset, the request follows the growth, and the growth is only reported in the
	// condition MemoryLeakSuspected. Between 1.1 and 100.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1.1 && self <= 100.0",message="must be between 1.1 and 100"
	LeakBound *float64 `json:"leakBound,omitempty"`

	// floorMiB is the minimum memory recommended for a pod, in MiB. It is divided among the containers of the pod.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1048576
	FloorMiB *float64 `json:"floorMiB,omitempty"`
}

// CPU contains the parameters for CPU of profiles with the base balanced, cost or critical.
type CPU struct {
	// window is the look-back window for the peak of CPU usage. Between 1h and 72h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('72h')",message="must be between 1h and 72h"
	Window *Duration `json:"window,omitempty"`

	// choose enables the choice of the look-back window per container: a longer or shorter window is used if its past cost is
	// lower. If false, every container uses the configured window.
	// +optional
	Choose *bool `json:"choose,omitempty"`

	// shortfall is the maximum fraction of CPU usage above the request that the profile aims for: 0.001 is 0.1 % of the used
	// core-seconds. Between 0.0001 and 0.5.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.0001 && self <= 0.5",message="must be between 0.0001 and 0.5"
	Shortfall *float64 `json:"shortfall,omitempty"`

	// factor is the initial factor by which the peak is multiplied. It is calibrated per container. If unset, it is derived from
	// shortfall. Between 0.1 and 10.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.1 && self <= 10.0",message="must be between 0.1 and 10"
	Factor *float64 `json:"factor,omitempty"`

	// addMillicores is a constant that is added to the peak, in millicores. Between 0 and 1000000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	AddMillicores *float64 `json:"addMillicores,omitempty"`

	// lowHours enables a lower request for the hours of the day in which usage is usually low, if that saves enough. If false,
	// the request is the same for the whole day.
	// +optional
	LowHours *bool `json:"lowHours,omitempty"`

	// growBy is the minimum relative difference at which the request is raised. Between 0 and 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	GrowBy *float64 `json:"growBy,omitempty"`

	// shrinkBy is the minimum relative difference at which the request is lowered. Between 0.08 and 0.95.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.08 && self <= 0.95",message="must be between 0.08 and 0.95"
	ShrinkBy *float64 `json:"shrinkBy,omitempty"`

	// shrinkAfter is the minimum time after a change before the request is lowered. Between 0s and 720h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('720h')",message="must be between 0s and 720h"
	ShrinkAfter *Duration `json:"shrinkAfter,omitempty"`

	// floorMillicores is the minimum CPU recommended for a pod, in millicores. It is divided among the containers of the pod.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	FloorMillicores *float64 `json:"floorMillicores,omitempty"`
}

// BusyHours contains the parameters for CPU of profiles with the base busy-hours.
//
// +kubebuilder:validation:XValidation:rule="has(self.from) == has(self.to)",message="from and to must be set together"
// +kubebuilder:validation:XValidation:rule="!has(self.from) || !has(self.to) || self.from != self.to",message="from and to must differ; the whole day is from 0 to 24"
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || has(self.from)",message="timeZone can only be set together with from and to"
// +kubebuilder:validation:XValidation:rule="!has(self.utcOffset) || has(self.from)",message="utcOffset can only be set together with from and to"
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || !has(self.utcOffset)",message="timeZone and utcOffset cannot both be set; timeZone follows daylight saving time"
type BusyHours struct {
	// from is the first busy hour (0–23). If from and to are unset, busy hours are detected from history.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=23
	From *int32 `json:"from,omitempty"`

	// to is the hour at which the busy hours end (0–24). If it is less than from, the busy hours end on the next day.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=24
	To *int32 `json:"to,omitempty"`

	// timeZone is the time zone of from and to: a name of the IANA time zone database such as Europe/Berlin. If timeZone and
	// utcOffset are unset, from and to are in UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`
	TimeZone string `json:"timeZone,omitempty"`

	// utcOffset is the offset of from and to from UTC, in hours (-12 to 14). It does not follow daylight saving time; timeZone
	// does.
	// +optional
	// +kubebuilder:validation:Minimum=-12
	// +kubebuilder:validation:Maximum=14
	UTCOffset *int32 `json:"utcOffset,omitempty"`

	// percentile is the quantile of CPU usage within the busy hours. Between 0.5 and 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.5 && self <= 1.0",message="must be between 0.5 and 1"
	Percentile *float64 `json:"percentile,omitempty"`

	// criticality is the factor by which that quantile is multiplied, unless the pods have another one by the label
	// podfit.dev/criticality or by priorityClasses. Between 1 and 3. Default: 1.3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3
	Criticality *float64 `json:"criticality,omitempty"`

	// priorityClasses are the criticality of pods with these PriorityClasses. The label podfit.dev/criticality of a pod overrides it.
	// At most 32.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	PriorityClasses []PriorityClassCriticality `json:"priorityClasses,omitempty"`

	// startup is the time after the start of a container in which CPU samples are left out of the percentile. Default: 5m. Between 0s
	// and 1h. With 0s, all samples count.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1h')",message="must be between 0s and 1h"
	Startup *Duration `json:"startup,omitempty"`

	// mostMillicores is the maximum CPU recommended for a container, in millicores.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MostMillicores *float64 `json:"mostMillicores,omitempty"`

	// mostOfNode is the maximum CPU recommended for all containers of a pod together, as a fraction of the CPU of the smallest node on
	// which the pods can run. If they need more, all are lowered in proportion. Between 0.05 and 1. Default: 0.25.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.05 && self <= 1.0",message="must be between 0.05 and 1"
	MostOfNode *float64 `json:"mostOfNode,omitempty"`

	// mostOfNodeBase is the CPU of the node that mostOfNode is a fraction of: Allocatable, which pods can request, or Capacity, which
	// includes what is reserved for the system. Default: Allocatable.
	// +optional
	MostOfNodeBase NodeBase `json:"mostOfNodeBase,omitempty"`

	// floorMillicores is the minimum CPU recommended for a pod, in millicores. It is divided among the containers of the pod.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	FloorMillicores *float64 `json:"floorMillicores,omitempty"`
}

// PriorityClassCriticality is the criticality of pods with a PriorityClass.
type PriorityClassCriticality struct {
	// name is the name of the PriorityClass.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// criticality is the factor by which the quantile of CPU usage is multiplied. Between 1 and 3.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3
	Criticality float64 `json:"criticality"`
}

// NodeBase is the CPU of a node that a fraction is taken of.
//
// +kubebuilder:validation:Enum=Allocatable;Capacity
type NodeBase string

// The bases of fractions of a node.
const (
	NodeAllocatable NodeBase = "Allocatable"
	NodeCapacity    NodeBase = "Capacity"
)

// Ensemble contains the parameters of profiles with the base autopilot.
type Ensemble struct {
	// cpu contains the cost weights for CPU.
	// +optional
	CPU *Weights `json:"cpu,omitempty"`

	// memory contains the cost weights for memory.
	// +optional
	Memory *Weights `json:"memory,omitempty"`

	Floors `json:",inline"`
}

// Weights are the cost weights of a resource, relative to the cost of unused resources, which has the weight 1.
type Weights struct {
	// overrun is the weight of usage above the limit. Between 0.1 and 10000.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.1 && self <= 10000.0",message="must be between 0.1 and 10000"
	Overrun *float64 `json:"overrun,omitempty"`

	// change is the weight of a change of the limit. Between 0 and 100.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Change *float64 `json:"change,omitempty"`

	// switch is the weight of a change of the model. Between 0 and 100.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Switch *float64 `json:"switch,omitempty"`

	// forget is the half-life of a cost. Between 1h and 2160h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('2160h')",message="must be between 1h and 2160h"
	Forget *Duration `json:"forget,omitempty"`
}

// Packed contains the parameters of profiles with the base packed: requests for nodes of which a part stays free for peaks.
type Packed struct {
	// memoryPercentile is the quantile of the hourly peaks of memory. Default: 0.75. Between 0.5 and 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.5 && self <= 1.0",message="must be between 0.5 and 1"
	MemoryPercentile *float64 `json:"memoryPercentile,omitempty"`

	// cpuPercentile is the quantile of the hourly peaks of CPU. Default: 0.8. Between 0.5 and 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.5 && self <= 1.0",message="must be between 0.5 and 1"
	CPUPercentile *float64 `json:"cpuPercentile,omitempty"`

	// peak is the part of the distance from the quantile to the highest memory usage that is added. Default: 0.2. Between 0 and 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	Peak *float64 `json:"peak,omitempty"`

	// reserve is the part of the memory of each node that stays free for peaks. Default: 0.15. Between 0.15, because the updater makes room
	// on nodes of which less is free, and 0.5.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.15 && self <= 0.5",message="must be between 0.15 and 0.5"
	Reserve *float64 `json:"reserve,omitempty"`

	// days is how many days the quantiles, and the highest usage for peak, are of. Default: 7. Between 3 and 7.
	// +optional
	// +kubebuilder:validation:Minimum=3
	// +kubebuilder:validation:Maximum=7
	Days *int32 `json:"days,omitempty"`

	// longDays is how many days the highest usage that must fit into the free part is of. Default: 14. Between 7 and 14.
	// +optional
	// +kubebuilder:validation:Minimum=7
	// +kubebuilder:validation:Maximum=14
	LongDays *int32 `json:"longDays,omitempty"`
}
