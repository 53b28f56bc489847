// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"os"
	"strings"
	"testing"

	"podfit.dev/podfit/test/differential/cases"
)

// always is a fault's window without an end.
var always = window{}

// grow is a workload whose pods should get ten times as much; shrink is one whose pods should get a tenth.
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

// refuses has requests to change pods refused.
func refuses(verb, what string, first bool) func(*workload) {
	return func(w *workload) {
		w.Faults = append(w.Faults, fault{Verb: verb, What: what, First: first, When: always})
	}
}

func quota(millicores int64) func(*workload) { return func(w *workload) { w.Quota = &millicores } }

// day is a world of a day with upstream's defaults.
func day(ws ...workload) *world {
	return &world{Minutes: 24 * 60, Min: 2, Tolerance: 0.5, Workloads: ws}
}

// known are worlds in which an earlier version of podfit was worse than upstream, each as small as it gets.
var known = map[string]*world{
	// One pod that cannot be evicted must not keep the others from their turn.
	"a disruption budget protects the primary": day(grow("Recreate", 3).with(func(w *workload) {
		w.PDBs = []pdb{{FirstOnly: true}}
	})),
	"a webhook protects the primary":                day(grow("Recreate", 3).with(refuses("evict", denied403, true))),
	"the primary has two disruption budgets":        day(grow("Recreate", 3).with(func(w *workload) { w.PDBs = []pdb{{FirstOnly: true}, {FirstOnly: true, MaxUnavailable: 1}} })),
	"evictions of the primary break the connection": day(grow("Recreate", 3).with(refuses("evict", noReply, true))),
	"evictions of the primary meet a busy server":   day(grow("Recreate", 3).with(refuses("evict", busy429, true))),
	"a disruption budget protects a StatefulSet's first pod, which cannot be resized": day(shrink("InPlaceOrRecreate", 5).with(func(w *workload) {
		w.StatefulSet, w.PDBs, w.Resizing = true, []pdb{{FirstOnly: true}}, resizing{How: "infeasible"}
	})),

	"evictions of the primary conflict": day(grow("Recreate", 3).with(refuses("evict", conflict, true))),

	// Evictions that do not help become rare, also those of pods that wait for a node.
	"new pods are never sized": day(grow("Recreate", 3).with(func(w *workload) { w.Unsized = &window{} })),
	"new pods are never sized, and wait for a node": {Minutes: 24 * 60, Min: 2, Nodes: 1, Node: size{16000, 4096}, Workloads: []workload{
		shrink("Recreate", 5).with(func(w *workload) { w.Unsized = &window{} }),
	}},
	"somebody undoes each resize": day(grow("InPlaceOrRecreate", 3).with(func(w *workload) { w.Undo = 1 })),

	// A resize that is refused falls back to an eviction, as upstream does, and is not tried for ever.
	"a webhook denies each resize":               day(grow("InPlaceOrRecreate", 3).with(refuses("resize", denied400, false))),
	"a webhook that fails denies each resize":    day(grow("InPlaceOrRecreate", 3).with(refuses("resize", failed500, false))),
	"a webhook denies the primary's resize":      day(shrink("InPlaceOrRecreate", 3).with(refuses("resize", denied400, true))),
	"a webhook denies a resize in mode InPlace":  day(shrink("InPlace", 3).with(refuses("resize", denied400, true))),
	"a webhook that fails in mode InPlace":       day(shrink("InPlace", 3).with(refuses("resize", failed500, true))),
	"neither resized nor evicted":                day(grow("InPlaceOrRecreate", 3).with(refuses("resize", failed500, false)).with(refuses("evict", denied403, false))),
	"the primary's resize meets a busy server":   day(shrink("InPlaceOrRecreate", 2).with(refuses("resize", busy429, true))),
	"the primary's resize breaks the connection": day(shrink("InPlaceOrRecreate", 4).with(refuses("resize", noReply, false))),

	// An eviction without a reply may have been carried out.
	"replies to evictions are lost":                        day(grow("Recreate", 3).with(refuses("evict", lostReply, false))),
	"replies to evictions are lost, and the watch is late": late(3, grow("Recreate", 3).with(refuses("evict", lostReply, false)).with(func(w *workload) { w.Delay = 5 })),
	"the watch is late":                                    late(2, grow("Recreate", 6), shrink("InPlaceOrRecreate", 4)),

	// Users are told of an eviction without an answer, though the pod waits for its siblings and is tried once an hour.
	"evictions of the primary break the connection, and the others start slowly": {Minutes: 120, Min: 2, Workloads: []workload{
		grow("Recreate", 5).with(refuses("evict", noReply, true)).with(func(w *workload) { w.Start = 15 }),
	}},

	// After evictions that did not help, one pod shows whether another helps, also where all may go at once.
	"new pods are never sized, and all may be evicted at once": {Minutes: 24 * 60, Min: 2, Tolerance: 1, Workloads: []workload{
		grow("Recreate", 6).with(func(w *workload) { w.Unsized = &window{} }),
	}},

	// A change of the number of replicas.
	"scaled down, and the watch is late": late(1, grow("Recreate", 1).with(func(w *workload) {
		w.Scales = []scaling{{At: 1, Replicas: 2}, {At: 5, Replicas: 1}}
	}), shrink("Recreate", 6).with(func(w *workload) { w.Scales = []scaling{{At: 2, Replicas: 2}} })),
	"scaled up beyond the quota after an eviction without an answer": day(grow("Recreate", 2).with(refuses("evict", noReply, false)).with(quota(0)).with(func(w *workload) {
		w.Scales = []scaling{{At: 1, Replicas: 3}}
	})),

	// Under a rate limit, refusals must not take the turns of others.
	"guarded pods under a rate limit": limited(0.9731, grow("Recreate", 4).with(func(w *workload) { w.PDBs = []pdb{{}} }), shrink("Recreate", 4), shrink("InPlace", 3)),
	"a few guarded pods under a low rate limit": limited(0.1319, grow("Recreate", 4).with(func(w *workload) {
		w.PDBs = []pdb{{}}
	}), shrink("InPlaceOrRecreate", 3)),

	// A quota's refusal must not cost pods.
	"a quota refuses each resize":            day(workload{Mode: "InPlaceOrRecreate", Replicas: 10, Template: size{100, 128}, Advice: []advice{{Target: size{500, 128}}}}.with(quota(100))),
	"a quota refuses the resize of the last": day(grow("InPlaceOrRecreate", 4).with(quota(2000))),
	"a quota refuses each resize, and some replies are lost": day(grow("InPlaceOrRecreate", 4).with(quota(100)).with(func(w *workload) {
		w.Faults = []fault{{Verb: "resize", What: noReply, When: window{From: 600, To: 700}}}
	})),
	"a quota refuses each resize until less is recommended": day(grow("InPlaceOrRecreate", 2).with(quota(500)).with(func(w *workload) {
		w.Advice = append(w.Advice, advice{At: 300, Target: size{300, 300}})
	})),
	"a quota refuses the replacement": day(workload{Mode: "Recreate", Replicas: 10, Template: size{100, 128}, Advice: []advice{{Target: size{500, 128}}}}.with(quota(100)).with(func(w *workload) { w.Grace = 1 })),
}

// late is a world in which what updaters know of pods is some minutes old.
func late(minutes int, ws ...workload) *world {
	w := day(ws...)
	w.Lag = minutes
	return w
}

func limited(rate float64, ws ...workload) *world {
	w := day(ws...)
	w.Rate = rate
	return w
}

// Each difference that podfit means is told to those who switch.
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
