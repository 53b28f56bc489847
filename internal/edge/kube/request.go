// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podfit.dev/podfit/internal/core/cluster"
)

// PageSize is the number of objects in one page of a list.
const PageSize = 500

// EachPage calls each for every page of a list. The options are those of the first page.
func EachPage[L metav1.ListInterface](
	ctx context.Context, o metav1.ListOptions, list func(context.Context, metav1.ListOptions) (L, error), each func(L) error,
) error {
	for {
		page, err := list(ctx, o)
		if err == nil {
			err = each(page)
		}
		if err != nil || page.GetContinue() == "" {
			return err
		}
		o.Continue = page.GetContinue()
	}
}

// A PatchOp is one operation of a JSON patch.
type PatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// FindPod returns a pod, or nil if it does not exist. It needs the permission to list pods, which the watch has.
func (c *Clients) FindPod(ctx context.Context, key cluster.Key) (*corev1.Pod, error) {
	list, err := c.Core.CoreV1().Pods(key.Namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", key.Name).String()})
	if err != nil {
		return nil, err
	}
	return cluster.Find(list.Items, func(p *corev1.Pod) bool { return p.Name == key.Name }), nil
}

// StatusPatch returns a JSON patch that replaces the status of an object, if the object still has the given version, and makes further changes.
func StatusPatch(version string, status any, more ...PatchOp) ([]byte, error) {
	return json.Marshal(append([]PatchOp{
		{Op: "replace", Path: "/metadata/resourceVersion", Value: version},
		{Op: "add", Path: "/status", Value: status},
	}, more...))
}

// AnnotationPath returns the path of an annotation in a JSON patch.
func AnnotationPath(name string) string {
	return "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// HasJSONForm reports whether a time can be written as JSON: its year in UTC has four digits. A time with an offset can be read although it
// has another year in UTC.
func HasJSONForm(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 0 && year <= 9999
}

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
