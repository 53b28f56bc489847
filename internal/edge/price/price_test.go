// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package price

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
)

const example = `
currency: EUR
default: {core: 0.0316, gib: 0.00424}
nodes:
- {match: {node.kubernetes.io/instance-type: m6i.2xlarge}, hour: 0.384}
- {match: {karpenter.sh/capacity-type: spot}, factor: 0.35}
- {match: {pool: gpu}, core: 0.5, gib: 0.01}
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func node(name string, labels ...string) cluster.Node {
	return cluster.Node{Name: name, Labels: labels, Allocatable: cluster.Amounts(8000, 32<<30)}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

func TestReadFile_rules_givePriceOfEachNode(t *testing.T) {
	prices, err := ReadFile(write(t, example), []cluster.Node{
		node("plain"),
		node("large", "node.kubernetes.io/instance-type=m6i.2xlarge"),
		node("spot", "karpenter.sh/capacity-type=spot"),
		node("large spot", "karpenter.sh/capacity-type=spot", "node.kubernetes.io/instance-type=m6i.2xlarge"),
		node("gpu", "pool=gpu"),
	})
	if err != nil {
		t.Fatal(err)
	}
	whole := cluster.Amounts(8000, 32<<30)
	for name, want := range map[string]float64{
		"plain": 8*0.0316 + 32*0.00424, "large": 0.384, "spot": 0.35 * (8*0.0316 + 32*0.00424), "large spot": 0.35 * 0.384, "gpu": 8*0.5 + 32*0.01,
	} {
		if got := prices.Nodes[name].Of(whole) / review.HoursPerMonth; !near(got, want) {
			t.Errorf("node %s: got %v an hour, want %v", name, got, want)
		}
	}
	if ratio := prices.Nodes["large"].Core / prices.Nodes["large"].GiB; !near(ratio, 0.0316/0.00424) {
		t.Errorf("the price of a whole node is divided in the ratio %v, want that of the default", ratio)
	}
	if prices.Currency != "EUR" || prices.Assumed {
		t.Errorf("got %+v", prices)
	}
}

func TestReadFile_mistakes_areNamed(t *testing.T) {
	const head = "currency: EUR\ndefault: {core: 0.03, gib: 0.004}\n"
	for text, want := range map[string]string{
		"":              "it is empty",
		"currency: [":   "it is not valid YAML",
		"currency: EUR": "default must have core and gib",
		"currency: E U R\ndefault: {core: 1, gib: 1}":               `currency must be one to eight letters such as EUR, got "E U R"`,
		head + "nodez: []":                                          `unknown field "nodez" in the file (did you mean nodes?)`,
		head + "nodes: [{match: {a: b}, hours: 1}]":                 `unknown field "hours" in nodes[0] (did you mean hour?)`,
		head + "nodes: [{hour: 1}]":                                 "nodes[0].match must have at least one label",
		head + "nodes: [{match: {a: b}}]":                           "nodes[0] must have hour",
		head + "nodes: [{match: {a: b}, core: 1}]":                  "nodes[0] must have both core and gib",
		head + "nodes: [{match: {a: b}, hour: 1, core: 1, gib: 1}]": "nodes[0] must not have both hour and core",
		head + "nodes: [{match: {a: b}, factor: -1}]":               "nodes[0].factor must be between 0 and 1e+06, got -1",
		head + "nodes: [{match: {a: b}, hour: .nan}]":               "unsupported value: NaN",
		head + "nodes: [{match: {a: b}, hour: cheap}]":              "a value has the wrong type",
		"currency: EUR\ndefault: {core: 0, gib: 0}":                 "must not both be 0",
	} {
		_, err := ReadFile(write(t, text), nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "prices.yaml") {
			t.Errorf("%q: got error %v, want %q", text, err, want)
		}
	}
	for path, want := range map[string]string{t.TempDir(): "is a folder", filepath.Join(t.TempDir(), "none"): "no such file"} {
		if _, err := ReadFile(path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", path, err, want)
		}
	}
}

// A device has no size and no end.
func TestReadFile_endlessFile_isRefused(t *testing.T) {
	const endless = "/dev/zero"
	if _, err := os.Stat(endless); err != nil {
		t.Skip(err)
	}
	if _, err := ReadFile(endless, nil); err == nil || !strings.Contains(err.Error(), "must have at most 1048576 bytes") {
		t.Errorf("got error %v", err)
	}
}

func TestReadFile_manyFactors_priceIsFinite(t *testing.T) {
	text := "currency: EUR\ndefault: {core: 0, gib: 1}\nnodes:\n" + strings.Repeat("- {match: {a: b}, factor: 1000000}\n", 100)
	prices, err := ReadFile(write(t, text), []cluster.Node{{Name: "n", Labels: []string{"a=b"}}})
	if err != nil {
		t.Fatal(err)
	}
	if p := prices.Nodes["n"]; p.Core != 0 || math.IsInf(p.GiB, 0) {
		t.Errorf("got %+v", p)
	}
}

func FuzzParse_anyFile_neverPanics(f *testing.F) {
	f.Add(example)
	f.Add("currency: EUR\nnodes: [1, null]")
	f.Add("default: 7")
	f.Fuzz(func(_ *testing.T, text string) {
		if file, err := parse([]byte(text)); err == nil {
			n := node("n")
			file.of(&n)
		}
	})
}

// A prometheus has the values of each node, by metric.
type prometheus map[string]map[string]float64

func (p prometheus) Values(_ context.Context, query, label string, _ time.Time) (map[string]float64, error) {
	for metric, values := range p {
		if query == "max by (node) ("+metric+")" && label == "node" {
			if values == nil {
				return nil, errors.New("503")
			}
			return maps.Clone(values), nil
		}
	}
	return nil, nil
}

func TestOpenCost_metrics_givePriceOfEachNode(t *testing.T) {
	from := prometheus{"node_cpu_hourly_cost": {"a": 0.02, "b": math.NaN(), "c": 0.04, "d": -1}, "node_ram_hourly_cost": {"a": 0.003, "b": 1e9}}
	prices, err := OpenCost(t.Context(), from, "http://prometheus", []cluster.Node{node("a"), node("b"), node("c")}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]review.Price{"a": {Core: 0.02, GiB: 0.003}, "b": {Core: 0.04, GiB: 0.003}, "c": {Core: 0.04, GiB: 0.003}}
	if !maps.Equal(prices.Nodes, want) || prices.From != "OpenCost at http://prometheus" {
		t.Errorf("got %+v, want %+v", prices, want)
	}
}

func TestOpenCost_withoutPrices_isAnError(t *testing.T) {
	cpu := map[string]float64{"a": 0.02}
	for want, from := range map[string]prometheus{
		"read prices from here: it has no series node_cpu_hourly_cost": {}, "it has no series node_ram_hourly_cost": {"node_cpu_hourly_cost": cpu},
		"read prices from here: 503": {"node_cpu_hourly_cost": cpu, "node_ram_hourly_cost": nil},
	} {
		if _, err := OpenCost(t.Context(), from, "here", nil, time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}
