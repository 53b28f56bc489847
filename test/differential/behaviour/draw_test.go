// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"podfit.dev/podfit/test/differential/cases"
)

// draw returns a random world. The first of several choices is the simplest one, to which a failing world is shrunk.
func draw(d cases.Dice) *world {
	w := &world{Minutes: cases.Pick(d, 60, 60, 60, 60, 60, 60, 60, 120, 120, 120, 120, 120, 240, 240, 1440), Min: cases.Pick(d, 2, 2, 2, 1, 3), Tolerance: cases.Pick(d, 0.5, 0.5, 0.5, 0, 0.25, 1)}
	if d.OneIn(6) {
		w.Rate = cases.Pick(d, 0.9731, 0.4717, 0.1319, 3.7133) // primes, so that the ends of a pass and of a wait do not coincide
	}
	w.SkipBudget = d.OneIn(6)
	if d.OneIn(8) {
		w.Lag = 1 + d.IntN(3)
	}
	if d.OneIn(8) {
		w.Nodes, w.Node = 1+d.IntN(4), size{CPU: cases.Pick[int64](d, 16000, 8000, 2000), Memory: cases.Pick[int64](d, 64<<10, 16<<10, 4<<10)}
	}
	w.Quotas = d.OneIn(2)
	w.Workloads = cases.Several(d, 1, 6, drawWorkload)
	w.Rescue = d.OneIn(2)
	return w
}

// drawFullNodes returns a random world with containers that are OOM-killed, and with nodes that have little room for larger pods.
func drawFullNodes(d cases.Dice) *world {
	w := draw(d)
	w.Rescue = true
	var all, largest size
	for i := range w.Workloads {
		x := &w.Workloads[i]
		if x.OOM.NeedMB == 0 {
			x.OOM = outOfMemory{NeedMB: cases.Pick[int64](d, 256, 600), Every: 1 + d.IntN(6)}
		}
		containers := int64(len(x.names()))
		pod := size{containers * x.Template.CPU, containers * x.Template.Memory}
		all.CPU += int64(x.Replicas) * pod.CPU
		all.Memory += int64(x.Replicas) * pod.Memory
		largest = size{max(largest.CPU, pod.CPU), max(largest.Memory, pod.Memory)}
	}
	w.Nodes = 1 + d.IntN(3)
	percent := cases.Pick[int64](d, 100, 120, 200)
	w.Node = size{(all.CPU/int64(w.Nodes) + largest.CPU) * percent / 100, (all.Memory/int64(w.Nodes) + largest.Memory) * percent / 100}
	return w
}

// drawStaleQuotas returns a random world in which the watch is stale, each namespace has a quota, and each workload is scaled down.
func drawStaleQuotas(d cases.Dice) *world {
	w := draw(d)
	w.Lag = 1 + d.IntN(3)
	for i := range w.Workloads {
		x := &w.Workloads[i]
		if x.Quota == nil {
			quota := cases.Pick[int64](d, 0, 100, 500, 1000, 2000)
			x.Quota = &quota
		}
		x.Replicas = max(x.Replicas, 2)
		if !x.scaledDown(0, w.Minutes) {
			at := 0
			if n := len(x.Scales); n > 0 {
				at = x.Scales[n-1].At
			}
			x.Scales = append(x.Scales, scaling{At: at + 1 + d.IntN(40), Replicas: 1 + d.IntN(x.ends(w.Minutes)-1)})
		}
	}
	return w
}

// drawWithoutEffect returns a random world in which replacements do not have the recommended size: the webhook is not called for them, or another
// webhook resets their requests. All flags of podfit have their defaults, and containers are OOM-killed seconds after each start.
func drawWithoutEffect(d cases.Dice) *world {
	w := draw(d)
	w.Minutes = cases.Pick(d, 60, 60, 60, 60, 60, 60, 120, 240)
	w.Defaults, w.Rescue, w.Rate, w.SkipBudget, w.Min, w.Tolerance = true, true, 0, false, 2, 0.5
	if d.OneIn(3) {
		w.Unsized = drawWindow(d)
	}
	w.Workloads = w.Workloads[:min(len(w.Workloads), 3)]
	for i := range w.Workloads {
		x := &w.Workloads[i]
		if w.Lag > 0 {
			x.Scales = nil // a stale watch may never show a replacement that a scale-down removes
		}
		if x.Mode == "InPlace" { // needs a feature gate
			x.Mode = "Recreate"
		}
		if d.OneIn(2) { // the requests are within the bounds
			x.Template = size{1000, 1024}
			x.Advice[0].Target = size{1000, cases.Pick[int64](d, 2048, 1536)}
		}
		for j := range x.Advice { // a recommendation of the size that new pods have anyway would show an effect
			if x.Advice[j].Target == x.Template {
				x.Advice[j].Target.Memory *= 2
			}
		}
		if !d.OneIn(5) {
			x.OOM = outOfMemory{NeedMB: x.Template.Memory + 1 + d.Int64N(2048), Seconds: 5 * (1 + d.IntN(24))}
		}
		if i > 0 && d.OneIn(3) {
			continue
		}
		x.Unsized, x.Reset = nil, nil
		if d.OneIn(2) {
			x.Unsized = drawWindow(d)
		} else {
			x.Reset = drawWindow(d)
		}
	}
	return w
}

func drawWorkload(d cases.Dice) workload {
	small, large := size{100, 128}, size{1000, 1024}
	w := workload{Replicas: 1 + d.IntN(6), Mode: cases.Pick(d, "Recreate", "InPlaceOrRecreate", "InPlaceOrRecreate", "InPlace", "Auto"), Template: small}
	target := large
	switch d.IntN(5) {
	case 1:
		w.Template, target = large, small
	case 2:
		target = size{1000, 128}
	case 3:
		target = size{100, 1024}
	case 4:
		target = size{1000, 40}
	}
	w.Advice = []advice{{Target: target}}
	for d.OneIn(4) && len(w.Advice) < 3 {
		w.Advice = append(w.Advice, advice{At: w.Advice[len(w.Advice)-1].At + 5 + d.IntN(60), Target: cases.Pick(d, size{3000, 4096}, small, large, size{300, 300})})
	}
	for d.OneIn(6) && len(w.Scales) < 3 {
		at := 0
		if n := len(w.Scales); n > 0 {
			at = w.Scales[n-1].At
		}
		w.Scales = append(w.Scales, scaling{At: at + 1 + d.IntN(40), Replicas: 1 + d.IntN(8)})
	}
	w.StatefulSet = d.OneIn(3)
	w.Limits = cases.Pick(d, "", "", "twice", "same")
	w.Second = d.OneIn(4)
	w.Restart = d.OneIn(5)
	if d.OneIn(8) {
		w.MinReplicas = int32(1 + d.IntN(3))
	}
	if d.OneIn(3) {
		w.Fine = numbers(d, w.Replicas)
	}

	if d.OneIn(8) {
		w.Unsized = drawWindow(d)
	}
	w.Delay = cases.Pick(d, 0, 0, 0, 0, 1, 5)
	w.Grace = cases.Pick(d, 0, 0, 0, 1, 5)
	w.Start = cases.Pick(d, 0, 0, 1, 1, 3, 15)
	if d.OneIn(8) {
		w.NeverReady = numbers(d, w.Replicas)
	}

	if d.OneIn(4) {
		w.PDBs = cases.Several(d, 1, 2, func(d cases.Dice) pdb {
			return pdb{FirstOnly: d.OneIn(2), MinAvailable: cases.Pick(d, 0, 0, 1, 2, 6), MaxUnavailable: cases.Pick(d, 0, 1, 1, 2)}
		})
	}
	if d.OneIn(3) {
		w.Faults = cases.Several(d, 1, 2, drawFault)
	}
	if d.OneIn(7) {
		quota := cases.Pick[int64](d, 0, 100, 500, 1000, 2000)
		w.Quota = &quota
	}
	if d.OneIn(8) {
		// A LimitRange sets a limit on each container. Existing pods comply with it.
		w.MostMB = max(cases.Pick[int64](d, 512, 256, 2048), 2*w.Template.Memory)
		w.Limits = cases.Pick(d, "twice", "same")
	}
	if d.OneIn(3) {
		w.Resizing = resizing{How: cases.Pick(d, "deferred", "infeasible", "in progress", "error", "memory in use", "silent"), For: cases.Pick(d, 0, 0, 1, 3, 10, 90)}
	}
	if d.OneIn(8) {
		w.OOM = outOfMemory{NeedMB: cases.Pick[int64](d, 256, 600, 8192), Every: 1 + d.IntN(6)}
	}
	if d.OneIn(12) {
		w.Undo = cases.Pick(d, 1, 5, 30)
	}
	return w
}

func drawFault(d cases.Dice) fault {
	f := fault{
		Verb: cases.Pick(d, "evict", "resize"), First: d.OneIn(2), When: *drawWindow(d),
		What: cases.Pick(d, denied403, denied400, failed500, busy429, conflict, lostReply, noReply, slowReply, notSent),
	}
	if f.Verb == "resize" && d.OneIn(4) {
		f.What, f.When = nodeTooBig, window{} // node sizes do not change
		return f
	}
	if d.OneIn(4) {
		f.Every = 2 + d.IntN(4)
	}
	return f
}

// drawWindow returns a range of minutes; most often the whole simulation.
func drawWindow(d cases.Dice) *window {
	w := new(window)
	if d.OneIn(3) {
		w.From = d.IntN(40)
	}
	if d.OneIn(2) {
		w.To = w.From + 1 + d.IntN(90)
	}
	return w
}

// numbers returns a random subset of the numbers below n.
func numbers(d cases.Dice, n int) []int {
	var out []int
	for i := range n {
		if d.OneIn(2) {
			out = append(out, i)
		}
	}
	return out
}
