// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resizeRestarts has containers that the kubelet restarts for a resize of their memory. Each is restarted once, and no pod is replaced.
func resizeRestarts(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	restarts := strings.Replace(w.manifest(), "{name: app,", "{name: app, resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}],", 1)
	p.apply(restarts, w.autoscaler("InPlaceOrRecreate"))
	old := p.start("steady", 2)
	once := func(ctx context.Context) error {
		pods, err := p.pods(ctx, "steady")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if n := pod.Status.ContainerStatuses[0].RestartCount; n != 1 {
				return fmt.Errorf("%s: restarted %d times", pod.Name, n)
			}
		}
		return p.same("steady", old)(ctx)
	}
	p.eventually("the pods have the target", measured+resized, p.sized("steady", 2, steadyTarget))
	p.eventually("each container is restarted", resized, once)
	p.always("no container is restarted again", 15*time.Second, once)
	p.resizedOnce()
}

// memoryDecreaseRefused has containers that use more memory than their new limit. The kubelet refuses to lower it. The pods keep their
// limits, and are neither replaced nor restarted.
func memoryDecreaseRefused(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	w.Requests, w.Limits = "{cpu: 350m, memory: 400Mi}", "{memory: 400Mi}"
	p.apply(w.manifest(), autoscaler("steady", "", "steady", "InPlaceOrRecreate",
		`  resourcePolicy: {containerPolicies: [{containerName: app, maxAllowed: {memory: 100Mi}}]}`))
	old := p.start("steady", 2)
	refused := func(ctx context.Context) error {
		pods, err := p.pods(ctx, "steady")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodResizeInProgress && c.Reason == corev1.PodReasonError {
					return nil
				}
			}
		}
		return fmt.Errorf("no pod of %d has the condition", len(pods))
	}
	p.eventually("the kubelet refuses the decrease", measured+resized, refused)
	p.always("no pod is replaced or restarted", 20*time.Second, func(ctx context.Context) error {
		pods, err := p.pods(ctx, "steady")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			s := pod.Status.ContainerStatuses[0]
			if s.RestartCount != 0 || s.Resources.Limits.Memory().String() != "400Mi" {
				return fmt.Errorf("%s: restarted %d times, limit %s", pod.Name, s.RestartCount, s.Resources.Limits.Memory())
			}
		}
		return p.same("steady", old)(ctx)
	})
	p.resizedOnce()
}

// TestUpdater_fullNode_eachStateOfAResizeEndsAsDocumented has a node that a large pod fills.
//
//	deferred    the resize does not fit now: the pod is not evicted, and has its size when the node has room
//	infeasible  no node can ever hold the size: the kubelet is not asked, and the pod is not evicted
func TestUpdater_fullNode_eachStateOfAResizeEndsAsDocumented(t *testing.T) {
	p := newPlace(t, "full-node")
	const gate = "--feature-gates=InPlace=true"
	p.restartUpdater(gate, "--make-room=off", "--min-replicas=1")
	p.restartAdmission(gate)
	full := p.node(2)
	p.labelNode(full, "full", "yes")
	onNode := func(w spec) string {
		return strings.Replace(w.manifest(), "  containers:", "  nodeSelector: {full: \"yes\"}\n      containers:", 1)
	}
	filler, deferred, infeasible := steady("filler"), steady("deferred"), steady("infeasible")
	filler.Replicas, deferred.Replicas, infeasible.Replicas = 1, 1, 1
	filler.Requests = fmt.Sprintf("{cpu: %dm, memory: 50Mi}", full.Status.Allocatable.Cpu().MilliValue()-400)
	p.apply(onNode(filler), onNode(deferred), onNode(infeasible))
	old := map[string][]corev1.Pod{}
	for _, w := range []spec{filler, deferred, infeasible} {
		old[w.Name] = p.start(w.Name, 1)
	}
	p.eventually("the webhook accepts mode InPlace", resized, func(ctx context.Context) error {
		return p.ApplyYAML(ctx, p.ns, deferred.ownAutoscaler("InPlace"))
	})
	p.apply(infeasible.ownAutoscaler("InPlace"))
	p.advise("900m", "262144k", "deferred")
	p.advise("20", "262144k", "infeasible")

	pending := func(ctx context.Context) error {
		pods, err := p.pods(ctx, "deferred")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonDeferred {
					return nil
				}
			}
		}
		return fmt.Errorf("no pod of %d has the condition", len(pods))
	}
	p.eventually("the kubelet defers the resize", resized, pending)
	p.eventually("the condition of the VPA says so", resized, p.says("deferred", updatingCondition, "ResizeWaiting"))
	p.eventually("the condition says that no node fits", resized, p.says("infeasible", updatingCondition, "Unplaceable"))
	p.always("no pod is replaced", 12*time.Second, all(p.same("deferred", old["deferred"]), p.same("infeasible", old["infeasible"]), p.same("filler", old["filler"]), pending))
	if n := p.attempts(old["deferred"][0].Name, "resize"); n != 1 {
		t.Errorf("%d requests to resize the pod whose resize is deferred, want 1", n)
	}
	if n := p.attempts(old["infeasible"][0].Name, "resize"); n > 0 {
		t.Errorf("%d requests to resize a pod to a size that no node can hold", n)
	}

	if err := p.AppsV1().Deployments(p.ns).Delete(t.Context(), "filler", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.eventually("the resize completes when the node has room", resized, all(p.sized("deferred", 1, "app cpu=900m memory=262144k"), p.same("deferred", old["deferred"])))
	p.eventually("the condition says that the pod has its size", resized, func(ctx context.Context) error {
		c, err := p.condition(ctx, "deferred", updatingCondition)
		if err == nil && (c.Status != corev1.ConditionFalse || c.Reason != "UpToDate") {
			err = fmt.Errorf("the condition is %+v", c)
		}
		return err
	})
	p.resizedOnce()
}

// restartAdmission replaces the admission controller by one with additional arguments until the test ends.
func (p *place) restartAdmission(args ...string) {
	p.Helper()
	start := func(ctx context.Context, args ...string) {
		p.admission.Kill()
		c, err := admission()
		if err == nil {
			p.admission, err = p.healthy(ctx, c.With(args...))
		}
		if err != nil {
			p.Fatal(err)
		}
	}
	start(p.Context(), args...)
	p.Cleanup(func() { start(context.Background()) })
}

// resizedOnce checks that the updater has sent each resize of a pod of the namespace only once.
func (p *place) resizedOnce() {
	p.Helper()
	log, err := p.witness.Log(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	seen := map[string]int{}
	for _, w := range log.Writes {
		if w.Namespace == p.ns && w.User == "vpa-updater" && w.Subresource == "resize" {
			wish := w.UID + " " + fmt.Sprint(w.Requests)
			if seen[wish]++; seen[wish] == 2 {
				p.Errorf("the same resize is requested again: %v", &w)
			}
		}
	}
	if len(seen) == 0 {
		p.Error("no resize was requested")
	}
}
