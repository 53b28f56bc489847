// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package event sends the Kubernetes events of the updater, with upstream's reasons and texts, and reads events for explanations and the web
// page. It does not decide which events are sent.
package event

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
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
	b.StartRecordingToSink(sink{&typedcorev1.EventSinkImpl{Interface: c.Events.CoreV1().Events("")}})
	return &Recorder{broadcaster: b, recorder: b.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: Source})}
}

// A sink sends the annotations of an event also if it stands for several: client-go patches only the count and the time then, so that the
// annotations would be those of the first one.
type sink struct{ record.EventSink }

// Patch implements record.EventSink.
func (s sink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	var patch map[string]any
	if len(e.Annotations) > 0 && json.Unmarshal(data, &patch) == nil {
		patch["metadata"] = map[string]any{"annotations": e.Annotations}
		with, err := json.Marshal(patch)
		if err != nil {
			return nil, err
		}
		data = with
	}
	return s.EventSink.Patch(e, data)
}

// Stop sends the queued events and ends.
func (r *Recorder) Stop() { r.broadcaster.Shutdown() }

// Changed sends an event about a change that was carried out to the pod, and about an eviction to the autoscaler, too.
func (r *Recorder) Changed(d *decision.Decision) {
	switch d.Do {
	case decision.Evict:
		r.changed(d, EvictedByVPA, "Pod was evicted by VPA Updater to apply resource recommendation.")
		r.Autoscaler(d.Autoscaler, EvictedPod, "VPA Updater evicted Pod "+d.Pod.Name+" to apply resource recommendation.")
	case decision.Delete:
		r.changed(d, OOMRescued, "Pod was deleted by podfit to give it more memory. "+d.Reason.String())
	case decision.Surge:
		r.changed(d, Surge, "The Deployment has one replica more, and the pod is removed when all others are ready. "+d.Reason.String())
	case decision.Resize, decision.Leave:
		r.changed(d, InPlaceResizedByVPA, "Pod was resized in place by VPA Updater.")
	}
}

// changed sends an event with the reason and the amounts as annotations.
func (r *Recorder) changed(d *decision.Decision, reason, message string) {
	r.recorder.AnnotatedEventf(referenceTo(d.Pod), annotationsOf(d), corev1.EventTypeNormal, reason, "%s", message)
}

// ResizeSkipped sends an event about a pod that is not resized, because a resize to a smaller size was infeasible on its node.
func (r *Recorder) ResizeSkipped(p *cluster.Pod) {
	r.Pod(p, InPlaceResizeSkipped,
		"Previously recorded in-place update was infeasible, current recommendation is not lower than previous, skipping resize")
}

// Pod sends an event about a pod.
func (r *Recorder) Pod(p *cluster.Pod, reason, message string) {
	r.recorder.Event(referenceTo(p), corev1.EventTypeNormal, reason, message)
}

func referenceTo(p *cluster.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID)}
}

// Autoscaler sends an event about an autoscaler.
func (r *Recorder) Autoscaler(a *cluster.Autoscaler, reason, message string) {
	r.recorder.Event(&corev1.ObjectReference{
		APIVersion: v1.GroupVersion().String(), Kind: "VerticalPodAutoscaler",
		Namespace: a.Namespace, Name: a.Name, UID: types.UID(a.UID),
	}, typeOf(reason), reason, message)
}

func typeOf(reason string) string {
	if reason == InvalidAnnotation || reason == Reverted {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
