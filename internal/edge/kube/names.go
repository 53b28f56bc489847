// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
)

// mostNames is how many names of a kind are read for the completion in a shell. Nobody reads more.
const mostNames = 500

// Contexts returns the names of the contexts in the kubeconfig, sorted.
func (c Config) Contexts() ([]string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(config.Contexts)), nil
}

// NamespaceNames returns the names of namespaces, at most 500.
func (c *Clients) NamespaceNames(ctx context.Context) ([]string, error) {
	return c.names(ctx, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "")
}

// workloadKinds are the kinds of workloads with the names that kubectl accepts for them.
var workloadKinds = []struct {
	short, long string
	resource    schema.GroupVersionResource
}{
	{"deploy", "deployment", schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}},
	{"sts", "statefulset", schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}},
	{"ds", "daemonset", schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}},
	{"cj", "cronjob", schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}},
}

// WorkloadNames returns the workloads of a namespace as KIND/NAME, once with the short and once with the long name of the kind, sorted; at
// most 500 of a kind. An empty namespace means all. It returns those that it could read, and the errors of the others.
func (c *Clients) WorkloadNames(ctx context.Context, namespace string) (short, long []string, err error) {
	var errs []error
	for _, kind := range workloadKinds {
		names, err := c.names(ctx, kind.resource, namespace)
		errs = append(errs, err)
		for _, name := range names {
			short = append(short, kind.short+"/"+name)
			long = append(long, kind.long+"/"+name)
		}
	}
	return sorted(short), sorted(long), errors.Join(errs...)
}

// sorted returns names without duplicates, sorted.
func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// names returns the names of objects.
func (c *Clients) names(ctx context.Context, resource schema.GroupVersionResource, namespace string) ([]string, error) {
	list, err := c.Metadata.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: mostNames})
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}
