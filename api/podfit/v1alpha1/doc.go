// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains the types of podfit.dev/v1alpha1, podfit's own API in addition to autoscaling.k8s.io.
//
// The CustomResourceDefinitions are generated from this package, including the range of each field and the messages of validation
// rules. The package does not interpret the objects: internal/core does.
//
// +kubebuilder:object:generate=true
// +groupName=podfit.dev
// +versionName=v1alpha1
package v1alpha1
