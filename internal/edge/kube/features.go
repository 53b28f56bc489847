// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
)

const (
	// resizePreemptionGate is the feature gate of KEP-5836: the scheduler preempts pods of a lower priority for deferred resizes.
	resizePreemptionGate = "InPlacePodVerticalScalingSchedulerPreemption"
	// maxServerMetrics limits how many bytes of the metrics of an API server are read, and maxServerLine the length of a line.
	maxServerMetrics = 256 << 20
	maxServerLine    = 16 << 20
)

// resizePreemptionSince is the version of Kubernetes with the first implementation of the gate.
var resizePreemptionSince = utilversion.MajorMinor(1, 37)

// ResizePreemption reports whether the scheduler preempts pods for deferred resizes. Older versions of Kubernetes than 1.37 cannot. Newer
// ones have a feature gate, which must be set on the API server, too, and which the API server reports in its metrics. That requires
// the right to get the path /metrics. An error means that it is not known.
func (c *Clients) ResizePreemption(ctx context.Context) (bool, error) {
	data, err := c.Core.CoreV1().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return false, fmt.Errorf("get the version of the API server: %w", Refused(err))
	}
	var info version.Info
	if err := json.Unmarshal(data, &info); err != nil {
		return false, fmt.Errorf("decode the version of the API server: %w", err)
	}
	have, err := utilversion.ParseGeneric(info.GitVersion)
	if err != nil {
		return false, fmt.Errorf("decode the version of the API server: %w", err)
	}
	if have.LessThan(resizePreemptionSince) {
		return false, nil
	}
	metrics, err := c.Core.CoreV1().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").Stream(ctx)
	if err != nil {
		return false, fmt.Errorf("get the metrics of the API server: %w", Refused(err))
	}
	defer metrics.Close()
	on, err := featureEnabled(io.LimitReader(metrics, maxServerMetrics), resizePreemptionGate)
	if err != nil {
		return false, fmt.Errorf("read the metrics of the API server: %w", err)
	}
	return on, nil
}

// featureEnabled finds the value of a feature gate in the text format of Prometheus.
func featureEnabled(metrics io.Reader, gate string) (bool, error) {
	prefix := fmt.Appendf(nil, "kubernetes_feature_enabled{name=%q,", gate)
	lines := bufio.NewScanner(metrics)
	lines.Buffer(nil, maxServerLine)
	for lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), prefix) {
			return bytes.HasSuffix(lines.Bytes(), []byte(" 1")), nil
		}
	}
	return false, cmp.Or(lines.Err(), fmt.Errorf("there is no metric kubernetes_feature_enabled for %s", gate))
}

// A Right is a permission, such as that to create pods. The resource may have a subresource, as in nodes/stats. Without a namespace and a name, it is
// for all.
type Right struct{ Verb, Group, Resource, Namespace, Name string }

// String returns the permission as kubectl auth can-i names it.
func (r Right) String() string {
	return strings.TrimSuffix(r.Verb+" "+r.Resource+"."+r.Group, ".")
}

// Has reports whether podfit has a permission.
func (c *Clients) Has(ctx context.Context, r Right) (bool, error) {
	resource, subresource, _ := strings.Cut(r.Resource, "/")
	review, err := c.Core.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: subresource, Namespace: r.Namespace, Name: r.Name,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("check the permission to %s %s: %w", r.Verb, r.Resource, err)
	}
	return review.Status.Allowed, nil
}
