// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package actuation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/utils/ptr"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// maxSurgeBytes bounds the annotation that is read: anyone who may edit the Deployment can write it.
const maxSurgeBytes = 1 << 10

// surgeOf returns the record in an annotation, or nil if it is invalid.
func surgeOf(annotation string) *cluster.Surge {
	if len(annotation) > maxSurgeBytes {
		return nil
	}
	var s cluster.Surge
	if err := json.Unmarshal([]byte(annotation), &s); err != nil || s.Replicas < 1 || s.Replicas == 1<<31-1 || s.UID == "" || !kube.HasJSONForm(s.Deadline) {
		return nil
	}
	return &s
}

// recordOf returns the annotation with the record of a surge.
func recordOf(s cluster.Surge) (string, error) {
	s.Deadline = s.Deadline.UTC().Truncate(time.Second)
	text, err := json.Marshal(s)
	return string(text), err
}

// A DeploymentWriter reads and writes the replicas of Deployments for surges. It does not retry; the caller does.
type DeploymentWriter struct {
	client appsclient.AppsV1Interface
	sender kube.Sender
}

// NewDeploymentWriter returns a DeploymentWriter.
func NewDeploymentWriter(c *kube.Clients) *DeploymentWriter {
	return &DeploymentWriter{client: c.Core.AppsV1()}
}

// Read returns a Deployment as it is now. The error wraps kube.ErrNotFound if it does not exist.
func (w *DeploymentWriter) Read(ctx context.Context, of cluster.Workload) (cluster.Deployment, error) {
	o, err := w.client.Deployments(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		return cluster.Deployment{}, fmt.Errorf("read Deployment %s: %w", of, kube.Refused(err))
	}
	return deploymentOf(of, o), nil
}

func deploymentOf(w cluster.Workload, o *appsv1.Deployment) cluster.Deployment {
	record, recorded := o.Annotations[v1alpha1.AnnotationSurge]
	d := cluster.Deployment{
		Workload: w, UID: string(o.UID), Version: o.ResourceVersion, Replicas: ptr.Deref(o.Spec.Replicas, 1), MinReady: time.Duration(o.Spec.MinReadySeconds) * time.Second,
		Deleting: o.DeletionTimestamp != nil, Owned: metav1.GetControllerOfNoCopy(o) != nil, Observed: o.Status.ObservedGeneration >= o.Generation,
		Pods: o.Status.Replicas, Updated: o.Status.UpdatedReplicas, Annotated: len(o.Annotations) > 0, Recorded: recorded,
	}
	d.Exclusive = isExclusive(&o.Spec.Strategy)
	d.Foreign = recorded && isForeign(o.ManagedFields)
	if recorded {
		d.Surge = surgeOf(record)
	}
	return d
}

// isExclusive reports whether a strategy allows no pod beyond spec.replicas: two pods at the same time may damage their data.
func isExclusive(s *appsv1.DeploymentStrategy) bool {
	if s.Type == appsv1.RecreateDeploymentStrategyType {
		return true
	}
	if s.RollingUpdate == nil || s.RollingUpdate.MaxSurge == nil {
		return false
	}
	most, err := intstr.GetScaledValueFromIntOrPercent(s.RollingUpdate.MaxSurge, 100, true)
	return err != nil || most <= 0
}

// isForeign reports whether another client than podfit wrote the record of a surge, by the managed fields of a Deployment: a Deployment
// copies its annotations to its ReplicaSet, and "kubectl rollout undo" copies them back later. If no entry has the record, because another
// client removes managed fields, it counts as written by podfit.
func isForeign(entries []metav1.ManagedFieldsEntry) bool {
	foreign := false
	for i := range entries {
		var fields struct {
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		raw := entries[i].FieldsV1
		if raw == nil || json.Unmarshal(raw.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, owns := fields.Metadata.Annotations["f:"+v1alpha1.AnnotationSurge]; !owns {
			continue
		}
		if strings.HasPrefix(entries[i].Manager, kube.Agent) {
			return false
		}
		foreign = true
	}
	return foreign
}

// Write sets the replicas and the record of a surge in one request; without a record, it removes the annotation, if there is one. If the Deployment has
// changed since it was read, nothing is written. The scale subresource has no annotations, so the Deployment itself is patched.
func (w *DeploymentWriter) Write(ctx context.Context, d *cluster.Deployment, replicas int32, s *cluster.Surge) error {
	ops := []kube.PatchOp{
		{Op: "test", Path: "/metadata/uid", Value: d.UID},
		{Op: "test", Path: "/metadata/resourceVersion", Value: d.Version},
	}
	if replicas != d.Replicas {
		ops = append(ops, kube.PatchOp{Op: "test", Path: "/spec/replicas", Value: d.Replicas}, kube.PatchOp{Op: "replace", Path: "/spec/replicas", Value: replicas})
	}
	key := kube.AnnotationPath(v1alpha1.AnnotationSurge)
	switch {
	case s == nil && d.Recorded:
		ops = append(ops, kube.PatchOp{Op: "remove", Path: key})
	case s != nil:
		text, err := recordOf(*s)
		if err != nil {
			return fmt.Errorf("write surge of Deployment %s: %w", d.Workload, err)
		}
		if !d.Annotated {
			ops = append(ops, kube.PatchOp{Op: "add", Path: "/metadata/annotations", Value: map[string]string{}})
		}
		ops = append(ops, kube.PatchOp{Op: "add", Path: key, Value: text})
	}
	of := cluster.Key{Namespace: d.Namespace, Name: d.Name}
	if err := w.sender.Patch(ctx, w.client.RESTClient(), types.JSONPatchType, "deployments", of, ops); err != nil {
		return fmt.Errorf("write surge of Deployment %s: %w", d.Workload, err)
	}
	return nil
}
