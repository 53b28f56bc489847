// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/packing"
)

func TestBacktest_nodes_countsThoseThatTheRequestsNeed(t *testing.T) {
	trace := writeTrace(t, 3, 12)
	var got struct {
		Nodes *packing.Report `json:"nodes"`
	}
	out, _ := runBacktest(t, "--trace", trace, "--recommenders", "default,packed", "--nodes", "memory=8Gi,cpu=4,pods=20,replicas=4", "-o", "json")
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if want := (packing.Shape{CPU: 4, Memory: 8 << 30, Pods: 20, Copies: 4}); got.Nodes == nil || got.Nodes.Shape != want || got.Nodes.Pods != 12 {
		t.Fatalf("got %+v, want 12 pods on nodes of %+v", got.Nodes, want)
	}
	if r := got.Nodes.Results; len(r) != 2 || r[0].Recommender != "default" || r[0].Ratio != 1 || r[0].NodeDays != 6 || r[1].Nodes != 3 {
		t.Errorf("got %+v, want 2 nodes a day with default, and 3 with packed", r)
	}
	for _, format := range []string{"table", "html"} {
		out, _ := runBacktest(t, "--trace", trace, "--recommenders", "default,packed", "--nodes", "memory=8Gi,cpu=4,pods=20,replicas=4", "-o", format)
		if want := "nodes of 8.00 GiB, 4.00 cores and 20 pods, for 12 pods (4 replicas of each) on 3 days"; !strings.Contains(out, want) {
			t.Errorf("%s does not say %q:\n%s", format, want, out)
		}
	}
}

// Without a pod after the learning days there are no figures, and no division by 0.
func TestBacktest_nodesOfAShortTrace_areNotCounted(t *testing.T) {
	for days, want := range map[int]int{6: 0, 9: 0} {
		out, _ := runBacktest(t, "--trace", writeTrace(t, 1, days), "--recommenders", "default", "--nodes", onNodes, "-o", "json")
		var got struct {
			Nodes packing.Report `json:"nodes"`
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Nodes.Results) != want {
			t.Errorf("%d days: %+v, error %v; want no figures", days, got.Nodes, err)
		}
	}
}

func TestShape_anyFlag_isReadOrRefusedWithAnExample(t *testing.T) {
	for flag, want := range map[string]packing.Shape{
		"memory=64Gi,cpu=16":                     {Memory: 64 << 30, CPU: 16, Pods: 110, Copies: 1},
		"cpu=3920m,memory=14G,replicas=8,pods=4": {Memory: 14e9, CPU: 3.92, Pods: 4, Copies: 8},
	} {
		if got, err := (&Config{Nodes: flag}).shape(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, error %v; want %+v", flag, got, err, want)
		}
	}
	for _, flag := range []string{
		"memory=64Gi", "cpu=16", "64Gi,16", "memory=0,cpu=1", "memory=-1,cpu=1", "memory=1,cpu=NaN", "memory=1Gi,cpu=1,pods=1.5", "memory=1Gi,cpu=1,replicas=101",
		"memory=1Gi,memory=2Gi,cpu=1", "memory=1Gi,cpu=1,disk=3", "memory=1Gi,cpu=1,",
	} {
		if _, err := (&Config{Nodes: flag}).shape(); err == nil || !strings.Contains(err.Error(), "memory=64Gi,cpu=16") {
			t.Errorf("%s: error %v, want one with an example", flag, err)
		}
	}
	for want, c := range map[string]*Config{
		"--nodes must not be empty":     {Recommenders: []string{"packed"}, given: map[string]bool{"nodes": true}},
		"use table, wide, json or html": {Nodes: onNodes, Output: "csv"},
	} {
		if _, err := c.shape(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	for nodes, want := range map[string]string{"": "profile packed sizes containers by the size of their node, which is not known; set it, for example with --nodes memory=64Gi,cpu=16", onNodes: ""} {
		if _, err := (&Config{Recommenders: []string{"packed"}, Nodes: nodes}).profiles(); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("nodes %q: error %v, want %q", nodes, err, want)
		}
	}
}
