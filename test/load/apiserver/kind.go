// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Message is an object of a built-in kind.
type Message interface {
	runtime.Object
	metav1.Object
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

// A Kind is a kind of objects that the server stores.
type Kind struct {
	Group, Version, Resource, Name string
	Cluster                        bool           // the objects have no namespace
	New                            func() Message // nil: a custom resource, stored as JSON
	Status                         bool           // has the subresource status
	Scale                          bool           // has the subresource scale
}

// APIVersion returns the group and version, for example "apps/v1".
func (k *Kind) APIVersion() string {
	return schema.GroupVersion{Group: k.Group, Version: k.Version}.String()
}

func (k *Kind) groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: k.Group, Version: k.Version}
}

// kinds are all kinds that the server stores.
var kinds = []*Kind{
	{Version: "v1", Resource: "namespaces", Name: "Namespace", Cluster: true, New: func() Message { return new(corev1.Namespace) }, Status: true},
	{Version: "v1", Resource: "nodes", Name: "Node", Cluster: true, New: func() Message { return new(corev1.Node) }, Status: true},
	{Version: "v1", Resource: "pods", Name: "Pod", New: func() Message { return new(corev1.Pod) }, Status: true},
	{Version: "v1", Resource: "podtemplates", Name: "PodTemplate", New: func() Message { return new(corev1.PodTemplate) }},
	{Version: "v1", Resource: "services", Name: "Service", New: func() Message { return new(corev1.Service) }, Status: true},
	{Version: "v1", Resource: "secrets", Name: "Secret", New: func() Message { return new(corev1.Secret) }},
	{Version: "v1", Resource: "configmaps", Name: "ConfigMap", New: func() Message { return new(corev1.ConfigMap) }},
	{Version: "v1", Resource: "events", Name: "Event", New: func() Message { return new(corev1.Event) }},
	{Version: "v1", Resource: "limitranges", Name: "LimitRange", New: func() Message { return new(corev1.LimitRange) }},
	{Version: "v1", Resource: "resourcequotas", Name: "ResourceQuota", New: func() Message { return new(corev1.ResourceQuota) }, Status: true},
	{Version: "v1", Resource: "replicationcontrollers", Name: "ReplicationController", New: func() Message { return new(corev1.ReplicationController) }, Status: true, Scale: true},
	{Group: "apps", Version: "v1", Resource: "deployments", Name: "Deployment", New: func() Message { return new(appsv1.Deployment) }, Status: true, Scale: true},
	{Group: "apps", Version: "v1", Resource: "replicasets", Name: "ReplicaSet", New: func() Message { return new(appsv1.ReplicaSet) }, Status: true, Scale: true},
	{Group: "apps", Version: "v1", Resource: "statefulsets", Name: "StatefulSet", New: func() Message { return new(appsv1.StatefulSet) }, Status: true, Scale: true},
	{Group: "apps", Version: "v1", Resource: "daemonsets", Name: "DaemonSet", New: func() Message { return new(appsv1.DaemonSet) }, Status: true},
	{Group: "batch", Version: "v1", Resource: "jobs", Name: "Job", New: func() Message { return new(batchv1.Job) }, Status: true},
	{Group: "batch", Version: "v1", Resource: "cronjobs", Name: "CronJob", New: func() Message { return new(batchv1.CronJob) }, Status: true},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets", Name: "PodDisruptionBudget", New: func() Message { return new(policyv1.PodDisruptionBudget) }, Status: true},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers", Name: "HorizontalPodAutoscaler", New: func() Message { return new(autoscalingv2.HorizontalPodAutoscaler) }, Status: true},
	{Group: "coordination.k8s.io", Version: "v1", Resource: "leases", Name: "Lease", New: func() Message { return new(coordinationv1.Lease) }},
	{Group: "events.k8s.io", Version: "v1", Resource: "events", Name: "Event", New: func() Message { return new(eventsv1.Event) }},
	{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses", Name: "PriorityClass", Cluster: true, New: func() Message { return new(schedulingv1.PriorityClass) }},
	{
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations", Name: "MutatingWebhookConfiguration", Cluster: true,
		New: func() Message { return new(admissionregistrationv1.MutatingWebhookConfiguration) },
	},
	{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers", Name: "VerticalPodAutoscaler", Status: true},
	{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalercheckpoints", Name: "VerticalPodAutoscalerCheckpoint"},
	{Group: "podfit.dev", Version: "v1alpha1", Resource: "sizingprofiles", Name: "SizingProfile", Cluster: true},
	{Group: "podfit.dev", Version: "v1alpha1", Resource: "usagehistories", Name: "UsageHistory"},
	{Group: "podfit.dev", Version: "v1alpha1", Resource: "updatestates", Name: "UpdateState"},
	{Group: "podfit.dev", Version: "v1alpha1", Resource: "capacityplans", Name: "CapacityPlan", Cluster: true, Status: true},
}

// reviews are the resources whose creation asks a question. The server allows everything.
var reviews = []*Kind{
	{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews", Name: "SelfSubjectAccessReview", Cluster: true},
	{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews", Name: "SubjectAccessReview", Cluster: true},
}

// metricsKind is the usage of pods, which the server computes.
var metricsKind = &Kind{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods", Name: "PodMetrics"}
