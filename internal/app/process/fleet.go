// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// NodeFit is the configuration of what happens with pods whose recommendation fits on no node.
type NodeFit struct {
	Scale                  bool     // --fit-nodes
	MaxNodeCPU, MaxNodeMem Quantity // allocatable amounts of the largest node that can be added
}

// Flags binds the configuration to flags.
func (n *NodeFit) Flags(fs *pflag.FlagSet) {
	fs.BoolVar(&n.Scale, "fit-nodes", n.Scale, "If true, scale a pod down whose recommendation fits on no node, or exceeds a ResourceQuota even if no other pod uses it: "+
		"its containers in proportion, none below its lower bound. If false, apply the recommendation, as upstream does. All components need the same value.")
	fs.Var(&n.MaxNodeCPU, "max-node-cpu", "Allocatable CPU of the largest node that can be added to the cluster. Empty means that the existing nodes count, "+
		"or no maximum if --max-node-memory is set. All components need the same value.")
	fs.Var(&n.MaxNodeMem, "max-node-memory", "Allocatable memory of the largest node that can be added to the cluster. Empty means that the existing nodes count, "+
		"or no maximum if --max-node-cpu is set. All components need the same value.")
}

// Validate returns an error for each invalid flag, with the flag's name and the values it accepts.
func (n *NodeFit) Validate() error {
	var errs Problems
	for _, f := range [...]struct {
		name string
		q    *Quantity
	}{{"max-node-cpu", &n.MaxNodeCPU}, {"max-node-memory", &n.MaxNodeMem}} {
		errs.AddIf(f.q.Given && f.q.Sign() <= 0, "--%s must be greater than 0, got %s", f.name, f.q)
	}
	return errors.Join(errs...)
}

// Options returns the options of watcher.Fleet.
func (n *NodeFit) Options() watcher.FleetOptions {
	out := watcher.FleetOptions{Scale: n.Scale}
	if n.MaxNodeCPU.Given {
		out.MaxCPU = n.MaxNodeCPU.MilliValue()
	}
	if n.MaxNodeMem.Given {
		out.MaxMemory = n.MaxNodeMem.Value()
	}
	return out
}
