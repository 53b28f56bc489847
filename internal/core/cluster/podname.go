// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "regexp"

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
