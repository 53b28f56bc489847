// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
)

func newUpdaterCommand(s Streams) *cobra.Command {
	c := UpdaterDefaults()
	return longRunning{
		use: "updater", short: "Apply recommendations to running pods",
		long: `Compares running pods with what their VerticalPodAutoscaler recommends, and resizes them in place or evicts them,
as the update mode says. It keeps to disruption budgets, replica minima and rate limits, and does nothing while the
admission controller is not known to work. With --dry-run it only says what it would do.`,
		config: &c, common: func() *Common { return &c.Common }, address: func() string { return c.Address },
		prepare: func(p *process) (func(context.Context) error, error) {
			clients, err := c.Common.connect("updater")
			if err != nil {
				return nil, err
			}
			world := kube.NewWorld(clients, c.Common.watched(kube.Options{Pods: kube.LivePods, Nodes: true, Limits: true, Log: p.log}))
			work := updating(&c, p, clients, world)
			return func(ctx context.Context) error {
				return withWorld(ctx, world, func(ctx context.Context) error {
					return lead(ctx, p.log, c.Election, clients.Leases, work)
				})
			}, nil
		},
	}.command(s)
}

// updating returns the updater's work: one pass per interval.
func updating(c *UpdaterConfig, p *process, clients *kube.Clients, world *kube.World) func(context.Context) error {
	m := newUpdaterMetrics(p.reg)
	h := p.healthFor(c.Interval)
	return func(ctx context.Context) error {
		defer h.Disarm()
		if err := world.WaitSynced(ctx); err != nil {
			return ended(ctx, err)
		}
		events := kube.NewEvents(clients)
		defer events.Stop()
		u := newUpdater(*c, world, kube.NewActor(clients), events,
			kube.NewLease(clients, ownNamespace(c.StatusNamespace), c.StatusName), m, h, p.log)
		every(ctx, c.Interval, u.pass)
		return nil
	}
}

// updaterWorkers is how many pods are changed at a time. The API server and the disruption budget set the pace, not
// the wait for one answer after the other.
const updaterWorkers = 10

// updaterWorld is what the updater reads of the cluster.
type updaterWorld interface {
	Snapshot() *kube.Snapshot
	Scale(controller cluster.Workload) cluster.Scale
	Limits(namespace string) cluster.LimitRange
	Nodes() []cluster.Node
}

// podChanger changes running pods.
type podChanger interface {
	Resize(context.Context, *cluster.Pod, []policy.Fitted) error
	Evict(context.Context, *cluster.Pod) error
	Annotate(ctx context.Context, p *cluster.Pod, set map[string]string, remove ...string) error
}

// teller tells users what was done, and what was not.
type teller interface {
	Evicted(*cluster.Pod, *cluster.Autoscaler)
	Resized(*cluster.Pod)
	ResizeSkipped(*cluster.Pod)
	Pod(p *cluster.Pod, reason, message string)
	Autoscaler(a *cluster.Autoscaler, reason, message string)
}

// signOfLife says whether the admission controller works.
type signOfLife interface {
	IsFresh(ctx context.Context, timeout time.Duration, now time.Time) (bool, error)
}

// updater applies recommendations to running pods, one pass per tick. One goroutine owns it.
type updater struct {
	config  UpdaterConfig
	budget  plan.Budget
	world   updaterWorld
	pods    podChanger
	tell    teller
	life    signOfLife
	ledger  *plan.Ledger
	evicts  *rate.Limiter
	resizes *rate.Limiter
	metrics *updaterMetrics
	health  *Health
	log     *slog.Logger
	paused  bool                     // the last pass was left out because the admission controller does not work
	left    map[string]plan.Why      // why each pod that should change was left in the last pass, by UID
	held    map[cluster.Key]plan.Why // what each autoscaler was last told about pods that are left
	guarded map[string]bool          // pods that a disruption budget was in the way of, by UID
	orphans map[string]bool          // pods without an owner that have been told so, by UID
}

func newUpdater(c UpdaterConfig, w updaterWorld, pods podChanger, tell teller, life signOfLife, m *updaterMetrics, h *Health, log *slog.Logger) *updater {
	limit, burst := rate.Inf, 0
	if c.RateLimit > 0 {
		limit, burst = rate.Limit(c.RateLimit), c.RateBurst
	}
	return &updater{
		config: c, budget: c.budget(), world: w, pods: pods, tell: tell, life: life, ledger: plan.NewLedger(),
		evicts: rate.NewLimiter(limit, burst), resizes: rate.NewLimiter(limit, burst),
		metrics: m, health: h, log: log, left: map[string]plan.Why{}, held: map[cluster.Key]plan.Why{}, guarded: map[string]bool{}, orphans: map[string]bool{},
	}
}

// budget returns the rules by which pods may be disturbed.
func (c *UpdaterConfig) budget() plan.Budget {
	b := plan.DefaultBudget()
	b.MinReplicas, b.Tolerance = c.MinReplicas, c.EvictionTolerance
	b.Threshold, b.Lifetime, b.QuickOOM = c.UpdateThreshold, c.LifetimeThreshold, c.EvictAfterOOM
	b.SkipInPlace = c.SkipDisruptionBudget
	b.InPlace, b.PerVPAConfig, b.StartupBoost = c.Gates.On(InPlaceGate), c.Gates.On(PerVPAConfig), c.Gates.On(CPUStartupBoost)
	return b
}

// gather returns the governed part of the cluster as it stands now.
func (u *updater) gather() plan.World {
	s := u.world.Snapshot()
	// The same choice as at admission: an autoscaler that applies nothing leaves its pods to another.
	served := slices.DeleteFunc(slices.Clone(s.Autoscalers), func(a *cluster.Autoscaler) bool {
		return !u.config.Serves(a.Namespace) || a.Mode == cluster.Off && !policy.Boosts(a)
	})
	u.tellOrphans(s.Pods, served)
	w := plan.World{
		Governed: plan.Gather(served, s.Pods),
		Limits:   map[string]policy.Limits{},
		Scales:   map[cluster.Workload]cluster.Scale{},
		Nodes:    u.world.Nodes(),
		Ledger:   u.ledger,
	}
	for i := range w.Governed {
		g := &w.Governed[i]
		if ns := g.Autoscaler.Namespace; w.Limits[ns] == (policy.Limits{}) {
			w.Limits[ns] = policy.Limits{Range: u.world.Limits(ns)}
		}
		for _, p := range g.Pods {
			if _, known := w.Scales[p.Controller]; !known && !p.Controller.IsZero() {
				w.Scales[p.Controller] = u.world.Scale(p.Controller)
			}
		}
	}
	return w
}

// tellOrphans tells pods without an owner, once, that no autoscaler can size them: where there are autoscalers, somebody
// may wait for it.
func (u *updater) tellOrphans(pods []*cluster.Pod, served []*cluster.Autoscaler) {
	if u.config.DryRun {
		return
	}
	autoscaled := make(map[string]bool, len(served))
	for _, a := range served {
		autoscaled[a.Namespace] = true
	}
	seen := map[string]bool{}
	for _, p := range pods {
		if !p.Controller.IsZero() || !autoscaled[p.Namespace] || !p.Live() {
			continue
		}
		seen[p.UID] = true
		if !u.orphans[p.UID] {
			u.tell.Pod(p, "NotAutoscaled", "No controller owns this pod, so no VerticalPodAutoscaler can size it.")
		}
	}
	u.orphans = seen
}

// pass compares every governed pod with its recommendation and carries out what was decided.
func (u *updater) pass(ctx context.Context, now time.Time) {
	u.health.Active(now)
	// A pass that hangs must not delay the next for ever; the changes it did not come to are decided anew.
	ctx, cancel := context.WithTimeout(ctx, max(u.config.Interval, time.Minute))
	defer cancel()
	watch := newStopwatch(u.metrics.execution)
	defer watch.total()
	if !u.ready(ctx, now) {
		return
	}
	watch.step("AdmissionInit")
	w := u.gather()
	watch.step("ListPods")
	decisions := plan.Plan(now, w, u.budget)
	u.ledger.Learn(now, decisions)
	watch.step("FilterPods")
	r := round{updater: u, now: now, size: make(map[cluster.Key]string, len(w.Governed)), exists: make(map[string]bool, len(decisions))}
	for i := range decisions {
		r.exists[decisions[i].Pod.UID] = true
	}
	for i := range w.Governed {
		r.size[w.Governed[i].Autoscaler.Key] = sizeLog2(len(w.Governed[i].Pods))
	}
	r.report(w, decisions)
	r.execute(ctx, decisions)
	r.finish()
	watch.step("EvictPods")
	u.health.Active(time.Now())
}

// ready reports whether pods may be changed: only while new pods get their recommendation at admission.
func (u *updater) ready(ctx context.Context, now time.Time) bool {
	if !u.config.UseStatus {
		return true
	}
	fresh, err := u.life.IsFresh(ctx, u.config.StatusTimeout, now)
	if fresh {
		if u.paused {
			u.log.Info("The admission controller works again; updating pods")
		}
		u.paused = false
		return true
	}
	reason := "invalid"
	if err != nil {
		reason = "error"
	}
	u.metrics.statusInvalid.WithLabelValues(reason).Inc()
	if !u.paused && ctx.Err() == nil {
		log := u.log.With("lease", ownNamespace(u.config.StatusNamespace)+"/"+u.config.StatusName, "reason", reason)
		if err != nil {
			log = log.With("error", err)
		}
		log.Warn("Not updating pods: the admission controller is not known to work, so new pods would not get their recommendation")
	}
	u.paused = true
	return false
}

// round is what one pass does.
type round struct {
	*updater
	now    time.Time
	size   map[cluster.Key]string // the size class of each autoscaler
	exists map[string]bool        // the governed pods, by UID

	mu      sync.Mutex // guards the ledger and what follows while pods are changed
	evicted map[cluster.Key]plan.Decision
	resized map[cluster.Key]plan.Decision
}

// report publishes what was decided, before it is done.
func (r *round) report(w plan.World, ds []plan.Decision) {
	m := r.metrics
	controlled, evictable, withEvictable := newTally(m.controlled), newTally(m.evictable), newTally(m.withEvictable)
	resizable, withResizable := newTally(m.resizable), newTally(m.withResizable)
	for i := range w.Governed {
		g := &w.Governed[i]
		controlled.add(r.size[g.Autoscaler.Key], g.Autoscaler.Mode.String(), len(g.Pods))
		m.begin(g.Autoscaler, len(g.Pods))
	}
	type seen struct {
		a  cluster.Key
		do plan.Act
	}
	first := map[seen]bool{}
	left := make(map[string]plan.Why, len(r.left))
	m.decisions.Reset()
	for i := range ds {
		d := &ds[i]
		m.decisions.WithLabelValues(d.Do.String(), d.Reason.Why.String()).Inc()
		size, mode := r.size[d.Autoscaler.Key], d.Autoscaler.Mode.String()
		key := seen{d.Autoscaler.Key, d.Do}
		switch d.Do {
		case plan.Evict:
			evictable.add(size, mode, 1)
			if !first[key] {
				withEvictable.add(size, mode, 1)
			}
		case plan.Resize:
			resizable.add(size, "", 1)
			if !first[key] {
				withResizable.add(size, "", 1)
			}
		case plan.Leave:
			left[d.Pod.UID] = d.Reason.Why
			r.leave(d)
		}
		first[key] = true
	}
	r.left = left
	controlled.publish(true)
	evictable.publish(true)
	withEvictable.publish(true)
	resizable.publish(false)
	withResizable.publish(false)
}

// leave says why a pod that should change is left alone: in the log when the reason is new for the pod, and to the
// autoscaler's users when it is one that they may want to do something about.
func (r *round) leave(d *plan.Decision) {
	if d.Reason.Why == plan.NotSmallerThanRefused {
		a := d.Autoscaler
		r.metrics.infeasibleSkip.WithLabelValues(r.size[a.Key], a.Name, a.Namespace).Inc()
		if r.left[d.Pod.UID] != d.Reason.Why {
			r.tell.ResizeSkipped(d.Pod)
		}
	}
	if d.Wanted.Why == plan.Fits || r.left[d.Pod.UID] == d.Reason.Why {
		return
	}
	r.log.Info("Left a pod as it is", "do", d.Do.String(), "pod", d.Pod.Key.String(), "vpa", d.Autoscaler.Key.String(),
		"reason", d.Reason.String(), "wanted", d.Wanted.String())
	if !hindrances[d.Reason.Why] || r.held[d.Autoscaler.Key] == d.Reason.Why || r.config.DryRun {
		return
	}
	r.held[d.Autoscaler.Key] = d.Reason.Why
	r.tell.Autoscaler(d.Autoscaler, "UpdateHeld", "Pod "+d.Pod.Name+" is not updated: "+d.Reason.String())
}

// hindrances are the reasons to leave a pod that do not pass by themselves, or that mean that something is wrong.
var hindrances = map[plan.Why]bool{
	plan.BackingOff: true, plan.Unplaceable: true, plan.QoSChange: true, plan.Unowned: true, plan.TooFewReplicas: true,
	plan.ReplicasUnknown: true, plan.ResizeImpossible: true, plan.MemoryInUse: true, plan.NotSmallerThanRefused: true,
	plan.SameSize: true, plan.GateOff: true, plan.Unscheduled: true,
}

// execute carries out what is to be done, in order, a few pods at a time.
func (r *round) execute(ctx context.Context, ds []plan.Decision) {
	r.evicted, r.resized = map[cluster.Key]plan.Decision{}, map[cluster.Key]plan.Decision{}
	var g, unboost errgroup.Group
	g.SetLimit(updaterWorkers)
	unboost.SetLimit(max(r.config.BoostSyncs, 1))
	for _, d := range ds {
		if d.Do == plan.Leave {
			continue
		}
		if r.config.DryRun {
			r.logger(&d).Info("Would change a pod")
			continue
		}
		if !r.afford(ctx, &d) {
			break
		}
		group := &g
		if len(d.Unboost) > 0 {
			group = &unboost
		}
		group.Go(func() error {
			r.do(ctx, d)
			return nil
		})
	}
	_, _ = g.Wait(), unboost.Wait() // what went wrong was counted and logged where it happened
}

func (r *round) logger(d *plan.Decision) *slog.Logger {
	return r.log.With("do", d.Do.String(), "pod", d.Pod.Key.String(), "vpa", d.Autoscaler.Key.String(), "reason", d.Reason.String())
}

// afford waits for the rate limit of a decision. It returns false when the pass ends first; the rest is decided anew in
// the next.
func (r *round) afford(ctx context.Context, d *plan.Decision) bool {
	limiter, failure := r.evicts, "EvictionRateLimiterWaitFailed"
	if d.Do == plan.Resize {
		limiter, failure = r.resizes, "InPlaceUpdateRateLimiterWaitFailed"
	}
	if err := limiter.Wait(ctx); err != nil {
		r.failed(d, failure)
		r.log.Debug("The rate limit ends this pass", "error", err)
		return false
	}
	return true
}

// do carries out one decision.
func (r *round) do(ctx context.Context, d plan.Decision) {
	if d.Do == plan.Resize && r.resize(ctx, &d) {
		return
	}
	if d.Do == plan.Evict {
		r.evict(ctx, &d)
	}
}

// resize resizes a pod. When that cannot be and the decision allows it, it turns the decision into an eviction and
// returns false.
func (r *round) resize(ctx context.Context, d *plan.Decision) (settled bool) {
	err := r.pods.Resize(ctx, d.Pod, d.With)
	if err == nil {
		var over []string
		for _, c := range d.Unboost {
			over = append(over, policy.BoostAnnotation+c)
		}
		if err := r.pods.Annotate(ctx, d.Pod, map[string]string{annotationInPlace: "true"}, over...); err != nil && !errors.Is(err, kube.ErrNotFound) {
			r.logger(d).Warn("Resized a pod in place, but cannot annotate it", "error", err)
		} else {
			r.logger(d).Info("Resized a pod in place")
		}
		r.tell.Resized(d.Pod)
		r.done(d, r.resized)
		r.metrics.resized.WithLabelValues(r.size[d.Autoscaler.Key], d.Autoscaler.Name, d.Autoscaler.Namespace).Inc()
		return true
	}
	if errors.Is(err, kube.ErrNotFound) || errors.Is(err, kube.ErrConflict) || ctx.Err() != nil {
		r.logger(d).Debug("A pod was gone before it could be resized", "error", err)
		return true
	}
	// What the API server refuses for good is remembered; a server that is busy will have time again.
	never := errors.Is(err, kube.ErrNodeCapacity)
	lasting := never || errors.Is(err, kube.ErrInvalid) || errors.Is(err, kube.ErrUnsupported) || errors.Is(err, kube.ErrForbidden)
	r.mu.Lock()
	switch {
	case never:
		r.ledger.Refused(r.now, *d)
	case lasting:
		r.ledger.Failed(r.now, *d)
	}
	r.mu.Unlock()
	switch {
	case len(d.Unboost) > 0:
		r.failed(d, "UnboostError")
	case never:
		r.failed(d, "InPlaceUpdateInfeasible")
	default:
		r.failed(d, "InPlaceUpdateError")
	}
	if !d.Fallback || !lasting {
		r.logger(d).Warn("Cannot resize a pod in place", "failed", err)
		return true
	}
	r.logger(d).Info("Cannot resize a pod in place; it is evicted instead", "failed", err)
	d.Do = plan.Evict
	return !r.afford(ctx, d)
}

func (r *round) evict(ctx context.Context, d *plan.Decision) {
	err := r.pods.Evict(ctx, d.Pod)
	switch {
	case err == nil:
	case errors.Is(err, kube.ErrNotFound), errors.Is(err, kube.ErrConflict), ctx.Err() != nil:
		r.logger(d).Debug("A pod was gone before it could be evicted", "error", err)
		return
	case errors.Is(err, kube.ErrBudget):
		r.failed(d, "EvictionError")
		if r.firstTime(d.Pod) {
			r.logger(d).Info("A disruption budget does not allow to evict a pod now", "failed", err)
		}
		return
	default:
		r.failed(d, "EvictionError")
		r.logger(d).Warn("Cannot evict a pod", "failed", err)
		return
	}
	r.logger(d).Info("Evicted a pod")
	r.tell.Evicted(d.Pod, d.Autoscaler)
	r.done(d, r.evicted)
	r.metrics.evicted.WithLabelValues(r.size[d.Autoscaler.Key], d.Autoscaler.Mode.String(), d.Autoscaler.Name, d.Autoscaler.Namespace).Inc()
}

// firstTime reports whether a disruption budget has not been in the way of this pod before.
func (r *round) firstTime(p *cluster.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.guarded[p.UID] {
		return false
	}
	r.guarded[p.UID] = true
	return true
}

// annotationInPlace marks pods that were resized in place, as upstream does.
const annotationInPlace = "vpaInPlaceUpdated"

// done notes a decision that was carried out.
func (r *round) done(d *plan.Decision, by map[cluster.Key]plan.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledger.Done(r.now, *d)
	by[d.Autoscaler.Key] = *d
	delete(r.held, d.Autoscaler.Key)
}

// failed counts an attempt that did not succeed.
func (r *round) failed(d *plan.Decision, reason string) {
	a, size := d.Autoscaler, r.size[d.Autoscaler.Key]
	if d.Do == plan.Resize {
		r.metrics.resizeFailed.WithLabelValues(size, reason, a.Name, a.Namespace).Inc()
		return
	}
	r.metrics.evictFailed.WithLabelValues(size, a.Mode.String(), reason, a.Name, a.Namespace).Inc()
}

// finish publishes what was done.
func (r *round) finish() {
	withEvicted, withResized := newTally(r.metrics.withEvicted), newTally(r.metrics.withResized)
	for key, d := range r.evicted {
		withEvicted.add(r.size[key], d.Autoscaler.Mode.String(), 1)
	}
	for key := range r.resized {
		withResized.add(r.size[key], "", 1)
	}
	withEvicted.publish(true)
	withResized.publish(false)
	maps.DeleteFunc(r.guarded, func(uid string, _ bool) bool { return !r.exists[uid] })
	maps.DeleteFunc(r.held, func(key cluster.Key, _ plan.Why) bool { _, governed := r.size[key]; return !governed })
}
