// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// ExternalNames says which external metrics have the usage of containers.
type ExternalNames struct {
	CPU, Memory    string // names of metrics; one that is "" is not asked for
	ContainerLabel string // the metric's label with the container's name
}

// An External reads usage from the external metrics API, pod by pod, as upstream's alpha feature does.
type External struct {
	rest  rest.Interface
	names ExternalNames
	hooks Hooks
}

// NewExternal returns a reader over an existing connection. It sends no request.
func NewExternal(cfg *rest.Config, c *http.Client, names ExternalNames, hooks Hooks) (*External, error) {
	if names.CPU == "" && names.Memory == "" {
		return nil, errors.New("no external metric is named for CPU nor for memory")
	}
	gv := schema.GroupVersion{Group: "external.metrics.k8s.io", Version: "v1beta1"}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	cfg = rest.CopyConfig(cfg)
	cfg.GroupVersion, cfg.APIPath = &gv, "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientForConfigAndClient(cfg, c)
	if err != nil {
		return nil, fmt.Errorf("make client of the external metrics API: %w", err)
	}
	return &External{rest: client, names: names, hooks: hooks}, nil
}

// externalValues is an ExternalMetricValueList, as far as it is read.
type externalValues struct {
	Items []struct {
		MetricLabels map[string]string `json:"metricLabels"`
		Timestamp    metav1.Time       `json:"timestamp"`
		Value        resource.Quantity `json:"value"`
	} `json:"items"`
}

// Samples returns what the containers of one pod use. The selector is that of the pod's workload; the pod's name is
// added to it under the label "pod".
func (e *External) Samples(ctx context.Context, pod cluster.Key, selector labels.Selector) ([]usage.Sample, error) {
	named, err := labels.NewRequirement("pod", selection.Equals, []string{pod.Name})
	if err != nil {
		return nil, fmt.Errorf("select external metrics of pod %s: %w", pod, err)
	}
	selector = selector.Add(*named)
	by := map[string]*usage.Sample{}
	for _, m := range []struct {
		res  cluster.Resource
		name string
	}{{cluster.CPU, e.names.CPU}, {cluster.Memory, e.names.Memory}} {
		if m.name == "" {
			continue
		}
		values, err := e.list(ctx, pod.Namespace, m.name, selector)
		if e.hooks.Answered != nil {
			e.hooks.Answered(err)
		}
		if err != nil {
			return nil, fmt.Errorf("read external metric %s of pod %s: %w", m.name, pod, err)
		}
		for i := range values.Items {
			item := &values.Items[i]
			container := item.MetricLabels[e.names.ContainerLabel]
			if container == "" {
				continue
			}
			s := by[container]
			if s == nil {
				s = &usage.Sample{Pod: pod, Container: container}
				by[container] = s
			}
			if at := item.Timestamp.Time; at.After(s.At) {
				s.At = at
			}
			s.Has = s.Has.With(m.res)
			if m.res == cluster.CPU {
				s.CPU = float64(item.Value.MilliValue()) / 1000
			} else {
				s.Memory = float64(item.Value.Value())
			}
		}
	}
	out := make([]usage.Sample, 0, len(by))
	for _, s := range by {
		s.At = s.At.UTC().Truncate(time.Nanosecond)
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b usage.Sample) int { return cmp.Or(strings.Compare(a.Container, b.Container)) })
	return out, nil
}

func (e *External) list(ctx context.Context, namespace, metric string, selector labels.Selector) (externalValues, error) {
	var out externalValues
	raw, err := e.rest.Get().Namespace(namespace).Resource(metric).Param("labelSelector", selector.String()).Do(ctx).Raw()
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("decode the answer: %w", err)
	}
	return out, nil
}
