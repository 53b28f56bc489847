// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package contract writes down what upstream promises its users by name: its flags and its metrics, as data.
//
// Its tests hold the custom resource definitions and the manifests in deploy/ to upstream's; the tests of other packages hold
// their flags and metrics to the tables here. The program itself never imports the package. The facts are those of upstream 1.8.
package contract
