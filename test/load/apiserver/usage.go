// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// resolution is the time between two measurements of the usage of a pod, as of metrics-server.
const resolution = 15 * time.Second

// serveMetrics serves the Metrics API: the usage of all pods that run, in one answer, as metrics-server does.
func (s *Server) serveMetrics(w *meter, q *request) error {
	if q.Method != http.MethodGet || s.o.Usage == nil {
		return apierrors.NewMethodNotSupported(q.groupResource(), q.Method)
	}
	at := time.Now().Truncate(resolution)
	pods, _ := s.list(s.collections["/pods"], q.namespace, q.selector)
	if wantsProtobuf(q.Request) {
		var message []byte
		message = appendField(message, listMeta, nil)
		for _, p := range pods {
			if m := s.podMetrics(p, at); m != nil {
				b, err := m.Marshal()
				if err != nil {
					return err
				}
				message = appendField(message, listItems, b)
			}
		}
		respond(w, q, http.StatusOK, runtime.ContentTypeProtobuf, envelope("metrics.k8s.io/v1beta1", "PodMetricsList", message))
		return nil
	}
	list := metricsv1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "PodMetricsList"}}
	for _, p := range pods {
		if m := s.podMetrics(p, at); m != nil {
			list.Items = append(list.Items, *m)
		}
	}
	b, err := json.Marshal(list)
	if err == nil {
		respond(w, q, http.StatusOK, runtime.ContentTypeJSON, b)
	}
	return err
}

// podMetrics returns the usage of a pod, nil if it was not measured yet.
func (s *Server) podMetrics(p *Object, at time.Time) *metricsv1beta1.PodMetrics {
	if p.Pod.Phase != string(corev1.PodRunning) || at.Sub(p.Pod.Started) < 2*resolution {
		return nil
	}
	if s.o.Measured != nil {
		var ok bool
		if at, ok = s.o.Measured(p, at); !ok {
			return nil
		}
	}
	m := &metricsv1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, CreationTimestamp: metav1.NewTime(at)},
		Timestamp:  metav1.NewTime(at), Window: metav1.Duration{Duration: resolution},
	}
	for i, name := range p.Pod.Containers {
		nanocores, bytes := s.o.Usage(p, i, at)
		m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: name, Usage: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewScaledQuantity(nanocores, resource.Nano),
			corev1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI),
		}})
	}
	return m
}
