// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// The bounds of spec.startupBoost of a SizingProfile. The CRD has the same; a test compares them.
const (
	minBoostFactor = 1.1
	maxBoostFactor = 10
)

// learning returns whether startup boosts are learnt, from the annotations of an autoscaler. An invalid annotation has no effect.
func learning(annotations map[string]string) cluster.BoostLearning {
	text, set := annotations[v1alpha1.AnnotationLearnStartupBoost]
	if !set {
		return cluster.BoostLearning{}
	}
	out := cluster.BoostLearning{MaxPercent: cluster.DefaultBoostPercent, MaxDuration: cluster.DefaultBoostDuration, Set: true}
	switch text = strings.TrimSpace(text); text {
	case "true":
		out.On = true
	case "false":
	default:
		return cluster.BoostLearning{Problem: fmt.Sprintf("annotation %s must be true or false, got %q; it has no effect",
			v1alpha1.AnnotationLearnStartupBoost, quoted(text))}
	}
	return out
}

// learntBoost returns the learnt startup boost in a list of amounts of the status. It is zero if one of its values is not possible: the
// status can be changed by others.
func learntBoost(list corev1.ResourceList) cluster.LearntBoost {
	whole := func(name corev1.ResourceName) int64 {
		q, ok := list[name]
		if !ok {
			return 0
		}
		if q.Sign() < 0 {
			return -1
		}
		return kube.Amount(cluster.Memory, q)
	}
	starts := whole(v1alpha1.StartupBoostStarts)
	percent := whole(v1alpha1.StartupBoostPercent)
	duration := whole(v1alpha1.StartupBoostSeconds)
	for _, v := range []int64{starts, percent, duration} {
		if v < 0 || v > math.MaxInt32 {
			return cluster.LearntBoost{}
		}
	}
	out := cluster.LearntBoost{Percent: int32(percent), Starts: int32(starts), Duration: time.Duration(duration) * time.Second}
	if !out.Valid() {
		return cluster.LearntBoost{}
	}
	return out
}

// WithLearntBoost adds a learnt startup boost to a list of amounts of the status, which may be nil. Without starts it returns the list.
func WithLearntBoost(list corev1.ResourceList, b cluster.LearntBoost) corev1.ResourceList {
	if b.Starts == 0 {
		return list
	}
	list = with(list, v1alpha1.StartupBoostStarts, *resource.NewQuantity(int64(b.Starts), resource.DecimalSI))
	if b.Percent > 0 {
		list = with(list, v1alpha1.StartupBoostPercent, *resource.NewQuantity(int64(b.Percent), resource.DecimalSI))
		list = with(list, v1alpha1.StartupBoostSeconds, *resource.NewQuantity(int64(b.Duration/time.Second), resource.DecimalSI))
	}
	return list
}
