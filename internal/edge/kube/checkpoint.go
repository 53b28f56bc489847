// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/usage"
)

// annotationWindow keeps what the status of a checkpoint has no room for.
const annotationWindow = "podfit.dev/window"

// A CheckpointKey says what a checkpoint is of. Its object's name does not: autoscaler "a" with container "b-c" and
// autoscaler "a-b" with container "c" would have the same.
type CheckpointKey struct {
	Autoscaler cluster.Key
	Container  string
}

// checkpointObject is a checkpoint as it is read: an unreadable status does not hide whose it is.
type checkpointObject struct {
	Metadata metav1.ObjectMeta                      `json:"metadata"`
	Spec     v1.VerticalPodAutoscalerCheckpointSpec `json:"spec"`
	Status   json.RawMessage                        `json:"status"`
}

func (o *checkpointObject) key() CheckpointKey {
	return CheckpointKey{cluster.Key{Namespace: o.Metadata.Namespace, Name: o.Spec.VPAObjectName}, o.Spec.ContainerName}
}

func (o *checkpointObject) checkpoint() (usage.Checkpoint, error) {
	var s v1.VerticalPodAutoscalerCheckpointStatus
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &s); err != nil {
			return usage.Checkpoint{}, fmt.Errorf("decode checkpoint %s/%s: %w", o.Metadata.Namespace, o.Metadata.Name, err)
		}
	}
	// An annotation that is not ours to read is as good as none.
	extra, err := base64.StdEncoding.DecodeString(o.Metadata.Annotations[annotationWindow])
	if err != nil {
		extra = nil
	}
	return usage.Checkpoint{
		Updated:     utc(s.LastUpdateTime),
		Version:     s.Version,
		CPU:         loadHistogram(&s.CPUHistogram),
		Memory:      loadHistogram(&s.MemoryHistogram),
		FirstSample: utc(s.FirstSampleStart),
		LastSample:  utc(s.LastSampleStart),
		Samples:     s.TotalSamplesCount,
		Extra:       extra,
	}, nil
}

func checkpointStatus(c *usage.Checkpoint) v1.VerticalPodAutoscalerCheckpointStatus {
	return v1.VerticalPodAutoscalerCheckpointStatus{
		LastUpdateTime:    stored(c.Updated),
		Version:           c.Version,
		CPUHistogram:      storeHistogram(&c.CPU),
		MemoryHistogram:   storeHistogram(&c.Memory),
		FirstSampleStart:  stored(c.FirstSample),
		LastSampleStart:   stored(c.LastSample),
		TotalSamplesCount: c.Samples,
	}
}

func checkpointAnnotation(c *usage.Checkpoint) string {
	return base64.StdEncoding.EncodeToString(c.Extra)
}

func loadHistogram(h *v1.HistogramCheckpoint) histogram.Checkpoint {
	return histogram.Checkpoint{Reference: utc(h.ReferenceTimestamp), Weights: h.BucketWeights, Total: h.TotalWeight}
}

func storeHistogram(h *histogram.Checkpoint) v1.HistogramCheckpoint {
	return v1.HistogramCheckpoint{ReferenceTimestamp: stored(h.Reference), BucketWeights: h.Weights, TotalWeight: h.Total}
}

func stored(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t)
}
