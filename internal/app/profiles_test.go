// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestAProfileIsChosenByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		for _, name := range []string{"", "default", "balanced", "cost", "critical"} {
			b.autoscale("vpa-"+name, b.deployment("web-"+name, 2, "app")).Recommender = name
		}
		b.autoscale("vpa-other", b.deployment("other", 2, "app")).Recommender = "somebody-else"
		b.run(3 * time.Hour)
		upstream := b.advice("vpa-", "app").Target
		if got := b.advice("vpa-default", "app").Target; got != upstream {
			t.Errorf("default gives %v, no name %v", got, upstream)
		}
		for _, name := range []string{"balanced", "cost", "critical"} {
			got := b.advice("vpa-"+name, "app").Target
			if got.CPU < 300 || got.Memory < 200<<20 || got.Memory > 400<<20 || got == upstream {
				t.Errorf("%s gives %v, default %v", name, got, upstream)
			}
		}
		for _, a := range b.autoscalers {
			if a.Name == "vpa-other" && len(a.Advice) > 0 {
				t.Error("an autoscaler of another recommender was served")
			}
		}
	})
}

func TestAProfileGoesOnWhereItWasAfterAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "balanced"
		b.run(5 * time.Hour)
		b.use["app"] = cluster.Amounts(700, 500<<20)
		b.run(11 * time.Minute)
		high := b.advice("web", "app").Target
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.run(time.Hour)
		if got := b.advice("web", "app").Target; got.Memory < high.Memory*9/10 {
			t.Errorf("the peak was forgotten with the process: %v, then %v", high, got)
		}
	})
}

func TestRecommenderNameKeepsUpstreamsMeaningWhenItIsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		fs := pflag.NewFlagSet("recommender", pflag.ContinueOnError)
		b.config.Flags(fs)
		if err := fs.Parse([]string{"--recommender-name=default"}); err != nil {
			t.Fatal(err)
		}
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "balanced"
		b.run(10 * time.Minute)
		if a := b.autoscalers[0]; len(a.Advice) > 0 {
			t.Errorf("served: %v", a.Advice)
		}
	})
}
