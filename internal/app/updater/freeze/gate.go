// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package freeze stops requests of the updater that would change pods during a freeze.
package freeze

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/rollout"
)

// Source returns the current rules for the changes of an autoscaler's pods.
type Source interface {
	Rules(*cluster.Autoscaler) rollout.Rules
}

// An Error is the error of a request that was not sent because of a freeze.
type Error struct{ Reason decision.Reason }

func (e *Error) Error() string { return e.Reason.String() }

// A Gate is closed while a freeze stops changes of the pods of at least one autoscaler. It reads the current state of the watches,
// because a freeze may begin while a request waits for the rate limit of the client.
type Gate struct {
	source      Source
	autoscalers []*cluster.Autoscaler
}

// NewGate returns the gate of a workload in a namespace. Without autoscalers, the freezes of the namespace and of the cluster count.
func NewGate(source Source, namespace string, autoscalers ...*cluster.Autoscaler) Gate {
	if len(autoscalers) == 0 {
		autoscalers = []*cluster.Autoscaler{{Key: cluster.Key{Namespace: namespace}}}
	}
	return Gate{source, autoscalers}
}

// Closed implements kube.Gate.
func (g Gate) Closed() error {
	for _, a := range g.autoscalers {
		if reason, frozen := plan.FrozenBy(g.source.Rules(a)); frozen {
			return &Error{reason}
		}
	}
	return nil
}
