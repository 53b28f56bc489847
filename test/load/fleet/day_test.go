// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"reflect"
	"testing"
	"time"

	"podfit.dev/podfit/test/load/apiserver"
)

func TestDay_severalDays_haveTheSameSizeAndNewNames(t *testing.T) {
	f := New(Config{Workloads: 60, Pods: 3, Seed: 1, History: time.Hour, Varied: true})
	s := apiserver.Start(apiserver.Options{})
	t.Cleanup(f.Stop)
	t.Cleanup(s.Stop)
	f.Fill(s)
	before := f.Live()
	names := map[string]bool{}
	for _, o := range s.List("autoscaling.k8s.io/verticalpodautoscalers", "") {
		names[o.Namespace+"/"+o.Name] = true
	}
	for day := 1; day <= 3; day++ {
		if err := f.Day(t.Context(), day, time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	after := f.Live()
	if after.Created < 2*before.Created {
		t.Errorf("%d containers so far, and %d before: each namespace was replaced", after.Created, before.Created)
	}
	after.Created = before.Created
	if !reflect.DeepEqual(before, after) || after.Workloads != 60 || after.Profiled != 15 {
		t.Errorf("%+v live workloads before, %+v after", before, after)
	}
	renewed := 0
	autoscalers := s.List("autoscaling.k8s.io/verticalpodautoscalers", "")
	for _, o := range autoscalers {
		if !names[o.Namespace+"/"+o.Name] {
			renewed++
		}
	}
	if len(autoscalers) != 60 || renewed < 60 {
		t.Errorf("%d VPAs, of which %d are new, want 60 and all: each namespace was replaced", len(autoscalers), renewed)
	}
	if n := len(s.List("/pods", "")); n != 180 {
		t.Errorf("%d pods, want 180", n)
	}
	if n := len(s.List("apps/replicasets", "")); n != 42 {
		t.Errorf("%d ReplicaSets, want one for each of 42 Deployments", n)
	}
}
