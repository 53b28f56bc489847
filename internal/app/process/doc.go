// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package process is what the process of every long-running job needs: flags that all jobs share, the log, clients of the API
// server, leader election, metrics, health checks, and the loop that starts a pass per interval.
package process
