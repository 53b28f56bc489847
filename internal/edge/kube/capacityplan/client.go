// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package capacityplan reads and writes the CapacityPlan of a cluster, and converts it to and from core values. It decides nothing about
// capacity.
package capacityplan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/edge/kube"
)

// A Client reads and writes the CapacityPlan.
type Client struct{ rest rest.Interface }

// New returns a client. It sends no request.
func New(c *kube.Clients) *Client { return &Client{c.Own} }

// ErrInvalid is the error of a stored object that cannot be decoded.
var ErrInvalid = errors.New("the stored CapacityPlan is not valid")

// Read returns the plan. The error is kube.ErrNotFound if there is none, kube.ErrUnsupported if the CRD is not installed,
// kube.ErrForbidden without the right to read it, and ErrInvalid, with the metadata of the plan, if it cannot be decoded.
func (c *Client) Read(ctx context.Context) (*v1alpha1.CapacityPlan, error) {
	raw, err := kube.Body(c.rest.Get().Resource(v1alpha1.ResourceCapacityPlans).Name(v1alpha1.CapacityPlanName).Do(ctx))
	if err != nil {
		return nil, fmt.Errorf("read the capacity plan: %w", kube.Refused(err))
	}
	return decode(raw)
}

// decode decodes the metadata first, so that an object whose other parts are not valid can be replaced.
func decode(raw []byte) (*v1alpha1.CapacityPlan, error) {
	var parts kube.RawObject
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, fmt.Errorf("decode the capacity plan: %w", err)
	}
	if parts.Name == "" || parts.ResourceVersion == "" {
		return nil, errors.New("decode the capacity plan: the answer is no CapacityPlan") // such as one of a proxy, which must not count as an empty plan
	}
	out := &v1alpha1.CapacityPlan{ObjectMeta: parts.ObjectMeta}
	const tooLarge = v1alpha1.MaxCapacityPlanSize + 64<<10 // in bytes of JSON, with the metadata and the spec; a larger object is not decoded
	if len(raw) > tooLarge {
		return out, fmt.Errorf("%w: it has %d bytes, and at most %d are read", ErrInvalid, len(raw), tooLarge)
	}
	var errs []error
	for _, part := range []struct {
		name string
		raw  json.RawMessage
		to   any
	}{{"spec", parts.Spec, &out.Spec}, {"status", parts.Status, &out.Status}} {
		if len(part.raw) == 0 {
			continue
		}
		if err := json.Unmarshal(part.raw, part.to); err != nil {
			errs = append(errs, fmt.Errorf("%w: %s: %w", ErrInvalid, part.name, err))
		}
	}
	return out, errors.Join(errs...)
}

// Create creates the plan without a status and returns it. The error is kube.ErrConflict if another client has created it.
func (c *Client) Create(ctx context.Context) (*v1alpha1.CapacityPlan, error) {
	o := &v1alpha1.CapacityPlan{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindCapacityPlan},
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.CapacityPlanName},
	}
	raw, err := kube.Body(c.rest.Post().Resource(v1alpha1.ResourceCapacityPlans).Body(o).Do(ctx))
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("create the capacity plan: %w", kube.ErrConflict)
	case err != nil:
		return nil, fmt.Errorf("create the capacity plan: %w", kube.Refused(err))
	}
	return decode(raw)
}

// WriteStatus replaces the status of the plan, and returns the new version of the object. The error is kube.ErrConflict if the object has
// changed since the version, and kube.ErrNotFound if it has been deleted.
func (c *Client) WriteStatus(ctx context.Context, version string, s *v1alpha1.CapacityPlanStatus) (string, error) {
	data, err := kube.StatusPatch(version, s)
	if err != nil {
		return "", fmt.Errorf("encode the capacity plan: %w", err)
	}
	raw, err := kube.Body(c.rest.Patch(types.JSONPatchType).Resource(v1alpha1.ResourceCapacityPlans).Name(v1alpha1.CapacityPlanName).
		SubResource("status").Body(data).Do(ctx))
	if err != nil {
		return "", fmt.Errorf("write the capacity plan: %w", kube.Refused(err))
	}
	written, err := decode(raw)
	if err != nil {
		return "", err
	}
	return written.ResourceVersion, nil
}

// Settings returns the settings of a spec, and whether the capacity is the allocatable amount. Values that the CRD does not allow, because
// they were stored before the CRD was updated, are replaced by the defaults.
func Settings(spec *v1alpha1.CapacityPlanSpec) (s capacity.Settings, allocatable bool) {
	s = capacity.Defaults()
	if d := spec.LeadTimeDays; d != nil && *d >= 0 && *d <= maxLeadTime {
		s.LeadTime = int(*d)
	}
	if len(spec.Thresholds) > 0 {
		s.Thresholds = nil
		for _, p := range spec.Thresholds {
			if p >= 1 && p <= 99 {
				s.Thresholds = append(s.Thresholds, float64(p)/100)
			}
		}
		s.Thresholds = append(s.Thresholds, 1)
		slices.Sort(s.Thresholds)
		s.Thresholds = slices.Compact(s.Thresholds)
	}
	s.Rules.PoolLabel = spec.PoolLabel
	for i := range spec.Pools {
		p := &spec.Pools[i]
		rule := capacity.Rule{Pool: p.Name}
		if p.LeadTimeDays <= maxLeadTime {
			rule.LeadTime = int(p.LeadTimeDays)
		}
		for k, v := range p.NodeLabels {
			rule.Labels = append(rule.Labels, fmt.Sprintf("%s=%s", k, v))
		}
		slices.Sort(rule.Labels)
		s.Rules.Pools = append(s.Rules.Pools, rule)
	}
	return s, spec.Base == v1alpha1.CapacityBaseAllocatable
}

const maxLeadTime = 730 // days
