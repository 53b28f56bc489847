// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"os"
	"strings"
	"testing"

	"podfit.dev/podfit/test/differential/cases"
)

// always is the window of the whole simulation.
var always = window{}

// grow returns a workload whose recommendation is ten times (memory: eight times) the current size; shrink returns the reverse.
func grow(mode string, replicas int) workload {
	return workload{Mode: mode, Replicas: replicas, Template: size{100, 128}, Advice: []advice{{Target: size{1000, 1024}}}}
}

func shrink(mode string, replicas int) workload {
	return workload{Mode: mode, Replicas: replicas, Template: size{1000, 1024}, Advice: []advice{{Target: size{100, 128}}}}
}

func (w workload) with(change func(*workload)) workload {
	change(&w)
	return w
}

// refuses adds a fault of requests with a verb: for the first replica only, or for all.
func refuses(verb, what string, first bool) func(*workload) {
	return func(w *workload) {
		w.Faults = append(w.Faults, fault{Verb: verb, What: what, First: first, When: always})
	}
}

func quota(millicores int64) func(*workload) { return func(w *workload) { w.Quota = &millicores } }

// restart makes a resize of memory restart the container.
func restart(w *workload) { w.Restart = true }

// second adds a second container.
func second(w *workload) { w.Second = true }

// day returns a world of one day with upstream's defaults.
func day(ws ...workload) *world {
	return &world{Minutes: 24 * 60, Min: 2, Tolerance: 0.5, Workloads: ws}
}

// known are worlds in which an earlier version of podfit was worse than upstream, each as small as possible.
var known = map[string]*world{
	// A pod that cannot be evicted must not block the other pods of its workload.
	"a disruption budget protects the primary": day(grow("Recreate", 3).with(func(w *workload) {
		w.PDBs = []pdb{{FirstOnly: true}}
	})),
	// When more pods are ready, a disruption budget may allow an eviction, unless it has refused one with as many ready pods before.
	"a disruption budget that lacks a pod, and the number of ready pods changes": flapping,
	// A resize that gives room comes first on its node, but not if it is refused in each pass.
	"resizes to smaller sizes cannot be sent": {Minutes: 60, Min: 2, Tolerance: 0.5, Rate: 0.4717, Workloads: []workload{
		grow("InPlaceOrRecreate", 2), shrink("InPlaceOrRecreate", 5).with(refuses("resize", notSent, false)),
	}},
	"a webhook denies evictions of the primary":             day(grow("Recreate", 3).with(refuses("evict", denied403, true))),
	"the primary has two disruption budgets":                day(grow("Recreate", 3).with(func(w *workload) { w.PDBs = []pdb{{FirstOnly: true}, {FirstOnly: true, MaxUnavailable: 1}} })),
	"evictions of the primary have no response":             day(grow("Recreate", 3).with(refuses("evict", noReply, true))),
	"the server is overloaded for evictions of the primary": day(grow("Recreate", 3).with(refuses("evict", busy429, true))),
	"a disruption budget protects the first pod of a StatefulSet, which cannot be resized": day(shrink("InPlaceOrRecreate", 5).with(func(w *workload) {
		w.StatefulSet, w.PDBs, w.Resizing = true, []pdb{{FirstOnly: true}}, resizing{How: "infeasible"}
	})),

	"connections are refused for evictions of the primary": day(grow("Recreate", 3).with(refuses("evict", notSent, true))),
	"connections are refused for resizes":                  day(shrink("InPlaceOrRecreate", 4).with(refuses("resize", notSent, false))),
	"evictions of the primary have conflicts":              day(grow("Recreate", 3).with(refuses("evict", conflict, true))),

	// podfit backs off from ineffective evictions, also of unscheduled pods.
	"new pods never have the recommended size": day(grow("Recreate", 3).with(func(w *workload) { w.Unsized = &window{} })),
	"new pods never have the recommended size, and are unschedulable": {Minutes: 24 * 60, Min: 2, Nodes: 1, Node: size{16000, 4096}, Workloads: []workload{
		shrink("Recreate", 5).with(func(w *workload) { w.Unsized = &window{} }),
	}},
	// A pod that has most of an increase is within its bounds, and is not evicted for the rest, although it is old and differs by more than a tenth.
	"an old pod has a part of an increase, and its replacement would have no room": {
		Minutes: 120, Min: 2, Tolerance: 0.5, Rescue: true, Defaults: true, Nodes: 1, Node: size{16000, 4096}, Workloads: []workload{
			shrink("Recreate", 3).with(func(w *workload) {
				w.Limits, w.Grace, w.Resizing, w.Unsized, w.OOM = "same", 1, resizing{How: "infeasible", For: 3}, &window{To: 90}, outOfMemory{NeedMB: 1025, Seconds: 15}
			}),
			{
				Replicas: 2, Mode: "InPlaceOrRecreate", Template: size{100, 128}, Advice: []advice{{Target: size{100, 1024}}, {At: 43, Target: size{1000, 1024}}},
				Delay: 5, Start: 1, Unsized: &window{}, OOM: outOfMemory{NeedMB: 506, Seconds: 5},
			},
		},
	},
	"each resize is undone": day(grow("InPlaceOrRecreate", 3).with(func(w *workload) { w.Undo = 1 })),
	"each resize is undone, and the kubelet needs minutes for it": {Minutes: 24 * 60, Min: 3, Tolerance: 0.25, Workloads: []workload{
		grow("InPlaceOrRecreate", 3).with(func(w *workload) {
			w.Advice[0].Target.Memory = 128
			w.Undo, w.Resizing = 5, resizing{How: "in progress", For: 3}
		}),
	}},

	// podfit evicts a pod whose resize is refused, as upstream does, and the number of attempts is bounded.
	"a webhook denies each resize":                               day(grow("InPlaceOrRecreate", 3).with(refuses("resize", denied400, false))),
	"a webhook fails for each resize":                            day(grow("InPlaceOrRecreate", 3).with(refuses("resize", failed500, false))),
	"a webhook denies resizes of the primary":                    day(shrink("InPlaceOrRecreate", 3).with(refuses("resize", denied400, true))),
	"a webhook denies resizes of the primary in mode InPlace":    day(shrink("InPlace", 3).with(refuses("resize", denied400, true))),
	"a webhook fails for resizes of the primary in mode InPlace": day(shrink("InPlace", 3).with(refuses("resize", failed500, true))),
	"resizes fail, and evictions are denied":                     day(grow("InPlaceOrRecreate", 3).with(refuses("resize", failed500, false)).with(refuses("evict", denied403, false))),
	"the server is overloaded for resizes of the primary":        day(shrink("InPlaceOrRecreate", 2).with(refuses("resize", busy429, true))),
	"resizes have no response":                                   day(shrink("InPlaceOrRecreate", 4).with(refuses("resize", noReply, false))),

	// A resize that was denied for long and has no response now may have been done, but the pod must not wait until the end of a long back-off.
	"resizes are denied, and later have no response":            deniedUntil(27, noReply),
	"resizes are denied, and later done, and the reply is lost": deniedUntil(27, lostReply),

	// A pod whose resizes have no response waits for the other pods, whose evictions take more than an hour.
	"resizes of the primary have no response, and the other pods start slowly": {Minutes: 120, Min: 2, Workloads: []workload{
		grow("InPlaceOrRecreate", 6).with(refuses("resize", noReply, true)).with(refuses("resize", denied400, false)).with(func(w *workload) {
			w.Start, w.Unsized = 15, &window{To: 1}
		}),
	}},

	// An eviction without a response may have been carried out.
	"replies to evictions are lost":                         day(grow("Recreate", 3).with(refuses("evict", lostReply, false))),
	"replies to evictions are lost, and the watch is stale": stale(3, grow("Recreate", 3).with(refuses("evict", lostReply, false)).with(func(w *workload) { w.Delay = 5 })),
	"the watch is stale":                                    stale(2, grow("Recreate", 6), shrink("InPlaceOrRecreate", 4)),

	// An eviction without a response is reported, although it is repeated only once an hour because other pods are changed first.
	"evictions of the primary have no response, and the other pods start slowly": {Minutes: 120, Min: 2, Workloads: []workload{
		grow("Recreate", 5).with(refuses("evict", noReply, true)).with(func(w *workload) { w.Start = 15 }),
	}},

	// After ineffective evictions, one pod is evicted as a probe, even if all pods may be unavailable.
	"new pods never have the recommended size, and all may be evicted at once": {Minutes: 24 * 60, Min: 2, Tolerance: 1, Workloads: []workload{
		grow("Recreate", 6).with(func(w *workload) { w.Unsized = &window{} }),
	}},

	// Changes of the number of replicas.
	"scaled down, and the watch is stale": stale(1, grow("Recreate", 1).with(func(w *workload) {
		w.Scales = []scaling{{At: 1, Replicas: 2}, {At: 5, Replicas: 1}}
	}), shrink("Recreate", 6).with(func(w *workload) { w.Scales = []scaling{{At: 2, Replicas: 2}} })),
	"scaled up beyond the quota after an eviction without a response": day(grow("Recreate", 2).with(refuses("evict", noReply, false)).with(quota(0)).with(func(w *workload) {
		w.Scales = []scaling{{At: 1, Replicas: 3}}
	})),

	// The watch does not show yet that a scale-down has removed pods, so that no replacement of an evicted pod seems to be missing.
	"scaled down after an eviction whose replacement the quota rejects, and the watch is stale": {Minutes: 60, Min: 2, Lag: 1, Workloads: []workload{
		grow("Recreate", 6).with(quota(100)).with(func(w *workload) { w.Scales = []scaling{{At: 1, Replicas: 5}} }),
		grow("Recreate", 4).with(quota(0)).with(func(w *workload) { w.Scales = []scaling{{At: 17, Replicas: 2}} }),
		grow("Recreate", 6).with(quota(0)).with(func(w *workload) { w.Scales = []scaling{{At: 17, Replicas: 5}} }),
	}},
	"scaled down and up, and the watch is stale": {Minutes: 60, Min: 2, Tolerance: 0.5, Lag: 1, Workloads: []workload{
		grow("Recreate", 6).with(quota(100)).with(func(w *workload) {
			w.StatefulSet, w.PDBs, w.Fine = true, []pdb{{}}, []int{0}
			w.Scales = []scaling{{At: 1, Replicas: 2}, {At: 3, Replicas: 3}}
		}),
	}},

	// The watch shows minutes later that evicted pods are ready again.
	"replacements are late, and the watch is stale, under a rate limit": {Minutes: 120, Min: 2, Tolerance: 0.5, Rate: 3.7133, Lag: 3, Workloads: []workload{
		grow("InPlaceOrRecreate", 6).with(refuses("resize", nodeTooBig, false)).with(func(w *workload) {
			w.Advice = append(w.Advice, advice{At: 47, Target: size{100, 128}})
			w.Delay, w.Grace, w.Start, w.Limits, w.PDBs = 5, 1, 1, "twice", []pdb{{MaxUnavailable: 1}}
		}),
	}},

	// Upstream resizes all pods at once in mode InPlace, so that it also begins to wait for the kubelet earlier.
	"the kubelet needs minutes for each resize, and pods are never ready, in mode InPlace": {Minutes: 240, Min: 2, Tolerance: 0.5, Workloads: []workload{
		grow("InPlace", 3).with(func(w *workload) {
			w.NeverReady, w.Resizing = []int{0, 2}, resizing{How: "error", For: 90}
			w.Scales = []scaling{{At: 39, Replicas: 6}}
		}),
	}},
	// Upstream resizes all pods at once in mode InPlace, before resizes begin to fail.
	"resizes have no response after the first minute, in mode InPlace": {Minutes: 60, Min: 2, Workloads: []workload{
		grow("InPlace", 6).with(func(w *workload) { w.Faults = []fault{{Verb: "resize", What: noReply, When: window{From: 1}}} }),
	}},

	// Refused actions must not use up the rate limit of other pods.
	"a disruption budget protects pods under a rate limit": limited(0.9731, grow("Recreate", 4).with(func(w *workload) { w.PDBs = []pdb{{}} }), shrink("Recreate", 4), shrink("InPlace", 3)),
	"a disruption budget protects pods under a low rate limit": limited(0.1319, grow("Recreate", 4).with(func(w *workload) {
		w.PDBs = []pdb{{}}
	}), shrink("InPlaceOrRecreate", 3)),

	// podfit watches quotas: it neither evicts nor resizes beyond them.
	"a watched quota rejects each resize":     watchesQuotas(grow("InPlaceOrRecreate", 4).with(quota(100))),
	"a watched quota rejects the replacement": watchesQuotas(grow("Recreate", 4).with(quota(1000))),
	"a watched quota admits the last pod":     watchesQuotas(grow("InPlace", 4).with(quota(3600))),

	// Pods with two containers.
	"pods have two containers":                                       day(grow("InPlaceOrRecreate", 4).with(second), shrink("Recreate", 3).with(second), grow("InPlace", 3).with(second)),
	"pods have two containers, and a quota rejects the last resizes": day(grow("InPlaceOrRecreate", 4).with(second).with(quota(4000))),
	"pods with two containers fill their node": {Minutes: 240, Min: 2, Tolerance: 0.5, Nodes: 1, Node: size{4000, 16384}, Workloads: []workload{
		grow("InPlaceOrRecreate", 4).with(second),
	}},

	// A resize by a part keeps the memory, which the target lowers. A node that is too small for it must not be asked in each pass.
	"a node is too small for resizes by a part": {Minutes: 240, Min: 2, Tolerance: 0.5, Nodes: 1, Node: size{1200, 16384}, Workloads: []workload{
		grow("InPlace", 4).with(refuses("resize", nodeTooBig, false)).with(func(w *workload) { w.Advice[0].Target.Memory = 40 }),
	}},

	// The replacement of the evicted pod is not that of the deleted one.
	"OOM-killed pods are evicted and deleted, and replaced late": {Minutes: 60, Min: 1, Tolerance: 0.25, Rescue: true, Workloads: []workload{
		grow("InPlaceOrRecreate", 6).with(func(w *workload) {
			w.Delay, w.Grace, w.Start, w.PDBs = 5, 1, 1, []pdb{{MaxUnavailable: 1}}
			w.Resizing, w.OOM = resizing{How: "infeasible", For: 90}, outOfMemory{NeedMB: 600, Every: 4}
		}),
	}},

	// podfit resizes the pod by what fits on its node, which the quota admits. It must not evict it for the rest, which the quota rejects.
	"a quota rejects the rest of a resize by a part, under a rate limit": {Minutes: 120, Min: 1, Tolerance: 0.5, Rate: 0.9731, Nodes: 1, Node: size{2000, 65536}, Workloads: []workload{
		grow("Recreate", 2).with(refuses("evict", busy429, false)), shrink("Recreate", 1).with(refuses("evict", busy429, false)),
		grow("InPlaceOrRecreate", 2).with(second).with(quota(500)),
	}},

	// The replacement of the first evicted pod is awaited for hours.
	"a webhook denies each resize, and a quota rejects the replacement": day(grow("InPlaceOrRecreate", 6).with(refuses("resize", denied403, false)).with(quota(0))),

	// A quota refuses the resizes once, and a webhook refuses them since. The scale-down frees the quota.
	"a quota that refused resizes is free after a scale-down, and a webhook denies them": freedQuota,

	// Two of three evicted pods are replaced. After the scale-down, the stale watch shows more pods than the controller wants.
	"scaled down after the quota rejected one of three replacements, and the watch is stale": {Minutes: 60, Min: 2, Tolerance: 0.5, Lag: 3, Workloads: []workload{
		grow("Recreate", 6).with(quota(2000)).with(func(w *workload) {
			w.StatefulSet, w.Delay, w.Start, w.Scales = true, 1, 15, []scaling{{At: 15, Replicas: 4}}
		}),
	}},

	// The number of replicas is known to be lower before the stale watch shows the evictions: one of two replacements exists.
	"scaled down after the quota rejected one of two replacements, and the watch is stale": {Minutes: 60, Min: 2, Tolerance: 0.5, Lag: 3, Workloads: []workload{
		grow("Recreate", 4).with(quota(1000)).with(func(w *workload) {
			w.StatefulSet, w.Start, w.Scales = true, 15, []scaling{{At: 2, Replicas: 3}}
		}),
	}},

	// Replacements with the old size are within the bounds, as long as their containers were not OOM-killed again.
	"the webhook is not called for pods that are OOM-killed seconds after each start": hungry,
	"the webhook is not called any more for pods of a StatefulSet that are OOM-killed": defaults(starved.with(func(w *workload) {
		w.StatefulSet, w.Unsized = true, &window{From: 20}
		w.Advice = []advice{{Target: size{1000, 1024}}, {At: 30, Target: size{1000, 2048}}}
	})),
	// While the recommendation is the size that the other webhook sets, the pods fit. That does not show that evictions have an effect.
	"another webhook resets requests, and the recommendation is the old size for a while": defaults(workload{
		Mode: "Recreate", Replicas: 5, Delay: 5, Limits: "twice", Template: size{100, 128}, Reset: &window{}, MostMB: 256,
		Advice: []advice{{Target: size{1000, 1024}}, {At: 64, Target: size{100, 256}}, {At: 96, Target: size{1000, 1024}}},
		OOM:    outOfMemory{NeedMB: 131, Seconds: 10},
	}),
	"another webhook resets requests, and the recommendation falls to the old size and rises again and again": defaults(workload{
		Mode: "Recreate", Replicas: 4, Delay: 1, Limits: "twice", Template: size{100, 128}, Reset: &window{}, MostMB: 256,
		Advice: []advice{
			{Target: size{1000, 1024}}, {At: 1, Target: size{100, 256}}, {At: 8, Target: size{1000, 1024}}, {At: 9, Target: size{100, 256}},
			{At: 16, Target: size{1000, 1024}}, {At: 17, Target: size{100, 256}}, {At: 24, Target: size{1000, 1024}},
		},
		OOM: outOfMemory{NeedMB: 129, Seconds: 5},
	}),
	// The replacement exists when the old size is recommended. That it does not have the size of the eviction has another cause then.
	"the recommendation is the old size when the replacement exists, and rises": defaults(workload{
		Mode: "Recreate", Replicas: 2, Delay: 5, Grace: 1, Start: 1, StatefulSet: true, Limits: "twice", Template: size{100, 128}, MostMB: 256,
		Advice: []advice{{Target: size{1000, 1024}}, {At: 6, Target: size{100, 256}}, {At: 13, Target: size{300, 300}}},
		Scales: []scaling{{At: 5, Replicas: 1}},
	}),
	// The pods are OOM-killed each seven minutes, and the watch shows it three minutes later.
	"the webhook is not called for pods that are OOM-killed again and again, and the watch is stale": {
		Minutes: 240, Min: 2, Tolerance: 0.5, Rescue: true, Defaults: true, Lag: 3, Unsized: &window{}, Workloads: []workload{
			grow("Recreate", 4).with(func(w *workload) {
				w.StatefulSet, w.Template, w.Advice[0].Target, w.OOM = true, size{1000, 1024}, size{1000, 1536}, outOfMemory{NeedMB: 1028, Seconds: 120}
			}),
		},
	},
	"another webhook resets the requests of pods that are OOM-killed": defaults(starved.with(func(w *workload) { w.Reset = &window{} })),

	"evictAfterOOMSeconds is shorter than the life of the containers": defaults(starved.with(func(w *workload) {
		w.AfterOOM, w.Replicas, w.Unsized = 1, 6, &window{}
	})),
	"pods of a StatefulSet are ready at once": defaults(grow("Recreate", 3).with(func(w *workload) { w.StatefulSet = true })),

	// The recommendation rises before the replacements of two evicted pods are created, and the quota admits only one of them. When it falls, the
	// eviction of that one makes room for both.
	"the recommendation rises before replacements are created, and the quota admits one of them": {
		Minutes: 60, Min: 2, Tolerance: 0.5, Rescue: true, Defaults: true, Quotas: true, Unsized: &window{To: 2}, Workloads: []workload{
			shrink("Auto", 5).with(quota(1000)).with(func(w *workload) {
				w.Advice = append(w.Advice, advice{At: 5, Target: size{3000, 4096}}, advice{At: 14, Target: size{1000, 2048}})
				w.Delay, w.Grace, w.Start, w.Limits, w.OOM = 5, 5, 1, "twice", outOfMemory{NeedMB: 1026, Seconds: 15}
			}),
		},
	},

	// The pod that was resized has taken the room of the one that was evicted, whose replacement has no node and waits for the end of the back-off. When
	// both need less, the workload has too few live pods.
	"a resized pod takes the room of an evicted one, and both need less later": {
		Minutes: 60, Min: 2, Tolerance: 0.5, Rescue: true, Defaults: true, Nodes: 2, Node: size{16000, 4096}, Unsized: &window{}, Workloads: []workload{
			grow("Recreate", 3).with(func(w *workload) {
				w.Second, w.Start, w.Template, w.Unsized, w.Advice[0].Target = true, 15, size{1000, 1024}, &window{To: 90}, size{1000, 1536}
			}),
			grow("InPlaceOrRecreate", 2).with(func(w *workload) {
				w.StatefulSet, w.Start, w.Grace, w.Limits, w.Template, w.Reset = true, 1, 5, "same", size{1000, 1024}, &window{}
				w.Advice, w.OOM = []advice{{Target: size{1000, 2048}}, {At: 8, Target: size{300, 300}}}, outOfMemory{NeedMB: 1762, Seconds: 50}
				w.PDBs = []pdb{{FirstOnly: true, MinAvailable: 1, MaxUnavailable: 1}}
			}),
		},
	},

	// The resizes of three pods fail, all pods are OOM-killed at the same time and restarted at once, and the three are evicted instead.
	"resizes of pods of a StatefulSet fail, and all its pods restart": {
		Minutes: 30, Min: 2, Tolerance: 0.5, Rescue: true, Defaults: true, Node: size{16000, 4096}, Nodes: 2, Quotas: true, Workloads: []workload{
			grow("InPlaceOrRecreate", 6).with(func(w *workload) {
				w.StatefulSet, w.Limits, w.Template, w.Resizing.How, w.Resizing.For = true, "twice", size{1000, 1024}, "error", 10
				w.Advice = []advice{{At: 0, Target: size{1000, 1536}}}
				w.OOM = outOfMemory{NeedMB: 1103, Seconds: 110}
			}),
			grow("Recreate", 4).with(func(w *workload) {
				w.Limits, w.Template, w.Resizing.How, w.Resizing.For, w.Grace, w.Second = "twice", size{1000, 1024}, "error", 3, 1, true
				w.Advice = []advice{{At: 0, Target: size{1000, 1536}}}
				w.OOM = outOfMemory{NeedMB: 1026, Seconds: 20}
			}),
		},
	},

	// The nodes refuse the resizes of three pods, and two others are OOM-killed before the three are evicted instead.
	"nodes refuse resizes of pods of a StatefulSet, and others are OOM-killed meanwhile": {
		Minutes: 60, Min: 2, Tolerance: 0.5, Rescue: true, Defaults: true, Workloads: []workload{
			grow("InPlaceOrRecreate", 6).with(func(w *workload) {
				w.StatefulSet, w.Restart, w.Start, w.Reset, w.Resizing.How = true, true, 1, &window{To: 2}, "infeasible"
				w.Advice = append(w.Advice, advice{At: 49, Target: size{300, 300}})
				w.OOM = outOfMemory{NeedMB: 601, Seconds: 115}
			}),
		},
	},

	// No pods are lost to a quota.
	"a quota rejects each resize":                day(workload{Mode: "InPlaceOrRecreate", Replicas: 10, Template: size{100, 128}, Advice: []advice{{Target: size{500, 128}}}}.with(quota(100))),
	"a quota rejects the resize of the last pod": day(grow("InPlaceOrRecreate", 4).with(quota(2000))),
	"a quota rejects the resizes that a webhook does not deny, under a rate limit": limited(0.9731, grow("InPlaceOrRecreate", 4).with(quota(100)).with(func(w *workload) {
		w.Faults = []fault{{Verb: "resize", What: denied400, When: always, Every: 2}}
	})),
	"a quota rejects each resize, and some resizes have no response": day(grow("InPlaceOrRecreate", 4).with(quota(100)).with(func(w *workload) {
		w.Faults = []fault{{Verb: "resize", What: noReply, When: window{From: 600, To: 700}}}
	})),
	"a quota rejects each resize until the recommendation decreases": day(grow("InPlaceOrRecreate", 2).with(quota(500)).with(func(w *workload) {
		w.Advice = append(w.Advice, advice{At: 300, Target: size{300, 300}})
	})),
	// The eviction of the pod with the larger recommendation makes room for the missing one, long after the quota rejected that.
	"a quota rejects a replacement after the recommendation rose, and the recommendation falls": {
		Minutes: 60, Min: 2, Tolerance: 0.5, Rescue: true, Defaults: true, Quotas: true, Workloads: []workload{
			shrink("Auto", 6).with(quota(100)).with(func(w *workload) {
				w.Limits, w.Grace, w.Start, w.Fine, w.OOM = "twice", 5, 1, []int{1, 2, 5}, outOfMemory{NeedMB: 1028, Seconds: 10}
				w.Advice = append(w.Advice, advice{At: 5, Target: size{3000, 4096}}, advice{At: 23, Target: size{300, 300}})
			}),
		},
	},
	// After the back-off, one pod is evicted to see whether an eviction has an effect, and the others wait for it. They have the event about the first one.
	"the webhook is not called, a node refuses a resize, and another pod is evicted after the back-off": {
		Minutes: 90, Min: 2, Nodes: 2, Node: size{2000, 16384}, Tolerance: 0.5, Rescue: true, Defaults: true, Quotas: true, Unsized: &window{}, Workloads: []workload{
			grow("InPlaceOrRecreate", 6).with(func(w *workload) {
				w.Template, w.Limits, w.Delay, w.Fine = size{1000, 1024}, "same", 1, []int{0, 2, 5}
				w.Advice = []advice{{Target: size{1000, 2048}}, {At: 47, Target: size{300, 300}}}
				w.OOM, w.Scales = outOfMemory{NeedMB: 2235, Seconds: 120}, []scaling{{At: 4, Replicas: 8}}
				w.Faults = []fault{{Verb: "resize", What: nodeTooBig, First: true}}
				w.PDBs = []pdb{{FirstOnly: true, MaxUnavailable: 1}}
			}),
		},
	},
	// The replacement of the deleted pod is evicted half an hour later, when another pod is deleted.
	"the replacement of a deleted pod is OOM-killed and evicted, and another pod is deleted": {
		Minutes: 60, Min: 2, Nodes: 3, Node: size{8000, 16384}, Tolerance: 0.5, Rescue: true, Defaults: true, Workloads: []workload{
			{
				Mode: "Recreate", Replicas: 6, Restart: true, Start: 1, StatefulSet: true, Template: size{1000, 1024}, Unsized: &window{To: 2},
				Advice: []advice{{Target: size{100, 128}}, {At: 26, Target: size{3000, 4096}}}, OOM: outOfMemory{NeedMB: 1049, Seconds: 90},
			},
			{
				Mode: "InPlaceOrRecreate", Replicas: 2, Delay: 1, Limits: "twice", Start: 1, Template: size{1000, 1024}, PDBs: []pdb{{MaxUnavailable: 2, MinAvailable: 1}},
				Advice: []advice{{Target: size{1000, 1536}}, {At: 30, Target: size{3000, 4096}}}, OOM: outOfMemory{NeedMB: 2947, Seconds: 15}, Resizing: resizing{How: "in progress"},
			},
		},
	},
	// The quota admits one resize and refuses the others. The pod of that resize is evicted and comes back with the old size, so the quota has room.
	"a quota rejects all resizes but one, whose pod is evicted": {Minutes: 60, Min: 2, Tolerance: 0.5, Rescue: true, Defaults: true, Workloads: []workload{
		grow("InPlaceOrRecreate", 5).with(quota(1000)).with(func(w *workload) {
			w.Limits, w.Delay, w.Start, w.Unsized = "same", 1, 15, &window{From: 1}
			w.Resizing, w.OOM = resizing{How: "deferred", For: 90}, outOfMemory{NeedMB: 131, Seconds: 60}
			w.Faults = []fault{{Verb: "resize", What: denied400, When: window{From: 1, To: 19}}}
		}),
	}},
	"a quota rejects the replacement of a pod whose node is too small, under a rate limit": limited(0.9731,
		grow("InPlaceOrRecreate", 3).with(refuses("resize", nodeTooBig, false)).with(quota(2000))),
	// podfit does not see the quota. It evicts the pod that a StatefulSet would wait for if it did not create pods in parallel.
	"a quota rejects the replacement, and the first pod of a StatefulSet is never ready": defaults(workload{
		StatefulSet: true, Replicas: 5, Mode: "Recreate", Template: size{100, 128}, Reset: &window{To: 16}, Grace: 5, Start: 3, NeverReady: []int{0, 1, 2},
		Advice: []advice{{Target: size{1000, 128}}}, OOM: outOfMemory{NeedMB: 1099, Seconds: 85},
	}.with(quota(0))),
	"a quota rejects the replacement": day(workload{Mode: "Recreate", Replicas: 10, Template: size{100, 128}, Advice: []advice{{Target: size{500, 128}}}}.with(quota(100)).with(func(w *workload) { w.Grace = 1 })),
}

// freedQuota is a world in which a quota refuses resizes before a webhook does, and a scale-down frees the quota.
var freedQuota = &world{Minutes: 120, Min: 2, Tolerance: 0.5, Workloads: []workload{
	grow("InPlaceOrRecreate", 5).with(quota(500)).with(func(w *workload) {
		w.Faults = []fault{{Verb: "resize", What: denied403, When: window{From: 1}}}
		w.Fine, w.Scales = []int{1, 3, 4}, []scaling{{At: 2, Replicas: 2}}
	}),
}}

// starved is a workload whose containers are OOM-killed seconds after each start. Their requests are within the bounds of the recommendation.
var starved = workload{
	Mode: "Recreate", Replicas: 3, Template: size{1000, 1024}, Advice: []advice{{Target: size{1000, 2048}}}, OOM: outOfMemory{NeedMB: 1500, Seconds: 5},
}

// hungry is a world in which the webhook is called for no new pod, and OOM-killed pods do not get more memory.
var hungry = func() *world {
	w := defaults(starved)
	w.Unsized = &window{}
	return w
}()

// deniedUntil returns a world of two hours in which resizes are denied, and later have another fault.
func deniedUntil(minute int, then string) *world {
	return defaults(grow("InPlaceOrRecreate", 3).with(func(w *workload) {
		w.Unsized = &window{To: minute}
		w.Faults = []fault{{Verb: "resize", What: denied403, When: window{To: minute}}, {Verb: "resize", What: then, When: window{From: minute}}}
	}))
}

// defaults returns a world of two hours in which all flags of podfit have their defaults.
func defaults(ws ...workload) *world {
	return &world{Minutes: 120, Min: 2, Tolerance: 0.5, Rescue: true, Defaults: true, Workloads: ws}
}

// stale returns a world in which the watches of updaters are some minutes behind.
func stale(minutes int, ws ...workload) *world {
	w := day(ws...)
	w.Lag = minutes
	return w
}

// rescuing returns a world in which podfit rescues OOM-killed pods.
func rescuing(ws ...workload) *world {
	w := day(ws...)
	w.Rescue = true
	return w
}

// watchesQuotas returns a world in which podfit may read ResourceQuotas.
func watchesQuotas(ws ...workload) *world {
	w := day(ws...)
	w.Quotas = true
	return w
}

// limited returns a world with an eviction rate limit per minute.
func limited(rate float64, ws ...workload) *world {
	w := day(ws...)
	w.Rate = rate
	return w
}

// Each intended difference is documented.
func TestDifferences_areDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		if !d.circumstance && !strings.Contains(string(text), "\n| "+d.name+" |") {
			t.Errorf("docs/migrate.md has no row %q", d.name)
		}
	}
}

func TestUpdater_knownWorlds_noWorseThanUpstream(t *testing.T) {
	for name, w := range known {
		t.Run(name, func(t *testing.T) {
			if r := compare(t, w); r.violation != "" {
				t.Errorf("%s\n%s\n%s", r.violation, cases.Show(w), r.journal)
			}
		})
	}
}
