// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
)

// A SizingProfile is one object of the API server.
type SizingProfile struct {
	Name    string
	Version string // changes whenever the object changes
	JSON    []byte
}

// SizingProfiles returns all SizingProfiles, in the order of the API server. The error is ErrUnsupported if the CRD is not installed, and
// ErrForbidden if podfit has no right to list them.
func (c *Clients) SizingProfiles(ctx context.Context) ([]SizingProfile, error) {
	objects := c.RawObjectsIn(v1alpha1.ResourceSizingProfiles, metav1.NamespaceAll)
	var out []SizingProfile
	err := EachPage(ctx, metav1.ListOptions{Limit: PageSize}, objects.List, func(page *RawObjectList) error {
		for i := range page.Items {
			o := &page.Items[i]
			data, err := json.Marshal(o)
			if err != nil {
				return fmt.Errorf("encode sizing profile %s: %w", o.Name, err)
			}
			out = append(out, SizingProfile{Name: o.Name, Version: string(o.UID) + "/" + o.ResourceVersion, JSON: data})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list sizing profiles: %w", Refused(err))
	}
	return out, nil
}
