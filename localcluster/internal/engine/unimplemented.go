// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// unimplemented returns codes.Unimplemented, as the kubelet expects, for unsupported calls: streams into containers,
// checkpoints, and statistics that the kubelet also gets from cAdvisor.
type unimplemented struct{ cri.RuntimeService }

var errUnimplemented = status.Error(codes.Unimplemented, "not supported by the simulated container runtime")

func (unimplemented) Exec(context.Context, *api.ExecRequest) (*api.ExecResponse, error) {
	return nil, errUnimplemented
}

func (unimplemented) Attach(context.Context, *api.AttachRequest) (*api.AttachResponse, error) {
	return nil, errUnimplemented
}

func (unimplemented) PortForward(context.Context, *api.PortForwardRequest) (*api.PortForwardResponse, error) {
	return nil, errUnimplemented
}

func (unimplemented) CheckpointContainer(context.Context, *api.CheckpointContainerRequest) error {
	return errUnimplemented
}

func (unimplemented) GetContainerEvents(context.Context, chan *api.ContainerEventResponse, func(api.RuntimeService_GetContainerEventsClient)) error {
	return errUnimplemented
}

func (unimplemented) PodSandboxStats(context.Context, string) (*api.PodSandboxStats, error) {
	return nil, errUnimplemented
}

func (unimplemented) ListPodSandboxStats(context.Context, *api.PodSandboxStatsFilter) ([]*api.PodSandboxStats, error) {
	return nil, errUnimplemented
}

func (unimplemented) ListMetricDescriptors(context.Context) ([]*api.MetricDescriptor, error) {
	return nil, errUnimplemented
}

func (unimplemented) ListPodSandboxMetrics(context.Context) ([]*api.PodSandboxMetrics, error) {
	return nil, errUnimplemented
}

func (unimplemented) RuntimeConfig(context.Context) (*api.RuntimeConfigResponse, error) {
	return nil, errUnimplemented
}

func (unimplemented) Close(context.Context) error { return nil }
