// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/test/kubetest"
)

// The checkpoints differ in their samples and times, so the test fails if the younger VPA's checkpoint is restored, merged or tried.
func TestRestore_twoVPAsOfOneWorkload_onlyTheCheckpointOfTheOlderIsUsed(t *testing.T) {
	b := newBench()
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	w := b.deployment("web", "app")
	k := b.checkpointer()
	var log bytes.Buffer
	k.log = slog.New(slog.NewTextHandler(&log, nil))
	k.usageStore.Tick(now)
	for i, name := range []string{"z-older", "a-younger"} {
		a := b.autoscale(name, w)
		a.Created = now.Add(time.Duration(i) * time.Hour)
		k.loadedCheckpoints[checkpoint.Key{Autoscaler: a.Key, Container: "app"}] = checkpointOf(w, now.Add(-time.Duration(i)*time.Minute), 10+10*i)
	}
	k.Restore(now, b.autoscalers)
	if got := k.usageStore.Series(w, "app").Seen(cluster.CPU).Count; got != 10 {
		t.Errorf("%d samples are restored, want the 10 of the older VPA", got)
	}
	if got := k.savedAt[usage.Ref{Workload: w, Container: "app"}]; !got.Equal(now) {
		t.Errorf("the history counts as stored at %v, want %v, the time of the checkpoint of the older VPA", got, now)
	}
	if len(k.loadedCheckpoints) > 0 {
		t.Errorf("%d checkpoints are still loaded", len(k.loadedCheckpoints))
	}
	if log.Len() > 0 {
		t.Errorf("logged, although the second checkpoint is redundant and not an error:\n%s", log.String())
	}
}

// A VPA that is served later has a checkpoint of history that is already in the store. Its samples must not count twice.
func TestRestore_historyIsAlreadyStored_loadedCheckpointIsDropped(t *testing.T) {
	b := newBench()
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	a := b.autoscale("web", b.deployment("web", "app"))
	k := b.checkpointer()
	k.usageStore.Tick(now)
	k.savedAt[usage.Ref{Workload: a.Target, Container: "app"}] = now
	k.loadedCheckpoints[checkpoint.Key{Autoscaler: a.Key, Container: "app"}] = checkpointOf(a.Target, now, 10)
	k.Restore(now, b.autoscalers)
	if k.usageStore.Series(a.Target, "app") != nil {
		t.Error("the checkpoint is restored")
	}
	if len(k.loadedCheckpoints) > 0 {
		t.Errorf("%d checkpoints are still loaded", len(k.loadedCheckpoints))
	}
}

// The histograms of such a checkpoint are restored, so it counts as stored and is not written again at once.
func TestRestore_invalidExtraData_checkpointCountsAsStored(t *testing.T) {
	b := newBench()
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	a := b.autoscale("web", b.deployment("web", "app"))
	k := b.checkpointer()
	k.usageStore.Tick(now)
	c := checkpointOf(a.Target, now, 10)
	c.Extra = []byte("invalid")
	k.loadedCheckpoints[checkpoint.Key{Autoscaler: a.Key, Container: "app"}] = c
	k.Restore(now, b.autoscalers)
	if got := k.savedAt[usage.Ref{Workload: a.Target, Container: "app"}]; !got.Equal(c.Updated) {
		t.Errorf("stored at %v, want %v", got, c.Updated)
	}
}

func TestTakeModelState_profileHasModelState_isReturnedOnce(t *testing.T) {
	b := newBench()
	w := b.deployment("web", "app")
	k := b.checkpointer()
	ref := usage.Ref{Workload: w, Container: "app"}
	k.loadedModelStates[w] = []usage.History{{Container: "other"}, {Container: "app", Data: []byte{1}}}
	if h := k.takeModelState(ref); len(h.Data) > 0 {
		t.Error("the model state is returned although the profile has none")
	}
	k.usageStore.Extend(w, recommend.Builtins()[1].Extend)
	if h := k.takeModelState(ref); len(h.Data) != 1 {
		t.Error("the model state is not returned")
	}
	if h := k.takeModelState(ref); len(h.Data) > 0 || len(k.loadedModelStates[w]) != 1 {
		t.Errorf("the model state is returned twice; %d remain, want that of the other container", len(k.loadedModelStates[w]))
	}
}

func TestNewest_checkpointsOfTwoWorkloads_newestCounts(t *testing.T) {
	b := newBench()
	k := b.checkpointer()
	vpa := cluster.Key{Namespace: "shop", Name: "web"}
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for container, days := range map[string]int{"a": 0, "b": 2, "c": 1} {
		k.loadedCheckpoints[checkpoint.Key{Autoscaler: vpa, Container: container}] =
			usage.Checkpoint{Workload: cluster.Workload{Name: "of-" + container}, Updated: start.AddDate(0, 0, days)}
	}
	k.loadedCheckpoints[checkpoint.Key{Autoscaler: vpa, Container: "upstream"}] = usage.Checkpoint{Updated: start.AddDate(0, 0, 9)}
	stored := newest(k.loadedCheckpoints, func(c *usage.Checkpoint) cluster.Workload { return c.Workload })
	if got := stored[vpa].Name; got != "of-b" {
		t.Errorf("the workload is %q, want that of the newest checkpoint with a workload, of-b", got)
	}
}

// Otherwise the loaded checkpoint would be restored if the VPA referenced its former workload again, although a newer one is stored.
func TestSave_vpaReferencesAnotherWorkload_loadedCheckpointIsDropped(t *testing.T) {
	b := newBench()
	now := time.Now()
	a := b.autoscale("web", b.deployment("web", "app"))
	former := cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "former"}
	b.stored[checkpoint.Key{Autoscaler: a.Key, Container: "app"}] = checkpointOf(former, now, 10)
	k := b.checkpointer()
	if err := k.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.Restore(now, b.autoscalers)
	if len(k.loadedCheckpoints) != 1 {
		t.Fatal("the checkpoint of another workload is not kept")
	}
	k.usageStore.Configure(a.Target, nil)
	observe(k.usageStore, now, b.pods[0], 10)
	k.Save(t.Context(), now, b.autoscalers)
	if got := b.stored[checkpoint.Key{Autoscaler: a.Key, Container: "app"}].Workload; got != a.Target || len(k.loadedCheckpoints) > 0 {
		t.Errorf("the stored checkpoint is for %v, %d checkpoints are still loaded; want %v and none", got, len(k.loadedCheckpoints), a.Target)
	}
}

func TestStoreModelStates_eachOutcome_isCounted(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	web := cluster.Workload{Name: "web"}
	for name, tt := range map[string]struct {
		of        cluster.Workload
		cancelled bool
		err       error
		outcome   string
		stored    bool
	}{
		"it is written":                {of: web, outcome: "written", stored: true},
		"the time is over":             {of: web, cancelled: true, err: errors.New("the context is cancelled"), outcome: "postponed"},
		"it is refused":                {of: web, err: errors.New("no space left"), outcome: "failed"},
		"there is no CRD UsageHistory": {of: web, err: kube.ErrUnsupported, outcome: "carried"},
		"a group, and there is none":   {of: web.InGroup("leader"), err: kube.ErrUnsupported, outcome: "failed"},
	} {
		ctx := t.Context()
		if tt.cancelled {
			ctx = ended
		}
		b := newBench()
		b.modelStates.err = tt.err
		k := b.checkpointer()
		stored := k.storeModelStates(ctx, tt.of, []usage.History{{Container: "app", Data: []byte{1}}})
		if n := testutil.ToFloat64(k.metrics.modelStates.WithLabelValues(tt.outcome)); n != 1 || stored != tt.stored {
			t.Errorf("%s: %q is counted %v times, stored %t, want once, %t", name, tt.outcome, n, stored, tt.stored)
		}
	}
}

func TestNeeded_profileWithModelStateButNoContainer_isNotNeeded(t *testing.T) {
	b := newBench()
	w := b.deployment("web", "app")
	b.autoscale("web", w)
	k := b.checkpointer()
	k.usageStore.Extend(w, recommend.Builtins()[1].Extend)
	if k.needed(b.autoscalers, b.autoscalers).Has(w) {
		t.Error("the model state is needed although no container has history")
	}
	k.usageStore.Track(b.pods[0])
	k.usageStore.Observe(usage.Sample{Pod: b.pods[0].Key, Container: "app", At: time.Now(), CPU: 1, Has: cluster.Of(cluster.CPU)})
	if !k.needed(b.autoscalers, b.autoscalers).Has(w) {
		t.Error("the model state of a container with history is not needed")
	}
}

// rejectingStore is a checkpoint store whose writes fail after a number of them.
type rejectingStore struct {
	*bench
	accepts int
}

func (s *rejectingStore) Write(ctx context.Context, key checkpoint.Key, c usage.Checkpoint) error {
	if s.accepts == 0 {
		return errors.New("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline")
	}
	s.accepts--
	return s.bench.Write(ctx, key, c)
}

// Shortly before the deadline the rate limiter rejects requests although the context has not ended.
func TestStoreCheckpoint_deadlineIsNear_resumesWithTheSameVPA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			remaining time.Duration
			outcome   string
			resumes   bool
		}{
			"deadline in half a second": {time.Second / 2, "postponed", true},
			"deadline in a minute":      {time.Minute, "failed", false},
		} {
			b := newBench()
			w := b.deployment("web", "app")
			b.autoscale("a", w)
			b.autoscale("b", w)
			k := b.checkpointer()
			k.store.Checkpoints = &rejectingStore{b, 1}
			ref := usage.Ref{Workload: w, Container: "app"}
			ctx, cancel := context.WithTimeout(t.Context(), tt.remaining)
			d := &unsaved{ref: ref}
			k.storeCheckpoint(ctx, d, d.checkpoint, b.autoscalers)
			cancel()
			if n := testutil.ToFloat64(k.metrics.checkpoints.WithLabelValues(tt.outcome)); n != 1 {
				t.Errorf("%s: %v checkpoints are counted as %s, want 1", name, n, tt.outcome)
			}
			if at := d.resumeAt.Name; tt.resumes && at != "b" || !tt.resumes && at != "" {
				t.Errorf("%s: resumes with VPA %q, want b: %t", name, at, tt.resumes)
			}
		}
	})
}

func TestCollect_historyExpired_checkpointIsDeletedUnlessThereIsNewHistory(t *testing.T) {
	for name, newHistory := range map[string]bool{"no new history": false, "new history": true} {
		b := newBench()
		a := b.autoscale("web", b.deployment("web", "app"))
		k := b.checkpointer()
		key := checkpoint.Key{Autoscaler: a.Key, Container: "app"}
		b.stored[key] = usage.Checkpoint{}
		k.Forget([]usage.Ref{{Workload: a.Target, Container: "app"}})
		now := time.Now()
		if newHistory {
			k.usageStore.Tick(now)
			k.usageStore.Track(b.pods[0])
			k.usageStore.Observe(usage.Sample{Pod: b.pods[0].Key, Container: "app", At: now, CPU: 1, Has: cluster.Of(cluster.CPU)})
		}
		k.Collect(t.Context(), now, b.autoscalers, b.autoscalers)
		if _, stored := b.stored[key]; stored != newHistory {
			t.Errorf("%s: the checkpoint is stored: %t, want %t", name, stored, newHistory)
		}
	}
}

// The VPA of another recommender, or a VPA that references another workload now, may need its checkpoint later.
func TestCollect_checkpointsOfExistingVPAs_stayLoaded(t *testing.T) {
	b := newBench()
	now := time.Now()
	w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	foreign := b.autoscale("foreign", w)
	k := b.checkpointer()
	gone := cluster.Key{Namespace: "shop", Name: "gone"}
	for _, key := range []cluster.Key{foreign.Key, gone} {
		k.loadedCheckpoints[checkpoint.Key{Autoscaler: key, Container: "app"}] = usage.Checkpoint{Workload: w}
		k.storedOf[key] = w
	}
	k.Collect(t.Context(), now, b.autoscalers, nil)
	if len(k.loadedCheckpoints) != 1 || len(k.storedOf) != 1 || k.storedOf[foreign.Key] != w {
		t.Errorf("loaded checkpoints %v, workloads %v; want only those of the existing VPA", k.loadedCheckpoints, k.storedOf)
	}
}

func TestNeeded_workloads_dependOnTheVPAsThatReferenceThem(t *testing.T) {
	b := newBench()
	named := func(name string) cluster.Workload {
		return cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
	}
	profile, ok := recommend.Builtin("balanced")
	if !ok {
		t.Fatal("no profile balanced")
	}
	k := b.checkpointer()
	now := time.Now()
	for _, name := range []string{"served", "unreferenced", "foreign"} {
		k.usageStore.Configure(named(name), nil)
		k.usageStore.Extend(named(name), profile.Extend)
		if err := k.usageStore.Restore(named(name), "app", checkpointOf(named(name), now, 20)); err != nil {
			t.Fatal(err)
		}
	}
	served, foreign := b.autoscale("served", named("served")), b.autoscale("foreign", named("foreign"))
	plain := b.autoscale("plain", named("plain"))
	needed := k.needed([]*cluster.Autoscaler{served, foreign, plain}, []*cluster.Autoscaler{served, plain})
	for name, want := range map[string]bool{"served": true, "foreign": true, "unreferenced": false, "plain": false} {
		if got := needed.Has(named(name)); got != want {
			t.Errorf("model state of %s: needed %t, want %t", name, got, want)
		}
	}
	unreadable := b.autoscale("unreadable", cluster.Workload{})
	needed = k.needed([]*cluster.Autoscaler{unreadable}, nil)
	if !needed.Has(named("unreferenced")) {
		t.Error("a VPA whose target cannot be read may reference any workload of its namespace, but the model state is not needed")
	}
}

// Checkpoints of VPAs that are not served must not affect the order of the others.
func TestRestorable_checkpointsOfManyVPAs_oldestVPAIsFirst(t *testing.T) {
	for attempt := range 20 {
		b := newBench()
		w := b.deployment("web", "app")
		served := map[cluster.Key]*cluster.Autoscaler{}
		k := b.checkpointer()
		for i := range 30 {
			k.loadedCheckpoints[checkpoint.Key{Autoscaler: cluster.Key{Namespace: "shop", Name: fmt.Sprintf("m%02d", i)}, Container: "app"}] = usage.Checkpoint{}
		}
		for i, name := range []string{"z-oldest", "a-youngest"} {
			a := b.autoscale(name, w)
			a.Created = time.Unix(int64(i), 0)
			served[a.Key] = a
			k.loadedCheckpoints[checkpoint.Key{Autoscaler: a.Key, Container: "app"}] = usage.Checkpoint{}
		}
		if keys := k.restorable(served); len(keys) != 2 || keys[0].Autoscaler.Name != "z-oldest" {
			t.Fatalf("attempt %d: the order is %v", attempt, keys)
		}
	}
}

// forbiddenDeletes is a checkpoint store that may not delete.
type forbiddenDeletes struct{ *bench }

func (forbiddenDeletes) Collect(context.Context, checkpoint.Unused) (int, error) {
	return 0, fmt.Errorf("delete: %w", kube.ErrForbidden)
}

func TestCollect_workloadsComeAndGoAndDeletesFail_memoryIsBounded(t *testing.T) {
	for _, dryRun := range []bool{false, true} {
		b := newBench()
		b.config.DryRun = dryRun
		k := b.checkpointer()
		k.store.Checkpoints = forbiddenDeletes{b}
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		for i := range 1000 {
			k.Forget([]usage.Ref{{Workload: cluster.Workload{Kind: "Job", Namespace: "shop", Name: fmt.Sprint(i)}, Container: "app"}})
			now = now.Add(time.Hour)
			k.Collect(t.Context(), now, nil, nil)
		}
		if len(k.expired) > 0 {
			t.Errorf("dry run %t: %d expired containers are kept in memory, want none", dryRun, len(k.expired))
		}
	}
}

func TestLoad_apiServerDoesNotAnswer_retries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		api := kubetest.NewLocalAPI(t)
		api.Handle(kubetest.NoAnswer)
		clients, err := kube.ClientsFor(kubetest.LocalConfig(api))
		if err != nil {
			t.Fatal(err)
		}
		histories := checkpoint.NewHistories(clients, checkpoint.StorageOptions{})
		k := b.checkpointer()
		k.store = Storage{checkpoint.NewCheckpoints(clients, checkpoint.StorageOptions{}), histories}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := k.Load(ctx); err == nil {
			t.Fatal("load returned no error")
		}
		if n := len(api.Log()); n < 4 {
			t.Errorf("%d requests in ten minutes, want at least 4", n)
		}
	})
}

func TestSave_configuration_decidesWhetherAnythingIsWritten(t *testing.T) {
	for name, tt := range map[string]struct {
		config CheckpointerConfig
		want   int
	}{
		"default":         {CheckpointerConfig{}, 1},
		"from Prometheus": {CheckpointerConfig{Unsaved: true}, 0},
		"dry run":         {CheckpointerConfig{DryRun: true}, 0},
	} {
		b := newBench()
		b.config.Unsaved, b.config.DryRun = tt.config.Unsaved, tt.config.DryRun
		a := b.autoscale("web", b.deployment("web", "app"))
		k := b.checkpointer()
		k.usageStore.Configure(a.Target, nil)
		now := time.Now()
		observe(k.usageStore, now, b.pods[0], 10)
		k.Save(t.Context(), now, b.autoscalers)
		k.Flush(t.Context(), now, b.autoscalers)
		if len(b.stored) != tt.want {
			t.Errorf("%s: %d checkpoints are stored, want %d", name, len(b.stored), tt.want)
		}
	}
}

// Save writes a day of history every ten minutes, short history after a twentieth of its length, and history with a new OOM kill at
// once. Flush writes everything.
func TestSave_historyChanged_isDueByItsLengthOrAnOOMKill(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		after time.Duration // since the last write
		short bool          // 100 minutes of history instead of a day
		oom   bool
		flush bool
		want  bool
	}{
		"a second later":                       {after: time.Second},
		"a second later, with an OOM kill":     {after: time.Second, oom: true, want: true},
		"a second later, at the end":           {after: time.Second, flush: true, want: true},
		"short history, two minutes later":     {short: true, after: 2 * time.Minute},
		"short history, six minutes later":     {short: true, after: 6 * time.Minute, want: true},
		"twenty minutes later":                 {after: 20 * time.Minute, want: true},
		"the clock was set back by two hours":  {after: -2 * time.Hour, want: true},
		"the clock was set back by one second": {after: -time.Second},
	} {
		b := newBench()
		a := b.autoscale("web", b.deployment("web", "app"))
		k := b.checkpointer()
		k.usageStore.Configure(a.Target, nil)
		samples := 24 * 60 // one per minute
		if tt.short {
			samples = 100
		}
		observe(k.usageStore, now, b.pods[0], samples)
		ref := usage.Ref{Workload: a.Target, Container: "app"}
		last := now.Add(-tt.after)
		if near := tt.after.Abs() < time.Minute; near && saveInterval(a.Target, last) != saveInterval(a.Target, now) {
			t.Fatal("the two times are in different intervals")
		}
		k.savedAt[ref] = last
		if tt.oom {
			k.usageStore.ObserveOOM(usage.OOM{Pod: b.pods[0].Key, Container: "app", At: now, Memory: 1 << 30})
		}
		if tt.flush {
			k.Flush(t.Context(), now, b.autoscalers)
		} else {
			k.Save(t.Context(), now, b.autoscalers)
		}
		if got := len(b.stored) > 0; got != tt.want {
			t.Errorf("%s: written %t, want %t", name, got, tt.want)
		}
	}
}

// The history of a workload whose profile has model state is restored even if there is no checkpoint.
func TestRestore_modelStateWithoutCheckpoint_isRestored(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	b := newBench()
	a := b.autoscale("web", b.deployment("web", "app"))
	extend := recommend.Builtins()[1].Extend
	before := b.checkpointer()
	before.usageStore.Configure(a.Target, nil)
	before.usageStore.Extend(a.Target, extend)
	observe(before.usageStore, now, b.pods[0], 100)
	before.Flush(t.Context(), now, b.autoscalers)
	clear(b.stored)
	k := b.checkpointer()
	if err := k.Load(t.Context()); err != nil || len(k.loadedModelStates) != 1 {
		t.Fatalf("load: %v, model state of %d workloads, want 1", err, len(k.loadedModelStates))
	}
	k.usageStore.Tick(now)
	k.usageStore.Configure(a.Target, nil)
	k.Restore(now, b.autoscalers)
	if len(k.loadedModelStates) != 1 {
		t.Error("the model state is dropped although the profile has none")
	}
	k.usageStore.Extend(a.Target, extend)
	k.Restore(now, b.autoscalers)
	if len(k.loadedModelStates) > 0 || k.usageStore.Series(a.Target, "app") == nil {
		t.Error("the model state is not restored")
	}
}

func TestLoad_checkpoints_containProfileAndWorkload(t *testing.T) {
	b := newBench()
	vpa := cluster.Key{Namespace: "shop", Name: "web"}
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	web := cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"}
	for container, c := range map[string]usage.Checkpoint{
		"a": {Profile: "old", Updated: start},
		"b": {Profile: "latest", Workload: web, Updated: start.Add(time.Hour)},
		"c": {Updated: start.Add(2 * time.Hour)},
	} {
		b.stored[checkpoint.Key{Autoscaler: vpa, Container: container}] = c
	}
	k := b.checkpointer()
	if err := k.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := k.StoredWorkload(vpa); got != web {
		t.Errorf("workload %v, want %v", got, web)
	}
	if got := k.TakeProfiles(); len(got) != 1 || got[vpa] != "latest" {
		t.Errorf("profiles %v, want the newest of the VPA", got)
	}
	if got := k.TakeProfiles(); len(got) > 0 {
		t.Errorf("profiles %v are returned twice", got)
	}
}

func TestSizingProfile_recommenderOfVPA_isItsNameUnlessBuiltIn(t *testing.T) {
	for name, tt := range map[string]struct {
		recommender string
		nameGiven   bool
		want        string
	}{
		"SizingProfile":           {recommender: "batch-jobs", want: "batch-jobs"},
		"built-in profile":        {recommender: "balanced"},
		"--recommender-name":      {recommender: "batch-jobs", nameGiven: true},
		"VPA without recommender": {},
	} {
		b := newBench()
		b.config.NameGiven = tt.nameGiven
		if got := b.checkpointer().sizingProfile(&cluster.Autoscaler{Recommender: tt.recommender}); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A failed attempt changes nothing, and the next one is later. What came from checkpoints meanwhile stays loaded.
func TestLoadAgain_attemptsFailThenSucceed_modelStateIsLoaded(t *testing.T) {
	b := newBench()
	w := b.deployment("web", "app")
	carried := cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "carried"}
	b.modelStates.stored[w] = []usage.History{{Container: "app", Data: []byte{1}}}
	b.modelStates.unread = kube.ErrForbidden
	k := b.checkpointer()
	var log bytes.Buffer
	k.log = slog.New(slog.NewTextHandler(&log, nil))
	if err := k.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.loadedModelStates[carried] = []usage.History{{Container: "app", Data: []byte{2}}}
	now := time.Now()
	passes := func(d time.Duration) {
		for end := now.Add(d); now.Before(end); now = now.Add(time.Minute) {
			k.LoadAgain(t.Context(), now)
		}
	}
	passes(time.Hour)
	if b.modelStates.loads < 5 || b.modelStates.loads > 10 {
		t.Errorf("%d attempts in an hour, want 5 to 10", b.modelStates.loads)
	}
	if k.storeModelStates(t.Context(), w, []usage.History{{Container: "app", Data: []byte{3}}}) {
		t.Error("stored, although the stored model state is not read")
	}
	b.modelStates.unread, b.modelStates.broken = nil, errors.New("no answer")
	passes(10 * time.Minute)
	if n := strings.Count(log.String(), "no answer"); n != 1 || k.unread == nil {
		t.Errorf("%d warnings, unread: %v; want one, and another attempt later", n, k.unread)
	}
	b.modelStates.broken = nil
	passes(11 * time.Minute)
	if len(k.loadedModelStates[w]) != 1 || len(k.loadedModelStates[carried]) != 1 || k.unread != nil {
		t.Errorf("loaded %v, unread: %v", k.loadedModelStates, k.unread)
	}
	loads := b.modelStates.loads
	if passes(time.Hour); b.modelStates.loads != loads {
		t.Errorf("loaded %d times more", b.modelStates.loads-loads)
	}
}
