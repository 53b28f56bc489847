// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// A resource of the cluster.
func resourceOf(group, version, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
}

// create creates an object that was deleted.
func (f *faulty) create(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	f.Helper()
	o = o.DeepCopy()
	o.SetResourceVersion("")
	o.SetUID("")
	delete(o.Object, "status")
	f.eventually(o.GetName()+" is created", time.Minute, func(ctx context.Context) error {
		_, err := f.Dynamic.Resource(resource).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{})
		return err
	})
}

// withoutObject returns a fault in which an object is deleted. Unless it must come back by itself, it is created again.
func withoutObject(resource schema.GroupVersionResource, ns, name string) fault {
	var saved *unstructured.Unstructured
	return fault{name: resource.Resource + " " + name + " deleted", kind: "object deleted: " + resource.Resource, lasts: 15 * time.Second, begin: func(f *faulty) {
		var err error
		saved, err = f.Dynamic.Resource(resource).Namespace(ns).Get(f.Context(), name, metav1.GetOptions{})
		f.must(err)
		f.must(f.Dynamic.Resource(resource).Namespace(ns).Delete(f.Context(), name, metav1.DeleteOptions{}))
	}, end: func(f *faulty) {
		if _, err := f.Dynamic.Resource(resource).Namespace(ns).Get(f.Context(), name, metav1.GetOptions{}); err != nil {
			f.create(resource, saved)
		}
	}}
}

// changed returns a fault in which another client changes an object of podfit.
func changed(what string, resource schema.GroupVersionResource, ns, name, patch string) fault {
	return fault{name: what, lasts: 15 * time.Second, begin: func(f *faulty) {
		_, err := f.Dynamic.Resource(resource).Namespace(ns).Patch(f.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		f.must(err)
	}}
}

// allowing returns a fault in which a rule may be broken: with the flags of the test, the admission controller looks for its objects every 2 seconds, and
// without a right to create them it cannot do more.
func allowing(rule invariant.Rule, one fault) fault {
	one.allowed = rule
	return one
}

func faultsOfObjects() []fault {
	secrets, leases := resourceOf("", "v1", "secrets"), resourceOf("coordination.k8s.io", "v1", "leases")
	webhooks := resourceOf("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations")
	return []fault{
		allowing(invariant.BacksOff, withoutObject(secrets, bed.Namespace, certificateSecret)),
		changed("other certificates in the Secret", secrets, bed.Namespace, certificateSecret, `{"data":{"caCert.pem":"AAAA","serverCert.pem":"AAAA","serverKey.pem":"AAAA"}}`),
		allowing(invariant.BacksOff, withoutObject(webhooks, "", webhookConfiguration)),
		changed("webhook configuration without webhooks", webhooks, "", webhookConfiguration, `{"webhooks":[]}`),
		withoutObject(leases, bed.Namespace, "vpa-admission-controller"),
	}
}

// together calls create with 0 to n-1, many at a time.
func (f *faulty) together(n int, create func(ctx context.Context, i int) error) {
	f.Helper()
	const workers = 32
	ctx, cancel := context.WithCancelCause(f.Context())
	defer cancel(nil)
	var (
		next    atomic.Int64
		working sync.WaitGroup
	)
	for range workers {
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := create(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	working.Wait()
	f.must(context.Cause(ctx))
}

// manyVPAs returns a fault in which many VPAs of workloads that do not exist are created at once, and one in which they are deleted.
func manyVPAs(n int, long bool) []fault {
	ns := fmt.Sprintf("faults-vpas-%d", n)
	return []fault{{name: fmt.Sprintf("%d VPAs created at once", n), kind: "many VPAs created", lasts: 10 * time.Second, long: long, begin: func(f *faulty) {
		f.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + ns + "}}")
		vpas := f.Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(ns)
		begun := time.Now()
		f.together(n, func(ctx context.Context, i int) error {
			objects, err := bed.Parse([]byte(autoscaler(fmt.Sprintf("many-%d", i), "", fmt.Sprintf("none-%d", i), "Recreate", "")))
			if err == nil {
				_, err = vpas.Create(ctx, objects[0], metav1.CreateOptions{})
			}
			return err
		})
		f.Logf("created in %v", time.Since(begun).Round(time.Second))
	}}, {name: fmt.Sprintf("their namespace with %d VPAs deleted", n), kind: "namespace with VPAs deleted", lasts: 5 * time.Second, long: long, begin: func(f *faulty) {
		f.must(f.CoreV1().Namespaces().Delete(f.Context(), ns, metav1.DeleteOptions{}))
	}}}
}

// manyPods returns a fault in which a namespace with many pods is deleted. The pods have no node.
func manyPods(n int, long bool) fault {
	ns := fmt.Sprintf("faults-pods-%d", n)
	return fault{name: fmt.Sprintf("a namespace with %d pending pods deleted", n), kind: "namespace with pods deleted", lasts: 5 * time.Second, long: long, begin: func(f *faulty) {
		f.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + ns + "}}")
		f.eventually("the namespace has the service account of pods", 30*time.Second, func(ctx context.Context) error {
			_, err := f.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
			return err
		})
		begun := time.Now()
		f.together(n, func(ctx context.Context, i int) error {
			_, err := f.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i)},
				Spec:       corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "app", Image: "test/app"}}},
			}, metav1.CreateOptions{})
			return err
		})
		f.Logf("created in %v", time.Since(begun).Round(time.Second))
		f.must(f.CoreV1().Namespaces().Delete(f.Context(), ns, metav1.DeleteOptions{}))
	}}
}

func faultsOfManyObjects() []fault {
	return slices.Concat(manyVPAs(2000, false), manyVPAs(10_000, true), []fault{
		{name: "a namespace with 60 running pods deleted", kind: "namespace with pods deleted", lasts: 5 * time.Second, begin: func(f *faulty) {
			f.apply("{apiVersion: v1, kind: Namespace, metadata: {name: faults-pods}}")
			f.must(f.ApplyYAML(f.Context(), "faults-pods", spec{Name: "many", Replicas: 60, Requests: "{cpu: 10m, memory: 10Mi}", CPU: "5m", Memory: "5Mi"}.manifest()))
			f.wait(5 * time.Second)
			f.must(f.CoreV1().Namespaces().Delete(f.Context(), "faults-pods", metav1.DeleteOptions{}))
		}}, manyPods(2000, false), manyPods(20_000, true),
	})
}
