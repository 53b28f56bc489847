// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/metrics"
)

// meteredClient reads usage from the Metrics API and counts the requests.
type meteredClient struct {
	client  *metrics.Client
	metrics *Metrics
}

// Samples returns the current usage of each container.
func (c *meteredClient) Samples(ctx context.Context) ([]usage.Sample, error) {
	r, err := c.client.Read(ctx)
	c.metrics.countReading(r)
	return r.Samples, err
}

// meteredExternal reads usage from the external metrics API and counts the requests.
type meteredExternal struct {
	client  *metrics.External
	metrics *Metrics
}

// Samples returns the usage of the containers of one pod, whose workload has the selector.
func (e *meteredExternal) Samples(ctx context.Context, pod cluster.Key, selector labels.Selector) ([]usage.Sample, error) {
	r, err := e.client.Read(ctx, pod, selector)
	e.metrics.countReading(r)
	return r.Samples, err
}
