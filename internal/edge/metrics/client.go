// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics reads the usage of containers from the Metrics API (metrics.k8s.io) or the external metrics API
// (external.metrics.k8s.io), and converts it to samples.
//
// It reads the whole cluster or one namespace with one request per pass, and decodes the list without building objects: of
// about 300 bytes per pod, only two names, a time and two quantities are needed. It makes no decisions: package usage
// decides whether a sample counts.
package metrics

import (
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

// A Reading is the result of reading usage. Its counts are also valid if reading fails.
type Reading struct {
	Samples    []usage.Sample
	Answered   int // requests that succeeded
	Failed     int // requests that failed
	Unreadable int // containers whose usage cannot be parsed
}

func (r *Reading) count(err error) {
	if err != nil {
		r.Failed++
	} else {
		r.Answered++
	}
}

// newClient returns a client of version v1beta1 of an API group that accepts content types. It sends no request.
func newClient(cfg *rest.Config, c *http.Client, group, accept string) (rest.Interface, error) {
	gv := schema.GroupVersion{Group: group, Version: "v1beta1"}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, gv)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	cfg = rest.CopyConfig(cfg)
	cfg.GroupVersion = &gv
	cfg.APIPath = "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.AcceptContentTypes = accept
	return rest.RESTClientForConfigAndClient(cfg, c)
}

func set(s *usage.Sample, res cluster.Resource, amount *resource.Quantity) {
	s.Has = s.Has.With(res)
	if res == cluster.CPU {
		s.CPU = float64(amount.MilliValue()) / 1000
	} else {
		s.Memory = float64(amount.Value())
	}
}

// A Client reads the Metrics API.
type Client struct {
	rest      rest.Interface
	namespace string
}

// New returns a client of the Metrics API of an API server. Namespace "" reads the whole cluster. It sends no request.
func New(cfg *rest.Config, c *http.Client, namespace string) (*Client, error) {
	client, err := newClient(cfg, c, "metrics.k8s.io", runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON)
	if err != nil {
		return nil, fmt.Errorf("create client of the Metrics API: %w", err)
	}
	return &Client{rest: client, namespace: namespace}, nil
}

// Read returns the current usage of each container. A resource that the Metrics API does not report is absent from the
// sample, which is not the same as zero usage.
func (c *Client) Read(ctx context.Context) (Reading, error) {
	var r Reading
	result := c.rest.Get().Namespace(c.namespace).Resource("pods").Do(ctx)
	err := result.Error() // unlike the error of Raw, it has the message of the response
	r.count(err)
	if err != nil {
		return r, fmt.Errorf("list pod metrics: %w", err)
	}
	raw, _ := result.Raw() // has the error that Error has
	r.Samples, r.Unreadable, err = decode(raw)
	if err != nil {
		return r, fmt.Errorf("decode pod metrics: %w", err)
	}
	return r, nil
}

// ExternalNames has the names of the external metrics with the usage of containers.
type ExternalNames struct {
	CPU, Memory    string // names of metrics; "" if there is none
	ContainerLabel string // the label of the metrics with the name of the container
}

// An External reads usage from the external metrics API, pod by pod, like upstream's alpha feature.
type External struct {
	rest  rest.Interface
	names ExternalNames
}

// NewExternal returns a client of the external metrics API of an API server. It sends no request.
func NewExternal(cfg *rest.Config, c *http.Client, names ExternalNames) (*External, error) {
	if names.CPU == "" && names.Memory == "" {
		return nil, errors.New("create client of the external metrics API: set the name of a metric for CPU, memory or both")
	}
	client, err := newClient(cfg, c, "external.metrics.k8s.io", runtime.ContentTypeJSON)
	if err != nil {
		return nil, fmt.Errorf("create client of the external metrics API: %w", err)
	}
	return &External{rest: client, names: names}, nil
}

// externalValues has the fields of an ExternalMetricValueList that are read.
type externalValues struct {
	Items []struct {
		MetricLabels map[string]string `json:"metricLabels"`
		Timestamp    metav1.Time       `json:"timestamp"`
		Value        resource.Quantity `json:"value"`
	} `json:"items"`
}

// Read returns the usage of the containers of one pod. The selector is that of the pod's workload; Read adds the label "pod" with
// the name of the pod.
func (e *External) Read(ctx context.Context, pod cluster.Key, selector labels.Selector) (Reading, error) {
	var r Reading
	byName, err := labels.NewRequirement("pod", selection.Equals, []string{pod.Name})
	if err != nil {
		return r, fmt.Errorf("build the selector for external metrics of pod %s: %w", pod, err)
	}
	selector = selector.Add(*byName)
	byContainer := map[string]*usage.Sample{}
	for _, res := range cluster.All {
		metric := cluster.Pick(res, e.names.CPU, e.names.Memory)
		if metric == "" {
			continue
		}
		values, err := e.list(ctx, pod.Namespace, metric, selector)
		r.count(err)
		if err != nil {
			return r, fmt.Errorf("read external metric %s of pod %s: %w", metric, pod, err)
		}
		for i := range values.Items {
			item := &values.Items[i]
			container := item.MetricLabels[e.names.ContainerLabel]
			if container == "" {
				continue
			}
			s := cluster.Memo(&byContainer, container, func() *usage.Sample { return &usage.Sample{Pod: pod, Container: container} })
			if item.Timestamp.After(s.At) {
				s.At = item.Timestamp.Time
			}
			set(s, res, &item.Value)
		}
	}
	r.Samples = make([]usage.Sample, 0, len(byContainer))
	for _, s := range byContainer {
		s.At = s.At.UTC().Truncate(time.Nanosecond)
		r.Samples = append(r.Samples, *s)
	}
	slices.SortFunc(r.Samples, func(a, b usage.Sample) int { return strings.Compare(a.Container, b.Container) })
	return r, nil
}

func (e *External) list(ctx context.Context, namespace, metric string, selector labels.Selector) (externalValues, error) {
	var out externalValues
	raw, err := e.rest.Get().Namespace(namespace).Resource(metric).Param("labelSelector", selector.String()).Do(ctx).Raw()
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("decode response: %w", err)
	}
	return out, nil
}
