// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kustomize tests with kustomize itself that the component of podfit recommend changes what its report has.
package kustomize
