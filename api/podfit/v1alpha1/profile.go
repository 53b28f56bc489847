// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SizingProfile is a way to size containers, under the name by which a VerticalPodAutoscaler asks for it
// (spec.recommenders[0].name). It is a profile that podfit has built in, its base, with some of its parameters changed.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,shortName=szp,categories=podfit
// +kubebuilder:printcolumn:name="Base",type="string",JSONPath=".spec.base"
// +kubebuilder:printcolumn:name="About",type="string",JSONPath=".spec.about"
// +kubebuilder:printcolumn:name="OOM Budget",type="number",JSONPath=".spec.memory.oomBudget"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:validation:XValidation:rule="!(self.metadata.name in ['default', 'balanced', 'cost', 'critical', 'busy-hours', 'autopilot'])",message="metadata.name is that of a built-in profile, which cannot be replaced: choose another name, and name the built-in one in spec.base"
type SizingProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how containers are sized.
	Spec SizingProfileSpec `json:"spec"`
}

// SizingProfileList is a list of profiles.
//
// +kubebuilder:object:root=true
type SizingProfileList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata"`

	Items []SizingProfile `json:"items"`
}

// SizingProfileSpec says how containers are sized. What is not given is as in the base.
//
// +kubebuilder:validation:XValidation:rule="!has(self.histogram) || self.base == 'default'",message="histogram has no meaning for this base; it belongs to the base default"
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || self.base in ['balanced', 'cost', 'critical', 'busy-hours']",message="memory has no meaning for this base; it belongs to the bases balanced, cost, critical and busy-hours"
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || self.base in ['balanced', 'cost', 'critical']",message="cpu has no meaning for this base; it belongs to the bases balanced, cost and critical"
// +kubebuilder:validation:XValidation:rule="!has(self.busyHours) || self.base == 'busy-hours'",message="busyHours has no meaning for this base; it belongs to the base busy-hours"
// +kubebuilder:validation:XValidation:rule="!has(self.ensemble) || self.base == 'autopilot'",message="ensemble has no meaning for this base; it belongs to the base autopilot"
type SizingProfileSpec struct {
	// base is the built-in profile that this one changes.
	// +optional
	// +kubebuilder:default=balanced
	Base Base `json:"base,omitempty"`

	// about says in one line what the profile is for.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	About string `json:"about,omitempty"`

	// histogram changes the base default: percentiles of a decaying histogram.
	// +optional
	Histogram *Histogram `json:"histogram,omitempty"`

	// memory changes how balanced, cost, critical and busy-hours size memory.
	// +optional
	Memory *Memory `json:"memory,omitempty"`

	// cpu changes how balanced, cost and critical size CPU.
	// +optional
	CPU *CPU `json:"cpu,omitempty"`

	// busyHours changes how busy-hours sizes CPU.
	// +optional
	BusyHours *BusyHours `json:"busyHours,omitempty"`

	// ensemble changes the base autopilot: the choice among models by cost.
	// +optional
	Ensemble *Ensemble `json:"ensemble,omitempty"`
}

// Base names a built-in profile.
//
// +kubebuilder:validation:Enum=default;balanced;cost;critical;busy-hours;autopilot
type Base string

// Duration is a length of time such as 90m, 12h or 1h30m.
//
// +kubebuilder:validation:MaxLength=24
// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(h|m|s))+$`
type Duration string

// Floors are what is recommended at least, of a pod: its containers share it.
type Floors struct {
	// floorMillicores is the least CPU of a pod, in thousandths of a core.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	FloorMillicores *float64 `json:"floorMillicores,omitempty"`

	// floorMiB is the least memory of a pod.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1048576
	FloorMiB *float64 `json:"floorMiB,omitempty"`
}

// Histogram are the parameters of profiles based on default.
//
// +kubebuilder:validation:XValidation:rule="!has(self.cpuLowerPercentile) || !has(self.cpuPercentile) || self.cpuLowerPercentile <= self.cpuPercentile",message="cpuLowerPercentile must not be above cpuPercentile"
// +kubebuilder:validation:XValidation:rule="!has(self.cpuUpperPercentile) || !has(self.cpuPercentile) || self.cpuUpperPercentile >= self.cpuPercentile",message="cpuUpperPercentile must not be below cpuPercentile"
// +kubebuilder:validation:XValidation:rule="!has(self.cpuLowerPercentile) || !has(self.cpuUpperPercentile) || self.cpuLowerPercentile <= self.cpuUpperPercentile",message="cpuLowerPercentile must not be above cpuUpperPercentile"
// +kubebuilder:validation:XValidation:rule="!has(self.memoryLowerPercentile) || !has(self.memoryPercentile) || self.memoryLowerPercentile <= self.memoryPercentile",message="memoryLowerPercentile must not be above memoryPercentile"
// +kubebuilder:validation:XValidation:rule="!has(self.memoryUpperPercentile) || !has(self.memoryPercentile) || self.memoryUpperPercentile >= self.memoryPercentile",message="memoryUpperPercentile must not be below memoryPercentile"
// +kubebuilder:validation:XValidation:rule="!has(self.memoryLowerPercentile) || !has(self.memoryUpperPercentile) || self.memoryLowerPercentile <= self.memoryUpperPercentile",message="memoryLowerPercentile must not be above memoryUpperPercentile"
type Histogram struct {
	// margin is added on top of usage: 0.15 is 15 %.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Margin *float64 `json:"margin,omitempty"`

	// weight says how much a sample of CPU weighs: all the same (constant), or as much as the container requested when it was
	// taken (request).
	// +optional
	// +kubebuilder:validation:Enum=constant;request
	Weight string `json:"weight,omitempty"`

	// cpuPercentile is the percentile of CPU usage, as a share, that becomes the target.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.01 && self <= 1.0",message="must be between 0.01 and 1"
	CPUPercentile *float64 `json:"cpuPercentile,omitempty"`

	// cpuLowerPercentile becomes the lower bound.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.01 && self <= 1.0",message="must be between 0.01 and 1"
	CPULowerPercentile *float64 `json:"cpuLowerPercentile,omitempty"`

	// cpuUpperPercentile becomes the upper bound.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.01 && self <= 1.0",message="must be between 0.01 and 1"
	CPUUpperPercentile *float64 `json:"cpuUpperPercentile,omitempty"`

	// memoryPercentile is the percentile of the peaks of memory, as a share, that becomes the target.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.01 && self <= 1.0",message="must be between 0.01 and 1"
	MemoryPercentile *float64 `json:"memoryPercentile,omitempty"`

	// memoryLowerPercentile becomes the lower bound.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.01 && self <= 1.0",message="must be between 0.01 and 1"
	MemoryLowerPercentile *float64 `json:"memoryLowerPercentile,omitempty"`

	// memoryUpperPercentile becomes the upper bound.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.01 && self <= 1.0",message="must be between 0.01 and 1"
	MemoryUpperPercentile *float64 `json:"memoryUpperPercentile,omitempty"`

	Floors `json:",inline"`
}

// Memory are the parameters of balanced, cost, critical and busy-hours for memory.
//
// +kubebuilder:validation:XValidation:rule="!has(self.days) || !has(self.longDays) || self.longDays >= self.days",message="longDays must not be less than days"
type Memory struct {
	// oomBudget is the promise: the share of days that may see memory above the request.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.001 && self <= 0.5",message="must be between 0.001 and 0.5"
	OOMBudget *float64 `json:"oomBudget,omitempty"`

	// margin is what calibration starts from, instead of the margin that suits the budget; a difference of logarithms, 0.1 is
	// about 10 %.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= -0.5 && self <= 3.0",message="must be between -0.5 and 3"
	Margin *float64 `json:"margin,omitempty"`

	// days are looked back on for the highest peaks.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=14
	Days *int32 `json:"days,omitempty"`

	// longDays are looked back on for the second highest peak.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=14
	LongDays *int32 `json:"longDays,omitempty"`

	// choose says whether a container may be looked back on for longer or shorter, where that has been cheaper for it.
	// +optional
	Choose *bool `json:"choose,omitempty"`

	// lowHours says whether a day may have two levels, where history says that it pays.
	// +optional
	LowHours *bool `json:"lowHours,omitempty"`

	// growBy is the least relative difference that raises the request.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.06 && self <= 1.0",message="must be between 0.06 and 1"
	GrowBy *float64 `json:"growBy,omitempty"`

	// shrinkBy is the least relative difference that lowers the request.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.08 && self <= 0.95",message="must be between 0.08 and 0.95"
	ShrinkBy *float64 `json:"shrinkBy,omitempty"`

	// shrinkAfter is how long after a change the request is not lowered.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('720h')",message="must be between 0s and 720h"
	ShrinkAfter *Duration `json:"shrinkAfter,omitempty"`

	// leakBound bounds the request of a container whose memory grows steadily: leakBound times what it was given when the growth was
	// first detected. If leakBound is unset, growth is followed and only reported (condition MemoryLeakSuspected).
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1.1 && self <= 100.0",message="must be between 1.1 and 100"
	LeakBound *float64 `json:"leakBound,omitempty"`

	// floorMiB is the least memory of a pod.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1048576
	FloorMiB *float64 `json:"floorMiB,omitempty"`
}

// CPU are the parameters of balanced, cost and critical for CPU.
type CPU struct {
	// window is looked back on for the peak.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('72h')",message="must be between 1h and 72h"
	Window *Duration `json:"window,omitempty"`

	// choose says whether a container may be looked back on for longer or shorter, where that has been cheaper for it.
	// +optional
	Choose *bool `json:"choose,omitempty"`

	// shortfall is the risk: the share of the core-seconds used that may lie above the request.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.0001 && self <= 0.5",message="must be between 0.0001 and 0.5"
	Shortfall *float64 `json:"shortfall,omitempty"`

	// factor multiplies the peak.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.1 && self <= 10.0",message="must be between 0.1 and 10"
	Factor *float64 `json:"factor,omitempty"`

	// addMillicores is added to it, in thousandths of a core.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	AddMillicores *float64 `json:"addMillicores,omitempty"`

	// lowHours says whether a day may have two levels, where history says that it pays.
	// +optional
	LowHours *bool `json:"lowHours,omitempty"`

	// growBy is the least relative difference that raises the request.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	GrowBy *float64 `json:"growBy,omitempty"`

	// shrinkBy is the least relative difference that lowers the request.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.08 && self <= 0.95",message="must be between 0.08 and 0.95"
	ShrinkBy *float64 `json:"shrinkBy,omitempty"`

	// shrinkAfter is how long after a change the request is not lowered.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('720h')",message="must be between 0s and 720h"
	ShrinkAfter *Duration `json:"shrinkAfter,omitempty"`

	// floorMillicores is the least CPU of a pod, in thousandths of a core.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	FloorMillicores *float64 `json:"floorMillicores,omitempty"`
}

// BusyHours are the parameters of busy-hours for CPU.
//
// +kubebuilder:validation:XValidation:rule="has(self.from) == has(self.to)",message="from and to go together"
// +kubebuilder:validation:XValidation:rule="!has(self.from) || !has(self.to) || self.from != self.to",message="from and to are the same, which is no hour; the whole day is from 0 to 24"
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || has(self.from)",message="timeZone has no meaning without from and to"
// +kubebuilder:validation:XValidation:rule="!has(self.utcOffset) || has(self.from)",message="utcOffset has no meaning without from and to"
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || !has(self.utcOffset)",message="timeZone and utcOffset do not go together; timeZone knows daylight saving"
type BusyHours struct {
	// from is when the busy hours begin, o'clock. Without from and to they are found.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=23
	From *int32 `json:"from,omitempty"`

	// to is when they end, o'clock; before from, it is of the next day.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=24
	To *int32 `json:"to,omitempty"`

	// timeZone is where from and to are read off the clock: a name of the IANA database such as Europe/Berlin. Without it and
	// utcOffset they are UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`
	TimeZone string `json:"timeZone,omitempty"`

	// utcOffset is how many hours the clock of from and to is ahead of UTC, all the year. timeZone is better: it knows daylight
	// saving.
	// +optional
	// +kubebuilder:validation:Minimum=-12
	// +kubebuilder:validation:Maximum=14
	UTCOffset *int32 `json:"utcOffset,omitempty"`

	// percentile is that of CPU within the busy hours, as a share.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.5 && self <= 1.0",message="must be between 0.5 and 1"
	Percentile *float64 `json:"percentile,omitempty"`

	// criticality multiplies it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3
	Criticality *float64 `json:"criticality,omitempty"`

	// mostMillicores is the most CPU that a container is recommended, in thousandths of a core.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MostMillicores *float64 `json:"mostMillicores,omitempty"`

	// mostOfNode is the most CPU that a container is recommended, as a share of the smallest node its pods may run on.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.05 && self <= 1.0",message="must be between 0.05 and 1"
	MostOfNode *float64 `json:"mostOfNode,omitempty"`

	// floorMillicores is the least CPU of a pod, in thousandths of a core.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	FloorMillicores *float64 `json:"floorMillicores,omitempty"`
}

// Ensemble are the parameters of profiles based on autopilot.
type Ensemble struct {
	// cpu are the weights of CPU.
	// +optional
	CPU *Weights `json:"cpu,omitempty"`

	// memory are the weights of memory.
	// +optional
	Memory *Weights `json:"memory,omitempty"`

	Floors `json:",inline"`
}

// Weights say what the costs of a resource weigh, where a unit of unused resource weighs 1.
type Weights struct {
	// overrun is the weight of usage above the limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.1 && self <= 10000.0",message="must be between 0.1 and 10000"
	Overrun *float64 `json:"overrun,omitempty"`

	// change is the weight of a change of the limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Change *float64 `json:"change,omitempty"`

	// switch is the weight of a change of the model.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Switch *float64 `json:"switch,omitempty"`

	// forget is the age at which a cost weighs half.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('2160h')",message="must be between 1h and 2160h"
	Forget *Duration `json:"forget,omitempty"`
}
