// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package changelog keeps the last changes of the recommendation of a container, with the cause of each. It is stored with the checkpoint of the
// container: at most 450 bytes.
package changelog

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/codec"
)

// A Cause is why a target changed.
type Cause uint8

// The causes.
const (
	First    Cause = iota // the first target on record
	Usage                 // usage is higher
	Kill                  // an OOM kill
	Decay                 // usage is lower, or old usage counts less
	Settings              // another profile, or other parameters of it
	Bounds                // bounds of the VPA or of nodes, or a step (podfit.dev/max-step): the amount before them is the same
)

// String returns the cause in the words of explanations.
func (c Cause) String() string {
	return [...]string{"first on record", "higher usage", "OOM kill", "lower usage, or old usage counts less", "profile or its parameters", "bounds or largest step"}[c]
}

// A Change is a target that differs from the one before it.
type Change struct {
	At       int64 // Unix seconds
	To       int64 // millicores or bytes
	Resource cluster.Resource
	Cause    Cause
}

// Time returns when the target changed.
func (c *Change) Time() time.Time { return time.Unix(c.At, 0).UTC() }

// A Log has the last changes of the targets of a container, the oldest first. Nil is an empty log.
type Log struct {
	Settings uint64 // a checksum of the present profile and its parameters
	Changes  []Change
}

const (
	// Most is the largest number of changes of a container.
	Most = 30
	// merged is how long gradual changes with the same cause are one change, in seconds.
	merged = 3600
)

// Last returns the last change of a resource, nil if there is none.
func (l *Log) Last(res cluster.Resource) *Change {
	if l == nil {
		return nil
	}
	for i := range slices.Backward(l.Changes) {
		if l.Changes[i].Resource == res {
			return &l.Changes[i]
		}
	}
	return nil
}

// Before returns the target before a change, by its index; 0 if it is not on record.
func (l *Log) Before(i int) int64 {
	earlier := Log{Changes: l.Changes[:i]}
	if last := earlier.Last(l.Changes[i].Resource); last != nil {
		return last.To
	}
	return 0
}

// By returns the log with a checksum of the present profile and its parameters.
func (l *Log) By(settings uint64) *Log {
	if l == nil {
		return &Log{Settings: settings}
	}
	if l.Settings == settings {
		return l
	}
	return &Log{Settings: settings, Changes: l.Changes}
}

// With returns the log with a change at its end, and at most limit changes: the last one of each resource, and the newest of the others. Gradual
// changes within an hour are one. The log itself does not change, because others may be reading it.
func (l *Log) With(c Change, limit int) *Log {
	out := &Log{Settings: l.Settings, Changes: slices.Clone(l.Changes)}
	last := out.Last(c.Resource)
	if last != nil && last.Cause == c.Cause && (c.Cause == Usage || c.Cause == Decay) && c.At-last.At < merged {
		last.To = c.To
		return out
	}
	if n := len(out.Changes); n > 0 {
		c.At = max(c.At, out.Changes[n-1].At) // the clock may have been set back
	}
	out.Changes = append(out.Changes, c)
	for len(out.Changes) > max(limit, len(cluster.All)) {
		oldest := slices.IndexFunc(out.Changes, func(c Change) bool { return *out.Last(c.Resource) != c })
		out.Changes = slices.Delete(out.Changes, max(oldest, 0), max(oldest, 0)+1)
	}
	return out
}

// Until returns the log with no change after a time: a clock that was ahead may have written it.
func (l *Log) Until(now time.Time) *Log {
	if l == nil || len(l.Changes) == 0 || l.Changes[len(l.Changes)-1].At <= now.Unix() {
		return l
	}
	out := &Log{Settings: l.Settings, Changes: slices.Clone(l.Changes)}
	for i := range out.Changes {
		out.Changes[i].At = min(out.Changes[i].At, now.Unix())
	}
	return out
}

// A Situation is what the changes of a container depend on.
type Situation struct {
	Now           time.Time
	Settings      uint64          // a checksum of the profile and its parameters
	Before, After *cluster.Advice // the recommendation of the status, which may be nil, and the new one
	Killed        time.Time       // the last OOM kill
	Limit         int             // the most changes to keep
}

// Observe returns the log with the changes of a new recommendation. It is the log itself if there are none.
func (l *Log) Observe(s *Situation) *Log {
	out := l.By(s.Settings)
	for _, res := range cluster.All {
		target, ok := s.After.Target.Get(res)
		if last := l.Last(res); ok && (last == nil || last.To != target) {
			out = out.With(Change{At: s.Now.Unix(), To: target, Resource: res, Cause: l.cause(s, res)}, s.Limit)
		}
	}
	return out
}

// cause returns why a target differs from the last one on record.
func (l *Log) cause(s *Situation, res cluster.Resource) Cause {
	last := l.Last(res)
	switch {
	case last == nil:
		return First
	case l.Settings != s.Settings:
		return Settings
	case s.Before != nil && s.Before.Uncapped.Has.Has(res) && s.Before.Uncapped.Amount(res) == s.After.Uncapped.Amount(res):
		return Bounds
	case s.After.Target.Amount(res) < last.To:
		return Decay
	case res == cluster.Memory && s.Killed.Unix() > last.At:
		return Kill
	}
	return Usage
}

const maxAmount = 1 << 60

// Encode returns the stored form of a log, nil if it is empty.
func (l *Log) Encode() []byte {
	if l == nil || len(l.Changes) == 0 {
		return nil
	}
	c := codec.NewEncoder(nil)
	l.Code(c)
	return c.Data()
}

// Decode returns a log from its stored form; nil for none.
func Decode(data []byte) (*Log, error) { return codec.Decode[Log](data, "changes of a recommendation") }

// Code implements codec.State.
func (l *Log) Code(c *codec.Coder) {
	c.Version(1, 1, 1)
	c.Uint64("checksum of the profile", &l.Settings)
	codec.Length(c, "number of changes", &l.Changes, Most)
	for i := range l.Changes {
		x := &l.Changes[i]
		codec.Uvarint(c, "time of a change", &x.At, codec.MaxSecond)
		codec.Uvarint(c, "target", &x.To, maxAmount)
		codec.Byte(c, "resource of a change", &x.Resource, byte(cluster.Memory))
		codec.Byte(c, "cause of a change", &x.Cause, byte(Bounds))
		if x.Resource != cluster.CPU && x.Resource != cluster.Memory {
			c.Fail("change of no resource")
		}
		if i > 0 && l.Changes[i-1].At > x.At {
			c.Fail("changes are not sorted by time")
		}
	}
}
