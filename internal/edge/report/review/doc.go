// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package review writes the result of podfit recommend in all of its formats: tables for people, data for programs, and manifests for Git.
package review
