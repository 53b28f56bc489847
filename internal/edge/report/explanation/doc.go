// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package explanation writes an explanation as text, JSON or one HTML file.
//
// It changes only the form. Package core/explanation decides the content.
package explanation
