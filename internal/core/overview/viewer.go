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

// Visible returns the part of an overview that the viewer may see. Nodes and their capacity belong to the cluster, so they are not part of it
// for a viewer of some namespaces.
func (o *Overview) Visible(v *Viewer) *Overview {
	if v.All {
		return o
	}
	out := &Overview{At: o.At, UsageSeen: o.UsageSeen}
	for _, row := range o.Rows {
		if v.Sees(row.Workload.Namespace) {
			out.Rows = append(out.Rows, row)
			out.Totals.add(&row.Totals)
			out.Pods += row.Pods
		}
	}
	out.Resizes = slices.DeleteFunc(slices.Clone(o.Resizes), func(r *Resize) bool { return !v.Sees(r.Pod.Namespace) })
	return out
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
