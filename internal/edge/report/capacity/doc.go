// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package capacity writes a capacity plan as tables for a terminal, as JSON for programs, or as one page of HTML.
package capacity
