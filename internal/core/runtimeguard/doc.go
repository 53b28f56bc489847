// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package runtimeguard determines how a language runtime reads the CPU and memory of its container.
//
// The kubelet converts a CPU request into CPU shares, and the container runtime converts these into the CPU weight of cgroup v2. A JVM that
// derives its number of processors from them takes the default of the kernel for "no request was set", and uses all cores of the node. So
// there are small ranges of requests which such a JVM misreads. Band returns them.
//
// Detect finds the runtime of a container and its settings from the fields of its pod. Its work per container is bounded, whatever the pod
// contains. It does not see what the image, files or ConfigMaps set.
//
// The package changes nothing: package policy keeps requests out of the ranges, and the webhook adds variables.
package runtimeguard
