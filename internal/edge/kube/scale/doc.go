// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package scale caches the scale subresources of controllers that podfit does not watch, such as those of CRDs, and discovers which kinds the
// API server serves and which of them have a scale subresource.
//
// Look-ups are frequent, on the admission path too, so they never block and send no request: they read memory that two loops refresh at a
// bounded rate. Errors of the API server never remove what is known. The package makes no decisions.
package scale
