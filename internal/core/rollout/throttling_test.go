// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func limited(p *cluster.Pod) { p.Containers[0].Limits = cluster.Amounts(200, 0) }

// answerOf returns an answer about the throttling of the container app.
func answerOf(now time.Time, canary, before, others Periods) Throttling {
	return Throttling{
		Query: ThrottlingQuery{Change: noon}, At: now, Result: Compared,
		Containers: []ContainerThrottling{{Container: "app", Canaries: canary, Before: before, Others: others}},
	}
}

func TestState_throttlingOfTheCanary_revertsAboveTheBound(t *testing.T) {
	early, late := noon.Add(5*time.Minute), noon.Add(12*time.Minute)
	none := Periods{}
	share := func(percent float64) Periods { return Periods{percent * 10, 1000} }
	for name, c := range map[string]struct {
		now        time.Time
		answer     Throttling
		phase      Phase
		comparison Comparison
	}{
		"as before":                        {early, answerOf(early, share(5), share(5), none), Watching, Compared},
		"rises by the bound":               {early, answerOf(early, share(15), share(5), none), Watching, Compared},
		"rises by more":                    {early, answerOf(early, share(16), share(5), none), Held, Compared},
		"rises by more, at the end":        {late, answerOf(late, share(16), share(5), none), Held, Compared},
		"others are throttled, too":        {early, answerOf(early, share(60), share(5), share(55)), Watching, Compared},
		"others are throttled less":        {early, answerOf(early, share(60), share(55), share(5)), Watching, Compared},
		"nothing before, others are not":   {early, answerOf(early, share(60), none, share(5)), Held, Compared},
		"well until the end":               {late, answerOf(late, share(6), share(5), share(5)), Accepted, Compared},
		"nothing to compare with":          {early, answerOf(early, share(60), none, none), Watching, NoData},
		"few periods of the canary":        {early, answerOf(early, Periods{100, 299}, share(5), none), Watching, NoData},
		"few periods before":               {early, answerOf(early, share(60), Periods{0, 10}, none), Watching, NoData},
		"no number":                        {early, answerOf(early, Periods{math.NaN(), 1000}, share(5), none), Watching, NoData},
		"infinite":                         {early, answerOf(early, Periods{math.Inf(1), math.Inf(1)}, share(5), none), Watching, NoData},
		"negative":                         {early, answerOf(early, Periods{-900, 1000}, share(5), none), Watching, NoData},
		"another container":                {early, Throttling{Query: ThrottlingQuery{Change: noon}, At: early, Result: Compared, Containers: []ContainerThrottling{{"x", share(90), share(0), none}}}, Watching, NoData},
		"an answer of another canary":      {early, Throttling{Query: ThrottlingQuery{Change: noon.Add(-time.Hour)}, At: early, Result: Compared, Containers: answerOf(early, share(90), share(0), none).Containers}, Watching, NotYetCompared},
		"an old answer":                    {late, answerOf(noon.Add(2*time.Minute), share(90), share(0), none), Accepted, NoData},
		"an answer of the future":          {early, answerOf(noon.Add(time.Hour), share(90), share(0), none), Watching, NotYetCompared},
		"no answer yet":                    {early, Throttling{}, Watching, NotYetCompared},
		"never an answer":                  {late, Throttling{}, Accepted, NoData},
		"Prometheus does not answer":       {early, Throttling{Query: ThrottlingQuery{Change: noon}, At: early, Result: NoAnswer}, Watching, NoAnswer},
		"Prometheus answers never":         {late, Throttling{Query: ThrottlingQuery{Change: noon}, At: late, Result: NoAnswer}, Accepted, NoAnswer},
		"Prometheus is not configured":     {early, Throttling{Result: NoPrometheus}, Watching, NoPrometheus},
		"Prometheus is never configured":   {late, Throttling{Result: NoPrometheus}, Accepted, NoPrometheus},
		"share above 1, of a faulty scrap": {early, answerOf(early, Periods{5000, 1000}, share(95), none), Watching, Compared},
	} {
		t.Run(name, func(t *testing.T) {
			pods := []*cluster.Pod{running("a", after, limited), running("b", before, limited)}
			got := watching().ObserveAll(c.now, cluster.Canary{On: true, Watch: watch}, pods, c.answer)
			if got.Phase != c.phase || got.Comparison != c.comparison {
				t.Errorf("phase %d, comparison %d, want %d, %d", got.Phase, got.Comparison, c.phase, c.comparison)
			}
			if isReverted := got.Cause == Throttled; isReverted != (c.phase == Held) {
				t.Errorf("cause %d", got.Cause)
			}
			if c.comparison > NoCPULimit != strings.Contains(got.Comparison.Text(), "CPU throttling is not compared") {
				t.Errorf("text %q", got.Comparison.Text())
			}
		})
	}
}

func TestState_throttlingRevert_textHasBothShares(t *testing.T) {
	now := noon.Add(5 * time.Minute)
	got := watching().ObserveAll(now, cluster.Canary{On: true, Watch: watch}, []*cluster.Pod{running("a", after, limited)}, answerOf(now, Periods{450, 1000}, Periods{30, 1000}, Periods{}))
	want := "the CPU of pod web-a, or of its replacement, was throttled in 45% of its periods, and in 3% before or in other pods"
	if got.Text() != want {
		t.Errorf("text %q, want %q", got.Text(), want)
	}
}

// An OOM kill is the stronger evidence, and is the cause that is reported.
func TestState_canaryIsOOMKilledAndThrottled_causeIsTheKill(t *testing.T) {
	now := noon.Add(5 * time.Minute)
	got := watching().ObserveAll(now, cluster.Canary{On: true, Watch: watch}, []*cluster.Pod{running("a", after, limited, killed)}, answerOf(now, Periods{450, 1000}, Periods{30, 1000}, Periods{}))
	if got.Phase != Held || got.Cause != OOMKilled {
		t.Errorf("state %+v", got)
	}
}

func TestState_noContainerHasACPULimit_isNotComparedAndNotAsked(t *testing.T) {
	now := noon.Add(5 * time.Minute)
	pods := []*cluster.Pod{running("a", after), running("b", before)}
	if _, asks := watching().Query(now, cluster.Canary{Watch: watch}, pods); asks {
		t.Error("asks although nothing can be throttled")
	}
	if got := watching().ObserveAll(now, cluster.Canary{On: true, Watch: watch}, pods, Throttling{Result: NoPrometheus}); got.Comparison != NoCPULimit || got.Comparison.Text() != "" {
		t.Errorf("state %+v", got)
	}
}

func TestThrottlingQuery_canary_selectsPodsThatAreReadyForTheWholeTime(t *testing.T) {
	readyAt := func(at time.Time) func(*cluster.Pod) { return func(p *cluster.Pod) { p.ReadySince = at } }
	now := noon.Add(6 * time.Minute)
	for name, c := range map[string]struct {
		state State
		now   time.Time
		watch time.Duration
		pods  []*cluster.Pod
		want  string
	}{
		"resized in place": {watching(), now, watch, []*cluster.Pod{running("a", after, limited), running("b", before, limited), running("c", before, limited)},
			"[web-a] since 0s, before web-a 10m0s, others [web-b web-c]"},
		"replaced, ready after a minute": {watching(), now, watch, []*cluster.Pod{running("n", after, limited, createdAt(noon)), running("b", before, limited)},
			"[web-n] since 1m0s, before web-a 10m0s, others [web-b]"},
		"another pod starts later": {watching(), now, watch, []*cluster.Pod{running("a", after, limited), running("n", after, limited, createdAt(noon.Add(time.Minute)))},
			"[web-a] since 0s, before web-a 10m0s, others []"},
		"other pods became ready later": {watching(), now, watch, []*cluster.Pod{running("a", after, limited), running("b", before, limited, readyAt(noon.Add(time.Second)))},
			"[web-a] since 0s, before web-a 10m0s, others []"},
		"long watch":               {watching(), now, 24 * time.Hour, []*cluster.Pod{running("a", after, limited)}, "[web-a] since 0s, before web-a 1h0m0s, others []"},
		"too early":                {watching(), noon.Add(119 * time.Second), watch, []*cluster.Pod{running("a", after, limited)}, "none"},
		"replacement is not ready": {watching(), now, watch, []*cluster.Pod{running("n", after, limited, createdAt(noon), notReady), running("b", before, limited)}, "none"},
		"not watched":              {starting(), now, watch, []*cluster.Pod{running("a", before, limited)}, "none"},
		"was down, no other pod":   {State{}.Start(noon, running("a", before, notReady), []Size{{Container: "app", Requests: after}}, false).Changed(), now, watch, []*cluster.Pod{running("a", after, limited)}, "none"},
		"was down, another pod": {State{}.Start(noon, running("a", before, notReady), []Size{{Container: "app", Requests: after}}, false).Changed(), now, watch,
			[]*cluster.Pod{running("a", after, limited), running("b", before, limited)}, "[web-a] since 0s, before  10m0s, others [web-b]"},
	} {
		t.Run(name, func(t *testing.T) {
			q, asks := c.state.Query(c.now, cluster.Canary{Watch: c.watch}, c.pods)
			got := "none"
			if asks {
				got = fmt.Sprintf("%v since %v, before %s %v, others %v", q.Canaries, q.Since.Sub(noon), q.Changed, q.Before, q.Others)
			}
			if got != c.want {
				t.Errorf("query %q, want %q", got, c.want)
			}
		})
	}
}

// While an objective holds a canary for weeks, the queries must not read weeks. The time of the queries of a workload is limited, so they would take that of the
// objective, too.
func TestThrottlingQuery_objectiveMissedForWeeks_readsAtMostTheDurationOrAnHour(t *testing.T) {
	for duration, want := range map[time.Duration]time.Duration{watch: time.Hour, 24 * time.Hour: 24 * time.Hour} {
		now := noon.Add(30 * 24 * time.Hour)
		q, asks := watching().Query(now, cluster.Canary{Watch: duration, Objective: objective().Objective}, []*cluster.Pod{running("a", after, limited), running("b", before, limited)})
		if got := now.Sub(q.Since); !asks || got != want || !q.Change.Equal(noon) || len(q.Canaries) != 1 || len(q.Others) != 1 {
			t.Errorf("duration %v: reads %v, want %v: %+v", duration, got, want, q)
		}
	}
}

func TestThrottlingQuery_thousandPods_isBounded(t *testing.T) {
	pods := []*cluster.Pod{running("a", after, limited)}
	for i := range 1000 {
		pods = append(pods, running(fmt.Sprintf("old-%d", i), before, limited), running(fmt.Sprintf("new-%d", i), after, limited, createdAt(noon)))
	}
	q, asks := watching().Query(noon.Add(9*time.Minute), cluster.Canary{Watch: watch}, pods)
	if !asks || len(q.Canaries) > MaxComparedPods || len(q.Others) > MaxComparedPods || !slices.IsSorted(q.Others) {
		t.Errorf("%d canaries, %d others", len(q.Canaries), len(q.Others))
	}
}

// objective returns settings of a canary whose error rate must be below 1 %.
func objective() cluster.Canary {
	return cluster.Canary{On: true, Watch: watch, Objective: cluster.Objective{Query: "errors < 0.01", Operator: "<", Limit: 0.01, Span: 5 * time.Minute}}
}

// reading returns an answer about the objective of the canary.
func reading(at time.Time, values int, value float64) Throttling {
	return Throttling{Query: ThrottlingQuery{Change: noon, Objective: objective().Objective}, At: at, Objective: Reading{Values: values, Value: value}}
}

func TestState_objective_holdsTheCanaryUntilItIsKeptAndNeverReverts(t *testing.T) {
	late := noon.Add(12 * time.Minute)
	of := func(change func(*Throttling)) Throttling {
		r := reading(late, 1, 0)
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		answer Throttling
		missed string // "": the canary is accepted
		value  string
	}{
		"kept":          {reading(late, 1, 0.005), "", ""},
		"not kept":      {reading(late, 1, 0.02), "its value is not < 0.01", "Its last value was 0.02."},
		"just not kept": {reading(late, 1, 0.01), "its value is not < 0.01", "Its last value was 0.01."},
		"hardly not":    {reading(late, 1, 0.010000001), "its value is not < 0.01", "Its last value was 0.010000001."}, // a rounded value would hold for <=
		"no value":      {reading(late, 0, 0), "it has no value", ""},
		"two values":    {reading(late, 2, 0), "it has more than one value", ""},
		"NaN":           {reading(late, 1, math.NaN()), "its value is not a number", "Its last value was NaN."},
		"infinite":      {reading(late, 1, math.Inf(-1)), "its value is not a number", "Its last value was -Inf."},
		"no answer yet": {Throttling{}, "no recent value after the change is known", ""},
		"an error":      {of(func(a *Throttling) { a.Objective = Reading{Failed: true} }), "Prometheus gives no usable answer to it", ""},
		"the query cannot be executed": {of(func(a *Throttling) { a.Objective = Reading{Refused: "execution: many-to-many matching"} }),
			"Prometheus does not execute it", "Prometheus answers: execution: many-to-many matching."},
		"no Prometheus":               {Throttling{Result: NoPrometheus}, "the updater has no address of Prometheus", ""},
		"old":                         {reading(noon.Add(7*time.Minute), 1, 0), "no recent value after the change is known", ""},
		"it reads before the change":  {of(func(a *Throttling) { a.At = noon.Add(4 * time.Minute) }), "no recent value after the change is known", ""},
		"of another change":           {of(func(a *Throttling) { a.Query.Change = noon.Add(-time.Hour) }), "no recent value after the change is known", ""},
		"of an earlier query":         {of(func(a *Throttling) { a.Query.Objective.Limit = 0.5 }), "no recent value after the change is known", ""},
		"only throttling was read":    {of(func(a *Throttling) { a.Query.Objective = cluster.Objective{} }), "no recent value after the change is known", ""},
		"throttling was not compared": {of(func(a *Throttling) { a.Result = NoAnswer }), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := watching()
			s.Reverts = 3
			got := s.ObserveAll(late, objective(), []*cluster.Pod{running("a", after), running("b", before)}, c.answer)
			want := Watching
			if c.missed == "" {
				want = Accepted
			}
			if got.Phase != want || got.Missed != c.missed || got.Detail != c.value || got.Cause != NoCause {
				t.Errorf("state %+v", got)
			}
			if reverts := got.Reverts; (reverts == 0) != (want == Accepted) {
				t.Errorf("%d reverts in a row", reverts)
			}
		})
	}
}

// A short duration ends soon after the replacement is ready. An answer about the time before is about the other pods.
func TestState_objective_answerFromBeforeTheCanaryWasReadyIsNoEvidence(t *testing.T) {
	c := objective()
	c.Watch = time.Minute
	pods := []*cluster.Pod{running("n", after, createdAt(noon.Add(9*time.Minute))), running("b", before)} // ready a minute later
	for at, want := range map[time.Duration]Phase{10 * time.Minute: Watching, 14 * time.Minute: Watching, 15 * time.Minute: Accepted} {
		got := watching().ObserveAll(noon.Add(at), c, pods, reading(noon.Add(at), 1, 0))
		if at == 10*time.Minute { // one that is old, and counts still
			got = watching().ObserveAll(noon.Add(12*time.Minute), c, pods, reading(noon.Add(at), 1, 0))
		}
		if got.Phase != want || want == Watching && got.Missed != NotKnownYet {
			t.Errorf("answer after %v: %+v", at, got)
		}
	}
}

func TestState_objectiveMissed_restEndsTheWait(t *testing.T) {
	late := noon.Add(12 * time.Minute)
	pods := func(change ...func(*cluster.Pod)) []*cluster.Pod {
		return []*cluster.Pod{running("a", after, change...), running("b", before)}
	}
	held := watching().ObserveAll(late, objective(), pods(), reading(late, 1, 0.5))
	invalid := objective()
	invalid.Objective.Operator = ""
	removed := objective()
	removed.Objective = cluster.Objective{}
	late = late.Add(time.Hour)
	for name, c := range map[string]struct {
		canary cluster.Canary
		pods   []*cluster.Pod
		want   Phase
		missed string
	}{
		"is OOM-killed":         {objective(), pods(killed), Held, ""},
		"the query is removed":  {removed, pods(), Accepted, ""},
		"the query is invalid":  {invalid, pods(), Watching, "the annotation is invalid"},
		"the canary is gone":    {objective(), []*cluster.Pod{running("b", before)}, Idle, ""},
		"it is kept in the end": {objective(), pods(), Accepted, ""},
	} {
		got := held.ObserveAll(late, c.canary, c.pods, reading(late, 1, 0))
		if got.Phase != c.want || got.Missed != c.missed {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, asks := held.Query(late, invalid, pods()); asks {
		t.Error("an invalid query is sent")
	}
}

// The time of the canary has ended long ago: only the query holds it. A pod that is not ready for a moment is no evidence against the size any more.
func TestState_objectiveMissed_shortTimeWithoutReadinessRevertsNothing(t *testing.T) {
	late := noon.Add(5 * time.Hour)
	for name, c := range map[string]struct {
		since time.Duration // for how long the canary has not been ready
		want  Phase
	}{
		"a moment":              {30 * time.Second, Watching},
		"the time of a canary":  {watch, Held},
		"since the end":         {late.Sub(noon.Add(watch)), Held},
		"it was never ready":    {late.Sub(noon) - time.Second, Held},
		"soon after the end":    {late.Sub(noon.Add(watch + time.Minute)), Held},
		"it fails now for long": {time.Hour, Held},
	} {
		held := watching().ObserveAll(late.Add(-time.Hour), objective(), []*cluster.Pod{running("a", after)}, reading(late.Add(-time.Hour), 1, 0.5))
		got := held.ObserveAll(late, objective(), []*cluster.Pod{running("a", after, notReady, func(p *cluster.Pod) { p.ReadySince = late.Add(-c.since) })}, reading(late, 1, 0.5))
		if got.Phase != c.want || got.Phase == Held && got.Cause != NotReady {
			t.Errorf("%s: phase %d, cause %d, want %d", name, got.Phase, got.Cause, c.want)
		}
	}
}

// What was before the change is no evidence.
func TestQuery_objective_isAskedWhenItReadsOnlyWhatIsAfterTheChange(t *testing.T) {
	pods := []*cluster.Pod{running("a", after), running("b", before)} // without CPU limits, so throttling is not asked about
	for minutes, want := range map[time.Duration]bool{4: false, 5: true, 60: true} {
		q, asks := watching().Query(noon.Add(minutes*time.Minute), objective(), pods)
		if asks != want || asks && (q.Objective != objective().Objective || !q.Change.Equal(noon) || len(q.Canaries) > 0) {
			t.Errorf("after %d minutes: %t, %+v", minutes, asks, q)
		}
	}
	replaced := []*cluster.Pod{running("n", after, createdAt(noon.Add(3*time.Minute))), running("b", before)} // ready a minute later
	for minutes, want := range map[time.Duration]bool{5: false, 8: false, 9: true} {
		if _, asks := watching().Query(noon.Add(minutes*time.Minute), objective(), replaced); asks != want {
			t.Errorf("the replacement is ready after 4 minutes, and after %d: %t", minutes, asks)
		}
	}
	if _, asks := watching().Query(noon.Add(time.Hour), objective(), []*cluster.Pod{running("a", after, notReady), running("b", before)}); asks {
		t.Error("asks although no canary is ready")
	}
	accepted := watching()
	accepted.Phase = Accepted
	if _, asks := accepted.Query(noon.Add(time.Hour), objective(), pods); asks {
		t.Error("asks about an accepted canary")
	}
}
