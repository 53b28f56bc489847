// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overbooking

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/test/e2e/bed"
)

// A share is how often a pod was observed, and how often its usage was above its request.
type share struct{ above, all int }

func (s share) of() float64 { return float64(s.above) / float64(max(s.all, 1)) }

// An observer compares the usage of each pod with its request, several times a second, beside the test.
type observer struct {
	cluster *bed.Cluster
	end     context.CancelFunc
	done    chan struct{}

	mu     sync.Mutex
	shares map[string]share // by pod
	failed error            // the last failed reading
}

// observe starts an observer.
func observe(ctx context.Context, c *bed.Cluster) *observer {
	ctx, cancel := context.WithCancel(ctx)
	o := &observer{cluster: c, end: cancel, done: make(chan struct{}), shares: map[string]share{}}
	go func() {
		defer close(o.done)
		t := time.NewTicker(250 * time.Millisecond)
		defer t.Stop()
		for ctx.Err() == nil {
			if err := o.add(ctx); err != nil && ctx.Err() == nil {
				o.mu.Lock()
				o.failed = err
				o.mu.Unlock()
			}
			select {
			case <-ctx.Done():
			case <-t.C:
			}
		}
	}()
	return o
}

// add makes one observation of each pod.
func (o *observer) add(ctx context.Context) error {
	pods, err := o.cluster.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	usage, err := o.cluster.Usage(ctx)
	if err != nil {
		return err
	}
	used := map[string]float64{}
	for _, u := range usage {
		if u.Namespace == namespace && u.State == "running" {
			used[u.Pod] += u.CPU
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range pods.Items {
		p := &pods.Items[i]
		cores, runs := used[p.Name]
		if !runs || p.DeletionTimestamp != nil {
			continue
		}
		s := o.shares[p.Name]
		s.all++
		if cores > 1.001*cpuRequest(p) { // rounding of the simulation
			s.above++
		}
		o.shares[p.Name] = s
	}
	return nil
}

// most returns the largest number of observations of a pod.
func (o *observer) most() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.shares {
		n = max(n, s.all)
	}
	return n
}

// stop ends the observer, and returns the shares by pod and the last failed reading.
func (o *observer) stop() (map[string]share, error) {
	o.end()
	<-o.done
	return maps.Clone(o.shares), o.failed
}

// cpuRequest returns the request of a pod that the kubelet has applied, in cores.
func cpuRequest(p *corev1.Pod) float64 {
	for i := range p.Status.ContainerStatuses {
		if r := p.Status.ContainerStatuses[i].Resources; r != nil {
			return r.Requests.Cpu().AsApproximateFloat64()
		}
	}
	return p.Spec.Containers[0].Resources.Requests.Cpu().AsApproximateFloat64()
}
