// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import "podfit.dev/podfit/internal/core/cluster"

// AnnotationFreeze is the annotation of an autoscaler or a namespace that stops changes of running pods.
const AnnotationFreeze = "podfit.dev/freeze"

// Rules are all rules that apply to an autoscaler.
type Rules struct {
	Autoscaler *cluster.Autoscaler
	Namespace  cluster.ChangeRules // from the annotations of the autoscaler's namespace
	Cluster    cluster.Freeze
}

// Frozen returns which switch stops changes of the pods of an autoscaler, and false if none does. The switch with the widest effect is
// named first, because removing another one has no effect.
func Frozen(r Rules) (by string, frozen bool) {
	switch {
	case r.Cluster.On && r.Cluster.Reason != "":
		return "ConfigMap " + r.Cluster.By.String() + " (" + r.Cluster.Reason + ")", true
	case r.Cluster.On:
		return "ConfigMap " + r.Cluster.By.String(), true
	case r.Namespace.Frozen:
		return "annotation " + AnnotationFreeze + " of namespace " + r.Autoscaler.Namespace, true
	case r.Autoscaler.Rules.Frozen:
		return "annotation " + AnnotationFreeze + " of VPA " + r.Autoscaler.Key.String(), true
	}
	return "", false
}
