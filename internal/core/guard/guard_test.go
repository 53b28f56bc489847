// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

const gi = int64(1) << 30

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// A scene is a node of 100 GiB with pods, and what they use.
type scene struct {
	Book
	nodes   []cluster.Node
	watched map[string]bool
	pods    []*cluster.Pod
	samples map[cluster.Key]Sample
}

func newScene(pods int) *scene {
	s := &scene{samples: map[cluster.Key]Sample{}, watched: map[string]bool{"n": true}, Book: Book{PressureLine: 0.1}}
	s.nodes = []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(64000, 100*gi), Capacity: cluster.Amounts(64000, 104*gi)}, {Name: "other", Allocatable: cluster.Amounts(64000, 100*gi)}}
	for i := range pods {
		s.pods = append(s.pods, &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprintf("web-%d", i)}, Node: "n", Phase: cluster.Running, Started: noon.Add(-time.Hour), Created: noon.Add(-time.Hour), Containers: []cluster.Container{{Name: "app"}}})
	}
	return s
}

// moved records that a pod moved.
func (s *scene) moved(at time.Time, of cluster.Workload, bytes int64, from, to string) {
	s.Tried(at, from, Move{Of: of, Bytes: bytes, To: to}, true)
}

func (s *scene) mayMove(of cluster.Workload, bytes int64, to string) bool {
	return s.MayMove(Move{Of: of, Bytes: bytes, To: to}, nil)
}

// observe lets each pod use an equal part of an amount, in GiB, and returns the alarm of the node.
func (s *scene) observe(after time.Duration, total float64) *Alarm {
	now := noon.Add(after)
	for _, p := range s.pods {
		s.samples[p.Key] = Sample{now.Add(-10 * time.Second), int64(total * float64(gi) / float64(len(s.pods)))}
	}
	return s.look(after)
}

func (s *scene) look(after time.Duration) *Alarm {
	s.Observe(noon.Add(after), s.nodes, s.watched, s.pods, s.samples)
	if len(s.Alarms) == 0 {
		return nil
	}
	return &s.Alarms[0]
}

func TestBook_usageAboveTheLine_isAnAlarm(t *testing.T) {
	s := newScene(4)
	if a := s.observe(0, 84); a != nil {
		t.Errorf("at 84 %%: %+v", a)
	}
	a := s.observe(time.Minute, 90)
	if a == nil || a.Node != "n" || a.Coming || a.Excess != 5*gi || a.Used != 90*gi || len(a.Usage) != 4 || a.Share() < 0.33 || a.Share() > 0.34 {
		t.Fatalf("at 90 %%: %+v", a)
	}
	if a := s.observe(2*time.Minute, 80); a != nil {
		t.Errorf("at 80 %% again: %+v", a)
	}
}

func TestBook_usageRisesSteadily_alarmComesBeforeTheLine(t *testing.T) {
	for name, c := range map[string]struct {
		usage []float64 // each half minute
		want  bool
	}{
		"one percent a minute":       {[]float64{74, 74.5, 75, 75.5, 76, 76.5, 77, 77.5, 78}, true},
		"from a low level":           {[]float64{5, 10, 15, 20, 25, 30, 35, 40, 45}, false},
		"too slowly":                 {[]float64{74, 74.1, 74.2, 74.3, 74.4, 74.5, 74.6, 74.7, 74.8}, false},
		"for too short a time":       {[]float64{74, 75, 76, 77}, false},
		"up and down":                {[]float64{70, 80, 70, 80, 70, 80, 70, 80, 70}, false},
		"a step":                     {[]float64{70, 70, 70, 70, 70, 70, 70, 80, 80}, false},
		"has risen, and stays there": {[]float64{70, 72, 74, 76, 80, 80, 80, 80, 80}, false},
	} {
		s := newScene(2)
		var last *Alarm
		for i, v := range c.usage {
			last = s.observe(time.Duration(i)*30*time.Second, v)
			s.look(time.Duration(i)*30*time.Second + time.Second) // the same samples again
		}
		if (last != nil) != c.want || last != nil && !last.Coming {
			t.Errorf("%s: %+v, want an alarm: %v", name, last, c.want)
		}
	}
}

func TestBook_threeMovesDidNotHelp_nodeRestsForAnHour(t *testing.T) {
	s := newScene(3)
	moves := 0
	for minute := range 3 * 60 {
		for _, second := range []int{0, 20, 40} {
			a := s.observe(time.Duration(minute)*time.Minute+time.Duration(second)*time.Second, 95)
			if a == nil {
				t.Fatal("no alarm")
			}
			if !a.Rests && !a.Waits {
				moves++
				s.moved(noon.Add(time.Duration(minute)*time.Minute+time.Duration(second)*time.Second), workload(moves), gi, "n", "other")
			}
		}
		if minute == 3 && moves != 3 {
			t.Errorf("%d moves in the first four minutes, want one in each but the first", moves)
		}
	}
	if moves != 9 {
		t.Errorf("%d moves in three hours, want 3 an hour", moves)
	}
}

// Samples that are old, or that cannot be, raise no false alarm. Those of some pods are enough if these alone use too much.
func TestBook_samplesAreMissingOrWrong_isNotMisled(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene)
		want   bool
	}{
		"all are known":                       {func(*scene) {}, true},
		"one is missing":                      {func(s *scene) { delete(s.samples, s.pods[0].Key) }, true},
		"one is old, and the others use less": {func(s *scene) { s.set(0, -3*time.Minute, 30); s.set(1, 0, 20) }, false},
		"one is from the future":              {func(s *scene) { s.set(0, 5*time.Minute, 60); s.set(1, 0, 20) }, false},
		"one is below zero":                   {func(s *scene) { s.set(0, 0, -90); s.set(1, 0, 20) }, false},
		"more than the node has":              {func(s *scene) { s.set(0, 0, 1e6) }, false},
		"one has ended":                       {func(s *scene) { s.pods[0].Phase = cluster.Succeeded; s.set(1, 0, 20) }, false},
		"the size of the node is not known":   {func(s *scene) { s.nodes[0].Allocatable = cluster.Resources{} }, false},
		"the node is not watched":             {func(s *scene) { s.watched = nil }, false},
	} {
		s := newScene(4)
		for i := range s.pods {
			s.set(i, 0, 30)
		}
		s.set(0, 0, 5)
		c.change(s)
		if a := s.look(0); (a != nil) != c.want {
			t.Errorf("%s: %+v, want an alarm: %v", name, a, c.want)
		}
	}
}

func (s *scene) set(pod int, at time.Duration, gib int64) {
	s.samples[s.pods[pod].Key] = Sample{noon.Add(at), gib * gi}
}

// After a reading that lacks a pod, the next one seems to have risen.
func TestBook_podWithoutSampleIsMeasuredAgain_isNoRise(t *testing.T) {
	s := newScene(4)
	for i := range 10 {
		at := time.Duration(i) * 30 * time.Second
		if i < 5 {
			s.observe(at, 60)
			delete(s.samples, s.pods[0].Key)
			s.look(at + time.Second)
			continue
		}
		if a := s.observe(at, 70); a != nil {
			t.Errorf("after %v: %+v", at, a)
		}
	}
}

func workload(i int) cluster.Workload {
	return cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: fmt.Sprint("web-", i)}
}

// A pod that is too large for its nodes does not go from one to the next for ever, also if nodes are watched only because of it.
func TestBook_podsOfAWorkload_moveAtMostThreeTimesAnHour(t *testing.T) {
	s := newScene(2)
	moves := 0
	for minute := range 120 {
		now := noon.Add(time.Duration(minute) * time.Minute)
		node := fmt.Sprint("n", minute)
		s.nodes = []cluster.Node{{Name: node, Allocatable: cluster.Amounts(64000, 100*gi)}}
		s.watched = map[string]bool{node: true}
		for _, p := range s.pods {
			p.Node = node
		}
		if a := s.observe(time.Duration(minute)*time.Minute, 95); a == nil || a.Rests {
			t.Fatalf("%+v", a)
		}
		if s.mayMove(workload(0), 40*gi, "elsewhere") {
			moves++
			s.moved(now, workload(0), 40*gi, node, "elsewhere")
		}
	}
	if moves != 6 || len(s.Book.nodes) > 4 {
		t.Errorf("%d moves in two hours, want 6; %d nodes are remembered", moves, len(s.Book.nodes))
	}
	if s.mayMove(workload(1), 1, "n119") || !s.mayMove(workload(1), 1, "elsewhere") {
		t.Error("a pod moves to a node without room, or to none")
	}
}

// A pod that comes back to its node frees nothing there, so no more pods move.
func TestBook_movedPodComesBack_nodeRests(t *testing.T) {
	s := newScene(3)
	s.observe(0, 95)
	s.moved(noon.Add(time.Minute), s.pods[0].Workload(), 30*gi, "n", "other")
	if a := s.observe(3*time.Minute, 95); a == nil || a.Rests || a.Waits {
		t.Errorf("%+v, want an alarm", a)
	}
	s.pods[0].Created = noon.Add(2 * time.Minute)
	if a := s.observe(4*time.Minute, 95); a == nil || !a.Rests {
		t.Errorf("%+v, want that the node rests", a)
	}
	if a := s.observe(62*time.Minute, 95); a == nil || a.Rests {
		t.Errorf("%+v, want no rest after an hour", a)
	}
}

// Pods of several nodes do not all move to the same one before they are measured there.
func TestBook_podsMoveToANode_countThereAtOnce(t *testing.T) {
	s := newScene(2)
	s.pods[1].Node = "other"
	s.observe(0, 100) // 50 GiB on each
	if !s.mayMove(workload(0), 35*gi, "other") || s.mayMove(workload(0), 36*gi, "other") {
		t.Error("a node of 100 GiB with 50 GiB in use does not take 35 GiB, or takes more")
	}
	s.moved(noon, workload(0), 20*gi, "n", "other")
	for after, want := range map[time.Duration]bool{0: false, time.Minute: false, 3 * time.Minute: true} {
		if s.observe(after, 100); s.mayMove(workload(1), 20*gi, "other") != want {
			t.Errorf("after %v: takes 20 GiB more: %v", after, !want)
		}
	}
}

// A pass decides on several moves before any of them is made.
func TestBook_movesOfAPass_countTogether(t *testing.T) {
	s := newScene(2)
	s.pods[1].Node = "other"
	s.observe(0, 50)
	for name, c := range map[string]struct {
		beside []Move
		may    bool
	}{
		"none":                     {nil, true},
		"two of the workload":      {[]Move{{workload(0), gi, "other", false}, {workload(0), gi, "third", false}}, true},
		"three of the workload":    {[]Move{{workload(0), gi, "other", false}, {workload(0), gi, "third", false}, {workload(0), gi, "fourth", false}}, false},
		"another fills the node":   {[]Move{{workload(1), 1 << 50, "other", false}}, false},
		"another fills other ones": {[]Move{{workload(1), 1 << 50, "third", false}}, true},
	} {
		if got := s.MayMove(Move{workload(0), gi, "other", false}, c.beside); got != c.may {
			t.Errorf("%s: may move: %v, want %v", name, got, c.may)
		}
	}
}

// A refused move is not tried again at once, and is no move.
func TestBook_moveIsRefused_waits(t *testing.T) {
	s := newScene(2)
	s.observe(0, 95)
	s.Tried(noon.Add(2*time.Minute), "n", Move{workload(0), gi, "other", false}, false)
	for after, waits := range map[time.Duration]bool{150 * time.Second: true, 200 * time.Second: false} {
		if a := s.observe(after, 95); a == nil || a.Waits != waits || a.Rests {
			t.Errorf("after %v: %+v, want that it waits: %v", after, a, waits)
		}
	}
}

// A node whose usage is not known, because it has pods and no samples, or old ones, takes no pod. An empty node does.
func TestBook_usageOfANodeIsNotKnown_noPodMovesThere(t *testing.T) {
	s := newScene(2)
	s.pods[1].Node = "other"
	delete(s.samples, s.pods[1].Key)
	s.samples[s.pods[0].Key] = Sample{noon, 90 * gi}
	s.look(0)
	if s.mayMove(workload(0), gi, "other") || !s.mayMove(workload(0), gi, "empty") {
		t.Error("a pod may move to a node that is not measured, or not to an empty one")
	}
	s.observe(time.Minute, 50)
	if !s.mayMove(workload(0), gi, "other") {
		t.Error("no pod may move to a node that is measured")
	}
	s.look(time.Minute + 2*maxAge)
	if s.mayMove(workload(0), gi, "other") {
		t.Error("a pod may move to a node whose samples are old")
	}
}

// With metrics-server's default, a node is measured each minute, and shown 10 seconds later. What is older than a minute does not count, the samples of half of
// the pods are two seconds older, and still a rise is seen. If the samples of one pod are always too old, the rise is
// not seen, but usage above the line still raises an alarm.
func TestBook_samplesAreOfEachMinute_riseIsSeen(t *testing.T) {
	for late, want := range map[bool]bool{false: true, true: false} {
		s := newScene(4)
		coming := false
		for after := time.Duration(0); after < 12*time.Minute; after += 15 * time.Second {
			scraped := (after - 10*time.Second).Truncate(time.Minute)
			for i, p := range s.pods {
				at := noon.Add(scraped - time.Duration(i%2)*2*time.Second)
				s.samples[p.Key] = Sample{at, int64((72 + scraped.Minutes()) * float64(gi) / 4)}
			}
			if late {
				s.samples[s.pods[0].Key] = Sample{noon.Add(after - 90*time.Second), 18 * gi}
			}
			if a := s.look(after); a != nil && a.Coming {
				coming = true
			}
			if left := s.nodes[0].Allocatable.Memory/100*85 - int64((72+scraped.Minutes())*float64(gi)); !late && s.mayMove(workload(9), left+2*gi, "n") {
				t.Fatalf("late %v, after %v: what old samples show is taken as free", late, after)
			}
		}
		if coming != want {
			t.Errorf("late %v: the rise was seen: %v", late, coming)
		}
		for _, p := range s.pods {
			s.samples[p.Key] = Sample{noon.Add(12 * time.Minute), 29 * gi}
		}
		s.samples[s.pods[0].Key] = Sample{noon.Add(12*time.Minute - 90*time.Second), 18 * gi}
		if a := s.look(12 * time.Minute); a == nil || a.Coming {
			t.Errorf("late %v: no alarm above the line: %+v", late, a)
		}
	}
}

// A rise that was seen before samples became old is none for ever.
func TestBook_oneSampleStaysOld_earlierRiseIsForgotten(t *testing.T) {
	s := newScene(4)
	var a *Alarm
	for i := range 10 {
		a = s.observe(time.Duration(i)*30*time.Second, 74+float64(i))
	}
	if a == nil || !a.Coming {
		t.Fatalf("the rise is not seen: %+v", a)
	}
	for after := 5 * time.Minute; after < 10*time.Minute; after += 30 * time.Second {
		s.observe(after, 84)
		s.samples[s.pods[0].Key] = Sample{noon.Add(after - 90*time.Second), gi}
		a = s.look(after)
	}
	if a != nil {
		t.Errorf("five minutes later: %+v", a)
	}
}

// A moved pod came back, so the node rests. That does not end while its sample is too old to count.
func TestBook_sampleOfTheReturnedPodIsOld_nodeRests(t *testing.T) {
	for _, age := range []time.Duration{30 * time.Second, 61 * time.Second} {
		s := newScene(4)
		s.observe(0, 95)
		s.moved(noon.Add(time.Minute), s.pods[0].Workload(), gi, "n", "other")
		// pods of a scene have no controller, so each is its own workload
		s.pods[0].Created = noon.Add(2 * time.Minute)
		s.pods[0].Started = noon.Add(2 * time.Minute)
		s.observe(6*time.Minute, 4*30)
		s.nodes[0].Capacity = cluster.Amounts(64000, 130*gi)
		for i := range s.pods {
			s.set(i, 6*time.Minute-10*time.Second, 30)
		}
		s.set(0, 6*time.Minute-age, 5)
		a := s.look(6 * time.Minute)
		if a == nil || !a.Rests {
			t.Errorf("age %v: %+v, want that the node rests", age, a)
		}
	}
}

// A pod moved, and the next samples are late: the rise of before is that of the pod that left.
func TestBook_podMoved_earlierRiseIsNotThatOfTheOthers(t *testing.T) {
	s := newScene(4)
	at := func(i int, after time.Duration, v float64) {
		s.samples[s.pods[i].Key] = Sample{noon.Add(after), int64(v * float64(gi))}
	}
	var a *Alarm
	for i := range 9 { // pod 0 grows from 6 to 10 GiB, the others use 74
		after := time.Duration(i) * 30 * time.Second
		at(0, after, 6+float64(i)/2)
		at(1, after, 72)
		at(2, after, 1)
		at(3, after, 1)
		a = s.look(after)
	}
	if a == nil || !a.Coming {
		t.Fatalf("no rise: %+v", a)
	}
	s.Tried(noon.Add(4*time.Minute), "n", Move{Of: s.pods[0].Workload(), Bytes: 10 * gi, To: "other"}, true)
	s.pods = s.pods[1:]
	// The next samples come 65 seconds later, but for a small pod.
	after := 5*time.Minute + 5*time.Second
	at(0, after-5*time.Second, 72)
	at(1, after-5*time.Second, 1)
	at(2, after-61*time.Second, 1)
	if a = s.look(after); a != nil && !a.Waits {
		t.Errorf("the pods that stay have used 74 GiB all the time: %+v", a)
	}
}

// The usage of a new pod grows because it is new.
func TestBook_podsAreNew_noAlarmBeforeTheLine(t *testing.T) {
	s := newScene(2)
	s.pods[1].Started, s.pods[1].Created = noon, noon
	for i, v := range []float64{74, 74.5, 75, 75.5, 76, 76.5, 77, 77.5, 78} {
		if a := s.observe(time.Duration(i)*30*time.Second, v); a != nil {
			t.Errorf("%+v", a)
		}
	}
}

// Only a pod that is created soon after a move is its replacement, which came back.
func TestBook_podOfAMovedWorkloadIsCreated_nodeRestsOnlyIfItCameBack(t *testing.T) {
	for after, rests := range map[time.Duration]bool{time.Minute: true, 20 * time.Minute: false} {
		s := newScene(2)
		s.observe(0, 95)
		s.moved(noon.Add(time.Minute), s.pods[1].Workload(), gi, "n", "other")
		s.pods[1].Created, s.pods[1].Started = noon.Add(time.Minute+after), noon.Add(time.Minute+after)
		if a := s.observe(30*time.Minute, 95); a == nil || a.Rests != rests {
			t.Errorf("created %v later: %+v, want that the node rests: %v", after, a, rests)
		}
	}
}

// A node whose usage is not known is no node with little usage.
func TestBook_usageIsNotKnownForFiveMinutes_nodeIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		sample func(s *scene, after time.Duration, i int) // of pod i; nil: there is none
		change func(*scene)
		want   bool
	}{
		"all are known":                {sample: func(s *scene, after time.Duration, i int) { s.set(i, after, 10) }},
		"one is known":                 {sample: func(s *scene, after time.Duration, _ int) { s.set(0, after, 10) }},
		"none is measured":             {want: true},
		"the clock of the node is off": {sample: func(s *scene, after time.Duration, i int) { s.set(i, after-5*time.Minute, 10) }, want: true},
		"more than the node has":       {sample: func(s *scene, after time.Duration, i int) { s.set(i, after, 1e6) }, want: true},
		"all pods are new":             {change: func(s *scene) { s.each(func(p *cluster.Pod) { p.Started = noon.Add(5 * time.Minute) }) }},
		"the node is not watched":      {change: func(s *scene) { s.watched = nil }},
		"the node has no pods":         {change: func(s *scene) { s.pods = nil }},
	} {
		s := newScene(4)
		if c.change != nil {
			c.change(s)
		}
		for minute := range 7 {
			after := time.Duration(minute) * time.Minute
			clear(s.samples)
			for i := range s.pods {
				if c.sample != nil {
					c.sample(s, after, i)
				}
			}
			s.look(after)
			if want := c.want && minute > 5; len(s.Unknown) > 1 || slices.Contains(s.Unknown, "n") != want {
				t.Errorf("%s, after %v: the usage of %v is not known, want that of n: %v", name, after, s.Unknown, want)
			}
		}
	}
}

func (s *scene) each(change func(*cluster.Pod)) {
	for _, p := range s.pods {
		change(p)
	}
}

// press sets the memory pressure of a node, measured 20 seconds ago.
func (s *scene) press(after time.Duration, node string, share float64) {
	cluster.Put(&s.Pressure, node, Pressure{noon.Add(after - 20*time.Second), share})
}

func TestBook_nodeIsUnderPressure_isAnAlarmFrom70PercentOn(t *testing.T) {
	for name, c := range map[string]struct {
		uses   float64 // of 100 GiB
		change func(*scene)
		want   float64 // the pressure of the alarm; 0: there is none
	}{
		"pressure and usage":          {75, func(*scene) {}, 0.12},
		"exactly the least of both":   {70, func(s *scene) { s.press(0, "n", 0.1) }, 0.1},
		"all the time":                {75, func(s *scene) { s.press(0, "n", 1) }, 1},
		"little usage":                {69, func(*scene) {}, 0},
		"little pressure":             {75, func(s *scene) { s.press(0, "n", 0.09) }, 0},
		"no pressure":                 {75, func(s *scene) { s.Pressure = nil }, 0},
		"of another node":             {75, func(s *scene) { s.Pressure = nil; s.press(0, "other", 0.5) }, 0},
		"measured two minutes ago":    {75, func(s *scene) { s.press(-101*time.Second, "n", 0.5) }, 0},
		"measured in the future":      {75, func(s *scene) { s.press(time.Hour, "n", 0.5) }, 0},
		"measured at an unknown time": {75, func(s *scene) { s.Pressure["n"] = Pressure{Share: 0.5} }, 0},
		"no number":                   {75, func(s *scene) { s.press(0, "n", math.NaN()) }, 0},
		"below zero":                  {75, func(s *scene) { s.press(0, "n", -1) }, 0},
		"usage is not known":          {75, func(s *scene) { clear(s.samples) }, 0},
		"usage is old": {75, func(s *scene) {
			s.each(func(p *cluster.Pod) { s.samples[p.Key] = Sample{noon.Add(-time.Hour), 25 * gi} })
		}, 0},
		"usage of one pod is not known": {80, func(s *scene) { delete(s.samples, s.pods[0].Key) }, 0}, // 60 GiB are known
		"more than the node has":        {1000, func(*scene) {}, 0},
		"the node is not watched":       {75, func(s *scene) { s.watched = nil }, 0},
		"the size of it is not known":   {75, func(s *scene) { s.nodes[0].Allocatable = cluster.Resources{} }, 0},
		"pressure does not count":       {75, func(s *scene) { s.PressureLine = 0; s.press(0, "n", 0.9) }, 0},
	} {
		s := newScene(4)
		s.observe(0, c.uses)
		s.press(0, "n", 0.12)
		c.change(s)
		a := s.look(time.Second)
		if (a != nil) != (c.want > 0) || a != nil && (a.Pressure != c.want || !a.Coming || a.Excess != 5*gi || a.Rests) {
			t.Errorf("%s: %+v, want an alarm with pressure %v", name, a, c.want)
		}
	}
}

// What usage says counts first: then three moves an hour are possible, whatever the pressure.
func TestBook_usageRaisesAnAlarm_pressureIsNotTheSign(t *testing.T) {
	for name, usage := range map[string][]float64{"above the line": {90}, "rises steadily": {74, 74.5, 75, 75.5, 76, 76.5, 77, 77.5, 78}} {
		s := newScene(2)
		var last *Alarm
		for i, v := range usage {
			after := time.Duration(i) * 30 * time.Second
			s.press(after, "n", 0.5)
			last = s.observe(after, v)
		}
		if last == nil || last.Pressure > 0 || strings.Contains(last.Text(), "pressure") {
			t.Errorf("%s: %+v, want an alarm because of usage", name, last)
		}
		if s.Filling["n"] != (name == "rises steadily") {
			t.Errorf("%s: nodes of which the pressure counts: %v", name, s.Filling)
		}
	}
}

// moveWhilePressed lets a pod of another workload move in each pass in which one may, every 20 seconds, and returns the number of moves by hour. A node that
// rests has an alarm all the same.
func (s *scene) moveWhilePressed(hours int, pressed func(after time.Duration) bool) map[int]int {
	moves := map[int]int{}
	for after := time.Duration(0); after < time.Duration(hours)*time.Hour; after += 20 * time.Second {
		s.press(after, "n", map[bool]float64{true: 0.5, false: 0.05}[pressed(after)])
		if a := s.observe(after, 75); a != nil && !a.Rests && !a.Waits {
			moves[int(after.Hours())]++
			s.Tried(noon.Add(after), "n", Move{workload(int(after.Seconds())), gi, "other", a.Pressure > 0}, true)
		}
	}
	return moves
}

func TestBook_pressureDoesNotGoAway_nodeRestsForADayAfterThreeMoves(t *testing.T) {
	for name, c := range map[string]struct {
		pressed func(time.Duration) bool
		want    string // moves by hour
	}{
		"it stays":                      {func(time.Duration) bool { return true }, "map[0:3 24:3]"},
		"it comes back each half hour":  {func(d time.Duration) bool { return d%(30*time.Minute) < time.Minute }, "map[0:1 1:2 24:1 25:2]"},
		"it comes back each third hour": {func(d time.Duration) bool { return d%(3*time.Hour) < 10*time.Minute }, "map[0:3 24:3]"},
		"each move ends it for a time":  {func(d time.Duration) bool { return (d+time.Hour)%(2*time.Hour) < 30*time.Second }, "map[1:1 3:1 5:1 25:1]"},
		"there is none":                 {func(time.Duration) bool { return false }, "map[]"},
	} {
		s := newScene(3)
		if got := fmt.Sprint(s.moveWhilePressed(27, c.pressed)); got != c.want {
			t.Errorf("%s: moves %s, want %s", name, got, c.want)
		}
		if s.look(60 * time.Hour); len(s.pressed) > 0 {
			t.Errorf("%s: moves of %d nodes and workloads are remembered for days", name, len(s.pressed))
		}
	}
}

// The bound for pressure does not hold for usage: the node does not rest longer because of it.
func TestBook_nodeRestsBecauseOfPressure_usageStillCounts(t *testing.T) {
	s := newScene(3)
	s.moveWhilePressed(1, func(time.Duration) bool { return true })
	s.press(62*time.Minute, "n", 0.5)
	if a := s.observe(62*time.Minute, 75); a == nil || !a.Rests || a.Pressure == 0 {
		t.Errorf("%+v, want an alarm of a node that rests", a)
	}
	if a := s.observe(63*time.Minute, 90); a == nil || a.Rests || a.Pressure > 0 {
		t.Errorf("%+v, want an alarm because of usage", a)
	}
}

// The moves because of pressure are not those of usage: a node whose usage then rises does not wait for an hour.
func TestBook_movesBecauseOfPressure_usageHasItsOwn(t *testing.T) {
	s := newScene(3)
	for i := range 3 {
		s.Tried(noon.Add(time.Duration(i)*time.Minute), "n", Move{workload(1), gi, "other", true}, true)
	}
	if a := s.observe(10*time.Minute, 92); a == nil || a.Rests {
		t.Errorf("%+v, want an alarm of a node that does not rest", a)
	}
	if !s.MayMove(Move{Of: workload(1), Bytes: gi, To: "other"}, nil) || s.MayMove(Move{Of: workload(1), Bytes: gi, To: "other", Pressed: true}, nil) {
		t.Error("the workload may not move because of usage, or may because of pressure")
	}
}

// A move that ends the pressure at once is the only one, although the mean of the last minute falls slowly.
func TestBook_pressureFallsAfterAMove_noOtherMoves(t *testing.T) {
	s := newScene(3)
	moved := time.Duration(0)
	moves := 0
	for after := time.Duration(0); after < 2*time.Hour; after += 15 * time.Second {
		share := 0.6
		if moved > 0 {
			share *= math.Exp(-(after - moved).Seconds() / 60)
		}
		s.press(after, "n", share)
		if a := s.observe(after, 75); a != nil && !a.Rests && !a.Waits {
			s.Tried(noon.Add(after), "n", Move{workload(1), gi, "other", a.Pressure > 0}, true)
			moved, moves = after, moves+1
		}
	}
	if moves != 1 {
		t.Errorf("%d moves, want 1", moves)
	}
}

// A pod that reclaims memory at its own limit takes its pressure to each node on which it runs.
func TestBook_podTakesItsPressureAlong_movesThreeTimes(t *testing.T) {
	s := newScene(1)
	s.nodes, s.watched = nil, map[string]bool{}
	for i := range 100 {
		node := fmt.Sprint("n", i)
		s.nodes = append(s.nodes, cluster.Node{Name: node, Allocatable: cluster.Amounts(64000, 100*gi)})
		s.watched[node] = true
	}
	at, moves := 0, 0
	for minute := range 12 * 60 {
		after := time.Duration(minute) * time.Minute
		node := fmt.Sprint("n", at)
		s.pods[0].Node = node
		s.press(after, node, 0.5)
		a := s.observe(after, 75)
		if a == nil || a.Rests || a.Pressure == 0 {
			t.Fatalf("after %v: %+v", after, a)
		}
		m := Move{s.pods[0].Workload(), 75 * gi, fmt.Sprint("n", at+1), true}
		if !a.Waits && s.MayMove(m, nil) {
			s.Tried(noon.Add(after), node, m, true)
			at, moves = at+1, moves+1
		}
	}
	if moves != MostMoves {
		t.Errorf("%d moves in twelve hours, want %d", moves, MostMoves)
	}
	if m := (Move{Of: s.pods[0].Workload(), Bytes: gi, To: "elsewhere"}); !s.MayMove(m, nil) {
		t.Error("it may not move because of usage")
	}
}

func TestAlarm_signs_textNamesThem(t *testing.T) {
	for want, a := range map[string]Alarm{
		"n use 90 % of its memory": {Used: 90},
		"n will soon use more than 85 % of its memory and now use 75 % of its memory": {Used: 75, Coming: true},
		"n wait for memory 12 % of the time (pressure) and use 75 % of its memory":    {Used: 75, Coming: true, Pressure: 0.12},
	} {
		a.Node, a.Allocatable = "n", 100
		if got := a.Text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
