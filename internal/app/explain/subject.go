// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/spelling"
)

// A reference is the object that the user names.
type reference struct {
	kind      string // as written, lower case
	group     string // "" if it was not written
	name      string
	namespace string
}

// kinds are the built-in kinds by the names that kubectl accepts.
var kinds = map[string]cluster.Workload{
	"deployment": {Group: "apps", Kind: "Deployment"}, "deployments": {Group: "apps", Kind: "Deployment"}, "deploy": {Group: "apps", Kind: "Deployment"},
	"statefulset": {Group: "apps", Kind: "StatefulSet"}, "statefulsets": {Group: "apps", Kind: "StatefulSet"}, "sts": {Group: "apps", Kind: "StatefulSet"},
	"daemonset": {Group: "apps", Kind: "DaemonSet"}, "daemonsets": {Group: "apps", Kind: "DaemonSet"}, "ds": {Group: "apps", Kind: "DaemonSet"},
	"replicaset": {Group: "apps", Kind: "ReplicaSet"}, "replicasets": {Group: "apps", Kind: "ReplicaSet"}, "rs": {Group: "apps", Kind: "ReplicaSet"},
	"replicationcontroller": {Kind: "ReplicationController"}, "replicationcontrollers": {Kind: "ReplicationController"}, "rc": {Kind: "ReplicationController"},
	"job": {Group: "batch", Kind: "Job"}, "jobs": {Group: "batch", Kind: "Job"},
	"cronjob": {Group: "batch", Kind: "CronJob"}, "cronjobs": {Group: "batch", Kind: "CronJob"}, "cj": {Group: "batch", Kind: "CronJob"},
}

// others are the kinds that are no workloads.
var others = map[string]explanation.Kind{
	"pod": explanation.OfPod, "pods": explanation.OfPod, "po": explanation.OfPod,
	"node": explanation.OfNode, "nodes": explanation.OfNode, "no": explanation.OfNode,
	"vpa": explanation.OfAutoscaler, "vpas": explanation.OfAutoscaler, "verticalpodautoscaler": explanation.OfAutoscaler, "verticalpodautoscalers": explanation.OfAutoscaler,
}

// shortKinds are the names of kinds in commands.
var shortKinds = map[string]string{"Deployment": "deploy", "StatefulSet": "sts", "DaemonSet": "ds", "ReplicaSet": "rs", "ReplicationController": "rc", "Job": "job", "CronJob": "cronjob"}

// kindNames returns the short names of the kinds that are part of Kubernetes, and of VPAs.
func kindNames() []string {
	names := []string{"node", "pod", "vpa"}
	for _, name := range shortKinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// parseReference reads "KIND/NAME" or "KIND NAME".
func parseReference(args []string) (reference, error) {
	text := strings.Join(args, "/")
	kind, name, found := strings.Cut(text, "/")
	if len(args) == 0 || len(args) > 2 || !found || kind == "" || name == "" || strings.Contains(name, "/") {
		return reference{}, process.UsageError{Err: fmt.Errorf("give one object as KIND/NAME, for example deploy/cart, pod/cart-7d9f-q8z, vpa/cart or node/n7; got %q", strings.Join(args, " "))}
	}
	r := reference{kind: strings.ToLower(kind), name: name}
	if plain, group, qualified := strings.Cut(r.kind, "."); qualified {
		r.kind, r.group = plain, group
	}
	return r, nil
}

// A subject is the object that a reference names, as it was found.
type subject struct {
	explanation.Subject
	pods       []*cluster.Pod
	autoscaler *cluster.Autoscaler
	others     []*cluster.Autoscaler // of the same workload
	governing  *cluster.Autoscaler   // the one of all these that changes pods, or nil
	namespace  string
}

// withOthers adds the other VPAs of the workload.
func (s subject) withOthers(all *cluster.Snapshot) subject {
	if s.Workload.IsZero() {
		return s
	}
	named := all.AutoscalersOf(s.Workload)
	s.governing = cluster.Governing(named, true)
	s.others = slices.DeleteFunc(slices.Clone(named), func(a *cluster.Autoscaler) bool { return a == s.autoscaler })
	return s
}

// find returns the subject of a reference.
func find(r reference, s *cluster.Snapshot, w finder) (subject, error) {
	out, err := findKind(r, s, w)
	return out.withOthers(s), err
}

func findKind(r reference, s *cluster.Snapshot, w finder) (subject, error) {
	switch kind, known := others[r.kind]; {
	case known && kind == explanation.OfPod:
		return findPod(r, s)
	case known && kind == explanation.OfNode:
		return findNode(r, s, w)
	case known:
		return findAutoscaler(r, s)
	}
	return findWorkload(r, s, w)
}

// A finder knows the controllers and the nodes of the cluster.
type finder interface {
	Nodes() []cluster.Node
	Workloads(group, kind, namespace string) []cluster.Workload
	Top(controller cluster.Workload) (cluster.Workload, bool)
}

func findPod(r reference, s *cluster.Snapshot) (subject, error) {
	var names []string
	for _, p := range s.Pods {
		if p.Namespace != r.namespace {
			continue
		}
		if p.Name == r.name {
			out := subject{pods: []*cluster.Pod{p}, autoscaler: governing(s, p.Top), namespace: r.namespace}
			out.Subject = explanation.Subject{Kind: explanation.OfPod, Name: r.namespace + "/Pod/" + r.name, Workload: p.Top, Command: command(p.Top)}
			return out, nil
		}
		names = append(names, p.Name)
	}
	return subject{}, missing("pod", r, names)
}

func findNode(r reference, s *cluster.Snapshot, w finder) (subject, error) {
	out := subject{Subject: explanation.Subject{Kind: explanation.OfNode, Name: r.name}}
	var names []string
	found := false
	for _, n := range w.Nodes() {
		names = append(names, n.Name)
		found = found || n.Name == r.name
	}
	if !found && len(names) > 0 {
		return subject{}, fmt.Errorf("there is no node %q%s", r.name, meant(r.name, names))
	}
	for _, p := range s.Pods {
		if p.Node == r.name {
			out.pods = append(out.pods, p)
		}
	}
	if !found && len(out.pods) == 0 {
		return subject{}, fmt.Errorf("there is no node %q, or nodes cannot be listed", r.name)
	}
	return out, nil
}

func findAutoscaler(r reference, s *cluster.Snapshot) (subject, error) {
	var names []string
	for _, a := range s.Autoscalers {
		if a.Namespace != r.namespace {
			continue
		}
		if a.Name == r.name {
			out := subject{pods: s.PodsOf(a.Target), autoscaler: a, namespace: r.namespace}
			out.Subject = explanation.Subject{Kind: explanation.OfAutoscaler, Name: r.namespace + "/VPA/" + r.name, Workload: a.Target, Command: command(a.Target)}
			return out, nil
		}
		names = append(names, a.Name)
	}
	return subject{}, missing("VPA", r, names)
}

func findWorkload(r reference, s *cluster.Snapshot, w finder) (subject, error) {
	target, builtin := kinds[r.kind]
	if !builtin || r.group != "" && r.group != target.Group {
		return findOther(r, s)
	}
	target.Namespace, target.Name = r.namespace, r.name
	if top, ok := w.Top(target); ok && !top.IsZero() && top != target { // for example a ReplicaSet of a Deployment
		target = top
	}
	pods := s.PodsOf(target)
	all := w.Workloads(target.Group, target.Kind, r.namespace)
	if len(pods) == 0 && len(s.AutoscalersOf(target)) == 0 && !slices.Contains(all, target) {
		var names []string
		for _, other := range all {
			names = append(names, other.Name)
		}
		return subject{}, missing(target.Kind, r, names)
	}
	return workloadSubject(target, s), nil
}

// findOther returns the subject of a kind that is not part of Kubernetes, if a pod or a VPA refers to it.
func findOther(r reference, s *cluster.Snapshot) (subject, error) {
	matches := func(w cluster.Workload) bool {
		kind := strings.ToLower(w.Kind)
		return w.Namespace == r.namespace && w.Name == r.name && (r.kind == kind || r.kind == kind+"s") && (r.group == "" || r.group == w.Group)
	}
	for _, p := range s.Pods {
		if matches(p.Top) {
			return workloadSubject(p.Top, s), nil
		}
	}
	for _, a := range s.Autoscalers {
		if matches(a.Target) {
			return workloadSubject(a.Target, s), nil
		}
	}
	known := slices.Concat(slices.Collect(maps.Keys(kinds)), slices.Collect(maps.Keys(others)))
	if near := spelling.Nearest(r.kind, known); near != "" {
		return subject{}, process.UsageError{Err: fmt.Errorf("unknown kind %q; did you mean %s/%s?", r.kind, near, r.name)}
	}
	return subject{}, fmt.Errorf("there is no %s %q with pods or a VPA in namespace %s; the kinds of Kubernetes are %s", r.kind, r.name, r.namespace, strings.Join(kindNames(), ", "))
}

func workloadSubject(target cluster.Workload, s *cluster.Snapshot) subject {
	return subject{
		Subject: explanation.Subject{Kind: explanation.OfWorkload, Name: target.String(), Workload: target, Command: command(target)},
		pods:    s.PodsOf(target), autoscaler: governing(s, target), namespace: target.Namespace,
	}
}

// governing returns the VPA that governs the pods of a workload, or the oldest one that targets it.
func governing(s *cluster.Snapshot, target cluster.Workload) *cluster.Autoscaler {
	all := s.AutoscalersOf(target)
	if a := cluster.Governing(all, true); a != nil {
		return a
	}
	return cluster.Oldest(all)
}

// command returns a workload for kubectl.
func command(w cluster.Workload) string {
	if w.IsZero() {
		return ""
	}
	if short := shortKinds[w.Kind]; short != "" {
		return short + "/" + w.Name
	}
	return strings.ToLower(w.Kind) + "." + w.Group + "/" + w.Name
}

func missing(kind string, r reference, names []string) error {
	text := fmt.Sprintf("there is no %s %q in namespace %s", kind, r.name, r.namespace)
	if near := meant(r.name, names); near != "" {
		return errors.New(text + near)
	}
	return errors.New(text + "; select the namespace with -n")
}

// meant returns a hint with the most similar name.
func meant(name string, names []string) string {
	if near := spelling.Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}
