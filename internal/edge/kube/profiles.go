// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/api/podfit/v1alpha1"
)

// Profiles lists SizingProfiles.
type Profiles struct{ client rest.Interface }

// A SizingProfile is one object of the API server.
type SizingProfile struct {
	Name    string
	Version string // changes whenever the object changes
	JSON    []byte
}

// NewProfiles returns a client of SizingProfiles.
func NewProfiles(c *Clients) *Profiles { return &Profiles{c.Own} }

// List returns all SizingProfiles, in the order of the API server. The error is ErrUnsupported if the CRD is not installed, and
// ErrForbidden if podfit has no right to list them.
func (p *Profiles) List(ctx context.Context) ([]SizingProfile, error) {
	var out []SizingProfile
	o := metav1.ListOptions{Limit: PageSize}
	for {
		raw, err := Body(p.client.Get().Resource(v1alpha1.ResourceSizingProfiles).VersionedParams(&o, metav1.ParameterCodec).Do(ctx))
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
