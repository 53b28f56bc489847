// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jedib0t/go-pretty/v6/text"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/cluster"
	core "podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/wording"
)

var update = flag.Bool("update", false, "write the golden files")

var now = time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)

func deploy(namespace, name string) cluster.Workload {
	return cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: namespace, Name: name}
}

// subject returns a subject with pods on the nodes 0, 1, 0 and so on, and two weeks of usage.
func subject(w cluster.Workload, container string, pods int, requests, limits, target cluster.Resources) core.Subject {
	s := core.Subject{Workload: w, Container: container, Requests: requests, Limits: limits, Targets: []core.Target{{Profile: "balanced", Amount: target}}}
	for i := range pods {
		s.Places = append(s.Places, core.Place{Pod: fmt.Sprintf("%s-%d", w.Name, i), Node: fmt.Sprint("node-", i%2), Requests: requests})
	}
	s.Evidence = &core.Evidence{From: now.Add(-14 * 24 * time.Hour), To: now, Hours: 14 * 24, Samples: 4000, Used: cluster.Amounts(target.CPU/2, target.Memory/2)}
	return s
}

const (
	mib = 1 << 20
	gib = 1 << 30
)

// example is a report with every kind of row.
func example() *core.Report {
	cart := subject(deploy("shop", "cart"), "app", 6, cluster.Amounts(500, gib), cluster.Resources{Memory: gib, Has: cluster.Of(cluster.Memory)}, cluster.Amounts(633, 1341234567))
	cart.Evidence.Kill(now.Add(-40*time.Hour), 2)
	cart.Evidence.Kill(now.Add(-20*time.Hour), 1)
	cart.VPA = "cart"
	ledger := subject(cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "pay", Name: "ledger"}, "db", 3, cluster.Amounts(2000, 4*gib), cluster.Amounts(4000, 4*gib), cluster.Amounts(2000, 4700*mib))
	for i := range 4 {
		ledger.Evidence.DayPeaks[i] = 3973 * mib
	}
	feature := subject(deploy("ml", "feature-store"), "app", 8, cluster.Amounts(4000, 16*gib), cluster.Resources{}, cluster.Amounts(650, 5222*mib))
	proxy := subject(deploy("ml", "feature-store"), "proxy", 8, cluster.Amounts(100, 128*mib), cluster.Amounts(200, 128*mib), cluster.Amounts(20, 60*mib))
	front := subject(deploy("web", "front"), "nginx", 20, cluster.Amounts(250, 512*mib), cluster.Resources{}, cluster.Amounts(80, 180*mib))
	front.Kept[0] = core.Kept{Reason: core.ScaledByHPA, By: "front", Percent: 70}
	report := subject(cluster.Workload{Group: "batch", Kind: "CronJob", Namespace: "pay", Name: "report"}, "main", 1, cluster.Resources{}, cluster.Resources{}, cluster.Amounts(300, 700*mib))
	young := subject(deploy("web", "new"), "app", 2, cluster.Amounts(100, 100*mib), cluster.Resources{}, cluster.Amounts(50, 60*mib))
	young.Evidence.From, young.Evidence.Hours = now.Add(-3*time.Hour), 3
	rollout := subject(cluster.Workload{Group: "argoproj.io", Kind: "Rollout", Namespace: "web", Name: "api"}, "app", 2, cluster.Amounts(1000, gib), cluster.Resources{}, cluster.Amounts(400, gib))
	steady := subject(deploy("web", "steady"), "app", 1, cluster.Amounts(100, 128*mib), cluster.Resources{}, cluster.Amounts(100, 128*mib))
	var nodes []cluster.Node
	for i := range 4 {
		nodes = append(nodes, cluster.Node{Name: fmt.Sprintf("node-%d", i), Ready: true, Allocatable: cluster.Amounts(32000, 128*gib)})
	}
	subjects := []core.Subject{cart, ledger, feature, proxy, front, report, young, rollout, steady}
	price := core.Price{Core: 0.0316, GiB: 0.00424}
	return core.New(core.Config{
		Cluster: "prod-eu", Source: "Prometheus monitoring/prometheus-k8s", Profiles: []string{"balanced"}, Window: 14 * 24 * time.Hour, Peaks: true, Now: now,
		Prices: core.Prices{PriceSource: core.PriceSource{Currency: "EUR", From: "prices.yaml"}, Default: price},
		Nodes:  nodes, Pods: podsOf(subjects),
	}, subjects)
}

// A profile for full nodes says what the nodes must be like, and which containers it sizes as balanced does.
func TestWrite_profileForFullNodes_saysWhatItNeedsAndWhatIsLeftOut(t *testing.T) {
	size := cluster.Amounts(100, 100*mib)
	subjects := []core.Subject{
		subject(deploy("web", "a"), "app", 1, size, cluster.Resources{}, size), subject(deploy("web", "b"), "app", 1, size, cluster.Resources{}, size),
		subject(deploy("web", "c"), "app", 1, size, cluster.Resources{}, size), subject(deploy("web", "d"), "app", 1, size, cluster.Resources{}, size),
	}
	plain := core.New(core.Config{Profiles: []string{"balanced"}, Now: now}, subjects)
	if text := written(t, "table", plain, Options{}); strings.Contains(text, "full nodes") {
		t.Errorf("another profile:\n%s", text)
	}
	for i, why := range []string{"", "too large", "too young", "too large"} {
		subjects[i].Packs, subjects[i].Unpacked = true, why
	}
	r := core.New(core.Config{Profiles: []string{"packed"}, Now: now}, subjects)
	text := written(t, "table", r, Options{})
	for _, want := range []string{
		"1 container is sized for full nodes", "Not for full nodes, but as by profile balanced: 2 containers, such as app of web/deploy/b: too large.",
		"as by profile balanced: 1 container, such as app of web/deploy/c: too young.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if text := written(t, "json", r, Options{}); strings.Count(text, `"notForFullNodes": "too large"`) != 2 {
		t.Errorf("JSON does not say what is left out:\n%s", text)
	}
}

// podsOf returns the pods of subjects.
func podsOf(subjects []core.Subject) []*cluster.Pod {
	byName := map[cluster.Key]*cluster.Pod{}
	var out []*cluster.Pod
	for _, s := range subjects {
		for _, place := range s.Places {
			key := cluster.Key{Namespace: s.Workload.Namespace, Name: place.Pod}
			p := byName[key]
			if p == nil {
				p = &cluster.Pod{Key: key, Top: s.Workload, Controller: s.Workload, Node: place.Node, Phase: cluster.Running}
				byName[key] = p
				out = append(out, p)
			}
			p.Containers = append(p.Containers, cluster.Container{Name: s.Container, Requests: place.Requests, Limits: s.Limits})
		}
	}
	return out
}

// written returns a report in a format.
func written(t testing.TB, format string, r *core.Report, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, format, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// golden compares text with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}

func TestWrite_eachFormat_equalsGoldenFile(t *testing.T) {
	for _, format := range Formats() {
		golden(t, format+".txt", written(t, format, example(), Options{Top: 30}))
	}
	for _, width := range []int{80, 120, 200} {
		for _, format := range []string{"table", "wide"} {
			golden(t, fmt.Sprintf("%s-%d.txt", format, width), written(t, format, example(), Options{Top: 30, Width: width}))
		}
	}
	golden(t, "table-name.txt", written(t, "table", example(), Options{Top: 5, Sort: SortName}))
	r := example()
	golden(t, "table-groups.txt", written(t, "table", r, Options{Groups: r.ByNamespace()}))
	golden(t, "json-groups.txt", written(t, "json", r, Options{Groups: r.ByPool()}))
}

func TestTable_width_isNotExceeded(t *testing.T) {
	for _, width := range []int{80, 90, 100, 120, 160, 200} {
		for _, format := range []string{"table", "wide"} {
			for _, sort := range []string{SortRisk, SortMoney, SortName} {
				if format == "wide" && width < 160 {
					continue // it is for wide terminals
				}
				for line := range strings.Lines(written(t, format, example(), Options{Top: 30, Width: width, Sort: sort})) {
					if n := text.StringWidth(strings.TrimRight(line, "\n")); n > width {
						t.Errorf("%s, %s: a line has %d columns, want at most %d: %s", format, sort, n, width, line)
					}
				}
			}
		}
	}
}

// With too little usage no request is lowered, so the report does not claim that none can be.
func TestTable_freedRequests_areNotKnownBeforeThereIsUsage(t *testing.T) {
	const none, unknown = "No requests can be freed.", "Whether requests can be freed is not known yet."
	for name, tt := range map[string]struct {
		edit func(*core.Subject)
		want string
	}{
		"weeks of usage": {func(*core.Subject) {}, none},
		"some hours":     {func(s *core.Subject) { s.Evidence.Hours = 3 }, unknown},
		"provisional":    {func(s *core.Subject) { s.Evidence.Provisional = true }, unknown},
	} {
		s := subject(deploy("shop", "cart"), "app", 2, cluster.Amounts(500, gib), cluster.Resources{}, cluster.Amounts(500, gib))
		tt.edit(&s)
		r := core.New(core.Config{Cluster: "c", Source: "metrics", Profiles: []string{"balanced"}, Now: now}, []core.Subject{s})
		if got := written(t, "table", r, Options{Top: 5}); !strings.Contains(got, tt.want) {
			t.Errorf("%s: no %q in\n%s", name, tt.want, got)
		}
	}
}

// Requests of a fifth of a node that could be freed are no node.
func TestTable_freedRequestsOfPartOfANode_noNodeCanGo(t *testing.T) {
	s := subject(deploy("shop", "cart"), "app", 2, cluster.Amounts(2000, 2*gib), cluster.Resources{}, cluster.Amounts(1800, 2*gib))
	config := core.Config{Cluster: "c", Source: "metrics", Profiles: []string{"balanced"}, Now: now}
	for i := range 2 {
		name := fmt.Sprintf("n%d", i)
		config.Nodes = append(config.Nodes, cluster.Node{Name: name, Allocatable: cluster.Amounts(2000, 4*gib), Ready: true})
		p := cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "cart-" + name}, Top: s.Workload, Node: name, Phase: cluster.Running}
		p.Containers = []cluster.Container{{Name: "app", Requests: cluster.Amounts(2000, 2*gib)}}
		config.Pods = append(config.Pods, &p)
	}
	got := written(t, "table", core.New(config, []core.Subject{s}), Options{Top: 5})
	if want := "could be freed, but not a whole node."; !strings.Contains(got, want) || strings.Contains(got, "up to") {
		t.Errorf("no %q in\n%s", want, got)
	}
}

func TestTable_requestThatAJVMMisreads_isMarked(t *testing.T) {
	for want, target := range map[string]int64{"1 → 800m ◆": 800, "1 → 988m ◆": 988, "keep ◆": 1000} {
		s := subject(deploy("shop", "api"), "app", 12, cluster.Amounts(1000, gib), cluster.Resources{}, cluster.Amounts(target, gib))
		s.JVM = true
		r := core.New(core.Config{Cluster: "c", Now: now, Profiles: []string{"balanced"}}, []core.Subject{s})
		got := written(t, "table", r, Options{Top: 30})
		for _, want := range []string{"AT RISK", want, "◆ JVM and 1 core: sees all cores of the node (explain)"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is missing in\n%s", want, got)
			}
		}
	}
}

// The first profile determines the report, and -o wide has columns for the others.
func TestWide_severalProfiles_haveColumnsOfTheirOwn(t *testing.T) {
	s := subject(deploy("shop", "cart"), "app", 2, cluster.Amounts(1000, gib), cluster.Resources{}, cluster.Amounts(400, 512*mib))
	s.Targets = append(s.Targets, core.Target{Profile: "critical", Amount: cluster.Amounts(700, 768*mib)})
	r := core.New(core.Config{Cluster: "c", Now: now, Profiles: []string{"balanced", "critical"}}, []core.Subject{s})
	got := written(t, "wide", r, Options{Top: 30})
	for _, want := range []string{"CRITICAL", "1 → 400m", "700m", "768Mi"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if table := written(t, "table", r, Options{Top: 30}); strings.Contains(table, "700m") {
		t.Errorf("the table has the second profile:\n%s", table)
	}
}

func TestTable_colours_areOnlyUsedIfWanted(t *testing.T) {
	if s := written(t, "table", example(), Options{Width: 120}); strings.Contains(s, "\x1b") {
		t.Errorf("got escape sequences without colours:\n%q", s)
	}
	if s := written(t, "table", example(), Options{Width: 120, Colour: true}); !strings.Contains(s, "\x1b[31m") {
		t.Error("no row is red")
	}
}

// hostile is a report with names that terminals, browsers, spreadsheets and shells interpret. Names in a trace may have any characters.
func hostile() *core.Report {
	var subjects []core.Subject
	for _, name := range []string{
		"<script>alert(1)</script>", "=cmd|' /C calc'!A0", "+1", "@sum", "| cell | [x](http://evil) `code` *b*", "\x1b[31mred\x1b[0m\r\nnext", "'; rm -rf / #", "\u202egnirts", "a\"b", "$(reboot)", "--flag",
	} {
		w := deploy(name, name)
		subjects = append(subjects, subject(w, name, 1, cluster.Amounts(1000, gib), cluster.Resources{}, cluster.Amounts(100, 2*gib)))
		subjects[len(subjects)-1].VPA = name
	}
	return core.New(core.Config{Cluster: "<b>x</b>", Source: "=1", Profiles: []string{"balanced"}, Now: now, Missing: []string{"<i>\x1b[2J"}}, subjects)
}

func TestWrite_hostileNames_areInert(t *testing.T) {
	for _, format := range Formats() {
		s := written(t, format, hostile(), Options{Sort: SortName})
		if format != "json" && format != "krr-json" && format != "yaml" && strings.ContainsAny(s, "\x1b\r\u202e") {
			t.Errorf("%s: control characters are written", format)
		}
		if strings.Contains(s, "\x1b") {
			t.Errorf("%s: escape sequences are written", format)
		}
	}
	page := written(t, "html", hostile(), Options{Sort: SortName})
	for _, bad := range []string{"<script", "<b>x", "<i>", "javascript:"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	for _, format := range []string{"csv", "krr-csv"} {
		rows, err := csv.NewReader(strings.NewReader(written(t, format, hostile(), Options{}))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows[1:] {
			for i, cell := range row {
				number := strings.Trim(cell, "-+.0123456789mMiGk") == ""
				if cell != "" && strings.ContainsRune("=+-@|", rune(cell[0])) && !number {
					t.Errorf("%s: cell %s %q is a formula", format, rows[0][i], cell)
				}
			}
		}
	}
	markdown := written(t, "markdown", hostile(), Options{Sort: SortName})
	for _, bad := range []string{"<script", "[x](", "http://", "`code`"} {
		if strings.Contains(markdown, bad) {
			t.Errorf("Markdown contains %q", bad)
		}
	}
	columns := -1
	for line := range strings.Lines(markdown) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if columns >= 0 && n != columns {
			t.Errorf("a row has %d cells, want %d: %s", n, columns, line)
		}
		columns = n
	}
}

func TestHTML_policy_allowsExactlyTheStyle(t *testing.T) {
	page := written(t, "html", example(), Options{})
	_, rest, _ := strings.Cut(page, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	if want := "sha256-" + base64.StdEncoding.EncodeToString(sum[:]); !strings.Contains(strings.ReplaceAll(page, "&#43;", "+"), want) {
		t.Errorf("the policy does not contain %s", want)
	}
	for _, bad := range []string{"style=", "<script", "src=", "href=", "url(", "@import"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
}

// A component is the output of the format kustomize.
type component struct {
	APIVersion, Kind string
	Patches          []struct {
		Target struct{ Group, Version, Kind, Name, Namespace string }
		Patch  string
	}
}

// original returns the object that a row is about, with the present requests, another container, and an empty object to decode into.
func original(t *testing.T, rows []*core.Row) (object, into any, spec func(any) *corev1.PodSpec) {
	t.Helper()
	var containers []corev1.Container
	for _, row := range rows {
		containers = append(containers, corev1.Container{Name: row.Container, Image: "image", Resources: corev1.ResourceRequirements{Requests: list2(row.Requests), Limits: list2(row.Limits)}})
	}
	containers = append(containers, corev1.Container{Name: "other", Image: "image"})
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: containers}}
	switch kind := rows[0].Workload.Kind; kind {
	case "Deployment":
		return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template}}, &appsv1.Deployment{}, func(o any) *corev1.PodSpec { return &o.(*appsv1.Deployment).Spec.Template.Spec }
	case "StatefulSet":
		return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: template}}, &appsv1.StatefulSet{}, func(o any) *corev1.PodSpec { return &o.(*appsv1.StatefulSet).Spec.Template.Spec }
	case "CronJob":
		job := &batchv1.CronJob{}
		job.Spec.JobTemplate.Spec.Template = template
		return job, &batchv1.CronJob{}, func(o any) *corev1.PodSpec { return &o.(*batchv1.CronJob).Spec.JobTemplate.Spec.Template.Spec }
	default:
		t.Fatalf("kind %s", kind)
		return nil, nil, nil
	}
}

func list2(r cluster.Resources) corev1.ResourceList {
	out := corev1.ResourceList{}
	if v, ok := r.Get(cluster.CPU); ok {
		out[corev1.ResourceCPU] = *resource.NewMilliQuantity(v, resource.DecimalSI)
	}
	if v, ok := r.Get(cluster.Memory); ok {
		out[corev1.ResourceMemory] = *resource.NewQuantity(v, resource.BinarySI)
	}
	return out
}

// amountsIn returns resources of an object.
func amountsIn(l corev1.ResourceList) cluster.Resources {
	var r cluster.Resources
	if q, ok := l[corev1.ResourceCPU]; ok {
		r = r.Set(cluster.CPU, q.MilliValue())
	}
	if q, ok := l[corev1.ResourceMemory]; ok {
		r = r.Set(cluster.Memory, q.Value())
	}
	return r
}

// kubectl and kustomize apply a patch of a built-in kind as a strategic merge patch.
func TestKustomize_patches_leaveExactlyTheReportedRequests(t *testing.T) {
	for _, rule := range core.LimitRules() {
		r := example()
		config := r.Config
		config.Limits = core.LimitRule(rule)
		var subjects []core.Subject
		for _, row := range r.Rows {
			subjects = append(subjects, row.Subject)
		}
		r = core.New(config, subjects)
		var c component
		if err := yaml.UnmarshalStrict([]byte(written(t, "kustomize", r, Options{})), &c); err != nil {
			t.Fatal(err)
		}
		if c.Kind != "Component" || len(c.Patches) != 5 {
			t.Fatalf("got %d patches in a %s", len(c.Patches), c.Kind)
		}
		for _, patch := range c.Patches {
			var rows []*core.Row
			for _, row := range r.ByName() {
				if w := row.Workload; w.Kind == patch.Target.Kind && w.Name == patch.Target.Name && patch.Target.Namespace == "("+w.Namespace+"|default)" && w.Group == patch.Target.Group {
					rows = append(rows, row)
				}
			}
			if len(rows) == 0 {
				t.Fatalf("no row for the target %+v", patch.Target)
			}
			comparePatched(t, rule, rows, []byte(patch.Patch))
		}
	}
}

// comparePatched applies a patch and compares the result with the rows.
func comparePatched(t *testing.T, rule string, rows []*core.Row, patch []byte) {
	t.Helper()
	object, into, spec := original(t, rows)
	before, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	body, err := yaml.YAMLToJSON(patch)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, body, object)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(after, into); err != nil {
		t.Fatal(err)
	}
	containers := spec(into).Containers
	if len(containers) != len(rows)+1 || containers[len(rows)].Name != "other" {
		t.Fatalf("%s: got %d containers", rows[0].Workload, len(containers))
	}
	for i, row := range rows {
		c := &containers[i]
		if got := amountsIn(c.Resources.Requests); c.Image != "image" || got != row.Request {
			t.Errorf("limits %s, %s/%s: got requests %v, want %v", rule, row.Workload, row.Container, got, row.Request)
		}
		if got := amountsIn(c.Resources.Limits); got != row.Limit {
			t.Errorf("limits %s, %s/%s: got limits %v, want %v", rule, row.Workload, row.Container, got, row.Limit)
		}
	}
}

func TestPatch_commands_haveTheSameChangesAsKustomize(t *testing.T) {
	r := example()
	n := 0
	for line := range strings.Lines(written(t, "patch", r, Options{})) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		n++
		words := strings.Fields(line)
		_, rest, _ := strings.Cut(line, " -p '")
		body, ok := strings.CutSuffix(strings.TrimSpace(rest), "'")
		if !ok || words[0] != "kubectl" {
			t.Fatalf("got line %s", line)
		}
		var rows []*core.Row
		for _, row := range r.ByName() {
			if strings.EqualFold(row.Workload.Kind, words[2]) && row.Workload.Namespace == words[4] && row.Workload.Name == words[5] {
				rows = append(rows, row)
			}
		}
		comparePatched(t, "keep", rows, []byte(body))
	}
	if n != 5 {
		t.Errorf("got %d commands, want 5", n)
	}
}

// What a person reads adds up, and what is not known is not 0.
func TestAmounts_smallOnes_areNotShownAsZero(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{wording.Total(cluster.CPU, 3), "3m"}, {wording.Total(cluster.CPU, -4), "-4m"}, {wording.Total(cluster.CPU, 0), "0 cores"}, {wording.Total(cluster.CPU, 1510), "1.51 cores"},
		{wording.Total(cluster.Memory, 3<<20), "3 MiB"}, {wording.Total(cluster.Memory, 1<<30), "1 GiB"}, {price(-0.001), "0"}, {price(-0.01), "-0.01"}, {price(0), "0"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	row := &core.Row{Confidence: core.High}
	row.Places = []core.Place{{Pod: "a"}}
	row.Requests, row.Request = cluster.Amounts(100, 363<<20-5000), cluster.Amounts(100, 363<<20)
	if got := changed(row, cluster.Memory); got != "keep" {
		t.Errorf("a difference that is not shown: %q", got)
	}
}

// A container that uses far less than it requests is not one without waste only because its request is kept. Without enough usage, no statement
// says that there is no risk.
func TestText_unknownOrKept_isNoGoodNews(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	text := func(subjects ...core.Subject) string {
		var out strings.Builder
		r := core.New(core.Config{Cluster: "c", Source: "s", Profiles: []string{"default"}, Now: at}, subjects)
		if err := Write(&out, "table", r, Options{}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	subject := func(name string, e core.Evidence) core.Subject {
		return core.Subject{
			Workload: cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: name}, Container: "app", Places: []core.Place{{Pod: name, Requests: cluster.Amounts(500, 1<<28)}},
			Requests: cluster.Amounts(500, 1<<28), Targets: []core.Target{{Profile: "default", Amount: cluster.Amounts(25, 1<<28)}}, Evidence: &e,
		}
	}
	enough := core.Evidence{From: at.AddDate(0, 0, -10), To: at, Hours: 240, Samples: 14400}
	young := core.Evidence{From: at.Add(-40 * time.Minute), To: at, Samples: 40}
	kept := subject("kept", core.Evidence{Provisional: true, Samples: 480, From: at.Add(-8 * time.Hour), To: at, Hours: 8})
	kept.Kept[0] = core.Kept{Reason: core.Provisional}
	for name, c := range map[string]struct {
		text           string
		want, unwanted []string
	}{
		"provisional": {text(kept), []string{"No risk was seen while usage was read.", "1 container whose requests are kept, although less may do"}, []string{"without risk and waste", "No workload is at risk"}},
		"all young":   {text(subject("young", young)), []string{"Whether workloads are at risk is not known yet. Whether requests can be freed is not known yet."}, []string{"No workload is at risk", "No requests"}},
		"some young":  {text(subject("old", enough), subject("young", young)), []string{"None of 1 workload with enough usage is at risk; not judged: 1 workload."}, []string{"No workload is at risk"}},
		"none young":  {text(subject("old", enough)), []string{"No workload is at risk."}, nil},
	} {
		for _, w := range c.want {
			if !strings.Contains(c.text, w) {
				t.Errorf("%s: %q is missing in\n%s", name, w, c.text)
			}
		}
		for _, w := range c.unwanted {
			if strings.Contains(c.text, w) {
				t.Errorf("%s: %q is in\n%s", name, w, c.text)
			}
		}
	}
}
