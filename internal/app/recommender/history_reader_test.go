// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// fixedHistory returns the same samples for each query, and then an error.
type fixedHistory struct {
	archive
	samples []usage.Sample
	err     error
}

func (h *fixedHistory) HistorySince(_ context.Context, _ string, _, _ time.Time, each func(usage.Sample)) error {
	for _, s := range h.samples {
		each(s)
	}
	return h.err
}

// cpuSample returns a sample of container app.
func cpuSample(pod string, at time.Time) usage.Sample {
	return usage.Sample{Pod: cluster.Key{Namespace: "shop", Name: pod}, Container: "app", At: at, CPU: 1, Has: cluster.Of(cluster.CPU)}
}

func TestHistoryReader_samplesOutsideTheSpan_areIgnored(t *testing.T) {
	job, owners := historyJob(t)
	job.missing = job.missing[:1]
	from, to := job.missing[0].from, job.missing[0].to
	var samples []usage.Sample
	for _, at := range []time.Time{from.Add(-time.Second), from, from.Add(time.Hour), from.Add(time.Hour), to, to.Add(time.Second)} {
		samples = append(samples, cpuSample("web-0", at))
	}
	r := historyReader{owners: owners, job: job, trackedAs: map[podContainer]cluster.Key{}}
	if err := r.read(t.Context(), &fixedHistory{samples: samples}); err != nil {
		t.Fatal(err)
	}
	if r.samples != 4 || r.accepted != 3 || len(job.missing) != 0 {
		t.Errorf("%d samples are read, %d accepted, missing %v; want 4, 3 without the repeated one, and nothing missing", r.samples, r.accepted, job.missing)
	}
}

func TestHistoryReader_queryFailsWithoutSamples_spanStaysMissing(t *testing.T) {
	job, owners := historyJob(t)
	spans := slices.Clone(job.missing)
	r := historyReader{owners: owners, job: job, trackedAs: map[podContainer]cluster.Key{}}
	if err := r.read(t.Context(), &fixedHistory{err: errors.New("bad gateway")}); err == nil {
		t.Error("read returned no error")
	}
	if !slices.Equal(job.missing, spans) {
		t.Errorf("missing %v, want %v", job.missing, spans)
	}
}

// A deleted pod gets a substitute in the store, until the history is read. Existing pods stay tracked.
func TestHistoryReader_deletedPods_areTrackedWhileReading(t *testing.T) {
	job, owners := historyJob(t)
	owners.add(shopCandidate("web", labels.Nothing()))
	from := job.missing[0].from
	r := historyReader{owners: owners, job: job, trackedAs: map[podContainer]cluster.Key{}}
	deleted := cluster.Key{Namespace: "shop", Name: "web-6d4cf56db6-x7k9p"}
	r.observe(cpuSample("web-0", from.Add(time.Minute)))
	r.observe(cpuSample(deleted.Name, from.Add(time.Minute)))
	r.observe(cpuSample("unrelated", from.Add(time.Minute)))
	substitute := r.trackedAs[podContainer{deleted, "app"}]
	if r.samples != 3 || r.accepted != 2 || substitute == deleted || !job.store.Tracked(substitute) {
		t.Errorf("%d samples are read, %d accepted, the deleted pod is tracked as %v; want 3, 2, and a substitute", r.samples, r.accepted, substitute)
	}
	r.end()
	if job.store.Tracked(substitute) || !job.store.Tracked(cluster.Key{Namespace: "shop", Name: "web-0"}) {
		t.Error("after reading: the substitute is tracked, or the existing pod is not")
	}
}
