// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// longVariable is the environment variable that switches the long test on.
const longVariable = "PODFIT_KARPENTER"

// refused refuses evictions of the workload held, for a reason that podfit cannot foresee.
const refused = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: held}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods/eviction]}]
  validations: [{expression: '!request.name.startsWith("held-")', message: held}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: held}
spec: {policyName: held, validationActions: [Deny]}
`

// A scene is a step of the long test.
type scene struct {
	at   time.Duration // since the start
	what string
	play func()
}

// TestKarpenter_halfAnHour_noLoop shows that podfit and Karpenter do not move each other in circles. Karpenter may add nodes with 12 cores in total.
//
//	grow   two pods get a node of 4 cores each, and become small again. A third size is not applied, because the recommendation keeps changing
//	held   its eviction is refused. The request ends after 20 minutes, and Karpenter removes the empty node. The next request would follow with the next
//	       attempt to evict, after half an hour
//	late   waits for a fourth node: its request ends after 10 minutes, the next one follows after 5 minutes
//	huge   needs a node of 8 cores, for which the NodePool has no room until the nodes of grow are gone. podfit reads that every 5 minutes
func TestKarpenter_halfAnHour_noLoop(t *testing.T) {
	if os.Getenv(longVariable) == "" {
		t.Skip("takes half an hour; set " + longVariable + "=long")
	}
	w := newWorld(t, 12)
	w.apply(deployment("other", 1, "1500m"), deployment("grow", 2, "500m"), deployment("held", 1, "500m"), deployment("late", 1, "500m"), refused)
	w.eventually("the pods run", time.Minute, func(ctx context.Context) error {
		return errors.Join(w.sized(ctx, "other", 1, "1500m"), w.sized(ctx, "grow", 2, "500m"), w.sized(ctx, "held", 1, "500m"), w.sized(ctx, "late", 1, "500m"))
	})
	w.began = time.Now()
	grown := func(cpu string, nodes int) {
		w.holds("the pods of grow request "+cpu, func(ctx context.Context) error { return w.sized(ctx, "grow", 2, cpu) })
		w.holds("Karpenter has so many nodes", func(context.Context) error { return w.present(nodes) })
	}
	scenes := []scene{
		{0, "grow needs 3 cores", func() { w.apply(autoscaler("grow", 2, "3")) }},
		{3 * time.Minute, "held needs 3 cores; its eviction is refused", func() {
			grown("3", 2)
			w.apply(autoscaler("held", 1, "3"))
		}},
		{4 * time.Minute, "late needs 3 cores; the NodePool is at its limit", func() {
			w.holds("Karpenter has 3 nodes", func(context.Context) error { return w.present(3) })
			w.apply(autoscaler("late", 1, "3"))
		}},
		{11 * time.Minute, "huge needs 6 cores", func() { w.apply(deployment("huge", 1, "500m"), autoscaler("huge", 1, "6")) }},
		{16 * time.Minute, "late has not got its node, huge is not asked for", func() {
			w.holds("late waits for its next request", func(ctx context.Context) error {
				return w.explains(ctx, "late", "CapacityNotFound", "at their maximum")
			})
			w.holds("huge waits for a NodePool that is not at its limit", func(ctx context.Context) error { return w.explains(ctx, "huge", "Unplaceable", "at their maximum") })
		}},
		{21 * time.Minute, "late is deleted", func() { w.remove("late") }},
		{24 * time.Minute, "Karpenter has removed the node for held; grow needs 500m", func() {
			grown("3", 2)
			w.apply(autoscaler("grow", 2, "500m"))
		}},
		{26 * time.Minute, "grow is small, and needs 3 cores again, a third size in half an hour", func() {
			// huge may have its node already, so the nodes of grow are counted at the end.
			w.holds("the pods of grow request 500m", func(ctx context.Context) error { return w.sized(ctx, "grow", 2, "500m") })
			w.apply(autoscaler("grow", 2, "3"))
		}},
		{31 * time.Minute, "huge has its node, grow is left alone", func() {
			grown("500m", 1)
			w.holds("the pods of grow are not replaced again", func(ctx context.Context) error { return w.explains(ctx, "grow", "keeps changing") })
			w.holds("huge has its size", func(ctx context.Context) error { return w.sized(ctx, "huge", 1, "6") })
		}},
	}
	for _, s := range scenes {
		w.until(s.at)
		s.play()
	}
	w.judgeLoops(scenes)
}

// until waits until some time has passed since the start.
func (w *world) until(since time.Duration) {
	w.Helper()
	ctx, cancel := context.WithDeadline(w.Context(), w.began.Add(since))
	defer cancel()
	_ = bed.Until(ctx, time.Second, func(context.Context) error { return errors.New("it is not time yet") })
	if err := w.Context().Err(); err != nil {
		w.Fatal(err)
	}
}

// soon is within which a check of the long test holds. On a busy machine, a request to the API server may fail.
const soon = 20 * time.Second

// holds waits until a check returns nil. It reports an error without ending the test, so that the log of the whole time is written.
func (w *world) holds(what string, check func(context.Context) error) {
	w.Helper()
	ctx, cancel := bed.WithPatience(w.Context(), soon)
	defer cancel()
	if err := bed.Until(ctx, time.Second, check); err != nil {
		w.Errorf("after %v: %s: %v", time.Since(w.began).Round(time.Second), what, err)
	}
}

// judgeLoops writes what happened by the minute, and fails the test if there were more requests or evictions than the workloads explain.
func (w *world) judgeLoops(scenes []scene) {
	log, err := w.witness.Log(w.Context())
	w.must(err)
	w.Logf("\n%s", w.table(log, scenes))
	requests := written(log, isRequest)
	most := map[string]int{"grow": 2, "held": 1, "late": 2, "huge": 1}
	has := map[string]int{}
	for _, x := range requests {
		for app := range most {
			if strings.Contains(x.Body, `"podfit.dev/placeholder-for":"`+app+"-") {
				has[app]++
			}
		}
	}
	total := 0
	for app, n := range has {
		total += n
		if n > most[app] {
			w.Errorf("%d requests for %s, want at most %d", n, app, most[app])
		}
	}
	if total != len(requests) {
		w.Errorf("%d of %d requests are for known workloads", total, len(requests))
	}
	// The two pods of grow change their size twice, and that of huge once. The sizes were checked, so each eviction had its effect if there are not more.
	if n := len(written(log, isEviction)); n != 5 {
		w.Errorf("%d evictions, want 5", n)
	}
	if added, _ := w.fleet.counts(); added > len(requests) {
		w.Errorf("Karpenter has added %d nodes for %d requests", added, len(requests))
	}
}

// table returns what happened by the minute.
func (w *world) table(log invariant.Log, scenes []scene) string {
	var out strings.Builder
	fmt.Fprintln(&out, "MINUTE  REQUESTS  RELEASED  EVICTIONS  REFUSED  NODES ADDED  REMOVED  PRESENT  FROM NOW ON")
	minutes := int(time.Since(w.began)/time.Minute) + 1
	present := 0
	w.fleet.mu.Lock()
	defer w.fleet.mu.Unlock()
	for m := range minutes {
		in := func(at time.Time) bool { return !at.IsZero() && int(at.Sub(w.began)/time.Minute) == m }
		var requests, released, evicted, refused, added, removed int
		for i := range log.Writes {
			x := &log.Writes[i]
			switch {
			case x.User != account || x.DryRun || !in(x.At):
			case isRequest(x) && x.OK():
				requests++
			case x.Verb == "delete" && x.Resource == "pods" && x.OK():
				released++
			case isEviction(x) && x.OK():
				evicted++
			case isEviction(x):
				refused++
			}
		}
		for _, machine := range w.fleet.machines {
			if in(machine.added) {
				added++
			}
			if in(machine.gone) {
				removed++
			}
		}
		present += added - removed
		var now []string
		for _, s := range scenes {
			if int(s.at/time.Minute) == m {
				now = append(now, s.what)
			}
		}
		fmt.Fprintf(&out, "%6d  %8d  %8d  %9d  %7d  %11d  %7d  %7d  %s\n", m, requests, released, evicted, refused, added, removed, present, strings.Join(now, "; "))
	}
	return out.String()
}
