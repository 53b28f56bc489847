// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

// storedScene is a workload with a VPA of profile balanced, and the history that a recommender has stored after some days.
func storedScene(t *testing.T, days int) (*scene, checkpoint.Stored, []cluster.Advice) {
	t.Helper()
	s := largeScene(5)
	for _, w := range s.workloads {
		w.vpa = &cluster.Autoscaler{
			Key: cluster.Key{Namespace: w.key.Namespace, Name: "vpa"}, Created: s.Now.Add(-48 * time.Hour), Target: w.key, Recommender: "balanced",
			Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(123, 456<<20)}}},
		}
	}
	live := newBook("balanced", s)
	live.workloads.SkipRestore()
	live.track()
	w := s.workloads[0]
	for minute := days * 24 * 60; minute > 0; minute-- {
		at := s.Now.Add(-time.Duration(minute) * time.Minute)
		use := float64(1 + minute/60%24)
		live.store.Observe(usage.Sample{Pod: w.live[0].Key, Container: "app", At: at, CPU: 0.01 * use, Memory: 2e7 * use, Has: cluster.Both})
	}
	c, ok := live.store.Checkpoint(w.key, "app", s.Now)
	if !ok {
		t.Fatal("there is no checkpoint")
	}
	c.History = usage.History{} // stored in another object
	return s, checkpoint.Stored{
		Checkpoints: map[checkpoint.Key]usage.Checkpoint{{Autoscaler: w.vpa.Key, Container: "app"}: c},
		Histories:   map[cluster.Workload][]usage.History{w.key: live.store.Histories(w.key, s.Now)},
	}, live.advise(w)
}

func TestStored_statusOfTheVPA_isTheRecommendation(t *testing.T) {
	s, history, _ := storedScene(t, 10)
	b := newBook("", s)
	b.restore(history)
	w := s.workloads[0]
	if got := target(b.adviseStored(w), "app"); got != cluster.Amounts(123, 456<<20) {
		t.Errorf("got %v", got)
	}
	e := b.storedEvidence(w, "app")
	if e.Confidence() != review.High || e.Days() != 10 || e.Hours < 239 {
		t.Errorf("got evidence %+v", e)
	}
	if e.DayPeaks[0] < 480e6 || e.DayPeaks[6] < 480e6 || e.Peak() > 481e6 {
		t.Errorf("got peaks %v", e.DayPeaks)
	}
}

func TestStored_otherProfile_usesStoredModelState(t *testing.T) {
	s, history, want := storedScene(t, 10)
	w := s.workloads[0]
	w.vpa.Recommender = "default" // its model state is still stored
	b := newBook("balanced", s)
	b.restore(history)
	if got := target(b.adviseStored(w), "app"); got != target(want, "app") || got.Has != cluster.Both {
		t.Errorf("got %v, the profile recommends %v", got, want)
	}
	other := newBook("critical", s)
	other.restore(checkpoint.Stored{Checkpoints: history.Checkpoints})
	if got := other.adviseStored(w); len(got) > 0 {
		t.Errorf("without model state: got %v", got)
	}
}

// With a profile for full nodes, the report says which containers it cannot size like that, and why.
func TestStored_packed_saysWhatIsNotSizedForFullNodes(t *testing.T) {
	s, history, _ := storedScene(t, 10)
	w := s.workloads[0]
	for _, p := range w.live {
		p.Place = cluster.Anywhere
	}
	large := cluster.Node{Name: "large", Ready: true, Allocatable: cluster.Amounts(8000, 16<<30)}
	small := cluster.Node{Name: "small", Ready: true, Allocatable: cluster.Amounts(8000, 512<<20)}
	for name, c := range map[string]struct {
		profile string
		nodes   []cluster.Node
		packs   bool
		why     recommend.PackingProblem
	}{
		"full nodes":             {"packed", []cluster.Node{large}, true, recommend.NoPackingProblem},
		"more than half of them": {"packed", []cluster.Node{large, small}, true, recommend.LargerThanHalf},
		"nodes are not known":    {"packed", nil, true, recommend.NodesNotKnown},
		"another profile":        {"balanced", []cluster.Node{small}, false, recommend.NoPackingProblem},
	} {
		s.Nodes = c.nodes
		b := newBook(c.profile, s)
		b.restore(history)
		if packs, why := b.packing(w, "app"); packs != c.packs || why != recommend.PackingProblems[c.why] {
			t.Errorf("%s: got %t, %q", name, packs, why)
		}
		if subject := (&job{}).subject(s, w, "app", []*book{b}, [][]cluster.Advice{b.adviseStored(w)}); subject.Packs != c.packs || subject.Unpacked != recommend.PackingProblems[c.why] {
			t.Errorf("%s: the report has %t, %q", name, subject.Packs, subject.Unpacked)
		}
	}
}

// The recommender may compute the numbers of a status from objects that podfit recommend cannot read, such as nodes. A workload without model state
// has no recommendation.
func TestStored_packedInTheStatusOrUnknown_saysNothingOfFullNodes(t *testing.T) {
	s, history, _ := storedScene(t, 10)
	w := s.workloads[0]
	lost := newBook("packed", s)
	lost.restore(checkpoint.Stored{})
	w.vpa.Recommender = "packed"
	own := newBook("", s)
	own.restore(history)
	for name, b := range map[string]*book{"status": own, "no model state": lost} {
		if packs, why := b.packing(w, "app"); packs || why != "" {
			t.Errorf("%s: %t, %q", name, packs, why)
		}
	}
}

func TestStored_withoutHistory_confidenceIsLowOrNone(t *testing.T) {
	s, _, _ := storedScene(t, 1)
	b := newBook("", s)
	b.restore(checkpoint.Stored{})
	w := s.workloads[0]
	if e := b.storedEvidence(w, "app"); e.Confidence() != review.Low {
		t.Errorf("a recommendation without stored history: got %v", e.Confidence())
	}
	w.vpa.Advice = nil
	if e := b.storedEvidence(w, "app"); e.Confidence() != review.None {
		t.Errorf("no recommendation: got %v", e.Confidence())
	}
	w.vpa = nil
	if e := b.storedEvidence(w, "app"); e.Confidence() != review.None || e.Lack == "" {
		t.Errorf("no VPA: got %+v", e)
	}
}

// podfit recommend multiplies by the criticality of the pods and limits them to a share of a node, as the recommender does.
func TestBook_busyHours_usesCriticalityAndNodesOfTheWorkload(t *testing.T) {
	s := largeScene(5)
	w := s.workloads[0]
	for _, p := range w.live {
		p.Marks = &cluster.Marks{Criticality: cluster.Criticality{Labelled: true, Label: "3"}}
		p.Place = cluster.Anywhere
	}
	recommended := func(nodes ...cluster.Node) cluster.Advice {
		s.Nodes = nodes
		b := newBook("busy-hours", s)
		b.workloads.SkipRestore()
		b.track()
		for minute := 24 * 60; minute > 0; minute-- {
			at := s.Now.Add(-time.Duration(minute) * time.Minute)
			b.store.Observe(usage.Sample{Pod: w.live[0].Key, Container: "app", At: at, CPU: 1, Memory: 1e8, Has: cluster.Both})
		}
		advice := b.advise(w)
		if len(advice) != 1 {
			t.Fatalf("got %+v", advice)
		}
		return advice[0]
	}
	if got := recommended().Target.CPU; got < 3000 || got > 3150 {
		t.Errorf("target %dm, want 1 core × 3", got)
	}
	if got := recommended(cluster.Node{Name: "small", Allocatable: cluster.Amounts(8000, 64<<30)}); got.Target.CPU != 2000 || got.Uncapped.CPU < 3000 {
		t.Errorf("got %+v, want a quarter of the node", got)
	}
}

func TestSubject_podsHaveRoles_eachCountsWithItsSize(t *testing.T) {
	s := largeScene(5)
	w := s.workloads[0]
	w.vpa = &cluster.Autoscaler{Key: cluster.Key{Namespace: w.key.Namespace, Name: "vpa"}, Target: w.key, Mode: cluster.InPlace, Recommender: "balanced"}
	w.vpa.Rules.RoleLabel = "role"
	w.vpa.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(900, 1<<30)},
		Groups: []cluster.GroupSize{{Role: "follower", Target: cluster.Resources{}.Set(cluster.CPU, 300)}}}}
	for i, p := range w.live {
		p.Marks = &cluster.Marks{Labels: "role=follower"}
		if i == 0 {
			p.Marks = &cluster.Marks{Labels: "role=leader"}
		}
	}
	b := newBook("", s)
	j := &job{}
	for i, place := range j.subject(s, w, "app", []*book{b}, [][]cluster.Advice{b.adviseStored(w)}).Places {
		if want := int64(300); i > 0 && place.Own.CPU != want || i == 0 && place.Own.CPU == want {
			t.Errorf("pod %d: %v", i, place.Own)
		}
	}
	// The sizes of the status do not belong to another recommendation.
	other := []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(500, 1<<30)}}}
	for _, place := range j.subject(s, w, "app", []*book{b}, [][]cluster.Advice{other}).Places {
		if !place.Own.Has.Empty() {
			t.Errorf("%v", place.Own)
		}
	}
}
