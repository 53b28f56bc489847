// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package room

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Table returns the plan as text: a line with the node and its free room, and an aligned line for each step.
func (p Plan) Table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "Node %s has free: %s\n", p.Node, p.Free)
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  STEP\tPOD\tFROM\tTO\tREMARK")
	for _, s := range p.Steps {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", s.Do, s.Name, s.From, s.To, s.remark())
	}
	_ = w.Flush() // a strings.Builder returns no error
	return out.String()
}

func (s *Step) remark() string {
	var parts []string
	if s.For != "" {
		parts = append(parts, "for "+s.For)
	}
	if s.Node != "" {
		parts = append(parts, "fits on node "+s.Node)
	}
	if !s.Lacks.isZero() {
		parts = append(parts, "lacks "+s.Lacks.Shortage())
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}
