// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"podfit.dev/podfit/internal/core/cluster"
)

// every is the set of all values of a field.
const every = 1<<60 - 1

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func at(t *testing.T, s string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// daily returns a window that starts every day at a time.
func daily(z *time.Location, hour, minute int, d time.Duration) cluster.ChangeWindow {
	return cluster.ChangeWindow{
		Minutes: 1 << minute, Hours: 1 << hour, Days: every, Months: every, Weekdays: every, AnyDay: true, AnyWeekday: true, Duration: d, Zone: z,
	}
}

func TestOutside_daylightSavingAndLeapYears_followLocalTime(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	night := daily(berlin, 22, 0, 4*time.Hour)
	workdays := night
	workdays.Weekdays, workdays.AnyWeekday = 1<<1|1<<2|1<<3|1<<4|1<<5, false
	inGap := daily(berlin, 2, 30, time.Hour)
	leap := daily(time.UTC, 0, 0, time.Hour)
	leap.Days, leap.AnyDay, leap.Months = 1<<29, false, 1<<2
	dayOrWeekday := daily(time.UTC, 0, 0, time.Hour)
	dayOrWeekday.Days, dayOrWeekday.Weekdays, dayOrWeekday.AnyDay, dayOrWeekday.AnyWeekday = 1<<13, 1<<5, false, false
	never := leap
	never.Days = 1 << 30
	long := daily(time.UTC, 0, 0, 3*24*time.Hour)
	long.Days, long.AnyDay = 1<<1, false
	for name, c := range map[string]struct {
		now  string
		list []cluster.ChangeWindow
		open bool
		next string
	}{
		"before the start":                {"2026-03-02T20:59:59Z", []cluster.ChangeWindow{night}, false, "2026-03-02T21:00:00Z"},
		"at the start":                    {"2026-03-02T21:00:00Z", []cluster.ChangeWindow{night}, true, ""},
		"after midnight":                  {"2026-03-03T00:59:59Z", []cluster.ChangeWindow{night}, true, ""},
		"at the end":                      {"2026-03-03T01:00:00Z", []cluster.ChangeWindow{night}, false, "2026-03-03T21:00:00Z"},
		"summer time":                     {"2026-07-01T20:00:00Z", []cluster.ChangeWindow{night}, true, ""},
		"Saturday after Friday's window":  {"2026-03-07T01:00:00Z", []cluster.ChangeWindow{workdays}, false, "2026-03-09T21:00:00Z"},
		"start in the skipped hour":       {"2026-03-29T00:59:00Z", []cluster.ChangeWindow{inGap}, false, "2026-03-29T01:00:00Z"},
		"open after the skipped hour":     {"2026-03-29T01:59:00Z", []cluster.ChangeWindow{inGap}, true, ""},
		"closed after the skipped hour":   {"2026-03-29T02:00:00Z", []cluster.ChangeWindow{inGap}, false, "2026-03-30T00:30:00Z"},
		"first pass of the repeated hour": {"2026-10-25T00:30:00Z", []cluster.ChangeWindow{inGap}, true, ""},
		"second pass, an hour later":      {"2026-10-25T01:30:00Z", []cluster.ChangeWindow{inGap}, false, "2026-10-26T01:30:00Z"},
		"leap day":                        {"2026-03-01T00:00:00Z", []cluster.ChangeWindow{leap}, false, "2028-02-29T00:00:00Z"},
		"leap day across 2100":            {"2097-03-01T00:00:00Z", []cluster.ChangeWindow{leap}, false, "2104-02-29T00:00:00Z"},
		"day of month or weekday, day":    {"2026-04-13T00:30:00Z", []cluster.ChangeWindow{dayOrWeekday}, true, ""},
		"day of month or weekday, Friday": {"2026-04-17T00:30:00Z", []cluster.ChangeWindow{dayOrWeekday}, true, ""},
		"day of month or weekday, other":  {"2026-04-14T00:30:00Z", []cluster.ChangeWindow{dayOrWeekday}, false, "2026-04-17T00:00:00Z"},
		"never":                           {"2026-04-14T00:30:00Z", []cluster.ChangeWindow{never}, false, ""},
		"longer than a day":               {"2026-04-03T23:59:00Z", []cluster.ChangeWindow{long}, true, ""},
		"after longer than a day":         {"2026-04-04T00:00:00Z", []cluster.ChangeWindow{long}, false, "2026-05-01T00:00:00Z"},
		"overlapping, second is open":     {"2026-03-03T01:30:00Z", []cluster.ChangeWindow{night, daily(berlin, 1, 0, 2*time.Hour)}, true, ""},
		"two closed, the next one counts": {"2026-03-03T12:00:00Z", []cluster.ChangeWindow{night, daily(berlin, 14, 0, time.Hour)}, false, "2026-03-03T13:00:00Z"},
		"no windows":                      {"2026-03-03T12:00:00Z", nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &cluster.Autoscaler{Rules: cluster.ChangeRules{Windows: c.list}}
			closed, outside := Outside(at(t, c.now), Rules{Autoscaler: a})
			var next time.Time
			if c.next != "" {
				next = at(t, c.next)
			}
			if outside == c.open || !closed.Until.Equal(next) {
				t.Errorf("outside %t until %v, want open %t, next %v", outside, closed.Until.UTC(), c.open, next)
			}
		})
	}
}

// The decision depends only on the time, so a clock that jumps has no lasting effect.
func TestOutside_clockJumps_decidesByTheCurrentTime(t *testing.T) {
	a := &cluster.Autoscaler{Rules: cluster.ChangeRules{Windows: []cluster.ChangeWindow{daily(time.UTC, 22, 0, time.Hour)}}}
	for _, c := range []struct {
		now     string
		outside bool
	}{{"2026-03-02T22:30:00Z", false}, {"2036-03-02T12:00:00Z", true}, {"1970-01-01T00:00:00Z", true}, {"2026-03-02T22:30:01Z", false}} {
		if _, outside := Outside(at(t, c.now), Rules{Autoscaler: a}); outside != c.outside {
			t.Errorf("%s: outside %t", c.now, outside)
		}
	}
}

func TestOutside_rulesOfNamespaceAndAutoscaler_thoseOfTheAutoscalerApply(t *testing.T) {
	now := at(t, "2026-03-02T22:30:00Z")
	open := cluster.ChangeRules{Windows: []cluster.ChangeWindow{daily(time.UTC, 22, 0, time.Hour)}}
	closed := cluster.ChangeRules{Windows: []cluster.ChangeWindow{daily(time.UTC, 12, 0, time.Hour)}}
	broken := cluster.ChangeRules{WindowProblem: "unknown zone"}
	for name, c := range map[string]struct {
		own, namespace cluster.ChangeRules
		outside        bool
		problem        string
	}{
		"own windows replace those of the namespace": {open, closed, false, ""},
		"windows of the namespace":                   {cluster.ChangeRules{}, closed, true, ""},
		"invalid windows allow nothing":              {broken, open, true, "unknown zone"},
		"invalid windows of the namespace":           {cluster.ChangeRules{}, broken, true, "unknown zone"},
		"own windows replace invalid ones":           {open, broken, false, ""},
		"none":                                       {cluster.ChangeRules{}, cluster.ChangeRules{}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, outside := Outside(now, Rules{Autoscaler: &cluster.Autoscaler{Rules: c.own}, Namespace: c.namespace})
			if outside != c.outside || got.Problem != c.problem {
				t.Errorf("outside %t, problem %q", outside, got.Problem)
			}
		})
	}
}

func TestFrozen_severalSwitches_namesTheWidest(t *testing.T) {
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}}
	frozen := &cluster.Autoscaler{Key: a.Key, Rules: cluster.ChangeRules{Frozen: true}}
	on := cluster.Freeze{On: true, By: cluster.Key{Namespace: "kube-system", Name: "podfit-freeze"}, Reason: "incident 7"}
	for name, c := range map[string]struct {
		rules Rules
		want  string
	}{
		"none":       {Rules{Autoscaler: a}, ""},
		"autoscaler": {Rules{Autoscaler: frozen}, "annotation podfit.dev/freeze of VPA shop/web"},
		"namespace":  {Rules{Autoscaler: frozen, Namespace: cluster.ChangeRules{Frozen: true}}, "annotation podfit.dev/freeze of namespace shop"},
		"cluster":    {Rules{Autoscaler: frozen, Namespace: cluster.ChangeRules{Frozen: true}, Cluster: on}, "ConfigMap kube-system/podfit-freeze (incident 7)"},
		"no reason":  {Rules{Autoscaler: a, Cluster: cluster.Freeze{On: true, By: on.By}}, "ConfigMap kube-system/podfit-freeze"},
	} {
		t.Run(name, func(t *testing.T) {
			by, is := Frozen(c.rules)
			if by != c.want || is != (c.want != "") {
				t.Errorf("frozen %t by %q, want %q", is, by, c.want)
			}
		})
	}
}

// The days of months without a start are not searched one by one: the next start may be eight years ahead.
func TestNext_fewMonths_isTheSameAsDayByDay(t *testing.T) {
	for month := 1; month <= 12; month++ {
		for _, day := range []int{1, 28, 29, 30, 31} {
			w := daily(time.UTC, 23, 30, time.Hour)
			w.Months, w.Days, w.AnyDay = 1<<month, 1<<day, false
			for _, now := range []time.Time{at(t, "2095-12-31T23:30:00Z"), at(t, "2026-02-28T23:29:59Z"), at(t, "2026-01-31T00:00:00Z"), at(t, "2028-02-29T23:30:00Z")} {
				var want time.Time
				for ahead := 0; ahead < horizon && want.IsZero(); ahead++ {
					start := time.Date(now.Year(), now.Month(), now.Day()+ahead, 23, 30, 0, 0, time.UTC)
					if int(start.Month()) == month && start.Day() == day && start.After(now) {
						want = start
					}
				}
				if got, found := Next(now, &w); !got.Equal(want) || found == want.IsZero() {
					t.Errorf("%d-%d after %v: %v, want %v", month, day, now, got, want)
				}
			}
		}
	}
}

// The search for the next window may take a millisecond, and a workload may have thousands of pods.
func TestWindows_autoscalerIsAskedAbout_windowsAreSearchedOnce(t *testing.T) {
	now := at(t, "2026-03-02T12:00:00Z")
	w := Windows{Now: now}
	rules := Rules{Autoscaler: &cluster.Autoscaler{Rules: cluster.ChangeRules{Windows: []cluster.ChangeWindow{daily(time.UTC, 22, 0, time.Hour)}}}}
	for range 2 {
		if closed, outside := w.Outside(rules); !outside || !closed.Until.Equal(now.Add(10*time.Hour)) {
			t.Errorf("outside: %t, until %v", outside, closed.Until)
		}
		rules.Autoscaler.Rules.Windows = nil // a second search would find that no window is needed
	}
	if _, outside := w.Outside(Rules{Autoscaler: &cluster.Autoscaler{Key: cluster.Key{Name: "other"}}}); outside {
		t.Error("the result for one autoscaler is used for another one")
	}
}

func BenchmarkNext_leapDay(b *testing.B) {
	w := cluster.ChangeWindow{Minutes: 1, Hours: 1, Days: 1 << 29, Months: 1 << 2, Weekdays: every, AnyWeekday: true, Duration: time.Hour, Zone: time.UTC}
	now := time.Date(2096, time.March, 1, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		if _, found := Next(now, &w); !found {
			b.Fatal("no start")
		}
	}
}
