// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// selectorLife is how long a workload's selector is taken to be what it was: it can hardly ever change.
const selectorLife = 10 * time.Minute

// externalReader reads the usage of one pod.
type externalReader interface {
	Samples(ctx context.Context, pod cluster.Key, selector labels.Selector) ([]usage.Sample, error)
}

// externalUsage reads usage from the external metrics API, for the pods of every workload with an autoscaler.
type externalUsage struct {
	reader    externalReader
	world     interface{ Snapshot() *cluster.Snapshot }
	selectors selecting
	serves    func(*cluster.Autoscaler) bool
	known     map[cluster.Workload]knownSelector
	health    *process.Health // is told of progress: there is a request for each pod
}

type knownSelector struct {
	labels.Selector
	until time.Time
}

// Samples returns what could be read. It fails only when nothing could.
func (e *externalUsage) Samples(ctx context.Context) ([]usage.Sample, error) {
	var (
		out  []usage.Sample
		errs []error
	)
	s, now, done := e.world.Snapshot(), time.Now(), map[cluster.Workload]bool{}
	for _, a := range s.Autoscalers {
		if a.Target.IsZero() || done[a.Target] || !e.serves(a) {
			continue
		}
		done[a.Target] = true
		selector, err := e.selector(ctx, a.Target, now)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, p := range s.PodsOf(a.Target) {
			if p.Phase != cluster.Running {
				continue
			}
			samples, err := e.podSamples(ctx, p.Key, selector)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			out = append(out, samples...)
		}
	}
	maps.DeleteFunc(e.known, func(w cluster.Workload, _ knownSelector) bool { return !done[w] })
	if len(out) == 0 && len(errs) > 0 {
		return nil, fmt.Errorf("%d pods or workloads could not be read, the first: %w", len(errs), errors.Join(errs[0]))
	}
	return out, nil
}

// podSamples reads one pod, in bounded time.
func (e *externalUsage) podSamples(ctx context.Context, pod cluster.Key, selector labels.Selector) ([]usage.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	samples, err := e.reader.Samples(ctx, pod, selector)
	if e.health != nil {
		e.health.Active(time.Now())
	}
	return samples, err
}

func (e *externalUsage) selector(ctx context.Context, w cluster.Workload, now time.Time) (labels.Selector, error) {
	if k, ok := e.known[w]; ok && now.Before(k.until) {
		return k.Selector, nil
	}
	s, err := e.selectors.Selector(ctx, w)
	if err != nil {
		return nil, err
	}
	e.known[w] = knownSelector{s, now.Add(selectorLife)}
	return s, nil
}
