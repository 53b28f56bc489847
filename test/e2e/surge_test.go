// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// surgeReplacesPods has a Deployment with two replicas and one with a single replica, whose pods are replaced by surges. Neither ever has
// fewer ready pods, and nothing is left behind.
func surgeReplacesPods(t *testing.T, name string) {
	p := newPlace(t, name)
	single, pair := steady("single"), steady("pair")
	single.Replicas, pair.Replicas = 1, 2
	workloads := []spec{single, pair}
	for _, w := range workloads {
		a := strings.Replace(w.othersAutoscaler("Recreate"), "metadata: {name: "+w.Name+"}", "metadata: {name: "+w.Name+", annotations: {podfit.dev/mover: surge}}", 1)
		p.apply(w.manifest(), a)
		p.start(w.Name, w.Replicas)
	}
	leastSingle, leastPair := p.leastReady("single"), p.leastReady("pair")
	p.advise("350m", "262144k", "single", "pair") // a recommendation that does not change
	for _, w := range workloads {
		p.eventually(w.Name+" has the target and its replicas", 4*resized, func(ctx context.Context) error {
			if err := p.sized(w.Name, w.Replicas, advisedSize)(ctx); err != nil {
				return err
			}
			d, err := p.AppsV1().Deployments(p.ns).Get(ctx, w.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if record, ok := d.Annotations["podfit.dev/surge"]; ok || *d.Spec.Replicas != int32(w.Replicas) {
				return fmt.Errorf("%d replicas, record %q", *d.Spec.Replicas, record)
			}
			return nil
		})
		pods, err := p.running(t.Context(), w.Name, w.Replicas)
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods {
			if cost, ok := pod.Annotations[corev1.PodDeletionCost]; ok {
				t.Errorf("pod %s has the deletion cost %s", pod.Name, cost)
			}
		}
	}
	if n := leastSingle(); n < 1 {
		t.Errorf("%d pods of the single replica were ready, want 1", n)
	}
	if n := leastPair(); n < 2 {
		t.Errorf("%d pods of the pair were ready, want 2", n)
	}
	p.eventually("an event is written", resized, p.eventOf("Surge"))
}
