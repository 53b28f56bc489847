// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// logOf returns a log of runs of a minute each, an hour apart, that used so many bytes. All have ended.
func logOf(bytes ...int64) *Log {
	l := new(Log)
	for i, b := range bytes {
		at := int64(1_700_000_000 + 3600*i)
		r := l.Of(uint64(i+1), at, false)
		r.Observe(at+30, b, b)
		r.Bound(at, at+60)
	}
	return l
}

var later = time.Unix(1_800_000_000, 0)

func TestPercentile_runs_shareOfThemStaysAtOrBelow(t *testing.T) {
	var many []int64
	for i := range 40 {
		many = append(many, int64(100-i)) // the first ten are displaced
	}
	for name, c := range map[string]struct {
		log      *Log
		share    float64
		want     int64
		measured int
	}{
		"none":                       {nil, 0.95, 0, 0},
		"three":                      {logOf(5, 9, 7), 0.95, 9, 3},
		"not measured do not count":  {logOf(5, 0, 7), 0.95, 7, 2},
		"nineteen: the highest":      {logOf(many[21:]...), 0.95, 79, 19},
		"twenty: the second highest": {logOf(many[20:]...), 0.95, 79, 20},
		"the last thirty":            {logOf(many...), 0.95, 89, Most},
		"median":                     {logOf(1, 2, 3, 4), 0.5, 2, 4},
	} {
		for _, res := range cluster.All {
			if got, n := c.log.Percentile(res, c.share, later); got != c.want || n != c.measured {
				t.Errorf("%s: %s %d of %d runs, want %d of %d", name, res, got, n, c.want, c.measured)
			}
		}
	}
}

// The present usage of a run may be far from its highest.
func TestPercentile_runGoesOn_doesNotCountYet(t *testing.T) {
	l := logOf(5, 9, 7)
	at := int64(1_700_100_000)
	l.Of(99, at, false).Observe(at+30, 50, 50)
	if got, n := l.Percentile(cluster.Memory, 1, time.Unix(at+60, 0)); got != 9 || n != 3 {
		t.Errorf("%d of %d runs, want 9 of 3", got, n)
	}
	if got, n := l.Percentile(cluster.Memory, 1, time.Unix(at+31+silent, 0)); got != 50 || n != 4 {
		t.Errorf("after a silence: %d of %d runs, want 50 of 4", got, n)
	}
}

// A Job has 100 pods at a time: those that are kept are followed to their end.
func TestOf_moreRunsAtOnceThanAreKept_noneIsDisplaced(t *testing.T) {
	l := new(Log)
	at := int64(1_700_000_000)
	for minute := range int64(20) {
		for pod := range uint64(100) {
			if r := l.Of(pod, at+60*minute, false); r != nil {
				r.Observe(at+60*minute, 100+minute, 100+minute)
			}
		}
	}
	if len(l.All()) != Most {
		t.Fatalf("%d runs, want %d", len(l.All()), Most)
	}
	for _, r := range l.All() {
		if r.Length() != 19*time.Minute || r.Memory != 119 {
			t.Errorf("run %+v, want one of 19 minutes", r)
		}
	}
}

// The pods of old Jobs may exist for weeks. Their status is seen again in each pass.
func TestOf_podsOfOldRunsStillExist_newerRunsStay(t *testing.T) {
	l := logOf(make([]int64, 50)...)
	before := l.Encode()
	for range 3 {
		for i := range 50 {
			at := int64(1_700_000_000 + 3600*i)
			if r := l.Of(uint64(i+1), at, true); r != nil {
				r.Bound(at, at+60)
			}
		}
	}
	if !bytes.Equal(before, l.Encode()) {
		t.Error("old runs have displaced newer ones")
	}
}

// Runs of a few seconds have no sample, and there may be many of them.
func TestOf_manyRunsAreNotMeasured_measuredOnesStay(t *testing.T) {
	l := logOf(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	for i := range int64(3 * Most) {
		at := 1_700_100_000 + 10*i
		if r := l.Of(uint64(1000+i), at, i%2 == 0); r != nil {
			r.Bound(at, at+5)
		}
	}
	if used, n := l.Percentile(cluster.CPU, 1, later); used != 10 || n != 10 {
		t.Errorf("%d of %d measured runs, want 10 of 10", used, n)
	}
	full := logOf(make([]int64, 1)...)
	for i := range int64(Most + 10) {
		full.Of(uint64(100+i), 1_700_200_000+i, false).Observe(1_700_200_000+i, 1, 1)
		full.Of(uint64(100+i), 1_700_200_000+i, false).Bound(0, 1_700_200_001+i)
	}
	for i := range uint64(10) { // the pods of the first ones still exist
		if full.Of(100+i, 1_700_300_000, true) != nil {
			t.Error("a run that is not measured takes the place of one that is")
		}
	}
}

func TestOf_manyPodsRunAtOnce_halfOfTheMeasuredRunsStay(t *testing.T) {
	l := logOf(slices.Repeat([]int64{7}, Most)...)
	for i := range int64(3 * Most) {
		l.Of(uint64(1000+i), 1_700_200_000, false)
	}
	if _, n := l.Percentile(cluster.Memory, 1, time.Unix(1_700_200_030, 0)); n < Most/2 {
		t.Errorf("%d measured runs are left of %d", n, Most)
	}
}

func TestMerge_newerRunsWereNotMeasured_measuredOnesStay(t *testing.T) {
	newer := new(Log)
	for i := range int64(Most) {
		newer.Of(uint64(1000+i), 1_700_200_000+100*i, true).Bound(0, 1_700_200_005+100*i)
	}
	if _, n := newer.Merge(logOf(1, 2, 3, 4, 5)).Percentile(cluster.Memory, 1, later); n != 5 {
		t.Errorf("%d measured runs are left of 5", n)
	}
}

func TestBound_containerIsRestarted_runGoesOnFromItsFirstStart(t *testing.T) {
	l := new(Log)
	at := int64(1_700_000_000)
	r := l.Of(1, at+20, false)
	r.Bound(at, 0)
	r.Bound(at, at+60) // ended with an error
	if !r.Ended || r.Length() != time.Minute {
		t.Errorf("run %+v, want one of a minute that has ended", r)
	}
	r.Bound(at+70, 0)
	r.Observe(at+100, 1, 1)
	if r.Ended || r.Length() != 100*time.Second {
		t.Errorf("run %+v, want one of 100 seconds that goes on", r)
	}
}

func TestMerge_logsOverlap_eachRunCountsOnce(t *testing.T) {
	a, b := logOf(5, 9, 7), logOf(6, 1, 8, 20)
	merged := a.Merge(b)
	if got, n := merged.Percentile(cluster.Memory, 1, later); got != 20 || n != 4 {
		t.Errorf("%d of %d runs, want 20 of 4", got, n)
	}
	if got, _ := merged.Percentile(cluster.Memory, 0.25, later); got != 6 {
		t.Errorf("the lowest maximum is %d, want 6", got)
	}
	if a.Merge(nil) != a || (*Log)(nil).Merge(a).Encode() == nil {
		t.Error("an empty log changes the other one")
	}
	if n := len(logOf(make([]int64, Most)...).Merge(logOf(make([]int64, 2*Most)...)).All()); n != Most {
		t.Errorf("%d runs, want %d", n, Most)
	}
}

func TestEncode_fullLog_isSmallAndReadAgain(t *testing.T) {
	l := new(Log)
	for i := range Most {
		at := int64(1_700_000_000 + 3600*i)
		r := l.Of(uint64(i)<<40, at, false)
		r.Observe(at, 128_000, 1<<40)
		r.Bound(at, at+86400)
	}
	data := l.Encode()
	if len(data) > 900 {
		t.Errorf("%d bytes, want at most 900", len(data))
	}
	decoded, err := Decode(data)
	if err != nil || !bytes.Equal(decoded.Encode(), data) {
		t.Errorf("decoded %+v, error %v", decoded, err)
	}
	for n := range data {
		if d, err := Decode(data[:n]); err == nil && n > 0 || n == 0 && d != nil {
			t.Fatalf("the first %d bytes are a log", n)
		}
	}
	if p := decoded.Present(time.Unix(1_700_000_000, 0)); p.All()[Most-1].Last > 1_700_000_000 {
		t.Error("a run is in the future")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(logOf(1, 2, 3).Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Decode(data)
		if err != nil {
			return
		}
		if again, err := Decode(l.Encode()); err != nil || !bytes.Equal(again.Encode(), l.Encode()) {
			t.Errorf("%+v, error %v", again, err)
		}
		_, _ = l.Present(later).Percentile(cluster.CPU, 0.95, later)
	})
}

// Stored runs of init containers are told from those of Jobs, also before the first pod is seen after a restart.
func TestEncode_logOfAnInitContainer_isReadAsOne(t *testing.T) {
	for _, init := range []bool{false, true} {
		l := logOf(5, 9, 7)
		l.init = init
		read, err := Decode(l.Encode())
		if err != nil || read.IsInit() != init || len(read.All()) != 3 {
			t.Errorf("init %t: read %+v, error %v", init, read, err)
		}
		if merged := (*Log)(nil).Merge(read); merged.IsInit() != init {
			t.Errorf("init %t: merged into nothing, it is %t", init, merged.IsInit())
		}
	}
}

// A kubelet is read again and again. The mean CPU of the last reading counts until there is a sample, and the highest memory.
func TestRead_readingsOfARun_lastMeanAndHighestMemoryCount(t *testing.T) {
	const at = 1_700_000_000
	var r Run
	check := func(what string, want Run) {
		t.Helper()
		got := r
		got.read = 0
		if got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	r.Read(at+2, 900, 50)
	check("first", Run{Last: at + 2, CPU: 900, Memory: 50})
	r.Read(at+2, 900, 50)
	check("the same again", Run{Last: at + 2, CPU: 900, Memory: 50})
	r.Bound(at, at+10)
	r.Read(at+9, 300, 40)
	check("second, of a run that has ended", Run{Started: 0, Last: at + 10, Ended: true, CPU: 300, Memory: 50})
	r.Read(at+11, 0, 60)
	check("without CPU", Run{Last: at + 11, Ended: true, CPU: 300, Memory: 60})
	r.Observe(at+15, 200, 30)
	check("a sample", Run{Last: at + 15, Ended: true, CPU: 200, Memory: 60})
	r.Read(at+20, 800, 70)
	check("after a sample", Run{Last: at + 20, Ended: true, CPU: 200, Memory: 70})
}
