// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/actuation"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// podfit runs podfit's updater in a simulation, with its own API client.
type podfit struct {
	update    func(context.Context, time.Time) []decision.Decision
	view      *view
	events    map[string][]string // texts of events on autoscalers and pods, by namespace
	decisions map[string]decision.Decision
}

// podfitTransport is the transport of podfit's client.
var podfitTransport = new(connection)

var podfitClients = sync.OnceValue(func() *kube.Clients {
	return must(kube.ClientsFor(&rest.Config{Host: "http://simulation", Transport: podfitTransport, QPS: -1}))
})

func newPodfit(s *simulation) *podfit {
	podfitTransport.to = s
	s.keepsSizeOverQuota = s.world.Quotas
	w := s.world
	c := updater.Defaults()
	if !w.Defaults {
		c = configured(w)
	}
	if slices.ContainsFunc(w.Workloads, func(x workload) bool { return x.AfterOOM > 0 }) {
		c.Gates = process.Gates{process.InPlaceGate: !w.Defaults, process.PerVPAConfig: true}
	}
	p := &podfit{
		view:   &view{sim: s, in: new(projection.Interner), pods: map[*corev1.Pod]*cluster.Pod{}, vpas: map[*vpav1.VerticalPodAutoscaler]*cluster.Autoscaler{}},
		events: map[string][]string{},
	}
	p.update = updater.NewPass(c, p.view, actuation.NewPodWriter(podfitClients()), p, p, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	return p
}

// configured returns the flags of podfit in a world without its defaults.
func configured(w *world) updater.Config {
	c := updater.Defaults()
	c.Budget.MinReplicas, c.Budget.Tolerance, c.Budget.SkipInPlace = w.Min, w.Tolerance, w.SkipBudget
	if w.Rate > 0 {
		c.RateLimit = w.Rate / 60
	}
	c.UseStatus = false
	if !w.Rescue {
		c.OOMRescue = "off" // upstream's rules for OOM kills
	}
	c.Gates = process.Gates{process.InPlaceGate: true}
	return c
}

func (p *podfit) pass(ctx context.Context) {
	clear(p.decisions)
	p.decided(p.update(ctx, time.Now()))
}

// decided stores the decisions of a pass, by UID.
func (p *podfit) decided(ds []decision.Decision) {
	if p.decisions == nil {
		p.decisions = make(map[string]decision.Decision, len(ds))
	}
	for _, d := range ds {
		p.decisions[d.Pod.UID] = d
	}
}

func (p *podfit) IsFresh(context.Context, time.Duration, time.Time) (bool, error) { return true, nil }

func (p *podfit) event(namespace, text string) {
	s := p.view.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	p.events[namespace] = append(p.events[namespace], text)
	s.note("event in %s: %s", namespace, text)
}

func (p *podfit) ResizeSkipped(*cluster.Pod) {}
func (p *podfit) Changed(d *decision.Decision) {
	if d.Do == decision.Delete || d.Do == decision.Surge {
		p.event(d.Pod.Namespace, d.Do.String()+" "+d.Pod.Name)
	}
}

func (p *podfit) Pod(o *cluster.Pod, reason, message string) {
	p.event(o.Namespace, reason+" "+o.Name+": "+message)
}
func (p *podfit) Autoscaler(a *cluster.Autoscaler, reason, message string) {
	p.event(a.Namespace, reason+": "+message)
}

// A view is the state of a simulation as podfit's watches show it.
type view struct {
	sim    *simulation
	in     *projection.Interner
	pods   map[*corev1.Pod]*cluster.Pod
	latest map[string]*cluster.Pod // by UID
	vpas   map[*vpav1.VerticalPodAutoscaler]*cluster.Autoscaler
}

func (v *view) Snapshot() *cluster.Snapshot {
	var pods []*cluster.Pod
	var vpas []*cluster.Autoscaler
	watched := v.sim.watched()
	seen := make(map[*corev1.Pod]*cluster.Pod, len(watched))
	latest := make(map[string]*cluster.Pod, len(watched))
	for _, p := range watched {
		o := v.pods[p]
		if o == nil {
			o = projection.Pod(p, v.in)
			kind, name := v.sim.workload(p.Namespace).target()
			projection.CountKills(v.latest[o.UID], o)
			o.Top = cluster.Workload{Group: "apps", Kind: kind, Namespace: p.Namespace, Name: name}
		}
		seen[p] = o
		latest[o.UID] = o
		pods = append(pods, o)
	}
	v.pods, v.latest = seen, latest
	for _, w := range v.sim.workloads {
		a := v.vpas[w.vpa]
		if a == nil {
			a = parsed(w.vpa)
			v.vpas[w.vpa] = a
		}
		vpas = append(vpas, a)
	}
	return cluster.NewSnapshot(pods, vpas)
}

// parsed reads an autoscaler of upstream's types as podfit does.
func parsed(o *vpav1.VerticalPodAutoscaler) *cluster.Autoscaler {
	ours := new(v1.VerticalPodAutoscaler)
	if err := json.Unmarshal(must(json.Marshal(o)), ours); err != nil {
		panic(err)
	}
	return projection.Autoscaler(ours)
}

// workload returns the workload of a namespace.
func (s *simulation) workload(namespace string) *simulated {
	for _, w := range s.workloads {
		if w.namespace == namespace {
			return w
		}
	}
	return nil
}

func (v *view) Scale(controller cluster.Workload) cluster.Scale {
	return cluster.Scale{Known: true, Replicas: int32(v.sim.workload(controller.Namespace).Replicas)}
}

func (v *view) Limits(namespace string) cluster.LimitRange {
	var l cluster.LimitRange
	if most := v.sim.workload(namespace).MostMB; most > 0 {
		l.Container.Max = cluster.Resources{}.Set(cluster.Memory, most<<20)
	}
	return l
}

// KnowsQuotas reports whether podfit may watch ResourceQuotas.
func (v *view) KnowsQuotas() bool { return v.sim.world.Quotas }

// Quotas returns nil without the permission to watch ResourceQuotas, which upstream's roles do not include.
func (v *view) Quotas(namespace string) *cluster.Quotas {
	if !v.sim.world.Quotas {
		return nil
	}
	w, known := v.sim.workload(namespace), new(cluster.Quotas)
	if w.hard == 0 {
		return known
	}
	left := w.hard
	for _, p := range v.sim.watched() {
		if p.Namespace == namespace {
			left -= cpu(p)
		}
	}
	known.List = []cluster.Quota{{Name: "compute", Left: cluster.PodResources{Requests: cluster.Resources{}.Set(cluster.CPU, left)}}}
	return known
}

// DisruptionBudgets returns none without the permission to watch them, which upstream's roles do not include.
func (v *view) DisruptionBudgets(namespace string) ([]cluster.DisruptionBudget, bool) {
	if !v.sim.world.Rescue {
		return nil, false
	}
	var out []cluster.DisruptionBudget
	w := v.sim.workload(namespace)
	for i, b := range w.PDBs {
		healthy, desired := w.health(b)
		o := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("pdb-%d", i), Generation: 1},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name()}}},
			Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: int32(healthy), DesiredHealthy: int32(desired)},
		}
		if b.FirstOnly {
			o.Spec.Selector.MatchLabels["replica"] = "0"
		}
		out = append(out, projection.DisruptionBudget(o, v.in))
	}
	return out, true
}

func (v *view) Selectors() []cluster.NodeSelector { return nil }

// NewNodes returns no nodes that can be added.
func (v *view) NewNodes() ([]cluster.NewNode, bool) { return nil, true }

// Daemons returns no DaemonSets.
func (v *view) Daemons() []cluster.Daemon { return nil }

func (v *view) Tolerations() []cluster.Tolerations { return nil }

func (v *view) Rules(a *cluster.Autoscaler) rollout.Rules { return rollout.Rules{Autoscaler: a} }

func (v *view) Nodes() []cluster.Node {
	w := v.sim.world
	if w.Nodes == 0 {
		return []cluster.Node{{Name: "n0", Allocatable: cluster.Amounts(1<<30, 1<<50), Ready: true}}
	}
	var out []cluster.Node
	for n := range w.Nodes {
		out = append(out, cluster.Node{Name: nodeName(n), Allocatable: w.Node.resources(), Ready: true})
	}
	return out
}
