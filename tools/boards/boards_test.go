// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGenerate_boards_matchTheFilesOfTheRepository(t *testing.T) {
	dir := t.TempDir()
	if err := generate(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"overview", "workload", "operations", "capacity"} {
		got, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, folder := range []string{"deploy/monitoring/boards", "deploy/chart/files/monitoring/boards"} {
			want, err := os.ReadFile(filepath.Join("..", "..", folder, name+".json"))
			if err != nil || string(got) != string(want) {
				t.Errorf("%s/%s.json is out of date (%v); run make generate", folder, name, err)
			}
		}
	}
}

func TestCheck_unknownMetric_isReported(t *testing.T) {
	for expr, wrong := range map[string]bool{
		"sum(podfit_leader)": false,
		"rate(vpa_updater_execution_latency_seconds_bucket[5m])": false,
		"max by (vpa_size_log2) (up)":                            false,
		"sum(podfit_leaders_total)":                              true,
		"rate(vpa_updater_evicted_total[5m])":                    true,
	} {
		b := board{name: "b", rows: []row{{"r", []panel{{title: "p", queries: []query{{expr, ""}}}}}}}
		if err := b.check(registered()); (err != nil) != wrong || wrong && !strings.Contains(err.Error(), "board b, panel \"p\"") {
			t.Errorf("%s: %v", expr, err)
		}
	}
}
