// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the types of autoscaling.k8s.io/v1, the API of the Kubernetes Vertical Pod Autoscaler.
//
// Field by field they read and write the same JSON as upstream's types, so a manifest, a kubectl plug-in or a controller made for
// upstream works with podfit, and the other way round. The CustomResourceDefinitions are generated from here. The package
// describes what is written down and checks nothing; what it means is decided in internal/core.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.k8s.io
// +versionName=v1
package v1
