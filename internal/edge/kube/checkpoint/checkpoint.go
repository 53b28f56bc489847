// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package checkpoint stores usage histograms and model state in the API server and reads them back: histograms in
// VerticalPodAutoscalerCheckpoints, in upstream's format, and the model state of sizing profiles in UsageHistories. It also stores what
// the updater has recorded about its actions, in UpdateStates.
//
// It does not decide what is stored, or when.
package checkpoint

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/changelog"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/usage"
)

// annotationWindow has the state for which the status of a checkpoint has no field.
const annotationWindow = "podfit.dev/window"

// annotationTarget names the workload of a checkpoint: its API group, kind and name, then a space and the lastUpdateTime of the
// status it belongs to. The spec names only the autoscaler, whose target may have changed since.
const annotationTarget = "podfit.dev/target"

// annotationChanges has the last changes of the recommendation of the container.
const annotationChanges = "podfit.dev/changes"

// annotationRuns has the last runs of the container, if it belongs to a Job or CronJob.
const annotationRuns = "podfit.dev/runs"

// annotationProfile names the SizingProfile that sized the VPA when podfit last wrote the checkpoint. It stays when another recommender
// writes the status.
const annotationProfile = "podfit.dev/served-by-profile"

// annotationNode has the smallest node by which a profile for full nodes sizes the workload.
const annotationNode = "podfit.dev/smallest-node"

// A Key identifies a checkpoint. The name of the object does not: autoscaler "a" with container "b-c" and autoscaler
// "a-b" with container "c" would have the same name.
type Key struct {
	Autoscaler cluster.Key
	Container  string
}

// A checkpointObject is a checkpoint whose key can be decoded even if its status cannot.
type checkpointObject struct {
	storedObject[v1.VerticalPodAutoscalerCheckpointSpec]
}

// checkpointTooLarge is the size of an object, in bytes of JSON, above which its status is ignored. Checkpoints of podfit and upstream are
// smaller: annotations have at most 256 KiB together, and the two histograms about 5 KiB.
const checkpointTooLarge = 640 << 10

func (o *checkpointObject) key() (Key, error) { //nolint:unparam // that of a UsageHistory may be invalid
	return Key{cluster.Key{Namespace: o.Metadata.Namespace, Name: o.Spec.VPAObjectName}, o.Spec.ContainerName}, nil
}

func (o *checkpointObject) at() storedAt {
	at := o.storedObject.at()
	at.annotated = len(o.Metadata.Annotations) > 0
	return at
}

func (o *checkpointObject) checkpoint() (usage.Checkpoint, error) {
	var s v1.VerticalPodAutoscalerCheckpointStatus
	if o.size > 0 {
		return usage.Checkpoint{}, fmt.Errorf("checkpoint %[1]s/%[2]s is too large: %[3]d bytes, and at most %[4]d are read. "+
			"Delete it: kubectl delete verticalpodautoscalercheckpoint -n %[1]s %[2]s", o.Metadata.Namespace, o.Metadata.Name, o.size, checkpointTooLarge)
	}
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &s); err != nil {
			return usage.Checkpoint{}, fmt.Errorf("decode checkpoint %s/%s: %w", o.Metadata.Namespace, o.Metadata.Name, err)
		}
	}
	// An invalid annotation counts as absent.
	extra, err := base64.StdEncoding.DecodeString(o.Metadata.Annotations[annotationWindow])
	if err != nil {
		extra = nil
	}
	out := usage.Checkpoint{Profile: o.Metadata.Annotations[annotationProfile], Node: o.Metadata.Annotations[annotationNode], Extra: extra}
	if data, err := base64.StdEncoding.DecodeString(o.Metadata.Annotations[annotationChanges]); err == nil {
		out.Changes, _ = changelog.Decode(data)
	}
	if data, err := base64.StdEncoding.DecodeString(o.Metadata.Annotations[annotationRuns]); err == nil && len(data) > 0 {
		out.Runs = data
	}
	out.Updated = s.LastUpdateTime.UTC()
	out.Version = s.Version
	out.CPU = histogramOf(&s.CPUHistogram)
	out.Memory = histogramOf(&s.MemoryHistogram)
	out.FirstSample = s.FirstSampleStart.UTC()
	out.LastSample = s.LastSampleStart.UTC()
	out.Samples = s.TotalSamplesCount
	out.Workload = o.target(out.Updated)
	return out, nil
}

// target returns the workload of a checkpoint that was written at a time. It is zero if upstream has written the status, because upstream does not store the
// target.
func (o *checkpointObject) target(at time.Time) cluster.Workload {
	target, updated, _ := strings.Cut(o.Metadata.Annotations[annotationTarget], " ")
	parts := strings.SplitN(target, "/", 3)
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" || updated != targetTime(at) {
		return cluster.Workload{}
	}
	return cluster.Workload{Group: parts[0], Kind: parts[1], Namespace: o.Metadata.Namespace, Name: parts[2]}
}

func targetTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func checkpointAnnotations(c *usage.Checkpoint) map[string]string {
	encoded := base64.StdEncoding.EncodeToString
	as := map[string]string{
		annotationWindow: encoded(c.Extra), annotationChanges: encoded(c.Changes.Encode()), annotationRuns: encoded(c.Runs),
		annotationProfile: c.Profile, annotationNode: c.Node,
	}
	if w := c.Workload; !w.IsZero() {
		as[annotationTarget] = w.Group + "/" + w.Kind + "/" + w.Name + " " + targetTime(c.Updated)
	}
	maps.DeleteFunc(as, func(_, value string) bool { return value == "" })
	return as
}

func checkpointStatus(c *usage.Checkpoint) v1.VerticalPodAutoscalerCheckpointStatus {
	return v1.VerticalPodAutoscalerCheckpointStatus{
		LastUpdateTime: metav1.NewTime(c.Updated), Version: c.Version, CPUHistogram: storedHistogram(&c.CPU), MemoryHistogram: storedHistogram(&c.Memory),
		FirstSampleStart: metav1.NewTime(c.FirstSample), LastSampleStart: metav1.NewTime(c.LastSample), TotalSamplesCount: c.Samples,
	}
}

func histogramOf(h *v1.HistogramCheckpoint) histogram.Checkpoint {
	return histogram.Checkpoint{Reference: h.ReferenceTimestamp.UTC(), Weights: h.BucketWeights, Total: h.TotalWeight}
}

func storedHistogram(h *histogram.Checkpoint) v1.HistogramCheckpoint {
	return v1.HistogramCheckpoint{ReferenceTimestamp: metav1.NewTime(h.Reference), BucketWeights: h.Weights, TotalWeight: h.Total}
}
