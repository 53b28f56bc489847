// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"regexp"
	"testing"
)

func TestOwnerByName_generatedPodNames_giveWorkload(t *testing.T) {
	for pod, want := range map[string]string{
		"web-7d4b9c6f5d-x2k9p":       "shop/Deployment/web",
		"web-api-7d4b9c6f5d-x2k9p":   "shop/Deployment/web-api",
		"db-12":                      "shop/StatefulSet/db",
		"log-x2k9p":                  "shop/DaemonSet/log",
		"report-28391040-x2k9p":      "shop/CronJob/report",
		"alone":                      "shop/Pod/alone",
		"with-vowels-aeiou-aeiouaei": "shop/Pod/with-vowels-aeiou-aeiouaei",
	} {
		if got := OwnerByName(Key{Namespace: "shop", Name: pod}).String(); got != want {
			t.Errorf("pod %s: got workload %s, want %s", pod, got, want)
		}
	}
}

func TestPodNames_workload_matchesItsPodsOnly(t *testing.T) {
	pod := func(name string) *Pod { return &Pod{Key: Key{Namespace: "shop", Name: name}} }
	for _, tt := range []struct {
		kind, name string
		live       []*Pod
		match      []string
		others     []string
	}{
		{"Deployment", "web", nil, []string{"web-7d4b9c6f5d-x2k9b"}, []string{"web", "web-api-7d4b9c6f5d-x2k9b", "my-web-7d4b9c6f5d-x2k9b", "web-0", "web-x2k9b"}},
		{"StatefulSet", "db", nil, []string{"db-0", "db-17"}, []string{"db-a", "db-0-1", "mydb-0"}},
		{"DaemonSet", "log", nil, []string{"log-x2k9b"}, []string{"log-7d4b9c6f5d-x2k9b"}},
		{"CronJob", "job", nil, []string{"job-28512345-x2k9b"}, []string{"job-x2k9b"}},
		{"Rollout", "web", []*Pod{pod("web-7d4b9c6f5d-x2k9b")}, []string{"web-7d4b9c6f5d-zzzzz"}, []string{"web-0"}},
		{"Game", "go", []*Pod{pod("lobby.1")}, []string{"lobby.1"}, []string{"lobby-1", "lobby.12"}},
		{"Pod", "tool", []*Pod{pod("tool")}, []string{"tool"}, []string{"tool-1"}},
		{"Deployment", "a.b*", nil, []string{"a.b*-7d4b9c6f5d-x2k9b"}, []string{"axb-7d4b9c6f5d-x2k9b"}},
	} {
		names := regexp.MustCompile("^(?:" + PodNames(Workload{Kind: tt.kind, Namespace: "shop", Name: tt.name}, tt.live) + ")$")
		for _, name := range tt.match {
			if !names.MatchString(name) {
				t.Errorf("%s %s: %s does not match %s", tt.kind, tt.name, name, names)
			}
		}
		for _, name := range tt.others {
			if names.MatchString(name) {
				t.Errorf("%s %s: %s matches %s", tt.kind, tt.name, name, names)
			}
		}
	}
	var many []*Pod
	for i := range 10_000 {
		many = append(many, pod(fmt.Sprintf("game.%d", i)))
	}
	if got := PodNames(Workload{Kind: "Game", Name: "go"}, many); len(got) > maxPodNames*3/2 {
		t.Errorf("%d bytes", len(got))
	}
	if got := PodNames(Workload{Kind: "Game", Name: "go"}, nil); got != "" {
		t.Errorf("got %s without pods", got)
	}
}
