// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command boards generates podfit's Grafana boards. It fails if a board shows a metric of podfit that the code does not register.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender"
	"podfit.dev/podfit/internal/app/updater"
	"podfit.dev/podfit/internal/edge/webhook"
)

func main() {
	out := flag.String("out", "../../deploy/monitoring/boards", "folder of the boards")
	flag.Parse()
	if err := generate(*out); err != nil {
		fmt.Fprintln(os.Stderr, "boards:", err)
		os.Exit(1)
	}
}

// generate writes all boards to a folder.
func generate(out string) error {
	known := registered()
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, b := range []board{overview, workload, operations, capacity} {
		if err := b.check(known); err != nil {
			return err
		}
		text, err := json.MarshalIndent(b.json(), "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, b.name+".json"), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// names collects the names of registered metrics.
type names map[string]bool

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

// Register implements prometheus.Registerer.
func (n names) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc, 64)
	c.Describe(descriptions)
	close(descriptions)
	for d := range descriptions {
		if m := fqName.FindStringSubmatch(d.String()); m != nil {
			n[m[1]] = true
		}
	}
	return nil
}

// MustRegister implements prometheus.Registerer.
func (n names) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = n.Register(c)
	}
}

// Unregister implements prometheus.Registerer.
func (names) Unregister(prometheus.Collector) bool { return false }

// registered returns the names of podfit's metrics.
func registered() names {
	n := names{}
	recommender.NewMetrics(n)
	updater.NewMetrics(n)
	webhook.NewMetrics(n)
	process.NewMetrics(n)
	n.MustRegister(process.NewWatchMetrics(nil))
	return n
}

var ownMetric = regexp.MustCompile(`\b(podfit|vpa)_[a-z0-9_]+_[a-z0-9_]+\b|\bpodfit_leader\b`)

// labels are names of labels that look like those of metrics.
var labels = map[string]bool{"vpa_size_log2": true}

// check returns an error if a query has a metric of podfit that does not exist.
func (b board) check(known names) error {
	for _, r := range b.rows {
		for _, p := range r.panels {
			for _, q := range p.queries {
				for _, name := range ownMetric.FindAllString(q.expr, -1) {
					base := name
					for _, suffix := range []string{"_bucket", "_count", "_sum"} {
						base = strings.TrimSuffix(base, suffix)
					}
					if !known[name] && !known[base] && !labels[name] {
						return fmt.Errorf("board %s, panel %q: podfit has no metric %s", b.name, p.title, name)
					}
				}
			}
		}
	}
	return nil
}
