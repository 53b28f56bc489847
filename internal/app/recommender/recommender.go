// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package recommender contains the recommender: it reads usage and writes recommendations to the status of
// VerticalPodAutoscaler objects.
//
// It reads the cluster through edge packages. Package history loads and stores the usage history. It makes no decisions about sizes:
// core/sizing selects the profile and the model state of each workload, and core/recommend computes the recommendation.
package recommender

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender/contention"
	"podfit.dev/podfit/internal/app/recommender/forecast"
	"podfit.dev/podfit/internal/app/recommender/grouping"
	"podfit.dev/podfit/internal/app/recommender/history"
	"podfit.dev/podfit/internal/app/recommender/standby"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/metrics"
)

// world is the cluster: the recommender reads it, and writes recommendations to it.
type world interface {
	Snapshot() *cluster.Snapshot
	Stale(time.Time) []string
	TargetProblem(*cluster.Autoscaler) (problem string, known bool)
	Limits(namespace string) cluster.LimitRange
	Scale(cluster.Workload) cluster.Scale
	MemoryEvictions() []usage.OOM
	watcher.Nodes
	WriteStatus(context.Context, *cluster.Autoscaler, []cluster.Advice, time.Time, ...watcher.Condition) (bool, error)
	WriteConditions(context.Context, *cluster.Autoscaler, time.Time, ...watcher.Condition) (bool, error)
}

type sampler interface {
	Samples(context.Context) ([]usage.Sample, error)
}

type dependencies struct {
	world    world
	listed   func(context.Context) ([]kube.SizingProfile, error) // the SizingProfiles
	storage  history.Storage
	backfill *history.Backfill // nil: usage history is loaded from checkpoints
	metrics  *Metrics
	exporter *Exporter            // nil: recommendations are not exported
	observer *contention.Observer // nil: there is no Prometheus
	kubelets *kubelets            // nil: they are not read
	forecast *forecast.Usage      // gets the samples; nil: nobody needs them
	waiting  *standby.Readings    // the usage from before this term; nil: there is none
	health   *process.Health
	log      *slog.Logger

	// source returns the sampler. It reads at least the pods of the autoscalers that serves returns true for.
	source func(serves func(*cluster.Autoscaler) bool) sampler
}

// recommender computes recommendations from usage, one pass per tick. One goroutine owns it.
type recommender struct {
	dependencies
	config       Config
	catalog      *sizing.Catalog
	workloads    sizing.Workloads
	profiles     *profileReader
	usageStore   *usage.Store
	groups       *grouping.Book
	usage        sampler
	checkpointer *history.Checkpointer
	contention   *contention.Reporter
	pace         sizing.Pace

	tracked  map[cluster.Key]bool      // pods in the usage store
	governed map[cluster.Workload]bool // targets of served autoscalers in the last pass
	prunedAt time.Time
	outage   error    // why usage could not be read in the last pass
	rejected []uint64 // rejected samples that the metrics contain, by reason

	writtenStatuses
}

// NewCommand returns "podfit recommender".
func NewCommand(s process.Streams) *cobra.Command {
	c := Defaults()
	return process.LongRunning{
		Use: "recommender", Short: "Measure usage and write recommendations to VPAs",
		Long: `Reads usage from the Metrics API, keeps a decaying usage history for each
container of each workload, and writes recommended requests to the status of
VerticalPodAutoscaler objects. It does not change pods. It stores usage history
in VerticalPodAutoscalerCheckpoint objects and loads it at startup.`,
		Config: &c, Common: func() *process.Common { return &c.Common }, Address: func() string { return c.Address },
		Prepare: func(ctx context.Context, p *process.Process) (func(context.Context) error, error) {
			clients, world, err := c.Common.Connect(ctx, p, "recommender", watcher.Options{
				Pods: watcher.AllPods, Evictions: true, Nodes: true, Limits: true, Rules: true,
			})
			if err != nil {
				return nil, err
			}
			waiting, err := c.Standby(&c.Election, p, clients)
			if err != nil {
				return nil, err
			}
			work, err := Work(&c, p, clients, world, waiting)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				return process.WithWorld(ctx, world, func(ctx context.Context) error {
					return process.Lead(ctx, p, c.Election, clients.Leases, work)
				}, func(ctx context.Context) error { return waiting.Run(ctx, p, c.Interval) })
			}, nil
		},
	}.Command(s)
}

// Standby returns what keeps usage while another replica leads; nil if there is none, or the usage history is stored in each pass or not at all.
func (c *Config) Standby(e *process.Election, p *process.Process, clients *kube.Clients) (*standby.Readings, error) {
	if !e.Enabled || c.ExternalMetrics || c.StatusInterval == 0 || c.Storage == "prometheus" {
		return nil, nil
	}
	return standby.New(clients, c.Namespace, p.Log)
}

// Work returns the recommender's work in one term of leadership: load the stored usage history, then one pass per interval. waiting has the usage from before.
func Work(c *Config, p *process.Process, clients *kube.Clients, world *watcher.World, waiting *standby.Readings) (func(context.Context) error, error) {
	m := NewMetrics(p.Registry)
	h := p.HealthFor("recommender", c.Interval)
	source, err := c.source(clients, world, m, h)
	if err != nil {
		return nil, err
	}
	d := dependencies{world: world, listed: clients.SizingProfiles, source: source, waiting: waiting, metrics: m, health: h, log: p.Log}
	if c.ExportAdvice {
		d.exporter = NewExporter(p.Registry)
	}
	if c.Storage == "prometheus" {
		client, err := c.History.Client(m.history)
		if err != nil {
			return nil, err
		}
		d.backfill = history.NewBackfill(client, world.Selector, m.history, p.Log)
		d.backfill.Peaks = c.Sizing.Usage.Runs
	}
	plan, err := newCapacityLoop(c, p, clients, world, m, &d)
	if err != nil {
		return nil, err
	}
	if d.observer, err = newObserver(c, m, h, p.Log); err != nil {
		return nil, err
	}
	readings, err := newKubelets(c, clients, world, &d)
	if err != nil {
		return nil, err
	}
	var last *recommender // of the last term, if its usage history is not stored
	work := func(ctx context.Context) error {
		defer h.Disarm()
		if err := world.WaitSynced(ctx); err != nil {
			return process.Ended(ctx, err)
		}
		if last != nil {
			return process.Ended(ctx, last.term(ctx, p))
		}
		// Each term starts from the stored usage history, because another replica may have stored more since the last term.
		o := checkpoint.StorageOptions{Namespace: c.Namespace, Ignored: c.IgnoredNamespaces, Log: p.Log}
		d.storage = history.Storage{Checkpoints: checkpoint.NewCheckpoints(clients, o), ModelStates: checkpoint.NewHistories(clients, o)}
		r := newRecommender(*c, d)
		if r.backfill != nil {
			last = r
		}
		return process.Ended(ctx, r.term(ctx, p))
	}
	return process.Together(work, plan, afterSync(world, d.observer.Run), readings, newEnrollment(c, p, clients, world, m)), nil
}

// term leads until ctx ends. A pass that panics does not end it.
func (r *recommender) term(ctx context.Context, p *process.Process) error {
	return r.lead(ctx, p.Recovering("recommender", r.pass))
}

// lead starts the recommender and makes passes until ctx ends. Then it stores what the last pass did not. It returns an error only if ctx
// ends before the stored usage history is loaded.
func (r *recommender) lead(ctx context.Context, pass func(context.Context, time.Time)) error {
	defer r.exporter.publish(nil) // the next leader exports them
	if r.backfill != nil {
		done := r.awaitBackfill(ctx)
		defer func() { <-done }()
	} else if err := r.load(ctx); err != nil {
		return err
	}
	process.Every(ctx, r.config.Interval, pass)
	r.end(ctx)
	return nil
}

// load reads the stored usage history, and which profile sized each autoscaler. It returns an error only if ctx ends before.
func (r *recommender) load(ctx context.Context) error {
	if err := r.checkpointer.Load(ctx); err != nil {
		return err
	}
	r.catalog.Stored(r.checkpointer.TakeProfiles())
	r.workloads.Recall(r.checkpointer.Nodes)
	return nil
}

// source returns how to create the sampler that the flags select: for the Metrics API or for external metrics.
func (c *Config) source(clients *kube.Clients, world *watcher.World, m *Metrics, h *process.Health) (func(serves func(*cluster.Autoscaler) bool) sampler, error) {
	if !c.ExternalMetrics {
		client, err := metrics.New(clients.Config, clients.HTTP, c.Namespace)
		if err != nil {
			return nil, err
		}
		return func(func(*cluster.Autoscaler) bool) sampler { return &meteredClient{client, m} }, nil
	}
	reader, err := metrics.NewExternal(clients.Config, clients.HTTP, metrics.ExternalNames{
		CPU: c.ExternalCPUMetric, Memory: c.ExternalMemoryMetric, ContainerLabel: c.History.ContainerLabel,
	})
	if err != nil {
		return nil, process.UsageError{Err: fmt.Errorf("--use-external-metrics: %w; set --external-metrics-cpu-metric or --external-metrics-memory-metric", err)}
	}
	return func(serves func(*cluster.Autoscaler) bool) sampler {
		return &externalUsage{
			read: reader.Read, metrics: m, snapshot: world.Snapshot, selectorOf: world.Selector, serves: serves,
			known: map[cluster.Workload]knownSelector{}, health: h,
		}
	}, nil
}

// end stores the usage history that the last pass did not store.
func (r *recommender) end(ctx context.Context) {
	if !r.config.ReadOnly {
		r.log.Info("Storing usage history before shutdown")
	}
	ctx, cancel := process.WindUp(ctx, 10*time.Second)
	defer cancel()
	r.checkpointer.Flush(ctx, time.Now(), r.served(r.world.Snapshot().Autoscalers))
}

func newRecommender(c Config, d dependencies) *recommender {
	store := usage.NewStore(c.usage())
	inGroups := grouping.New(c.Sizing.usage(), c.Sizing.RoleHistory, c.Interval)
	catalog := sizing.NewCatalog(c.Sizing.params(), c.NameGiven())
	r := &recommender{
		dependencies: d, config: c, catalog: catalog, workloads: sizing.Workloads{}, usageStore: store, groups: inGroups,
		profiles:     &profileReader{listed: d.listed, catalog: catalog, log: d.log},
		checkpointer: history.NewCheckpointer(c.checkpointer(), store, inGroups.Store, d.storage, d.metrics.history, d.health, d.log),
		contention:   contention.NewReporter(d.world, d.observer, c.WatchesAllPods() && !c.ExternalMetrics),
		tracked:      map[cluster.Key]bool{}, governed: map[cluster.Workload]bool{},
		rejected:        make([]uint64, len(usage.Rejections())),
		writtenStatuses: writtenStatuses{dryRunTargets: map[usage.Ref]cluster.Resources{}, advisedFor: map[cluster.Key]advised{}, released: map[cluster.Key]released{}},
	}
	r.usage = d.source(r.serves)
	return r
}

// checkpointer returns the configuration of the checkpointer. As upstream, the recommender stores nothing if it reads history from
// Prometheus.
func (c *Config) checkpointer() history.CheckpointerConfig {
	return history.CheckpointerConfig{
		Unsaved: c.Storage == "prometheus", DryRun: c.ReadOnly, NameGiven: c.NameGiven(), EachPass: c.StatusInterval == 0,
		Workers: c.Workers, WriteTimeout: c.CheckpointsTimeout, GCInterval: c.CheckpointsGC,
	}
}

// pass makes one pass. Its steps depend on each other:
//
//	readProfiles   updates the catalog, which decides which autoscalers are served
//	look           selects the served autoscalers, and the profile of each workload, for all later steps
//	configure      prepares the usage store for these workloads: it must not load or observe anything for others
//	restore        loads stored history into the prepared workloads, before new samples
//	track          adds pods, before their samples, and what was read before the term, before OOM kills
//	continueFormer adds the history of former names of workloads (podfit.dev/continues), before the first recommendation
//	mergeHistory   adds history from Prometheus to tracked pods, before new samples
//	observe        adds readings of kubelets and samples
//	prune          removes old history. Samples of this pass are new, so their history stays
//	advise         computes recommendations from all of it
//	save, collect  store the history, then delete stored history that is not needed
func (r *recommender) pass(ctx context.Context, now time.Time) {
	r.health.Active(now)
	watch := process.NewStopwatch(r.metrics.execution)
	watch.Health = r.health
	defer watch.Total()
	r.usageStore.Tick(now)
	r.contention.Tick(now)
	r.pace = sizing.Pace{Interval: r.config.StatusInterval, Before: r.pace.Now, Now: now}

	snapshot := r.world.Snapshot()
	r.readProfiles(ctx, now, snapshot)
	v := r.look(snapshot)
	r.exporter.publish(v.served)
	r.configure(now, v)
	r.restore(ctx, now, v)
	watch.Step("LoadVPAs")

	r.usageStore.BoundBy(r.world.Nodes())
	r.groups.Store.BoundBy(r.world.Nodes())
	r.track(v)
	r.continueFormer(now, v)
	r.mergeHistory(now)
	watch.Step("LoadPods")

	r.observeReadings()
	r.observe(ctx, v)
	r.learnt(ctx, now)
	watch.Step("LoadMetrics")

	r.prune(now)
	watch.Step("DeleteRemovedPods")

	r.advise(ctx, now, v)
	r.contention.End(snapshot, r.governed)
	watch.Step("UpdateVPAs")

	r.checkpointer.Nodes = r.workloads.HeldNodes()
	r.checkpointer.Save(ctx, now, v.served)
	watch.Step("MaintainCheckpoints")

	if !slices.Contains(r.world.Stale(now), watcher.AutoscalersFeed) { // a stale watch may lack existing autoscalers
		r.checkpointer.Collect(ctx, now, snapshot.Autoscalers, r.catalog.Sizable(v.served))
	}
	watch.Step("GarbageCollect")

	r.count()
	if r.outage == nil && ctx.Err() == nil {
		r.health.Completed(time.Now())
	}
}

func (r *recommender) readProfiles(ctx context.Context, now time.Time, snapshot *cluster.Snapshot) {
	r.profiles.read(ctx)
	r.catalog.Forget(now, snapshot.Autoscalers)
	r.catalog.ReadStatuses(snapshot.Autoscalers)
}

func (r *recommender) look(snapshot *cluster.Snapshot) *view {
	sizes := r.config.NodeFit.Options()
	sizes.Scale = true // conditions are set with any value of --fit-nodes
	v := &view{Snapshot: snapshot, served: r.served(snapshot.Autoscalers), fleet: watcher.Fleet(r.world, sizes), governing: map[cluster.Workload]*cluster.Autoscaler{}}
	for _, a := range v.served {
		if !a.Target.IsZero() {
			v.governing[a.Target] = r.elected(v, a.Target)
		}
	}
	v.assignments = r.catalog.Assign(snapshot, v.governing)
	return v
}

// A view contains the input of a pass that all steps use.
type view struct {
	*cluster.Snapshot
	served      []*cluster.Autoscaler
	governing   map[cluster.Workload]*cluster.Autoscaler // the elected autoscaler of each target of a served one
	assignments sizing.Assignments                       // of the same workloads
	fleet       *fleet.Fleet                             // the sizes of the nodes

	// Values that are computed when they are needed (cluster.Memo). If many autoscalers reference one workload, a value is computed once for the
	// workload and not once for each autoscaler.
	electing map[cluster.Workload]*cluster.Autoscaler // elected
	applied  map[cluster.Workload]*cluster.Autoscaler // of all autoscalers, the one that is applied to the pods
	podsSeen map[cluster.Workload]podsSeen
	limits   map[usage.Ref]int64 // memoryLimit
}

type podsSeen struct {
	live    int            // number of live pods
	begun   bool           // a pod is not pending
	looping []*cluster.Pod // live pods with a container in an OOM kill loop, at most maxLooping
}

// restore loads stored history into workloads that configure has prepared. It comes after configure, because stored model state is only used
// if it fits the profile.
func (r *recommender) restore(ctx context.Context, now time.Time, v *view) {
	r.checkpointer.LoadAgain(ctx, now)
	r.checkpointer.Restore(now, v.served)
	for _, w := range r.workloads.Restoring() {
		r.workloads.Restored(r.usageStore, now, w, r.own(v.governing[w]))
	}
}

// prune removes history that is too old, once per hour.
func (r *recommender) prune(now time.Time) {
	if now.Sub(r.prunedAt) < time.Hour {
		return
	}
	r.prunedAt = now
	removed := r.usageStore.Prune(now)
	r.checkpointer.Forget(r.groups.Store.Prune(now))
	if len(removed) == 0 {
		return
	}
	r.checkpointer.Forget(removed)
	r.log.Info("Removed expired usage history", slog.Int("containers", len(removed)))
}

// count updates the metrics of the usage store.
func (r *recommender) count() {
	_, histories := r.usageStore.Size()
	r.metrics.aggregates.Set(float64(histories))
	for i, reason := range usage.Rejections() {
		n := r.usageStore.Rejected(reason)
		r.metrics.rejected.WithLabelValues(reason.String()).Add(float64(n - r.rejected[i]))
		r.rejected[i] = n
	}
}

func (r *recommender) served(all []*cluster.Autoscaler) []*cluster.Autoscaler {
	return slices.DeleteFunc(slices.Clone(all), func(a *cluster.Autoscaler) bool { return !r.serves(a) })
}

// serves reports whether this recommender serves an autoscaler: it does if upstream's rule or the name of a profile selects it.
func (r *recommender) serves(a *cluster.Autoscaler) bool {
	return r.config.Serves(a) || r.config.Common.Serves(a.Namespace) && r.catalog.Contains(a)
}

// configure prepares the usage store: which workloads are sized, by which rules their samples are aggregated, and their model state.
func (r *recommender) configure(now time.Time, v *view) {
	governed := make(map[cluster.Workload]bool, len(v.governing))
	for w, a := range v.governing {
		governed[w] = true
		r.usageStore.Configure(w, r.historyPolicies(a))
		r.learnStarts(w, a)
	}
	for w := range r.governed {
		if !governed[w] {
			r.usageStore.Release(w)
			r.usageStore.LearnStarts(w, false)
		}
	}
	r.governed = governed
	var nodes *fleet.Nodes
	if v.assignments.NodeBound() {
		nodes = fleet.NewNodes(r.world.Nodes(), r.world.Selectors())
	}
	r.workloads.Apply(r.usageStore, now, v.Snapshot, v.assignments, nodes)
	r.groups.Configure(now, r.grouped(v))
}

// grouped returns the workloads whose pods are sized by their role or as a whole.
func (r *recommender) grouped(v *view) []grouping.Workload {
	var all []grouping.Workload
	for w, a := range v.governing {
		pods := v.PodsOf(w)
		if whole := r.groups.HasWholePods(a, pods); whole || a.SizesByRole() {
			all = append(all, grouping.Workload{
				Autoscaler: a, Choice: v.assignments[w].Choice, Policies: r.historyPolicies(a), Pods: pods, Stored: r.checkpointer.StoredRoles(w), Whole: whole,
			})
		}
	}
	return all
}

// historyPolicies returns the policies by which usage is aggregated.
func (r *recommender) historyPolicies(a *cluster.Autoscaler) []cluster.ContainerPolicy {
	if r.config.Gates.On(process.PerVPAConfig) {
		return a.Policies
	}
	return nil
}

// elected returns the served autoscaler that governs a workload. If none changes pods, it returns the oldest.
func (r *recommender) elected(v *view, w cluster.Workload) *cluster.Autoscaler {
	named := v.AutoscalersOf(w)
	if len(named) == 1 {
		return named[0]
	}
	return cluster.Memo(&v.electing, w, func() *cluster.Autoscaler {
		return cluster.Responsible(r.served(named), r.config.Gates.On(process.CPUStartupBoost))
	})
}

// track updates the pods in the usage store, and adds OOM kills and evictions for lack of memory.
func (r *recommender) track(v *view) {
	seen := make(map[cluster.Key]bool, len(v.Pods))
	for _, p := range v.Pods {
		if r.config.MemorySaver && !r.governed[p.Top] {
			continue
		}
		if !r.usageStore.Track(p) {
			continue
		}
		seen[p.Key] = true
	}
	for key := range r.tracked {
		if !seen[key] {
			r.usageStore.Forget(key)
		}
	}
	r.tracked = seen
	r.observeEarlier()
	for _, p := range v.Pods {
		if !seen[p.Key] {
			continue
		}
		r.metrics.read(p)
		if n := r.usageStore.ObserveExits(p); n > 0 {
			r.log.Info("Observed an OOM kill", slog.String("pod", p.Key.String()), slog.Int("containers", n))
			r.qualityOfOOM(v, p)
		}
	}
	evictions := r.world.MemoryEvictions()
	r.groups.Track(evictions)
	for _, e := range evictions {
		if r.usageStore.ObserveOOM(e) {
			r.log.Info("Observed the eviction of a pod from a node that lacks memory", slog.String("pod", e.Pod.String()), slog.String("container", e.Container))
		}
	}
}

// samples reads usage. One timeout limits the request to the Metrics API; external metrics need one request per pod, and limit each.
func (r *recommender) samples(ctx context.Context) ([]usage.Sample, error) {
	if _, external := r.usage.(*externalUsage); !external {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, process.UsageTimeout)
		defer cancel()
	}
	return r.usage.Samples(ctx)
}

// observeReadings adds what kubelets reported. The pod of such a run may be gone.
func (r *recommender) observeReadings() {
	if r.kubelets == nil {
		return
	}
	for _, reading := range r.kubelets.swap(r.governed) {
		if !r.usageStore.Tracked(reading.Pod) && r.usageStore.Track(reading.of) {
			r.tracked[reading.Pod] = true
		}
		r.usageStore.Observe(reading.Sample)
	}
}

// observeEarlier adds what was read before the term. OOM kills come later, because they need the usage before them.
func (r *recommender) observeEarlier() {
	tracked := false
	for earlier := range r.waiting.Take() {
		if !tracked {
			tracked, r.groups.Store.HoldKills = true, true
			r.groups.Track(nil)
			r.groups.Store.HoldKills = false
		}
		for i := range earlier {
			r.usageStore.Observe(earlier[i])
			r.groups.Observe(&earlier[i])
		}
		r.groups.Observed()
	}
}

// observe reads usage and adds it to the usage store. If usage cannot be read, the usage store does not change.
func (r *recommender) observe(ctx context.Context, v *view) {
	samples, err := r.samples(ctx)
	switch {
	case err == nil && r.outage != nil:
		r.log.Info("Read usage after earlier failures", slog.Int("samples", len(samples)))
	case err != nil && ctx.Err() != nil:
		return
	case err != nil && (r.outage == nil || r.outage.Error() != err.Error()):
		r.log.Warn("Cannot read usage; recommendations are kept until usage can be read", slog.Any("error", err))
	}
	r.outage = err
	if err == nil {
		r.forecast.Keep(samples)
	}
	pods := make(map[cluster.Key]*cluster.Pod, len(samples))
	for w := range r.governed {
		for _, p := range v.PodsOf(w) {
			pods[p.Key] = p
		}
	}
	for i := range samples {
		taken := r.usageStore.Observe(samples[i])
		r.groups.Observe(&samples[i])
		p := pods[samples[i].Pod]
		if p == nil || taken.Empty() {
			continue
		}
		r.quality(v, p, &samples[i], taken, false)
		if taken.Has(cluster.CPU) {
			r.contention.Observe(p, &samples[i])
		}
	}
	r.groups.Observed()
	r.contention.Observed(samples, pods)
}
