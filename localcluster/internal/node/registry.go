// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	_ "unsafe" // for go:linkname

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	_ "k8s.io/component-base/metrics/legacyregistry" // declares the variable that is linked below
)

// Each kubelet registers its collectors in the process-wide registries, where those of a second kubelet would cause a panic.
// The registries below ignore duplicates. This affects only metrics of the kubelet itself, which nothing reads here: the
// metrics of pods are in registries that each kubelet creates.

//go:linkname legacyRegistry k8s.io/component-base/metrics/legacyregistry.defaultRegistry
var legacyRegistry metrics.KubeRegistry

type lenientRegistry struct{ metrics.KubeRegistry }

func (r lenientRegistry) CustomMustRegister(collectors ...metrics.StableCollector) {
	for _, c := range collectors {
		_ = r.CustomRegister(c)
	}
}

type lenientRegisterer struct{ prometheus.Registerer }

func (r lenientRegisterer) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		_ = r.Register(c)
	}
}

func allowManyKubelets() {
	legacyRegistry = lenientRegistry{legacyRegistry}
	prometheus.DefaultRegisterer = lenientRegisterer{prometheus.DefaultRegisterer}
}
