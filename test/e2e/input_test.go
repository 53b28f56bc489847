// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	vpav1 "podfit.dev/podfit/api/v1"
)

func invalidAutoscalers(t *testing.T, name string) {
	p := newPlace(t, name)
	const webhook = `admission webhook "vpa.k8s.io" denied the request: VerticalPodAutoscaler.autoscaling.k8s.io "bad" is invalid: `
	for name, c := range map[string]struct{ spec, want string }{
		"a quantity that is none": {
			`resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {cpu: fifty}}]}`,
			webhook + `.: Internal error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
		},
		"max below min": {
			`resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {cpu: 200m}, maxAllowed: {cpu: 100m}}]}`,
			webhook + `spec.resourcePolicy.containerPolicies[0].maxAllowed[cpu]: Invalid value: "100m": max resource for cpu is lower than min of "200m"`,
		},
		"no container name": {
			`resourcePolicy: {containerPolicies: [{minAllowed: {cpu: 200m}}]}`,
			webhook + `spec.resourcePolicy.containerPolicies[0].containerName: Required value`,
		},
		"no replicas": {
			`updatePolicy: {updateMode: Recreate, minReplicas: 0}`,
			webhook + `spec.updatePolicy.minReplicas: Invalid value: 0: minReplicas has to be positive`,
		},
		"a policy without a mode": {
			`updatePolicy: {minReplicas: 1}`,
			webhook + `spec.updatePolicy.updateMode: Required value: updateMode is required if UpdatePolicy is used`,
		},
		"a gate that is closed": {
			`updatePolicy: {updateMode: InPlace}`,
			webhook + `spec.updatePolicy.updateMode: Forbidden: in order to use UpdateMode InPlace, you must enable feature gate InPlace in the admission-controller args`,
		},
		"two recommenders": {
			`recommenders: [{name: one}, {name: two}]`,
			webhook + `spec.recommenders: Too many: 2: must have at most 1 item`,
		},
		"less than a millicore": {
			`resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {cpu: 100u}}]}`,
			webhook + `spec.resourcePolicy.containerPolicies[0].minAllowed[cpu]: Invalid value: "100u": must be a whole number of milli CPUs`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: bad}\nspec:\n" +
				"  targetRef: {apiVersion: apps/v1, kind: Deployment, name: bad}\n  " + c.spec + "\n"
			err := p.ApplyYAML(t.Context(), p.ns, manifest)
			if err == nil {
				t.Fatal("the object was accepted")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("denied with\n%v\nwant\n%s", err, c.want)
			}
		})
	}
}

// badObjectsBesideGood has each kind of mistake in one namespace. Each is reported on its VPA, and none affects the valid workload.
func badObjectsBesideGood(t *testing.T, name string) {
	p := newPlace(t, name)
	good := steady("good")
	child := steady("child")
	orphan := steady("orphan")
	orphan.Kind = "Pod"
	twice := steady("twice")
	p.apply(
		autoscaler("a-nowhere", "", "nowhere", "Recreate", ""),
		child.manifest(), orphan.manifest(), twice.manifest(),
		autoscaler("twice", "", "twice", "Recreate", "  resourcePolicy: {containerPolicies: [{containerName: app, maxAllowed: {cpu: 200m}}]}"),
		autoscaler("of-a-pod", "Pod", "orphan", "Recreate", ""),
		good.manifest(), good.autoscaler("Recreate"),
	)
	p.start("child", 2)
	p.start("orphan", 1)
	first, err := p.Autoscaler(t.Context(), p.ns, "twice")
	if err != nil {
		t.Fatal(err)
	}
	p.eventually("a second has passed, so that one VPA is older", 10*time.Second, func(context.Context) error {
		if time.Since(first.CreationTimestamp.Time) < 2*time.Second {
			return errors.New("less than two seconds have passed")
		}
		return nil
	})
	p.apply(autoscaler("twice-again", "", "twice", "Recreate", ""))
	sets, err := p.childSets(t.Context())
	if err != nil || len(sets) != 1 {
		t.Fatalf("ReplicaSets of Deployment child: got %v, error %v", sets, err)
	}
	p.apply(autoscaler("of-a-child", "ReplicaSet", sets[0], "Recreate", ""))

	p.eventually("the valid workload has its size", measured+resized, p.sized("good", 2, steadyTarget))
	for name, want := range map[string]string{ // expected message by VPA
		"a-nowhere":  "Deployment " + p.ns + "/nowhere does not exist",
		"of-a-child": "The target apps/v1.ReplicaSet/" + sets[0] + " has a parent controller but it should point to a topmost well-known or scalable controller",
		"of-a-pod":   "Pod",
	} {
		p.eventually(name+" has a condition with the mistake", 30*time.Second, func(ctx context.Context) error {
			c, err := p.condition(ctx, name, vpav1.ConfigUnsupported)
			if err != nil {
				return err
			}
			if c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, want) {
				return fmt.Errorf("the condition is %s %q, want a message with %q", c.Status, c.Message, want)
			}
			return nil
		})
	}
	p.eventually("the younger of two VPAs has a condition", 30*time.Second, func(ctx context.Context) error {
		c, err := p.condition(ctx, "twice-again", "TargetConflict")
		if err != nil {
			return err
		}
		if c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, "VerticalPodAutoscaler twice names the same target") {
			return fmt.Errorf("the condition is %s %q", c.Status, c.Message)
		}
		return nil
	})
	p.eventually("the older of two VPAs is applied", resized, p.sized("twice", 2, "app cpu=200m memory=262144k"))
	governed := p.start("twice", 2)
	p.always("the younger one does not interfere", 15*time.Second, p.same("twice", governed))
	pods, err := p.running(t.Context(), "orphan", 1)
	if err != nil || requests(pods[0]) != "app cpu=100m memory=52428800" {
		t.Fatalf("the pod without an owner was changed: %v %v", pods, err)
	}
	p.eventually("the pod without an owner has an event", 30*time.Second,
		p.event("Pod", pods[0].Name, "NotAutoscaled", "No controller owns this pod, so no VerticalPodAutoscaler can size it."))
}

// childSets returns the names of the ReplicaSets of the Deployment child.
func (p *place) childSets(ctx context.Context) ([]string, error) {
	pods, err := p.pods(ctx, "child")
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var out []string
	for _, pod := range pods {
		for _, o := range pod.OwnerReferences {
			if !seen[o.Name] {
				seen[o.Name] = true
				out = append(out, o.Name)
			}
		}
	}
	return out, nil
}

func containerWithoutRequests(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	w.Requests = ""
	p.apply(w.manifest(), w.autoscaler("Recreate"))
	p.start("steady", 2)
	p.eventually("the pods request the recommended amounts", measured+resized, p.sized("steady", 2, steadyTarget))
	p.checkAnnotations("steady")
}

func autoscalerWithoutPods(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	none := strings.Replace(w.manifest(), "replicas: 2", "replicas: 0", 1)
	p.apply(none, w.autoscaler("Recreate"))
	p.eventually("the VPA has the condition that there are no pods", 30*time.Second, func(ctx context.Context) error {
		c, err := p.condition(ctx, "steady", vpav1.NoPodsMatched)
		if err != nil {
			return err
		}
		if c.Status != corev1.ConditionTrue || c.Message != "No pods match this VPA object" {
			return fmt.Errorf("the condition is %s %q", c.Status, c.Message)
		}
		return nil
	})
	p.apply(w.manifest())
	p.eventually("the condition is removed when there are pods", measured, func(ctx context.Context) error {
		a, err := p.Autoscaler(ctx, p.ns, "steady")
		if err != nil {
			return err
		}
		for _, c := range a.Status.Conditions {
			if c.Type == vpav1.NoPodsMatched {
				return fmt.Errorf("the condition is still %s", c.Status)
			}
		}
		return nil
	})
}
