// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"log/slog"
	"testing"

	"podfit.dev/podfit/internal/app/process"
)

func TestCapacityLoop_configurationsWithoutPlan_haveNoLoop(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"switched off":      func(c *Config) { c.CapacityPlan = false },
		"another name":      func(c *Config) { c.Name = "tight" },
		"one namespace":     func(c *Config) { c.Common.Namespace = "shop" },
		"ignored namespace": func(c *Config) { c.Common.IgnoredNamespaces = []string{"kube-system"} },
	} {
		c := Defaults()
		c.CapacityPlan = true
		change(&c)
		loop, err := newCapacityLoop(&c, &process.Process{Log: slog.New(slog.DiscardHandler)}, nil, nil, nil, nil)
		if err != nil || loop != nil {
			t.Errorf("%s: a loop: %t, error %v", name, loop != nil, err)
		}
	}
}
