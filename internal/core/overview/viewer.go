// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import "slices"

// A User is an authenticated user.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// A Viewer is who sees a page. The zero value sees nothing.
type Viewer struct {
	Name       string          // "" without authentication
	All        bool            // the viewer may see all namespaces, and nodes
	Namespaces map[string]bool // namespaces that the viewer may see if All is false
}

// Sees reports whether the viewer may see objects of a namespace.
func (v *Viewer) Sees(namespace string) bool { return v.All || v.Namespaces[namespace] }

// Visible returns the part of an overview that the viewer may see.
func (o *Overview) Visible(v *Viewer) *Overview {
	if v.All {
		return o
	}
	return o.For(v.Namespaces)
}

// Visible returns the part of the surplus that the viewer may see, with the total of the visible rows.
func (s *Surplus) Visible(visible *Overview, v *Viewer) *Surplus {
	if v.All {
		return s
	}
	out := &Surplus{PriceSource: s.PriceSource, Money: s.Money}
	for _, row := range visible.Rows {
		out.Total += max(s.Money[row.Workload], 0)
	}
	return out
}

// VisibleEntries returns the entries that the viewer may see.
func VisibleEntries(entries []Entry, v *Viewer) []Entry {
	if v.All {
		return entries
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return !v.Sees(e.Pod.Namespace) })
}
