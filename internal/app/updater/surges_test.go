// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/surges"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/surge"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// deletionCost is the annotation that determines which pods a ReplicaSet removes first.
const deletionCost = "controller.kubernetes.io/pod-deletion-cost"

// A surgeCluster is a Deployment with its controllers.
type surgeCluster struct {
	*fakeCluster
	t          *testing.T
	now        time.Time
	deployment cluster.Deployment
	version    int
	starts     time.Duration // how long a new pod takes to become ready; negative: never
	noRoom     bool          // new pods get no node
	noPods     bool          // no pod is created beyond the old number
	scaled     bool          // an HPA scales the Deployment
	watchLags  bool          // the watch shows no annotation
	created    int
	leastReady int
	readErr    error
	writeErr   error
	hangs      bool // writes have no answer
	reads      map[string]int
	neighbours []cluster.Workload // Deployments of other tenants with an invalid record

	killer
	states *memoryStates // nil: the updater stores nothing. Otherwise the time must be that of a bubble
	frozen bool          // by the ConfigMap of the cluster
}

func (y *surgeCluster) Rules(a *cluster.Autoscaler) rollout.Rules {
	return rollout.Rules{Autoscaler: a, Cluster: cluster.Freeze{On: y.frozen}}
}

func newSurgeCluster(t *testing.T, replicas int) *surgeCluster {
	y := &surgeCluster{fakeCluster: newFakeCluster(cluster.Recreate), t: t, now: time.Now(), starts: 30 * time.Second}
	y.config.Mover, y.config.Budget.MinReplicas = "surge", 2
	y.pods = y.pods[:min(replicas, 3)]
	y.leastReady = replicas
	top := y.pods[0].Top
	y.deployment = cluster.Deployment{Workload: top, UID: "d", Replicas: int32(replicas), Observed: true}
	return y
}

func (y *surgeCluster) Scale(cluster.Workload) cluster.Scale {
	return cluster.Scale{Known: true, Replicas: y.deployment.Replicas}
}

func (y *surgeCluster) Scaled() (map[cluster.Workload]bool, bool) {
	return map[cluster.Workload]bool{y.deployment.Workload: y.scaled}, true
}

func (y *surgeCluster) Surging() []cluster.Workload {
	if y.neighbours != nil {
		return append(slices.Clone(y.neighbours), y.deployment.Workload)
	}
	if y.deployment.Recorded && !y.watchLags {
		return []cluster.Workload{y.deployment.Workload}
	}
	return nil
}

func (y *surgeCluster) Read(_ context.Context, w cluster.Workload) (cluster.Deployment, error) {
	y.killer.mu.Lock()
	defer y.killer.mu.Unlock()
	if y.reads != nil {
		y.reads[w.Name]++
	}
	if w != y.deployment.Workload {
		return cluster.Deployment{Workload: w, Recorded: true}, nil
	}
	if y.dead {
		return cluster.Deployment{}, errKilled
	}
	d := y.deployment
	d.Version = strconv.Itoa(y.version)
	for _, p := range y.pods {
		if p.Top == w {
			d.Pods, d.Updated = d.Pods+1, d.Updated+1
		}
	}
	return d, y.readErr
}

func (y *surgeCluster) Write(ctx context.Context, d *cluster.Deployment, replicas int32, s *cluster.Surge) error {
	if y.hangs {
		y.done = append(y.done, "hang")
		<-ctx.Done()
		return ctx.Err()
	}
	return y.write(func() error {
		if y.writeErr != nil {
			return y.writeErr
		}
		if d.Version != strconv.Itoa(y.version) {
			return kube.ErrInvalid
		}
		y.version++
		y.deployment.Replicas, y.deployment.Recorded, y.deployment.Surge, y.deployment.Foreign = replicas, s != nil, nil, false
		if s != nil {
			record := *s
			y.deployment.Surge = &record
		}
		return nil
	})
}

func (y *surgeCluster) Annotate(_ context.Context, p *cluster.Pod, set map[string]string, remove ...string) error {
	return y.write(func() error {
		cost := 0
		if v, ok := set[deletionCost]; ok {
			cost, _ = strconv.Atoi(v)
		} else if !slices.Contains(remove, deletionCost) {
			return nil
		}
		y.replace(p, func(q *cluster.Pod) { q.DeletionCost = int32(cost) })
		return nil
	})
}

func (y *surgeCluster) Resize(ctx context.Context, p *cluster.Pod, with []policy.Fitted) error {
	return y.write(func() error { return y.fakeCluster.Resize(ctx, p, with) })
}

func (y *surgeCluster) Evict(_ context.Context, p *cluster.Pod) error {
	return y.write(func() error {
		y.done = append(y.done, "evict "+p.Name)
		y.pods = slices.DeleteFunc(slices.Clone(y.pods), func(q *cluster.Pod) bool { return q.UID == p.UID })
		return nil
	})
}

// reconcile does what the ReplicaSet controller, the scheduler and the kubelet do until a time.
func (y *surgeCluster) reconcile(now time.Time) {
	if y.states != nil {
		time.Sleep(now.Sub(y.now))
	}
	y.now = now
	for i, p := range y.pods {
		if !p.Ready && y.starts >= 0 && p.Node != "" && now.Sub(p.Created) >= y.starts {
			q := *p
			q.Phase, q.Ready, q.Started, q.ReadySince = cluster.Running, true, p.Created, now
			y.pods[i] = &q
		}
	}
	for len(y.pods) > int(y.deployment.Replicas) {
		slices.SortStableFunc(y.pods, func(a, b *cluster.Pod) int {
			switch {
			case a.Ready != b.Ready && b.Ready:
				return -1
			case a.Ready != b.Ready:
				return 1
			case a.DeletionCost != b.DeletionCost:
				return int(math.Copysign(1, float64(a.DeletionCost)-float64(b.DeletionCost)))
			}
			return b.Created.Compare(a.Created)
		})
		y.pods = y.pods[1:]
	}
	for len(y.pods) < int(y.deployment.Replicas) && (!y.noPods || len(y.pods) < y.leastReady) {
		y.created++
		p := *newFakeCluster(cluster.Recreate).pods[0]
		p.Name, p.UID = fmt.Sprint("new-", y.created), fmt.Sprint("new-", y.created)
		p.Created, p.Ready, p.Phase, p.ReadySince = now, false, cluster.Pending, now
		p.Containers = slices.Clone(p.Containers)
		p.Containers[0].Requests = y.autoscalers[0].Advice[0].Target
		if y.noRoom {
			p.Node = ""
		}
		y.pods = append(y.pods, &p)
	}
}

// start returns an updater as after a start of the process.
func (y *surgeCluster) start() *updater {
	y.restart()
	u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
	u.actuators.surges = surges.New(y, y, y, &u.config.Common, u.metrics.surges, u.health, u.log)
	if y.states != nil {
		u.storeIn(killedStates{y.states, &y.killer})
		if err := u.loadStates(y.t.Context()); err != nil {
			y.t.Fatal(err)
		}
	}
	return u
}

func (y *surgeCluster) ready() int {
	n := 0
	for _, p := range y.pods {
		if p.Ready {
			n++
		}
	}
	return n
}

// run runs passes every 30 seconds. A killed updater is started again before the next pass.
func (y *surgeCluster) run(minutes int) {
	y.t.Helper()
	u := y.start()
	for range 2 * minutes {
		y.check()
		u.pass(y.t.Context(), y.now)
		if y.isDead() {
			u = y.start()
		}
		y.check()
		y.reconcile(y.now.Add(30 * time.Second))
	}
}

// check checks what must always hold.
func (y *surgeCluster) check() {
	y.t.Helper()
	if y.deployment.Replicas > int32(y.leastReady)+1 {
		y.t.Fatalf("%d replicas, want at most %d", y.deployment.Replicas, y.leastReady+1)
	}
	if y.ready() < y.leastReady && y.count("evict") == 0 {
		y.t.Fatalf("%d pods are ready, want at least %d", y.ready(), y.leastReady)
	}
}

// checkEnd checks that nothing is left behind.
func (y *surgeCluster) checkEnd(replicas int32, created int) {
	y.t.Helper()
	if y.deployment.Replicas != replicas || y.deployment.Recorded {
		y.t.Errorf("%d replicas, want %d; record: %+v", y.deployment.Replicas, replicas, y.deployment.Surge)
	}
	if y.created != created {
		y.t.Errorf("%d pods were created, want %d", y.created, created)
	}
	for _, p := range y.pods {
		if p.DeletionCost != 0 {
			y.t.Errorf("pod %s still has the deletion cost %d", p.Name, p.DeletionCost)
		}
	}
}

func TestSurge_podsBelowBounds_eachIsReplacedOnceAndNoneIsMissing(t *testing.T) {
	for replicas := 1; replicas <= 3; replicas++ {
		y := newSurgeCluster(t, replicas)
		y.run(60)
		y.checkEnd(int32(replicas), replicas)
		if n := y.count("evict"); n > 0 {
			t.Errorf("%d evictions", n)
		}
	}
}

// The updater is killed at each write of three surges, before or after the write takes effect, with and without stored states.
func TestSurge_updaterIsKilledAtAnyWrite_noReplicaTooManyAndNoPodTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for _, stores := range []bool{false, true} {
		everyKill(t, 12, func(t *testing.T, k *killer) {
			y := newSurgeCluster(t, 3)
			y.killAt, y.applied = k.killAt, k.applied
			if stores {
				y.states = newMemoryStates()
			}
			y.run(120)
			k.requests = y.requests
			y.checkEnd(3, 3)
			if n := y.count("evict"); n > 0 {
				t.Errorf("%d evictions", n)
			}
		})
	}
}

// The updater is killed again and again, at every third to seventh write.
func TestSurge_updaterIsKilledOften_endsWithTheOldReplicas(t *testing.T) {
	for every := 2; every <= 7; every++ {
		for _, applied := range []bool{false, true} {
			y := newSurgeCluster(t, 3)
			y.applied = applied
			u := y.start()
			for range 600 {
				if y.killAt <= y.requests {
					y.killAt = y.requests + every
				}
				u.pass(t.Context(), y.now)
				if y.isDead() {
					u = y.start()
				}
				y.check()
				y.reconcile(y.now.Add(30 * time.Second))
			}
			y.checkEnd(3, 3)
		}
	}
}

// A freeze begins at each pass of a surge, and ends before or after the deadline of the surge. Nothing is written meanwhile, and the surge
// completes afterwards.
func TestSurge_freezeAtAnyPass_waitsAndCompletesAfterwards(t *testing.T) {
	for before := range 5 {
		for _, minutes := range []int{3, 30} {
			y := newSurgeCluster(t, 1)
			u := y.start()
			pass := func() {
				u.pass(t.Context(), y.now)
				y.reconcile(y.now.Add(30 * time.Second))
			}
			for range before {
				pass()
			}
			y.frozen = true
			written := y.requests
			for range 2 * minutes {
				pass()
			}
			if y.requests != written {
				t.Errorf("freeze of %d minutes after %d passes: %d requests during the freeze", minutes, before, y.requests-written)
			}
			y.frozen = false
			for range 20 {
				pass()
			}
			y.checkEnd(1, 1)
		}
	}
}

// Without the watch, an updater goes on with the surges that it began itself.
func TestSurge_watchLags_surgeCompletes(t *testing.T) {
	y := newSurgeCluster(t, 2)
	y.watchLags = true
	y.run(60)
	y.checkEnd(2, 2)
}

func TestSurge_newPodIsNeverReady_isTakenBackWithBackoff(t *testing.T) {
	y := newSurgeCluster(t, 2)
	y.starts = -1
	y.run(180)
	if n := y.count("evict"); n > 0 {
		t.Errorf("%d evictions, want none: a replacement is not ready either", n)
	}
	if y.created < 2 || y.created > 8 {
		t.Errorf("%d attempts in 3 hours, want a few", y.created)
	}
	for y.deployment.Recorded {
		y.starts = 0
		y.run(1)
	}
	y.run(30)
	if y.deployment.Replicas != 2 || y.deployment.Recorded {
		t.Errorf("replicas %d, record %+v", y.deployment.Replicas, y.deployment.Surge)
	}
}

// An additional pod that does not exist or has no node lacks what the pod to replace has, so an eviction may help.
func TestSurge_additionalPodLacksQuotaOrRoom_isTakenBackThenPodIsEvicted(t *testing.T) {
	for name, change := range map[string]func(*surgeCluster){
		"quota": func(y *surgeCluster) { y.noPods = true },
		"room":  func(y *surgeCluster) { y.noRoom = true },
	} {
		t.Run(name, func(t *testing.T) {
			y := newSurgeCluster(t, 3)
			change(y)
			u := y.start()
			for range 18 {
				u.pass(t.Context(), y.now)
				y.reconcile(y.now.Add(30 * time.Second))
			}
			if y.deployment.Replicas != 4 || y.count("evict") > 0 {
				t.Fatalf("%d replicas during the surge, %v", y.deployment.Replicas, y.done)
			}
			for range 6 {
				u.pass(t.Context(), y.now)
				y.reconcile(y.now.Add(30 * time.Second))
			}
			if y.count("evict") != 1 || y.deployment.Replicas == 5 {
				t.Errorf("got %v and %d replicas, want one eviction after the surge failed", y.done, y.deployment.Replicas)
			}
		})
	}
}

// Others may change the replicas, or let an HPA do it. podfit never overwrites their number.
func TestSurge_othersChangeTheDeployment_theirNumberStays(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*surgeCluster)
		want   int32
	}{
		"user scales up":            {func(y *surgeCluster) { y.deployment.Replicas = 7 }, 7},
		"user scales down":          {func(y *surgeCluster) { y.deployment.Replicas = 1 }, 1},
		"GitOps restores":           {func(y *surgeCluster) { y.deployment.Replicas = 3 }, 3},
		"scaled to zero":            {func(y *surgeCluster) { y.deployment.Replicas = 0 }, 0},
		"an HPA appears":            {func(y *surgeCluster) { y.scaled = true }, 3},
		"an HPA appears and scales": {func(y *surgeCluster) { y.scaled, y.deployment.Replicas = true, 9 }, 9},
		"a rollout begins":          {func(y *surgeCluster) { y.deployment.Updated = -2 }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			y := newSurgeCluster(t, 3)
			y.starts = time.Hour // the surge waits
			u := y.start()
			u.pass(t.Context(), y.now)
			y.reconcile(y.now.Add(30 * time.Second))
			if y.deployment.Replicas != 4 || !y.deployment.Recorded {
				t.Fatal("no surge began")
			}
			first := y.deployment.Surge.UID
			y.version++
			c.change(y)
			y.reconcile(y.now.Add(time.Second))
			u.pass(t.Context(), y.now)
			y.reconcile(y.now.Add(30 * time.Second))
			replicas, next := y.deployment.Replicas, ""
			if s := y.deployment.Surge; s != nil && s.UID != first { // the surge of another pod, with their number
				replicas, next = s.Replicas, s.UID
			}
			if replicas != c.want || y.deployment.Recorded && next == "" {
				t.Errorf("%d replicas, want %d; record %+v", replicas, c.want, y.deployment.Surge)
			}
			for _, p := range y.pods {
				if p.DeletionCost != 0 && p.UID != next {
					t.Errorf("pod %s keeps the deletion cost %d", p.Name, p.DeletionCost)
				}
			}
		})
	}
}

func TestSurge_withoutTheRight_podsAreEvictedAndOneLineIsLogged(t *testing.T) {
	y := newSurgeCluster(t, 3)
	var logged lines
	y.log = logged.logger()
	y.writeErr = kube.ErrForbidden
	y.run(60)
	if n := y.count("evict"); n != 3 {
		t.Errorf("%d evictions, want 3", n)
	}
	if n := logged.count("Cannot surge a Deployment"); n != 1 {
		t.Errorf("%d log lines, want 1", n)
	}
	if y.deployment.Replicas != 3 || y.deployment.Recorded {
		t.Errorf("replicas %d, record %+v", y.deployment.Replicas, y.deployment.Surge)
	}
}

func TestSurge_admissionControllerIsDown_surgeStillEnds(t *testing.T) {
	y := newSurgeCluster(t, 3)
	u := y.start()
	u.pass(t.Context(), y.now)
	y.stale = true
	for range 10 {
		y.reconcile(y.now.Add(30 * time.Second))
		u.pass(t.Context(), y.now)
	}
	y.reconcile(y.now.Add(30 * time.Second))
	y.checkEnd(3, 1)
}

func TestSurge_withAnHPAOrByDefault_podsAreEvicted(t *testing.T) {
	for name, change := range map[string]func(*surgeCluster){
		"HPA":        func(y *surgeCluster) { y.scaled = true },
		"default":    func(y *surgeCluster) { y.config.Mover = Defaults().Mover },
		"annotation": func(y *surgeCluster) { y.autoscalers[0].Mover = "evict" },
	} {
		y := newSurgeCluster(t, 3)
		change(y)
		y.run(30)
		if y.count("evict") != 3 || y.deployment.Replicas != 3 {
			t.Errorf("%s: %v, %d replicas", name, y.done, y.deployment.Replicas)
		}
	}
}

func TestSurge_annotationSurge_overridesTheFlag(t *testing.T) {
	y := newSurgeCluster(t, 3)
	y.config.Mover, y.autoscalers[0].Mover = string(surge.ByEviction), "surge"
	y.run(60)
	y.checkEnd(3, 3)
}

func TestUpdater_invalidAnnotationMover_isLoggedOnceAndFlagApplies(t *testing.T) {
	y := newSurgeCluster(t, 3)
	var logged lines
	y.log = logged.logger()
	y.autoscalers[0].Mover = "drain"
	y.run(60)
	if n := logged.count("it must be evict, room or surge"); n != 1 || logged.count("used=drain") == 0 {
		t.Errorf("%d warnings:\n%s", n, logged.text.String())
	}
	y.checkEnd(3, 3)
}

func TestConfig_mover_acceptsOnlyItsValues(t *testing.T) {
	for value, valid := range map[string]bool{"evict": true, "room": true, "surge": true, "": false, "move": false} {
		c := Defaults()
		c.Mover = value
		err := c.ValidateOwn()
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "--mover must be evict, room or surge") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// A tenant may write any record. podfit changes nothing then, and reads the Deployment only.
func TestSurge_recordIsInvalid_deploymentIsLeftAndReportedOnce(t *testing.T) {
	y := newSurgeCluster(t, 3)
	var logged lines
	y.log = logged.logger()
	y.deployment.Recorded = true
	y.run(30)
	if y.requests != 0 || !y.deployment.Recorded || y.deployment.Replicas != 3 {
		t.Errorf("%d writes, %d replicas", y.requests, y.deployment.Replicas)
	}
	if n := logged.count("annotation podfit.dev/surge of a Deployment is invalid"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
}

// Reads that fail are tried again after a back-off, and the surge goes on when they succeed.
func TestSurge_apiServerFails_isTriedAgainWithBackoffAndLoggedOnce(t *testing.T) {
	y := newSurgeCluster(t, 3)
	var logged lines
	y.log = logged.logger()
	u := y.start()
	u.pass(t.Context(), y.now)
	y.reconcile(y.now.Add(time.Minute))
	y.readErr = kube.ErrForbidden
	for range 60 {
		u.pass(t.Context(), y.now)
		y.reconcile(y.now.Add(30 * time.Second))
	}
	if n := logged.count("Cannot continue a surge"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
	if y.created != 1 || y.count("evict") > 0 {
		t.Errorf("%d pods created, %v", y.created, y.done)
	}
	y.readErr = nil
	for range 240 {
		u.pass(t.Context(), y.now)
		y.check()
		y.reconcile(y.now.Add(30 * time.Second))
	}
	if y.deployment.Replicas != 3 || y.deployment.Recorded || y.count("evict") > 0 {
		t.Errorf("%d replicas, record %+v, %v", y.deployment.Replicas, y.deployment.Surge, y.done)
	}
}

// surging returns a cluster in which the surge of one of three pods has begun, and its updater. The new pods become ready after a time.
func surging(t *testing.T, starts time.Duration) (*surgeCluster, *updater) {
	y := newSurgeCluster(t, 3)
	y.starts = starts
	u := y.start()
	u.pass(t.Context(), y.now)
	y.reconcile(y.now.Add(30 * time.Second))
	if y.deployment.Replicas != 4 || !y.deployment.Recorded {
		t.Fatal("no surge began")
	}
	return y, u
}

// passes runs passes every 30 seconds.
func (y *surgeCluster) passes(u *updater, minutes int) {
	for range 2 * minutes {
		u.pass(y.t.Context(), y.now)
		y.reconcile(y.now.Add(30 * time.Second))
	}
}

// Each end of a surge removes a pod, so none happens during a freeze. The surge goes on after it.
func TestSurge_freezeBegins_noPodIsRemovedUntilItEnds(t *testing.T) {
	for name, starts := range map[string]time.Duration{"the new pod is ready": 30 * time.Second, "the new pod is not ready": 15 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			y, u := surging(t, starts)
			before := y.requests
			y.frozen = true
			y.passes(u, 30)
			if y.requests != before || len(y.pods) != 4 || y.deployment.Replicas != 4 {
				t.Errorf("%d writes during the freeze, %d pods, %d replicas", y.requests-before, len(y.pods), y.deployment.Replicas)
			}
			y.frozen, y.starts = false, 30*time.Second
			y.passes(u, 90)
			y.checkEnd(3, 3)
		})
	}
}

// The write of the next step waits for a mutating webhook that does not answer, for example.
func TestSurge_writeHasNoAnswer_isTriedAgainWithBackoffAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, _ := surging(t, 30*time.Second)
		var logged lines
		y.log = logged.logger()
		u := y.start() // goes on with the surge
		y.hangs = true
		for range 60 {
			u.pass(t.Context(), y.now)
			y.reconcile(y.now.Add(10 * time.Second))
		}
		if n := y.count("hang"); n < 2 || n > 8 {
			t.Errorf("%d attempts in 10 minutes, want a few", n)
		}
		if n := logged.count("Cannot continue a surge"); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
	})
}

// A tenant writes an invalid record to each of a thousand Deployments. The surge of another tenant goes on.
func TestSurge_manyInvalidRecordsOfATenant_doNotDelayOthers(t *testing.T) {
	y, u := surging(t, 30*time.Second)
	for i := range 1000 {
		w := y.deployment.Workload
		w.Namespace, w.Name = "aaa", fmt.Sprint("junk-", i)
		y.neighbours = append(y.neighbours, w)
	}
	y.reads = map[string]int{}
	y.passes(u, 5)
	if y.deployment.Surge != nil && y.deployment.Surge.UID == "0" || y.created < 2 {
		t.Errorf("the surge did not go on: %+v, %d pods created", y.deployment.Surge, y.created)
	}
	y.passes(u, 60)
	total := 0
	for name, n := range y.reads {
		if strings.HasPrefix(name, "junk-") {
			total += n
		}
	}
	if total > 1000*8 {
		t.Errorf("%d reads of invalid records in 65 minutes, want at most one in 10 minutes each", total)
	}
}

// "kubectl rollout undo" replaces all annotations of a Deployment by those of a ReplicaSet: by none, or by an old record.
func TestSurge_rolloutUndoRemovesTheRecord_replicasAreSetBack(t *testing.T) {
	for name, undo := range map[string]func(*cluster.Deployment){
		"no record": func(d *cluster.Deployment) { d.Recorded, d.Surge = false, nil },
		"an old record": func(d *cluster.Deployment) {
			d.Surge, d.Foreign = &cluster.Surge{Replicas: 7, Pod: "x", UID: "x"}, true
		},
		"not valid": func(d *cluster.Deployment) { d.Surge, d.Foreign = nil, true },
	} {
		t.Run(name, func(t *testing.T) {
			y, u := surging(t, time.Hour)
			u.pass(t.Context(), y.now)
			y.version++
			undo(&y.deployment)
			y.autoscalers = nil // no further surge
			y.passes(u, 5)
			if y.deployment.Replicas != 3 || y.deployment.Recorded && y.deployment.Surge != nil {
				t.Errorf("%d replicas, record %+v", y.deployment.Replicas, y.deployment.Surge)
			}
			for _, p := range y.pods {
				if p.DeletionCost != 0 {
					t.Errorf("pod %s keeps the deletion cost %d", p.Name, p.DeletionCost)
				}
			}
		})
	}
}

// An old record comes back with "kubectl rollout undo" after the surge. The number of replicas belongs to the user, even if it is the one
// of the record plus one.
func TestSurge_rolloutUndoRestoresAnOldRecord_replicasStay(t *testing.T) {
	y := newSurgeCluster(t, 3)
	y.config.Mover = string(surge.ByEviction)
	y.autoscalers = nil
	y.deployment.Recorded, y.deployment.Foreign = true, true
	y.deployment.Surge = &cluster.Surge{Replicas: 2, Pod: "gone", UID: "gone", Deadline: y.now.Add(-time.Hour)}
	y.run(5)
	if y.deployment.Replicas != 3 || y.deployment.Recorded {
		t.Errorf("%d replicas, record %+v", y.deployment.Replicas, y.deployment.Surge)
	}
}

func TestSurge_strategyAllowsNoAdditionalPod_podsAreEvicted(t *testing.T) {
	y := newSurgeCluster(t, 3)
	y.deployment.Exclusive = true
	y.run(60)
	if n := y.count("evict"); n != 3 || y.requests != 3 || y.deployment.Replicas != 3 {
		t.Errorf("%d evictions, %d writes, %d replicas", n, y.requests, y.deployment.Replicas)
	}
}

// The Deployment cannot be read for a while. The pod that its surge removes is still known, and is not evicted.
func TestSurge_deploymentCannotBeRead_podIsNotEvicted(t *testing.T) {
	y, u := surging(t, time.Hour)
	u.budget.Mover = surge.ForRoom // from now on, pods are evicted
	y.autoscalers[0].MinReplicas = 1
	old := y.deployment.Surge.Pod
	y.readErr = errors.New("internal error")
	for range 20 {
		u.pass(t.Context(), y.now)
		y.now = y.now.Add(time.Second)
	}
	if y.count("evict "+old) > 0 {
		t.Errorf("%v", y.done)
	}
}

// A waitRecorder keeps what an updater waits for.
type waitRecorder struct{ waits watcher.Waits }

func (r *waitRecorder) AwaitChanges(w watcher.Waits) { r.waits = w }

// A surge of a pod within its bounds, such as one that moves to make room, gives its pods no reason to wait. Without a signal, the next
// step would follow after the interval.
func TestSurge_inProgress_itsPodsSignalTheNextStep(t *testing.T) {
	y := newSurgeCluster(t, 1)
	u, r := y.start(), &waitRecorder{}
	u.waits = r
	step := func(what string, want bool) {
		t.Helper()
		u.pass(t.Context(), y.now)
		if got := r.waits.Surging[y.pods[0].Controller]; got != want {
			t.Errorf("%s: the controller signals: %v, want %v", what, got, want)
		}
	}
	step("a surge begins", true)
	y.reconcile(y.now.Add(time.Second))
	step("the additional pod is not ready", true)
	y.reconcile(y.now.Add(time.Minute))
	step("the replicas are set back", true)
	y.reconcile(y.now.Add(time.Second))
	step("the surge has ended", false)
	y.checkEnd(1, 1)
}

// The new pod is ready, and spec.minReadySeconds has not passed. No pod changes at its end, so the time starts the next pass.
func TestSurge_minReadySeconds_nextStepIsAwaitedAtTheirEnd(t *testing.T) {
	y := newSurgeCluster(t, 1)
	y.deployment.MinReady = 40 * time.Second
	u, r := y.start(), &waitRecorder{}
	u.waits = r
	step := func(what string, want time.Time) {
		t.Helper()
		u.pass(t.Context(), y.now)
		if !r.waits.At.Equal(want) {
			t.Errorf("%s: waits until %v, want %v", what, r.waits.At, want)
		}
	}
	step("a surge begins", time.Time{})
	y.reconcile(y.now.Add(time.Second))
	step("the additional pod is not ready", time.Time{})
	y.reconcile(y.now.Add(time.Minute))
	ready := y.now
	step("the additional pod is ready", ready.Add(40*time.Second))
	y.reconcile(y.now.Add(10 * time.Second))
	step("a pass in between", ready.Add(40*time.Second))
	y.reconcile(ready.Add(40 * time.Second))
	step("spec.minReadySeconds have passed", time.Time{})
	y.reconcile(y.now.Add(time.Second))
	step("the surge has ended", time.Time{})
	y.checkEnd(1, 1)
}
