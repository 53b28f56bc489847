// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/feed"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/metrics"
)

// fake is all that a source reads.
type fake struct {
	mu        sync.Mutex
	snapshots int
	panics    bool          // Snapshot panics
	reads     int           // of usage
	listed    int           // of events
	delay     time.Duration // of usage and events
	err       error         // likewise
	health    []feed.State
	histories []usage.History
	found     bool // checkpoints
	record    ledger.State
	archived  checkpoint.Stored
	facts     overview.Facts

	namespaces []string // that were read of the archive
	vpas       []*cluster.Autoscaler
	owned      bool // the pod belongs to target
	saved      *usage.Checkpoint
	storeErr   error
	profiles   []recommend.Profile // valid SizingProfiles
	stateErr   error               // of State

	profileNames []string // of all SizingProfiles; nil: night
}

func (f *fake) Snapshot() *cluster.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.snapshots++
	if f.panics {
		panic("broken")
	}
	p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "web-1"}, UID: "u", Phase: cluster.Running, Containers: []cluster.Container{{Name: "app"}}}
	if f.owned {
		p.Top = target
	}
	return cluster.NewSnapshot([]*cluster.Pod{p}, slices.Clone(f.vpas))
}
func (f *fake) Nodes() []cluster.Node {
	return []cluster.Node{{Name: "n1", Ready: true, Allocatable: cluster.Amounts(4000, 8<<30)}}
}
func (f *fake) Daemons() []cluster.Daemon           { return nil }
func (f *fake) Selectors() []cluster.NodeSelector   { return nil }
func (f *fake) Tolerations() []cluster.Tolerations  { return nil }
func (f *fake) NewNodes() ([]cluster.NewNode, bool) { return nil, true }
func (f *fake) Health() []feed.State                { return f.health }
func (f *fake) ProfileNames() (names []string, known bool) {
	if f.profileNames != nil {
		return f.profileNames, true
	}
	return []string{"night"}, true
}

func (f *fake) wait(ctx context.Context) error {
	f.mu.Lock()
	delay, err := f.delay, f.err
	f.mu.Unlock()
	select {
	case <-time.After(delay):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fake) Read(ctx context.Context) (metrics.Reading, error) {
	f.mu.Lock()
	f.reads++
	f.mu.Unlock()
	return metrics.Reading{Samples: []usage.Sample{{Pod: cluster.Key{Namespace: "shop", Name: "web-1"}, Container: "app", At: time.Now(), CPU: 0.5, Has: cluster.Of(cluster.CPU)}}}, f.wait(ctx)
}

func (f *fake) RecentEvents(ctx context.Context) ([]overview.Entry, error) {
	f.mu.Lock()
	f.listed++
	f.mu.Unlock()
	return []overview.Entry{{Act: "evict"}}, f.wait(ctx)
}

func (f *fake) Histories(context.Context, cluster.Workload) ([]usage.History, error) {
	return f.histories, f.storeErr
}

func (f *fake) Checkpoint(context.Context, checkpoint.Key) (usage.Checkpoint, bool, error) {
	if f.saved != nil {
		return *f.saved, true, nil
	}
	h := histogram.New(histogram.Memory, time.Hour)
	h.AddNanos(3e8, 1, time.Now().UnixNano())
	c := histogram.New(histogram.CPU, time.Hour)
	c.AddNanos(0.3, 1, time.Now().UnixNano())
	return usage.Checkpoint{CPU: c.Checkpoint(), Memory: h.Checkpoint(), Samples: 7}, f.found, f.storeErr
}

func (f *fake) State(context.Context, cluster.Workload) (ledger.State, bool, error) {
	return f.record, len(f.record.Pods) > 0, f.stateErr
}

func (f *fake) Catalog(ctx context.Context) (*sizing.Catalog, error) {
	catalog := sizing.NewCatalog(recommend.DefaultParams(), false)
	var names []string
	for _, p := range f.profiles {
		catalog.Learn(p.Name, "1", p)
		names = append(names, p.Name)
	}
	catalog.Listed(names)
	return catalog, f.wait(ctx)
}

func (f *fake) Namespace(ctx context.Context, namespace string) (checkpoint.Stored, error) {
	f.mu.Lock()
	f.namespaces = append(f.namespaces, namespace)
	f.mu.Unlock()
	return f.archived, f.wait(ctx)
}

func (f *fake) Registrations(ctx context.Context) (overview.Facts, error) {
	return f.facts, f.wait(ctx)
}

func sourceOf(f *fake) *source {
	return newSource(&source{world: f, usage: f.Read, events: f.RecentEvents, store: f, archive: f, registrations: f.Registrations, log: slog.New(slog.DiscardHandler)})
}

// In the first seconds the pods may be known and the VPAs not.
func TestState_autoscalersAreNotListed_noWorkloadCountsAsOneWithout(t *testing.T) {
	for synced, want := range map[bool]string{false: "VPAs are not known", true: "no VPA, so its usage is not stored"} {
		f := &fake{owned: true, health: []feed.State{{Resource: watcher.AutoscalersFeed, Synced: synced}}}
		rows := sourceOf(f).State(t.Context()).Overview.Rows
		if len(rows) != 1 || rows[0].Unjudged != want {
			t.Errorf("listed %t: %+v, want one that is not judged because %q", synced, rows, want)
		}
	}
}

// However many viewers look, the API server gets one request for usage per minute, and the overview is computed once per interval.
func TestSource_manyViewers_readsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fake)
		s := sourceOf(f)
		for range 10 * 60 {
			var viewers sync.WaitGroup
			for range 20 {
				viewers.Go(func() { s.State(t.Context()) })
			}
			viewers.Wait()
			time.Sleep(time.Second)
		}
		if f.reads > 11 || f.listed > 21 || f.snapshots > 121 {
			t.Errorf("in ten minutes: %d reads of usage, %d of events, %d snapshots", f.reads, f.listed, f.snapshots)
		}
		if s.State(t.Context()).Overview.Totals.Used.CPU != 500 {
			t.Error("the usage is not shown")
		}
	})
}

// A slow or failing Metrics API delays only the first page, and for a short time.
func TestSource_usageSlowOrFailing_pageIsShownWithoutIt(t *testing.T) {
	for name, f := range map[string]*fake{"slow": {delay: time.Hour}, "failing": {err: errors.New("no metrics")}} {
		synctest.Test(t, func(t *testing.T) {
			s := sourceOf(f)
			began := time.Now()
			state := s.State(t.Context())
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("%s: the first page took %v", name, took)
			}
			if state.Overview.UsageSeen || len(state.Overview.Rows) != 1 {
				t.Errorf("%s: overview %+v", name, state.Overview)
			}
			time.Sleep(readTimeout + freshState.age)
			s.State(t.Context())
			time.Sleep(time.Second)
			began = time.Now()
			state = s.State(t.Context())
			if took := time.Since(began); took > 0 {
				t.Errorf("%s: a later page took %v", name, took)
			}
			if text := strings.Join(state.Problems, " "); !strings.Contains(text, "the Metrics API did not answer") || !strings.Contains(text, "Events could not be read") {
				t.Errorf("%s: problems %q", name, text)
			}
			time.Sleep(readTimeout) // the last reads end
		})
	}
}

func TestSource_watches_ageAndProblemsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		f := &fake{health: []feed.State{
			{Resource: "pods", Synced: true, LastResponse: now.Add(-time.Hour), Err: errors.New("x"), FailedSince: now.Add(-time.Hour)},
			{Resource: "nodes", Synced: true, LastResponse: now}, {Resource: "sizingprofiles", Forbidden: true}, {Resource: "replicasets"},
		}}
		state := sourceOf(f).State(t.Context())
		if !state.Contact.Equal(now.Add(-time.Hour)) || strings.Join(state.Loading, " ") != "replicasets" {
			t.Errorf("contact %v, loading %q", state.Contact, state.Loading)
		}
		text := strings.Join(state.Problems, "\n")
		for _, want := range []string{"The watch of pods has failed since", "podfit may not list sizingprofiles", "The watch of nodes is out of date"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not among the problems %q", want, text)
			}
		}
	})
}

// The text about failed watches has the time since when the first of them fails.
func TestSource_twoWatchesFail_textHasTheEarlierTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		failed := func(resource string, since time.Duration) feed.State {
			return feed.State{Resource: resource, Synced: true, LastResponse: now, Err: errors.New("x"), FailedSince: now.Add(-since)}
		}
		for name, health := range map[string][]feed.State{
			"ascending": {failed("nodes", time.Hour), failed("pods", time.Minute)}, "descending": {failed("nodes", time.Minute), failed("pods", time.Hour)},
		} {
			want := "The watch of nodes and pods has failed since " + now.Add(-time.Hour).UTC().Format("2 Jan, 15:04:05") + " UTC."
			if state := sourceOf(&fake{health: health}).State(t.Context()); len(state.Problems) != 1 || !strings.HasPrefix(state.Problems[0], want) {
				t.Errorf("%s: problems %q, want %q", name, state.Problems, want)
			}
		}
	})
}

// A resource that podfit may list but not watch is shown, and the page says what is missing.
func TestSource_rightsMissing_textNamesTheMissingRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		refused := errors.New("forbidden")
		denied := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", refused)
		for name, c := range map[string]struct {
			state   feed.State
			want    string
			contact time.Time
		}{
			"pods, without which podfit waits": {feed.State{Resource: "pods", Err: denied}, "podfit may not list pods, so they are not shown", time.Time{}},
			"neither list nor watch":           {feed.State{Resource: "nodes", Forbidden: true, Err: refused}, "podfit may not list nodes, so they are not shown", time.Time{}},
			"list but not watch": {
				feed.State{Resource: "nodes", Forbidden: true, Synced: true, Err: refused, LastResponse: now.Add(-10 * time.Second)},
				"podfit may list nodes but not watch them", now.Add(-10 * time.Second),
			},
			"rights were taken away": {
				feed.State{Resource: "nodes", Forbidden: true, Synced: true, Err: refused, LastResponse: now.Add(-time.Hour)},
				"podfit may no longer list nodes. Those of " + now.Add(-time.Hour).UTC().Format("2 Jan, 15:04:05") + " UTC are shown", now.Add(-time.Hour),
			},
		} {
			state := sourceOf(&fake{health: []feed.State{c.state}}).State(t.Context())
			if text := strings.Join(state.Problems, "\n"); strings.Count(text, c.state.Resource) != 1 || len(state.Loading) > 0 || !strings.Contains(text, c.want) || !state.Contact.Equal(c.contact) {
				t.Errorf("%s: problems %q, contact %v", name, text, state.Contact)
			}
		}
	})
}

// The leader shows its own decisions, other replicas the events.
func TestSource_journal_decisionsReplaceEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sourceOf(new(fake))
		s.journal = new(Journal)
		if state := s.State(t.Context()); len(state.Activity) != 1 || !strings.Contains(state.ActivityFrom, "events") {
			t.Errorf("before the first pass: %+v from %s", state.Activity, state.ActivityFrom)
		}
		p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "web-1"}}
		s.journal.Record(time.Now(), []decision.Decision{{Pod: p, Do: decision.Resize}, {Pod: p, Do: decision.Evict}})
		s.State(t.Context())
		time.Sleep(freshState.age)
		s.State(t.Context())
		time.Sleep(time.Second)
		if state := s.State(t.Context()); len(state.Activity) != 2 || state.ActivitySince.IsZero() || !strings.Contains(state.ActivityFrom, "since its start") {
			t.Errorf("after a pass: %+v from %s", state.Activity, state.ActivityFrom)
		}
	})
}

// Prices are per node, and the number of nodes that could go is known only if all pods are.
func TestSource_prices_surplusIsComputedWithThem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(file, []byte("currency: EUR\ndefault: {core: 0.03, gib: 0.004}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		prices, currency string
		allPods          bool
		problem          string
	}{
		"prices": {file, "EUR", true, ""}, "none": {"", "", true, ""}, "one namespace": {file, "EUR", false, ""}, "file is gone": {file + "x", "", true, "Prices are not known"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := sourceOf(new(fake))
			s.prices, s.allPods = c.prices, c.allPods
			for range 3 { // no page waits for the surplus
				s.State(t.Context())
				time.Sleep(freshState.age)
			}
			state := s.State(t.Context())
			causes := strings.Join(state.Causes, " ") // only viewers of all namespaces see the surplus, and the path of the file
			if (state.Surplus != nil) != (c.problem == "") || !strings.Contains(causes, c.problem) || strings.Contains(strings.Join(state.Problems, " "), file) {
				t.Fatalf("%s: surplus %+v, causes %q, problems %q", name, state.Surplus, causes, state.Problems)
			}
			if state.Surplus != nil && (state.Surplus.Currency != c.currency || state.Surplus.Packing.Known != (c.allPods && len(s.world.Nodes()) > 0)) {
				t.Errorf("%s: surplus %+v", name, state.Surplus)
			}
		})
	}
}

func TestHistory_storedState_peaksOrHistogramsOrNothing(t *testing.T) {
	row := &overview.Row{Workload: cluster.Workload{Namespace: "shop", Name: "web"}, VPA: "web", Containers: []*overview.Container{{Row: review.Row{Subject: review.Subject{Container: "app"}}}}}
	for name, c := range map[string]struct {
		f       *fake
		vpa     string
		buckets bool
		fails   bool
	}{
		"histogram":             {&fake{found: true}, "web", true, false},
		"nothing":               {&fake{}, "web", false, false},
		"without VPA":           {&fake{found: true}, "", false, false},
		"state that is invalid": {&fake{found: true, histories: []usage.History{{Container: "app", Form: "adaptive/1", Data: []byte{1}}}}, "web", true, false},
		"API server fails":      {&fake{storeErr: errors.New("x")}, "web", false, true},
	} {
		row.VPA = c.vpa
		got, err := sourceOf(c.f).History(t.Context(), row)
		if (err != nil) != c.fails {
			t.Errorf("%s: error %v", name, err)
		}
		buckets := len(got.Containers) == 1 && len(got.Containers[0].CPUBuckets) > 0 && len(got.Containers[0].MemoryBuckets) > 0
		if buckets != c.buckets {
			t.Errorf("%s: history %+v", name, got)
		}
	}
}

// A page without failures reports no problem, and its activity comes from the events.
func TestSource_allReadingsSucceed_noProblemIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := sourceOf(new(fake)).State(t.Context())
		if len(state.Problems) != 0 || len(state.Activity) != 1 || state.Pending {
			t.Errorf("problems %q, activity %+v, pending: %t; want no problem and one event", state.Problems, state.Activity, state.Pending)
		}
	})
}

func TestReading_peek_returnsTheLastValueOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reading[int]{attempts: attempts{log: slog.New(slog.DiscardHandler)}}
		if v, ok, at := r.peek(); v != 0 || ok || !at.IsZero() {
			t.Errorf("before the first value: %d, %t, %v", v, ok, at)
		}
		now := time.Now()
		_, _, _ = r.get(t.Context(), freshUsage, func(context.Context) (int, error) { return 7, nil })
		synctest.Wait()
		if v, ok, at := r.peek(); v != 7 || !ok || !at.Equal(now) {
			t.Errorf("after the first value: %d, %t, %v; want 7 of %v", v, ok, at, now)
		}
	})
}

// The peaks of one container are not shown for another one, and the record of the updater is logged only if it cannot be read.
func TestHistory_twoContainers_eachHasItsOwnPeaks(t *testing.T) {
	profile, _ := recommend.Builtin("balanced")
	state := profile.Extend()
	at := time.Now().Truncate(time.Hour)
	state.Observe(usage.Sample{At: at, CPU: 0.2, Memory: 3e8, Has: cluster.Both}, cluster.Both)
	data, err := state.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	f := &fake{histories: []usage.History{{Container: "app", Form: state.Form(), Data: data, LastSample: at}}, found: true}
	s := sourceOf(f)
	s.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	row := &overview.Row{Workload: target, VPA: "web", Containers: []*overview.Container{{Row: review.Row{Subject: review.Subject{Container: "proxy"}}}, {Row: review.Row{Subject: review.Subject{Container: "app"}}}}}
	got, err := s.History(t.Context(), row)
	if err != nil || len(got.Containers) != 2 {
		t.Fatalf("%d containers, error %v; want 2", len(got.Containers), err)
	}
	if proxy := got.Containers[0]; len(proxy.CPU) != 0 || len(proxy.CPUBuckets) == 0 || proxy.Samples != 7 {
		t.Errorf("proxy has %d peaks, %d buckets and %d samples; want only those of its checkpoint", len(proxy.CPU), len(proxy.CPUBuckets), proxy.Samples)
	}
	if app := got.Containers[1]; len(app.CPU) != 1 || len(app.Memory) != 1 || len(app.CPUBuckets) != 0 || !app.Last.Equal(at) {
		t.Errorf("app is %+v; want one peak of each resource and no buckets", app)
	}
	if log.Len() != 0 {
		t.Errorf("readings that succeed are logged:\n%s", log.String())
	}
}

func TestHistory_partsCannotBeRead_areLoggedAndLeftOut(t *testing.T) {
	for want, f := range map[string]*fake{
		"Cannot decode the stored hourly peaks of a container for the web page": {histories: []usage.History{{Container: "app", Form: "adaptive/1", Data: []byte{1}}}},
		"Cannot read the UpdateState of a workload for the web page":            {stateErr: errors.New("no")},
		"Cannot compare the sizing profiles of a workload for the web page":     {vpas: []*cluster.Autoscaler{vpaOf("default")}, err: errors.New("no")},
	} {
		var log strings.Builder
		s := sourceOf(f)
		s.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		row := &overview.Row{Workload: target, VPA: "web", Containers: []*overview.Container{{Row: review.Row{Subject: review.Subject{Container: "app"}}}}}
		if _, err := s.History(t.Context(), row); err != nil || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), want) {
			t.Errorf("error %v, log %q; want only %q", err, log.String(), want)
		}
	}
}

// A panic while an overview is computed ends neither the process nor the page.
func TestSource_panic_laterPageIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{panics: true}
		s := sourceOf(f)
		if state := s.State(t.Context()); len(state.Overview.Rows) != 0 || len(state.Problems) != 1 {
			t.Errorf("state %+v", state)
		}
		f.mu.Lock()
		f.panics = false
		f.mu.Unlock()
		time.Sleep(freshState.age)
		s.State(t.Context())
		time.Sleep(time.Second)
		if state := s.State(t.Context()); len(state.Overview.Rows) != 1 {
			t.Errorf("state %+v", state)
		}
	})
}
