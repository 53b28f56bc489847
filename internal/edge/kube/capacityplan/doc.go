// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package capacityplan reads and writes the CapacityPlan of a cluster, and converts it to and from core values. It decides nothing about
// capacity.
package capacityplan
