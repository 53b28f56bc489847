// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/prom"
)

// archive is a fake Prometheus with one sample per hour and pod for eight days.
type archive struct {
	labels   map[cluster.Key]prom.Labels
	pods     []cluster.Key
	failures int // number of queries that fail after a part of the samples
	selector string
	broken   map[string]error // by namespace
	hangs    bool             // like a server that accepts connections and does not answer
	delay    time.Duration    // of each query
	queries  int              // of namespaces
}

const archiveTimeout = 5 * time.Minute // --prometheus-query-timeout

func (a *archive) Length() time.Duration { return 8 * 24 * time.Hour }

// wait returns when a query has ended, or an error if it timed out.
func (a *archive) wait(ctx context.Context) error {
	d := a.delay
	if a.hangs {
		d = time.Hour
	}
	ctx, cancel := context.WithTimeout(ctx, archiveTimeout)
	defer cancel()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (a *archive) PodLabels(ctx context.Context, _ time.Time) (map[cluster.Key]prom.Labels, error) {
	if err := a.wait(ctx); err != nil {
		return nil, err
	}
	if a.labels == nil {
		return nil, errors.New("no such metric")
	}
	return a.labels, nil
}

// readAll reads samples up to the first error and returns the error.
func readAll(samples iter.Seq2[usage.Sample, error]) error {
	for _, err := range samples {
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *archive) PeaksSince(context.Context, string, time.Time, time.Time) iter.Seq2[usage.Sample, error] {
	return func(func(usage.Sample, error) bool) {}
}

func (a *archive) HistorySince(ctx context.Context, namespace string, from, now time.Time) iter.Seq2[usage.Sample, error] {
	return func(yield func(usage.Sample, error) bool) {
		a.queries++
		if err := a.wait(ctx); err != nil {
			yield(usage.Sample{}, err)
			return
		}
		if err := a.broken[namespace]; err != nil {
			yield(usage.Sample{}, err)
			return
		}
		for h := range 8 * 24 {
			if h == 100 && a.failures > 0 {
				a.failures--
				yield(usage.Sample{}, errors.New("timed out"))
				return
			}
			at := now.Add(time.Duration(h-8*24) * time.Hour)
			if at.Before(from) {
				continue
			}
			for _, p := range a.pods {
				if !yield(usage.Sample{Pod: p, Container: "app", At: at, CPU: 0.3, Memory: 200 << 20, Has: cluster.Both}, nil) {
					return
				}
			}
		}
	}
}

func (a *archive) Selector(context.Context, cluster.Workload) (labels.Selector, error) {
	if a.selector == "" {
		return labels.Nothing(), nil
	}
	return labels.Parse(a.selector)
}

func TestBackfill_historyOfDeletedPods_isAddedToTheirWorkload(t *testing.T) {
	gone := cluster.Key{Namespace: "shop", Name: "web-6d4cf56db6-x7k9p"}
	tests := map[string]struct {
		archive archive
		want    bool
	}{
		"an existing pod": {archive{pods: []cluster.Key{{Namespace: "shop", Name: "web-0"}}}, true},
		"by its name":     {archive{pods: []cluster.Key{gone}}, true},
		"by its labels":   {archive{pods: []cluster.Key{{Namespace: "shop", Name: "odd"}}, selector: "app.kubernetes.io/name=web", labels: map[cluster.Key]prom.Labels{{Namespace: "shop", Name: "odd"}: {"app_kubernetes_io_name": "web"}}}, true},
		"labels of another workload and a matching name": {archive{pods: []cluster.Key{gone}, selector: "app=web", labels: map[cluster.Key]prom.Labels{gone: {"app": "other"}}}, false},
		"name of a pod of another workload":              {archive{pods: []cluster.Key{{Namespace: "shop", Name: "web-api-6d4cf56db6-x7k9p"}}}, false},
		"after two failed queries":                       {archive{pods: []cluster.Key{gone}, failures: 2}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				w := b.deployment("web", 3, "app")
				b.autoscale("web", w)
				b.usageErr = errors.New("away")
				r := b.from(&tt.archive)
				<-r.startBackfill(t.Context(), time.Now())
				r.pass(t.Context(), time.Now())
				got := 0
				if s := r.usageStore.Series(w, "app"); s != nil {
					got = s.Seen(cluster.CPU).Count
				}
				if want := 8 * 24; tt.want && got != want || !tt.want && got != 0 {
					t.Errorf("%d samples were accepted, want all: %t", got, tt.want)
				}
				if tt.want && b.advice("web", "app").Target != cluster.Amounts(350, 262144000) {
					t.Errorf("target %v", b.advice("web", "app").Target)
				}
				if pods, _ := r.usageStore.Size(); pods != 3 {
					t.Errorf("%d pods are tracked in the end, want 3", pods)
				}
			})
		})
	}
}
