// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package review compares the present requests of containers with recommended ones. Its result is what podfit recommend prints: one Row
// per container of a workload, with the risk of the present requests, the waste, its price, and the confidence in the recommendation.
//
// It does not compute recommendations: packages recommend and policy do. It does not format, except for the texts of findings.
package review
