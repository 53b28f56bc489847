// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import "podfit.dev/podfit/internal/core/cluster"

// TemplatePaths are the fields that lead to the containers in a manifest, by kind of workload.
var TemplatePaths = map[string][]string{
	"Deployment": {"spec", "template", "spec"}, "StatefulSet": {"spec", "template", "spec"}, "DaemonSet": {"spec", "template", "spec"},
	"ReplicaSet": {"spec", "template", "spec"}, "ReplicationController": {"spec", "template", "spec"},
	"CronJob": {"spec", "jobTemplate", "spec", "template", "spec"},
}

// A Patch is a strategic merge patch of a pod template: its lists of containers, with the changed ones.
type Patch map[string]any

// Add adds the changed requests and limits of a container.
func (p Patch) Add(container string, isSidecar bool, resources map[string]any) {
	list := "containers"
	if isSidecar {
		list = "initContainers"
	}
	of, _ := p[list].([]any)
	p[list] = append(of, map[string]any{"name": container, "resources": resources})
}

// For returns the patch of a workload, nil if its kind is not known. A kind of another API group with the same name is not known: a patch would replace
// the list of its containers.
func (p Patch) For(w cluster.Workload) map[string]any {
	path := TemplatePaths[w.Kind]
	if path == nil || cluster.BuiltinKinds[w.Kind] != w.Group {
		return nil
	}
	out := map[string]any(p)
	for i := len(path) - 1; i >= 0; i-- {
		out = map[string]any{path[i]: out}
	}
	return out
}

// Since returns the requests and limits that differ from those before, as in a manifest. What is removed is nil.
func (s Size) Since(before Size) map[string]any {
	out := map[string]any{}
	add := func(field string, before, after cluster.Resources) {
		amounts := map[string]any{}
		for _, res := range cluster.All {
			from, had := before.Get(res)
			switch to, has := after.Get(res); {
			case has && (!had || to != from):
				amounts[res.String()] = cluster.Quantity(res, to)
			case had && !has:
				amounts[res.String()] = nil
			}
		}
		if len(amounts) > 0 {
			out[field] = amounts
		}
	}
	add("requests", before.Requests, s.Requests)
	add("limits", before.Limits, s.Limits)
	return out
}
