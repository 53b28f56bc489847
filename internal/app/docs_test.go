// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender"
	"podfit.dev/podfit/internal/app/updater"
	"podfit.dev/podfit/internal/edge/webhook"
	"podfit.dev/podfit/test/contract"
)

var update = flag.Bool("update", false, "write the generated documentation")

// components are the long-running commands with upstream's flags and metrics for each.
var components = []struct {
	name    string
	flags   func() []contract.Flag
	metrics func() []contract.Metric
	own     func(prometheus.Registerer)
}{
	{"recommender", contract.RecommenderFlags, contract.RecommenderMetrics, func(r prometheus.Registerer) { recommender.NewMetrics(r); recommender.NewExporter(r) }},
	{"updater", contract.UpdaterFlags, contract.UpdaterMetrics, func(r prometheus.Registerer) { updater.NewMetrics(r) }},
	{"admission-controller", contract.AdmissionFlags, contract.AdmissionMetrics, func(r prometheus.Registerer) { webhook.NewMetrics(r) }},
}

func command(t *testing.T, name string) *cobra.Command {
	t.Helper()
	c, _, err := Root(process.Streams{Out: io.Discard, Err: io.Discard}).Find([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// flagKinds are the names of flag types in the contract, by pflag's name.
var flagKinds = map[string]string{
	"float64": "float", "float32": "float", "int32": "int", "int64": "int", "boolfunc": "bool",
}

func TestCommands_upstreamFlags_haveUpstreamDefaults(t *testing.T) {
	for _, c := range components {
		fs := command(t, c.name).Flags()
		for _, want := range c.flags() {
			f := fs.Lookup(want.Name)
			if f == nil {
				t.Errorf("%s: --%s is missing", c.name, want.Name)
				continue
			}
			if f.DefValue != want.Default {
				t.Errorf("%s: --%s defaults to %q, upstream to %q", c.name, want.Name, f.DefValue, want.Default)
			}
			if want.Type == "bool" && f.NoOptDefVal != "true" {
				t.Errorf("%s: --%s needs a value, upstream's does not", c.name, want.Name)
			}
		}
	}
}

func TestRun_flagsOfAllComponents_areAccepted(t *testing.T) {
	run := command(t, "run").Flags()
	for _, c := range components {
		command(t, c.name).Flags().VisitAll(func(f *pflag.Flag) {
			if run.Lookup(f.Name) == nil {
				t.Errorf("--%s of %s is missing", f.Name, c.name)
			}
		})
	}
}

// registered collects the metrics that are registered.
type registered struct{ descs []string }

func (r *registered) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc, 64)
	c.Describe(ch)
	close(ch)
	for d := range ch {
		r.descs = append(r.descs, d.String())
	}
	return nil
}
func (r *registered) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		_ = r.Register(c)
	}
}
func (r *registered) Unregister(prometheus.Collector) bool { return false }

// described is the description of one metric.
type described struct{ name, help, labels string }

func describe(own func(prometheus.Registerer)) []described {
	var r registered
	own(&r)
	var out []described
	for _, d := range r.descs {
		field := func(key, end string) string {
			_, rest, _ := strings.Cut(d, key)
			v, _, _ := strings.Cut(rest, end)
			return v
		}
		out = append(out, described{
			name: field(`fqName: "`, `"`), help: field(`help: "`, `", unit: `), labels: field(`variableLabels: {`, `}`),
		})
	}
	slices.SortFunc(out, func(a, b described) int { return strings.Compare(a.name, b.name) })
	return out
}

func TestMetrics_upstreamNames_haveUpstreamLabels(t *testing.T) {
	for _, c := range components {
		have := map[string]string{}
		for _, d := range describe(c.own) {
			have[d.name] = d.labels
		}
		for _, want := range c.metrics() {
			labels, ok := have[want.Name]
			if !ok {
				t.Errorf("%s: %s is missing", c.name, want.Name)
				continue
			}
			if w := strings.Join(want.Labels, ","); labels != w {
				t.Errorf("%s: %s has the labels %q, upstream's %q", c.name, want.Name, labels, w)
			}
		}
	}
}

func TestDocs_flagsAndMetrics_matchCode(t *testing.T) {
	for file, text := range map[string]string{"../../docs/flags.md": flagsPage(t), "../../docs/metrics.md": metricsPage()} {
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, []byte(text)) {
			t.Errorf("%s does not match the code; run \"make generate\"", strings.TrimPrefix(file, "../../"))
		}
	}
}

// gatesPage documents --feature-gates. TestUpdater_featureGates_enableTheirActions tests the documented effects.
const gatesPage = `
## Feature gates

Feature gates have upstream's names and defaults. All of them are alpha and disabled by default. A component does not start if --feature-gates contains an unknown gate.

| gate | default | components | effect |
|---|---|---|---|
| ` + "`CPUStartupBoost`" + ` | disabled | admission controller, updater | Gives new pods more CPU until they are ready, or some time after ([startup.md](startup.md)). If disabled, VPA objects with ` + "`startupBoost`" + ` are rejected. |
| ` + "`InPlace`" + ` | disabled | admission controller, updater | Allows the update mode ` + "`InPlace`" + `, which never evicts pods. If disabled, new VPA objects with this mode are rejected, and pods of existing ones are not changed. |
| ` + "`PerVPAConfig`" + ` | disabled | all | Allows VPA objects to override the flags for OOM kills and memory windows. If disabled, the flags apply, and VPA objects with such fields are rejected. |
| ` + "`AllAlpha`" + `, ` + "`AllBeta`" + ` | disabled | all | Enables every gate of that stage that is not set by name. There are no beta gates. |
| ` + "`InPlaceOrRecreate`" + ` | always enabled | | No effect. Enabling it is accepted; disabling it is an error. |
`

func flagsPage(t *testing.T) string {
	var b strings.Builder
	b.WriteString("<!-- Generated by \"make generate\". -->\n# Flags\n\n" +
		"podfit has every flag of upstream's three components, with the same name, default and meaning. Underscores in flag names are equivalent to dashes.\n" +
		"`podfit run` accepts the flags of all three components. Flags marked **podfit** do not exist in upstream; [scope.md](scope.md) explains why podfit has them.\n")
	b.WriteString(gatesPage)
	for _, c := range components {
		known := map[string]bool{}
		for _, f := range c.flags() {
			known[f.Name] = true
		}
		fmt.Fprintf(&b, "\n## podfit %s\n\n| flag | type | default | meaning |\n|---|---|---|---|\n", c.name)
		command(t, c.name).Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" {
				return
			}
			mark := ""
			if !known[f.Name] {
				mark = "**podfit** "
			}
			kind := f.Value.Type()
			if k := flagKinds[kind]; k != "" {
				kind = k
			}
			def := ""
			if f.DefValue != "" {
				def = "`" + f.DefValue + "`"
			}
			fmt.Fprintf(&b, "| `--%s` | %s | %s | %s%s |\n", f.Name, kind, def, mark, strings.ReplaceAll(f.Usage, "|", "\\|"))
		})
	}
	return b.String()
}

func metricsPage() string {
	var b strings.Builder
	b.WriteString("<!-- Generated by \"make generate\". -->\n# Metrics\n\n" +
		"podfit serves metrics on `/metrics` of `--address`. Metrics whose names begin with `vpa_` have upstream's names and labels. Metrics whose names\n" +
		"begin with `podfit_` exist only in podfit. podfit also serves the metrics of the Go runtime and of the Kubernetes client (`rest_client_…`).\n" +
		"`podfit run` serves the metrics of all components.\n")
	section := func(title string, own func(prometheus.Registerer)) {
		fmt.Fprintf(&b, "\n## %s\n\n| metric | labels | meaning |\n|---|---|---|\n", title)
		for _, d := range describe(own) {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.name, strings.ReplaceAll(d.labels, ",", ", "), d.help)
		}
	}
	for _, c := range components {
		section("podfit "+c.name, c.own)
	}
	section("Every command", func(r prometheus.Registerer) {
		process.NewMetrics(r)
		r.MustRegister(process.NewWatchMetrics(nil))
	})
	return b.String()
}
