// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/time/rate"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// NewCommand returns "podfit updater".
func NewCommand(s process.Streams) *cobra.Command {
	c := Defaults()
	return process.LongRunning{
		Use: "updater", Short: "Apply recommendations to running pods",
		Long: `Compares running pods with the recommendations of their VerticalPodAutoscaler objects. Depending on the update mode,
it resizes pods in place or evicts them. It respects disruption budgets, minimum replica counts and rate limits, and
changes no pods while the admission controller does not renew its status lease. With --dry-run it only logs the changes
that it would make.`,
		Config: &c, Common: func() *process.Common { return &c.Common }, Address: func() string { return c.Address },
		Prepare: func(p *process.Process) (func(context.Context) error, error) {
			c.settle()
			clients, err := c.Common.Connect(p.Log, "updater")
			if err != nil {
				return nil, err
			}
			world := watcher.NewWorld(clients, c.Common.Watched(watcher.Options{Pods: watcher.LivePods, Nodes: true, Limits: true, Quotas: true, Log: p.Log}))
			p.Registry.MustRegister(process.NewWatchMetrics(world))
			work := Work(&c, p, clients, world)
			return func(ctx context.Context) error {
				return process.WithWorld(ctx, world, func(ctx context.Context) error {
					return process.Lead(ctx, p, c.Election, clients.Leases, work)
				})
			}, nil
		},
	}.Command(s)
}

// Work returns the updater's work: one pass per interval.
func Work(c *Config, p *process.Process, clients *kube.Clients, world *watcher.World) func(context.Context) error {
	m := NewMetrics(p.Registry)
	h := p.HealthFor("updater", c.Interval)
	return func(ctx context.Context) error {
		defer h.Disarm()
		if err := world.WaitSynced(ctx); err != nil {
			return process.Ended(ctx, err)
		}
		events := kube.NewEvents(clients)
		defer events.Stop()
		u := newUpdater(*c, world, kube.NewActor(clients), events,
			kube.NewLease(clients, process.OwnNamespace(c.StatusNamespace), c.StatusName), m, h, p.Log)
		u.stale = world.Stale
		process.Every(ctx, c.Interval, p.Recovering("updater", u.pass))
		return nil
	}
}

// maxWorkers is how many pods are changed at a time. The API server and the disruption budget set the pace, not
// the wait for one answer after the other.
const maxWorkers = 10

// world is what the updater reads of the cluster.
type world interface {
	Snapshot() *cluster.Snapshot
	Scale(controller cluster.Workload) cluster.Scale
	Limits(namespace string) cluster.LimitRange
	Quotas(namespace string) *cluster.Quotas // nil: not known
	Nodes() []cluster.Node
	Selectors() [][]string
	Tolerations() []cluster.Tolerations
}

// podChanger changes running pods.
type podChanger interface {
	Resize(context.Context, *cluster.Pod, []policy.Fitted) error
	Evict(context.Context, *cluster.Pod) error
	Annotate(ctx context.Context, p *cluster.Pod, set map[string]string, remove ...string) error
}

// teller tells users what was done, and what was not.
type eventRecorder interface {
	Evicted(*cluster.Pod, *cluster.Autoscaler)
	Resized(*cluster.Pod)
	ResizeSkipped(*cluster.Pod)
	Pod(p *cluster.Pod, reason, message string)
	Autoscaler(a *cluster.Autoscaler, reason, message string)
}

// silence tells nobody anything.
type noEvents struct{}

func (noEvents) Evicted(*cluster.Pod, *cluster.Autoscaler)      {}
func (noEvents) Resized(*cluster.Pod)                           {}
func (noEvents) ResizeSkipped(*cluster.Pod)                     {}
func (noEvents) Pod(*cluster.Pod, string, string)               {}
func (noEvents) Autoscaler(*cluster.Autoscaler, string, string) {}

// signOfLife says whether the admission controller works.
type statusLease interface {
	IsFresh(ctx context.Context, timeout time.Duration, now time.Time) (bool, error)
}

// updater applies recommendations to running pods, one pass per tick. One goroutine owns it.
type updater struct {
	config       Config
	decided      func([]plan.Decision) // is called with the decisions of each pass; nil in production
	budget       plan.Budget
	world        world
	pods         podChanger
	events       eventRecorder
	lease        statusLease
	ledger       *plan.Ledger
	evicts       *rate.Limiter
	resizes      *rate.Limiter
	metrics      *Metrics
	health       *process.Health
	log          *slog.Logger
	dryRunLogged map[string]intent                        // what a dry run would have done last with each pod, by UID
	paused       bool                                     // the last pass was left out because the admission controller does not work
	left         map[string]remark                        // why each pod that should change was left in the last pass, by UID
	held         map[cluster.Key]map[plan.ReasonCode]bool // what each autoscaler was told about pods that are left, since one was changed
	fallback     map[cluster.Key]bool                     // autoscalers whose users were told that pods are evicted because they cannot be resized
	short        map[cluster.Workload]bool                // controllers without replacements of evicted pods that users were told of
	orphans      map[string]bool                          // pods without an owner that have been told so, by UID

	stale    func(now time.Time) []string // the watched resources that are not up to date; nil: all are
	outdated bool                         // the last pass was left out because some were not
}

func newUpdater(c Config, w world, pods podChanger, tell eventRecorder, life statusLease, m *Metrics, h *process.Health, log *slog.Logger) *updater {
	limit, burst := rate.Inf, 0
	if c.RateLimit > 0 {
		limit, burst = rate.Limit(c.RateLimit), c.RateBurst
	}
	if c.DryRun {
		tell = noEvents{}
	}
	return &updater{
		config: c, budget: c.budget(), world: w, pods: pods, events: tell, lease: life, ledger: plan.NewLedger(),
		evicts: rate.NewLimiter(limit, burst), resizes: rate.NewLimiter(limit, burst),
		metrics: m, health: h, log: log, dryRunLogged: map[string]intent{}, left: map[string]remark{}, held: map[cluster.Key]map[plan.ReasonCode]bool{}, fallback: map[cluster.Key]bool{}, short: map[cluster.Workload]bool{}, orphans: map[string]bool{},
	}
}

// An Updater is the updater's work in single steps, for those who keep the time themselves.
type Updater struct{ u *updater }

// New returns an updater that reads the cluster from w, changes pods through pods, tells users through tell and
// asks life whether the admission controller works. Its metrics go to reg.
func New(c Config, w world, pods podChanger, tell eventRecorder, life statusLease, reg *prometheus.Registry, log *slog.Logger) *Updater {
	return &Updater{newUpdater(c, w, pods, tell, life, NewMetrics(reg), process.NewHealth(5*c.Interval), log)}
}

// Decided has each pass call see with its decisions after they were carried out. They are only valid during the call.
func (u *Updater) Decided(see func([]plan.Decision)) { u.u.decided = see }

// Pass compares every governed pod with its recommendation at the time now, and carries out what follows.
func (u *Updater) Pass(ctx context.Context, now time.Time) { u.u.pass(ctx, now) }

// budget returns the rules by which pods may be disturbed.
func (c *Config) budget() plan.Budget {
	b := plan.DefaultBudget()
	b.MinReplicas, b.Tolerance = c.MinReplicas, c.EvictionTolerance
	b.Threshold, b.Lifetime, b.QuickOOM = c.UpdateThreshold, c.LifetimeThreshold, c.EvictAfterOOM
	b.SkipInPlace = c.SkipDisruptionBudget
	b.MustFit = c.ReplacementMustFit
	b.InPlace, b.PerVPAConfig, b.StartupBoost = c.Gates.On(process.InPlaceGate), c.Gates.On(process.PerVPAConfig), c.Gates.On(process.CPUStartupBoost)
	return b
}

// served returns the autoscalers of the watched namespaces that change pods.
func (u *updater) served(all []*cluster.Autoscaler) []*cluster.Autoscaler {
	return slices.DeleteFunc(slices.Clone(all), func(a *cluster.Autoscaler) bool {
		return !u.config.Serves(a.Namespace) || !a.ChangesPods(u.budget.StartupBoost)
	})
}

// gather returns the part of a snapshot that autoscalers govern, and what surrounds it.
func (u *updater) gather(s *cluster.Snapshot, served []*cluster.Autoscaler) plan.World {
	u.tellOrphans(s.Pods, served)
	w := plan.World{
		Governed: plan.Gather(served, s.Pods, u.budget.StartupBoost),
		Limits:   map[string]policy.Limits{},
		Scales:   map[cluster.Workload]cluster.Scale{},
		Nodes:    u.world.Nodes(),
		Ledger:   u.ledger,
		Failed:   u.undecided,
	}
	for i := range w.Governed {
		g := &w.Governed[i]
		if ns := g.Autoscaler.Namespace; w.Limits[ns] == (policy.Limits{}) {
			w.Limits[ns] = policy.Limits{Range: u.world.Limits(ns), Quotas: u.world.Quotas(ns)}
		}
		for _, p := range g.Pods {
			if _, known := w.Scales[p.Controller]; !known && !p.Controller.IsZero() {
				w.Scales[p.Controller] = u.world.Scale(p.Controller)
			}
		}
	}
	for _, controller := range u.ledger.Owing() {
		if _, known := w.Scales[controller]; !known {
			w.Scales[controller] = u.world.Scale(controller)
		}
	}
	w.Selectors = u.world.Selectors()
	w.Tolerations = u.world.Tolerations()
	return w
}

// tellOrphans tells pods without an owner, once, that no autoscaler can size them: where there are autoscalers, somebody
// may wait for it.
func (u *updater) tellOrphans(pods []*cluster.Pod, served []*cluster.Autoscaler) {
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
			u.events.Pod(p, eventNotAutoscaled, "No controller owns this pod, so no VerticalPodAutoscaler can size it.")
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
	watch := process.NewStopwatch(u.metrics.execution)
	watch.Health = u.health
	defer watch.Total()
	if !u.ready(ctx, now) {
		return
	}
	watch.Step("AdmissionInit")
	s := u.world.Snapshot()
	served := u.served(s.Autoscalers)
	u.metrics.byAutoscaler.retain(now, s.Autoscalers)
	watch.Step("ListVPAs")
	w := u.gather(s, served)
	watch.Step("ListPods")
	pass := plan.Begin(now, w, u.budget)
	decisions := pass.Decisions()
	u.ledger.Learn(now, w, decisions)
	watch.Step("FilterPods")
	r := execution{updater: u, now: now, pass: pass, size: make(map[cluster.Key]string, len(w.Governed)), exists: make(map[string]bool, len(decisions))}
	for i := range decisions {
		r.exists[decisions[i].Pod.UID] = true
	}
	for i := range w.Governed {
		r.size[w.Governed[i].Autoscaler.Key] = process.SizeLog2(len(w.Governed[i].Pods))
	}
	r.report(w, decisions)
	r.tellShortages(pass.Shortages())
	r.execute(ctx)
	r.explain(decisions)
	if u.decided != nil {
		u.decided(decisions)
	}
	r.finish()
	watch.Step("EvictPods")
	if ctx.Err() == nil {
		u.health.Completed(time.Now())
	}
}

// undecided counts and logs that an internal error kept the pods of an autoscaler from being decided on.
func (u *updater) undecided(a *cluster.Autoscaler, cause any) {
	process.Skipped(u.log, u.health, a.Key.String(), cause)
}

// ready reports whether pods may be changed: only while what is known of the cluster is up to date, and new pods get their
// recommendation at admission.
func (u *updater) ready(ctx context.Context, now time.Time) bool {
	if !u.current(now) {
		return false
	}
	if !u.config.UseStatus {
		return true
	}
	fresh, err := u.lease.IsFresh(ctx, u.config.StatusTimeout, now)
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
		log := u.log.With(slog.String("lease", process.OwnNamespace(u.config.StatusNamespace)+"/"+u.config.StatusName), slog.String("reason", reason))
		if err != nil {
			log = log.With(slog.Any("error", err))
		}
		log.Warn("Not updating pods: the admission controller is not known to work, so new pods would not get their recommendation")
	}
	u.paused = true
	return false
}
