// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package updater is the job that applies recommendations to running pods: it resizes them in place or evicts them.
//
// core/plan decides which pods change. This package carries out the decisions and reports their outcomes. It takes no decisions
// about sizes or disruptions. The packages below it order the actions, ask for capacity, and write what belongs to a pass besides pods:
// update states, Deployments of surges, targets of HPAs, and the condition Updating.
package updater

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/nodeusage"
	"podfit.dev/podfit/internal/app/updater/provision"
	"podfit.dev/podfit/internal/app/updater/queue"
	"podfit.dev/podfit/internal/app/updater/scalepoint"
	"podfit.dev/podfit/internal/app/updater/summary"
	"podfit.dev/podfit/internal/app/updater/surges"
	"podfit.dev/podfit/internal/app/updater/throttling"
	"podfit.dev/podfit/internal/app/updater/updatestate"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/radius"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/core/surge"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/actuation"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/event"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/kubelet"
	"podfit.dev/podfit/internal/edge/metrics"
)

// NewCommand returns "podfit updater".
func NewCommand(s process.Streams) *cobra.Command {
	c := Defaults()
	return process.LongRunning{
		Use: "updater", Short: "Apply recommendations to running pods",
		Long: `Compares running pods with the recommendations of their VerticalPodAutoscaler
objects. Depending on the update mode, it resizes pods in place or evicts them.
It respects disruption budgets, minimum replica counts and rate limits, and
changes no pods while the admission controller does not renew its status lease.
With --dry-run it only logs the changes that it would make.`,
		Config: &c, Common: func() *process.Common { return &c.Common }, Address: func() string { return c.Address },
		Prepare: func(ctx context.Context, p *process.Process) (func(context.Context) error, error) {
			c.settle()
			clients, world, err := c.Common.Connect(ctx, p, "updater", watcher.Options{
				Pods: watcher.LivePods, Nodes: true, NodeGroups: true, Limits: true, Quotas: true, Budgets: true, Rules: true, Profiles: true, FreezeSwitch: c.FreezeSwitch(),
			})
			if err != nil {
				return nil, err
			}
			c.Tables = s.Out
			work := Work(&c, p, clients, world)
			return func(ctx context.Context) error {
				return process.WithWorld(ctx, world, func(ctx context.Context) error {
					return process.Lead(ctx, p, c.Election, clients.Leases, work)
				})
			}, nil
		},
	}.Command(s)
}

// Work returns the updater's work: one pass per interval, and an early pass when the cluster has changed so that a pod may be updated.
func Work(c *Config, p *process.Process, clients *kube.Clients, world *watcher.World) func(context.Context) error {
	m := NewMetrics(p.Registry)
	h := p.HealthFor("updater", c.Interval)
	return func(ctx context.Context) error {
		defer h.Disarm()
		if err := world.WaitSynced(ctx); err != nil {
			return process.Ended(ctx, err)
		}
		events := event.NewRecorder(clients)
		defer events.Stop()
		u := newUpdater(*c, world, actuation.NewPodWriter(clients), events,
			kube.NewLease(clients, process.OwnNamespace(c.StatusNamespace), c.StatusName), m, h, p.Log)
		u.stale = world.Stale
		if !c.ReadOnly {
			u.actuators.scalePoints = scalepoint.New(world, actuation.NewHorizontalWriter(clients), &u.config.Common, u.budget.StartupBoost, h, p.Log)
			u.actuators.surges = surges.New(world, actuation.NewDeploymentWriter(clients), u.actuators.pods, &u.config.Common, m.surges, h, p.Log)
			u.rights.checker = clients
		}
		u.actuators.replacements = actuation.NewReplacements(clients)
		u.preemption.reader = clients
		u.conditions.writer = world
		u.conditions.profileNames = world.ProfileNames
		u.connectCapacity(clients)
		usage, err := metrics.New(clients.Config, clients.HTTP, "")
		if err != nil {
			return err
		}
		kubelets, err := kubelet.New(clients.Config, c.KubeletInsecure)
		if err != nil {
			return err
		}
		u.nodeUsage = nodeusage.New(usage, kubelets, c.usageWait(), h, p.Log)
		u.reportUnknownRoom()
		if !c.DryRun {
			store, err := newStateStore(c, clients, p.Log)
			if err != nil {
				return err
			}
			u.states = updatestate.New(store, true, m.states, p.Log)
		}
		if err := u.loadStates(ctx); err != nil {
			return process.Ended(ctx, err)
		}
		u.assumeChanges(time.Now())
		u.conditions.summaries = summary.NewWriter(world, h, p.Log)
		if u.throttling, err = newThrottling(c, h, p.Log); err != nil {
			return err
		}
		beside, stop := context.WithCancel(ctx)
		var workers sync.WaitGroup
		workers.Go(func() { u.conditions.summaries.Run(beside) })
		workers.Go(func() { u.throttling.Run(beside) })
		defer workers.Wait()
		defer stop()
		defer m.publishNodes(nil, 0) // another leader publishes these
		u.loop(ctx, world, p.Recovering("updater", u.pass))
		u.states.Save(ctx, time.Now(), u.ledger, u.budget.Delays, true)
		return nil
	}
}

func newStateStore(c *Config, clients *kube.Clients, log *slog.Logger) (*checkpoint.States, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read the host name for UpdateState objects: %w", err)
	}
	return checkpoint.NewStates(clients, checkpoint.StorageOptions{Namespace: c.Namespace, Ignored: c.IgnoredNamespaces, Log: log}, host), nil
}

// maxWorkers is the number of pods that are changed concurrently, so that the wait for one answer does not delay the next
// request.
const maxWorkers = 10

// world is the state of the cluster that the updater reads.
type world interface {
	Snapshot() *cluster.Snapshot
	Scale(controller cluster.Workload) cluster.Scale
	Limits(namespace string) cluster.LimitRange
	Quotas(namespace string) *cluster.Quotas // nil: there are none, or they are not known
	KnowsQuotas() bool
	DisruptionBudgets(namespace string) (all []cluster.DisruptionBudget, known bool)
	Rules(*cluster.Autoscaler) rollout.Rules // the current ones
	watcher.Nodes
}

type podChanger interface {
	Resize(context.Context, *cluster.Pod, []policy.Fitted) error
	Evict(context.Context, *cluster.Pod) error
	Delete(context.Context, *cluster.Pod) error
	Annotate(ctx context.Context, p *cluster.Pod, set map[string]string, remove ...string) error
}

type replacementDryRunner interface {
	DryRun(context.Context, *cluster.Pod) (*cluster.Pod, error)
}

type eventRecorder interface {
	Changed(*decision.Decision)
	ResizeSkipped(*cluster.Pod)
	Pod(p *cluster.Pod, reason, message string)
	Autoscaler(a *cluster.Autoscaler, reason, message string)
}

type noEvents struct{}

func (noEvents) Changed(*decision.Decision)                     {}
func (noEvents) ResizeSkipped(*cluster.Pod)                     {}
func (noEvents) Pod(*cluster.Pod, string, string)               {}
func (noEvents) Autoscaler(*cluster.Autoscaler, string, string) {}

// statusLease is the status lease of the admission controller.
type statusLease interface {
	IsFresh(ctx context.Context, timeout time.Duration, now time.Time) (bool, error)
}

// updater applies recommendations to running pods, one pass per tick. It is owned by one goroutine.
type updater struct {
	config     Config
	budget     plan.Budget
	world      world
	actuators  actuators
	ledger     *ledger.Ledger
	states     *updatestate.Recorder
	rates      *queue.Rates
	metrics    *Metrics
	health     *process.Health
	log        *slog.Logger
	report     *reporter
	conditions conditionReporter
	capacity   *provision.Provider // asks for capacity before evictions
	pending    pendingTimes        // of replacements
	rights     rights              // for features that upstream does not have
	preemption preemption
	throttling *throttling.Observer // nil: there is no Prometheus
	nodeUsage  *nodeusage.Observer  // nil: nodes are not watched

	readiness
	pace
}

type actuators struct {
	pods         podChanger
	replacements replacementDryRunner // nil: replacements are not created in dry runs
	scalePoints  *scalepoint.Adjuster // nil: no HPA is changed
	surges       *surges.Surger       // nil: no pod is surged
}

// readiness is whether pods may be changed, and why the last passes were skipped.
type readiness struct {
	lease       statusLease
	stale       func(now time.Time) []string // returns the watched resources that are not up to date; nil: all are
	paused      bool                         // the last pass was skipped because the status lease was not valid
	outdated    bool                         // the last pass was skipped because a watch was not up to date
	wasCurrent  bool                         // all watches have been up to date once
	pausedSince time.Time                    // the first of the last passes that were skipped in a row; zero if the last one was not
}

func newUpdater(c Config, w world, pods podChanger, events eventRecorder, lease statusLease, m *Metrics, h *process.Health, log *slog.Logger) *updater {
	u := &updater{
		config: c, budget: c.budget(), world: w, actuators: actuators{pods: pods}, readiness: readiness{lease: lease}, ledger: ledger.New(),
		rates: queue.NewRates(c.RateLimit, c.RateBurst), metrics: m, health: h, log: log, states: updatestate.New(nil, false, m.states, log),
		report: newReporter(&c, events, log),
		rights: rights{missing: map[int]bool{}, reported: map[int]bool{}},
	}
	u.capacity = provision.New(c.CapacityBeforeEviction == capacityOff, c.DryRun, log)
	u.conditions = conditionReporter{
		config: &u.config, health: h, log: log, rollouts: reports[rolloutReport]{}, rescues: reports[rescueState]{},
	}
	return u
}

// NewPass returns a function that runs one pass of the updater and returns its decisions, for callers that control the time. It registers the
// metrics of the updater with reg.
func NewPass(
	c Config, w world, pods podChanger, events eventRecorder, lease statusLease, reg *prometheus.Registry, log *slog.Logger,
) func(context.Context, time.Time) []decision.Decision {
	return newUpdater(c, w, pods, events, lease, NewMetrics(reg), process.NewHealth(5*c.Interval), log).update
}

// budget returns the budget of the passes: Config.Budget, with what follows from other flags.
func (c *Config) budget() plan.Budget {
	b := c.Budget
	b.Window = c.Interval - c.Interval/10
	b.UpstreamRules = c.Rules == rulesUpstream
	b.BackoffMax = max(b.BackoffMax, b.EvictionBackoff)
	b.Rescue = rescueModes[c.OOMRescue]
	b.MakeRoom, _ = room.ParseAllowed(c.MakeRoom) // Validate accepts no other values
	b.Mover = surge.Mover(c.Mover)
	b.InPlace = c.Gates.On(process.InPlaceGate)
	b.PerVPAConfig = c.Gates.On(process.PerVPAConfig)
	b.StartupBoost = c.Gates.On(process.CPUStartupBoost)
	return b
}

// served returns the autoscalers of the watched namespaces that change pods.
func (u *updater) served(all []*cluster.Autoscaler) []*cluster.Autoscaler {
	return slices.DeleteFunc(slices.Clone(all), func(a *cluster.Autoscaler) bool {
		return !u.config.Serves(a.Namespace) || !a.ChangesPods(u.budget.StartupBoost)
	})
}

// seen returns the autoscalers of the watched namespaces.
func (u *updater) seen(of []*cluster.Autoscaler) map[cluster.Key]*cluster.Autoscaler {
	all := make(map[cluster.Key]*cluster.Autoscaler, len(of))
	for _, a := range of {
		if u.config.Serves(a.Namespace) {
			all[a.Key] = a
		}
	}
	return all
}

// gather returns the part of the cluster that a pass decides on: the served autoscalers, their pods, and the limits, scales and
// nodes that apply to them.
func (u *updater) gather(s *cluster.Snapshot, served []*cluster.Autoscaler) plan.World {
	u.report.unownedPods(s.Pods, served)
	w := plan.World{
		Governed:    cluster.Gather(served, s.Pods, u.budget.StartupBoost),
		Limits:      map[string]policy.Limits{},
		Scales:      map[cluster.Workload]cluster.Scale{},
		Budgets:     map[string][]cluster.DisruptionBudget{},
		Nodes:       u.world.Nodes(),
		Selectors:   u.world.Selectors(),
		Tolerations: u.world.Tolerations(),
		Rules:       make(map[cluster.Key]rollout.Rules, len(served)),
		Fleet:       watcher.Fleet(u.world, u.config.NodeFit.Options()),
		Ledger:      u.ledger,
	}
	if u.config.WatchesAllPods() {
		w.Pods = s.Pods
	}
	if u.budget.LimitsRadius() {
		w.Requested = radius.RequestedBy(s.Pods)
	}
	addScale := func(controller cluster.Workload) {
		if _, known := w.Scales[controller]; !known && !controller.IsZero() {
			w.Scales[controller] = u.world.Scale(controller)
		}
	}
	for i := range w.Governed {
		g := &w.Governed[i]
		w.Rules[g.Autoscaler.Key] = u.world.Rules(g.Autoscaler)
		if ns := g.Autoscaler.Namespace; w.Limits[ns] == (policy.Limits{}) {
			w.Limits[ns] = policy.Limits{Range: u.world.Limits(ns), Quotas: u.world.Quotas(ns), QuotasUnknown: !u.world.KnowsQuotas()}
		}
		for _, p := range g.Pods {
			addScale(p.Controller)
			u.addBudgets(w.Budgets, p)
		}
	}
	for _, controller := range u.ledger.MissingReplacements() {
		addScale(controller)
	}
	return w
}

// addBudgets adds the disruption budgets of the namespace of an OOM-killed pod, if they are known.
func (u *updater) addBudgets(budgets map[string][]cluster.DisruptionBudget, p *cluster.Pod) {
	if _, added := budgets[p.Namespace]; added || p.Crash == nil {
		return
	}
	if all, known := u.world.DisruptionBudgets(p.Namespace); known {
		budgets[p.Namespace] = all
	}
}

func (u *updater) pass(ctx context.Context, now time.Time) { u.update(ctx, now) }

// update compares every governed pod with its recommendation, carries out the decisions and returns them. It returns none if pods may
// not be changed now.
func (u *updater) update(ctx context.Context, now time.Time) []decision.Decision {
	u.health.Active(now)
	leading := ctx
	// A request that hangs must not delay the next pass without limit. The next pass decides on the remaining pods again.
	ctx, cancel := context.WithTimeout(ctx, max(u.config.Interval, time.Minute))
	defer cancel()
	watch := process.NewStopwatch(u.metrics.execution)
	watch.Health = u.health
	defer watch.Total()
	clock := passClock{began: time.Now()}
	defer func() { u.cost = clock.cost() }()
	if !u.isCurrent(now) {
		u.pauses(now, "the watches of the updater are not complete yet, or may be out of date")
		return nil
	}
	var inProgress *surge.State
	ready := false
	clock.waiting(func() {
		u.checkRights(ctx, now)
		inProgress = u.advanceSurges(ctx, now) // a surge ends even if no other pod may change
		ready = u.ready(ctx, now)
	})
	if !ready {
		u.pauses(now, "the status lease of the admission controller is not valid, so new pods may not get their recommendation")
		return nil
	}
	u.pausedSince = time.Time{}
	watch.Step("AdmissionInit")
	s := u.world.Snapshot()
	served := u.actuators.scalePoints.MarkUnwritable(now, u.served(s.Autoscalers))
	u.metrics.byAutoscaler.retain(now, s.Autoscalers)
	watch.Step("ListVPAs")
	w := u.gather(s, served)
	w.Surges = inProgress
	w.Throttling = u.throttling.Answers()
	clock.waiting(func() { u.watchNodes(leading, now, &w) })
	clock.waiting(func() { w.SchedulerPreempts = u.schedulerPreempts(ctx, now, served) })
	w.Unannounced = u.states.Unannounced(now)
	w.NotStored = !u.config.DryRun && !u.states.IsActive()
	w.Provider, w.Requests = u.capacity.Check(ctx, now)
	watch.Step("ListPods")
	pass := plan.Begin(now, w, u.budget)
	u.reportFailures(pass.Failures)
	decisions := pass.Decisions()
	pass.Learn()
	u.pending.observe(now, decisions, func(took time.Duration, capacity string) {
		u.metrics.pending.WithLabelValues(capacity).Observe(took.Seconds())
	})
	watch.Step("FilterPods")
	e := newExecution(u, now, clock.began, pass, w.Governed, decisions)
	e.publishPlan(w, decisions)
	u.report.planned(pass.Rooms)
	u.report.annotations(served)
	u.report.missing(pass.Shortages())
	u.awaitChanges(now, decisions, inProgress)
	clock.waiting(func() {
		e.guard = u.actuators.scalePoints.Prepare(ctx, now, s, w.Governed, decisions)
		u.restore(u.states.LoadAgain(ctx))
		u.states.Begin(now, u.ledger, u.budget.Delays, actedOn(decisions, pass.CapacitySteps()))
		e.diagnose(ctx)
		e.execute(ctx)
	})
	u.awaitChanges(now, decisions, inProgress)
	u.ledger.PassEnded(decisions)
	clock.waiting(func() { u.states.Save(leading, now, u.ledger, u.budget.Delays, false) })
	e.publishOutcome(decisions)
	if u.config.Journal != nil {
		u.config.Journal(now, decisions)
	}
	all := u.seen(s.Autoscalers)
	clock.waiting(func() { u.conditions.writeRescues(ctx, now, all, decisions) })
	clock.waiting(func() { e.reportRollouts(ctx, now, w, all) })
	u.throttling.Ask(u.ledger.ThrottlingQueries(now, w.Governed))
	e.summarizeUpdates(now, s.Autoscalers, decisions)
	e.finish()
	watch.Step("EvictPods")
	if ctx.Err() == nil {
		u.health.Completed(time.Now())
	}
	return decisions
}

// watchNodes shows the memory usage of nodes to the node guard, and publishes what it finds.
func (u *updater) watchNodes(ctx context.Context, now time.Time, w *plan.World) {
	if u.config.guardsNodes() {
		unguarded := u.nodeUsage.Watch(ctx, now, w, &u.ledger.Guard, !u.rights.missing[featureNodeGuard])
		u.metrics.publishNodes(u.ledger.Guard.Alarms, unguarded)
	}
}

// reportFailures counts and logs the internal errors because of which the pods of an autoscaler get no decision.
func (u *updater) reportFailures(failures []plan.Failure) {
	for _, f := range failures {
		process.Skipped(u.log, u.health, f.Autoscaler.Key.String(), f.Cause, f.Stack)
	}
}

// loadStates restores the stored states, before the first pass.
func (u *updater) loadStates(ctx context.Context) error {
	stored, err := u.states.Load(ctx)
	if err == nil {
		u.restore(stored)
	}
	return err
}

// restore adds stored states to the ledger. Only the targets of served autoscalers can have a state that matters, which bounds the
// memory for it.
func (u *updater) restore(stored []ledger.State) {
	if len(stored) == 0 {
		return
	}
	targets := cluster.SetOf(u.served(u.world.Snapshot().Autoscalers), func(a *cluster.Autoscaler) cluster.Workload { return a.Target })
	stored = slices.DeleteFunc(stored, func(s ledger.State) bool { return !targets[s.Workload] })
	u.ledger.Restore(time.Now(), stored)
	if len(stored) > 0 {
		u.log.Info("Loaded the stored UpdateState objects", slog.Int("count", len(stored)))
	}
}

// actedOn returns the workloads on which a pass acts, and those for which it creates requests for capacity, with the creation of their newest pod; zero
// if none has a decision.
func actedOn(decisions []decision.Decision, steps []headroom.Step) map[cluster.Workload]time.Time {
	newest := map[cluster.Workload]time.Time{}
	for i := range decisions {
		if decisions[i].Do != decision.Leave {
			newest[decisions[i].Pod.Workload()] = time.Time{}
		}
	}
	for i := range steps {
		if steps[i].Request == nil {
			newest[steps[i].Pod.Workload()] = time.Time{}
		}
	}
	if len(newest) == 0 {
		return nil
	}
	for i := range decisions {
		w := decisions[i].Pod.Workload()
		if at, acted := newest[w]; acted {
			newest[w] = cluster.Latest(at, decisions[i].Pod.Created)
		}
	}
	return newest
}

// ready reports whether pods may be changed: only while the status lease shows that new pods get their recommendation at admission.
func (u *updater) ready(ctx context.Context, now time.Time) bool {
	if !u.config.UseStatus {
		return true
	}
	fresh, err := u.lease.IsFresh(ctx, u.config.StatusTimeout, now)
	if fresh {
		if u.paused {
			u.log.Info("The status lease of the admission controller is valid again; updating pods")
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
		log := u.log.With(slog.String("lease", process.OwnNamespace(u.config.StatusNamespace)+"/"+u.config.StatusName), slog.String("reason", reason))
		if err != nil {
			log = log.With(slog.Any("error", err))
		}
		log.Warn("Not updating pods: the status lease of the admission controller is not valid, so new pods may not get their recommendation")
	}
	u.paused = true
	return false
}

// advanceSurges carries out the next step of each surge in progress. It returns what the plan must know about surges; nil if no surge may
// begin.
func (u *updater) advanceSurges(ctx context.Context, now time.Time) *surge.State {
	if u.actuators.surges == nil {
		return nil
	}
	inProgress, failed := u.actuators.surges.Advance(ctx, now)
	for _, f := range failed {
		if f.Pod != nil {
			u.ledger.SurgeFailed(now, f.Pod, f.Reason)
		}
	}
	if u.rights.missing[featureSurges] && inProgress != nil && len(inProgress.Active) == 0 {
		return nil
	}
	return inProgress
}
