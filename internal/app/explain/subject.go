// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/spelling"
)

// A reference is the object that the user names.
type reference struct {
	kind      string // as written, lower case
	group     string // "" if it was not written
	name      string
	namespace string
}

// A kind is one that is part of Kubernetes or of podfit.
type kind struct {
	names    []string // that kubectl accepts: first the one in commands and completions
	of       explanation.Kind
	workload cluster.Workload // with the group and the kind
	offered  bool             // by shells
}

var kinds = []kind{
	{[]string{"deploy", "deployment", "deployments"}, explanation.OfWorkload, cluster.Workload{Group: "apps", Kind: "Deployment"}, true},
	{[]string{"sts", "statefulset", "statefulsets"}, explanation.OfWorkload, cluster.Workload{Group: "apps", Kind: "StatefulSet"}, true},
	{[]string{"ds", "daemonset", "daemonsets"}, explanation.OfWorkload, cluster.Workload{Group: "apps", Kind: "DaemonSet"}, true},
	{[]string{"cronjob", "cj", "cronjobs"}, explanation.OfWorkload, cluster.Workload{Group: "batch", Kind: "CronJob"}, true},
	{[]string{"job", "jobs"}, explanation.OfWorkload, cluster.Workload{Group: "batch", Kind: "Job"}, true},
	{[]string{"rs", "replicaset", "replicasets"}, explanation.OfWorkload, cluster.Workload{Group: "apps", Kind: "ReplicaSet"}, false},
	{
		[]string{"rc", "replicationcontroller", "replicationcontrollers"}, explanation.OfWorkload,
		cluster.Workload{Kind: "ReplicationController"}, false,
	},
	{[]string{"pod", "po", "pods"}, explanation.OfPod, cluster.Workload{Kind: "Pod"}, true},
	{
		[]string{"vpa", "vpas", "verticalpodautoscaler", "verticalpodautoscalers"}, explanation.OfAutoscaler,
		cluster.Workload{Group: "autoscaling.k8s.io", Kind: "VerticalPodAutoscaler"}, true,
	},
	{[]string{"node", "no", "nodes"}, explanation.OfNode, cluster.Workload{Kind: "Node"}, true},
}

// parseReference reads "KIND/NAME" or "KIND NAME".
func parseReference(args []string) (reference, error) {
	text := strings.Join(args, "/")
	kind, name, found := strings.Cut(text, "/")
	if len(args) == 0 || len(args) > 2 || !found || kind == "" || name == "" || strings.Contains(name, "/") {
		return reference{}, process.UsageError{Err: fmt.Errorf("give one object as KIND/NAME, for example deploy/cart, pod/cart-7d9f-q8z, vpa/cart or node/n7; got %q", strings.Join(args, " "))}
	}
	r := reference{name: name}
	r.kind, r.group, _ = strings.Cut(strings.ToLower(kind), ".")
	return r, nil
}

// withAutoscalers adds the command for the workload and its VPAs. If the subject is a VPA, it has that already.
func withAutoscalers(s explanation.Subject, all *cluster.Snapshot) explanation.Subject {
	s.Command = command(s.Workload)
	named := all.AutoscalersOf(s.Workload)
	if s.Autoscaler == nil {
		s.Autoscaler = cluster.Responsible(named, true)
	}
	if s.Workload.IsZero() {
		return s
	}
	s.Governing = cluster.Governing(named, true)
	s.Others = slices.DeleteFunc(slices.Clone(named), func(a *cluster.Autoscaler) bool { return a == s.Autoscaler })
	return s
}

// find returns the subject of a reference. If it is in other namespaces, the error names them.
func find(r reference, s *cluster.Snapshot, w finder) (explanation.Subject, error) {
	out, err := findKind(r, s, w)
	var not notFound
	if !errors.As(err, &not) {
		return out, err
	}
	if in := namespacesWith(r, s, w); len(in) > 0 {
		not.hint = fmt.Sprintf("; found in %s: podfit explain %s/%s -n %s", wording.List(in, 3), r.kind, r.name, in[0])
	}
	return out, not
}

// A notFound is the error for a reference to an object that does not exist.
type notFound struct{ text, hint string }

// Error implements error.
func (n notFound) Error() string { return n.text + n.hint }

// namespacesWith returns the other namespaces that have an object as a reference says.
func namespacesWith(r reference, s *cluster.Snapshot, w finder) (in []string) {
	namedPods := slices.DeleteFunc(slices.Clone(s.Pods), func(p *cluster.Pod) bool {
		return p.Name != r.name && p.Controller.Name != r.name && p.Top.Name != r.name
	})
	namedVPAs := slices.DeleteFunc(slices.Clone(s.Autoscalers), func(a *cluster.Autoscaler) bool { return a.Name != r.name && a.Target.Name != r.name })
	pods := cluster.GroupBy(namedPods, func(p *cluster.Pod) string { return p.Namespace })
	autoscalers := cluster.GroupBy(namedVPAs, func(a *cluster.Autoscaler) string { return a.Namespace })
	candidates := slices.AppendSeq(slices.Collect(maps.Keys(pods)), maps.Keys(autoscalers)) // namespaces that have something with the name
	for i := range kinds {
		for _, known := range w.Workloads(kinds[i].workload.Group, kinds[i].workload.Kind, "") {
			if known.Name == r.name {
				candidates = append(candidates, known.Namespace)
			}
		}
	}
	slices.Sort(candidates)
	for _, r.namespace = range slices.Compact(candidates) {
		if _, err := findKind(r, cluster.NewSnapshot(pods[r.namespace], autoscalers[r.namespace]), w); err == nil {
			in = append(in, r.namespace)
		}
	}
	return in
}

func findKind(r reference, s *cluster.Snapshot, w finder) (explanation.Subject, error) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return slices.Contains(k.names, r.kind) })
	switch {
	case i < 0:
		return findOther(r, s)
	case kinds[i].of == explanation.OfPod:
		out, err := findPod(r, s)
		of := cluster.OwnerByName(cluster.Key{Namespace: r.namespace, Name: r.name})
		if not := (notFound{}); errors.As(err, &not) && slices.Contains(w.Workloads(of.Group, of.Kind, r.namespace), of) {
			err = notFound{not.text, "; its name is like those of the pods of " + of.Kind + " " + of.Name + ". Run: " + toExplain(of)}
		}
		return out, err
	case kinds[i].of == explanation.OfNode:
		return findNode(r, s, w)
	case kinds[i].of == explanation.OfAutoscaler:
		return findAutoscaler(r, s)
	case r.group != "" && r.group != kinds[i].workload.Group:
		return findOther(r, s)
	}
	return findWorkload(r, kinds[i].workload, s, w)
}

// A finder knows the controllers and the nodes of the cluster.
type finder interface {
	Nodes() []cluster.Node
	Workloads(group, kind, namespace string) []cluster.Workload
	Top(controller cluster.Workload) (cluster.Workload, bool)
}

func findPod(r reference, s *cluster.Snapshot) (explanation.Subject, error) {
	in := slices.DeleteFunc(slices.Clone(s.Pods), func(p *cluster.Pod) bool { return p.Namespace != r.namespace })
	at := slices.IndexFunc(in, func(p *cluster.Pod) bool { return p.Name == r.name })
	if at < 0 {
		return explanation.Subject{}, missing("pod", r, cluster.Each(in, func(p **cluster.Pod) string { return (*p).Name }))
	}
	return withAutoscalers(explanation.Subject{
		Kind: explanation.OfPod, Name: r.namespace + "/Pod/" + r.name, Namespace: r.namespace, Workload: in[at].Top, Pods: in[at : at+1],
	}, s), nil
}

func findNode(r reference, s *cluster.Snapshot, w finder) (explanation.Subject, error) {
	names := cluster.Each(w.Nodes(), func(n *cluster.Node) string { return n.Name })
	found := slices.Contains(names, r.name)
	if !found && len(names) > 0 {
		return explanation.Subject{}, fmt.Errorf("there is no node %q%s", r.name, spelling.Hint(r.name, names))
	}
	pods := slices.DeleteFunc(slices.Clone(s.Pods), func(p *cluster.Pod) bool { return p.Node != r.name })
	if !found && len(pods) == 0 {
		return explanation.Subject{}, fmt.Errorf("node %q is not known: no pod on it can be read, and no node can be listed. Check its name, and your rights: kubectl auth can-i list nodes", r.name)
	}
	return explanation.Subject{Kind: explanation.OfNode, Name: r.name, Pods: pods}, nil
}

func findAutoscaler(r reference, s *cluster.Snapshot) (explanation.Subject, error) {
	in := slices.DeleteFunc(slices.Clone(s.Autoscalers), func(a *cluster.Autoscaler) bool { return a.Namespace != r.namespace })
	at := slices.IndexFunc(in, func(a *cluster.Autoscaler) bool { return a.Name == r.name })
	if at < 0 {
		return explanation.Subject{}, missing("VPA", r, cluster.Each(in, func(a **cluster.Autoscaler) string { return (*a).Name }))
	}
	return withAutoscalers(explanation.Subject{
		Kind: explanation.OfAutoscaler, Name: r.namespace + "/VPA/" + r.name, Namespace: r.namespace, Workload: in[at].Target,
		Pods: s.PodsOf(in[at].Target), Autoscaler: in[at],
	}, s), nil
}

func findWorkload(r reference, target cluster.Workload, s *cluster.Snapshot, w finder) (explanation.Subject, error) {
	target.Namespace = r.namespace
	target.Name = r.name
	if top, ok := w.Top(target); ok && !top.IsZero() && top != target { // for example a ReplicaSet of a Deployment
		target = top
	}
	pods := s.PodsOf(target)
	all := w.Workloads(target.Group, target.Kind, r.namespace)
	if len(pods) == 0 && len(s.AutoscalersOf(target)) == 0 && !slices.Contains(all, target) {
		names := cluster.Each(all, func(other *cluster.Workload) string { return other.Name })
		return explanation.Subject{}, missing(target.Kind, r, names)
	}
	return workloadSubject(target, s), nil
}

// findOther returns the subject of a kind that is not part of Kubernetes, if a pod or a VPA refers to it.
func findOther(r reference, s *cluster.Snapshot) (explanation.Subject, error) {
	matches := func(w cluster.Workload) bool {
		kind := strings.ToLower(w.Kind)
		return w.Namespace == r.namespace && w.Name == r.name && (r.kind == kind || r.kind == kind+"s") && (r.group == "" || r.group == w.Group)
	}
	if i := slices.IndexFunc(s.Pods, func(p *cluster.Pod) bool { return matches(p.Top) }); i >= 0 {
		return workloadSubject(s.Pods[i].Top, s), nil
	}
	if i := slices.IndexFunc(s.Autoscalers, func(a *cluster.Autoscaler) bool { return matches(a.Target) }); i >= 0 {
		return workloadSubject(s.Autoscalers[i].Target, s), nil
	}
	known := slices.Concat(cluster.Each(kinds, func(k *kind) []string { return k.names })...)
	if near := spelling.Nearest(r.kind, known); near != "" {
		return explanation.Subject{}, process.UsageError{Err: fmt.Errorf("unknown kind %q; did you mean %s/%s?", r.kind, near, r.name)}
	}
	text := fmt.Sprintf("there is no %s %q with pods or a VPA in namespace %s", r.kind, r.name, r.namespace)
	names := slices.Sorted(slices.Values(cluster.Each(kinds, func(k *kind) string { return k.names[0] })))
	return explanation.Subject{}, notFound{text, "; the kinds of Kubernetes are " + strings.Join(names, ", ")}
}

func workloadSubject(target cluster.Workload, s *cluster.Snapshot) explanation.Subject {
	return withAutoscalers(explanation.Subject{
		Kind: explanation.OfWorkload, Name: target.String(), Namespace: target.Namespace, Workload: target, Pods: s.PodsOf(target),
	}, s)
}

func command(w cluster.Workload) string {
	if w.IsZero() {
		return ""
	}
	named := func(k kind) bool {
		return k.of == explanation.OfWorkload && k.workload == cluster.Workload{Group: w.Group, Kind: w.Kind}
	}
	if i := slices.IndexFunc(kinds, named); i >= 0 {
		return kinds[i].names[0] + "/" + w.Name
	}
	return strings.TrimRight(strings.ToLower(w.Kind)+"."+w.Group, ".") + "/" + w.Name
}

func toExplain(w cluster.Workload) string {
	return "podfit explain " + wording.ShellWord(command(w)) + " -n " + wording.ShellWord(w.Namespace)
}

func missing(kind string, r reference, names []string) error {
	text := fmt.Sprintf("there is no %s %q in namespace %s", kind, r.name, r.namespace)
	return notFound{text, cmp.Or(spelling.Hint(r.name, names), "; select the namespace with -n")}
}
