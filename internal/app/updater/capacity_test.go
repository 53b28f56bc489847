// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/provision"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/event"
)

// fullCluster is a fakeCluster with one full node, a scheduler that preempts placeholder pods, and a cluster autoscaler that adds a node
// for pods without one. Its clients write to it until the updater is killed.
type fullCluster struct {
	*fakeCluster
	addsNodes bool          // the cluster autoscaler works
	boot      time.Duration // how long a new node takes
	unplaced  time.Time     // since when a pod has no node
	problem   string        // why no placeholder pod can be created
	refusal   error         // of Create

	provisions bool                      // the cluster autoscaler serves ProvisioningRequests
	noRequests string                    // why no ProvisioningRequest can be created
	requests   []cluster.CapacityRequest // ProvisioningRequests

	writes   int
	killedAt int  // the write during which the updater is killed; 0: never
	answered bool // the write is carried out before the updater is killed
	killed   bool
	evicted  map[string]int // by name
	created  []string       // placeholder pods that were created

	frozen func() bool // nil: there is no freeze
}

func (y *fullCluster) Rules(a *cluster.Autoscaler) rollout.Rules {
	return rollout.Rules{Autoscaler: a, Cluster: cluster.Freeze{On: y.frozen != nil && y.frozen()}}
}

func newFullCluster() *fullCluster {
	y := &fullCluster{fakeCluster: newFakeCluster(cluster.Recreate), addsNodes: true, boot: 3 * time.Minute, evicted: map[string]int{}, noRequests: "not served"}
	y.nodes = []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(400, 1<<30), Ready: true}}
	y.pods = append(y.pods, &cluster.Pod{
		Key: cluster.Key{Namespace: "infra", Name: "other"}, UID: "other", Node: "n", Phase: cluster.Running, Ready: true,
		Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, 50<<20)}},
	})
	return y
}

// write carries out a write, unless the updater is killed before it.
func (y *fullCluster) write(do func()) error {
	if y.killed {
		return kube.ErrNotSent
	}
	y.writes++
	y.killed = y.writes == y.killedAt
	if !y.killed || y.answered {
		do()
	}
	if y.killed {
		return errors.New("the updater was killed")
	}
	return nil
}

// placeholderPods is the API of placeholder pods of a fullCluster.
type placeholderPods struct{ *fullCluster }

func (y placeholderPods) Available(context.Context, bool) (string, error) { return y.problem, nil }

func (y placeholderPods) Create(_ context.Context, p *cluster.Pod, size cluster.Resources) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.refusal != nil {
		return y.refusal
	}
	return y.write(func() {
		name := cluster.PlaceholderOf(p).Name
		y.created = append(y.created, name)
		if slices.ContainsFunc(y.pods, func(q *cluster.Pod) bool { return q.Name == name }) {
			return
		}
		y.pods = append(y.pods, &cluster.Pod{
			Key: cluster.Key{Namespace: p.Namespace, Name: name}, UID: name, Created: time.Now(), Phase: cluster.Pending, Priority: -10,
			Placeholder: true, Containers: []cluster.Container{{Name: "pause", Requests: size}},
		})
	})
}

func (y placeholderPods) Delete(_ context.Context, r *cluster.CapacityRequest) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.write(func() { y.remove(r.UID) })
}

// provisioning is the API of ProvisioningRequests of a fullCluster.
type provisioning struct{ *fullCluster }

func (y provisioning) Available(context.Context, bool) (string, error) { return y.noRequests, nil }

func (y provisioning) Create(_ context.Context, p *cluster.Pod, size cluster.Resources) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.refusal != nil {
		return y.refusal
	}
	return y.write(func() {
		key := cluster.PlaceholderOf(p)
		y.created = append(y.created, key.Name)
		if slices.ContainsFunc(y.requests, func(r cluster.CapacityRequest) bool { return r.Key == key }) {
			return
		}
		y.requests = append(slices.Clone(y.requests), cluster.CapacityRequest{
			Key: key, UID: key.Name, Kind: cluster.ProvisioningRequest, Created: time.Now(), Size: size,
		})
	})
}

func (y provisioning) Delete(_ context.Context, r *cluster.CapacityRequest) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.write(func() {
		y.requests = slices.DeleteFunc(slices.Clone(y.requests), func(q cluster.CapacityRequest) bool { return q.UID == r.UID })
	})
}

func (y provisioning) List(context.Context) ([]cluster.CapacityRequest, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return slices.Clone(y.requests), nil
}

// settleRequests lets the cluster autoscaler add a node for each ProvisioningRequest.
func (y *fullCluster) settleRequests() {
	for i := range y.requests {
		r := &y.requests[i]
		switch {
		case !y.provisions || r.State == cluster.RequestProvided:
		case time.Since(r.Created) < y.boot:
			r.State = cluster.RequestAccepted
		case y.addsNodes:
			r.State = cluster.RequestProvided
			y.addNode()
		}
	}
}

func (y *fullCluster) addNode() {
	y.nodes = append(slices.Clone(y.nodes), cluster.Node{Name: fmt.Sprint("n", len(y.nodes)), Allocatable: cluster.Amounts(400, 1<<30), Ready: true})
}

func (y *fullCluster) Evict(_ context.Context, p *cluster.Pod) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.write(func() {
		if !slices.ContainsFunc(y.pods, func(q *cluster.Pod) bool { return q.UID == p.UID }) {
			return
		}
		y.evicted[p.Name]++
		y.remove(p.UID)
		y.serial++
		next := *p
		next.Name, next.UID = fmt.Sprint("new-", y.serial), fmt.Sprint("new-", y.serial)
		next.Node, next.Phase, next.Ready, next.Started, next.Created = "", cluster.Pending, false, time.Time{}, time.Now()
		next.Containers = []cluster.Container{{Name: "app", Requests: y.autoscalers[0].Advice[0].Target}}
		y.pods = append(y.pods, &next)
	})
}

func (y *fullCluster) remove(uid string) {
	y.pods = slices.DeleteFunc(slices.Clone(y.pods), func(q *cluster.Pod) bool { return q.UID == uid })
}

// Scale returns three replicas; the placeholder pods have no controller.
func (y *fullCluster) Scale(cluster.Workload) cluster.Scale {
	return cluster.Scale{Known: true, Replicas: 3}
}

// settle lets the scheduler and the cluster autoscaler run.
func (y *fullCluster) settle() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.settleRequests()
	for _, p := range slices.Clone(y.pods) {
		if p.Node == "" && !p.Placeholder && !y.place(p) {
			for _, q := range y.pods {
				if q.Placeholder && q.Node != "" { // preempted
					y.remove(q.UID)
					break
				}
			}
			y.place(p)
		}
	}
	waiting := false
	for _, p := range slices.Clone(y.pods) {
		if p.Node == "" {
			waiting = !y.place(p) || waiting
		}
	}
	switch {
	case !waiting:
		y.unplaced = time.Time{}
	case y.unplaced.IsZero():
		y.unplaced = time.Now()
	case y.addsNodes && time.Since(y.unplaced) >= y.boot:
		y.addNode()
		y.unplaced = time.Time{}
		for _, p := range slices.Clone(y.pods) {
			if p.Node == "" {
				y.place(p)
			}
		}
	}
}

func (y *fullCluster) place(p *cluster.Pod) bool {
	for _, n := range y.nodes {
		cpu := n.Allocatable.CPU
		for _, q := range y.pods {
			if q.Node == n.Name {
				cpu -= q.Containers[0].Requests.CPU
			}
		}
		if cpu < p.Containers[0].Requests.CPU {
			continue
		}
		placed := *p
		placed.Node, placed.Phase, placed.Ready, placed.Started, placed.ReadySince = n.Name, cluster.Running, true, time.Now(), time.Now()
		y.remove(p.UID)
		y.pods = append(y.pods, &placed)
		return true
	}
	return false
}

func (y *fullCluster) start() *updater {
	y.killed = false
	u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
	u.capacity.Use(map[cluster.RequestKind]provision.Client{
		cluster.PlaceholderPod: placeholderPods{y}, cluster.ProvisioningRequest: provisioning{y},
	}, provisioning{y})
	return u
}

// runFor runs passes, one per minute. An updater that is killed is replaced by a new one without its ledger.
func (y *fullCluster) runFor(t *testing.T, d time.Duration) *updater {
	u := y.start()
	for began := time.Now(); time.Since(began) < d; {
		u.update(t.Context(), time.Now())
		if y.killed {
			u = y.start()
		}
		time.Sleep(10 * time.Second)
		y.settle()
		time.Sleep(50 * time.Second)
	}
	return u
}

// placeholders returns the number of requests for capacity of both kinds.
func (y *fullCluster) placeholders() int {
	n := len(y.requests)
	for _, p := range y.pods {
		if p.Placeholder {
			n++
		}
	}
	return n
}

func TestUpdater_noFreeRoom_evictsWhenPlaceholderHasNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFullCluster()
		u := y.runFor(t, time.Hour)
		if len(y.evicted) != 3 || y.placeholders() != 0 || len(y.created) != 3 {
			t.Errorf("evicted %v, created %v, %d placeholders left; want 3 evictions, 3 created, none left", y.evicted, y.created, y.placeholders())
		}
		// All three replacements were scheduled in the first round of the scheduler, and not after the 3 minutes that a node takes.
		if n := testutil.CollectAndCount(u.metrics.pending); n != 3 {
			t.Errorf("%d series, want 3", n)
		}
		want := `podfit_updater_replacement_pending_seconds_sum{capacity="placeholder"} 30`
		var text bytes.Buffer
		writeMetric(t, &text, u.metrics.pending)
		if !strings.Contains(text.String(), want) {
			t.Errorf("the metric has not %s:\n%s", want, text.String())
		}
	})
}

// A freeze begins between the plan of a pass and its requests.
func TestUpdater_freezeBeginsDuringAPass_asksForNoCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFullCluster()
		u := y.start()
		reads := 0
		y.frozen = func() bool { reads++; return reads > 1 }
		codes := map[decision.ReasonCode]int{}
		for _, d := range u.update(t.Context(), time.Now()) {
			codes[d.Reason.Code]++
		}
		if len(y.created) > 0 || codes[decision.Frozen] != 1 {
			t.Errorf("created %v, reasons %v; want no request and the freeze as the reason", y.created, codes)
		}
	})
}

func TestUpdater_noFreeRoomWithoutCapacity_evictsNothing(t *testing.T) {
	for name, change := range map[string]func(*fullCluster){
		"no node comes":         func(y *fullCluster) { y.addsNodes = false },
		"placeholder refused":   func(y *fullCluster) { y.refusal = fmt.Errorf("create: %w", kube.ErrQuota) },
		"no answer to requests": func(y *fullCluster) { y.refusal = errors.New("timeout") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var text bytes.Buffer
				y := newFullCluster()
				y.log = slog.New(slog.NewTextHandler(&text, nil))
				change(y)
				y.runFor(t, 6*time.Hour)
				if len(y.evicted) != 0 || y.placeholders() > 1 || len(y.created) > 12 {
					t.Errorf("evicted %v, %d placeholders, %d created", y.evicted, y.placeholders(), len(y.created))
				}
				if countHeld(y.recorded, decision.Reason{Code: decision.CapacityNotFound, Text: anyText}) == 0 {
					t.Errorf("no event has the cause: %q", y.recorded)
				}
			})
		})
	}
}

func TestUpdater_noWayToAskForCapacity_evictsOnlyIfSwitchedOff(t *testing.T) {
	for name, c := range map[string]struct {
		off     bool
		evicted int
	}{
		"neither PriorityClass nor API": {false, 0},
		"switched off":                  {true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var text bytes.Buffer
				y := newFullCluster()
				y.log = slog.New(slog.NewTextHandler(&text, nil))
				y.problem = "PriorityClass podfit-placeholder does not exist"
				if c.off {
					y.config.CapacityBeforeEviction = capacityOff
				}
				y.runFor(t, time.Hour)
				if len(y.created) != 0 || len(y.evicted) != c.evicted {
					t.Errorf("created %v, evicted %v; want none created and %d evicted", y.created, y.evicted, c.evicted)
				}
				if n := countHeld(y.recorded, decision.Reason{Code: decision.NoCapacityProvider, Text: anyText}); c.off != (n == 0) {
					t.Errorf("%d events have the reason %s: %q", n, decision.NoCapacityProvider, y.recorded)
				}
				warnings := strings.Count(text.String(), "Cannot request capacity before evictions")
				if c.off != (warnings == 0) || warnings > 1 {
					t.Errorf("%d warnings:\n%s", warnings, text.String())
				}
			})
		})
	}
}

func TestUpdater_nodeIsProvisioned_evictsPodAndDeletesRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFullCluster()
		y.noRequests, y.provisions = "", true
		u := y.runFor(t, time.Hour)
		if len(y.evicted) != 3 || y.placeholders() != 0 || len(y.created) != 3 {
			t.Errorf("evicted %v, created %v, %d requests left; want 3 evictions, 3 created, none left", y.evicted, y.created, y.placeholders())
		}
		var text bytes.Buffer
		writeMetric(t, &text, u.metrics.pending)
		if want := `podfit_updater_replacement_pending_seconds_sum{capacity="provisioning-request"} 30`; !strings.Contains(text.String(), want) {
			t.Errorf("the metric has not %s:\n%s", want, text.String())
		}
	})
}

// Only the CustomResourceDefinition is installed: after the first request, placeholder pods are used.
func TestUpdater_noAutoscalerAcceptsRequests_usesPlaceholderPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFullCluster()
		y.noRequests = ""
		y.runFor(t, 2*time.Hour)
		if len(y.evicted) != 3 || y.placeholders() != 0 || len(y.created) != 4 {
			t.Errorf("evicted %v, created %v, %d requests left; want 3 evictions, 4 created, none left", y.evicted, y.created, y.placeholders())
		}
	})
}

// The updater is started again with the feature switched off, while requests of both kinds exist.
func TestUpdater_switchedOffWhileRequestsExist_deletesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, provisions := range []bool{false, true} {
			y := newFullCluster()
			y.addsNodes = false
			if provisions {
				y.noRequests = ""
			}
			y.runFor(t, 3*time.Minute)
			before := y.placeholders()
			y.config.CapacityBeforeEviction = capacityOff
			y.runFor(t, 5*time.Minute)
			if before != 1 || y.placeholders() != 0 {
				t.Errorf("ProvisioningRequests %t: %d requests before, %d after; want 1 and 0", provisions, before, y.placeholders())
			}
		}
	})
}

func TestUpdater_placeholderDeletedByOthers_doesNotEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFullCluster()
		y.addsNodes = false
		u := y.start()
		for range 30 {
			u.update(t.Context(), time.Now())
			for _, p := range y.pods {
				if p.Placeholder {
					y.remove(p.UID)
					break
				}
			}
			time.Sleep(time.Minute)
		}
		if len(y.evicted) != 0 || len(y.created) > 4 {
			t.Errorf("evicted %v, created %d times in 30 minutes, want none and at most 4", y.evicted, len(y.created))
		}
	})
}

// The updater is killed at each write: before it is carried out, and after it without its answer. The next updater does not have the
// records of the one before.
func TestUpdater_killedAtEachStepOfCapacity_leavesNoRequestAndEvictsEachPodOnce(t *testing.T) {
	for name, served := range map[string]bool{"placeholder pods": false, "ProvisioningRequests": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				full := func() *fullCluster {
					y := newFullCluster()
					if served {
						y.noRequests, y.provisions = "", true
					}
					return y
				}
				whole := full()
				whole.runFor(t, time.Hour)
				if whole.writes < 9 { // three times create, evict and delete
					t.Fatalf("%d writes, want at least 9", whole.writes)
				}
				for at := 1; at <= whole.writes; at++ {
					for _, answered := range []bool{false, true} {
						y := full()
						y.killedAt, y.answered = at, answered
						y.runFor(t, 3*time.Hour)
						if y.placeholders() != 0 {
							t.Errorf("killed at write %d, carried out: %t: %d requests are left", at, answered, y.placeholders())
						}
						for _, name := range []string{"web-0", "web-1", "web-2"} {
							if y.evicted[name] != 1 || len(y.evicted) != 3 {
								t.Errorf("killed at write %d, carried out: %t: evictions %v, want each old pod once", at, answered, y.evicted)
								break
							}
						}
					}
				}
			})
		})
	}
}

func TestUpdater_dryRun_logsPlaceholderAndCreatesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		y := newFullCluster()
		y.config.DryRun = true
		y.log = slog.New(slog.NewTextHandler(&text, nil))
		y.runFor(t, 10*time.Minute)
		if n := strings.Count(text.String(), "Would create a request for capacity"); n != 1 || len(y.created)+len(y.evicted) != 0 {
			t.Errorf("logged %d times, created %v, evicted %v; want once and nothing:\n%s", n, y.created, y.evicted, text.String())
		}
	})
}

func TestUpdater_placeholderPods_areNotReportedAsUnowned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFullCluster()
		y.runFor(t, 10*time.Minute)
		for _, s := range y.recorded {
			if strings.HasPrefix(s, event.NotAutoscaled) {
				t.Errorf("event %q", s)
			}
		}
	})
}

func TestConfig_capacityFlags_areValidatedAndUsed(t *testing.T) {
	if c := given(t, "--capacity-before-eviction=off", "--placeholder-image=mirror/pause", "--provisioning-class=x.example.com"); c.CapacityBeforeEviction != capacityOff ||
		c.PlaceholderImage != "mirror/pause" || c.ProvisioningClass != "x.example.com" {
		t.Errorf("configuration %q, %q, %q", c.CapacityBeforeEviction, c.PlaceholderImage, c.ProvisioningClass)
	}
	c := Defaults()
	c.CapacityBeforeEviction, c.PlaceholderImage, c.ProvisioningClass = "maybe", "", ""
	err := c.Validate()
	for _, want := range []string{`--capacity-before-eviction must be off or ask, got "maybe"`, "--placeholder-image must not be empty", "--provisioning-class must not be empty"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestPendingTimes_replacementIsPendingTooLong_isMeasuredOnce(t *testing.T) {
	began := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	rs := cluster.Workload{Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	old := &cluster.Pod{UID: "old", Controller: rs, Created: began.Add(-time.Hour), Started: began.Add(-time.Hour)}
	next := &cluster.Pod{UID: "new", Controller: rs, Created: began}
	var m pendingTimes
	var took []time.Duration
	observe := func(now time.Time, pods ...*cluster.Pod) {
		ds := make([]decision.Decision, 0, len(pods))
		for _, p := range pods {
			ds = append(ds, decision.Decision{Pod: p})
		}
		m.observe(now, ds, func(d time.Duration, _ string) { took = append(took, d) })
	}
	observe(began, old)
	m.evicted(began, &decision.Decision{Pod: old})
	m.evicted(began, &decision.Decision{Pod: old})
	for i := range 100 {
		observe(began.Add(time.Duration(i)*time.Minute), next)
	}
	if len(took) != 1 || took[0] != longestShown {
		t.Errorf("measured %v, want an hour once", took)
	}
	observe(began.Add(3*time.Hour), next)
	observe(began.Add(4*time.Hour), next)
	if len(m.evictions) != 0 || m.total != 0 {
		t.Errorf("%d evictions are kept, want none", m.total)
	}
}

// writeMetric writes the series of a collector in the text format.
func writeMetric(t *testing.T, out *bytes.Buffer, c prometheus.Collector) {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			fmt.Fprintf(out, "%s_sum{capacity=%q} %v\n", f.GetName(), m.GetLabel()[0].GetValue(), m.GetHistogram().GetSampleSum())
		}
	}
}
