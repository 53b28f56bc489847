// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"podfit.dev/podfit/test/e2e/invariant"
)

// A Witness collects the observations for the invariants: entries of the API server's audit log, and states of pods, their
// controllers and PodDisruptionBudgets from watches.
type Witness struct {
	cluster *Cluster

	reading sync.Mutex // guards the audit log
	read    int64      // offset of the first byte that was not read
	rest    []byte     // the incomplete last line
	facts   auditFacts
	marks   int

	watching sync.Mutex // guards states
	states   states
}

// states are the observed states of pods, their controllers and PodDisruptionBudgets.
type states struct {
	log   invariant.Log
	sizes map[string]string // of the nodes, as podfit names them
}

// Witness starts to collect observations until ctx ends. It needs Options.Audit.
func (c *Cluster) Witness(ctx context.Context) (*Witness, error) {
	if c.auditLog == "" {
		return nil, errors.New("the cluster has no audit log")
	}
	w := &Witness{cluster: c, facts: newAuditFacts()}
	var err error
	if w.states.sizes, err = c.nodeSizes(ctx); err != nil {
		return nil, err
	}
	f := informers.NewSharedInformerFactory(c, 0)
	watched := []cache.SharedIndexInformer{
		f.Core().V1().Pods().Informer(), f.Apps().V1().ReplicaSets().Informer(), f.Apps().V1().StatefulSets().Informer(),
		f.Apps().V1().DaemonSets().Informer(), f.Batch().V1().Jobs().Informer(), f.Policy().V1().PodDisruptionBudgets().Informer(),
	}
	for _, one := range watched {
		if _, err := one.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { w.saw(o, false) },
			UpdateFunc: func(_, o any) { w.saw(o, false) },
			DeleteFunc: func(o any) {
				if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}
				w.saw(o, true)
			},
		}); err != nil {
			return nil, err
		}
	}
	f.Start(ctx.Done())
	for kind, ok := range f.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return nil, fmt.Errorf("the initial list of %v is not complete", kind)
		}
	}
	return w, nil
}

// saw records a state of an object.
func (w *Witness) saw(o any, gone bool) {
	at := time.Now()
	w.watching.Lock()
	defer w.watching.Unlock()
	w.states.saw(o, at, gone)
}

// saw records a state of an object. States of other kinds are ignored.
func (s *states) saw(o any, at time.Time, gone bool) {
	controller := func(kind string, m *metav1.ObjectMeta, wanted int) {
		s.log.Controllers = append(s.log.Controllers, invariant.Controller{
			At: at, Ref: invariant.Ref{Kind: kind, Namespace: m.Namespace, Name: m.Name}, Owner: ownerOf(m), Wanted: wanted, Gone: gone,
		})
	}
	switch o := o.(type) {
	case *corev1.Pod:
		p := podFact(o, at, gone)
		if p.Controller.Kind == "DaemonSet" {
			p.Labels = maps.Clone(p.Labels)
			p.Labels[invariant.NodeSize] = s.sizes[o.Spec.NodeName]
		}
		s.log.Pods = append(s.log.Pods, p)
	case *appsv1.ReplicaSet:
		controller("ReplicaSet", &o.ObjectMeta, replicas(o.Spec.Replicas))
	case *appsv1.StatefulSet:
		controller("StatefulSet", &o.ObjectMeta, replicas(o.Spec.Replicas))
	case *appsv1.DaemonSet:
		controller("DaemonSet", &o.ObjectMeta, int(o.Status.DesiredNumberScheduled))
	case *batchv1.Job:
		controller("Job", &o.ObjectMeta, 0)
	case *policyv1.PodDisruptionBudget:
		selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
		if err != nil {
			selector = labels.Nothing()
		}
		s.log.Budgets = append(s.log.Budgets, invariant.Budget{
			At: at, Namespace: o.Namespace, Name: o.Name, Selector: selector, Healthy: int(o.Status.DesiredHealthy), Gone: gone,
		})
	}
}

// nodeSizes returns the sizes of the nodes in steps of powers of two.
func (c *Cluster) nodeSizes(ctx context.Context) (map[string]string, error) {
	all, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for i := range all.Items {
		n := &all.Items[i]
		cores, gib := 1, 1
		for float64(cores) < n.Status.Allocatable.Cpu().AsApproximateFloat64() {
			cores *= 2
		}
		for float64(gib)*(1<<30) < n.Status.Allocatable.Memory().AsApproximateFloat64() {
			gib *= 2
		}
		out[n.Name] = fmt.Sprintf("%dcpu-%dGi", cores, gib)
	}
	return out, nil
}

func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

// ownerOf returns the controller of an object.
func ownerOf(m *metav1.ObjectMeta) invariant.Ref {
	c := metav1.GetControllerOf(m)
	if c == nil {
		return invariant.Ref{}
	}
	return invariant.Ref{Kind: c.Kind, Namespace: m.Namespace, Name: c.Name}
}

func podFact(o *corev1.Pod, at time.Time, gone bool) invariant.Pod {
	p := invariant.Pod{
		At: at, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID), Controller: ownerOf(&o.ObjectMeta),
		Created: o.CreationTimestamp.Time, Labels: o.Labels, Requests: map[string]invariant.Amounts{},
		Scheduled: o.Spec.NodeName != "", Deleting: o.DeletionTimestamp != nil, Gone: gone,
		Finished: o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed,
	}
	for _, c := range o.Spec.Containers {
		p.Requests[c.Name] = amounts(c.Resources.Requests)
	}
	for _, c := range o.Status.ContainerStatuses {
		if c.Resources != nil {
			p.Requests[c.Name] = amounts(c.Resources.Requests)
		}
		p.OOM = p.OOM || oomKilled(&c)
	}
	for i, c := range o.Status.InitContainerStatuses { // a pod that has not started is sized by its init containers, too
		if spec := o.Spec.InitContainers; o.Status.Phase == corev1.PodPending && oomKilled(&c) && i < len(spec) && spec[i].Name == c.Name {
			p.OOM = true
			p.Requests[c.Name] = amounts(spec[i].Resources.Requests)
		}
	}
	p.Ready = slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	for name := range o.Annotations {
		p.Boosted = p.Boosted || strings.HasPrefix(name, "vpaCpuStartupBoost/")
	}
	p.Unreviewed = o.Annotations[Unreviewed] == "true"
	return p
}

// oomKilled reports whether the present or last termination of a container is an OOM kill.
func oomKilled(c *corev1.ContainerStatus) bool {
	return slices.ContainsFunc([]corev1.ContainerState{c.State, c.LastTerminationState}, func(s corev1.ContainerState) bool {
		return s.Terminated != nil && s.Terminated.Reason == "OOMKilled"
	})
}

// Log returns all observations until now.
func (w *Witness) Log(ctx context.Context) (invariant.Log, error) {
	w.reading.Lock()
	defer w.reading.Unlock()
	if err := w.catchUp(ctx); err != nil {
		return invariant.Log{}, err
	}
	if err := w.listOwners(ctx); err != nil {
		return invariant.Log{}, err
	}
	w.watching.Lock()
	defer w.watching.Unlock()
	return invariant.Log{
		Writes: slices.Clone(w.facts.writes), Autoscalers: slices.Clone(w.facts.autoscalers),
		Pods: slices.Clone(w.states.log.Pods), Controllers: slices.Clone(w.states.log.Controllers), Budgets: slices.Clone(w.states.log.Budgets),
	}, nil
}

// listOwners records the controllers that have owners themselves. Their watches may be a minute behind after an outage of the
// API server, and without owners the VPA of a pod is not found.
func (w *Witness) listOwners(ctx context.Context) error {
	sets, err := w.cluster.AppsV1().ReplicaSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list ReplicaSets: %w", err)
	}
	jobs, err := w.cluster.BatchV1().Jobs("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Jobs: %w", err)
	}
	w.watching.Lock()
	known := make(map[invariant.Ref]bool, len(w.states.log.Controllers))
	for i := range w.states.log.Controllers {
		known[w.states.log.Controllers[i].Ref] = true
	}
	w.watching.Unlock()
	for i := range sets.Items {
		if o := &sets.Items[i]; !known[invariant.Ref{Kind: "ReplicaSet", Namespace: o.Namespace, Name: o.Name}] {
			w.saw(o, false)
		}
	}
	for i := range jobs.Items {
		if o := &jobs.Items[i]; !known[invariant.Ref{Kind: "Job", Namespace: o.Namespace, Name: o.Name}] {
			w.saw(o, false)
		}
	}
	return nil
}

// catchUp adds a mark to the audit log and reads the log up to it.
func (w *Witness) catchUp(ctx context.Context) error {
	w.marks++
	mark := "mark-" + strconv.Itoa(w.marks)
	if _, err := w.cluster.CoreV1().ConfigMaps(markNamespace).Get(ctx, mark, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("add a mark to the audit log: %w", err)
	}
	return Until(ctx, 50*time.Millisecond, func(context.Context) error {
		if err := w.readOn(); err != nil {
			return err
		}
		if w.facts.mark != mark {
			return fmt.Errorf("the last mark in the audit log is %q, want %q", w.facts.mark, mark)
		}
		return nil
	})
}

// readOn reads new entries of the audit log.
func (w *Witness) readOn() error {
	f, err := os.Open(w.cluster.auditLog)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, w.read, 1<<40))
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	w.read += int64(len(text))
	whole, rest := lines(append(w.rest, text...))
	w.rest = bytes.Clone(rest)
	for _, line := range whole {
		err = errors.Join(err, w.facts.add(line))
	}
	return err
}
