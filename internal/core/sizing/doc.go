// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package sizing decides which profile sizes a workload, and what happens to the model state of the workload when its profile changes.
//
// A Catalog contains the built-in profiles and the parameters of the SizingProfiles in the cluster. It maps each autoscaler to a Choice:
// the profile that sizes it. A deleted or invalid SizingProfile keeps its last valid parameters.
//
// A workload has the model state of at most one profile, even if several autoscalers with different profiles reference it. The Catalog
// selects that profile (Assign). The Workloads hold one State per workload and apply the selection to the usage.Store (Apply).
//
// # States of a workload
//
//	            referenced, profile usable                 no autoscaler references it
//	(no State) ───────────────────────────▶ referenced ───────────────────────────────▶ unreferenced
//	    ▲                                    ▲      │ ▲                                    │   │
//	    │                                    │      └─┘ profile changes, see below         │   │
//	    │                                    └─────────────────────────────────────────────┘   │
//	    │                                      referenced again within ModelStateTTL           │
//	    └──────────────────────────────────────────────────────────────────────────────────────┘
//	                           unreferenced for ModelStateTTL: model state is deleted
//
// # Changes of the profile of a referenced workload
//
// An Edition is a profile with unchanged parameters. If the Edition of the workload differs from that of the last pass:
//
//	last Edition             new Edition              model state
//	───────────────────────  ───────────────────────  ──────────────────────────────────────────────────────────────
//	none                     without model state      none
//	none                     with model state         starts empty; stored model state may follow (Restoring)
//	with model state         with, same form          carried over
//	any                      with, another form       starts empty; recommendations are held for ResetHold
//	without model state      with model state         stored model state if it fits; else as above
//	with model state         without model state      deleted
//	any                      not usable               unchanged
//
// # Hold
//
// While a workload is held, its recommendations do not decrease (Hold): its new model state does not yet contain the peaks that
// the last recommendation was based on. A hold starts
//
//   - for ResetHold, when model state starts empty after a change of profile;
//   - for ResetHold from the start of the model state, when the process has started and stored model state was not restored, or was
//     started less than ResetHold before.
//
// A hold ends when its time is over, when the workload is no longer referenced, or when complete usage history has arrived (EndHolds).
//
// # Node bound and criticality
//
// A profile may limit the CPU of a pod to a share of the smallest node of the workload, and multiply usage by the criticality that the pods
// declare. Node is the CPU of that node, and Declared what the pods say. Both stay the same while the workload has no pods. They are removed when
// the profile has no such limit, or when the workload is no longer referenced.
//
// They are not stored. After a start they are unknown until a pod lives and a node can be used by it. While pods live and none of the nodes
// can be used, for example because all are cordoned, CPU does not exceed the target in the status (LimitCPU).
package sizing
