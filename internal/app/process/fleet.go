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
	errs.AddIf(n.MaxNodeCPU.Given && n.MaxNodeCPU.Sign() <= 0, "--max-node-cpu must be greater than 0, got %s", &n.MaxNodeCPU)
	errs.AddIf(n.MaxNodeMem.Given && n.MaxNodeMem.Sign() <= 0, "--max-node-memory must be greater than 0, got %s", &n.MaxNodeMem)
	return errors.Join(errs...)
}

// Options returns the options of watcher.Fleet. An amount that is not given is 0.
func (n *NodeFit) Options() watcher.FleetOptions {
	return watcher.FleetOptions{Scale: n.Scale, MaxCPU: n.MaxNodeCPU.MilliValue(), MaxMemory: n.MaxNodeMem.Value()}
}
