// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podfit.dev/podfit/internal/core/cluster"
)

// Contexts returns the names of the contexts in the kubeconfig, sorted.
func (c Config) Contexts() ([]string, error) {
	config, err := c.rules().Load()
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(config.Contexts)), nil
}

// namedKinds are the kinds of objects that KIND/NAME can name, with the names that kubectl accepts for them.
var namedKinds = []struct {
	short, long string
	resource    schema.GroupVersionResource
	workload    bool // offered before a kind is typed
}{
	{"deploy", "deployment", schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, true},
	{"sts", "statefulset", schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, true},
	{"ds", "daemonset", schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, true},
	{"cj", "cronjob", schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}, true},
	{"job", "job", schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, false},
	{"vpa", "verticalpodautoscaler", schema.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"}, false},
	{"po", "pod", schema.GroupVersionResource{Version: "v1", Resource: "pods"}, false},
	{"no", "node", schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, false},
}

// ObjectNames returns objects of a namespace as KIND/NAME that begin with what is typed, sorted; at most 500 of a kind. An empty namespace
// means all. Before a kind is typed, these are workloads, with the short names of their kinds. It returns those that it could read, and the
// errors of the others.
func (c *Clients) ObjectNames(ctx context.Context, namespace, typed string) ([]string, error) {
	var out []string
	var errs []error
	for _, kind := range namedKinds {
		prefix := kind.short + "/"
		if !begins(prefix, typed) {
			prefix = kind.long + "/"
		}
		if !begins(prefix, typed) || !kind.workload && !strings.HasPrefix(typed, prefix) {
			continue
		}
		scope := namespace
		if kind.long == "node" {
			scope = "" // nodes have no namespace
		}
		names, err := c.Names(ctx, kind.resource, scope)
		errs = append(errs, err)
		for _, name := range names {
			if strings.HasPrefix(prefix+name, typed) {
				out = append(out, prefix+name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), errors.Join(errs...)
}

// begins reports whether a name with this prefix can begin with what is typed.
func begins(prefix, typed string) bool {
	return strings.HasPrefix(prefix, typed) || strings.HasPrefix(typed, prefix)
}

// Names returns the names of the objects of a namespace, at most 500. An empty namespace means all.
func (c *Clients) Names(ctx context.Context, resource schema.GroupVersionResource, namespace string) ([]string, error) {
	const mostNames = 500 // that are read for the completion in a shell; a longer list cannot be read on a screen
	list, err := c.Metadata.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: mostNames})
	if err != nil {
		return nil, err
	}
	return cluster.Each(list.Items, func(m *metav1.PartialObjectMetadata) string { return m.Name }), nil
}
