// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// A History is the stored model state of a container. It is independent of the checkpoint of the container, which may be older,
// newer or missing. Histories are never merged: each is complete, so the newest is used. The exception is a newest one that was started
// without the others, because they could not be read: then the one that covers the longest time is used.
type History struct {
	Container  string
	Updated    time.Time // whole seconds
	LastSample time.Time // whole seconds
	Form       string    // of Data; empty if not stored
	Data       []byte
}

// Limits of stored model state. Longer data is not read. The CRD of UsageHistories has the same limit, on the base64 text; every
// extension needs less than half of it.
const (
	maxHistory = 12 << 10
	maxForm    = 64
)

// ignoredForms are the forms of model state that former versions stored for the comparison profiles, which only a backtest has
// now. Such state is not read, and is no error.
var ignoredForms = []string{"load/1", "seasons/1", "window/1"}

// ErrHistory is returned if the model state is invalid, so that only the rest was restored.
var ErrHistory = errors.New("invalid model state")

// Newer reports whether a history of a container is newer than another. Ties are broken by the data, so the order is total.
func (h *History) Newer(o *History) bool {
	if c := h.Updated.Compare(o.Updated); c != 0 {
		return c > 0
	}
	return bytes.Compare(h.Data, o.Data) > 0
}

// Extended reports whether a workload has extensions.
func (b *Store) Extended(w cluster.Workload) bool {
	wl := b.workloads[w]
	return wl != nil && wl.extend != nil
}

// Histories returns the model states of a workload, sorted by container.
func (b *Store) Histories(w cluster.Workload, now time.Time) []History {
	var hs []History
	for _, s := range b.All(w) {
		if h, ok := s.history(now.UTC().Truncate(time.Second)); ok {
			hs = append(hs, h)
		}
	}
	return hs
}

func (s *ContainerHistory) history(now time.Time) (History, bool) {
	if s.extension == nil || s.lastKnown() == 0 {
		return History{}, false
	}
	data, err := s.extension.AppendBinary(nil)
	if err != nil || len(data) == 0 {
		return History{}, false
	}
	return History{
		Container: s.container, Updated: now, LastSample: stamp(s.lastKnown()).Truncate(time.Second),
		Form: s.extension.Form(), Data: data,
	}, true
}

// Carry returns the checkpoint with its History inside Extra, for clusters without UsageHistory objects.
func (c Checkpoint) Carry() Checkpoint {
	x, err := decodeExtra(c.Extra)
	if err == nil && len(c.History.Data) > 0 {
		x.form = c.History.Form
		x.extension = c.History.Data
		c.Extra = x.encode()
	}
	c.History = History{}
	return c
}

func (x *extra) history() History {
	if len(x.extension) == 0 {
		return History{}
	}
	at := stamp(x.updated * 1e9)
	return History{Updated: at, LastSample: at, Form: x.form, Data: x.extension}
}

// Recall restores the model state of a container without a checkpoint. Newer model state is kept, unless it was started after the last
// sample of h and covers less time.
func (b *Store) Recall(w cluster.Workload, h History) error {
	if len(h.Data) == 0 {
		return nil
	}
	if err := b.series(b.workload(w), h.Container).recall(h, &b.clock); err != nil {
		return fmt.Errorf("recall %s of %s: %w", h.Container, w, err)
	}
	return nil
}

func (s *ContainerHistory) recall(history History, c *clock) error {
	if len(history.Data) == 0 || slices.Contains(ignoredForms, history.Form) {
		return nil
	}
	at, ok := nanos(history.Updated)
	switch {
	case len(history.Data) > maxHistory || len(history.Form) > maxForm:
		return fmt.Errorf("%w: data must have at most %d bytes and its form %d, got %d and %d", ErrHistory, maxHistory, maxForm, len(history.Data), len(history.Form))
	case !ok:
		return fmt.Errorf("%w: time must be between 1970 and 2200, got %v", ErrHistory, history.Updated)
	}
	replaces, until := s.replaces(&history)
	if !replaces {
		s.catchUp(until)
		return nil
	}
	waiting := s.waiting()
	at = c.present(at)
	before := *waiting
	waiting.history = history
	waiting.known = at
	waiting.observedUntil = 0
	waiting.latest = 0
	if c.now != 0 {
		waiting.latest = (c.now + int64(maxLead)) / int64(time.Second)
	}
	if last, ok := nanos(history.LastSample); ok && at > s.savedAt {
		waiting.observedUntil = min(last+int64(time.Second)-1, at) // newer than the windows, which would accept some samples again
	}
	if s.load.extend == nil {
		return nil
	}
	if err := s.extend(s.load.extend); err != nil {
		*waiting = before
		return err
	}
	s.catchUp(until)
	if until != 0 {
		s.version++
	}
	return nil
}

// sincePrecision is the precision of Extension.Since: the time is that of the start of an hour.
const sincePrecision = int64(time.Hour)

// A coverage is the time of the first and of the last observation in model state, in Unix nanoseconds.
type coverage struct{ first, last int64 }

// losesTo reports whether newer model state must not replace older one: it was started without the older one, and covers less time.
func (c coverage) losesTo(older coverage) bool {
	return c.first+sincePrecision > older.last && c.last-c.first < older.last-older.first
}

// replaces reports whether stored model state of a container replaces the present one. If the older of the two stays because it covers more
// time, until is its last observation, in Unix nanoseconds; else it is 0.
func (s *ContainerHistory) replaces(stored *History) (yes bool, until int64) {
	present := s.waiting().history
	yes = stored.Newer(&present)
	if s.load.extend == nil || s.extension == nil || s.extension.Since().IsZero() {
		return yes, 0
	}
	newer := yes && !present.Updated.IsZero() // without a time, the present one was started by samples of this process
	other := s.load.extend()
	last, ok := nanos(stored.LastSample)
	if !ok || stored.Form != "" && stored.Form != other.Form() || other.UnmarshalBinary(slices.Clone(stored.Data)) != nil || other.Since().IsZero() {
		return yes, 0 // extend returns the error
	}
	current := coverage{s.extension.Since().UnixNano(), s.lastKnown()}
	candidate := coverage{other.Since().UnixNano(), last}
	if newer {
		current.last, _ = nanos(present.LastSample)
		if candidate.losesTo(current) {
			return false, current.last
		}
		return true, 0
	}
	if current.losesTo(candidate) {
		return true, candidate.last
	}
	return false, 0
}

// catchUp adds the latest OOM kill to an extension whose last observation was at a time, in Unix nanoseconds. It does nothing if that is 0.
func (s *ContainerHistory) catchUp(until int64) {
	if until != 0 && s.kill.at > until {
		s.extension.ObserveOOM(OOM{Container: s.container, At: stamp(s.kill.at), Memory: s.kill.needed}, s.kill.needed)
	}
}

// extend creates an extension and decodes waiting model state into it. If decoding fails, the former extension stays, or an empty
// one is created.
func (s *ContainerHistory) extend(create func() Extension) error {
	extension := create()
	if s.restored == nil || len(s.restored.history.Data) == 0 {
		s.extension = extension
		return nil
	}
	h := &s.restored.history
	data := h.Data
	h.Data = nil
	form := extension.Form()
	err := fmt.Errorf("form must be %q, got %q", form, h.Form)
	if h.Form == "" || form == "" || h.Form == form {
		err = extension.UnmarshalBinary(slices.Clone(data))
	}
	if err == nil && s.restored.latest != 0 && extension.Latest().Unix() > s.restored.latest {
		err = fmt.Errorf("model state has time %v, which is too far in the future", extension.Latest())
	}
	if err != nil {
		s.restored.observedUntil = 0
		if s.extension == nil {
			s.extension = create()
		}
		return fmt.Errorf("%w: %w", ErrHistory, err)
	}
	s.extension = extension
	return nil
}

// alreadyObserved reports whether the extension already observed a sample of a time before its state was stored.
func (s *ContainerHistory) alreadyObserved(at time.Time) bool {
	return s.restored != nil && s.restored.observedUntil != 0 && at.UnixNano() <= s.restored.observedUntil
}

// Replace changes how extensions are created for a workload. Model state is carried over if the new extension has the same form. It
// returns the containers whose extensions start empty.
func (b *Store) Replace(w cluster.Workload, create func() Extension) (anew []string) {
	wl := b.workload(w)
	wl.extend = create
	wl.edition++
	for _, s := range wl.series {
		if !s.replace(create) {
			anew = append(anew, s.container)
		}
	}
	return anew
}

// Recalled reports whether the model state of the extension was restored, or the extension never stores any. It is valid until the
// next Prune.
func (s *ContainerHistory) Recalled() bool {
	return s.extension != nil && (storesNothing(s.extension) ||
		s.restored != nil && !s.restored.history.Updated.IsZero() && len(s.restored.history.Data) == 0)
}

func storesNothing(e Extension) bool {
	data, err := e.AppendBinary(nil)
	return err == nil && len(data) == 0
}

// replace reports whether model state was carried over, or none is needed.
func (s *ContainerHistory) replace(create func() Extension) bool {
	before := s.extension
	s.extension = nil
	if before == nil {
		waits := s.restored != nil && len(s.restored.history.Data) > 0
		return s.extend(create) == nil && waits || storesNothing(s.extension)
	}
	s.extension = create()
	if storesNothing(s.extension) {
		return true
	}
	if before.Form() != s.extension.Form() {
		return false
	}
	data, err := before.AppendBinary(nil)
	return err == nil && s.extension.UnmarshalBinary(data) == nil
}

const packedForm = "checkpoint/1"

// Pack returns all stored history of a container as one History, for groups of pods: they have no checkpoint, because upstream would take it for that
// of a container. It is not ok if the container has no samples, or too much history. Saved records the checkpoint.
func (b *Store) Pack(w cluster.Workload, container string, now time.Time) (packed History, c Checkpoint, ok bool) {
	c, ok = b.Checkpoint(w, container, now)
	if !ok {
		return History{}, c, false
	}
	stored := c.Carry()
	stored.Changes = nil
	data, err := json.Marshal(stored)
	return History{Container: container, Updated: c.Updated, LastSample: c.LastSample.Truncate(time.Second), Form: packedForm, Data: data}, c, err == nil && len(data) <= maxHistory
}

// Unpack restores what Pack returned. Its conditions and errors are those of Restore.
func (b *Store) Unpack(w cluster.Workload, packed *History) error {
	var c Checkpoint
	if packed.Form != packedForm || len(packed.Data) > maxHistory {
		return fmt.Errorf("restore container %s of %s: the stored history has the form %q and %d bytes, and podfit reads the form %q with at most %d bytes", packed.Container, w, packed.Form, len(packed.Data), packedForm, maxHistory)
	}
	if err := json.Unmarshal(packed.Data, &c); err != nil {
		return fmt.Errorf("restore container %s of %s: %w", packed.Container, w, err)
	}
	return b.Restore(w, packed.Container, c)
}

// Governed returns the workloads that an autoscaler sizes.
func (b *Store) Governed() []cluster.Workload {
	var all []cluster.Workload
	for w, wl := range b.workloads {
		if wl.governed {
			all = append(all, w)
		}
	}
	return all
}
