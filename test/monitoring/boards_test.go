// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// A grafanaBoard is the part of a board that the tests read.
type grafanaBoard struct {
	UID        string
	Title      string
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Panels []struct {
		ID         int
		Title      string
		Type       string
		Datasource struct{ Type, UID string }
		GridPos    struct{ X, Y, W, H int }
		Targets    []struct{ Expr, LegendFormat string }
	}
}

func boards(t *testing.T) map[string]grafanaBoard {
	t.Helper()
	paths, err := filepath.Glob(root + "/deploy/monitoring/boards/*.json")
	if err != nil || len(paths) != 4 {
		t.Fatalf("%d boards, %v", len(paths), err)
	}
	out := map[string]grafanaBoard{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var b grafanaBoard
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out[strings.TrimSuffix(filepath.Base(path), ".json")] = b
	}
	return out
}

// foreign returns the metrics of other programs, and podfit's metrics that are not in docs/metrics.md, from docs/boards.md.
func foreign(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/boards.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		out[m[1]] = false
	}
	return out
}

func TestBoards_panels_haveUniqueIDsAndPlaces(t *testing.T) {
	uids := map[string]string{}
	for name, b := range boards(t) {
		if other, taken := uids[b.UID]; taken || b.UID != "podfit-"+name || b.Title == "" {
			t.Errorf("%s: uid %q, title %q, other board %q", name, b.UID, b.Title, other)
		}
		uids[b.UID] = name
		if v := b.Templating.List; len(v) == 0 || v[0].Name != "datasource" || v[0].Type != "datasource" || v[0].Query != "prometheus" {
			t.Errorf("%s: no variable for the data source: %+v", name, v)
		}
		ids, places := map[int]bool{}, map[[2]int]string{}
		for _, p := range b.Panels {
			if p.ID == 0 || ids[p.ID] || p.Title == "" {
				t.Errorf("%s: panel %q has the id %d", name, p.Title, p.ID)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := places[[2]int{x, y}]; other != "" || x >= 24 {
						t.Errorf("%s: panel %q overlaps %q, or is outside of the grid", name, p.Title, other)
					}
					places[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			if p.Datasource.Type != "prometheus" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
				t.Errorf("%s: panel %q: data source %+v, %d queries", name, p.Title, p.Datasource, len(p.Targets))
			}
		}
	}
}

// Each metric of podfit and its labels are in docs/metrics.md, which is generated from the code; all others are in docs/boards.md.
func TestBoards_expressions_parseAndNameKnownMetrics(t *testing.T) {
	known, others := documented(t), foreign(t)
	scraped := []string{"__name__", "namespace", "pod", "container", "job", "instance", "le"}
	for name, b := range boards(t) {
		for _, p := range b.Panels {
			for _, target := range p.Targets {
				expr, err := parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
				if err != nil {
					t.Errorf("%s, %s: %v", name, p.Title, err)
					continue
				}
				parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
					v, ok := n.(*parser.VectorSelector)
					if !ok {
						return nil
					}
					if _, ok := others[v.Name]; ok {
						others[v.Name] = true
						return nil
					}
					labels, ok := known[v.Name]
					for _, suffix := range []string{"_bucket", "_count", "_sum"} {
						if base, found := known[strings.TrimSuffix(v.Name, suffix)]; !ok && found {
							labels, ok = base, true
						}
					}
					if !ok {
						t.Errorf("%s, %s: unknown metric %s", name, p.Title, v.Name)
					}
					for _, m := range v.LabelMatchers {
						if !slices.Contains(labels, m.Name) && !slices.Contains(scraped, m.Name) {
							t.Errorf("%s, %s: %s has no label %s", name, p.Title, v.Name, m.Name)
						}
					}
					return nil
				})
			}
		}
	}
	for metric, used := range others {
		if !used {
			t.Errorf("docs/boards.md lists %s, which no board uses", metric)
		}
	}
}

// Each value of the label reason is a reason of the code, and each variable in a query exists.
func TestBoards_reasonsAndVariables_exist(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/messages.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range boards(t) {
		variables := []string{"__rate_interval"}
		for _, v := range b.Templating.List {
			variables = append(variables, v.Name)
		}
		for _, p := range b.Panels {
			for _, target := range p.Targets {
				for _, m := range regexp.MustCompile(`podfit_updater_decisions{[^}]*reason=~?"([^"]+)"`).FindAllStringSubmatch(target.Expr, -1) {
					for reason := range strings.SplitSeq(m[1], "|") {
						if !strings.Contains(string(text), "#### Reason `"+reason+"`") {
							t.Errorf("%s, %s: no reason %s", name, p.Title, reason)
						}
					}
				}
				for _, m := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
					if !slices.Contains(variables, m[1]) {
						t.Errorf("%s, %s: no variable %s", name, p.Title, m[1])
					}
				}
			}
		}
	}
}
