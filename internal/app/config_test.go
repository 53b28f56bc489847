// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"math"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestGatesAreReadAsUpstreamReadsThem(t *testing.T) {
	tests := map[string]struct {
		text string
		on   []string
		off  []string
		err  string
	}{
		"none":                     {text: "", off: []string{InPlaceGate, PerVPAConfig, CPUStartupBoost}},
		"one":                      {text: "InPlace=true", on: []string{InPlaceGate}, off: []string{PerVPAConfig}},
		"all alpha":                {text: "AllAlpha=true", on: []string{InPlaceGate, PerVPAConfig, CPUStartupBoost}},
		"all alpha but one":        {text: "AllAlpha=true,PerVPAConfig=false", on: []string{InPlaceGate}, off: []string{PerVPAConfig}},
		"graduated gate":           {text: "InPlaceOrRecreate=true"},
		"graduated gate off":       {text: "InPlaceOrRecreate=false", err: "cannot be disabled"},
		"unknown":                  {text: "Nonsense=true", err: `unknown feature gate "Nonsense"; known gates are`},
		"without a value":          {text: "InPlace", err: `must be NAME=true or NAME=false, got "InPlace"`},
		"with a value of nonsense": {text: "InPlace=maybe", err: `must be true or false, got "maybe"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var g Gates
			err := g.Set(tt.text)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range tt.on {
				if !g.On(n) {
					t.Errorf("%s is off", n)
				}
			}
			for _, n := range tt.off {
				if g.On(n) {
					t.Errorf("%s is on", n)
				}
			}
		})
	}
}

func TestFlagsMayBeWrittenWithUnderscores(t *testing.T) {
	c := RecommenderDefaults()
	fs := pflag.NewFlagSet("recommender", pflag.ContinueOnError)
	fs.SetNormalizeFunc(dashes)
	c.Flags(fs)
	err := fs.Parse([]string{"--recommender_interval=5s", "--v=2", "-v=3", "--stderrthreshold=info", "--add_dir_header",
		"--container_recommendation_max_allowed_memory=1Gi", "--ignored-vpa-object-namespaces="})
	if err != nil {
		t.Fatal(err)
	}
	if c.Interval.Seconds() != 5 || c.Log.Verbosity != 3 {
		t.Errorf("interval %v, verbosity %d", c.Interval, c.Log.Verbosity)
	}
	if got := c.MaxAllowed(); got != (cluster.Resources{Memory: 1 << 30, Has: cluster.Of(cluster.Memory)}) {
		t.Errorf("max allowed is %v", got)
	}
	if len(c.IgnoredNamespaces) != 0 { // W-17: an empty list is empty, not a list of one empty name
		t.Errorf("ignored namespaces are %q", c.IgnoredNamespaces)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestRecommendersServeTheirOwnAutoscalers(t *testing.T) {
	tests := map[string]struct {
		name      string
		only      string
		ignored   []string
		asked, ns string
		want      bool
	}{
		"default serves those without a name": {name: "default", want: true},
		"default serves its name":             {name: "default", asked: "default", want: true},
		"default leaves another's":            {name: "default", asked: "cost"},
		"a named one leaves those without":    {name: "cost"},
		"a named one serves its name":         {name: "cost", asked: "cost", want: true},
		"an ignored namespace":                {name: "default", ignored: []string{"shop"}, ns: "shop"},
		"another than the only namespace":     {name: "default", only: "shop", ns: "web"},
		"the only namespace":                  {name: "default", only: "shop", ns: "shop", want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := RecommenderDefaults()
			c.Name, c.Namespace, c.IgnoredNamespaces = tt.name, tt.only, tt.ignored
			a := &cluster.Autoscaler{Key: cluster.Key{Namespace: tt.ns, Name: "a"}, Recommender: tt.asked}
			if got := c.Serves(a); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}

func TestBadConfigurationNamesTheFlagAndTheRemedy(t *testing.T) {
	r, u, a := RecommenderDefaults(), UpdaterDefaults(), AdmissionDefaults()
	r.Sizing.TargetCPU, r.Interval, r.Storage, r.Workers = 90, 0, "etcd", 0
	r.Namespace, r.IgnoredNamespaces = "a", []string{"b"}
	u.EvictionTolerance, u.RateLimit, u.RateBurst = 2, 1, 0
	a.ByURL, a.MinTLSVersion, a.Labels, a.TimeoutSeconds = true, "tls1_0", "nonsense", 60
	for _, tt := range []struct {
		err  error
		want []string
	}{
		{r.Validate(), []string{"--target-cpu-percentile must be between 0 and 1, got 90", "--recommender-interval", `--storage must be checkpoint or prometheus, got "etcd"`, "--update-worker-count must be at least 1, got 0", "cannot both be set"}},
		{u.Validate(), []string{"--eviction-tolerance must be between 0 and 1, got 2", "--eviction-rate-burst"}},
		{a.Validate(), []string{"--webhook-address", "--min-tls-version", "--webhook-labels", "--webhook-timeout-seconds must be between 1 and 30, got 60"}},
	} {
		for _, w := range tt.want {
			if tt.err == nil || !strings.Contains(tt.err.Error(), w) {
				t.Errorf("error %v does not say %q", tt.err, w)
			}
		}
	}
}

func TestABinaryNamedLikeAComponentIsThatComponent(t *testing.T) {
	tests := map[string]struct{ args, want string }{
		"podfit":               {"/usr/bin/podfit run --v=2", "run --v=2"},
		"upstream's name":      {"/recommender --v=4", "recommender --v=4"},
		"upstream's image":     {"/admission-controller-amd64 --port=1", "admission-controller --port=1"},
		"kubectl plugin":       {"kubectl-podfit version", "version"},
		"updater without args": {"updater", "updater"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(arguments(strings.Fields(tt.args)), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTheRateOfRequestsMayBeWithoutLimitAndInFractions(t *testing.T) {
	c := CommonDefaults()
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	c.Flags(fs)
	if err := fs.Parse([]string{"--kube-api-qps=-1", "--kube-api-burst=150.0"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil || c.QPS != -1 || c.Burst != 150 {
		t.Errorf("%v requests a second, %v at once, %v", c.QPS, c.Burst, err)
	}
	c.QPS, c.Burst = math.NaN(), math.NaN()
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--kube-api-qps") || !strings.Contains(err.Error(), "--kube-api-burst") {
		t.Errorf("what is no number: %v", err)
	}
}
