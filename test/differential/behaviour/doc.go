// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package behaviour runs upstream's updater and podfit's in simulated time against the same simulated API server, in random
// worlds, and compares what becomes of the pods. The tests of package apply compare single decisions; the tests here compare
// hours of passes.
//
// A world (world_test.go) is data: workloads with their pods, autoscalers, disruption budgets, quotas and limits, and what goes
// wrong: webhooks that deny or fail, busy servers, lost replies, conflicts, late watches, full nodes, kubelets that defer or
// fail a resize, users who change the number of replicas, pods that are slow to start or killed for memory, and others that
// undo what was done. A simulation (cluster_test.go, api_test.go) plays it: both updaters send their requests through their own
// clients.
//
// The properties that podfit is held to (check_test.go), each after every pass:
//
//   - no fewer pods are satisfied, and none fewer ready, than with upstream for longer than a few passes, unless one of the
//     differences says why in that world; those that are meant are in docs/migrate.md under the same name;
//   - it never breaks a budget: minimum of replicas, tolerance, update mode; disruption budgets are the simulation's to keep;
//   - it ends: a pod is not evicted or resized more than 40 times without a change of anything about it;
//   - it costs no pods: none is evicted whose replacement a quota is known to refuse;
//   - every pod that is not satisfied has a decision with a reason, and the reason is true in the simulation;
//   - users are told, by a text that says so, when an action on a pod is refused or has no answer for 20 minutes.
//
// A world that fails is shrunk and shown with the last requests and the seed. The worlds that have failed are in known_test.go,
// each as small as it gets. PODFIT_DIFFERENTIAL=20 simulates twenty times as many worlds, and others each time.
package behaviour
