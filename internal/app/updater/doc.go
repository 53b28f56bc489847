// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package updater is the job that applies recommendations to running pods: it resizes them in place or evicts them.
//
// core/plan decides which pods change. This package carries out the decisions and reports their outcomes. It takes no decisions
// about sizes or disruptions. The packages below it order the actions, ask for capacity, and write what belongs to a pass besides pods:
// update states, Deployments of surges, targets of HPAs, and the condition Updating.
package updater
