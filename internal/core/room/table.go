// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package room

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Row is one step of a plan as it is shown to people. All fields are text, and none is empty.
type Row struct {
	Action string // the kind of the step
	Pod    string // namespace and name
	From   string // the amounts that the pod takes of the node before the step
	To     string // the amounts after the step; for a pod that waits, its target
	Reason string // why the step is taken, or what the node lacks
}

// Rows returns the steps of the plan in the order in which they are taken, and then those that follow when the kubelet has deferred a
// resize.
func (p Plan) Rows() []Row {
	rows := make([]Row, 0, len(p.Steps)+len(p.Next))
	for i, s := range slices.Concat(p.Steps, p.Next) {
		rows = append(rows, Row{Action: s.Do.String(), Pod: s.Name, From: s.From.String(), To: s.To.String(), Reason: s.reason(i >= len(p.Steps))})
	}
	return rows
}

// Table returns the plan as text: a line with the node and its free room, and an aligned line for each step.
func (p Plan) Table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "Node %s has free: %s\n", p.Node, p.Free)
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  STEP\tACTION\tPOD\tFROM\tTO\tREASON")
	for i, r := range p.Rows() {
		fmt.Fprintf(w, "  %d\t%s\t%s\t%s\t%s\t%s\n", i+1, r.Action, r.Pod, r.From, r.To, r.Reason)
	}
	_ = w.Flush() // a strings.Builder returns no error
	return out.String()
}

// Key identifies what the plan does. Plans with the same key differ at most in the free room, and in what waiting pods lack.
func (p Plan) Key() string {
	var out strings.Builder
	for _, s := range slices.Concat(p.Steps, p.Next) {
		fmt.Fprintf(&out, "%s %s %s %s %s %s\n", s.Do, s.Name, s.From, s.To, s.For, s.Node)
	}
	return out.String()
}

// reason says why a step is taken. A later step is one that follows when the kubelet has deferred a resize.
func (s *Step) reason(later bool) string {
	var text string
	switch s.Do {
	case ShrinkPod:
		text = "its target is lower"
		if s.For != "" {
			text = "makes room for " + s.For
		}
	case MovePod:
		text = "its resize does not fit here"
		if s.For != "" {
			text = "makes room for " + s.For
		}
		text += "; the replacement fits on node " + s.Node
		if later {
			text += "; follows when the kubelet has deferred the resize"
		}
	case GrowPod:
		text = "gets its target"
	case GrowPart:
		text = "gets what is free; the node lacks " + s.Lacks.Shortage()
	case Wait:
		text = "waits for the room of other pods"
		switch {
		case s.For != "":
			text = "the free room is for " + s.For
		case !s.Lacks.isZero():
			text = "the node lacks " + s.Lacks.Shortage()
		}
	}
	return text
}
