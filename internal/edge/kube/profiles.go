// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/api/podfit/v1alpha1"
)

// Profiles lists SizingProfiles.
type Profiles struct {
	client     rest.Interface
	parameters runtime.ParameterCodec
}

// A SizingProfile is one object of the API server.
type SizingProfile struct {
	Name    string
	Version string // changes whenever the object changes
	JSON    []byte
}

// NewProfiles returns a client of SizingProfiles. It sends no request.
func NewProfiles(c *Clients) (*Profiles, error) {
	client, parameters, err := c.Own()
	if err != nil {
		return nil, fmt.Errorf("make client of sizing profiles: %w", err)
	}
	return &Profiles{client, parameters}, nil
}

// Own returns a client of podfit.dev/v1alpha1, in JSON, and the codec of its list options.
func (c *Clients) Own() (rest.Interface, runtime.ParameterCodec, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, nil, err
	}
	return c.ownWith(scheme)
}

// ownWith is Own for the types of a scheme.
func (c *Clients) ownWith(scheme *runtime.Scheme) (rest.Interface, runtime.ParameterCodec, error) {
	gv := v1alpha1.GroupVersion()
	cfg := rest.CopyConfig(c.Config)
	cfg.GroupVersion = &gv
	cfg.APIPath = "/apis"
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.AcceptContentTypes = runtime.ContentTypeJSON
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(cfg, c.HTTP)
	return client, runtime.NewParameterCodec(scheme), err
}

// List returns all SizingProfiles, in the order of the API server. The error is ErrUnsupported if the CRD is not installed, and
// ErrForbidden if podfit has no right to list them.
func (p *Profiles) List(ctx context.Context) ([]SizingProfile, error) {
	var out []SizingProfile
	o := metav1.ListOptions{Limit: PageSize}
	for {
		raw, err := Body(p.client.Get().Resource(v1alpha1.ResourceSizingProfiles).VersionedParams(&o, p.parameters).Do(ctx))
		if err != nil {
			return nil, fmt.Errorf("list sizing profiles: %w", Refused(err))
		}
		var page struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("decode list of sizing profiles: %w", err)
		}
		for _, item := range page.Items {
			var o struct {
				Metadata struct {
					Name            string `json:"name"`
					UID             string `json:"uid"`
					ResourceVersion string `json:"resourceVersion"`
				} `json:"metadata"`
			}
			if err := json.Unmarshal(item, &o); err != nil {
				return nil, fmt.Errorf("decode a sizing profile: %w", err)
			}
			out = append(out, SizingProfile{Name: o.Metadata.Name, Version: o.Metadata.UID + "/" + o.Metadata.ResourceVersion, JSON: item})
		}
		o.Continue = page.Metadata.Continue
		if o.Continue == "" {
			return out, nil
		}
	}
}
