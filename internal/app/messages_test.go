// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

//go:generate go test . -run TestMessagesPage -update

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube/event"
)

// The directories of the packages whose messages are documented, relative to this one.
const (
	decisionDir    = "../core/decision"
	policyDir      = "../core/policy"
	admissibleDir  = "../core/admissible"
	eventDir       = "../edge/kube/event"
	updaterDir     = "updater"
	recommenderDir = "recommender"
	vpaDir         = "../../api/v1"
	podfitDir      = "../../api/podfit/v1alpha1"
	conditionTable = "conditionmessages_test.go"
)

// omitted replaces the variable parts of a text.
const omitted = "…"

func TestMessagesPage_matchesCode(t *testing.T) {
	page := messagesPage(t)
	for file, want := range map[string]string{
		"../../docs/messages.md":         page,
		"explain/messages/messages.json": messagesFile(t, page), // podfit explain reads it
	} {
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != want {
			t.Errorf("%s does not match the code; run \"make generate\"", file)
		}
	}
}

// An explanation is the entry of one reason in the page.
type explanation struct{ name, meaning, remedy string }

func explanations() []explanation {
	var out []explanation
	for _, m := range events() {
		out = append(out, explanation{"event " + m.Reason, m.Meaning, m.Remedy})
	}
	for _, m := range conditionMessages {
		out = append(out, explanation{fmt.Sprintf("condition %s %s %s", m.Type, m.Status, m.Reason), m.Meaning, m.Remedy})
	}
	for _, m := range decisionMessages {
		out = append(out, explanation{"decision " + m.Code.String(), m.Meaning, m.Remedy})
	}
	for _, m := range noteMessages {
		out = append(out, explanation{"note" + m.Text(), m.Meaning, m.Remedy})
	}
	for _, m := range keptMessages {
		out = append(out, explanation{"cpu limit kept: " + m.Text(), m.Meaning, m.Remedy})
	}
	for dir, section := range logSections {
		out = append(out, explanation{"log of " + dir, section.title + ".", section.remedy})
	}
	for _, m := range refusalMessages {
		out = append(out, explanation{fmt.Sprintf("refusal %s", m.Kind), m.Meaning, m.Remedy})
	}
	return out
}

func TestMessages_texts_areFullSentences(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range explanations() {
		if seen[e.name] {
			t.Errorf("%s is explained twice", e.name)
		}
		seen[e.name] = true
		for part, text := range map[string]string{"meaning": e.meaning, "remedy": e.remedy} {
			if text == "" || !strings.HasSuffix(text, ".") || strings.ToUpper(text[:1]) != text[:1] && text[0] != '`' && !strings.HasPrefix(text, "podfit ") {
				t.Errorf("the %s of %s is not a full sentence: %q", part, e.name, text)
			}
			if strings.Count(text, "`")%2 != 0 {
				t.Errorf("the %s of %s has an unpaired backtick: %q", part, e.name, text)
			}
		}
	}
}

var codeSpan = regexp.MustCompile("`([^`]*)`")

func TestMessages_flags_exist(t *testing.T) {
	flags := command(t, "run").Flags()
	for _, e := range explanations() {
		for _, span := range codeSpan.FindAllStringSubmatch(e.meaning+e.remedy, -1) {
			name, isFlag := strings.CutPrefix(span[1], "--")
			name, _, _ = strings.Cut(name, "=")
			if isFlag && flags.Lookup(name) == nil {
				t.Errorf("%s mentions the unknown flag --%s", e.name, name)
			}
		}
	}
}

func TestMessages_everyConstant_isExplained(t *testing.T) {
	for _, c := range []struct {
		kind, table string
		key         string // the field of the table's entries that contains the constant
		constants   []string
	}{
		{"reason code", "decisionmessages_test.go", "Code", parse(t, decisionDir).constantsOf("ReasonCode")},
		{"kind of note", "sizemessages_test.go", "Kind", slices.Concat(
			parse(t, admissibleDir).constantsOf("NoteKind"), parse(t, admissibleDir).constantsOf("RefusalKind"), parse(t, policyDir).constantsOf("KeptKind"))},
		{"condition type", conditionTable, "Type", slices.Concat(
			parse(t, vpaDir).constantsOf("VerticalPodAutoscalerConditionType"), parse(t, recommenderDir).constantsOf("VerticalPodAutoscalerConditionType"),
			parse(t, podfitDir).constantsWith("Condition"))},
		{"condition reason", conditionTable, "Reason", append(parse(t, podfitDir).constantsWith("Reason"), parse(t, recommenderDir).constantsWith("Reason")...)},
	} {
		explained := parseFiles(t, c.table).tableKeys(c.key)
		if len(c.constants) == 0 {
			t.Errorf("the source has no constant for any %s", c.kind)
		}
		for _, name := range without(c.constants, explained) {
			t.Errorf("the %s %s has no entry in %s", c.kind, name, c.table)
		}
		for _, name := range without(explained, c.constants) {
			t.Errorf("%s has an entry for the %s %s, which does not exist", c.table, c.kind, name)
		}
	}
}

// With --compatibility=upstream, the conditions that are left out are those of this list.
func TestAllConditions_constants_areAllListed(t *testing.T) {
	s := parse(t, podfitDir)
	var want []string
	for _, name := range s.constantsWith("Condition") {
		want = append(want, s.values[name])
	}
	got := v1alpha1.AllConditions()
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("listed are %q, the constants are %q", got, want)
	}
}

// without returns the names in all that are not in some.
func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(some, name) })
}

func TestMessages_everyEventSent_isExplained(t *testing.T) {
	sent := map[string]bool{}
	for _, dir := range []string{eventDir, updaterDir} {
		src := parse(t, dir)
		src.calls(func(_ *ast.FuncDecl, method string, c *ast.CallExpr) {
			if (method == "Pod" || method == "changed" || method == "Autoscaler") && len(c.Args) == 3 {
				sent[constantName(c.Args[1])] = true
			}
		})
		for _, f := range src.files {
			ast.Inspect(f, func(n ast.Node) bool {
				if d, ok := n.(*ast.FuncDecl); ok && d.Name.Name == "typeOf" {
					return false // it lists the warnings, which docs/messages.md names
				}
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "EventTypeWarning" {
					t.Errorf("%s sends warnings that docs/messages.md does not name", dir)
				}
				return true
			})
		}
	}
	have := parseFiles(t, "eventmessages_test.go").tableKeys("Reason")
	for _, name := range without(sorted(sent), have) {
		t.Errorf("events have the reason %s, which is not a constant with an entry in eventmessages_test.go", name)
	}
	for _, name := range without(have, sorted(sent)) {
		t.Errorf("eventmessages_test.go has an entry for %s, and no event with this reason is sent", name)
	}
}

func TestMessages_everyConditionSet_isExplained(t *testing.T) {
	src, table := parse(t, recommenderDir), parseFiles(t, conditionTable)
	explained := table.tableEntries("Type", "Status", "Reason")
	known := map[string]bool{"": true}
	for _, name := range table.tableKeys("Reason") {
		known[name] = true
	}
	src.calls(func(f *ast.FuncDecl, method string, c *ast.CallExpr) {
		if method != "say" || len(c.Args) != 4 || constantName(c.Args[1]) == "Removed" {
			return
		}
		if _, isConversion := c.Args[2].(*ast.CallExpr); isConversion {
			return // a reason in a variable; the test of the constants covers it
		}
		reason := strings.Trim(constantName(c.Args[2]), `"`)
		if _, literal := c.Args[2].(*ast.BasicLit); literal && reason != "" {
			t.Errorf("%s sets a condition with the reason %q, which is not a constant", f.Name.Name, reason)
		}
		set := strings.Join([]string{constantName(c.Args[0]), constantName(c.Args[1]), reason}, " ")
		if known[reason] && !explained[set] { // other reasons are in variables
			t.Errorf("%s sets the condition %s, which has no entry in %s", f.Name.Name, set, conditionTable)
		}
	})
}

func events() []eventMessage {
	return slices.SortedFunc(slices.Values(eventMessages), func(a, b eventMessage) int { return strings.Compare(a.Reason, b.Reason) })
}

const messagesIntro = `<!-- Generated by "make generate". -->
# Messages

This page explains the events, conditions, reasons and warnings of podfit, and what to do about each. Search it for the text that you see, or give it to podfit explain.

- In texts, "…" stands for a name or a value.
- In commands, replace NAMESPACE, VPA, POD, WORKLOAD (such as ` + "`deployment/web`" + `), PROFILE and RESOURCE. Commands for podfit itself assume the Deployments of ` + "`deploy/`" + ` in
  ` + "`kube-system`" + `; with ` + "`podfit run`" + ` there is one process with one log.
- Names in code font are stable: podfit does not change them, and they are the same as upstream's where upstream has them. Texts may change with each version.

Sections: [events](#events), [conditions](#conditions), [decision reasons](#decision-reasons), [annotation vpaUpdates](#annotation-vpaupdates), [warnings and errors in the log](#warnings-and-errors-in-the-log).
`

func messagesPage(t *testing.T) string {
	var b strings.Builder
	b.WriteString(messagesIntro)
	writeEvents(t, &b)
	writeConditions(t, &b)
	writeDecisions(&b)
	writeAnnotation(&b)
	writeLogs(t, &b)
	return b.String()
}

func entry(b *strings.Builder, meaning, remedy string) {
	fmt.Fprintf(b, "- Meaning: %s\n- Remedy: %s\n", meaning, remedy)
}

func writeEvents(t *testing.T, b *strings.Builder) {
	b.WriteString("\n## Events\n\nThe updater sends events from the source `" + event.Source + "`. `" + event.InvalidAnnotation + "` and `" + event.Reverted + "` have the type `Warning`, all others `Normal`. To list them, run `kubectl -n NAMESPACE describe vpa VPA`, or " +
		"`kubectl get events -A --field-selector reason=REASON`.\n")
	texts := []*source{parse(t, eventDir), parse(t, updaterDir)}
	for _, m := range events() {
		fmt.Fprintf(b, "\n### Event `%s`\n\n- Object: %s\n", m.Reason, m.Object)
		for _, src := range texts {
			if text := src.textAfterConstant(texts[0].nameOf(m.Reason)); text != "" {
				fmt.Fprintf(b, "- Text: `%s`\n", text)
			}
		}
		entry(b, m.Meaning, m.Remedy)
	}
}

func writeConditions(t *testing.T, b *strings.Builder) {
	b.WriteString("\n## Conditions\n\nThe recommender and the updater set conditions in the status of VPAs: `kubectl -n NAMESPACE describe vpa VPA`. A condition that does not apply is absent, except `RecommendationProvided`, which is False. " +
		"Conditions of other types that other programs set are kept.\n")
	src := parse(t, recommenderDir)
	reasons := parse(t, podfitDir)
	list := slices.Clone(conditionMessages)
	slices.SortStableFunc(list, func(x, y conditionMessage) int {
		return cmp.Or(strings.Compare(string(x.Type), string(y.Type)), -strings.Compare(x.Status, y.Status), strings.Compare(x.Reason, y.Reason))
	})
	for _, m := range list {
		name := "`" + string(m.Type) + "`"
		if m.Status != "" {
			name = "`" + string(m.Type) + "` " + m.Status
		}
		if m.Reason != "" {
			name += ", reason `" + m.Reason + "`"
		}
		fmt.Fprintf(b, "\n### Condition %s\n\n", name)
		if m.Reason != "" {
			text := src.textAfter(m.Reason)
			if text == "" {
				text = src.textAfterConstant(reasons.nameOf(m.Reason))
			}
			if text != "" {
				fmt.Fprintf(b, "- Text: `%s`\n", text)
			}
		}
		entry(b, m.Meaning, m.Remedy)
	}
}

func writeDecisions(b *strings.Builder) {
	b.WriteString("\n## Decision reasons\n\n" + `In each pass the updater decides for each pod of each VPA to resize it, to evict it, or to leave it as it is. The reason is

- the label ` + "`reason`" + ` of the metric ` + "`podfit_updater_decisions`" + `, by its name (the label ` + "`act`" + ` is the decision),
- the attribute ` + "`reason`" + ` in the log of the updater, as a text,
- the text after the colon in the event ` + "`UpdateHeld`" + `, if the reason may need your attention: its entry then has the line "Event".

Times are in UTC.
`)
	list := slices.Clone(decisionMessages)
	slices.SortFunc(list, func(x, y decisionMessage) int { return strings.Compare(x.Code.String(), y.Code.String()) })
	for _, part := range []struct {
		title  string
		change bool
	}{{"Reasons to change a pod, or not to need a change", true}, {"Reasons to leave a pod as it is", false}} {
		fmt.Fprintf(b, "\n### %s\n", part.title)
		for _, m := range list {
			if m.Code < decision.ModeOff != part.change {
				continue
			}
			fmt.Fprintf(b, "\n#### Reason `%s`\n\n- Text: `%s`\n", m.Code, m.Text())
			for _, other := range m.Others {
				fmt.Fprintf(b, "- Other text: `%s`\n", m.textOf(other))
			}
			if text := m.FallbackText(); text != "" {
				fmt.Fprintf(b, "- Text if the pod is evicted instead: `%s`\n", text)
			}
			if m.Code.NeedsAttention() {
				fmt.Fprintf(b, "- Event: `%s`\n", event.UpdateHeld)
			}
			entry(b, m.Meaning, m.Remedy)
		}
	}
}

func writeAnnotation(b *strings.Builder) {
	a := &cluster.Autoscaler{Key: cluster.Key{Name: "web"}}
	refusal := admissible.Refusal{Kind: admissible.LimitAboveMax, Resource: cluster.Memory, Container: "app", Have: 2 << 30, Want: 1 << 30}
	fits := []policy.Fitted{{Container: "app", Requests: cluster.Amounts(100, 1<<30), Notes: []admissible.Note{{Resource: cluster.Memory, Kind: admissible.LoweredToMaxAllowed}}}}
	applied := policy.Annotation(a, fits)
	b.WriteString("\n## Annotation vpaUpdates\n\nThe admission controller writes to the annotation `vpaUpdates` of each new pod what it changed: `kubectl -n NAMESPACE get pod POD -o jsonpath='{.metadata.annotations.vpaUpdates}'`.\n\n" +
		"| text | meaning |\n|---|---|\n")
	for _, row := range [][2]string{
		{applied, "The pod got the recommended resources. Before the names of the resources are notes, see below."},
		{policy.RefusedAnnotation(a, refusal), "The pod kept its own resources. After the last colon is the refusal, see below."},
		{policy.WithRefusedBoost(a, "", refusal), "The pod got no startup boost. After the last colon is the refusal, see below."},
		{policy.WithRefusedBoost(a, applied, refusal), "The pod got the recommended resources, but no startup boost."},
		{policy.WithoutBoost(a, applied, []string{"proxy"}), "The pod got the recommended resources, but a container got no startup boost, because there is no CPU for the factor to multiply. Set a CPU request, or a boost of type Quantity."},
		{policy.WithCPULimits(a, "", policy.CPULimits{Removed: []string{"app"}}), "The CPU limit was removed, because the SizingProfile or an annotation of the VPA requires it ([limits.md](limits.md)). Follows other texts after a semicolon."},
		{policy.WithCPULimits(a, "", policy.CPULimits{Kept: []policy.KeptCPULimit{{Container: "app", Kind: policy.KeptByDefault}}}), "The CPU limit should be removed, but is needed. After the last colon is the reason, see below. Follows other texts after a semicolon."},
		{"(no annotation)", "No VPA governs the pod, the VPA has no recommendation, its mode is `Off`, or the webhook was not called."},
	} {
		fmt.Fprintf(b, "| `%s` | %s |\n", row[0], row[1])
	}
	b.WriteString("\n### Notes\n\nExamples are for memory. The texts for CPU begin with `cpu`.\n")
	for _, m := range noteMessages {
		fmt.Fprintf(b, "\n#### Note `%s`\n\n", m.Text())
		entry(b, m.Meaning, m.Remedy)
	}
	b.WriteString("\n### CPU limits that are kept\n\nThe reasons why a CPU limit is not removed although the profile or the VPA requires it. See [limits.md](limits.md).\n")
	for _, m := range keptMessages {
		fmt.Fprintf(b, "\n#### Kept: `%s`\n\n", m.Text())
		entry(b, m.Meaning, m.Remedy)
	}
	b.WriteString("\n### Refusals\n\nA refusal is the reason why the API server would reject a pod with the recommended size. It is also part of the condition `RecommendationNotAdmitted` and of the decision reasons `ReplacementRefused` and `OverQuota`.\n")
	for _, m := range refusalMessages {
		if m.Kind == admissible.NotRefused {
			continue
		}
		fmt.Fprintf(b, "\n#### Refusal `%s`\n\n", m.Text())
		entry(b, m.Meaning, m.Remedy)
	}
}

// logSections contains, for each package that logs warnings or errors, the title of its section and what to do about them.
var logSections = map[string]struct{ title, remedy string }{
	"internal/app/admission": {"Admission controller: start and status lease", "If the status lease is not renewed, the updater changes no pods. Check that the admission controller runs and may write the lease: " +
		"`kubectl -n kube-system get lease vpa-admission-controller -o yaml`."},
	"internal/app/explain": {"Web page: explanations", "The page of the workload shows no explanation; everything else continues. A message with the attribute `panic` reports a bug in podfit: report it with the stack."},
	"internal/app/process": {"Every command", "A message with the attributes `panic` and `stack` reports a bug in podfit: the object or pass is skipped, and everything else continues. Report it with the stack."},
	"internal/app/recommender": {"Recommender", "If usage cannot be read, recommendations stay as they are. Check the Metrics API (`kubectl get apiservice v1beta1.metrics.k8s.io`) " +
		"and the permissions of the recommender (`kubectl auth can-i --list --as=system:serviceaccount:kube-system:vpa-recommender`)."},
	"internal/app/recommender/contention": {"Recommender: CPU throttling", "The condition `CPUThrottled` stays as it is for an hour and is then removed; other conditions and recommendations are not affected. " +
		"Check `--prometheus-address`, the credentials, and that Prometheus scrapes the cAdvisor metrics of the kubelets."},
	"internal/app/recommender/enrollment": {"Recommender: namespaces that opt in", "Other VPAs are not affected. The attribute `reason` names the label or annotation of the namespace to correct, " +
		"and its valid values. If writes fail, the attribute `error` has the answer of the API server."},
	"internal/app/recommender/forecast": {"Recommender: capacity plan", "Recommendations are not affected. Install the CRDs (`podfit crds | kubectl apply --server-side --force-conflicts -f -`), and check the permissions of the recommender " +
		"(`kubectl auth can-i --list --as=system:serviceaccount:kube-system:vpa-recommender`), or set `--capacity-plan=false`. If history cannot be read from Prometheus, check `--prometheus-address`, and that Prometheus scrapes kube-state-metrics."},
	"internal/app/recommender/standby": {"Recommender: usage while another replica leads", "Nothing depends on it until the other replica is lost. Check the Metrics API with `kubectl top pods`."},
	"internal/app/recommender/history": {"Recommender: usage history", "Usage history in memory is not affected. If checkpoints or UsageHistories cannot be read or written, check the permissions of the recommender " +
		"(`kubectl auth can-i --list --as=system:serviceaccount:kube-system:vpa-recommender`). If history cannot be read from Prometheus, check `--prometheus-address` and Prometheus."},
	"internal/app/updater": {"Updater", "While the updater does not update pods, check the admission controller (`kubectl -n kube-system get lease vpa-admission-controller -o yaml`) " +
		"and the API server (`kubectl get --raw='/readyz?verbose'`)."},
	"internal/app/updater/nodeusage": {"Updater: usage of nodes", "No pod moves from a node that is nearly out of memory while its usage is not known; everything else continues. Check metrics-server (`kubectl top pods -A`), " +
		"the right (`deploy/rights/node-guard`), and the clocks of nodes. Without memory pressure, usage still counts."},
	"internal/app/updater/provision": {"Updater: capacity before evictions", "Pods whose replacement has no room are not evicted until capacity can be requested. Check the permissions of the updater " +
		"(`kubectl auth can-i create pods -n NAMESPACE --as=system:serviceaccount:kube-system:vpa-updater`), or set `--capacity-before-eviction=off`."},
	"internal/app/updater/scalepoint": {"Updater: targets of HorizontalPodAutoscalers", "The requests that the HPA depends on are not changed while its target cannot be written. Check the permissions of the updater " +
		"(`kubectl auth can-i patch hpa -n NAMESPACE --as=system:serviceaccount:kube-system:vpa-updater`), and the record: `kubectl -n NAMESPACE get hpa -o yaml`."},
	"internal/app/updater/summary": {"Updater: condition Updating", "Changes of pods are not affected. Check the permissions of the updater: " +
		"`kubectl auth can-i patch verticalpodautoscalers --subresource=status -n NAMESPACE --as=system:serviceaccount:kube-system:vpa-updater`."},
	"internal/app/updater/surges": {"Updater: surges", "The Deployment keeps its number of replicas, or has one more until podfit can go on. Check the permissions of the updater " +
		"(`kubectl auth can-i patch deployments -n NAMESPACE --as=system:serviceaccount:kube-system:vpa-updater`), and the record: `kubectl -n NAMESPACE get WORKLOAD -o yaml`."},
	"internal/app/updater/throttling": {"Updater: CPU throttling and objectives of canaries", "Canaries are judged without their CPU throttling, and wait for their objective, until Prometheus answers. Check `--prometheus-address`, the credentials, and Prometheus."},
	"internal/app/updater/updatestate": {"Updater: update states", "If update states cannot be loaded, the updater changes no pods until they are; if they cannot be stored, it works without them. " +
		"Check the API server (`kubectl get --raw='/readyz?verbose'`), and the permissions of the updater (`kubectl auth can-i --list --as=system:serviceaccount:kube-system:vpa-updater`)."},
	"internal/app/web": {"Web page", "Without VPA objects, the page shows requests and usage: create VPAs, or run `podfit recommend`. A message with the attribute `panic` reports a bug in podfit; everything else continues."},
	"internal/edge/web": {"Web page: requests", "Other work of podfit is not affected. If the rights of viewers are not known, check that podfit may create reviews " +
		"(`kubectl auth can-i create tokenreviews --as=system:serviceaccount:kube-system:podfit`, and likewise `subjectaccessreviews`), and the API server: `kubectl get --raw='/readyz?verbose'`."},
	"internal/edge/kube/checkpoint": {"Stored history and update states", "What is in memory is not affected, but it may be lost at the next restart. Check the permissions of the recommender, which stores history, or of the updater, which stores update states " +
		"(`kubectl auth can-i --list --as=system:serviceaccount:kube-system:vpa-recommender`, or `vpa-updater`), and whether the CRDs are up to date: `podfit crds | kubectl diff -f -`."},
	"internal/edge/kube/feed": {"Every command: watches", "podfit continues with the objects that it has read before; at startup it waits. Check the API server (`kubectl get --raw='/readyz?verbose'`), and the permissions of the component: " +
		"`kubectl auth can-i list RESOURCE -A --as=system:serviceaccount:kube-system:vpa-updater` (or `vpa-recommender`, `vpa-admission-controller`)."},
	"internal/edge/kube/scale": {"Every command: kinds and scales", "podfit continues with what it has read before. Check the API server (`kubectl get --raw='/readyz?verbose'`), and the permissions of the component " +
		"(`kubectl auth can-i --list --as=system:serviceaccount:kube-system:vpa-updater`, or `vpa-recommender`, `vpa-admission-controller`)."},
	"internal/edge/kube/watcher": {"Every command: nodes and optional resources", "podfit continues with what it has read before. Check the API server (`kubectl get --raw='/readyz?verbose'`), and the permissions of the component " +
		"(`kubectl auth can-i --list --as=system:serviceaccount:kube-system:vpa-updater`, or `vpa-recommender`, `vpa-admission-controller`)."},
	"internal/edge/webhook": {"Admission controller: webhook", "New pods start with the resources of their template while the webhook does not work. Check the configuration (`kubectl get mutatingwebhookconfiguration vpa-webhook-config -o yaml`), " +
		"the Secret (`kubectl -n kube-system describe secret vpa-tls-certs`), and that no other admission controller for VPAs runs: `kubectl get pods -A | grep admission-controller`."},
	"internal/edge/webhook/registration": {"Admission controller: certificates and registration", "New pods start with the resources of their template while the certificates or the webhook configuration are wrong. Check the configuration " +
		"(`kubectl get mutatingwebhookconfiguration vpa-webhook-config -o yaml`), the Secret (`kubectl -n kube-system describe secret vpa-tls-certs`), and the permissions of the admission controller."},
}

// A logCall is a call that logs a warning or an error.
type logCall struct {
	dir, level, text string
	attributes       []string
	remedy           string // the attribute remedy, if it is constant
}

func writeLogs(t *testing.T, b *strings.Builder) {
	b.WriteString("\n## Warnings and errors in the log\n\nWarnings and errors are worth an alert. Their texts are constant; names and values are in attributes. " +
		"If a message has the attribute `remedy`, follow that first. Loggers may add more attributes than those listed here.\n")
	calls := logCalls(t)
	dir := ""
	for _, c := range calls {
		if c.dir != dir {
			dir = c.dir
			if logSections[dir].remedy == "" {
				t.Errorf("%s logs warnings or errors, but logSections has no entry for it", dir)
			}
			fmt.Fprintf(b, "\n### %s\n\nPackage `%s`. %s\n\n| level | message | attributes |\n|---|---|---|\n", logSections[dir].title, dir, logSections[dir].remedy)
		}
		text := "`" + strings.ReplaceAll(c.text, "|", "\\|") + "`"
		if c.remedy != "" {
			text += "<br>Remedy: " + strings.ReplaceAll(c.remedy, "|", "\\|")
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", c.level, text, strings.Join(c.attributes, ", "))
	}
	for dir := range logSections {
		if !slices.ContainsFunc(calls, func(c logCall) bool { return c.dir == dir }) {
			t.Errorf("logSections mentions %s, which logs no warnings or errors", dir)
		}
	}
}

// logCalls returns the calls that log warnings or errors in all packages, sorted and without duplicates.
func logCalls(t *testing.T) []logCall {
	var out []logCall
	seen := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() == "testdata" || d.Name() == "kubetest" {
			return err
		}
		src := parse(t, path)
		dir := filepath.ToSlash(filepath.Join("internal", "app", path))
		src.calls(func(_ *ast.FuncDecl, method string, c *ast.CallExpr) {
			level, logs := map[string]string{"Warn": "warning", "Error": "error"}[method]
			if !logs || len(c.Args) == 0 {
				return
			}
			text, constant := src.constant(c.Args[0])
			if !constant {
				return
			}
			call := logCall{dir: dir, level: level, text: text}
			for _, arg := range c.Args[1:] {
				attribute, ok := arg.(*ast.CallExpr)
				if !ok || len(attribute.Args) != 2 {
					continue
				}
				if key, constant := src.constant(attribute.Args[0]); constant {
					call.attributes = append(call.attributes, "`"+key+"`")
					if remedy, constant := src.constant(attribute.Args[1]); constant && key == "remedy" {
						call.remedy = remedy
					}
				}
			}
			key := fmt.Sprint(call)
			if !seen[key] {
				seen[key] = true
				out = append(out, call)
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(out, func(a, b logCall) int {
		return cmp.Or(strings.Compare(a.dir, b.dir), strings.Compare(a.text, b.text), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	return out
}

// A source is the parsed source of a package without its tests, or a table of messages.
type source struct {
	files  map[string]*ast.File // by base name
	order  []string
	values map[string]string // of the string constants
}

func parse(t *testing.T, dir string) *source {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return parseFiles(t, slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, "_test.go") })...)
}

func parseFiles(t *testing.T, paths ...string) *source {
	t.Helper()
	s := &source{files: map[string]*ast.File{}, values: map[string]string{}}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s.files[filepath.Base(path)] = f
		s.order = append(s.order, filepath.Base(path))
	}
	s.specs(func(_ string, spec *ast.ValueSpec) {
		for i, name := range spec.Names {
			if i < len(spec.Values) {
				if v, constant := s.constant(spec.Values[i]); constant {
					s.values[name.Name] = v
				}
			}
		}
	})
	return s
}

// specs calls yield for each constant declaration, with its type, which it may have from the declaration before it.
func (s *source) specs(yield func(kind string, spec *ast.ValueSpec)) {
	for _, file := range s.order {
		for _, d := range s.files[file].Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			kind := ""
			for _, spec := range g.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				if v.Type != nil || len(v.Values) > 0 {
					kind = constantName(v.Type)
				}
				yield(kind, v)
			}
		}
	}
}

// constantsOf returns the names of the constants of a type.
func (s *source) constantsOf(kind string) []string {
	var out []string
	s.specs(func(k string, spec *ast.ValueSpec) {
		if k == kind {
			for _, n := range spec.Names {
				out = append(out, n.Name)
			}
		}
	})
	return out
}

// constantsWith returns the names of the string constants with a prefix.
func (s *source) constantsWith(prefix string) []string {
	var out []string
	for name := range s.values {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && strings.ToUpper(rest[:1]) == rest[:1] {
			out = append(out, name)
		}
	}
	return out
}

// nameOf returns the name of the string constant with a value.
func (s *source) nameOf(value string) string {
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		if s.values[name] == value {
			return name
		}
	}
	return ""
}

// tableKeys returns the constants that a field has in the tables, sorted and without duplicates.
func (s *source) tableKeys(field string) []string {
	found := map[string]bool{}
	for name := range s.tableEntries(field) {
		found[name] = true
	}
	return sorted(found)
}

// tableEntries returns the constants that some fields have together in the entries of the tables, separated by spaces.
func (s *source) tableEntries(fields ...string) map[string]bool {
	out := map[string]bool{}
	for _, f := range s.files {
		ast.Inspect(f, func(n ast.Node) bool {
			if _, isFunction := n.(*ast.FuncDecl); isFunction {
				return false
			}
			entry, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			values := make([]string, len(fields))
			for _, e := range entry.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if i := slices.Index(fields, constantName(kv.Key)); i >= 0 {
						values[i] = constantName(kv.Value)
					}
				}
			}
			out[strings.Join(values, " ")] = true
			return true
		})
	}
	return out
}

func sorted(set map[string]bool) []string {
	var out []string
	for s := range set {
		if s != "" {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

// constantName returns the name in an expression such as Name or package.Name.
func constantName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.BasicLit:
		return x.Value
	}
	return ""
}

// calls calls yield for each call of a method or of a function of another package.
func (s *source) calls(yield func(in *ast.FuncDecl, method string, c *ast.CallExpr)) {
	for _, file := range s.order {
		for _, d := range s.files[file].Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if c, ok := n.(*ast.CallExpr); ok {
					if sel, ok := c.Fun.(*ast.SelectorExpr); ok {
						yield(f, sel.Sel.Name, c)
					}
				}
				return true
			})
		}
	}
}

// constant returns the value of a constant string expression.
func (s *source) constant(e ast.Expr) (string, bool) {
	switch x := e.(type) {
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			v, err := strconv.Unquote(x.Value)
			return v, err == nil
		}
	case *ast.Ident:
		v, ok := s.values[x.Name]
		return v, ok
	case *ast.BinaryExpr:
		a, first := s.constant(x.X)
		b, second := s.constant(x.Y)
		return a + b, first && second
	}
	return "", false
}

// textAfter returns the text that the source uses together with the constant of a value; "" if it is not found.
func (s *source) textAfter(value string) string { return s.textAfterConstant(s.nameOf(value)) }

// textAfterConstant returns the text that follows a constant in the arguments of a call, in the results of a return statement, or in
// the fields of a value; "" if there is none.
func (s *source) textAfterConstant(name string) string {
	text := ""
	for _, file := range s.order {
		for _, d := range s.files[file].Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || name == "" {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				var list []ast.Expr
				switch x := n.(type) {
				case *ast.CallExpr:
					list = x.Args
				case *ast.ReturnStmt:
					list = x.Results
				case *ast.CompositeLit:
					for _, e := range x.Elts {
						if kv, ok := e.(*ast.KeyValueExpr); ok {
							e = kv.Value
						}
						list = append(list, e)
					}
				}
				for i := range len(list) - 1 {
					if v := constantName(list[i]); v == name && text == "" {
						text = s.render(f, list[i+1], 0)
					}
				}
				return true
			})
		}
	}
	if strings.Trim(text, omitted+" .:;,") == "" {
		return ""
	}
	return text
}

var verb = regexp.MustCompile(`%(\[\d+\])?[-+# 0]*\d*(\.\d+)?[a-zA-Z]`)

// render returns the text of an expression with its variable parts omitted.
func (s *source) render(in *ast.FuncDecl, e ast.Expr, depth int) string {
	if v, constant := s.constant(e); constant {
		return v
	}
	switch x := e.(type) {
	case *ast.BinaryExpr:
		return s.render(in, x.X, depth) + s.render(in, x.Y, depth)
	case *ast.CallExpr:
		if constantName(x.Fun) == "Sprintf" && len(x.Args) > 0 {
			return strings.ReplaceAll(verb.ReplaceAllString(s.render(in, x.Args[0], depth), omitted), "%%", "%")
		}
	case *ast.Ident:
		if values := assigned(in, x.Name); len(values) == 1 && depth < 3 {
			return s.render(in, values[0], depth+1)
		}
	}
	return omitted
}

// assigned returns the values that a function assigns to a variable.
func assigned(in *ast.FuncDecl, name string) []ast.Expr {
	var out []ast.Expr
	ast.Inspect(in, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok {
			for i, left := range a.Lhs {
				if constantName(left) == name && len(a.Rhs) == len(a.Lhs) {
					out = append(out, a.Rhs[i])
				}
			}
		}
		return true
	})
	return out
}
