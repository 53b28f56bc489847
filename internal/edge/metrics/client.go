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

// A Reading is the result of reading usage. Its counts are also valid if reading fails.
type Reading struct {
	Samples    []usage.Sample
	Answered   int // requests that succeeded
	Failed     int // requests that failed
	Unreadable int // containers whose usage cannot be parsed
}

// count counts a request.
func (r *Reading) count(err error) {
	if err != nil {
		r.Failed++
	} else {
		r.Answered++
	}
}

// A Client reads the Metrics API.
type Client struct {
	rest      rest.Interface
	namespace string
}

// New returns a client of the Metrics API of an API server. Namespace "" reads the whole cluster. It sends no request.
func New(cfg *rest.Config, c *http.Client, namespace string) (*Client, error) {
	gv := schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, gv)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	cfg = rest.CopyConfig(cfg)
	cfg.GroupVersion = &gv
	cfg.APIPath = "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := rest.RESTClientForConfigAndClient(cfg, c)
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
	raw, err := result.Raw()
	if err != nil {
		return r, fmt.Errorf("list pod metrics: %w", err)
	}
	r.Samples, r.Unreadable, err = decode(raw)
	if err != nil {
		return r, fmt.Errorf("decode pod metrics: %w", err)
	}
	return r, nil
}
