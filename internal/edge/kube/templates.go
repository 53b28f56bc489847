// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/ptr"

	"podfit.dev/podfit/internal/core/cluster"
)

// A Template is the pod template of a workload.
type Template struct {
	Workload   cluster.Workload
	Replicas   cluster.Scale       // that the workload should have; not known of workloads without replicas
	Suspended  bool                // a CronJob that starts no Jobs
	Containers []cluster.Container // those that run as long as the pod, with their names, roles, requests and limits
}

// Container returns the container with a name, or nil.
func (t *Template) Container(name string) *cluster.Container {
	return cluster.Find(t.Containers, func(c *cluster.Container) bool { return c.Name == name })
}

// Templates reads the pod templates of all Deployments, StatefulSets, DaemonSets and CronJobs of a namespace, "" for all. The map has an
// error for each kind that could not be listed.
func (c *Clients) Templates(ctx context.Context, namespace string) (found []Template, failed map[string]error) {
	failed = map[string]error{}
	apps := c.Core.AppsV1()
	for resource, page := range map[string]pager.ListPageFunc{
		"deployments":  pageOf(apps.Deployments(namespace).List),
		"statefulsets": pageOf(apps.StatefulSets(namespace).List),
		"daemonsets":   pageOf(apps.DaemonSets(namespace).List),
		"cronjobs":     pageOf(c.Core.BatchV1().CronJobs(namespace).List),
	} {
		err := pager.New(page).EachListItem(ctx, metav1.ListOptions{Limit: PageSize}, func(x runtime.Object) error {
			found = append(found, templateOf(x))
			return nil
		})
		if err != nil {
			failed[resource] = fmt.Errorf("list %s: %w", resource, err)
		}
	}
	slices.SortFunc(found, func(a, b Template) int { return a.Workload.Compare(b.Workload) })
	return found, failed
}

func pageOf[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) pager.ListPageFunc {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }
}

func templateOf(o runtime.Object) Template {
	switch x := o.(type) {
	case *appsv1.Deployment:
		return template("Deployment", &x.ObjectMeta, replicasOf(x.Spec.Replicas), &x.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		return template("StatefulSet", &x.ObjectMeta, replicasOf(x.Spec.Replicas), &x.Spec.Template.Spec)
	case *appsv1.DaemonSet:
		return template("DaemonSet", &x.ObjectMeta, cluster.Scale{}, &x.Spec.Template.Spec)
	case *batchv1.CronJob:
		t := template("CronJob", &x.ObjectMeta, cluster.Scale{}, &x.Spec.JobTemplate.Spec.Template.Spec)
		t.Suspended = ptr.Deref(x.Spec.Suspend, false)
		return t
	}
	return Template{}
}

func template(kind string, m *metav1.ObjectMeta, replicas cluster.Scale, spec *corev1.PodSpec) Template {
	t := Template{Workload: cluster.Workload{Group: cluster.BuiltinKinds[kind], Kind: kind, Namespace: m.Namespace, Name: m.Name}, Replicas: replicas}
	add := func(c *corev1.Container, role cluster.ContainerRole) {
		x := cluster.Container{Name: c.Name, Role: role}
		x.Requests, x.Limits = SizeOf(&c.Resources)
		t.Containers = append(t.Containers, x)
	}
	for i := range spec.Containers {
		add(&spec.Containers[i], cluster.Regular)
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; IsSidecar(c) {
			add(c, cluster.Sidecar)
		}
	}
	return t
}

// IsSidecar reports whether an init container is a native sidecar, which keeps running (KEP-753).
func IsSidecar(init *corev1.Container) bool {
	return ptr.Deref(init.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
}

// replicasOf returns the number of replicas in a spec, which is 1 if it is not set.
func replicasOf(n *int32) cluster.Scale { return cluster.Scale{Known: true, Replicas: ptr.Deref(n, 1)} }
