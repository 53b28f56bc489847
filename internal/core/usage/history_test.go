// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// diary is an extension that records the times of its samples, in seconds after noon.
type diary struct {
	stateless
	seconds []int
}

func (d *diary) Observe(s Sample, _ cluster.Set) {
	d.seconds = append(d.seconds, int(s.At.Sub(noon)/time.Second))
}
func (d *diary) ObserveOOM(OOM, int64) {}
func (d *diary) AppendBinary(b []byte) ([]byte, error) {
	for _, s := range d.seconds {
		b = binary.BigEndian.AppendUint16(b, uint16(s))
	}
	return b, nil
}
func (d *diary) UnmarshalBinary(data []byte) error {
	if len(data)%2 != 0 {
		return errors.New("a second is cut off")
	}
	d.seconds = nil
	for ; len(data) > 0; data = data[2:] {
		d.seconds = append(d.seconds, int(binary.BigEndian.Uint16(data)))
	}
	return nil
}
func (d *diary) Form() string { return "diary" }

func newDiary() Extension { return new(diary) }

func diaryOf(t *testing.T, b *Store) []int {
	t.Helper()
	d, ok := b.Series(cart, "app").Extension().(*diary)
	if !ok {
		t.Fatal("the history has no hourly peaks")
	}
	return d.seconds
}

// lived returns a Store with samples at the given seconds after noon.
func lived(t *testing.T, seconds ...int) *Store {
	t.Helper()
	b := newBook()
	b.Extend(cart, newDiary)
	b.Track(podOf(cart, "cart-1", "app"))
	live(b, seconds...)
	return b
}

func live(b *Store, seconds ...int) {
	p := podOf(cart, "cart-1", "app")
	for _, s := range seconds {
		b.Observe(sample(p, "app", noon.Add(time.Duration(s)*time.Second), 0.1, 200*mib))
	}
}

func stored(t *testing.T, b *Store, second int) Checkpoint {
	t.Helper()
	c, ok := b.Checkpoint(cart, "app", noon.Add(time.Duration(second)*time.Second))
	if !ok {
		t.Fatal("no checkpoint")
	}
	return c
}

// A process may end between storing the checkpoint and the model state of a container. Both are restored, and neither counts a sample
// twice.
func TestRestore_checkpointAndModelStateOfDifferentTimes_countEachSampleOnce(t *testing.T) {
	b := lived(t, 10, 20)
	early := stored(t, b, 25)
	live(b, 30, 40)
	late := stored(t, b, 45)
	tests := map[string]struct {
		checkpoint, history Checkpoint
		diary               []int
		samples             int
	}{
		"both early":       {early, early, []int{10, 20, 40, 50}, 4},
		"history first":    {early, late, []int{10, 20, 30, 40, 50}, 4},
		"checkpoint first": {late, early, []int{10, 20, 50}, 5},
		"both late":        {late, late, []int{10, 20, 30, 40, 50}, 5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := tt.checkpoint
			c.History = tt.history.History
			r := newBook()
			r.Tick(noon.Add(50 * time.Second))
			r.Extend(cart, newDiary)
			if err := r.Restore(cart, "app", c); err != nil {
				t.Fatal(err)
			}
			r.Track(podOf(cart, "cart-1", "app"))
			live(r, 40, 50) // the source tells its last sample again
			if got := diaryOf(t, r); !slices.Equal(got, tt.diary) {
				t.Errorf("the extension was told %v, want %v", got, tt.diary)
			}
			if got := r.Series(cart, "app").Seen(cluster.CPU).Count; got != tt.samples {
				t.Errorf("%d samples, want %d", got, tt.samples)
			}
		})
	}
}

func TestRecall_withoutACheckpoint_restoresModelState(t *testing.T) {
	h := stored(t, lived(t, 10, 20), 25).History
	for name, extendFirst := range map[string]bool{"extended, then recalled": true, "recalled, then extended": false} {
		t.Run(name, func(t *testing.T) {
			b := newBook()
			if extendFirst {
				b.Extend(cart, newDiary)
			}
			if err := b.Recall(cart, h); err != nil {
				t.Fatal(err)
			}
			b.Extend(cart, newDiary)
			b.Track(podOf(cart, "cart-1", "app"))
			live(b, 20, 30)
			if got := diaryOf(t, b); !slices.Equal(got, []int{10, 20, 30}) {
				t.Errorf("the extension was told %v", got)
			}
			if got := b.Series(cart, "app").Seen(cluster.CPU).Count; got != 2 {
				t.Errorf("%d samples, want the two that came", got)
			}
		})
	}
}

func TestRestore_twoModelStates_keepsTheNewer(t *testing.T) {
	b := lived(t, 10)
	early := stored(t, b, 15)
	live(b, 20)
	late := stored(t, b, 25)
	for name, pair := range map[string][2]Checkpoint{"carried is newer": {late.Carry(), early}, "carried is older": {early.Carry(), late}} {
		c := pair[0]
		if c.History.Data != nil {
			t.Fatalf("%s: what is carried is beside, too", name)
		}
		c.History = pair[1].History
		r := newBook()
		r.Extend(cart, newDiary)
		if err := r.Restore(cart, "app", c); err != nil {
			t.Fatal(err)
		}
		if got := diaryOf(t, r); !slices.Equal(got, []int{10, 20}) {
			t.Errorf("%s: remembers %v", name, got)
		}
		if err := r.Recall(cart, early.History); err != nil || len(diaryOf(t, r)) != 2 {
			t.Errorf("%s: an old one came over it, error %v", name, err)
		}
	}
}

// A former version stored model state without its form.
func TestRestore_extraVersion1WithModelState_isRead(t *testing.T) {
	c := stored(t, lived(t, 10, 20), 25)
	x, err := decodeExtra(c.Carry().Extra)
	if err != nil || x.form != "diary" {
		t.Fatalf("form %q, error %v", x.form, err)
	}
	x.form = ""
	c.Extra, c.History = x.encode(), History{}
	if c.Extra[0] != 1 {
		t.Fatalf("version %d", c.Extra[0])
	}
	b := newBook()
	b.Extend(cart, newDiary)
	if err := b.Restore(cart, "app", c); err != nil {
		t.Fatal(err)
	}
	if got := diaryOf(t, b); !slices.Equal(got, []int{10, 20}) {
		t.Errorf("remembers %v", got)
	}
}

// Upstream has rewritten the checkpoint: its status is used, and the model state is still restored.
func TestRestore_statusRewrittenByUpstream_keepsModelState(t *testing.T) {
	c := stored(t, lived(t, 10, 20), 25).Carry()
	c.Updated = c.Updated.Add(time.Minute)
	b := newBook()
	b.Extend(cart, newDiary)
	if err := b.Restore(cart, "app", c); err != nil {
		t.Fatal(err)
	}
	if got := diaryOf(t, b); !slices.Equal(got, []int{10, 20}) {
		t.Errorf("remembers %v", got)
	}
}

func TestRestore_unusableModelState_restoresTheRest(t *testing.T) {
	good := stored(t, lived(t, 10, 20), 25)
	tests := map[string]struct {
		change func(*History)
		want   string
	}{
		"another form":   {func(h *History) { h.Form = "novel" }, `form must be "diary", got "novel"`},
		"broken":         {func(h *History) { h.Data = h.Data[1:] }, "a second is cut off"},
		"too long":       {func(h *History) { h.Data = make([]byte, maxHistory+1) }, "data must have at most"},
		"no time":        {func(h *History) { h.Updated = time.Time{} }, "must be between 1970 and 2200"},
		"another age":    {func(h *History) { h.Updated = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }, "must be between 1970 and 2200"},
		"a form of 1 KB": {func(h *History) { h.Form = strings.Repeat("x", 1000) }, "data must have at most"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := good
			tt.change(&c.History)
			b := newBook()
			b.Tick(noon.Add(time.Minute))
			b.Extend(cart, newDiary)
			b.Track(podOf(cart, "cart-1", "app"))
			err := b.Restore(cart, "app", c)
			if !errors.Is(err, ErrHistory) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one about %q", err, tt.want)
			}
			live(b, 20, 30) // the first is in the checkpoint
			if got := diaryOf(t, b); !slices.Equal(got, []int{30}) {
				t.Errorf("the extension was told %v", got)
			}
			if got := b.Series(cart, "app").Seen(cluster.CPU).Count; got != 3 {
				t.Errorf("%d samples, want 3", got)
			}
		})
	}
}

func TestHistories_extendedContainers_areReturnedSorted(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-1", "proxy", "app", "idle")
	b.Track(p)
	b.Observe(sample(p, "proxy", noon, 0.1, 200*mib))
	if hs := b.Histories(cart, noon); len(hs) != 0 || b.Extended(cart) {
		t.Errorf("there are %v without extensions", hs)
	}
	b.Extend(cart, newDiary)
	for i, c := range []string{"proxy", "app"} {
		b.Observe(sample(p, c, noon.Add(time.Duration(i+1)*time.Second), 0.1, 200*mib))
	}
	got := b.Histories(cart, noon.Add(5500*time.Millisecond))
	want := []History{
		{"app", noon.Add(5 * time.Second), noon.Add(2 * time.Second), "diary", []byte{0, 2}},
		{"proxy", noon.Add(5 * time.Second), noon.Add(time.Second), "diary", []byte{0, 1}},
	}
	if !reflect.DeepEqual(got, want) || !b.Extended(cart) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestNewer_anyTwoHistories_isAsymmetric(t *testing.T) {
	at := func(second int, data string) *History {
		return &History{Updated: noon.Add(time.Duration(second) * time.Second), Data: []byte(data)}
	}
	for i, pair := range [][2]*History{{at(2, "a"), at(1, "b")}, {at(1, "b"), at(1, "a")}, {at(1, "a"), {}}} {
		if !pair[0].Newer(pair[1]) || pair[1].Newer(pair[0]) {
			t.Errorf("%d: %v", i, fmt.Sprint(pair))
		}
	}
}

// Former versions stored model state of the comparison profiles.
func TestRestore_modelStateOfAComparisonProfile_isIgnored(t *testing.T) {
	for _, form := range []string{"load/1", "seasons/1", "window/1"} {
		for _, carried := range []bool{false, true} {
			c := stored(t, lived(t, 10, 20), 25)
			c.History.Form = form
			if carried {
				c = c.Carry()
			}
			b := newBook()
			b.Extend(cart, newDiary)
			if err := b.Restore(cart, "app", c); err != nil {
				t.Errorf("%s, carried %v: %v", form, carried, err)
			}
			if err := b.Recall(cart, c.History); err != nil {
				t.Errorf("%s, carried %v: %v", form, carried, err)
			}
			if got := diaryOf(t, b); len(got) != 0 {
				t.Errorf("%s, carried %v: the extension has state %v", form, carried, got)
			}
			if got := b.Series(cart, "app").Seen(cluster.CPU).Count; got != 2 {
				t.Errorf("%s, carried %v: %d samples restored, want 2", form, carried, got)
			}
		}
	}
}

// hours is an extension with the hours of its samples after noon, and the number of OOM kills.
type hours struct {
	stateless
	seen []byte
	ooms byte
}

func (h *hours) Observe(s Sample, _ cluster.Set) {
	h.seen = append(h.seen, byte(s.At.Sub(noon)/time.Hour))
}
func (h *hours) ObserveOOM(OOM, int64) { h.ooms++ }
func (h *hours) Form() string          { return "hours" }
func (h *hours) AppendBinary(b []byte) ([]byte, error) {
	if len(h.seen) == 0 {
		return b, nil
	}
	return append(append(b, h.ooms), h.seen...), nil
}
func (h *hours) UnmarshalBinary(data []byte) error {
	h.ooms, h.seen = data[0], slices.Clone(data[1:])
	return nil
}
func (h *hours) Since() (at time.Time) {
	if len(h.seen) > 0 {
		at = noon.Add(time.Duration(h.seen[0]) * time.Hour)
	}
	return at
}

// hoursOf returns a Store with samples at the given hours after noon.
func hoursOf(hs ...int) *Store {
	b := newBook()
	b.Extend(cart, func() Extension { return new(hours) })
	b.Track(podOf(cart, "cart-1", "app"))
	for _, h := range hs {
		live(b, h*3600)
	}
	return b
}

// The stored model state could not be read at the start, so samples have started another one. The one that covers more time is used.
func TestRecall_afterSamples_keepsWhatCoversMoreTime(t *testing.T) {
	for name, tt := range map[string]struct {
		stored, live []int
		want         []byte
	}{
		"stored is longer":                     {[]int{0, 10, 20}, []int{30, 31}, []byte{0, 10, 20}},
		"stored is longer, of the same hour":   {[]int{0, 10, 20}, []int{20, 21}, []byte{0, 10, 20}},
		"live is longer":                       {[]int{0, 1}, []int{30, 40}, []byte{30, 40}},
		"live contains the stored":             {[]int{0, 10, 20}, []int{0, 10, 20, 21}, []byte{0, 10, 20, 21}},
		"live has the end of a trimmed window": {[]int{0, 10, 20}, []int{11, 20, 21}, []byte{11, 20, 21}},
	} {
		h := stored(t, hoursOf(tt.stored...), tt.stored[len(tt.stored)-1]*3600+5).History
		b := hoursOf(tt.live...)
		saved := stored(t, b, tt.live[len(tt.live)-1]*3600+5)
		b.Configure(cart, nil)
		b.Saved(cart, "app", saved)
		for range 2 {
			if err := b.Recall(cart, h); err != nil {
				t.Fatal(err)
			}
			if got := b.Series(cart, "app").Extension().(*hours).seen; !slices.Equal(got, tt.want) {
				t.Errorf("%s: the model state is of hours %v, want %v", name, got, tt.want)
			}
		}
		if pending, want := len(b.Pending(noon.AddDate(1, 0, 0))) > 0, tt.want[0] != byte(tt.live[0]); pending != want {
			t.Errorf("%s: the container is to be stored again: %t, want %t", name, pending, want)
		}
	}
}

func TestRecall_oomKillSinceStored_isObserved(t *testing.T) {
	h := stored(t, hoursOf(0, 10, 20), 20*3600+5).History
	b := hoursOf(30)
	b.ObserveOOM(OOM{Pod: podOf(cart, "cart-1", "app").Key, Container: "app", At: noon.Add(31 * time.Hour), Memory: 256 * mib})
	if err := b.Recall(cart, h); err != nil {
		t.Fatal(err)
	}
	if e := b.Series(cart, "app").Extension().(*hours); len(e.seen) != 3 || e.ooms != 1 {
		t.Errorf("hours %v and %d OOM kills, want the stored hours and 1", e.seen, e.ooms)
	}
}

// A process that could not read the UsageHistory carried its own model state in the checkpoint. The next one can read both.
func TestRestore_checkpointHasOtherModelState_longerOneIsKept(t *testing.T) {
	for name, tt := range map[string]struct {
		stored, carried []int
		want            []byte
	}{
		"stored is longer":            {[]int{0, 10, 20}, []int{20, 21}, []byte{0, 10, 20}},
		"carried is longer":           {[]int{0, 1}, []int{2, 10}, []byte{2, 10}},
		"carried contains the stored": {[]int{0, 10}, []int{0, 10, 20}, []byte{0, 10, 20}},
	} {
		late := stored(t, hoursOf(tt.carried...), tt.carried[len(tt.carried)-1]*3600+5).Carry()
		late.History = stored(t, hoursOf(tt.stored...), tt.stored[len(tt.stored)-1]*3600+5).History
		b := hoursOf()
		if err := b.Restore(cart, "app", late); err != nil {
			t.Fatal(err)
		}
		if got := b.Series(cart, "app").Extension().(*hours).seen; !slices.Equal(got, tt.want) {
			t.Errorf("%s: the model state is of hours %v, want %v", name, got, tt.want)
		}
	}
}
