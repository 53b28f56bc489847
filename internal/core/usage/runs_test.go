// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

var report = cluster.Workload{Group: "batch", Kind: "CronJob", Namespace: "shop", Name: "report"}

// ran makes a pod of a workload run for a time, with a sample after each ten seconds of it. It is killed at its end if killed is true. It returns
// the pod as it is seen afterwards.
func (b *Store) ran(w cluster.Workload, name string, at time.Time, length time.Duration, cores, bytes float64, killed bool) *cluster.Pod {
	p := podOf(w, name, "app")
	p.Started = at
	p.Containers[0].Delay = p.DelayOf(at.Unix())
	b.Tick(at)
	b.Track(p)
	for after := 10 * time.Second; after < length; after += 10 * time.Second {
		b.Tick(at.Add(after))
		b.Observe(sample(p, "app", at.Add(after), cores, bytes))
	}
	ended := *p
	ended.Phase = cluster.Succeeded
	ended.Containers = []cluster.Container{p.Containers[0]}
	ended.Containers[0].Exit = &cluster.Exit{Started: at, Finished: at.Add(length), Now: true, OOM: killed, Kills: 1}
	b.Tick(at.Add(length))
	b.Track(&ended)
	b.ObserveExits(&ended)
	return &ended
}

func TestRuns_podsOfACronJob_areRunsAlsoAfterARestart(t *testing.T) {
	b := newBook()
	b.Configure(report, nil)
	var pods []*cluster.Pod
	for i, length := range []time.Duration{5 * time.Second, time.Minute, 2 * time.Minute} {
		pods = append(pods, b.ran(report, fmt.Sprint("report-", i), noon.Add(time.Duration(i)*time.Hour), length, 0.1*float64(i), float64(i)*100*mib, false))
	}
	check := func(b *Store) {
		t.Helper()
		all := b.Series(report, "app").Runs().All()
		if len(all) != 3 || all[0].Length() != 5*time.Second || all[0].Memory != 0 || all[2].Length() != 2*time.Minute || all[2].CPU != 200 || all[2].Memory != 200*mib || !all[2].Ended {
			t.Errorf("runs %+v", all)
		}
	}
	check(b)
	c, ok := b.Checkpoint(report, "app", noon.Add(4*time.Hour))
	if !ok {
		t.Fatal("there is no checkpoint")
	}
	b.Saved(report, "app", c)
	for _, p := range pods { // their status does not change
		b.Track(p)
	}
	if pending := b.Pending(noon.Add(5 * time.Hour)); len(pending) > 0 {
		t.Errorf("pending %v, although nothing was observed", pending)
	}
	next := newBook()
	next.Tick(noon.Add(4 * time.Hour))
	next.Configure(report, nil)
	for _, p := range pods {
		next.Track(p)
	}
	if err := next.Restore(report, "app", c); err != nil {
		t.Fatal(err)
	}
	check(next)
}

func TestRuns_OOMKill_countsAsMoreUsage(t *testing.T) {
	b := newBook()
	b.ran(report, "report-1", noon, time.Minute, 0.1, 300*mib, true)
	if used, _ := b.Series(report, "app").Runs().Percentile(cluster.Memory, 1, noon.Add(time.Hour)); used < 360*mib {
		t.Errorf("%d MiB, want more than the memory with which it was killed", used/mib)
	}
}

func TestRuns_otherWorkloadsOrSwitchedOff_areNotKept(t *testing.T) {
	b := newBook()
	b.ran(cart, "cart-1", noon, time.Minute, 0.1, 300*mib, false)
	if b.Series(cart, "app").Runs() != nil {
		t.Error("a Deployment has runs")
	}
	kept := newBook()
	kept.ran(report, "report-1", noon, time.Minute, 0.1, 300*mib, false)
	c, _ := kept.Checkpoint(report, "app", noon.Add(time.Hour))
	config := DefaultConfig()
	config.Runs = false
	off := NewStore(config)
	if err := off.Restore(report, "app", c); err != nil {
		t.Fatal(err)
	}
	off.ran(report, "report-2", noon.Add(time.Hour), time.Minute, 0.1, 300*mib, false)
	if off.Series(report, "app").Runs() != nil {
		t.Error("runs are kept, although they are switched off")
	}
}

// Runs of the future would keep those of the present out of a full log.
func TestRuns_clockIsSetBack_areNotInTheFuture(t *testing.T) {
	b := newBook()
	b.Configure(report, nil)
	b.ran(report, "report-1", noon.Add(48*time.Hour), time.Minute, 0.1, 300*mib, false)
	b.Tick(noon)
	for _, r := range b.Series(report, "app").Runs().All() {
		if r.Started > noon.Unix() || r.Last > noon.Unix() {
			t.Errorf("run %+v at %d", r, noon.Unix())
		}
	}
}

// started makes the init container "migrate" of a new pod run for a minute, with samples in the middle of it. Then the pod goes on without it.
func (b *Store) started(name string, at time.Time, bytes float64, killed bool) {
	p := podOf(cart, name, "app", "migrate")
	p.Started = at
	p.Containers[1].Role = cluster.Init
	p.Containers[1].Delay = p.DelayOf(at.Unix())
	b.Tick(at)
	b.Track(p)
	b.Tick(at.Add(30 * time.Second))
	b.Observe(sample(p, "migrate", at.Add(30*time.Second), 0.2, bytes))
	p = new(*p)
	p.Containers = []cluster.Container{p.Containers[0], p.Containers[1]}
	p.Containers[1].Exit = &cluster.Exit{Started: at, Finished: at.Add(time.Minute), Now: true, OOM: killed, Kills: 1}
	b.Tick(at.Add(time.Minute))
	b.Track(p)
	b.ObserveExits(p)
}

func TestRuns_initContainersOfADeployment_areRunsAlsoAfterARestart(t *testing.T) {
	b := newBook()
	b.Configure(cart, nil)
	b.Extend(cart, func() Extension { return new(lastRan) })
	for i := range 3 {
		b.started(fmt.Sprint("cart-", i), noon.Add(time.Duration(i)*time.Hour), float64(i+1)*100*mib, i == 2)
	}
	check := func(b *Store, when string) {
		t.Helper()
		s := b.Series(cart, "migrate")
		all := s.Runs().All()
		if !s.Runs().IsInit() || s.Extension() != nil || len(all) != 3 || all[1].Length() != time.Minute || all[1].CPU != 200 || all[1].Memory != 200*mib || !all[1].Ended {
			t.Errorf("%s: init %t, runs %+v", when, s.Runs().IsInit(), all)
		}
		if len(all) == 3 && all[2].Memory < 350*mib {
			t.Errorf("%s: memory %d MiB of the run that was OOM-killed, want more than it requested", when, all[2].Memory/mib)
		}
	}
	check(b, "observed")
	if b.Series(cart, "app").Runs() != nil || len(b.Containers(cart)) != 1 {
		t.Errorf("runs %v of a regular container; containers %v", b.Series(cart, "app").Runs(), b.Containers(cart))
	}
	c, _ := b.Checkpoint(cart, "migrate", noon.Add(4*time.Hour))
	restored := newBook()
	restored.Tick(noon.Add(4 * time.Hour))
	if err := restored.Restore(cart, "migrate", c); err != nil {
		t.Fatal(err)
	}
	check(restored, "restored")
	p := podOf(cart, "cart-9", "app", "migrate") // now a regular container
	restored.Track(p)
	if got := restored.Series(cart, "migrate").Runs(); got != nil {
		t.Errorf("runs %+v of a container that is no init container any more", got)
	}
}

func TestRuns_initContainersAreNotMeasured_samplesAreRejected(t *testing.T) {
	config := DefaultConfig()
	config.InitRuns = false
	b := NewStore(config)
	b.started("cart-0", noon, 100*mib, true)
	if s := b.Series(cart, "migrate"); s != nil || b.Rejected(UnknownContainer) != 1 {
		t.Errorf("history %+v, %d samples of an unknown container", s, b.Rejected(UnknownContainer))
	}
}

// Runs may be too short for samples. Their peak memory is read from Prometheus, with the page cache, so a sample is better.
func TestObserve_peakOfARun_countsIfThereIsNoSample(t *testing.T) {
	b := newBook()
	b.Configure(report, nil)
	b.ran(report, "report-1", noon, time.Minute, 0.1, 100*mib, false)
	b.ran(report, "report-2", noon.Add(time.Hour), 5*time.Second, 0.1, 100*mib, false)
	b.Tick(noon.Add(2 * time.Hour))
	fork := b.Fork(report.Namespace)
	for _, name := range []string{"report-0", "report-1", "report-2"} {
		p := podOf(report, name, "app")
		fork.Track(p)
		fork.Observe(Sample{Pod: p.Key, Container: "app", At: noon.Add(2 * time.Hour), Memory: 300 * mib, Has: cluster.Of(cluster.Memory), Peak: true})
	}
	if got := fork.Observe(Sample{Pod: cluster.Key{Namespace: "shop", Name: "report-0"}, Container: "app", At: noon, Memory: -1, Peak: true}); !got.Empty() {
		t.Error("a negative peak is accepted")
	}
	if err := b.Absorb(fork); err != nil {
		t.Fatal(err)
	}
	s := b.Series(report, "app")
	if s.Seen(cluster.Memory).Count != 5 {
		t.Errorf("%d samples of memory, want the 5 of the run of a minute", s.Seen(cluster.Memory).Count)
	}
	var memory []int64
	for _, r := range s.Runs().All() {
		memory = append(memory, r.Memory/mib)
	}
	if !slices.Equal(memory, []int64{100, 300, 300}) || s.Runs().All()[1].Length() != 5*time.Second {
		t.Errorf("memory of the runs in MiB %v, want the peak where there is no sample; runs %+v", memory, s.Runs().All())
	}
	b.Observe(sample(podOf(report, "report-2", "app"), "app", noon.Add(time.Hour+3*time.Second), 0.1, 50*mib))
	if got := s.Runs().All()[1].Memory; got != 50*mib {
		t.Errorf("memory %d MiB after a sample, want that of the sample", got/mib)
	}
}

// Without a sample, the runs of a CronJob stay between two runs, when no pod exists.
func TestPrune_onlyPeaksOfRunsAreKnown_runsStay(t *testing.T) {
	b := newBook()
	b.Configure(report, nil)
	p := podOf(report, "report-0", "app")
	p.Phase = cluster.Succeeded
	b.Tick(noon)
	b.Track(p)
	b.Observe(Sample{Pod: p.Key, Container: "app", At: noon, Memory: 300 * mib, Peak: true})
	b.Forget(p.Key)
	if b.Prune(noon.Add(time.Hour)); b.Series(report, "app") == nil {
		t.Error("the runs are gone")
	}
}

// Readings of a kubelet count for the run only. They are stored, though there is no sample.
func TestObserve_readingsOfAKubelet_areStoredWithTheRuns(t *testing.T) {
	b := newBook()
	b.Configure(report, nil)
	b.Tick(noon)
	read := Sample{Pod: podOf(report, "report-0", "app").Key, Container: "app", At: noon.Add(8 * time.Second), CPU: 0.25, Memory: 300 * mib, Reading: true}
	if b.Track(podOf(report, "report-0", "app")); !b.Observe(Sample{Pod: read.Pod, Container: "app", At: read.At, CPU: math.NaN(), Memory: 1, Reading: true}).Empty() {
		t.Error("an invalid reading is accepted")
	}
	if _, ok := b.Checkpoint(report, "app", noon); ok {
		t.Error("a run that was not measured is stored")
	}
	b.Observe(read)
	s := b.Series(report, "app")
	if r := s.Runs().All(); len(r) != 1 || r[0].CPU != 250 || r[0].Memory != 300*mib || s.Seen(cluster.Memory).Count != 0 || s.Seen(cluster.CPU).Count != 0 {
		t.Errorf("runs %+v, samples %+v", r, s.Seen(cluster.Memory))
	}
	c, ok := b.Checkpoint(report, "app", noon.Add(time.Minute))
	restored := newBook()
	restored.Configure(report, nil)
	restored.Tick(noon.Add(time.Hour))
	if err := restored.Restore(report, "app", c); err != nil || !ok {
		t.Fatalf("checkpoint %t, restored with error %v", ok, err)
	}
	if r := restored.Series(report, "app").Runs().All(); len(r) != 1 || r[0].Memory != 300*mib {
		t.Errorf("restored runs %+v", r)
	}
	web := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	b.Track(podOf(web, "web-0", "app"))
	read.Pod.Name = "web-0"
	if !b.Observe(read).Empty() || b.Series(web, "app").Runs() != nil {
		t.Error("a Deployment has runs")
	}
}
