// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import "podfit.dev/podfit/internal/core/cluster"

// Replace asks for another extension of every Series of a workload, now and later. What one remembers carries over where
// the other can read it; the containers where it begins anew are returned.
func (b *Book) Replace(w cluster.Workload, create func() Extension) (anew []string) {
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

// Recalled reports whether the extension has got back what it remembered, and not begun anew; one that never stores anything
// has. It tells that until the next Prune.
func (s *Series) Recalled() bool {
	return s.extension != nil && (storesNothing(s.extension) ||
		s.restored != nil && !s.restored.history.Updated.IsZero() && len(s.restored.history.Data) == 0)
}

func storesNothing(e Extension) bool {
	data, err := e.AppendBinary(nil)
	return err == nil && len(data) == 0
}

// replace reports whether anything carried over.
func (s *Series) replace(create func() Extension) bool {
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
