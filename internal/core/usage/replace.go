// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import "podfit.dev/podfit/internal/core/cluster"

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
