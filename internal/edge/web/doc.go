// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package web serves the web page: what the cluster requests and uses, which workloads are at risk, what could be given back, and what
// podfit did.
//
// It is read-only. It answers only GET and HEAD, and actions are commands that the viewer copies. All responses have the same security
// headers, and no page has inline scripts or styles. URLs are relative, so that the page also works behind "kubectl proxy".
//
// The package takes no decisions about sizes: it shows values of core/overview.
package web
