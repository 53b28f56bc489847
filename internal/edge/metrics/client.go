// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/usage"
)

// Hooks tell how reading goes. Each may be nil.
type Hooks struct {
	Answered   func(err error) // after each request; err is nil when it succeeded
	Unreadable func(n int)     // after each answer that held containers whose usage makes no sense
}

// A Client reads the Metrics API.
type Client struct {
	rest      rest.Interface
	namespace string
	hooks     Hooks
}

// New returns a client of the Metrics API behind an API server; namespace "" reads the whole cluster. It sends nothing.
func New(cfg *rest.Config, c *http.Client, namespace string, hooks Hooks) (*Client, error) {
	gv := schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, gv)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	cfg = rest.CopyConfig(cfg)
	cfg.GroupVersion, cfg.APIPath = &gv, "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := rest.RESTClientForConfigAndClient(cfg, c)
	if err != nil {
		return nil, fmt.Errorf("make client of the Metrics API: %w", err)
	}
	return &Client{rest: client, namespace: namespace, hooks: hooks}, nil
}

// Samples returns what each container of the cluster uses now, as far as the Metrics API says. A resource it says
// nothing of is absent from the sample; that is not the same as none used.
func (c *Client) Samples(ctx context.Context) ([]usage.Sample, error) {
	answer := c.rest.Get().Namespace(c.namespace).Resource("pods").Do(ctx)
	err := answer.Error() // Raw would not read the message
	if c.hooks.Answered != nil {
		c.hooks.Answered(err)
	}
	if err != nil {
		return nil, fmt.Errorf("list pod metrics: %w", err)
	}
	raw, err := answer.Raw()
	if err != nil {
		return nil, fmt.Errorf("list pod metrics: %w", err)
	}
	samples, unreadable, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("decode pod metrics: %w", err)
	}
	if unreadable > 0 && c.hooks.Unreadable != nil {
		c.hooks.Unreadable(unreadable)
	}
	return samples, nil
}
