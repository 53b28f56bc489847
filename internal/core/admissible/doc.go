// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package admissible knows which pods the API server admits. Adjust changes the sizes of the containers of a pod so that the pod is
// admitted, and Refused and QuotaRefusal return why it is not: LimitRanges, pod-level resources and ResourceQuotas. Package policy
// computes the sizes.
//
// It does not know admission webhooks and policies of others. docs/decisions/0003-what-the-api-server-admits.md says why podfit computes
// this itself.
package admissible
