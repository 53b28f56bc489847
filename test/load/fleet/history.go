// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	vpa "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/load/apiserver"
)

// The histograms of checkpoints: the start of the second bucket, in cores or bytes, and how much larger each bucket is than the one before.
const (
	firstCPUBucket    = 0.01
	firstMemoryBucket = 1e7
	bucketRatio       = 1.05
	heaviest          = 10000 // the largest weight in a checkpoint
	halfLife          = 24 * time.Hour
)

// bucket returns the index of the bucket of a value.
func bucket(value, first float64) int {
	if value < first {
		return 0
	}
	return int(math.Log(value*(bucketRatio-1)/first+1) / math.Log(bucketRatio))
}

// checkpoint returns what a recommender has stored about a container after the time of History, in upstream's format.
func (f *Fleet) checkpoint(w *workload, container int, name string) *vpa.VerticalPodAutoscalerCheckpoint {
	cpu, memory := make(map[int]float64), make(map[int]float64)
	pod := &apiserver.Object{Name: w.name, Labels: w.labels()}
	peak := 0.0
	for minute := range 60 {
		nanocores, bytes := f.Usage(pod, container, time.Unix(int64(minute)*60, 0))
		cpu[bucket(float64(nanocores)/1e9, firstCPUBucket)]++
		peak = max(peak, float64(bytes))
	}
	memory[bucket(peak, firstMemoryBucket)] = 1
	// The weights of all samples, of which those of a half-life ago count half.
	halfLives := 1 / math.Ln2 * (1 - math.Exp2(-f.History.Hours()/halfLife.Hours()))
	pods := float64(w.pods)
	cores := max(0.1, float64(w.requests[container].millicores)/1000)
	last := f.started.Add(-time.Minute)
	return &vpa.VerticalPodAutoscalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.name + "-" + name},
		Spec:       vpa.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: w.name, ContainerName: name},
		Status: vpa.VerticalPodAutoscalerCheckpointStatus{
			LastUpdateTime: metav1.NewTime(last), Version: "v3",
			CPUHistogram:     histogram(cpu, pods*halfLives*halfLife.Minutes()*cores, last),
			MemoryHistogram:  histogram(memory, pods*halfLives, last),
			FirstSampleStart: metav1.NewTime(last.Add(-f.History)), LastSampleStart: metav1.NewTime(last),
			TotalSamplesCount: int(f.History.Minutes()) * w.pods,
		},
	}
}

// histogram returns the stored form of a histogram with a total weight.
func histogram(weights map[int]float64, total float64, at time.Time) vpa.HistogramCheckpoint {
	out := vpa.HistogramCheckpoint{ReferenceTimestamp: metav1.NewTime(at.Truncate(halfLife)), TotalWeight: total, BucketWeights: make(map[int]uint32)}
	most := 0.0
	for v := range maps.Values(weights) {
		most = max(most, v)
	}
	for i, v := range weights {
		out.BucketWeights[i] = max(1, uint32(v/most*heaviest))
	}
	return out
}
