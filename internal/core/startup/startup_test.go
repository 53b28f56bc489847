// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package startup

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/codec"
)

var (
	noon   = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	bounds = cluster.BoostLearning{On: true, MaxPercent: 400, MaxDuration: 10 * time.Minute}
)

// A trial is the start of one container: usage in millicores, one sample per minute.
type trial struct {
	at       time.Time // start of the pod
	ready    int       // minutes from the start to Ready; negative: never
	usage    func(minute int) float64
	limit    int64
	missing  func(minute int) bool
	restarts func(minute int) uint16
	shift    func(minute int) time.Duration // of the time of samples
	minutes  int
}

// run observes the trial and returns the start, nil if it teaches nothing.
func (r trial) run() *Start {
	o := NewObserver(r.at, r.at)
	if r.minutes == 0 {
		r.minutes = 60
	}
	for minute := range r.minutes {
		now := r.at.Add(time.Duration(minute)*time.Minute + 30*time.Second)
		pod := &cluster.Pod{}
		if r.ready >= 0 && minute >= r.ready {
			pod.Ready = true
			pod.ReadySince = r.at.Add(time.Duration(r.ready) * time.Minute)
		}
		c := &cluster.Container{}
		if r.restarts != nil {
			c.Restarts = r.restarts(minute)
		}
		if !o.Note(pod, c) {
			return nil
		}
		if r.missing != nil && r.missing(minute) {
			continue
		}
		if r.shift != nil {
			now = now.Add(r.shift(minute))
		}
		start, more := o.Observe(now, r.usage(minute), r.limit)
		if start != nil {
			return start
		}
		if !more {
			return nil
		}
	}
	return nil
}

// until returns usage that is high for the first minutes.
func until(minutes int, high, low float64) func(int) float64 {
	return func(minute int) float64 {
		if minute < minutes {
			return high
		}
		return low
	}
}

// learn returns what is learnt from trials an hour apart.
func learn(t *testing.T, target int64, trials ...trial) cluster.LearntBoost {
	t.Helper()
	var all Starts
	now := noon
	for _, r := range trials {
		r.at = now
		if start := r.run(); start != nil {
			all.Add(start, now)
		}
		now = now.Add(time.Hour)
	}
	return all.Learn(target, bounds, now)
}

func repeat(n int, r trial) []trial {
	out := make([]trial, n)
	for i := range out {
		out[i] = r
	}
	return out
}

func TestLearn_syntheticStarts(t *testing.T) {
	slow := trial{usage: until(4, 900, 200)} // Ready at once
	for name, c := range map[string]struct {
		trials []trial
		want   cluster.LearntBoost
	}{
		"a start needs three times as much for four minutes": {repeat(3, slow), cluster.LearntBoost{Percent: 300, Starts: 3, Duration: 5 * time.Minute}},
		"too few starts": {repeat(2, slow), cluster.LearntBoost{Starts: 2}},
		"a start needs no more": {
			repeat(5, trial{usage: until(4, 280, 200)}), cluster.LearntBoost{Starts: 5},
		},
		"the need ends before Ready": {
			repeat(3, trial{ready: 5, usage: until(5, 600, 200)}), cluster.LearntBoost{Percent: 200, Starts: 3, Duration: time.Minute},
		},
		"the need is above the bounds": {
			repeat(3, trial{usage: until(12, 9000, 200)}), cluster.LearntBoost{Percent: 400, Starts: 3, Duration: 10 * time.Minute},
		},
		"factors are rounded up": {
			repeat(3, trial{usage: until(1, 610, 200)}), cluster.LearntBoost{Percent: 210, Starts: 3, Duration: 2 * time.Minute},
		},
		"one slow start of five is left out": {
			append(repeat(4, slow), trial{usage: until(9, 1200, 200)}), cluster.LearntBoost{Percent: 300, Starts: 5, Duration: 5 * time.Minute},
		},
		"one slow start of four is not": {
			append(repeat(3, slow), trial{usage: until(9, 1200, 200)}), cluster.LearntBoost{Percent: 400, Starts: 4, Duration: 10 * time.Minute},
		},
		"most starts need no more": {
			append(repeat(4, trial{usage: until(0, 0, 200)}), repeat(3, slow)...), cluster.LearntBoost{Starts: 7},
		},
		"usage stays high, so the start is not the cause": {
			repeat(5, trial{usage: until(60, 900, 0)}), cluster.LearntBoost{Starts: 5},
		},
		"a short dip does not end the need": {
			repeat(3, trial{usage: func(minute int) float64 {
				if minute < 6 && minute != 2 && minute != 3 {
					return 600
				}
				return 100
			}}), cluster.LearntBoost{Percent: 200, Starts: 3, Duration: 7 * time.Minute},
		},
		"usage at the limit shows at least what was needed": {
			repeat(3, trial{usage: until(3, 300, 200), limit: 300}), cluster.LearntBoost{Percent: 150, Starts: 3, Duration: 4 * time.Minute},
		},
		"a container that is always at its limit does not only start with it": {
			repeat(5, trial{usage: until(60, 299, 0), limit: 300}), cluster.LearntBoost{Starts: 5},
		},
		"a load spike after the start": {
			repeat(5, trial{usage: func(minute int) float64 {
				if minute == 9 {
					return 900
				}
				return 200
			}}), cluster.LearntBoost{Starts: 5},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := learn(t, 300, c.trials...); got != c.want {
				t.Errorf("learnt %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestObserver_teachesNothing(t *testing.T) {
	high := until(4, 900, 200)
	for name, r := range map[string]trial{
		"the container restarts once":    {usage: high, restarts: func(minute int) uint16 { return uint16(min(minute/3, 1)) }},
		"the container is in crash loop": {usage: high, restarts: func(minute int) uint16 { return uint16(minute) }, ready: -1},
		"the pod is never Ready":         {usage: high, ready: -1},
		"samples are missing":            {usage: high, missing: func(minute int) bool { return minute >= 3 && minute < 7 }},
		"the first samples are missing":  {usage: high, missing: func(minute int) bool { return minute < 4 }},
		"the pod ends early":             {usage: high, minutes: 10},
		"the clock jumps ahead":          {usage: high, shift: func(minute int) time.Duration { return time.Duration(minute/5) * time.Hour }},
		"the clock is set back":          {usage: high, shift: func(minute int) time.Duration { return -time.Duration(minute/5) * time.Hour }},
		"all samples are not a number":   {usage: func(int) float64 { return math.NaN() }},
	} {
		t.Run(name, func(t *testing.T) {
			r.at = noon
			if got := r.run(); got != nil {
				t.Errorf("learnt from the start: %+v", got)
			}
		})
	}
}

func TestObserver_harmlessDisturbances_teachTheSame(t *testing.T) {
	want := learn(t, 300, repeat(3, trial{usage: until(4, 900, 200)})...)
	for name, r := range map[string]trial{
		"one sample in four is missing": {usage: until(4, 900, 200), missing: func(minute int) bool { return minute%4 == 1 }},
		"some values are not a number": {usage: func(minute int) float64 {
			if minute == 2 {
				return math.NaN()
			}
			return until(4, 900, 200)(minute)
		}},
		"the times of samples vary": {usage: until(4, 900, 200), shift: func(minute int) time.Duration { return time.Duration(minute%3-1) * 9 * time.Second }},
	} {
		t.Run(name, func(t *testing.T) {
			if got := learn(t, 300, repeat(3, r)...); got != want {
				t.Errorf("learnt %+v, want %+v", got, want)
			}
		})
	}
}

func TestNewObserver_aPodThatRunsAlready_isNotFollowed(t *testing.T) {
	for name, c := range map[string]struct {
		started time.Time
		want    bool
	}{
		"not started yet":             {time.Time{}, true},
		"just started":                {noon.Add(-time.Minute), true},
		"running for an hour":         {noon.Add(-time.Hour), false},
		"started far in the future":   {noon.Add(time.Hour), false},
		"started at a time before it": {time.Unix(-1, 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NewObserver(c.started, noon) != nil; got != c.want {
				t.Errorf("followed %v, want %v", got, c.want)
			}
		})
	}
}

func TestObserver_losesReadiness_teachesNothing(t *testing.T) {
	o := NewObserver(noon, noon)
	if !o.Note(&cluster.Pod{Ready: true, ReadySince: noon.Add(time.Minute)}, &cluster.Container{}) {
		t.Fatal("not followed")
	}
	if o.Note(&cluster.Pod{}, &cluster.Container{}) {
		t.Error("still followed after the pod has lost its readiness")
	}
	if start, more := o.Observe(noon.Add(2*time.Minute), 1, 0); start != nil || more {
		t.Error("a sample after that counts")
	}
}

func TestLearn_steadyUsageWithBursts_isNoStart(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		trials := repeat(kept, trial{usage: func(int) float64 {
			if random.Float64() < 0.08 {
				return 900
			}
			return 200 + 60*random.Float64()
		}})
		if got := learn(t, 300, trials...); got.Percent != 0 {
			t.Fatalf("learnt %+v from bursts", got)
		}
	}
}

func TestLearn_noise_staysNearTheNeed(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range 200 {
		trials := repeat(kept, trial{usage: func(minute int) float64 {
			return until(4, 900, 200)(minute) * (0.9 + 0.2*random.Float64())
		}})
		got := learn(t, 300, trials...)
		if got.Percent < 270 || got.Percent > 340 || got.Duration != 5*time.Minute {
			t.Fatalf("learnt %+v, want about 300 %% for 5 minutes", got)
		}
	}
}

func TestLearn_anyUsage_staysWithinTheBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	values := []float64{0, 1, 299, 301, 1e5, 1e8, 1e300, math.Inf(1), math.NaN(), -1}
	for range 2000 {
		trials := repeat(1+random.IntN(12), trial{ready: random.IntN(5), limit: int64(random.IntN(2)) * 300, usage: func(int) float64 {
			return values[random.IntN(len(values))]
		}})
		target := []int64{0, 1, 300, math.MaxInt64}[random.IntN(4)]
		got := learn(t, target, trials...)
		if !got.Valid() || got.Percent > bounds.MaxPercent || got.Duration > bounds.MaxDuration || got.Starts > kept {
			t.Fatalf("learnt %+v", got)
		}
	}
}

func TestStarts_oldOnes_areForgotten(t *testing.T) {
	var all Starts
	r := trial{usage: until(4, 900, 200)}
	for i := range 20 {
		r.at = noon.Add(time.Duration(i) * time.Hour)
		all.Add(r.run(), r.at)
	}
	if all.Len() != kept {
		t.Errorf("%d starts are kept, want %d", all.Len(), kept)
	}
	if got := all.Learn(300, bounds, noon.Add(maxAge+18*time.Hour)); got.Starts != 2 || got.Percent != 0 {
		t.Errorf("learnt %+v from starts of which two are not too old", got)
	}
	if got := all.Learn(300, bounds, noon.Add(-48*time.Hour)); got.Starts != 0 {
		t.Errorf("learnt %+v from starts in the future", got)
	}
}

func TestStarts_oneRollout_doesNotReplaceAllOthers(t *testing.T) {
	var all Starts
	r := trial{usage: until(4, 900, 200)}
	for i := range 5 {
		r.at = noon.Add(time.Duration(i) * time.Hour)
		all.Add(r.run(), r.at)
	}
	for i := range 100 {
		r.at = noon.Add(24*time.Hour + time.Duration(i)*time.Second)
		all.Add(r.run(), r.at)
	}
	if all.Len() != 5+together {
		t.Errorf("%d starts are kept, want %d", all.Len(), 5+together)
	}
}

func encoded(s *Starts) []byte {
	e := codec.NewEncoder(nil)
	Code(e, &s)
	return e.Data()
}

func decoded(d *codec.Coder) (s *Starts) {
	Code(d, &s)
	return s
}

func TestStarts_encodedAndDecoded_areTheSame(t *testing.T) {
	var all Starts
	for i := range kept {
		r := trial{at: noon.Add(time.Duration(i) * time.Hour), limit: 900, ready: i % 3, usage: until(4+i%3, math.MaxFloat64, 1e8)}
		all.Add(r.run(), r.at)
	}
	data := encoded(&all)
	if len(data) > 870 {
		t.Errorf("the starts take %d bytes, more than documented", len(data))
	}
	d := codec.NewDecoder(data)
	again := decoded(d)
	if err := d.Finish("starts"); err != nil {
		t.Fatal(err)
	}
	if string(encoded(again)) != string(data) || again.Len() != kept {
		t.Error("decoded starts differ")
	}
	if d := codec.NewDecoder(encoded(nil)); decoded(d) != nil || d.Finish("starts") != nil {
		t.Error("no starts are not decoded as none")
	}
}

func FuzzDecodeStarts(f *testing.F) {
	r := trial{at: noon, usage: until(4, 900, 200)}
	var all Starts
	all.Add(r.run(), noon)
	f.Add(encoded(&all))
	f.Add([]byte{10})
	f.Fuzz(func(t *testing.T, data []byte) {
		d := codec.NewDecoder(data)
		s := decoded(d)
		if d.Err() != nil {
			return
		}
		if got := s.Learn(300, bounds, noon); !got.Valid() || got.Percent > 400 {
			t.Errorf("learnt %+v", got)
		}
		again := codec.NewDecoder(encoded(s))
		if decoded(again); again.Finish("starts") != nil {
			t.Error("accepted data cannot be encoded and decoded again")
		}
	})
}
