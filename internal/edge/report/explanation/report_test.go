// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/changelog"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/core/gate"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rationale"
	"podfit.dev/podfit/internal/core/runs"
	"podfit.dev/podfit/internal/core/runtimeguard"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var night = time.Date(2026, 11, 22, 3, 12, 0, 0, time.UTC)

// cart is the explanation of docs: a killed workload on a full node.
func cart() *explanation.Explanation {
	waits := []gate.Gate{
		{Name: gate.Mode}, {Name: gate.Recommendation}, {Name: gate.Controller}, {Name: gate.Need},
		{Name: gate.State, Blocked: true, Reason: decision.Reason{Code: decision.ResizeWaiting, Text: "node n7 has 180Mi free"}},
		{Name: gate.MinReplicas, Blocked: true, Reason: decision.Reason{Code: decision.TooFewReplicas, Have: 1, Want: 2}},
	}
	return &explanation.Explanation{
		At: night, Subject: "shop/Deployment/cart", Facts: []string{"×6", "VPA cart", "InPlaceOrRecreate", "profile balanced"},
		Situations: []explanation.Situation{
			{Code: explanation.ResizePending, Title: "resize Deferred since 03:09", Text: "The kubelet reports the resize of cart-7d9f-q8z as Deferred since 03:09 (3m ago)."},
			{Code: explanation.NodeFull, Title: "no room on node n7", Text: "Node n7 has no room for the new requests of cart-7d9f-q8z. It has 4 CPU, 16Gi allocatable, and 3800m CPU, 16200Mi are requested."},
		},
		Now:     []string{"app was OOM-killed 3 times in 2 pods, last at 02:58 with a limit of 1Gi.", "4 of 6 pods have the recommended size.", "app: cpu stays 500m, memory 1Gi → 1276Mi."},
		History: []string{"app 7 d of 8 d"},
		Next: []explanation.Step{
			{
				Pods: []string{"cart-7d9f-m4t"}, Act: decision.Resize, Code: "BelowRange", Gates: waits[:4], Fallback: "If the API server refuses the resize, the pod is evicted.",
				Reason: "The memory request 1Gi is below the lower bound; the target is 1276Mi.",
			},
			{
				Pods: []string{"cart-7d9f-q8z"}, Act: decision.Leave, Code: "ResizeWaiting", Gates: waits, NotBefore: night.Add(5 * time.Minute),
				Reason: "The node has no room: node n7 has 180Mi free.", Fallback: "If it still waits at 03:14, the pod is evicted.",
			},
			{
				Pods: []string{"cart-7d9f-a", "cart-7d9f-b", "cart-7d9f-c", "cart-7d9f-d"}, Act: decision.Leave, Code: "Fits", Reason: "The pods have their size.",
				Gates: []gate.Gate{{Name: gate.Mode}, {Name: gate.Need, Blocked: true}},
			},
		},
		You: []explanation.Advice{
			{Text: "Nothing to do if the node gets room. To move the pod now:", Command: "kubectl cordon n7 && kubectl -n shop delete pod cart-7d9f-q8z && kubectl uncordon n7"},
			{Text: "To stop podfit here:", Command: `kubectl -n shop patch vpa cart --type merge -p '{"spec":{"updatePolicy":{"updateMode":"Off"}}}'`},
		},
		Heaps: []explanation.Heap{
			{Container: "app", Option: "-XX:MaxRAMPercentage=59.3", HeapAdvice: runtimeguard.HeapAdvice{
				Live: 100 << 20, Collected: true, Ceiling: 768 << 20, Beside: 150 << 20, GCShare: 0.002, AdvisedCeiling: 304 << 20, AdvisedMemory: 512 << 20,
			}},
			{Container: "side", HeapAdvice: runtimeguard.HeapAdvice{GCShare: math.NaN(), Lack: "no Prometheus was read"}},
		},
		Why: []rationale.Why{{
			Container: "app", Resource: cluster.Memory, Profile: "balanced", Estimate: 1276 << 20,
			Steps:  derivation.Steps{{Name: derivation.StepMargin, Operation: derivation.Multiply, Factor: 1.139, Result: 1276 << 20, Changed: true, Evidence: derivation.Evidence{Margin: 0.139, Budget: 0.02}}},
			Bounds: []policy.Bound{{Resource: cluster.Memory, Kind: policy.MaxAllowed, Amount: 4 << 30, Before: 1276 << 20, After: 1276 << 20}},
			Range:  rationale.Range{Lower: 1200 << 20, Target: 1276 << 20, Upper: 2 << 30}, Published: rationale.Published{Target: 1276 << 20}, Size: rationale.Amounts{Request: 1276 << 20, HasRequest: true},
			Present: rationale.Amounts{Request: 1 << 30, HasRequest: true},
		}},
		WhatIf: []rationale.Counterfactual{
			{If: rationale.If{Key: rationale.IfProfile, Value: "cost"}, Container: "app", Resource: cluster.Memory, Known: true, Target: 1180 << 20},
			{If: rationale.If{Key: rationale.IfProfile, Value: "critical"}, Container: "app", Resource: cluster.Memory, Reason: "The history is not enough."},
		},
		Gaps: explanation.Gaps{
			Assumed: []string{"--min-replicas=2", "--updater-interval=1m0s"},
			Missing: []explanation.Unread{{Part: "events", Note: "Events were not read (you have no right to list them)."}},
		},
	}
}

// hostile is an explanation with text that must have no effect.
func hostile() *explanation.Explanation {
	const evil = "</style></title><script>alert(1)</script>\x1b[31m\u202e'\";rm -rf /`$(x)"
	return &explanation.Explanation{
		At: night, Subject: evil, Facts: []string{evil}, Now: []string{evil}, Gaps: explanation.Gaps{Missing: []explanation.Unread{{Part: evil, Note: evil}}, Remarks: []string{evil}, Assumed: []string{evil}},
		Situations: []explanation.Situation{{Code: explanation.JVM, Title: evil, Text: evil}},
		Next:       []explanation.Step{{Pods: []string{evil}, Code: "Fits", Reason: evil, Fallback: evil, Gates: []gate.Gate{{Name: gate.Need, Blocked: true, Reason: decision.Reason{Code: decision.Frozen, Text: evil}}}}},
		You:        []explanation.Advice{{Text: evil, Command: evil}},
		Heaps:      []explanation.Heap{{Container: evil, Option: evil, HeapAdvice: runtimeguard.HeapAdvice{Lack: evil}}},
		Why:        []rationale.Why{{Container: evil, Resource: cluster.CPU, Profile: evil}},
		WhatIf:     []rationale.Counterfactual{{If: rationale.If{Key: rationale.IfProfile, Value: evil}, Container: evil, Resource: cluster.CPU, Known: true}},
	}
}

// usual writes an explanation with 80 columns.
func usual(w io.Writer, e *explanation.Explanation) error { return WriteText(w, e, Usual, false) }

var writers = map[string]func(io.Writer, *explanation.Explanation) error{"txt": usual, "json": WriteJSON, "html": WriteHTML}

func written(t *testing.T, format string, e *explanation.Explanation) string {
	t.Helper()
	var out bytes.Buffer
	if err := writers[format](&out, e); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// withNames returns a text with the names of the reasons of gates instead of what docs/messages.md has for them.
func withNames(text string, e *explanation.Explanation) string {
	for _, s := range e.Next {
		for _, g := range s.Gates {
			const value = "\x00"
			r := g.Reason
			if r.Text != "" {
				r.Text = value
			}
			before, _, _ := strings.Cut(r.String(), value)
			text = strings.ReplaceAll(text, strings.TrimSpace(before), "{"+r.Code.String()+"}")
		}
	}
	return text
}

func TestWrite_eachFormat_isLikeItsGoldenFile(t *testing.T) {
	for name, e := range map[string]*explanation.Explanation{"cart": cart(), "hostile": hostile(), "empty": {At: night, Subject: "shop/Pod/x"}} {
		for format := range writers {
			got := withNames(written(t, format, e), e)
			path := filepath.Join("testdata", name+"."+format)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		}
	}
}

// longNames is the explanation of docs for a workload, pods, nodes and containers with the longest names that are usual in Kubernetes.
func longNames() *explanation.Explanation {
	long := func(of string) string { return of + strings.Repeat("-x", (63-len(of))/2) }
	e := cart()
	e.Subject, e.Facts = "shop/Deployment/"+long("cart"), []string{"×6", "VPA " + long("cart"), "InPlaceOrRecreate", "profile balanced"}
	e.Situations[1].Title = "no room on node " + long("n7")
	e.Now = append(e.Now, long("app")+" was OOM-killed 3 times in 2 pods.")
	for i := range e.Next {
		for k := range e.Next[i].Pods {
			e.Next[i].Pods[k] = long(e.Next[i].Pods[k])
		}
	}
	e.You[0].Command = "kubectl cordon " + long("n7") + " && kubectl -n " + long("shop") + " delete pod " + long("cart-7d9f") + " && kubectl uncordon " + long("n7")
	for i := range e.Why {
		e.Why[i].Container = long("app")
	}
	for i := range e.WhatIf {
		e.WhatIf[i].Container, e.WhatIf[i].If.Value = long("app"), long("night-batch")
	}
	return e
}

func TestWriteText_anyExplanation_isAsWideAsTheTerminal(t *testing.T) {
	lines := map[int]int{} // by width
	for _, width := range []int{0, 40, 60, 80, 100, 120, 300} {
		for name, e := range map[string]*explanation.Explanation{"cart": cart(), "hostile": hostile(), "long names": longNames()} {
			var out strings.Builder
			if err := WriteText(&out, e, width, false); err != nil {
				t.Fatal(err)
			}
			for line := range strings.SplitSeq(out.String(), "\n") {
				lines[width]++
				if name == "hostile" && width < 80 {
					continue // its names are that long
				}
				if n := utf8.RuneCountInString(line); n > min(max(width, 40), 120) && len(strings.Fields(line)) > 2 { // a single name may be longer, also with its mark
					t.Errorf("%s, width %d: %d columns: %s", name, width, n, line)
				}
			}
		}
	}
	if lines[0] != lines[40] || lines[40] <= lines[80] || lines[80] <= lines[120] || lines[120] != lines[300] {
		t.Errorf("lines by width: %v", lines)
	}
}

func TestWriteText_conditionsOfSeveralContainers_areAlignedOrOneLine(t *testing.T) {
	e := &explanation.Explanation{Why: []rationale.Why{{Container: "app"}, {Container: "proxy"}}}
	of := func(container string, resource cluster.Resource, reason string) rationale.Counterfactual {
		return rationale.Counterfactual{If: rationale.If{Key: rationale.IfProfile, Value: "cost"}, Container: container, Resource: resource, Reason: reason}
	}
	known := func(container string, resource cluster.Resource) rationale.Counterfactual {
		c := of(container, resource, "")
		c.Known, c.Target = true, 1<<30
		return c
	}
	for name, c := range map[string]struct {
		whatIf []rationale.Counterfactual
		want   string
	}{
		"several reasons": {
			[]rationale.Counterfactual{of("app", cluster.CPU, "No history."), of("app", cluster.Memory, "No history."), of("proxy", cluster.Memory, "No samples.")},
			"WHAT IF not known: profile=cost. No history. No samples.\n",
		},
		"one reason": {
			[]rationale.Counterfactual{of("app", cluster.CPU, "No history."), of("proxy", cluster.Memory, "No history.")},
			"WHAT IF not known: profile=cost. No history.\n",
		},
		"long name": {
			[]rationale.Counterfactual{of(strings.Repeat("a", 40), cluster.CPU, "No history."), known("proxy", cluster.Memory)},
			"WHAT IF\n   " + strings.Repeat("a", 40) + " cpu  not known: profile=cost. No\n",
		},
		"some are known": {
			[]rationale.Counterfactual{of("app", cluster.CPU, "No history."), known("proxy", cluster.Memory)},
			"WHAT IF\n   app cpu       not known: profile=cost. No history.\n   proxy memory  profile cost 1Gi\n",
		},
	} {
		e.WhatIf = c.whatIf
		var out bytes.Buffer
		if err := WriteText(&out, e, Usual, false); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: the output is %q, want %q (error %v)", name, out.String(), c.want, err)
		}
	}
}

// The newest changes of the recommendation are shown, all with -o wide, and in JSON with their amounts.
func TestWriteText_changesOfTheRecommendation_areShownWithTheirCauses(t *testing.T) {
	e := &explanation.Explanation{At: night, Subject: "shop/Deployment/cart"}
	for i := range 7 {
		at := night.Add(-time.Duration(i+1) * time.Hour).Unix()
		e.Changes = append(e.Changes, explanation.Change{
			Change: changelog.Change{Resource: cluster.CPU, At: at, To: 200, Cause: changelog.Usage}, Container: "app", From: int64(100 + i),
		})
	}
	e.Changes[6].Change = changelog.Change{Resource: cluster.Memory, At: night.Add(-30 * time.Hour).Unix(), To: 256 << 20}
	e.Changes[6].From = 0
	for all, want := range map[bool][]string{
		false: {"CHANGES 22 Nov 02:12 (1h ago): app CPU target 100m → 200m: higher usage\n", "2 earlier ones (-o wide)"},
		true:  {"105m → 200m: higher usage", "20 Nov 21:12 (1d6h ago): app memory target 256Mi: first on record"},
	} {
		var out bytes.Buffer
		if err := WriteText(&out, e, Usual, all); err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("all notes: %t: %q is not in\n%s", all, part, out.String())
			}
		}
		if strings.Contains(out.String(), "105m") != all {
			t.Errorf("all notes: %t: the sixth change is in the text: %t", all, !all)
		}
	}
	var out bytes.Buffer
	if err := WriteJSON(&out, e); err != nil {
		t.Fatal(err)
	}
	if want := `"resource": "memory",`; !strings.Contains(out.String(), want) || !strings.Contains(out.String(), `"to": 268435456`) {
		t.Errorf("JSON has not the change of memory:\n%s", out.String())
	}
}

func TestWriteText_limits_areInTheFirstFiveLines(t *testing.T) {
	first := strings.Join(strings.Split(written(t, "txt", cart()), "\n")[:5], "\n")
	for _, s := range cart().Situations {
		if !strings.Contains(first, s.Title) {
			t.Errorf("no %q in\n%s", s.Title, first)
		}
	}
}

func TestWrite_controlCharacters_areRemoved(t *testing.T) {
	for _, format := range []string{"txt", "html"} {
		for _, r := range written(t, format, hostile()) {
			if r != '\n' && r < ' ' || r == 0x7f || r == '\u202e' {
				t.Fatalf("%s contains %U", format, r)
			}
		}
	}
}

// The page has no script, and its policy allows exactly its own style.
func TestWriteHTML_hostileNames_areInert(t *testing.T) {
	got := written(t, "html", hostile())
	if strings.Contains(got, "<script") || strings.Count(got, "</style>") != 1 || strings.Count(got, "</title>") != 1 {
		t.Errorf("hostile text is part of the markup:\n%s", got)
	}
	_, rest, _ := strings.Cut(got, "<style>")
	inline, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(inline))
	want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	if !strings.Contains(got, want) || !strings.Contains(got, "default-src 'none';") {
		t.Errorf("the policy does not contain %s", want)
	}
	for _, forbidden := range []string{"http://", "https://", " style=", " onclick", "@import", "url("} {
		if strings.Contains(got, forbidden) {
			t.Errorf("the page contains %q", forbidden)
		}
	}
}

func TestWriteJSON_anyExplanation_isOneVersionedObject(t *testing.T) {
	for name, e := range map[string]*explanation.Explanation{"cart": cart(), "hostile": hostile()} {
		var got struct{ APIVersion, Kind string }
		if err := json.Unmarshal([]byte(written(t, "json", e)), &got); err != nil || got.APIVersion != "podfit.dev/explain/v1" || got.Kind != "Explanation" {
			t.Errorf("%s: %+v, error %v", name, got, err)
		}
	}
}

func TestCommand_longCommand_isContinuedOnlyBetweenArguments(t *testing.T) {
	got := written(t, "txt", cart())
	if !strings.Contains(got, "-p \\\n            '{\"spec\":{\"updatePolicy\":{\"updateMode\":\"Off\"}}}'\n") {
		t.Errorf("the command is not continued before its last argument:\n%s", got)
	}
}

// The last runs of each container are shown, all with -o wide and in JSON. What was not measured is said to be that.
func TestWriteText_runs_areShownWithDurationAndUsage(t *testing.T) {
	e := &explanation.Explanation{At: night, Subject: "shop/CronJob/report"}
	for i := range 7 {
		at := night.Add(-time.Duration(i+1) * time.Hour).Unix()
		e.Runs = append(e.Runs, explanation.Run{Container: "app", Run: runs.Run{Started: at, Last: at + 240, Ended: true, CPU: int64(101 + i), Memory: 300 << 20}})
	}
	e.Runs[1].CPU, e.Runs[1].Memory, e.Runs[1].Last = 0, 0, e.Runs[1].Started+8
	e.Runs = append(e.Runs, explanation.Run{Container: "migrate", Run: runs.Run{Started: night.Unix() - 60, Last: night.Unix(), Memory: 64 << 20}})
	for all, want := range map[bool][]string{
		false: {"RUNS    22 Nov 02:12: app for 4 min: 101m CPU, 300Mi memory\n", "22 Nov 01:12: app for 8 s: not measured\n", "migrate for 60 s so far: 64Mi memory\n"},
		true:  {"107m CPU"},
	} {
		var out bytes.Buffer
		if err := WriteText(&out, e, Usual, all); err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("all notes: %t: %q is not in\n%s", all, part, out.String())
			}
		}
		if strings.Contains(out.String(), "106m") != all {
			t.Errorf("all notes: %t: the sixth run is in the text: %t", all, !all)
		}
	}
	var out bytes.Buffer
	if err := WriteJSON(&out, e); err != nil {
		t.Fatal(err)
	}
	if want := `"seconds": 240,`; strings.Count(out.String(), want) != 6 || strings.Count(out.String(), `"over": true`) != 7 {
		t.Errorf("JSON has not the seven runs that have ended:\n%s", out.String())
	}
}
