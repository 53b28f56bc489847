// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
)

// An Assignment is the profile whose model state a workload has, and the autoscaler that names the profile.
type Assignment struct {
	Choice *Choice
	By     *cluster.Autoscaler
}

// Assignments contains the Assignment of each referenced workload.
type Assignments map[cluster.Workload]Assignment

// Assign selects the profile whose model state each workload has. governing contains the autoscaler that governs each workload.
func (c *Catalog) Assign(snapshot *cluster.Snapshot, governing map[cluster.Workload]*cluster.Autoscaler) Assignments {
	assignments := make(Assignments, len(governing))
	for w, a := range governing {
		assignments[w] = c.assign(snapshot.AutoscalersOf(w), a)
	}
	return assignments
}

// assign selects the profile of the governing autoscaler. If that profile needs no model state, the profile of another autoscaler of the
// same workload is selected, the oldest first: so a user can try a profile in addition to the one that is applied. A profile that
// weights samples by request is not selected, because it changes the histograms that the governing autoscaler uses.
func (c *Catalog) assign(named []*cluster.Autoscaler, governing *cluster.Autoscaler) Assignment {
	own := Assignment{c.Of(governing), governing}
	if len(named) == 1 || !own.Choice.Usable || own.Choice.Edition.ModelState {
		return own
	}
	candidates := slices.DeleteFunc(slices.Clone(named), func(a *cluster.Autoscaler) bool {
		choice := c.Of(a)
		return !choice.Usable || !choice.Edition.ModelState || choice.WeightByRequest
	})
	if oldest := cluster.Oldest(candidates); oldest != nil {
		return Assignment{c.Of(oldest), oldest}
	}
	return own
}

// NodeBound reports whether any of the profiles depends on the sizes of nodes, so that Apply needs them.
func (as Assignments) NodeBound() bool {
	for _, assignment := range as {
		if assignment.Choice.IsByNode() {
			return true
		}
	}
	return false
}

// Conflict returns the Assignment of an autoscaler's workload if the profile of the autoscaler cannot use the model state of the
// workload, because that belongs to a profile with another form. The autoscaler then gets no recommendation.
func (as Assignments) Conflict(a *cluster.Autoscaler, choice *Choice) (Assignment, bool) {
	if !choice.Usable || !choice.Edition.ModelState {
		return Assignment{}, false
	}
	assignment, ok := as[a.Target]
	if !ok || assignment.By == a || !assignment.Choice.Usable {
		return Assignment{}, false
	}
	return assignment, !assignment.Choice.Edition.ModelState || assignment.Choice.form() != choice.form()
}

// form returns the form of the model state of a profile that has model state.
func (c *Choice) form() string { return c.Extend().Form() }
