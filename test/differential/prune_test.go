// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	autoscaling "k8s.io/api/autoscaling/v1"
	vpa "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
	controllerfetcher "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target/controller_fetcher"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/differential/cases"
)

// found is a controller fetcher that finds every controller.
type found struct{}

func (found) FindTopMostWellKnownOrScalable(_ context.Context, c *controllerfetcher.ControllerKeyWithAPIVersion) (*controllerfetcher.ControllerKeyWithAPIVersion, error) {
	return c, nil
}

// keep is how long both keep history without new samples, with default flags.
const keep = 8 * day

// An oblivion is a pair with random pods. It records which history should be kept, without the code of either.
type oblivion struct {
	*pair
	now   time.Time
	made  int       // number of pods created
	swept time.Time // time of the last removal

	heard    map[string]time.Time           // time of a container's last sample; podfit keeps the containers in this map
	ran      map[string]bool                // containers of live pods, or of the last pods
	restored map[string]bool                // containers that upstream has from a checkpoint
	why      func(reason, container string) // counts the differences
}

func newOblivion(why func(reason, container string)) *oblivion {
	o := &oblivion{
		pair: newPair(recommend.DefaultParams(), usage.DefaultConfig()),
		// Upstream sets the creation time of an aggregate from the system clock. Simulated times in the past make it irrelevant.
		now:      time.Now().UTC().AddDate(-2, 0, 0).Truncate(day),
		heard:    map[string]time.Time{},
		ran:      map[string]bool{},
		restored: map[string]bool{},
		why:      why,
	}
	o.swept = o.now
	o.target()
	return o
}

// target sets the target reference of upstream's VPA, which its garbage collection reads.
func (o *oblivion) target() {
	o.vpa.TargetRef = &autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "cart"}
}

func containersOf(p *cluster.Pod) []string {
	var names []string
	for i := range p.Containers {
		names = append(names, p.Containers[i].Name)
	}
	return names
}

func (o *oblivion) come(template int, containers ...string) {
	if len(o.pods) == 0 {
		clear(o.ran)
	}
	o.made++
	pod := podOf(fmt.Sprint("cart-", o.made), template, containers...)
	o.add(pod)
	for _, c := range containers {
		o.ran[c] = true
	}
	o.measure(pod)
}

func (o *oblivion) leave(pod *cluster.Pod) {
	o.remove(pod)
	if len(o.pods) == 0 {
		return
	}
	for _, c := range containersOf(pod) {
		o.ran[c] = o.held(c)
	}
}

func (o *oblivion) held(container string) bool {
	return slices.ContainsFunc(o.pods, func(p *cluster.Pod) bool { return slices.Contains(containersOf(p), container) })
}

func (o *oblivion) measure(pod *cluster.Pod) {
	o.now = o.now.Add(time.Minute)
	for _, c := range containersOf(pod) {
		o.observe(pod, c, reading{at: o.now, cpu: 100, memory: 200 * mib, has: cluster.Both})
		o.heard[c] = o.now
	}
}

// sweep lets both remove old history, and compares what is left.
func (o *oblivion) sweep(t rapid.TB) {
	t.Helper()
	if o.now.Sub(o.swept) <= time.Hour { // upstream does it once an hour
		o.now = o.swept.Add(time.Hour + time.Minute)
	}
	o.swept = o.now
	o.upstream.RateLimitedGarbageCollectAggregateCollectionStates(context.Background(), o.now, found{})
	gone := o.book.Prune(o.now)
	theirs := o.vpa.AggregateStateByContainerName()
	for c, at := range o.heard {
		old := o.now.Sub(at) >= keep
		s := o.book.Series(cart, c)
		ours := s != nil && s.Seen(cluster.CPU).Count > 0
		state := theirs[c]
		upstreams := state != nil && state.TotalSamplesCount > 0
		if want := !old || o.held(c) || o.ran[c]; ours != want {
			t.Fatalf("podfit has history of %s: %v, want %v: last sample %v ago, held %v, last ran %v", c, ours, want, o.now.Sub(at), o.held(c), o.ran[c])
		}
		if pruned := slices.Contains(gone, usage.Ref{Workload: cart, Container: c}); pruned == ours {
			t.Fatalf("podfit reports that it removed %s: %v", c, pruned)
		}
		o.explain(t, c, ours, upstreams, old)
		if !ours {
			delete(o.heard, c)
		}
	}
}

// explain names the difference in the history of a container.
func (o *oblivion) explain(t rapid.TB, c string, ours, upstreams, old bool) {
	t.Helper()
	switch {
	case ours == upstreams:
		o.why("", c)
	case upstreams && o.restored[c]:
		o.why("stored history ends, too", c)
	case upstreams:
		t.Fatalf("upstream has history of %s, last sample %v ago, podfit does not", c, o.now.Sub(o.heard[c]))
	case old && (o.held(c) || o.ran[c]):
		o.why("silence is not absence", c)
	default:
		t.Fatalf("podfit has history of %s, last sample %v ago, upstream does not", c, o.now.Sub(o.heard[c]))
	}
}

// begin creates both again from podfit's checkpoints.
func (o *oblivion) begin(t rapid.TB) {
	t.Helper()
	statuses, extras := map[string]vpa.VerticalPodAutoscalerCheckpointStatus{}, map[string][]byte{}
	for _, s := range o.book.All(cart) {
		if c, ok := o.book.Checkpoint(cart, s.Container(), o.now); ok {
			statuses[s.Container()], extras[s.Container()] = status(c), c.Extra
		}
	}
	pods := o.pods
	o.pods = nil
	o.start()
	o.target()
	clear(o.restored)
	for c, status := range statuses {
		state := model.NewAggregateContainerState()
		must(state.LoadFromCheckpoint(&status))
		o.vpa.ContainersInitialAggregateState[c] = state
		o.restored[c] = true
		must(o.book.Restore(cart, c, checkpoint(status, extras[c])))
	}
	for _, p := range pods {
		o.add(p)
	}
	if len(o.pods) == 0 {
		for c := range o.heard {
			o.ran[c] = true
		}
		return
	}
	clear(o.ran)
	for _, p := range o.pods {
		for _, c := range containersOf(p) {
			o.ran[c] = true
		}
	}
}

// Compares which history both remove, and when, for pods that are created and deleted, change their containers, and have no
// samples for days. Only listed deviations are allowed.
func TestPrune_randomHistory_equalsUpstream(t *testing.T) {
	counts := map[string]int{}
	templates := [][]string{{"app"}, {"app", "log"}, {"app", "mesh"}, {"log", "mesh"}, {"vault"}}
	cases.Check(t, 1500, func(t *rapid.T) {
		o := newOblivion(func(reason, _ string) { counts[reason]++ })
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			switch k := rapid.IntRange(0, 19).Draw(t, "step"); {
			case k < 5 || len(o.pods) == 0 && k < 14:
				template := rapid.IntRange(0, len(templates)-1).Draw(t, "template")
				o.come(template, templates[template]...)
			case k < 9:
				o.leave(rapid.SampledFrom(o.pods).Draw(t, "pod"))
			case k < 14:
				o.measure(rapid.SampledFrom(o.pods).Draw(t, "pod"))
			case k < 18:
				hours := rapid.SampledFrom([]int{1, 5, 30, 8*24 - 1, 8 * 24, 8*24 + 1, 20 * 24})
				o.now = o.now.Add(time.Duration(hours.Draw(t, "hours")) * time.Hour)
				o.sweep(t)
			case k < 19:
				o.sweep(t)
			default:
				o.begin(t)
			}
		}
		o.sweep(t)
	})
	t.Logf("%v", counts)
	for _, reason := range []string{"", "silence is not absence", "stored history ends, too"} {
		if counts[reason] < 20 {
			t.Errorf("%q was seen only %d times", reason, counts[reason])
		}
	}
}

// A Job that runs once a month, and a metrics outage of nine days.
func TestPrune_targetWithoutRecentSamples_isKept(t *testing.T) {
	o := newOblivion(func(string, string) {})
	o.come(0, "app")
	job := o.pods[0]
	known := func() (podfit, upstream bool) {
		s := o.book.Series(cart, "app")
		state := o.vpa.AggregateStateByContainerName()["app"]
		return s != nil && s.Seen(cluster.CPU).Count > 0, state != nil && state.TotalSamplesCount > 0
	}
	o.now = o.now.Add(9 * day)
	o.sweep(t)
	if podfit, upstream := known(); !podfit || upstream {
		t.Errorf("after an outage: podfit has history: %v, upstream: %v", podfit, upstream)
	}
	o.measure(job)
	o.leave(job)
	o.now = o.now.Add(30 * day)
	o.sweep(t)
	if podfit, upstream := known(); !podfit || upstream {
		t.Errorf("a month after the last run: podfit has history: %v, upstream: %v", podfit, upstream)
	}
	o.book.Release(cart)
	if gone := o.book.Prune(o.now); len(gone) != 1 {
		t.Errorf("without a VPA, removed %v", gone)
	}
}

// A container that is removed from the pod template, with a restart in between.
func TestPrune_storedHistory_expires(t *testing.T) {
	o := newOblivion(func(string, string) {})
	o.come(0, "app", "log")
	o.come(1, "app")
	o.leave(o.pods[0])
	o.begin(t)
	for range 9 {
		o.now = o.now.Add(day)
		o.measure(o.pods[0])
		o.sweep(t)
	}
	if o.book.Series(cart, "log") != nil || o.book.Series(cart, "app") == nil {
		t.Error("podfit kept the wrong container")
	}
	if theirs := o.vpa.AggregateStateByContainerName(); theirs["log"] == nil || theirs["log"].TotalSamplesCount == 0 {
		t.Error("upstream removed the container, so the difference no longer exists")
	}
}

// Memory samples without CPU samples.
func TestPrune_memoryOnly_isKept(t *testing.T) {
	p := newPair(recommend.DefaultParams(), usage.DefaultConfig())
	p.vpa.TargetRef = &autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "cart"}
	pod := podOf("cart-1", 0, "app")
	p.add(pod)
	start := time.Now().UTC().Truncate(time.Second) // upstream creates the aggregate now, by the system clock
	now := start
	for range 9 * 24 {
		now = now.Add(time.Hour)
		p.observe(pod, "app", reading{at: now, memory: 200 * mib, has: cluster.Of(cluster.Memory)})
	}
	p.upstream.RateLimitedGarbageCollectAggregateCollectionStates(context.Background(), now, found{})
	p.book.Prune(now)
	theirs := p.vpa.AggregateStateByContainerName()["app"]
	if s := p.book.Series(cart, "app"); s == nil || s.Memory.Total() == 0 || theirs != nil && !theirs.AggregateMemoryPeaks.IsEmpty() {
		t.Errorf("podfit has history: %v, upstream: %v", s != nil, theirs != nil)
	}
}
