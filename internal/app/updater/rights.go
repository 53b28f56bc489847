// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"log/slog"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/rescue"
	"podfit.dev/podfit/internal/core/surge"
	"podfit.dev/podfit/internal/edge/kube"
)

// A feature needs a right that upstream's updater does not have. An operator adds it with a component of deploy/rights. The requests for
// capacity before evictions check their rights themselves (provision.Provider).
type feature struct {
	component string // folder of deploy/rights
	right     kube.Right
	without   string // what happens without the right
	enabled   func(*Config) bool
}

const (
	featureRescue = iota
	featureSurges
	featureTargets
	featureDryRuns
	featureNodeGuard
	featureNodePressure
)

var features = []feature{
	featureRescue: {
		"oom-rescue", kube.Right{Verb: "rescue", Resource: "pods"}, "OOM-killed pods are not deleted, as with --oom-rescue=evict",
		func(c *Config) bool { return c.OOMRescue == rescueDelete },
	},
	featureSurges: {
		"surges", kube.Right{Verb: "patch", Group: "apps", Resource: "deployments"}, "pods are evicted instead of surged, as with --mover=evict",
		func(c *Config) bool { return c.Mover != string(surge.ByEviction) },
	},
	featureTargets: {
		"hpa-targets", kube.Right{Verb: "patch", Group: "autoscaling", Resource: "horizontalpodautoscalers"},
		"requests by which an HPA scales are left alone, also with the annotation podfit.dev/hpa=preserve-scale-point",
		func(c *Config) bool { return c.HPA == process.HPALeave },
	},
	featureDryRuns: {
		"placeholders", kube.Right{Verb: "create", Resource: "pods"}, "replacements of pods are not tried in dry runs after evictions without effect",
		func(*Config) bool { return true },
	},
	featureNodeGuard: {
		"node-guard", kube.Right{Verb: "list", Group: "metrics.k8s.io", Resource: "pods"}, "no pod moves from nodes that are nearly out of memory, as with --node-guard=false",
		(*Config).guardsNodes,
	},
	featureNodePressure: {
		"node-guard", kube.Right{Verb: "get", Resource: "nodes/stats"}, "memory pressure does not count for the node guard, as with --node-guard-pressure=0",
		func(c *Config) bool { return c.guardsNodes() && c.NodeGuardPressure > 0 },
	},
}

type rightChecker interface {
	Has(ctx context.Context, r kube.Right) (bool, error)
}

// rights are the permissions of the updater for features.
type rights struct {
	checker  rightChecker // nil: all are assumed, as in a dry run
	next     time.Time    // when they are checked again
	missing  map[int]bool // by feature
	reported map[int]bool // missing rights that were logged
}

const (
	rightsInterval = 5 * time.Minute
	rightsTimeout  = 10 * time.Second // of one check of all
)

// checkRights checks the rights, at most every rightsInterval, so that a component that is added later takes effect. While the API server does
// not answer, the last answers apply; before the first, the rights are assumed, and the API server refuses what is not allowed.
func (u *updater) checkRights(ctx context.Context, now time.Time) {
	r := &u.rights
	if r.checker == nil || now.Before(r.next) && now.After(r.next.Add(-rightsInterval)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
	defer cancel()
	r.next = now.Add(rightsInterval)
	for i := range features {
		f := &features[i]
		if !f.enabled(&u.config) {
			continue
		}
		has, err := r.checker.Has(ctx, f.right)
		if err != nil {
			u.log.Debug("Cannot check a right; the last known answer applies", slog.String("about", f.right.String()), slog.Any("error", err))
			continue
		}
		r.missing[i] = !has
		if !has && !r.reported[i] {
			r.reported[i] = true
			u.log.Info("A feature is off, because the updater lacks a right that upstream's updater does not have either",
				slog.String("about", f.right.String()), slog.String("reason", f.without),
				slog.String("remedy", "kubectl apply -f deploy/rights/"+f.component+"/"+f.component+".yaml, or set the value of the chart in docs/scope.md"))
		}
	}
	u.actuators.scalePoints.Forbid(r.missing[featureTargets])
	u.ledger.Guard.PressureLine = 0 // as in a dry run, in which kubelets would get the token of a person
	if !r.missing[featureNodePressure] {
		u.ledger.Guard.PressureLine = u.config.NodeGuardPressure / 100
	}
	u.budget.Rescue = rescueModes[u.config.OOMRescue]
	if r.missing[featureRescue] && u.budget.Rescue == rescue.ByDeletion {
		u.budget.Rescue = rescue.ByEviction
	}
}
