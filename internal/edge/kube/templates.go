// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

// A Template is the pod template of a workload.
type Template struct {
	Workload   cluster.Workload
	Replicas   cluster.Scale // that the workload should have; not known of workloads without replicas
	Suspended  bool          // a CronJob that starts no Jobs
	Containers []TemplateContainer
}

// A TemplateContainer has the requests and limits of a container of a pod template.
type TemplateContainer struct {
	Name             string
	Requests, Limits cluster.Resources
}

// Container returns the container with a name, or nil.
func (t *Template) Container(name string) *TemplateContainer {
	for i := range t.Containers {
		if t.Containers[i].Name == name {
			return &t.Containers[i]
		}
	}
	return nil
}

// Templates reads the pod templates of all Deployments, StatefulSets, DaemonSets and CronJobs of a namespace, "" for all. The map has an
// error for each kind that could not be listed.
func (c *Clients) Templates(ctx context.Context, namespace string) (found []Template, failed map[string]error) {
	r := templateReader{clients: c, namespace: namespace}
	failed = map[string]error{}
	for resource, list := range map[string]func(context.Context, metav1.ListOptions) (string, error){
		"deployments": r.deployments, "statefulsets": r.statefulSets, "daemonsets": r.daemonSets, "cronjobs": r.cronJobs,
	} {
		if err := pages(ctx, list); err != nil {
			failed[resource] = fmt.Errorf("list %s: %w", resource, err)
		}
	}
	slices.SortFunc(r.found, func(a, b Template) int { return a.Workload.Compare(b.Workload) })
	return r.found, failed
}

// A templateReader reads the templates of a namespace. Its methods read one page each, and return the token of the next one.
type templateReader struct {
	clients   *Clients
	namespace string
	found     []Template
}

// add adds the template of a workload.
func (r *templateReader) add(group, kind string, m *metav1.ObjectMeta, spec *corev1.PodSpec) *Template {
	t := Template{Workload: cluster.Workload{Group: group, Kind: kind, Namespace: m.Namespace, Name: m.Name}}
	for i := range spec.Containers {
		x := TemplateContainer{Name: spec.Containers[i].Name}
		x.Requests, x.Limits = SizeOf(&spec.Containers[i].Resources)
		t.Containers = append(t.Containers, x)
	}
	r.found = append(r.found, t)
	return &r.found[len(r.found)-1]
}

func (r *templateReader) deployments(ctx context.Context, o metav1.ListOptions) (next string, err error) {
	page, err := r.clients.Core.AppsV1().Deployments(r.namespace).List(ctx, o)
	if err != nil {
		return "", err
	}
	for i := range page.Items {
		x := &page.Items[i]
		r.add("apps", "Deployment", &x.ObjectMeta, &x.Spec.Template.Spec).Replicas = replicasOf(x.Spec.Replicas)
	}
	return page.Continue, nil
}

func (r *templateReader) statefulSets(ctx context.Context, o metav1.ListOptions) (next string, err error) {
	page, err := r.clients.Core.AppsV1().StatefulSets(r.namespace).List(ctx, o)
	if err != nil {
		return "", err
	}
	for i := range page.Items {
		x := &page.Items[i]
		r.add("apps", "StatefulSet", &x.ObjectMeta, &x.Spec.Template.Spec).Replicas = replicasOf(x.Spec.Replicas)
	}
	return page.Continue, nil
}

func (r *templateReader) daemonSets(ctx context.Context, o metav1.ListOptions) (next string, err error) {
	page, err := r.clients.Core.AppsV1().DaemonSets(r.namespace).List(ctx, o)
	if err != nil {
		return "", err
	}
	for i := range page.Items {
		x := &page.Items[i]
		r.add("apps", "DaemonSet", &x.ObjectMeta, &x.Spec.Template.Spec)
	}
	return page.Continue, nil
}

func (r *templateReader) cronJobs(ctx context.Context, o metav1.ListOptions) (next string, err error) {
	page, err := r.clients.Core.BatchV1().CronJobs(r.namespace).List(ctx, o)
	if err != nil {
		return "", err
	}
	for i := range page.Items {
		x := &page.Items[i]
		r.add("batch", "CronJob", &x.ObjectMeta, &x.Spec.JobTemplate.Spec.Template.Spec).Suspended = x.Spec.Suspend != nil && *x.Spec.Suspend
	}
	return page.Continue, nil
}

// pages calls list for each page of a list.
func pages(ctx context.Context, list func(context.Context, metav1.ListOptions) (next string, err error)) error {
	o := metav1.ListOptions{Limit: PageSize}
	for {
		next, err := list(ctx, o)
		if err != nil || next == "" {
			return err
		}
		o.Continue = next
	}
}

// replicasOf returns the number of replicas in a spec, which is 1 if it is not set.
func replicasOf(n *int32) cluster.Scale {
	if n == nil {
		return cluster.Scale{Known: true, Replicas: 1}
	}
	return cluster.Scale{Known: true, Replicas: *n}
}
