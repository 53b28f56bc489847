// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package changelog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
)

func change(at, to int64, cause Cause) Change {
	return Change{At: at, To: to, Resource: cluster.CPU, Cause: cause}
}

// Gradual changes within an hour are one; a change with another cause, or an hour later, is another one.
func TestWith_gradualChanges_areMergedWithinAnHour(t *testing.T) {
	var none *Log
	log := none.By(7).With(change(100, 50, First), Most).With(change(200, 60, Usage), Most)
	before := log
	log = log.With(change(900, 70, Usage), Most).With(change(1000, 65, Decay), Most).With(change(4700, 60, Decay), Most)
	want := []Change{change(100, 50, First), change(200, 70, Usage), change(1000, 65, Decay), change(4700, 60, Decay)}
	if diff := cmp.Diff(want, log.Changes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if before.Changes[1].To != 60 {
		t.Error("an earlier log has changed")
	}
	if got := log.Before(2); got != 70 {
		t.Errorf("the target before a change is %d, want 70", got)
	}
	if got := log.Before(0); got != 0 {
		t.Errorf("the target before the first change is %d, want none", got)
	}
	if last := log.Last(cluster.Memory); last != nil {
		t.Errorf("a change of memory is %v", last)
	}
}

// Kills are never merged, because each one counts. The oldest changes go first, and times never go backwards.
func TestWith_manyChanges_keepsTheLast(t *testing.T) {
	log := new(Log)
	for i := range int64(50) {
		log = log.With(change(1000-i, i, Kill), 4)
	}
	if len(log.Changes) != 4 || log.Changes[3].To != 49 {
		t.Errorf("changes %v, want the last 4", log.Changes)
	}
	for _, c := range log.Changes {
		if c.At != 1000 {
			t.Errorf("time %d of a change, want that of the one before", c.At)
		}
	}
}

// Many changes of one resource do not displace the last one of the other: it would be "first on record" again, and the log would be written in
// each pass.
func TestObserve_oneResourceChangesOften_theOtherKeepsItsLastChange(t *testing.T) {
	var log *Log
	now := time.Unix(1e9, 0)
	for i := range int64(100) {
		now = now.Add(2 * time.Hour)
		s := &Situation{Now: now, After: &cluster.Advice{Estimate: cluster.Estimate{Target: cluster.Amounts(100+i, 1<<30)}}, Limit: 4}
		log = log.Observe(s)
		if again := log.Observe(s); again != log {
			t.Fatalf("the same recommendation changes the log: %v", again.Changes)
		}
	}
	if n := len(log.Changes); n != 4 || log.Changes[0].Resource != cluster.Memory || log.Changes[0].At != 1e9+7200 {
		t.Errorf("changes %v, want the first of memory and the last three of CPU", log.Changes)
	}
}

// A clock that was ahead must not hold up later changes, and no change may be in the future.
func TestUntil_changesFromTheFuture_areNow(t *testing.T) {
	log := new(Log).With(change(100, 1, First), Most).With(change(9_000_000, 2, Usage), Most)
	now := time.Unix(5000, 0)
	got := log.Until(now)
	if got.Changes[0].At != 100 || got.Changes[1].At != 5000 || log.Changes[1].At != 9_000_000 {
		t.Errorf("changes %v of %v", got.Changes, log.Changes)
	}
	if got.Until(now) != got || (*Log)(nil).Until(now) != nil {
		t.Error("a log without changes from the future is another one")
	}
}

func TestBy_otherSettings_keepsChanges(t *testing.T) {
	log := new(Log).By(1).With(change(1, 2, First), Most)
	if log.By(1) != log {
		t.Error("the same settings make another log")
	}
	if other := log.By(2); other.Settings != 2 || len(other.Changes) != 1 || log.Settings != 1 {
		t.Errorf("other settings: %v", other)
	}
}

func TestDecode_whatEncodeWrites_isTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := &Log{Settings: rapid.Uint64().Draw(t, "settings")}
		at := int64(0)
		for range rapid.IntRange(1, Most).Draw(t, "changes") {
			at += rapid.Int64Range(0, 1e7).Draw(t, "later")
			log.Changes = append(log.Changes, Change{
				At: at, To: rapid.Int64Range(0, maxAmount).Draw(t, "to"), Resource: rapid.SampledFrom(cluster.All[:]).Draw(t, "resource"),
				Cause: Cause(rapid.IntRange(0, int(Bounds)).Draw(t, "cause")),
			})
		}
		data := log.Encode()
		if len(data) > 500 {
			t.Errorf("%d bytes", len(data))
		}
		got, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(log, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestDecode_anyData_isCheckedAndDoesNotPanic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log, err := Decode(rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "data"))
		if err != nil || log == nil {
			return
		}
		for i := range log.Changes {
			_ = log.Changes[i].Cause.String()
			if c := &log.Changes[i]; c.Resource != cluster.CPU && c.Resource != cluster.Memory {
				t.Errorf("change of resource %d", c.Resource)
			}
		}
	})
}

func TestEncode_nothing_isNoData(t *testing.T) {
	var none *Log
	if none.Encode() != nil || new(Log).Encode() != nil {
		t.Error("an empty log has data")
	}
	if log, err := Decode(nil); log != nil || err != nil {
		t.Errorf("no data is %v, %v", log, err)
	}
}
