// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/metrics"
)

// world is what the recommender reads of the cluster, and where it writes its advice.
type world interface {
	Snapshot() *cluster.Snapshot
	Stale(time.Time) []string
	TargetProblem(*cluster.Autoscaler) (problem string, known bool)
	Limits(namespace string) cluster.LimitRange
	MemoryEvictions() []usage.OOM
	WriteStatus(context.Context, *cluster.Autoscaler, []cluster.Advice, time.Time, ...watcher.Condition) (bool, error)
}

// sampler reads what containers use now.
type sampler interface {
	Samples(context.Context) ([]usage.Sample, error)
}

// recommender turns usage into recommendations, one pass per tick. One goroutine owns it.
type recommender struct {
	config       Config
	profiles     *profiles
	usageStore   *usage.Store
	world        world
	usage        sampler
	checkpointer *checkpointer
	backfill     *backfill // nil: history comes from checkpoints
	metrics      *Metrics
	health       *process.Health
	log          *slog.Logger

	electing  memo[cluster.Workload, *cluster.Autoscaler] // elected
	governing memo[cluster.Workload, *cluster.Autoscaler] // which of all autoscalers applies its recommendation
	podsSeen  memo[cluster.Workload, podsSeen]
	limits    memo[usage.Ref, int64] // memoryLimit

	tracked  map[cluster.Key]bool      // pods the book knows
	governed map[cluster.Workload]bool // workloads an autoscaler of ours names
	prunedAt time.Time
	outage   error // why the Metrics API could not be read in the last pass
	rejected []uint64

	mu            sync.Mutex                      // guards what follows, while several writers work
	dryRunTargets map[usage.Ref]cluster.Resources // what a dry run has said that it would recommend
	advisedFor    map[cluster.Key]advised         // by autoscaler
}

// NewCommand returns "podfit recommender".
func NewCommand(s process.Streams) *cobra.Command {
	c := Defaults()
	return process.LongRunning{
		Use: "recommender", Short: "Measure usage and write recommendations to the status of VPA objects",
		Long: `Reads usage from the Metrics API, keeps a decaying usage history for each container of each workload, and writes
recommended requests to the status of VerticalPodAutoscaler objects. It does not change pods. It stores usage history in
VerticalPodAutoscalerCheckpoint objects and loads it at startup.`,
		Config: &c, Common: func() *process.Common { return &c.Common }, Address: func() string { return c.Address },
		Prepare: func(p *process.Process) (func(context.Context) error, error) {
			clients, err := c.Common.Connect(p.Log, "recommender")
			if err != nil {
				return nil, err
			}
			world := watcher.NewWorld(clients, c.Common.Watched(watcher.Options{Pods: watcher.AllPods, Evictions: true, Nodes: true, Limits: true, Log: p.Log}))
			p.Registry.MustRegister(process.NewWatchMetrics(world))
			work, err := Work(&c, p, clients, world)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				return process.WithWorld(ctx, world, func(ctx context.Context) error {
					return process.Lead(ctx, p, c.Election, clients.Leases, work)
				})
			}, nil
		},
	}.Command(s)
}

// Work returns the recommender's work: to read back what was learnt, then one pass per interval.
func Work(c *Config, p *process.Process, clients *kube.Clients, world *watcher.World) (func(context.Context) error, error) {
	m := NewMetrics(p.Registry)
	h := p.HealthFor("recommender", c.Interval)
	source, err := c.source(clients, world, m)
	if err != nil {
		return nil, err
	}
	var past *backfill
	if c.Storage == "prometheus" {
		client, err := c.History.client(m)
		if err != nil {
			return nil, err
		}
		past = newBackfill(client, world, m, p.Log)
	}
	var kept *recommender // of the last term, where what it has learnt is stored nowhere
	return func(ctx context.Context) error {
		defer h.Disarm()
		if err := world.WaitSynced(ctx); err != nil {
			return process.Ended(ctx, err)
		}
		if kept != nil {
			kept.term(ctx, p)
			return nil
		}
		// Each term begins with what is stored: another replica may have learnt more since the last one.
		o := checkpoint.StorageOptions{Namespace: c.Namespace, Ignored: c.IgnoredNamespaces, Log: p.Log}
		histories, err := checkpoint.NewHistories(clients, o)
		if err != nil {
			return err
		}
		r := newRecommender(*c, world, source, storage{checkpoint.NewCheckpoints(clients, o), histories}, m, h, p.Log)
		if r.profiles.source, err = kube.NewProfiles(clients); err != nil {
			return err
		}
		r.profiles.nodes = world
		if external, ok := source.(*externalUsage); ok {
			external.serves, external.health = r.serves, h
		}
		if past != nil {
			r.backfill, kept = past, r
		} else if err := r.checkpointer.load(ctx); err != nil {
			return process.Ended(ctx, err)
		}
		r.term(ctx, p)
		return nil
	}, nil
}

// term leads until ctx ends. A pass that panics does not end it.
func (r *recommender) term(ctx context.Context, p *process.Process) {
	r.lead(ctx, p.Recovering("recommender", r.pass))
}

// lead makes passes until ctx ends, while history is read beside them. The first pass waits a moment for it: a Prometheus that is
// well has answered by then.
func (r *recommender) lead(ctx context.Context, pass func(context.Context, time.Time)) {
	if r.backfill != nil {
		clear(r.advisedFor) // another replica may have recommended since
		var done <-chan struct{}
		process.Attempt(r.log, r.health, "usage history", func() {
			r.profiles.noteUnusable(r.world.Snapshot().Autoscalers)
			done = r.startBackfill(ctx, time.Now())
		})
		if done == nil {
			done = r.backfill.abandon(time.Now(), namespacesOf(r.served(r.world.Snapshot())))
		}
		defer func() { <-done }()
		select {
		case <-done:
		case <-time.After(backfillGrace):
		case <-ctx.Done():
		}
	}
	process.Every(ctx, r.config.Interval, pass)
	r.end(ctx)
}

// source returns where usage is read: the Metrics API, or external metrics when asked for.
func (c *Config) source(clients *kube.Clients, world *watcher.World, m *Metrics) (sampler, error) {
	hooks := metrics.Hooks{
		Answered:   m.answered,
		Unreadable: func(n int) { m.rejected.WithLabelValues("unreadable").Add(float64(n)) },
	}
	if !c.ExternalMetrics {
		return metrics.New(clients.Config, clients.HTTP, c.Namespace, hooks)
	}
	reader, err := metrics.NewExternal(clients.Config, clients.HTTP, metrics.ExternalNames{
		CPU: c.ExternalCPUMetric, Memory: c.ExternalMemoryMetric, ContainerLabel: c.History.ContainerNameLabel,
	}, hooks)
	if err != nil {
		return nil, process.UsageError{Err: fmt.Errorf("--use-external-metrics: %w; give --external-metrics-cpu-metric or --external-metrics-memory-metric", err)}
	}
	return &externalUsage{reader: reader, world: world, selectors: world, serves: c.Serves, known: map[cluster.Workload]knownSelector{}}, nil
}

// end stores what the last pass did not.
func (r *recommender) end(ctx context.Context) {
	if !r.config.ReadOnly {
		r.log.Info("Ending: storing what was learnt since the last time")
	}
	ctx, cancel := process.WindUp(ctx, 10*time.Second)
	defer cancel()
	r.checkpointer.flush(ctx, time.Now(), r.served(r.world.Snapshot()))
}

// newRecommender returns a recommender that knows nothing yet.
func newRecommender(c Config, w world, s sampler, k storage, m *Metrics, h *process.Health, log *slog.Logger) *recommender {
	book := usage.NewStore(c.Sizing.usage())
	return &recommender{
		config: c, profiles: newProfiles(&c, log), usageStore: book,
		world: w, usage: s, metrics: m, health: h, log: log,
		checkpointer: newCheckpointer(c, book, k, m, h, log),
		tracked:      map[cluster.Key]bool{}, governed: map[cluster.Workload]bool{},
		rejected:      make([]uint64, len(usage.Rejections())),
		dryRunTargets: map[usage.Ref]cluster.Resources{}, advisedFor: map[cluster.Key]advised{},
	}
}

// params returns how usage becomes a recommendation.
func (s *SizingConfig) params() recommend.Params {
	return recommend.Params{
		Margin:           s.Margin,
		CPU:              recommend.Percentiles{Lower: s.LowerCPU, Target: s.TargetCPU, Upper: s.UpperCPU},
		Memory:           recommend.Percentiles{Lower: s.LowerMemory, Target: s.TargetMemory, Upper: s.UpperMemory},
		CPUConfidence:    s.ConfidenceCPU,
		MemoryConfidence: s.ConfidenceMemory,
		FloorMillicores:  s.MinCPUMillicores,
		FloorMegabytes:   s.MinMemoryMB,
		RoundMillicores:  int64(s.RoundCPUMillicores),
		RoundBytes:       int64(s.RoundMemoryBytes),
		Humanize:         s.HumanizeMemory,
	}
}

// usage returns how samples are kept.
func (s *SizingConfig) usage() usage.Config {
	c := usage.DefaultConfig()
	c.CPUHalfLife, c.MemoryHalfLife = s.CPUHalfLife, s.MemoryHalfLife
	c.MemoryInterval, c.MemoryCount = s.MemoryInterval, s.MemoryCount
	c.OOMBumpRatio, c.OOMMinBump = s.OOMBumpRatio, int64(s.OOMMinBump)
	return c
}

// pass reads what there is, learns what is used, writes what should be, and keeps what was learnt.
func (r *recommender) pass(ctx context.Context, now time.Time) {
	r.health.Active(now)
	watch := process.NewStopwatch(r.metrics.execution)
	watch.Health = r.health
	defer watch.Total()
	defer r.dropMemos()
	r.usageStore.Tick(now)

	snapshot := r.world.Snapshot()
	r.profiles.read(ctx)
	r.profiles.forget(now, snapshot.Autoscalers)
	r.profiles.noteUnusable(snapshot.Autoscalers)
	ours := r.served(snapshot)
	r.configure(now, snapshot, ours)
	r.checkpointer.restore(now, ours)
	r.profiles.restored(r.usageStore, snapshot, now, func(s *cluster.Snapshot, w cluster.Workload) *cluster.Autoscaler { return r.own(r.elected(s, w)) })
	watch.Step("LoadVPAs")

	r.track(snapshot)
	r.mergeHistory(now)
	watch.Step("LoadPods")

	r.observe(ctx, snapshot)
	r.learnt(ctx, now)
	watch.Step("LoadMetrics")

	if now.Sub(r.prunedAt) >= time.Hour {
		r.prunedAt = now
		if gone := r.usageStore.Prune(now); len(gone) > 0 {
			r.checkpointer.forget(gone)
			r.log.Info("Forgot usage history that is too old", slog.Int("containers", len(gone)))
		}
	}
	watch.Step("DeleteRemovedPods")

	r.advise(ctx, now, snapshot, ours)
	watch.Step("UpdateVPAs")

	r.checkpointer.save(ctx, now, ours)
	watch.Step("MaintainCheckpoints")

	if !slices.Contains(r.world.Stale(now), watcher.AutoscalersFeed) { // else an autoscaler may exist that is not known
		r.checkpointer.collect(ctx, now, snapshot.Autoscalers, r.profiles.sizable(ours))
	}
	watch.Step("GarbageCollect")

	_, series := r.usageStore.Size()
	r.metrics.aggregates.Set(float64(series))
	for i, reason := range usage.Rejections() {
		n := r.usageStore.Rejected(reason)
		r.metrics.rejected.WithLabelValues(reason.String()).Add(float64(n - r.rejected[i]))
		r.rejected[i] = n
	}
	if r.outage == nil && ctx.Err() == nil {
		r.health.Completed(time.Now())
	}
}

// dropMemos lets go of the snapshot of a pass.
func (r *recommender) dropMemos() {
	r.electing.drop()
	r.governing.drop()
	r.podsSeen.drop()
	r.limits.drop()
	r.profiles.kept.drop()
}

// served returns the autoscalers that this recommender serves.
func (r *recommender) served(s *cluster.Snapshot) []*cluster.Autoscaler {
	ours := make([]*cluster.Autoscaler, 0, len(s.Autoscalers))
	for _, a := range s.Autoscalers {
		if r.serves(a) {
			ours = append(ours, a)
		}
	}
	return ours
}

// serves reports whether an autoscaler is ours: as upstream decides it, and where it names one of podfit's profiles.
func (r *recommender) serves(a *cluster.Autoscaler) bool {
	return r.config.Serves(a) || r.config.Common.Serves(a.Namespace) && r.profiles.knows(a)
}

// configure tells the book which workloads are sized, and by which rules their samples are kept.
func (r *recommender) configure(at time.Time, s *cluster.Snapshot, ours []*cluster.Autoscaler) {
	now := make(map[cluster.Workload]bool, len(ours))
	for _, a := range ours {
		if a.Target.IsZero() {
			continue
		}
		if now[a.Target] {
			continue
		}
		now[a.Target] = true
		var policies []cluster.ContainerPolicy
		if r.config.Gates.On(process.PerVPAConfig) {
			policies = r.elected(s, a.Target).Policies
		}
		r.usageStore.Configure(a.Target, policies)
	}
	for w := range r.governed {
		if !now[w] {
			r.usageStore.Release(w)
		}
	}
	r.governed = now
	r.profiles.extend(r.usageStore, s, at, now, r.elected)
}

// elected returns the autoscaler of ours that governs a workload; where none applies its recommendation, the one that would.
func (r *recommender) elected(s *cluster.Snapshot, w cluster.Workload) *cluster.Autoscaler {
	named := s.AutoscalersOf(w)
	if len(named) == 1 {
		return named[0]
	}
	return r.electing.get(s, w, func() *cluster.Autoscaler {
		served := slices.DeleteFunc(slices.Clone(named), func(a *cluster.Autoscaler) bool { return !r.serves(a) })
		if a := cluster.Governing(served, r.config.Gates.On(process.CPUStartupBoost)); a != nil {
			return a
		}
		return cluster.Oldest(served)
	})
}

// track tells the book which pods there are, and what became of them.
func (r *recommender) track(s *cluster.Snapshot) {
	seen := make(map[cluster.Key]bool, len(s.Pods))
	for _, p := range s.Pods {
		if r.config.MemorySaver && !r.governed[p.Top] {
			continue
		}
		if !r.usageStore.Track(p) {
			continue
		}
		seen[p.Key] = true
		r.metrics.read(p)
		if n := r.usageStore.ObserveExits(p); n > 0 {
			r.log.Info("Learnt of an OOM kill", slog.String("pod", p.Key.String()), slog.Int("containers", n))
			r.qualityOfOOM(s, p)
		}
	}
	for key := range r.tracked {
		if !seen[key] {
			r.usageStore.Forget(key)
		}
	}
	r.tracked = seen
	for _, e := range r.world.MemoryEvictions() {
		if r.usageStore.ObserveOOM(e) {
			r.log.Info("Learnt of a pod evicted by its node for want of memory", slog.String("pod", e.Pod.String()), slog.String("container", e.Container))
		}
	}
}

// samples reads usage in bounded time. External metrics bound each of their requests, of which there is one for each pod.
func (r *recommender) samples(ctx context.Context) ([]usage.Sample, error) {
	if _, external := r.usage.(*externalUsage); !external {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, process.UsageTimeout)
		defer cancel()
	}
	return r.usage.Samples(ctx)
}

// observe reads usage into the book. When nothing answers, what was learnt stands.
func (r *recommender) observe(ctx context.Context, s *cluster.Snapshot) {
	samples, err := r.samples(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		if r.outage == nil || r.outage.Error() != err.Error() {
			r.log.Warn("Cannot read usage; recommendations stay as they are until it can be read", slog.Any("error", err))
		}
		r.outage = err
	} else if r.outage != nil {
		r.log.Info("Usage can be read again", slog.Int("samples", len(samples)))
		r.outage = nil
	}
	pods := make(map[cluster.Key]*cluster.Pod, len(samples))
	for w := range r.governed {
		for _, p := range s.PodsOf(w) {
			pods[p.Key] = p
		}
	}
	for i := range samples {
		taken := r.usageStore.Observe(samples[i])
		if p := pods[samples[i].Pod]; p != nil && !taken.Empty() {
			r.quality(s, p, &samples[i], taken)
		}
	}
}
