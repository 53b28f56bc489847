// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/core/runtimeguard"
	"podfit.dev/podfit/internal/edge/prom"
)

// readHeaps adds what the Prometheus of the command line or the environment has recorded about the heaps of JVMs.
func (c *Config) readHeaps(ctx context.Context, now time.Time, in *explanation.Input) {
	jvms := in.JVMs()
	if c.prometheus == nil || len(jvms) == 0 {
		return
	}
	from, err := c.prometheus.Given()
	if from == nil && err == nil {
		return
	}
	for _, name := range jvms {
		if c.Container != "" && c.Container != name {
			continue
		}
		var usage runtimeguard.HeapUsage
		if err == nil {
			usage, err = c.readHeap(ctx, now, from, in, name)
		}
		if err != nil {
			in.Miss("heaps", "The heaps of JVMs were not read ("+oneLine(err)+").")
			return
		}
		cluster.Put(&in.HeapUsage, name, usage)
	}
}

func (c *Config) readHeap(ctx context.Context, now time.Time, from *process.PrometheusEndpoint, in *explanation.Input, container string) (runtimeguard.HeapUsage, error) {
	const heapTimeout = 30 * time.Second // for the query for one container
	client, err := prom.NewWithTransport(prom.Config{
		Address: from.Address, Timeout: heapTimeout, Length: time.Hour, Resolution: time.Hour, NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container",
	}, from.Transport)
	if err != nil {
		return runtimeguard.HeapUsage{}, err
	}
	q := prom.HeapQuery{
		Namespace: in.Pods[0].Namespace, Pods: cluster.Each(in.Pods, func(p **cluster.Pod) string { return (*p).Name }), Container: container,
		Only: len(in.JVMs()) == 1, Matchers: c.prometheus.Matchers(),
	}
	return client.HeapUsage(ctx, q, now)
}
