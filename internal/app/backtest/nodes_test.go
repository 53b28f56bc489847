// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"encoding/json"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/packing"
)

func TestBacktest_nodes_areInEachReport(t *testing.T) {
	trace := writeTrace(t, 6, 11)
	args := []string{"--trace", trace, "--recommenders", "default,balanced", "--nodes", "memory=32Gi,cpu=8,replicas=3", "--nodes", "memory=2Gi,cpu=1", "--output"}
	out, _ := runBacktest(t, append(args, "json")...)
	var got struct{ Nodes []packing.Report }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Nodes) != 2 {
		t.Fatalf("%d sizes of nodes, want 2", len(got.Nodes))
	}
	first := got.Nodes[0]
	if want := (packing.Shape{CPU: 8, Memory: 32 << 30, Pods: 110, Copies: 3}); first.Shape != want || first.Pods != 18 || len(first.LeftOut) != 0 || len(first.Results) != 2 {
		t.Errorf("got %+v", first)
	}
	for _, r := range first.Results {
		if r.Nodes < 1 || r.FirstFit < 3 || r.DayMaximum < r.Nodes || r.RatioFrom > r.Ratio || r.RatioTo < r.Ratio || r.KillFreePeaks <= 0 || r.KillFreePeaks > 1 {
			t.Errorf("got %+v", r)
		}
	}
	table, _ := runBacktest(t, append(args, "wide")...)
	for _, want := range []string{"Nodes of 32.0 GiB and 8.00 cores: 18 pods, 2 days, each pod of the recording 3 times", "Nodes of 2.00 GiB and 1.00 cores", "Left out, because the usage of a pod exceeded half of a node: 5 workloads.", "kill-free"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table has no %q:\n%s", want, table)
		}
	}
	page, _ := runBacktest(t, append(args, "html")...)
	if strings.Count(page, ">node-days short of memory, %") != 2 || !strings.Contains(page, "Nodes of 32.0 GiB") {
		t.Error("the page has no picture or table of nodes")
	}
	if without, _ := runBacktest(t, "--trace", trace, "--recommenders", "default", "--output", "json"); strings.Contains(without, "\"nodes\"") {
		t.Error("without --nodes, the report has nodes")
	}
}

func TestValidate_nodes_namesTheMistake(t *testing.T) {
	for text, want := range map[string]string{
		"memory=64Gi,cpu=16": "", "cpu=500m,memory=1Gi,pods=20,replicas=2": "",
		"":                              "is not a name and an amount",
		"memory=64Gi":                   "memory and cpu are required",
		"memory=64Gi,cpu=x":             "cpu=x is not a name and an amount",
		"memory=64,cpu=16":              "memory=64 is not memory, cpu, pods or replicas",
		"memory=64Gi,cpu=0":             "cpu=0 is not",
		"memory=64Gi,cpu=16,pods=1.5":   "pods=1.5 is not",
		"memory=64Gi,cpu=16,replicas=0": "replicas=0 is not",
		"memory=64Gi,cpu=16,disk=1Gi":   "disk=1Gi is not",
	} {
		c := Defaults()
		c.Trace, c.Nodes = "a.csv", []string{text}
		err := c.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	c := Defaults()
	c.Trace, c.Nodes, c.Output = "a.csv", []string{"memory=64Gi,cpu=16"}, "csv"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "use json") {
		t.Errorf("csv: %v", err)
	}
}
