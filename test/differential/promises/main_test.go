// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestRun_figures_haveAVerdictForEachPromise(t *testing.T) {
	report := func(trace, memory, ratio, short, free string) string {
		return `{"trace":"` + trace + `","nodes":[{"node":{"cpu":16,"memory":` + memory + `,"replicas":8},"recommenders":[
			{"recommender":"default","nodes":10,"ratio":1},
			{"recommender":"packed (64.0 GiB)","nodes":6.2,"ratio":` + ratio + short + free + `}]}]}`
	}
	const large, small = "68719476736", "17179869184"
	for name, c := range map[string]struct {
		report string
		kept   bool
		want   string
	}{
		"all kept":             {report("a/bitbrains.csv.gz", large, "0.62", `,"short":0.005`, `,"kill_free_peaks":0.993`), true, "at most 0.62 of the nodes of default, got 0.620: kept"},
		"too many nodes":       {report("a/bitbrains.csv.gz", large, "0.63", `,"short":0.005`, `,"kill_free_peaks":0.993`), false, "got 0.630: NOT KEPT"},
		"another set":          {report("b.csv", large, "0.63", `,"short":0.005`, `,"kill_free_peaks":0.993`), true, "at most 0.65 of the nodes"},
		"no ratio is promised": {report("b.csv", small, "0.9", `,"short":0.005`, `,"kill_free_peaks":0.993`), true, "16 GiB, 16 cores: at most 0.5 % of the node-days"},
		"short":                {report("b.csv", small, "0.6", `,"short":0.0056`, `,"kill_free_peaks":0.993`), false, "short, got 0.56 %: NOT KEPT"},
		"kills":                {report("b.csv", small, "0.6", `,"short":0.005`, `,"kill_free_peaks":0.99`), false, "kill-free, got 99.00 %: NOT KEPT"},
		"not known":            {report("b.csv", small, "0.6", "", ""), false, "short, got –: NOT KEPT"},
	} {
		var out strings.Builder
		kept, err := run(strings.NewReader(c.report), &out)
		if err != nil || kept != c.kept || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: kept %t, error %v, output\n%s\nwant %t and %q", name, kept, err, out.String(), c.kept, c.want)
		}
	}
}

func TestRun_withoutFigures_isAnError(t *testing.T) {
	for _, text := range []string{`{`, `{"trace":"x"}`, `{"nodes":[{"recommenders":[{"recommender":"default"}]}]}`} {
		if kept, err := run(strings.NewReader(text), new(strings.Builder)); err == nil || kept {
			t.Errorf("%s: kept %t, error %v; want an error", text, kept, err)
		}
	}
}
