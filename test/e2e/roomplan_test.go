// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// plannedSteps has a full node whose plan has each kind of step: a pod shrinks, one moves, one grows, and one grows by a part. A dry run
// writes the plan as a table and changes nothing. Then the updater logs the steps before it takes the first of them.
func plannedSteps(t *testing.T, w *world) {
	p := newPlaceIn(t, w, "planned-steps")
	p.allow(invariant.Advised, "a pod within its bounds is shrunk to its target to make room, and a pod grows by a part")
	p.schedulable("node-2", false)
	sizes := map[string]string{"needing": "1200m", "large": "800m", "small": "1000m", "partly": "500m"}
	for name, cpu := range sizes {
		p.apply(oneReplica(name, cpu))
	}
	for name := range sizes {
		p.start(name, 1)
	}
	p.schedulable("node-2", true)
	p.apply(onNode("node-2", oneReplica("other", "2500m")))
	p.start("other", 1)

	p.updater.Kill()
	for name := range sizes {
		p.apply(singleAutoscaler(name, "{podfit.dev/make-room: "+map[bool]string{true: "split", false: "move"}[name == "partly"]+"}"))
	}
	p.recommend("large", "600m", "700m", "3600m")
	p.recommend("small", "1000m", "1000m", "3600m")
	p.recommend("needing", "1700m", "1800m", "3600m")
	p.recommend("partly", "1500m", "1600m", "3600m")
	// A dry run does not ask which rights it has, because that is a write.
	p.ExpectRefused("vpa-updater: get configmaps", "vpa-updater: get priorityclasses.scheduling.k8s.io")
	dry, err := p.healthy(t.Context(), bed.Updater().Named("updater-dry-run").With("--dry-run"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dry.Kill)
	want := []string{
		"1 shrink large cpu=800m cpu=700m makes room for needing",
		"2 wait needing cpu=1200m cpu=1800m the node lacks cpu=100m",
		"3 wait partly cpu=500m cpu=1600m the node lacks cpu=1100m",
		"4 move small cpu=1 cpu=1 makes room for needing; the replacement fits on node node-2; follows when the kubelet has deferred the resize",
		"5 grow needing cpu=1200m cpu=1800m gets its target",
	}
	p.eventually("the dry run writes the plan as a table", resized, func(context.Context) error {
		if have := plannedRows(dry.Tail(1000)); !slices.Equal(have, want) && !slices.Equal(have, swapped(want, 1, 2)) {
			return fmt.Errorf("rows:\n%s\nwant:\n%s\nin:\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"), dry.Tail(40))
		}
		return nil
	})
	if err := dry.Stop(); err != nil {
		t.Error(err)
	}
	if n := p.writesOfUpdater(); len(n) > 0 {
		t.Errorf("the dry run wrote: %v", n)
	}

	if p.updater, err = p.healthy(t.Context(), bed.Updater()); err != nil {
		t.Fatal(err)
	}
	// After the shrink, large costs as much to move as small. The rest of the node is then 300m less.
	partly := func(ctx context.Context) error {
		if p.hasCPU(ctx, "partly", "1100m") == nil {
			return nil
		}
		return p.hasCPU(ctx, "partly", "1400m")
	}
	p.eventually("each pod has the size of the plan", 2*roomWithin, all(
		func(ctx context.Context) error { return p.hasCPU(ctx, "large", "700m") }, func(ctx context.Context) error { return p.hasCPU(ctx, "needing", "1800m") },
		partly))
	logged := loggedSteps(p.updater.Tail(1000))
	for _, action := range []string{"shrink", "move", "grow", "grow in part"} {
		if !slices.ContainsFunc(logged, func(s loggedStep) bool { return s.action == action }) {
			t.Errorf("no step %q is logged: %v", action, logged)
		}
	}
	for _, write := range p.writesOfUpdater() {
		first := slices.IndexFunc(logged, func(s loggedStep) bool { return s.pod == p.ns+"/"+write.Name })
		if write.Resource == "pods" && write.OK() && (first < 0 || logged[first].at.After(write.At)) {
			t.Errorf("%v is sent before a step for the pod is logged: %v", write, logged)
		}
	}
	if n := p.moves(); n != 1 {
		t.Errorf("%d pods were moved, want 1", n)
	}
}

// swapped returns rows with two neighbours exchanged, which keep their numbers: pods that need room at the same time are ordered by UID.
func swapped(rows []string, i, j int) []string {
	out := slices.Clone(rows)
	out[i], out[j] = fmt.Sprint(i+1)+rows[j][1:], fmt.Sprint(j+1)+rows[i][1:]
	return out
}

var (
	column    = regexp.MustCompile(`  +`)
	generated = regexp.MustCompile(`[\w-]+/([a-z]+)-[a-z0-9]+-[a-z0-9]{5}\b`)
	attribute = regexp.MustCompile(`(\w+)=("[^"]*"|\S+)`)
)

// plannedRows returns the rows of the last table of a plan in a text, with the names of Deployments instead of pods and without memory.
func plannedRows(text string) []string {
	var rows []string
	inside := false
	for line := range strings.Lines(text) {
		cells := column.Split(strings.TrimSpace(line), -1)
		switch {
		case strings.HasPrefix(line, "  STEP "):
			inside, rows = true, nil
		case inside && strings.HasPrefix(line, "  ") && len(cells) == 6:
			row := generated.ReplaceAllString(strings.Join(cells, " "), "$1")
			rows = append(rows, strings.ReplaceAll(row, " memory=100Mi", ""))
		default:
			inside = false
		}
	}
	return rows
}

// A loggedStep is a record of a step of a plan in the log of an updater.
type loggedStep struct {
	at          time.Time
	action, pod string
}

func loggedSteps(log string) []loggedStep {
	var out []loggedStep
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `msg="Planned step for a node with too little room"`) {
			continue
		}
		values := map[string]string{}
		for _, m := range attribute.FindAllStringSubmatch(line, -1) {
			values[m[1]] = strings.Trim(m[2], `"`)
		}
		at, err := time.Parse(time.RFC3339Nano, values["time"])
		if err == nil {
			out = append(out, loggedStep{at, values["action"], values["pod"]})
		}
	}
	return out
}

// writesOfUpdater returns the requests by which the updater changed pods and Deployments of the namespace or tried to.
func (p *place) writesOfUpdater() []invariant.Write {
	p.Helper()
	log, err := p.witness.Log(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return slices.DeleteFunc(slices.Clone(log.Writes), func(w invariant.Write) bool {
		return w.Namespace != p.ns || w.User != "vpa-updater" || w.Resource != "pods" && w.Resource != "deployments" || w.DryRun
	})
}
