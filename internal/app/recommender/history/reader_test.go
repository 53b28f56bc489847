// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// cpuSample returns a sample of container app.
func cpuSample(pod string, at time.Time) usage.Sample {
	return usage.Sample{Pod: cluster.Key{Namespace: "shop", Name: pod}, Container: "app", At: at, CPU: 1, Has: cluster.Of(cluster.CPU)}
}

func TestHistoryReader_sampleIsRepeated_isUsedOnce(t *testing.T) {
	job, owners := historyJob()
	at := job.missing[0].from.Add(time.Hour)
	r := historyReader{owners: owners, job: job, trackedAs: map[usage.PodContainer]cluster.Key{}}
	for range 3 {
		r.observe(cpuSample("web-0", at))
	}
	if r.samples != 3 || r.accepted != 1 {
		t.Errorf("%d samples are read and %d accepted, want 3 and 1", r.samples, r.accepted)
	}
}

// A deleted pod gets a substitute in the store, until the history is read. Existing pods stay tracked.
func TestHistoryReader_deletedPods_areTrackedWhileReading(t *testing.T) {
	job, owners := historyJob()
	owners.add(shopCandidate("web", labels.Nothing()))
	from := job.missing[0].from
	r := historyReader{owners: owners, job: job, trackedAs: map[usage.PodContainer]cluster.Key{}}
	deleted := cluster.Key{Namespace: "shop", Name: "web-6d4cf56db6-x7k9p"}
	r.observe(cpuSample("web-0", from.Add(time.Minute)))
	r.observe(cpuSample(deleted.Name, from.Add(time.Minute)))
	r.observe(cpuSample("unrelated", from.Add(time.Minute)))
	substitute := r.trackedAs[usage.PodContainer{Pod: deleted, Container: "app"}]
	if r.samples != 3 || r.accepted != 2 || substitute == deleted || !job.store.Tracked(substitute) {
		t.Errorf("%d samples are read, %d accepted, the deleted pod is tracked as %v; want 3, 2, and a substitute", r.samples, r.accepted, substitute)
	}
	r.end()
	if job.store.Tracked(substitute) || !job.store.Tracked(cluster.Key{Namespace: "shop", Name: "web-0"}) {
		t.Error("after reading: the substitute is tracked, or the existing pod is not")
	}
}
