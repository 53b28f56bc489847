// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	v1 "podfit.dev/podfit/api/v1"
)

// Gates are the feature gates that VPAs need for certain fields.
type Gates struct {
	InPlace         bool // update mode InPlace
	CPUStartupBoost bool // startupBoost in the spec and in container policies
	PerVPAConfig    bool // recommender settings per VPA
}

var (
	updateModes = []string{ // without Auto, which is accepted but deprecated
		string(v1.UpdateModeInPlace), string(v1.UpdateModeInPlaceOrRecreate), string(v1.UpdateModeInitial),
		string(v1.UpdateModeOff), string(v1.UpdateModeRecreate),
	}
	scalingModes = []string{string(v1.ContainerScalingModeAuto), string(v1.ContainerScalingModeOff)}
	boostTypes   = []string{string(v1.FactorStartupBoostType), string(v1.QuantityStartupBoostType)}
	sizedNames   = []string{string(corev1.ResourceCPU), string(corev1.ResourceMemory)}
)

// A validation collects the errors and warnings of one spec. The messages are the same as upstream's.
type validation struct {
	create   bool
	gates    Gates                        // enabled by configuration, or because the old object uses the feature
	existing map[corev1.ResourceName]bool // controlled resources of the old object, which stay valid

	errs     field.ErrorList
	warnings []string
}

// validate returns the warnings and errors of a VPA. old is nil on creation.
func validate(a, old *autoscalerReview, gates Gates) (warnings []string, errs field.ErrorList) {
	v := validation{create: old == nil, gates: gates}
	if old != nil {
		v.inherit(&old.Spec)
	}
	v.spec(&a.Spec, field.NewPath("spec"))
	return v.warnings, v.errs
}

// inherit enables what the old object already uses, so that an update is not rejected because of it.
func (v *validation) inherit(old *v1.VerticalPodAutoscalerSpec) {
	v.existing = map[corev1.ResourceName]bool{}
	if p := old.UpdatePolicy; p != nil {
		v.gates.InPlace = v.gates.InPlace || p.UpdateMode != nil && *p.UpdateMode == v1.UpdateModeInPlace
		v.gates.PerVPAConfig = v.gates.PerVPAConfig || p.EvictAfterOOMSeconds != nil
	}
	v.gates.CPUStartupBoost = v.gates.CPUStartupBoost || old.StartupBoost != nil && old.StartupBoost.CPU != nil
	if old.ResourcePolicy == nil {
		return
	}
	for i := range old.ResourcePolicy.ContainerPolicies {
		c := &old.ResourcePolicy.ContainerPolicies[i]
		v.gates.PerVPAConfig = v.gates.PerVPAConfig || c.OOMBumpUpRatio != nil || c.OOMMinBumpUp != nil ||
			c.MemoryAggregationIntervalSeconds != nil || c.MemoryAggregationIntervalCount != nil
		v.gates.CPUStartupBoost = v.gates.CPUStartupBoost || c.StartupBoost != nil
		for _, r := range ptr.Deref(c.ControlledResources, nil) {
			v.existing[r] = true
		}
	}
}

// maxFindings is the maximum number of errors and of warnings in an answer.
const maxFindings = 100

func (v *validation) add(err *field.Error) {
	if len(v.errs) < maxFindings {
		v.errs = append(v.errs, err)
	}
}

func (v *validation) warn(format string, args ...any) {
	if len(v.warnings) >= maxFindings {
		return
	}
	v.warnings = append(v.warnings, fmt.Sprintf(format, args...))
}

func (v *validation) spec(s *v1.VerticalPodAutoscalerSpec, at *field.Path) {
	if s.TargetRef == nil && v.create {
		v.add(field.Required(at.Child("targetRef"), "If you're using v1beta1 version of the API, please migrate to v1"))
	}
	if s.UpdatePolicy != nil {
		v.updatePolicy(s.UpdatePolicy, at.Child("updatePolicy"))
	}
	if s.ResourcePolicy != nil {
		for i := range s.ResourcePolicy.ContainerPolicies {
			v.containerPolicy(&s.ResourcePolicy.ContainerPolicies[i], at.Child("resourcePolicy", "containerPolicies").Index(i))
		}
	}
	if s.StartupBoost != nil {
		v.boost(s.StartupBoost, at.Child("startupBoost"))
	}
	if n := len(s.Recommenders); n > 1 {
		v.add(field.TooMany(at.Child("recommenders"), n, 1))
	}
}

func (v *validation) updatePolicy(p *v1.PodUpdatePolicy, at *field.Path) {
	v.updateMode(p.UpdateMode, at)
	if n := p.MinReplicas; n != nil && *n <= 0 {
		v.add(field.Invalid(at.Child("minReplicas"), *n, "minReplicas has to be positive"))
	}
	if s := p.EvictAfterOOMSeconds; s != nil && v.perVPA(at.Child("evictAfterOOMSeconds")) {
		atLeastOne(v, *s, at.Child("evictAfterOOMSeconds"))
	}
}

func (v *validation) updateMode(mode *v1.UpdateMode, at *field.Path) {
	switch {
	case mode == nil:
		v.add(field.Required(at.Child("updateMode"), "updateMode is required if UpdatePolicy is used"))
	case *mode == v1.UpdateModeAuto:
		v.warn("%s: %q mode is deprecated and will be removed in a future API version. Use explicit update modes like: %s. "+
			"See https://github.com/kubernetes/autoscaler/issues/8424 for more details.", at, *mode, updateModes)
	case !slices.Contains(updateModes, string(*mode)):
		v.add(field.NotSupported(at.Child("updateMode"), *mode, updateModes))
	case *mode == v1.UpdateModeInPlace && !v.gates.InPlace:
		v.add(field.Forbidden(at.Child("updateMode"), fmt.Sprintf(
			"in order to use UpdateMode %s, you must enable feature gate InPlace in the admission-controller args", *mode)))
	}
}

func (v *validation) containerPolicy(c *v1.ContainerResourcePolicy, at *field.Path) {
	if c.ContainerName == "" {
		v.add(field.Required(at.Child("containerName"), ""))
	}
	if c.Mode != nil && !slices.Contains(scalingModes, string(*c.Mode)) {
		v.add(field.NotSupported(at.Child("mode"), *c.Mode, scalingModes))
	}
	v.allowed(c, at)
	if ptr.Deref(c.Mode, "") == v1.ContainerScalingModeOff && ptr.Deref(c.ControlledValues, "") == v1.ContainerControlledValuesRequestsAndLimits {
		v.add(field.Forbidden(at.Child("controlledValues"), "controlledValues shouldn't be specified if container scaling mode is off"))
	}
	v.controlled(c.ControlledResources, at.Child("controlledResources"))
	v.recommenderSettings(c, at)
	if c.StartupBoost != nil {
		v.boost(c.StartupBoost, at.Child("startupBoost"))
	}
}

// allowed validates minAllowed and maxAllowed in the order of resource names, so that the messages are deterministic.
func (v *validation) allowed(c *v1.ContainerResourcePolicy, at *field.Path) {
	for _, name := range slices.Sorted(maps.Keys(c.MinAllowed)) {
		low := c.MinAllowed[name]
		v.resolution(name, low, at.Child("minAllowed").Key(string(name)))
		if high, ok := c.MaxAllowed[name]; ok && high.Cmp(low) < 0 {
			v.add(field.Invalid(at.Child("maxAllowed").Key(string(name)), high.String(),
				fmt.Sprintf("max resource for %v is lower than min of %q", name, low.String())))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.MaxAllowed)) {
		v.resolution(name, c.MaxAllowed[name], at.Child("maxAllowed").Key(string(name)))
	}
}

func (v *validation) controlled(names *[]corev1.ResourceName, at *field.Path) {
	for i, name := range ptr.Deref(names, nil) {
		switch {
		case slices.Contains(sizedNames, string(name)):
		case v.existing[name]:
			v.warn("%s: unsupported value %q is allowed only because it is present in the existing VPA object; supported values: %q, %q",
				at.Index(i), name, corev1.ResourceCPU, corev1.ResourceMemory)
		default:
			v.add(field.NotSupported(at.Index(i), name, sizedNames))
		}
	}
}

func (v *validation) recommenderSettings(c *v1.ContainerResourcePolicy, at *field.Path) {
	if p := at.Child("oomBumpUpRatio"); c.OOMBumpUpRatio != nil && v.perVPA(p) {
		if ratio := float64(c.OOMBumpUpRatio.MilliValue()) / 1000; ratio < 1 {
			v.add(field.Invalid(p, ratio, "must be greater than or equal to 1.0"))
		}
	}
	if p := at.Child("oomMinBumpUp"); c.OOMMinBumpUp != nil && v.perVPA(p) {
		if bytes := c.OOMMinBumpUp.Value(); bytes < 0 {
			v.add(field.Invalid(p, bytes, "must be greater than or equal to 0"))
		}
	}
	if p := at.Child("memoryAggregationIntervalSeconds"); c.MemoryAggregationIntervalSeconds != nil && v.perVPA(p) {
		atLeastOne(v, *c.MemoryAggregationIntervalSeconds, p)
	}
	if p := at.Child("memoryAggregationIntervalCount"); c.MemoryAggregationIntervalCount != nil && v.perVPA(p) {
		atLeastOne(v, *c.MemoryAggregationIntervalCount, p)
	}
}

// perVPA reports whether recommender settings per VPA are enabled, and adds an error if not.
func (v *validation) perVPA(at *field.Path) bool {
	if !v.gates.PerVPAConfig {
		v.add(field.Forbidden(at, "not supported when feature flag PerVPAConfig is disabled"))
	}
	return v.gates.PerVPAConfig
}

func atLeastOne[N int32 | int64](v *validation, n N, at *field.Path) {
	if n < 1 {
		v.add(field.Invalid(at, n, "must be greater than or equal to 1"))
	}
}

func (v *validation) boost(b *v1.StartupBoost, at *field.Path) {
	if !v.gates.CPUStartupBoost {
		v.add(field.Forbidden(at, "in order to use startupBoost, you must enable feature gate CPUStartupBoost in the admission-controller args"))
		return
	}
	if b.CPU == nil {
		return
	}
	at = at.Child("cpu")
	switch b.CPU.Type {
	case "":
		v.add(field.Required(at.Child("type"), fmt.Sprintf("must be either %s or %s", v1.FactorStartupBoostType, v1.QuantityStartupBoostType)))
	case v1.FactorStartupBoostType:
		if b.CPU.Factor == nil {
			v.add(field.Required(at.Child("factor"), "required when type is Factor"))
		} else if *b.CPU.Factor < 1 {
			v.add(field.Invalid(at.Child("factor"), *b.CPU.Factor, "must be >= 1 for type Factor"))
		}
	case v1.QuantityStartupBoostType:
		if b.CPU.Quantity == nil {
			v.add(field.Required(at.Child("quantity"), "required when type is Quantity"))
		} else {
			v.resolution(corev1.ResourceCPU, *b.CPU.Quantity, at.Child("quantity"))
		}
	default:
		v.add(field.NotSupported(at.Child("type"), b.CPU.Type, boostTypes))
	}
}

// resolution adds an error if an amount has a finer resolution than podfit and the kubelet support.
func (v *validation) resolution(name corev1.ResourceName, q resource.Quantity, at *field.Path) {
	switch name {
	case corev1.ResourceCPU:
		if _, exact := q.AsScale(resource.Milli); !exact {
			v.add(field.Invalid(at, q.String(), "must be a whole number of milli CPUs"))
		}
	case corev1.ResourceMemory:
		if _, exact := q.AsScale(0); !exact {
			v.add(field.Invalid(at, q.String(), "must be a whole number of bytes"))
		}
	}
}
