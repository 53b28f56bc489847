// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v3"
)

const root = "../.."

// The PrometheusRule objects: on podfit and pools of nodes, and on all workloads.
var files = []string{"/deploy/monitoring/alerts.yaml", "/deploy/monitoring/workloads/alerts.yaml"}

// A rule is an alert or a recording rule of a PrometheusRule.
type rule struct {
	Alert, Record string
	Expr          string
	For           string
	Labels        map[string]string
	Annotations   map[string]string
}

// A group is evaluated in its order.
type group struct {
	Name, Interval string
	Rules          []rule
}

func groups(t testing.TB) (out []group) {
	t.Helper()
	for _, file := range files {
		var object struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string
			Metadata   struct{ Name, Namespace string }
			Spec       struct{ Groups []group }
		}
		text, err := os.ReadFile(root + file)
		if err != nil {
			t.Fatal(err)
		}
		d := yaml.NewDecoder(bytes.NewReader(text))
		d.KnownFields(true)
		if err := d.Decode(&object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, object.Spec.Groups...)
	}
	return out
}

func alerts(t *testing.T) (out []rule) {
	t.Helper()
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			if r.Alert != "" {
				out = append(out, r)
			}
		}
	}
	return out
}

// A series is written as in promtool's tests.
type series struct{ name, values string }

// A scenario is what a cluster reports, and the alert that it causes or does not cause at a time.
type scenario struct {
	alert  string
	fires  bool
	when   string
	series []series
	at     time.Duration
	says   []string // parts of the labels or the description of each alert that fires
}

const hours = 4 * time.Hour

var scenarios = []scenario{
	{"PodfitNoLeader", true, "both replicas wait for the lease", []series{{`podfit_leader{container="recommender",pod="a"}`, "0x60"}, {`podfit_leader{container="recommender",pod="b"}`, "0x60"}}, 30 * time.Minute, nil},
	{"PodfitNoLeader", false, "one replica leads", []series{{`podfit_leader{container="recommender",pod="a"}`, "0x60"}, {`podfit_leader{container="recommender",pod="b"}`, "1x60"}}, 30 * time.Minute, nil},
	{"PodfitNoLeader", false, "the lease moves for two minutes", []series{{`podfit_leader{container="recommender",pod="a"}`, "1x10 0x60"}, {`podfit_leader{container="recommender",pod="b"}`, "0x12 1x60"}}, 13 * time.Minute, nil},
	{"PodfitNoLeader", true, "only the updater has no leader", []series{{`podfit_leader{container="recommender",pod="a"}`, "1x60"}, {`podfit_leader{container="updater",pod="b"}`, "0x60"}}, 30 * time.Minute, nil},
	{"PodfitPassesStale", true, "the last recommender pass was half an hour ago", []series{{`podfit_pass_last_success_timestamp_seconds{loop="recommender",container="recommender",pod="a"}`, "60x90"}, {`podfit_leader{container="recommender",pod="a"}`, "1x90"}}, 50 * time.Minute, nil},
	{"PodfitPassesStale", false, "a pass every minute", []series{{`podfit_pass_last_success_timestamp_seconds{loop="recommender",container="recommender",pod="a"}`, "0+60x90"}, {`podfit_leader{container="recommender",pod="a"}`, "1x90"}}, 50 * time.Minute, nil},
	{"PodfitPassesStale", false, "the replica does not lead", []series{{`podfit_pass_last_success_timestamp_seconds{loop="recommender",container="recommender",pod="a"}`, "60x90"}, {`podfit_leader{container="recommender",pod="a"}`, "0x90"}}, 50 * time.Minute, nil},
	{"PodfitPassesFailing", true, "an internal error in each pass", []series{{`podfit_pass_failures_total{loop="updater",pod="a"}`, "0+1x60"}}, 40 * time.Minute, nil},
	{"PodfitPassesFailing", false, "one internal error an hour ago", []series{{`podfit_pass_failures_total{loop="updater",pod="a"}`, "0x5 1x120"}}, 100 * time.Minute, nil},
	{"PodfitWebhookDown", true, "no replica is ready", []series{{`podfit_admission_controller_ready{pod="a"}`, "0x60"}, {`podfit_admission_controller_ready{pod="b"}`, "0x60"}}, 20 * time.Minute, nil},
	{"PodfitWebhookDown", false, "one replica starts", []series{{`podfit_admission_controller_ready{pod="a"}`, "0x60"}, {`podfit_admission_controller_ready{pod="b"}`, "1x60"}}, 20 * time.Minute, nil},
	{"PodfitWebhookNotRegistered", true, "ready and not registered", []series{{`podfit_admission_controller_ready{pod="a"}`, "1x60"}, {`podfit_admission_controller_registered{pod="a"}`, "0x60"}}, 30 * time.Minute, nil},
	{"PodfitWebhookNotRegistered", false, "registered", []series{{`podfit_admission_controller_ready{pod="a"}`, "1x60"}, {`podfit_admission_controller_registered{pod="a"}`, "1x60"}}, 30 * time.Minute, nil},
	{"PodfitWebhookSlow", true, "one review of 20 takes 2 s", []series{
		{`vpa_admission_controller_admission_latency_seconds_bucket{resource="Pod",le="1"}`, "0+9x60"},
		{`vpa_admission_controller_admission_latency_seconds_bucket{resource="Pod",le="5"}`, "0+10x60"},
		{`vpa_admission_controller_admission_latency_seconds_bucket{resource="Pod",le="+Inf"}`, "0+10x60"}}, 40 * time.Minute, nil},
	{"PodfitWebhookSlow", false, "all reviews are quick", []series{
		{`vpa_admission_controller_admission_latency_seconds_bucket{resource="Pod",le="1"}`, "0+10x60"},
		{`vpa_admission_controller_admission_latency_seconds_bucket{resource="Pod",le="5"}`, "0+10x60"},
		{`vpa_admission_controller_admission_latency_seconds_bucket{resource="Pod",le="+Inf"}`, "0+10x60"}}, 40 * time.Minute, nil},
	{"PodfitCertificateExpires", true, "six days left", []series{{`podfit_admission_controller_certificate_expiry_timestamp_seconds{pod="a"}`, fmt.Sprintf("%dx120", 6*24*3600)}}, 90 * time.Minute, nil},
	{"PodfitCertificateExpires", false, "thirty days left", []series{{`podfit_admission_controller_certificate_expiry_timestamp_seconds{pod="a"}`, fmt.Sprintf("%dx120", 30*24*3600)}}, 90 * time.Minute, nil},
	{"PodfitCertificateExpires", false, "no certificate yet", []series{{`podfit_admission_controller_certificate_expiry_timestamp_seconds{pod="a"}`, "0x120"}}, 90 * time.Minute, nil},
	{"PodfitMetricsAPIFailing", true, "only errors", []series{{`vpa_recommender_metric_server_responses{is_error="true",client_name="default"}`, "0+1x60"}, {`vpa_recommender_metric_server_responses{is_error="false",client_name="default"}`, "10x60"}}, 40 * time.Minute, nil},
	{"PodfitMetricsAPIFailing", false, "one error in ten", []series{{`vpa_recommender_metric_server_responses{is_error="true",client_name="default"}`, "0+1x60"}, {`vpa_recommender_metric_server_responses{is_error="false",client_name="default"}`, "0+9x60"}}, 40 * time.Minute, nil},
	{"PodfitWatchStale", true, "pods are out of date", []series{{`podfit_watch_stale{resource="pods",pod="a"}`, "1x60"}}, 30 * time.Minute, nil},
	{"PodfitWatchStale", false, "up to date", []series{{`podfit_watch_stale{resource="pods",pod="a"}`, "0x60"}}, 30 * time.Minute, nil},
	{"PodfitEvictionsIneffective", true, "pods wait for hours because changes did not help", []series{{`podfit_updater_decisions{act="leave",reason="BackingOff"}`, "2x600"}}, 2*hours + time.Hour, nil},
	{"PodfitEvictionsIneffective", false, "an eviction did not help and the next one does", []series{{`podfit_updater_decisions{act="leave",reason="BackingOff"}`, "2x60 0x600"}}, 2*hours + time.Hour, nil},
	{"PodfitPodsWithoutRoom", true, "three pods fit on no node for hours", []series{{`podfit_updater_decisions{act="leave",reason="Unplaceable"}`, "3x600"}}, hours, nil},
	{"PodfitNodeNearlyOutOfMemory", true, "moving pods does not help", []series{{`podfit_node_reserve_used{node="n1"}`, "0.4x60"}}, 30 * time.Minute, nil},
	{"PodfitNodeNearlyOutOfMemory", true, "usage passes the line every other minute", []series{{`podfit_node_reserve_used{node="n1"}`, strings.Repeat("0.4 stale ", 30)}}, 30 * time.Minute, nil},
	{"PodfitNodeNearlyOutOfMemory", false, "a pod moves", []series{{`podfit_node_reserve_used{node="n1"}`, "0.4x3 _x60"}}, 30 * time.Minute, nil},
	{"PodfitNodesUnguarded", true, "the right is missing", []series{{`podfit_unguarded_nodes{pod="a"}`, "3x60"}, {`podfit_unguarded_nodes{pod="b"}`, "0x60"}}, 30 * time.Minute, nil},
	{"PodfitNodesUnguarded", false, "the Metrics API is away for ten minutes", []series{{`podfit_unguarded_nodes{pod="a"}`, "0x5 3x9 0x60"}}, time.Hour, nil},
	{"PodfitPodsWithoutRoom", false, "a node is added", []series{{`podfit_updater_decisions{act="leave",reason="Unplaceable"}`, "3x60 0x600"}}, hours, nil},
	{"PodfitStateNotStored", true, "the CRD is missing", []series{{`podfit_updater_update_states_available{pod="a",container="updater"}`, "0x90"}, {`podfit_leader{pod="a",container="updater"}`, "1x90"}}, time.Hour, nil},
	{"PodfitStateNotStored", false, "the replica does not lead", []series{{`podfit_updater_update_states_available{pod="a",container="updater"}`, "0x90"}, {`podfit_leader{pod="a",container="updater"}`, "0x90"}}, time.Hour, nil},
	{"PodfitProfileUnusable", true, "two VPAs name a deleted profile", []series{{`podfit_recommender_vpas_with_condition{condition="SizingProfileUsable",reason="Deleted"}`, "2x90"}}, time.Hour, nil},
	{"PodfitProfileUnusable", false, "a profile is corrected, and VPAs have other conditions", []series{
		{`podfit_recommender_vpas_with_condition{condition="SizingProfileUsable",reason="Invalid"}`, "1x10 0x90"},
		{`podfit_recommender_vpas_with_condition{condition="UsageAboveRequest",reason="RequestTooLow"}`, "4x100"},
	}, time.Hour, nil},
}

// rulesOf returns the rules of a group for Prometheus, with the alerts by name.
func rulesOf(t testing.TB, g group) (all []rules.Rule, alerts map[string]*rules.AlertingRule) {
	t.Helper()
	alerts = map[string]*rules.AlertingRule{}
	for _, r := range g.Rules {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			t.Fatalf("%s%s: %v", r.Alert, r.Record, err)
		}
		if r.Record != "" {
			all = append(all, rules.NewRecordingRule(r.Record, expr, labels.FromMap(r.Labels)))
			continue
		}
		var wait model.Duration
		if r.For != "" {
			if wait, err = model.ParseDuration(r.For); err != nil {
				t.Fatalf("%s: for: %v", r.Alert, err)
			}
		}
		alert := rules.NewAlertingRule(r.Alert, expr, time.Duration(wait), 0, labels.FromMap(r.Labels), labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
		all, alerts[r.Alert] = append(all, alert), alert
	}
	return all, alerts
}

// fires evaluates the group of an alert every minute until a time, and returns the firing instances of the alert.
func fires(t *testing.T, name string, load []series, until time.Duration) (out []*rules.Alert) {
	t.Helper()
	all := groups(t)
	i := slices.IndexFunc(all, func(g group) bool {
		return slices.ContainsFunc(g.Rules, func(r rule) bool { return r.Alert == name })
	})
	if i < 0 {
		t.Errorf("no alert %s", name)
		return nil
	}
	var text strings.Builder
	text.WriteString("load 1m\n")
	for _, s := range load {
		fmt.Fprintf(&text, "  %s %s\n", s.name, s.values)
	}
	storage := promqltest.LoadedStorage(t, text.String())
	defer storage.Close()
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	ordered, alerts := rulesOf(t, all[i])
	g := rules.NewGroup(rules.GroupOptions{Name: all[i].Name, Interval: time.Minute, Rules: ordered, Opts: &rules.ManagerOptions{
		Context: t.Context(), QueryFunc: rules.EngineQueryFunc(engine, storage), Appendable: storage, Queryable: storage,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	}})
	for at := time.Duration(0); at <= until; at += time.Minute {
		g.Eval(t.Context(), time.Unix(0, 0).Add(at))
		for _, r := range ordered {
			if r.LastError() != nil {
				t.Fatalf("%s after %v: %v", r.Name(), at, r.LastError())
			}
		}
	}
	for _, a := range alerts[name].ActiveAlerts() {
		if a.State == rules.StateFiring {
			out = append(out, a)
		}
	}
	return out
}

func TestAlerts_scenarios_fireWhenExpected(t *testing.T) {
	type outcome struct {
		alert string
		fires bool
	}
	seen := map[outcome]bool{}
	for _, s := range slices.Concat(scenarios, capacityScenarios, workloadScenarios) {
		seen[outcome{s.alert, s.fires}] = true
		t.Run(s.alert+"/"+s.when, func(t *testing.T) {
			got := fires(t, s.alert, s.series, s.at)
			if (len(got) > 0) != s.fires {
				t.Errorf("%d alerts fire", len(got))
			}
			for _, a := range got {
				text := a.Annotations.Get("description")
				if text == "" || strings.Contains(text, "error") && strings.Contains(text, "template") || strings.Contains(text, "<no value>") {
					t.Errorf("description %q", text)
				}
				for _, want := range s.says {
					if !strings.Contains(a.Labels.String()+" "+text, want) {
						t.Errorf("%q is not in labels %v or description %q", want, a.Labels, text)
					}
				}
			}
		})
	}
	for _, r := range alerts(t) {
		if !seen[outcome{r.Alert, true}] || !seen[outcome{r.Alert, false}] {
			t.Errorf("%s: it needs a scenario in which it fires and one in which it does not", r.Alert)
		}
	}
}

// documented returns the metrics of docs/metrics.md with their labels.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([^|]*) \\|").FindAllStringSubmatch(string(text), -1) {
		known[m[1]] = strings.Split(strings.TrimSpace(m[2]), ", ")
	}
	return known
}

// Each metric and label of the alerts is one of podfit's: docs/metrics.md is generated from the code.
func TestAlerts_metrics_exist(t *testing.T) {
	known := documented(t)
	// Labels that a scrape adds.
	scraped := []string{"namespace", "pod", "container", "job", "instance", "le"}
	for _, r := range alerts(t) {
		if slices.Contains(workloadAlerts(t), r.Alert) {
			continue // these have metrics of others
		}
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			t.Errorf("%s: %v", r.Alert, err)
			continue
		}
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			v, ok := n.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			name := strings.TrimSuffix(v.Name, "_bucket")
			if known[name] == nil {
				t.Errorf("%s: podfit has no metric %s", r.Alert, v.Name)
			}
			for _, m := range v.LabelMatchers {
				if m.Name != "__name__" && !slices.Contains(known[name], m.Name) && !slices.Contains(scraped, m.Name) {
					t.Errorf("%s: %s has no label %s", r.Alert, v.Name, m.Name)
				}
			}
			return nil
		})
	}
}

// Each value of the label reason is a reason of the code: docs/messages.md is generated from it.
func TestAlerts_reasons_exist(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/messages.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alerts(t) {
		for _, m := range regexp.MustCompile(`reason=~?"([^"]+)"`).FindAllStringSubmatch(r.Expr, -1) {
			for reason := range strings.SplitSeq(m[1], "|") {
				if !strings.Contains(string(text), "`"+reason+"`") {
					t.Errorf("%s: no reason %s", r.Alert, reason)
				}
			}
		}
	}
}

// Each alert has a section of the runbook with what it means, how to see it and what to do.
func TestRunbook_eachAlert_hasASection(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		sections[title] = body
	}
	for _, r := range alerts(t) {
		body := sections[r.Alert]
		for _, part := range []string{"**What it means.**", "**How to see it.**", "**What to do.**"} {
			if !strings.Contains(body, part) {
				t.Errorf("docs/runbook.md, section %s lacks %s", r.Alert, part)
			}
		}
		if want := "docs/runbook.md#" + strings.ToLower(r.Alert); !strings.HasSuffix(r.Annotations["runbook_url"], want) {
			t.Errorf("%s: runbook_url %q, want ...%s", r.Alert, r.Annotations["runbook_url"], want)
		}
		severity, computed := r.Labels["severity"], strings.Contains(r.Expr, `"severity", "info"`)
		if r.Annotations["summary"] == "" || computed == slices.Contains([]string{"info", "warning", "critical"}, severity) {
			t.Errorf("%s: summary %q, labels %v", r.Alert, r.Annotations["summary"], r.Labels)
		}
		delete(sections, r.Alert)
	}
	for title := range sections {
		if strings.HasPrefix(title, "Podfit") {
			t.Errorf("docs/runbook.md describes the alert %s, which does not exist", title)
		}
	}
}
