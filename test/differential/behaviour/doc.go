// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package behaviour runs upstream's updater and podfit's updater in simulated time against the same simulated API server, in
// random worlds, and compares the resulting pods. The tests of package apply compare single decisions; the tests of this package
// compare hours of passes.
//
// A world (world_test.go) is data: workloads with their pods of one or two containers, autoscalers, disruption budgets, LimitRanges and
// quotas, which podfit may or may not read, and the faults that occur: webhooks that deny requests or fail, overloaded servers, lost
// replies, refused connections, conflicts, stale watches, full nodes, kubelets that defer or fail a resize, changes of the number of
// replicas, pods that start slowly or are OOM-killed, webhooks that are not called or whose requests others reset, and controllers that undo
// resizes. A simulation (cluster_test.go, api_test.go) runs the world. Both updaters send their requests through their own clients. In some
// worlds all flags of podfit have their defaults, and the cluster changes every few seconds (tick_test.go), so that there are early passes.
//
// The checker (check_test.go) requires these properties of podfit after every pass:
//
//   - Not fewer pods are satisfied or ready than with upstream for more than a few passes, unless a named difference explains it
//     in that world. Intended differences are listed in docs/migrate.md under the same name.
//   - Minimum replicas, eviction tolerance and update mode are respected. The simulation enforces PodDisruptionBudgets.
//     An OOM-killed pod may be deleted if podfit rescues pods, and only after the last deleted pod of its workload has a replacement
//     that is ready, or does not become ready by itself.
//   - Attempts are bounded: a pod is not evicted or resized more than 40 times while nothing about it changes.
//   - Evictions without effect are rare: while the replacements do not get the recommended size, or fit on no node, one pod is evicted at
//     a time, after a back-off that doubles.
//     With all flags at their defaults, at most two evictions and deletions of a workload in half an hour have no effect, and not more than
//     with upstream.
//   - No pods are lost to a quota: no pod is evicted if a quota is known to reject its replacement. A pod for which a StatefulSet may wait counts
//     as lost already, once it has not been ready for ten minutes.
//   - Every pod that is not satisfied has a decision with a reason, and the reason is correct in the simulation.
//   - Users get an event if an action on a pod is refused, or has no response, for 20 minutes.
//
// A failing world is shrunk, and shown with its last requests and its seed. Worlds that failed once are in known_test.go, each as
// small as possible. PODFIT_DIFFERENTIAL=20 simulates twenty times as many worlds, with other seeds in each run.
package behaviour
