// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"regexp"
	"strings"
)

// podNames are the patterns of pod names, by the kind of the owner. Kubernetes generates the random parts from an alphabet without
// vowels.
var podNames = []struct {
	group, kind string
	form        *regexp.Regexp
}{
	{"batch", "CronJob", regexp.MustCompile(`^(.+)-[0-9]{8,11}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)},
	{"apps", "Deployment", regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)},
	{"apps", "StatefulSet", regexp.MustCompile(`^(.+)-[0-9]+$`)},
	{"apps", "DaemonSet", regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}$`)}, // or a Job
}

// OwnerByName guesses the workload of a pod from the pod's name, for pods that no longer exist. A pod whose name matches no pattern is its
// own workload.
func OwnerByName(pod Key) Workload {
	for _, n := range podNames {
		if m := n.form.FindStringSubmatch(pod.Name); m != nil {
			return Workload{Group: n.group, Kind: n.kind, Namespace: pod.Namespace, Name: m[1]}
		}
	}
	return Workload{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}
}

// maxPodNames is the maximum length of the names of live pods in the result of PodNames, because it becomes part of a URL.
const maxPodNames = 2000

// PodNames returns a regular expression (RE2, not anchored) for the names of the pods of a workload: names that are generated as those of its
// kind or of its live pods, and the names of other live pods up to 2000 bytes. It is "" if no name is known.
func PodNames(w Workload, live []*Pod) string {
	var all []string
	kinds := map[string]bool{w.Kind: true}
	length := 0
	for _, p := range live {
		if by := OwnerByName(p.Key); by.Name == w.Name {
			kinds[by.Kind] = true
		} else if length += len(p.Name) + 1; length <= maxPodNames {
			all = append(all, regexp.QuoteMeta(p.Name))
		}
	}
	for _, n := range podNames {
		if kinds[n.kind] {
			all = append(all, strings.Trim(strings.Replace(n.form.String(), "(.+)", regexp.QuoteMeta(w.Name), 1), "^$"))
		}
	}
	if kinds["Pod"] {
		all = append(all, regexp.QuoteMeta(w.Name))
	}
	return strings.Join(all, "|")
}
