// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the types of podfit.dev/v1alpha1: what podfit offers beyond autoscaling.k8s.io.
//
// The CustomResourceDefinitions are generated from here, with the bounds of each field and the texts that say what is wrong.
// The package describes what is written down; what it means is decided in internal/core.
//
// +kubebuilder:object:generate=true
// +groupName=podfit.dev
// +versionName=v1alpha1
package v1alpha1
