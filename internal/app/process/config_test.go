// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestGates_upstreamSyntax_isParsed(t *testing.T) {
	tests := map[string]struct {
		text string
		on   []string
		off  []string
		err  string
	}{
		"none":                  {text: "", off: []string{InPlaceGate, PerVPAConfig, CPUStartupBoost}},
		"one":                   {text: "InPlace=true", on: []string{InPlaceGate}, off: []string{PerVPAConfig}},
		"all alpha":             {text: "AllAlpha=true", on: []string{InPlaceGate, PerVPAConfig, CPUStartupBoost}},
		"all alpha but one":     {text: "AllAlpha=true,PerVPAConfig=false", on: []string{InPlaceGate}, off: []string{PerVPAConfig}},
		"graduated gate":        {text: "InPlaceOrRecreate=true"},
		"graduated gate off":    {text: "InPlaceOrRecreate=false", err: "cannot be disabled"},
		"unknown":               {text: "Nonsense=true", err: `unknown feature gate "Nonsense"; known gates are`},
		"without a value":       {text: "InPlace", err: `must be NAME=true or NAME=false, got "InPlace"`},
		"with an invalid value": {text: "InPlace=maybe", err: `must be true or false, got "maybe"`},
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

func TestCommon_negativeQPSAndFractionalBurst_areAccepted(t *testing.T) {
	c := CommonDefaults()
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	c.Flags(fs)
	if err := fs.Parse([]string{"--kube-api-qps=-1", "--kube-api-burst=150.0"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil || c.QPS != -1 || c.Burst != 150 {
		t.Errorf("got QPS %v, burst %v, error %v; want -1, 150, none", c.QPS, c.Burst, err)
	}
	c.QPS, c.Burst = math.NaN(), math.NaN()
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--kube-api-qps") || !strings.Contains(err.Error(), "--kube-api-burst") {
		t.Errorf("QPS and burst are NaN: got error %v, want one that names both flags", err)
	}
}

func TestFlags_deprecated_logWarning(t *testing.T) {
	for flag, want := range map[string]string{
		"--min-checkpoints=5": "--update-worker-count", "--min-checkpoints=10": "", "--humanize-memory": "--round-memory-bytes", "--humanize-memory=false": "",
	} {
		var out bytes.Buffer
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		fs.Int("min-checkpoints", 10, "")
		fs.Bool("humanize-memory", false, "")
		if err := fs.Parse([]string{flag}); err != nil {
			t.Fatal(err)
		}
		warnOfDeprecated(slog.New(slog.NewTextHandler(&out, nil)), fs)
		if want == "" && out.Len() > 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%s: logged %q, want %q", flag, out.String(), want)
		}
	}
}

// given parses flags into a configuration that has its defaults.
func given[C Settings](t *testing.T, c C, args ...string) C {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.SetNormalizeFunc(Dashes)
	c.Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

func commonGiven(t *testing.T, args ...string) Common {
	t.Helper()
	c := CommonDefaults()
	return *given(t, &c, args...)
}

func electionGiven(t *testing.T, args ...string) Election {
	t.Helper()
	e := ElectionDefaults("test")
	return *given(t, &e, args...)
}
