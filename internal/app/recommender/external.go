// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/metrics"
)

// selectorLife is how long the selector of a workload is cached. Selectors hardly ever change.
const selectorLife = 10 * time.Minute

// externalUsage reads usage from the external metrics API, for the running pods of each workload that a served VPA references.
type externalUsage struct {
	read       func(ctx context.Context, pod cluster.Key, selector labels.Selector) (metrics.Reading, error)
	metrics    *Metrics
	snapshot   func() *cluster.Snapshot
	selectorOf func(context.Context, cluster.Workload) (labels.Selector, error)
	serves     func(*cluster.Autoscaler) bool
	known      map[cluster.Workload]knownSelector
	health     *process.Health // gets a progress signal after each request, because there is one request per pod
}

type knownSelector struct {
	labels.Selector
	until time.Time
}

// Samples returns the samples of all pods that can be read. It returns an error only if there is no sample and a request
// failed.
func (e *externalUsage) Samples(ctx context.Context) ([]usage.Sample, error) {
	var samples []usage.Sample
	var errs []error
	snapshot := e.snapshot()
	now := time.Now()
	done := map[cluster.Workload]bool{}
	for _, a := range snapshot.Autoscalers {
		if a.Target.IsZero() || done[a.Target] || !e.serves(a) {
			continue
		}
		done[a.Target] = true
		selector, err := e.selector(ctx, a.Target, now)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, p := range snapshot.PodsOf(a.Target) {
			if p.Phase != cluster.Running {
				continue
			}
			podSamples, err := e.podSamples(ctx, p.Key, selector)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			samples = append(samples, podSamples...)
		}
	}
	maps.DeleteFunc(e.known, func(w cluster.Workload, _ knownSelector) bool { return !done[w] })
	if len(samples) == 0 && len(errs) > 0 {
		return nil, fmt.Errorf("read external metrics: %d requests failed, the first with: %w", len(errs), errs[0])
	}
	return samples, nil
}

// podSamples reads the usage of one pod within requestTimeout.
func (e *externalUsage) podSamples(ctx context.Context, pod cluster.Key, selector labels.Selector) ([]usage.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	defer func() { e.health.Active(time.Now()) }()
	return e.metrics.counted(e.read(ctx, pod, selector))
}

// selector returns the pod selector of a workload, from the cache while that is valid.
func (e *externalUsage) selector(ctx context.Context, w cluster.Workload, now time.Time) (labels.Selector, error) {
	if k, ok := e.known[w]; ok && now.Before(k.until) {
		return k.Selector, nil
	}
	s, err := e.selectorOf(ctx, w)
	if err != nil {
		return nil, err
	}
	e.known[w] = knownSelector{s, now.Add(selectorLife)}
	return s, nil
}

// meteredClient reads usage from the Metrics API and counts the requests.
type meteredClient struct {
	client  *metrics.Client
	metrics *Metrics
}

// Samples returns the current usage of each container.
func (c *meteredClient) Samples(ctx context.Context) ([]usage.Sample, error) {
	return c.metrics.counted(c.client.Read(ctx))
}
