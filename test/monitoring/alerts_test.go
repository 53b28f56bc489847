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

// A rule is an alert of the PrometheusRule.
type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) (out []rule) {
	t.Helper()
	var object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name, Namespace string }
		Spec       struct {
			Groups []struct {
				Name  string
				Rules []rule
			}
		}
	}
	text, err := os.ReadFile(root + "/deploy/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&object); err != nil {
		t.Fatal(err)
	}
	for _, g := range object.Spec.Groups {
		out = append(out, g.Rules...)
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
}

const hours = 4 * time.Hour

var scenarios = []scenario{
	{"PodfitNoLeader", true, "both replicas wait for the lease", []series{{`podfit_leader{container="recommender",pod="a"}`, "0x60"}, {`podfit_leader{container="recommender",pod="b"}`, "0x60"}}, 30 * time.Minute},
	{"PodfitNoLeader", false, "one replica leads", []series{{`podfit_leader{container="recommender",pod="a"}`, "0x60"}, {`podfit_leader{container="recommender",pod="b"}`, "1x60"}}, 30 * time.Minute},
	{"PodfitNoLeader", false, "the lease moves for two minutes", []series{{`podfit_leader{container="recommender",pod="a"}`, "1x10 0x60"}, {`podfit_leader{container="recommender",pod="b"}`, "0x12 1x60"}}, 13 * time.Minute},
	{"PodfitNoLeader", true, "only the updater has no leader", []series{{`podfit_leader{container="recommender",pod="a"}`, "1x60"}, {`podfit_leader{container="updater",pod="b"}`, "0x60"}}, 30 * time.Minute},
	{"PodfitPassesStale", true, "the last recommender pass was half an hour ago", []series{{`podfit_pass_last_success_timestamp_seconds{loop="recommender",container="recommender",pod="a"}`, "60x90"}, {`podfit_leader{container="recommender",pod="a"}`, "1x90"}}, 50 * time.Minute},
	{"PodfitPassesStale", false, "a pass every minute", []series{{`podfit_pass_last_success_timestamp_seconds{loop="recommender",container="recommender",pod="a"}`, "0+60x90"}, {`podfit_leader{container="recommender",pod="a"}`, "1x90"}}, 50 * time.Minute},
	{"PodfitPassesStale", false, "the replica does not lead", []series{{`podfit_pass_last_success_timestamp_seconds{loop="recommender",container="recommender",pod="a"}`, "60x90"}, {`podfit_leader{container="recommender",pod="a"}`, "0x90"}}, 50 * time.Minute},
	{"PodfitPassesFailing", true, "an internal error in each pass", []series{{`podfit_pass_failures_total{loop="updater",pod="a"}`, "0+1x60"}}, 40 * time.Minute},
	{"PodfitPassesFailing", false, "one internal error an hour ago", []series{{`podfit_pass_failures_total{loop="updater",pod="a"}`, "0x5 1x120"}}, 100 * time.Minute},
	{"PodfitWebhookDown", true, "no replica is ready", []series{{`podfit_admission_controller_ready{pod="a"}`, "0x60"}, {`podfit_admission_controller_ready{pod="b"}`, "0x60"}}, 20 * time.Minute},
	{"PodfitWebhookDown", false, "one replica starts", []series{{`podfit_admission_controller_ready{pod="a"}`, "0x60"}, {`podfit_admission_controller_ready{pod="b"}`, "1x60"}}, 20 * time.Minute},
	{"PodfitWebhookNotRegistered", true, "ready and not registered", []series{{`podfit_admission_controller_ready{pod="a"}`, "1x60"}, {`podfit_admission_controller_registered{pod="a"}`, "0x60"}}, 30 * time.Minute},
	{"PodfitWebhookNotRegistered", false, "registered", []series{{`podfit_admission_controller_ready{pod="a"}`, "1x60"}, {`podfit_admission_controller_registered{pod="a"}`, "1x60"}}, 30 * time.Minute},
	{"PodfitWebhookSlow", true, "one review of 20 takes 2 s", []series{
		{`vpa_admission_controller_admission_latency_seconds_bucket{resource="Pod",le="1"}`, "0+9x60"},
		{`vpa_admission_controller_admission_latency_seconds_bucket{resource="Pod",le="5"}`, "0+10x60"},
		{`vpa_admission_controller_admission_latency_seconds_bucket{resource="Pod",le="+Inf"}`, "0+10x60"}}, 40 * time.Minute},
	{"PodfitWebhookSlow", false, "all reviews are quick", []series{
		{`vpa_admission_controller_admission_latency_seconds_bucket{resource="Pod",le="1"}`, "0+10x60"},
		{`vpa_admission_controller_admission_latency_seconds_bucket{resource="Pod",le="5"}`, "0+10x60"},
		{`vpa_admission_controller_admission_latency_seconds_bucket{resource="Pod",le="+Inf"}`, "0+10x60"}}, 40 * time.Minute},
	{"PodfitCertificateExpires", true, "six days left", []series{{`podfit_admission_controller_certificate_expiry_timestamp_seconds{pod="a"}`, fmt.Sprintf("%dx120", 6*24*3600)}}, 90 * time.Minute},
	{"PodfitCertificateExpires", false, "thirty days left", []series{{`podfit_admission_controller_certificate_expiry_timestamp_seconds{pod="a"}`, fmt.Sprintf("%dx120", 30*24*3600)}}, 90 * time.Minute},
	{"PodfitCertificateExpires", false, "no certificate yet", []series{{`podfit_admission_controller_certificate_expiry_timestamp_seconds{pod="a"}`, "0x120"}}, 90 * time.Minute},
	{"PodfitMetricsAPIFailing", true, "only errors", []series{{`vpa_recommender_metric_server_responses{is_error="true",client_name="default"}`, "0+1x60"}, {`vpa_recommender_metric_server_responses{is_error="false",client_name="default"}`, "10x60"}}, 40 * time.Minute},
	{"PodfitMetricsAPIFailing", false, "one error in ten", []series{{`vpa_recommender_metric_server_responses{is_error="true",client_name="default"}`, "0+1x60"}, {`vpa_recommender_metric_server_responses{is_error="false",client_name="default"}`, "0+9x60"}}, 40 * time.Minute},
	{"PodfitWatchStale", true, "pods are out of date", []series{{`podfit_watch_stale{resource="pods",pod="a"}`, "1x60"}}, 30 * time.Minute},
	{"PodfitWatchStale", false, "up to date", []series{{`podfit_watch_stale{resource="pods",pod="a"}`, "0x60"}}, 30 * time.Minute},
	{"PodfitEvictionsIneffective", true, "pods wait for hours because changes did not help", []series{{`podfit_updater_decisions{act="leave",reason="BackingOff"}`, "2x600"}}, 2*hours + time.Hour},
	{"PodfitEvictionsIneffective", false, "an eviction did not help and the next one does", []series{{`podfit_updater_decisions{act="leave",reason="BackingOff"}`, "2x60 0x600"}}, 2*hours + time.Hour},
	{"PodfitPodsWithoutRoom", true, "three pods fit on no node for hours", []series{{`podfit_updater_decisions{act="leave",reason="Unplaceable"}`, "3x600"}}, hours},
	{"PodfitPodsWithoutRoom", false, "a node is added", []series{{`podfit_updater_decisions{act="leave",reason="Unplaceable"}`, "3x60 0x600"}}, hours},
	{"PodfitStateNotStored", true, "the CRD is missing", []series{{`podfit_updater_update_states_available{pod="a",container="updater"}`, "0x90"}, {`podfit_leader{pod="a",container="updater"}`, "1x90"}}, time.Hour},
	{"PodfitStateNotStored", false, "the replica does not lead", []series{{`podfit_updater_update_states_available{pod="a",container="updater"}`, "0x90"}, {`podfit_leader{pod="a",container="updater"}`, "0x90"}}, time.Hour},
}

// fires evaluates an alert every minute until a time, and returns its firing instances.
func fires(t *testing.T, r rule, load []series, until time.Duration) (out []labels.Labels) {
	t.Helper()
	var text strings.Builder
	text.WriteString("load 1m\n")
	for _, s := range load {
		fmt.Fprintf(&text, "  %s %s\n", s.name, s.values)
	}
	storage := promqltest.LoadedStorage(t, text.String())
	defer storage.Close()
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
	if err != nil {
		t.Fatalf("%s: %v", r.Alert, err)
	}
	wait, err := model.ParseDuration(r.For)
	if err != nil {
		t.Fatalf("%s: for: %v", r.Alert, err)
	}
	alert := rules.NewAlertingRule(r.Alert, expr, time.Duration(wait), 0, labels.FromMap(r.Labels), labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
	for at := time.Duration(0); at <= until; at += time.Minute {
		if _, err := alert.Eval(context.Background(), 0, time.Unix(0, 0).Add(at), rules.EngineQueryFunc(engine, storage), nil, 0); err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
	}
	for _, a := range alert.ActiveAlerts() {
		if a.State == rules.StateFiring {
			out = append(out, a.Annotations)
		}
	}
	return out
}

func TestAlerts_scenarios_fireWhenExpected(t *testing.T) {
	all := alerts(t)
	seen := map[string]map[bool]bool{}
	for _, s := range scenarios {
		i := slices.IndexFunc(all, func(r rule) bool { return r.Alert == s.alert })
		if i < 0 {
			t.Errorf("no alert %s", s.alert)
			continue
		}
		if seen[s.alert] == nil {
			seen[s.alert] = map[bool]bool{}
		}
		seen[s.alert][s.fires] = true
		got := fires(t, all[i], s.series, s.at)
		if (len(got) > 0) != s.fires {
			t.Errorf("%s, %s: %d alerts fire", s.alert, s.when, len(got))
		}
		for _, annotations := range got {
			if text := annotations.Get("description"); text == "" || strings.Contains(text, "error") && strings.Contains(text, "template") || strings.Contains(text, "<no value>") {
				t.Errorf("%s: description %q", s.alert, text)
			}
		}
	}
	for _, r := range all {
		if !seen[r.Alert][true] || !seen[r.Alert][false] {
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
		if r.Annotations["summary"] == "" || r.Labels["severity"] != "warning" && r.Labels["severity"] != "critical" {
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
