// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/metrics"
)

// externalAPI is an external metrics API and the API server from which selectors are read.
type externalAPI struct {
	podErrs      map[string]error // by pod
	selectorErrs map[string]error // by workload
	pods         []string         // whose samples were requested
	selectors    []string         // workloads whose selectors were requested
}

func (e *externalAPI) Read(_ context.Context, pod cluster.Key, _ labels.Selector) (metrics.Reading, error) {
	e.pods = append(e.pods, pod.Name)
	if err := e.podErrs[pod.Name]; err != nil {
		return metrics.Reading{}, err
	}
	return metrics.Reading{Samples: []usage.Sample{{Pod: pod, Container: "app"}}}, nil
}

func (e *externalAPI) Selector(_ context.Context, w cluster.Workload) (labels.Selector, error) {
	e.selectors = append(e.selectors, w.Name)
	return labels.Everything(), e.selectorErrs[w.Name]
}

// externalBench returns a cluster with workload "web", which two VPAs reference, and workload "api". Each has two pods.
func externalBench(t *testing.T, api *externalAPI) (*bench, *externalUsage) {
	b := newBench(t)
	web := b.deployment("web", 2, "app")
	b.autoscale("web", web)
	b.autoscale("web-second", web)
	b.autoscale("api", b.deployment("api", 2, "app"))
	b.autoscale("no-target", cluster.Workload{})
	return b, &externalUsage{
		read: api.Read, snapshot: b.Snapshot, selectorOf: api.Selector, serves: func(*cluster.Autoscaler) bool { return true },
		known: map[cluster.Workload]knownSelector{}, health: process.NewHealth(time.Hour),
	}
}

func sampledPods(samples []usage.Sample) string {
	var names []string
	for _, s := range samples {
		names = append(names, s.Pod.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestExternalUsage_requestsFail_otherSamplesAreReturned(t *testing.T) {
	failed := errors.New("internal server error")
	for name, tt := range map[string]struct {
		api   externalAPI
		want  string
		fails bool
	}{
		"no failure":            {want: "api-0 api-1 web-0 web-1"},
		"one pod":               {api: externalAPI{podErrs: map[string]error{"web-0": failed}}, want: "api-0 api-1 web-1"},
		"one selector":          {api: externalAPI{selectorErrs: map[string]error{"web": failed}}, want: "api-0 api-1"},
		"all pods":              {api: externalAPI{podErrs: map[string]error{"web-0": failed, "web-1": failed, "api-0": failed, "api-1": failed}}, fails: true},
		"all selectors":         {api: externalAPI{selectorErrs: map[string]error{"web": failed, "api": failed}}, fails: true},
		"one selector, one pod": {api: externalAPI{selectorErrs: map[string]error{"web": failed}, podErrs: map[string]error{"api-1": failed}}, want: "api-0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, source := externalBench(t, &tt.api)
			samples, err := source.Samples(t.Context())
			if got := sampledPods(samples); got != tt.want || errors.Is(err, failed) != tt.fails {
				t.Errorf("samples of %q, error %v, want %q, an error: %t", got, err, tt.want, tt.fails)
			}
		})
	}
}

func TestExternalUsage_podsNotNeeded_areNotRequested(t *testing.T) {
	api := &externalAPI{}
	b, source := externalBench(t, api)
	b.pods[0].Phase = cluster.Pending
	source.serves = func(a *cluster.Autoscaler) bool { return a.Name != "api" }
	if _, err := source.Samples(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(api.pods, " "); got != "web-1" {
		t.Errorf("requested %q, want only the running pod of the served workload, once", got)
	}
}

func TestExternalUsage_noPodsAndNoFailure_returnsNoError(t *testing.T) {
	b, source := externalBench(t, &externalAPI{})
	b.pods = nil
	if samples, err := source.Samples(t.Context()); len(samples) > 0 || err != nil {
		t.Errorf("%d samples, error %v, want neither", len(samples), err)
	}
}

func TestExternalUsage_selectors_areCachedForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &externalAPI{}
		b, source := externalBench(t, api)
		read := func() string {
			api.selectors = nil
			if _, err := source.Samples(t.Context()); err != nil {
				t.Fatal(err)
			}
			return strings.Join(api.selectors, " ")
		}
		first := read()
		time.Sleep(selectorLife - time.Second)
		second := read()
		time.Sleep(time.Second)
		third := read()
		if first != "api web" || second != "" || third != "api web" {
			t.Errorf("requested the selectors %q, %q, %q, want both, none, both", first, second, third)
		}
		b.autoscalers = b.autoscalers[:2]
		read()
		if len(source.known) != 1 {
			t.Errorf("%d selectors are cached after the VPA of one of two workloads was deleted, want 1", len(source.known))
		}
	})
}
