// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

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
