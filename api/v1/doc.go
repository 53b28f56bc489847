// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the types of autoscaling.k8s.io/v1, the API of the Kubernetes Vertical Pod Autoscaler.
//
// The types read and write the same JSON as upstream's types. So manifests, kubectl plug-ins and controllers for upstream work
// with podfit, and the other way round. The CustomResourceDefinitions are generated from this package. The package does not
// validate objects and does not interpret them: internal/core does.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.k8s.io
// +versionName=v1
package v1
