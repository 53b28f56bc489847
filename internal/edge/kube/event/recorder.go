// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package event sends the Kubernetes events of the updater, with upstream's reasons and texts, and reads events for explanations and the web
// page. It does not decide which events are sent.
package event

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// Source is the component of events. It has upstream's name, because users and tools filter by it.
const Source = "vpa-updater"

// The reasons of events that upstream has, too.
const (
	EvictedByVPA         = "EvictedByVPA"
	EvictedPod           = "EvictedPod"
	InPlaceResizedByVPA  = "InPlaceResizedByVPA"
	InPlaceResizeSkipped = "InPlaceResizeSkipped"
)

// The reasons of events that only podfit has. The first two are of warnings.
const (
	InvalidAnnotation  = "InvalidAnnotation"
	Reverted           = "RecommendationReverted"
	UpdateHeld         = "UpdateHeld"
	ReplacementMissing = "ReplacementMissing"
	ResizeRefused      = "ResizeRefused"
	NotAutoscaled      = "NotAutoscaled"
	OOMRescued         = "OOMRescue"
	Surge              = "Surge"
)

// A Recorder sends Kubernetes events about changes, with upstream's texts. A goroutine of client-go sends them. Events that cannot be
// sent are dropped.
type Recorder struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// NewRecorder returns a Recorder. Stop ends it.
func NewRecorder(c *kube.Clients) *Recorder {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.Events.CoreV1().Events("")})
	return &Recorder{
		broadcaster: b,
		recorder:    b.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: Source}),
	}
}

// Stop sends the queued events and ends.
func (r *Recorder) Stop() { r.broadcaster.Shutdown() }

// Evicted sends events about an evicted pod to the pod and its autoscaler.
func (r *Recorder) Evicted(p *cluster.Pod, a *cluster.Autoscaler) {
	r.Pod(p, EvictedByVPA, "Pod was evicted by VPA Updater to apply resource recommendation.")
	r.Autoscaler(a, EvictedPod, "VPA Updater evicted Pod "+p.Name+" to apply resource recommendation.")
}

// Resized sends an event about a pod that was resized in place.
func (r *Recorder) Resized(p *cluster.Pod) {
	r.Pod(p, InPlaceResizedByVPA, "Pod was resized in place by VPA Updater.")
}

// ResizeSkipped sends an event about a pod that is not resized, because a resize to a smaller size was infeasible on its node.
func (r *Recorder) ResizeSkipped(p *cluster.Pod) {
	r.Pod(p, InPlaceResizeSkipped,
		"Previously recorded in-place update was infeasible, current recommendation is not lower than previous, skipping resize")
}

// Pod sends an event about a pod.
func (r *Recorder) Pod(p *cluster.Pod, reason, message string) {
	r.recorder.Event(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID),
	}, corev1.EventTypeNormal, reason, message)
}

// Autoscaler sends an event about an autoscaler.
func (r *Recorder) Autoscaler(a *cluster.Autoscaler, reason, message string) {
	r.recorder.Event(&corev1.ObjectReference{
		APIVersion: v1.GroupVersion().String(), Kind: "VerticalPodAutoscaler",
		Namespace: a.Namespace, Name: a.Name, UID: types.UID(a.UID),
	}, typeOf(reason), reason, message)
}

// typeOf returns the type of an event about an autoscaler.
func typeOf(reason string) string {
	if reason == InvalidAnnotation || reason == Reverted {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
