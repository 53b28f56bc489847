// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package freeze

import (
	"errors"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/rollout"
)

// frozen contains the namespaces with a freeze.
type frozen map[string]bool

func (f frozen) Rules(a *cluster.Autoscaler) rollout.Rules {
	return rollout.Rules{Autoscaler: a, Cluster: cluster.Freeze{On: f[a.Namespace]}}
}

func TestGate_freeze_isClosedWithAndWithoutAutoscalers(t *testing.T) {
	shop := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}}
	other := &cluster.Autoscaler{Key: cluster.Key{Namespace: "other", Name: "web"}}
	for name, c := range map[string]struct {
		gate Gate
		want bool
	}{
		"no freeze":                    {NewGate(frozen{}, "shop", shop), false},
		"of the autoscaler":            {NewGate(frozen{"shop": true}, "shop", shop), true},
		"of the second autoscaler":     {NewGate(frozen{"shop": true}, "shop", other, shop), true},
		"of another autoscaler":        {NewGate(frozen{"shop": true}, "shop", other), false},
		"without autoscalers":          {NewGate(frozen{"shop": true}, "shop"), true},
		"of others, no autoscaler":     {NewGate(frozen{"other": true}, "shop"), false},
		"no freeze, and no autoscaler": {NewGate(frozen{}, "shop"), false},
	} {
		err := c.gate.Closed()
		var stopped *Error
		if (err != nil) != c.want || err != nil && (!errors.As(err, &stopped) || stopped.Reason.Code != decision.Frozen || err.Error() != stopped.Reason.String()) {
			t.Errorf("%s: got %v, want closed: %t", name, err, c.want)
		}
	}
}
