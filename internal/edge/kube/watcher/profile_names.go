// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/feed"
)

// addProfileNames watches the names of SizingProfiles. The names are only used for warnings, so startup does not wait for the
// first list.
func (w *World) addProfileNames() {
	c := w.clients.Metadata.Resource(schema.GroupVersionResource{
		Group: v1alpha1.GroupName, Version: v1alpha1.GroupVersion().Version, Resource: v1alpha1.ResourceSizingProfiles,
	})
	w.profileFeed = addFeed(w, source[struct{}]{
		Config: feed.Config{
			Name:        v1alpha1.ResourceSizingProfiles,
			LostWithout: "the names of SizingProfiles in warnings about misspelled recommender names",
			Remedy:      "if you want SizingProfiles, podfit crds | kubectl apply -f -",
			NonBlocking: true,
		},
		list:    func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, o) },
		watch:   c.Watch,
		project: func(runtime.Object) struct{} { return struct{}{} },
	}, &w.profileNames)
	w.profileFeed.MakeOptional()
}

// ProfileNames returns the sorted names of all SizingProfiles, and whether they are known. They are known to be none if the cluster
// has no such resource, or podfit may not read it. They are not known if they are not watched, or the watch is out of date.
func (w *World) ProfileNames() (names []string, known bool) {
	if w.profileFeed == nil {
		return nil, false
	}
	state := w.profileFeed.State()
	if state.Forbidden {
		return nil, true
	}
	if state.IsStale(time.Now()) {
		return nil, false
	}
	w.profileNames.each(func(key cluster.Key, _ struct{}) { names = append(names, key.Name) })
	slices.Sort(names)
	return names, true
}
