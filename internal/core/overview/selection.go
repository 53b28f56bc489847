// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
)

// An Order is the order of selected rows.
type Order string

// The orders.
const (
	ByRisk    Order = "risk"    // the highest risk first
	BySavings Order = "savings" // the most that could be given back first, CPU and memory weighed by usual prices
	ByMemory  Order = "memory"  // the most memory that could be given back first
	ByCPU     Order = "cpu"     // the most CPU that could be given back first
	ByName    Order = "name"
	ByPods    Order = "pods" // the most pods first
)

// Orders lists the orders, the default first.
var Orders = [...]Order{ByRisk, BySavings, ByMemory, ByCPU, ByPods, ByName}

// A Query selects rows.
type Query struct {
	Text      string // part of the namespace, the kind, the name or the name of the VPA; "" selects all
	Namespace string // "" selects all
	Risk      string // "high", "medium", "any" for both, or "" for all rows
	VPA       string // "with" or "without" a VPA, or "" for all rows
	Order     Order
	Page      int // the first is 1
	Size      int // rows per page
}

// A Selection is a page of the selected rows.
type Selection struct {
	Rows  []*Row
	Total int // selected rows on all pages
	Page  int
	Pages int
}

// Select returns a page of the rows that the query selects. A page after the last one is the last one.
func (o *Overview) Select(q Query) Selection {
	text := strings.ToLower(q.Text)
	found := slices.DeleteFunc(slices.Clone(o.Rows), func(r *Row) bool { return !q.matches(r, text) })
	slices.SortStableFunc(found, func(a, b *Row) int { return compare(a, b, q.Order) })
	size := max(q.Size, 1)
	s := Selection{Total: len(found), Pages: max((len(found)+size-1)/size, 1)}
	s.Page = min(max(q.Page, 1), s.Pages)
	from := (s.Page - 1) * size
	s.Rows = found[from:min(from+size, len(found))]
	return s
}

func (q *Query) matches(r *Row, text string) bool {
	switch {
	case q.Namespace != "" && r.Workload.Namespace != q.Namespace,
		q.Risk == "any" && r.Risk == review.Harmless,
		q.Risk != "" && q.Risk != "any" && r.Risk.String() != q.Risk,
		q.VPA == "with" && r.VPA == "",
		q.VPA == "without" && r.VPA != "":
		return false
	}
	return text == "" || strings.Contains(strings.ToLower(r.Workload.Namespace+"/"+r.Workload.Kind+"/"+r.Workload.Name+" "+r.VPA), text)
}

// compare orders rows. The input is sorted by workload, so ties stay in this order.
func compare(a, b *Row, order Order) int {
	switch order {
	case BySavings:
		return cmp.Compare(b.Saving(), a.Saving())
	case ByMemory:
		return cmp.Compare(b.Freed.Memory, a.Freed.Memory)
	case ByCPU:
		return cmp.Compare(b.Freed.CPU, a.Freed.CPU)
	case ByPods:
		return cmp.Compare(b.Pods, a.Pods)
	case ByName:
		return cmp.Or(strings.Compare(a.Workload.Name, b.Workload.Name), a.Workload.Compare(b.Workload))
	case ByRisk:
	}
	return cmp.Or(cmp.Compare(b.Risk, a.Risk), cmp.Compare(a.cause, b.cause), cmp.Compare(b.Saving(), a.Saving()))
}

// Saving returns what could be given back as one number: the assumed price of a month, as podfit recommend ranks waste without prices.
// Amounts too small to matter are 0.
func (r *Row) Saving() float64 {
	const leastSaving = 1.0 // the smallest saving of a row that is shown
	saving := review.AssumedPrice().Of(r.Freed)
	if saving < leastSaving {
		return 0
	}
	return saving
}

// Namespaces returns the namespaces of all rows, sorted.
func (o *Overview) Namespaces() []string {
	return slices.Compact(cluster.Each(o.Rows, func(r **Row) string { return (*r).Workload.Namespace }))
}
