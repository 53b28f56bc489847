// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ImageMount is the reported mount point of the images of a simulated node.
const ImageMount = "/simulated/images"

// Images is an image store that has every image, except those whose name contains "missing".
type Images struct {
	mu     sync.Mutex
	pulled map[string]bool
}

// NewImages returns an empty store.
func NewImages() *Images { return &Images{pulled: map[string]bool{}} }

// ListImages lists the pulled images.
func (s *Images) ListImages(context.Context, *api.ImageFilter) ([]*api.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*api.Image
	for name := range s.pulled {
		all = append(all, image(name))
	}
	return all, nil
}

// ImageStatus describes an image. The response has no image if it was not pulled.
func (s *Images) ImageStatus(_ context.Context, spec *api.ImageSpec, _ bool) (*api.ImageStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.pulled[spec.GetImage()] {
		return &api.ImageStatusResponse{}, nil
	}
	return &api.ImageStatusResponse{Image: image(spec.Image)}, nil
}

// PullImage adds an image immediately.
func (s *Images) PullImage(_ context.Context, spec *api.ImageSpec, _ *api.AuthConfig, _ *api.PodSandboxConfig) (string, error) {
	if strings.Contains(spec.GetImage(), "missing") {
		return "", status.Errorf(codes.NotFound, "image %s not found", spec.Image)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulled[spec.Image] = true
	return spec.Image, nil
}

// RemoveImage removes an image.
func (s *Images) RemoveImage(_ context.Context, spec *api.ImageSpec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pulled, spec.GetImage())
	return nil
}

// ImageFsInfo reports that images need almost no space.
func (s *Images) ImageFsInfo(context.Context) (*api.ImageFsInfoResponse, error) {
	usage := []*api.FilesystemUsage{{
		Timestamp: time.Now().UnixNano(), FsId: &api.FilesystemIdentifier{Mountpoint: ImageMount},
		UsedBytes: &api.UInt64Value{Value: 1 << 20}, InodesUsed: &api.UInt64Value{Value: 100},
	}}
	return &api.ImageFsInfoResponse{ImageFilesystems: usage, ContainerFilesystems: usage}, nil
}

// Close does nothing.
func (s *Images) Close(context.Context) error { return nil }

func image(name string) *api.Image {
	return &api.Image{Id: name, RepoTags: []string{name}, Size: 1 << 20, Uid: &api.Int64Value{Value: 65534}, Spec: &api.ImageSpec{Image: name}}
}
