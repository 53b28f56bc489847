// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/packing"
)

func TestBacktest_nodes_countsThoseThatTheRequestsNeed(t *testing.T) {
	trace := writeTrace(t, 3, 12)
	var got struct {
		Nodes []packing.Report `json:"nodes"`
	}
	out, _ := runBacktest(t, "--trace", trace, "--recommenders", "default,packed", "--nodes", "memory=8Gi,cpu=4,pods=20,replicas=4", "-o", "json")
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if want := (packing.Shape{CPU: 4, Memory: 8 << 30, Pods: 20, Copies: 4, OnNode: 1}); len(got.Nodes) != 1 || got.Nodes[0].Shape != want || got.Nodes[0].Pods != 12 {
		t.Fatalf("got %+v, want 12 pods on nodes of %+v", got.Nodes, want)
	}
	if r := got.Nodes[0].Results; len(r) != 2 || r[0].Recommender != "default" || r[0].Ratio != 1 || r[0].NodeDays != 6 || r[1].Nodes != 3 {
		t.Errorf("got %+v, want 2 nodes a day with default, and 3 with packed", r)
	}
	const nodes = "memory=8Gi,cpu=4,pods=20,replicas=4"
	shared, _ := runBacktest(t, "--trace", trace, "--recommenders", "default,packed", "--nodes", nodes)
	if want := "packed assumes 1 pod of a workload on a node, but half of the nodes have at least 2. In a cluster podfit counts these pods, and requests more: add copies=2 to --nodes"; !strings.Contains(strings.Join(strings.Fields(shared), " "), want) {
		t.Errorf("it is not said that a cluster counts the pods of a workload on a node:\n%s", shared)
	}
	counted := nodesOf(t, "--trace", trace, "--recommenders", "default,packed", "--nodes", nodes, "--nodes", nodes+",copies=2")
	if len(counted) != 2 || len(counted[1].Results) != 2 || counted[0].Results[1].Copies != 2 || counted[1].Results[1].Copies != 0 || counted[1].Results[1].Recommender != "packed (8.00 GiB) × 2" {
		t.Errorf("with copies=2 beside copies=1: %+v", counted)
	}
	for _, format := range []string{"table", "html"} {
		out, _ := runBacktest(t, "--trace", trace, "--recommenders", "default,packed", "--nodes", "memory=8Gi,cpu=4,pods=20,replicas=4", "-o", format)
		if want := "nodes of 8.00 GiB, 4.00 cores and 20 pods, for 12 pods (4 replicas of each) on 3 days"; !strings.Contains(out, want) {
			t.Errorf("%s does not say %q:\n%s", format, want, out)
		}
	}
}

// nodesOf returns the figures of nodes that a backtest writes.
func nodesOf(t *testing.T, args ...string) []packing.Report {
	t.Helper()
	var got struct {
		Nodes []packing.Report `json:"nodes"`
	}
	out, _ := runBacktest(t, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	return got.Nodes
}

// Several sizes in one run have the same figures as each of them alone. The profile packed has other requests for each of them.
func TestBacktest_severalSizesOfNodes_eachHasTheFiguresOfItsOwnRun(t *testing.T) {
	args := []string{"--trace", writeTrace(t, 3, 12), "--recommenders", "default,packed,balanced"}
	sizes := []string{"memory=8Gi,cpu=4,replicas=4", "memory=16Gi,cpu=4,replicas=4", "memory=16Gi,cpu=2"}
	all := slices.Clone(args)
	for _, size := range sizes {
		all = append(all, "--nodes", size)
	}
	together := nodesOf(t, all...)
	if len(together) != len(sizes) {
		t.Fatalf("%d reports, want %d", len(together), len(sizes))
	}
	for i, size := range sizes {
		alone := nodesOf(t, append(slices.Clone(args), "--nodes", size)...)[0]
		if name := together[i].Results[1].Recommender; name != []string{"packed (8.00 GiB)", "packed (16.0 GiB)", "packed (16.0 GiB)"}[i] {
			t.Errorf("the second recommender for %s is %q", size, name)
		}
		together[i].Results[1].Recommender = "packed"
		if !reflect.DeepEqual(together[i], alone) {
			t.Errorf("%s: got %+v, alone %+v", size, together[i], alone)
		}
	}
	for _, format := range []string{"wide", "html"} {
		out, _ := runBacktest(t, append(slices.Clone(all), "-o", format)...)
		if n := strings.Count(out, "for 12 pods (4 replicas of each) on 3 days"); n != 2 {
			t.Errorf("%s describes the nodes of %d sizes, want 2:\n%s", format, n, out)
		}
	}
}

// A profile from a file sizes pods for the nodes, too. Its rule for limits decides which kills it sees, and it has figures for both limits.
func TestBacktest_nodesWithProfileFromFile_isSizedForThem(t *testing.T) {
	trace := writeTrace(t, 3, 12)
	profiles := "default,packed"
	for _, rule := range []string{"peaks", "keep", "proportional"} {
		file := filepath.Join(t.TempDir(), rule+".yaml")
		text := "apiVersion: podfit.dev/v1alpha1\nkind: SizingProfile\nmetadata: {name: by-" + rule + "}\nspec: {base: packed, limits: {memory: " + rule + "}}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		profiles += "," + file
	}
	r := nodesOf(t, "--trace", trace, "--recommenders", profiles, "--nodes", "memory=8Gi,cpu=4,replicas=4")[0].Results
	if len(r) != 5 || r[2].Recommender != "by-peaks" || r[3].Recommender != "by-keep" {
		t.Fatalf("got %+v", r)
	}
	for _, x := range []packing.Result{r[0], r[1], r[2], r[4]} {
		if x.KillFreeProportional == nil || x.KillFreePeaks == nil || *x.KillFreePeaks != *r[0].KillFreePeaks {
			t.Errorf("%s: kill-free %v and %v, want both, and the same by peaks as for default", x.Recommender, x.KillFreeProportional, x.KillFreePeaks)
		}
	}
	if keep := &r[3]; keep.KillFreeProportional != nil || keep.KillFreePeaks != nil || keep.Nodes != r[2].Nodes {
		t.Errorf("got %+v with the rule keep, want the nodes of peaks, and no part without kills: a trace does not have the limits of the pods", keep)
	}
	r[2].Recommender = "packed"
	if !reflect.DeepEqual(r[1], r[2]) {
		t.Errorf("got %+v for the profile from the file, want those of packed: %+v", r[2], r[1])
	}
}

// Without a pod after the learning days there are no figures, and no division by 0.
func TestBacktest_nodesOfAShortTrace_areNotCounted(t *testing.T) {
	for days, want := range map[int]int{6: 0, 9: 0} {
		out, _ := runBacktest(t, "--trace", writeTrace(t, 1, days), "--recommenders", "default", "--nodes", onNodes, "-o", "json")
		var got struct {
			Nodes []packing.Report `json:"nodes"`
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Nodes) != 1 || len(got.Nodes[0].Results) != want {
			t.Errorf("%d days: %+v, error %v; want no figures", days, got.Nodes, err)
		}
	}
}

func TestShape_anyFlag_isReadOrRefusedWithAnExample(t *testing.T) {
	for flag, want := range map[string]packing.Shape{
		"memory=64Gi,cpu=16":                     {Memory: 64 << 30, CPU: 16, Pods: 110, Copies: 1, OnNode: 1},
		"cpu=3920m,memory=14G,replicas=8,pods=4": {Memory: 14e9, CPU: 3.92, Pods: 4, Copies: 8, OnNode: 1},
	} {
		if got, err := (&Config{Nodes: []string{flag}}).shapes(); err != nil || !reflect.DeepEqual(got, []packing.Shape{want}) {
			t.Errorf("%s: %+v, error %v; want %+v", flag, got, err, want)
		}
	}
	for _, flag := range []string{
		"memory=64Gi", "cpu=16", "64Gi,16", "memory=0,cpu=1", "memory=-1,cpu=1", "memory=1,cpu=NaN", "memory=1Gi,cpu=1,pods=1.5", "memory=1Gi,cpu=1,replicas=101",
		"memory=1Gi,memory=2Gi,cpu=1", "memory=1Gi,cpu=1,disk=3", "memory=1Gi,cpu=1,", "",
	} {
		if _, err := (&Config{Nodes: []string{flag}}).shapes(); err == nil || !strings.Contains(err.Error(), "memory=64Gi,cpu=16") {
			t.Errorf("%s: error %v, want one with an example", flag, err)
		}
	}
	for want, c := range map[string]*Config{
		"use table, wide, json or html": {Nodes: []string{onNodes}, Output: "csv"},
	} {
		if _, err := c.shapes(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	for nodes, want := range map[string]string{"": "profile packed sizes containers by the size of their node, which is not known; set it, for example with --nodes memory=64Gi,cpu=16", onNodes: ""} {
		c := &Config{Recommenders: []string{"packed"}}
		if nodes != "" {
			c.Nodes = []string{nodes}
		}
		if _, err := c.profiles(); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("nodes %q: error %v, want %q", nodes, err, want)
		}
	}
}
