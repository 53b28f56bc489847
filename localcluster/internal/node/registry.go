// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	_ "unsafe" // for go:linkname

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	_ "k8s.io/component-base/metrics/legacyregistry" // has the variable that is linked to below
)

// A kubelet believes that it is alone in its process, and registers collectors of its own in the process-wide
// registries; the second one would panic. The first one's stay: they serve the kubelets' own health, which nobody
// reads here. Pods' metrics come from registries that each kubelet makes for itself.

//go:linkname legacyRegistry k8s.io/component-base/metrics/legacyregistry.defaultRegistry
var legacyRegistry metrics.KubeRegistry

type forgivingRegistry struct{ metrics.KubeRegistry }

func (r forgivingRegistry) CustomMustRegister(collectors ...metrics.StableCollector) {
	for _, c := range collectors {
		_ = r.CustomRegister(c)
	}
}

type forgivingRegisterer struct{ prometheus.Registerer }

func (r forgivingRegisterer) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		_ = r.Register(c)
	}
}

func allowManyKubelets() {
	legacyRegistry = forgivingRegistry{legacyRegistry}
	prometheus.DefaultRegisterer = forgivingRegisterer{prometheus.DefaultRegisterer}
}
