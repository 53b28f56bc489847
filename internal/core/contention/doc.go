// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package contention finds containers that compete for CPU, and the cause: usage above the request for a long time, CPU throttling, a
// missing CPU request, and a JVM that uses all cores of its node.
//
// A Monitor keeps the average usage of the last five minutes of each container, and since when that is above the request. The other
// functions need no memory. All results are the same for the same input, and their texts have rounded amounts, so that they change rarely.
package contention
