// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1beta2 keeps the place of autoscaling.k8s.io/v1beta2 in the CustomResourceDefinitions.
//
// The version is not served and nothing is stored in it any more. But a cluster that once stored objects in it lists it in the
// definition's status.storedVersions, and an API server refuses a definition that drops a listed version. Nobody can send or
// receive these types, so their schema only says that everything an old object holds is kept until it is read as v1.
// The program does not import the package; the generator does.
//
// +kubebuilder:object:generate=false
// +groupName=autoscaling.k8s.io
// +versionName=v1beta2
package v1beta2
