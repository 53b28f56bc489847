// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"slices"
	"strings"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
)

// includes reports whether a workload is reviewed according to the flags and arguments.
func (c *Config) includes(w cluster.Workload) bool {
	switch {
	case process.MatchesNamespace(c.Excluded, w.Namespace), len(c.Namespaces) > 0 && !process.MatchesNamespace(c.Namespaces, w.Namespace):
		return false
	case len(c.Kinds) > 0 && !slices.ContainsFunc(c.Kinds, func(k string) bool { return isKind(k, w.Kind) }):
		return false
	}
	return len(c.Names) == 0 || slices.ContainsFunc(c.Names, func(name string) bool { return isNamed(name, w) })
}

// isNamed reports whether an argument KIND/NAME means a workload.
func isNamed(name string, w cluster.Workload) bool {
	kind, rest, _ := strings.Cut(name, "/")
	return rest == w.Name && isKind(kind, w.Kind)
}

// shortKinds are kubectl's short names of kinds, in lower case.
var shortKinds = map[string]string{
	"deploy": "deployment", "sts": "statefulset", "ds": "daemonset", "rs": "replicaset", "rc": "replicationcontroller", "cj": "cronjob", "po": "pod",
}

// isKind reports whether a name that a user wrote, such as deploy, deployments or Deployment, means a kind.
func isKind(written, kind string) bool {
	written, kind = strings.ToLower(written), strings.ToLower(kind)
	written, _, _ = strings.Cut(written, ".")
	if long := shortKinds[written]; long != "" {
		written = long
	}
	return written == kind || written == kind+"s"
}

// onlyNamespace returns the namespace if exactly one is reviewed, so that no right for other namespaces is needed.
func (c *Config) onlyNamespace() string {
	if len(c.Namespaces) == 1 && !strings.ContainsAny(c.Namespaces[0], `*?[\`) {
		return c.Namespaces[0]
	}
	return ""
}
