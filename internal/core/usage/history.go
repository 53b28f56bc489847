// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// A History is the stored model state of a container. It is independent of the checkpoint of the container, which may be older,
// newer or missing. Histories are never merged: each is complete, so the newest is used.
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

// history returns the model state in an extra.
func (x *extra) history() History {
	if len(x.extension) == 0 {
		return History{}
	}
	at := stamp(x.updated * 1e9)
	return History{Updated: at, LastSample: at, Form: x.form, Data: x.extension}
}

// Recall restores the model state of a container without a checkpoint. Newer model state is kept.
func (b *Store) Recall(w cluster.Workload, h History) error {
	if len(h.Data) == 0 {
		return nil
	}
	if err := b.recall(b.series(b.workload(w), h.Container), h); err != nil {
		return fmt.Errorf("recall %s of %s: %w", h.Container, w, err)
	}
	return nil
}

func (b *Store) recall(series *ContainerHistory, history History) error {
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
	waiting := series.waiting()
	if !history.Newer(&waiting.history) {
		return nil
	}
	at = b.present(at)
	before := *waiting
	waiting.history = history
	waiting.known = at
	waiting.observedUntil = 0
	waiting.latest = 0
	if b.now != 0 {
		waiting.latest = (b.now + int64(maxLead)) / int64(time.Second)
	}
	if last, ok := nanos(history.LastSample); ok && at > series.savedAt {
		waiting.observedUntil = min(last+int64(time.Second)-1, at) // newer than the windows, which would accept some samples again
	}
	if series.load.extend == nil {
		return nil
	}
	if err := series.extend(series.load.extend); err != nil {
		*waiting = before
		return err
	}
	return nil
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
