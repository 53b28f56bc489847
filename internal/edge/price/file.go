// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package price reads the prices of nodes: from a file, or from the metrics of OpenCost in a Prometheus.
package price

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/spelling"
)

// maxPrice is the maximum price for an hour. A higher one is a mistake.
const maxPrice = 1e6

type file struct {
	Currency string  `json:"currency"`
	Default  *amount `json:"default"`
	Nodes    []rule  `json:"nodes"`
}

// An amount is the price of a core and of a GiB of memory for an hour.
type amount struct {
	Core *float64 `json:"core"`
	GiB  *float64 `json:"gib"`
}

// A rule is the price of nodes with certain labels. Hour is the price of the whole node for an hour. The first rule with a price that
// matches a node sets it; the factors of all rules that match are multiplied.
type rule struct {
	Match  map[string]string `json:"match"`
	Hour   *float64          `json:"hour"`
	Core   *float64          `json:"core"`
	GiB    *float64          `json:"gib"`
	Factor *float64          `json:"factor"`
}

// fields are the fields of a price file, by the object that contains them.
var fields = map[string][]string{
	"the file": {"currency", "default", "nodes"}, "default": {"core", "gib"}, "nodes": {"match", "hour", "core", "gib", "factor"},
}

// ReadFile reads a price file and returns the prices of nodes.
func ReadFile(path string, nodes []cluster.Node) (review.Prices, error) {
	data, err := read(path)
	if err != nil {
		return review.Prices{}, fmt.Errorf("read prices: %w", err)
	}
	f, err := parse(data)
	if err != nil {
		return review.Prices{}, fmt.Errorf("read prices: %s: %w", path, err)
	}
	from := review.PriceSource{Currency: f.Currency, From: path}
	out := review.Prices{PriceSource: from, Default: f.base(), Nodes: make(map[string]review.Price, len(nodes))}
	for i := range nodes {
		out.Nodes[nodes[i].Name] = f.of(&nodes[i])
	}
	return out, nil
}

// read returns the content of a file of at most 1 MiB. The size of a pipe or a device is not known before it is read.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder", path)
	}
	const maxFile = 1 << 20 // bytes
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s must have at most %d bytes", path, maxFile)
	}
	return data, err
}

// parse decodes and validates a price file. The error contains all mistakes.
func parse(data []byte) (*file, error) {
	var raw map[string]any
	if err := yaml.UnmarshalStrict(data, &raw); err != nil {
		return nil, fmt.Errorf("it is not valid YAML: %w", err)
	}
	if len(raw) == 0 {
		return nil, errors.New("it is empty; it needs currency and default, for example:\ncurrency: EUR\ndefault: {core: 0.0316, gib: 0.00424}")
	}
	if err := unknownFields(raw); err != nil {
		return nil, err
	}
	f := &file{}
	if err := yaml.Unmarshal(data, f); err != nil {
		return nil, fmt.Errorf("a value has the wrong type: %w", err)
	}
	return f, f.validate()
}

func unknownFields(raw map[string]any) error {
	var errs []error
	look := func(where, path string, object any) {
		values, _ := object.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if slices.Contains(fields[where], name) {
				continue
			}
			errs = append(errs, fmt.Errorf("unknown field %q in %s%s", name, path, spelling.Hint(name, fields[where])))
		}
	}
	look("the file", "the file", raw)
	look("default", "default", raw["default"])
	list, _ := raw["nodes"].([]any)
	for i, r := range list {
		look("nodes", fmt.Sprintf("nodes[%d]", i), r)
	}
	return errors.Join(errs...)
}

var currencyForm = regexp.MustCompile(`^[\p{L}\p{Sc}]{1,8}$`)

func (f *file) validate() error {
	var errs []error
	if !currencyForm.MatchString(f.Currency) {
		errs = append(errs, fmt.Errorf("currency must be one to eight letters such as EUR, got %q", f.Currency))
	}
	if f.Default == nil || f.Default.Core == nil || f.Default.GiB == nil {
		errs = append(errs, errors.New("default must have core and gib, the prices of one core and of one GiB for an hour"))
	} else {
		errs = append(errs, inRange("default.core", f.Default.Core), inRange("default.gib", f.Default.GiB))
		if *f.Default.Core == 0 && *f.Default.GiB == 0 {
			errs = append(errs, errors.New("default.core and default.gib must not both be 0; the price of a whole node is divided by their ratio"))
		}
	}
	for i := range f.Nodes {
		errs = append(errs, f.Nodes[i].validate(fmt.Sprintf("nodes[%d]", i)))
	}
	return errors.Join(errs...)
}

func (r *rule) validate(path string) error {
	var errs []error
	if len(r.Match) == 0 {
		errs = append(errs, fmt.Errorf("%s.match must have at least one label of nodes, such as node.kubernetes.io/instance-type: m6i.2xlarge", path))
	}
	switch {
	case r.Hour == nil && r.Core == nil && r.GiB == nil && r.Factor == nil:
		errs = append(errs, fmt.Errorf("%s must have hour (the price of the node), core and gib, or factor", path))
	case r.Hour != nil && (r.Core != nil || r.GiB != nil):
		errs = append(errs, fmt.Errorf("%s must not have both hour and core or gib", path))
	case (r.Core == nil) != (r.GiB == nil):
		errs = append(errs, fmt.Errorf("%s must have both core and gib, or none of them", path))
	}
	errs = append(errs, inRange(path+".hour", r.Hour), inRange(path+".core", r.Core), inRange(path+".gib", r.GiB), inRange(path+".factor", r.Factor))
	return errors.Join(errs...)
}

// inRange returns an error if a value is given and not between 0 and maxPrice.
func inRange(path string, v *float64) error {
	if v == nil || *v >= 0 && *v <= maxPrice {
		return nil
	}
	return fmt.Errorf("%s must be between 0 and %g, got %v", path, maxPrice, *v)
}

func (f *file) base() review.Price { return review.Price{Core: *f.Default.Core, GiB: *f.Default.GiB} }

func (f *file) of(n *cluster.Node) review.Price {
	price := f.base()
	factor := 1.0
	isSet := false
	for i := range f.Nodes {
		r := &f.Nodes[i]
		if !r.matches(n) {
			continue
		}
		if r.Factor != nil {
			factor = min(factor**r.Factor, maxPrice) // finite, however many rules match
		}
		switch {
		case isSet:
		case r.Hour != nil:
			price = divided(*r.Hour, n, f.base())
			isSet = true
		case r.Core != nil:
			price = review.Price{Core: *r.Core, GiB: *r.GiB}
			isSet = true
		}
	}
	return review.Price{Core: price.Core * factor, GiB: price.GiB * factor}
}

func (r *rule) matches(n *cluster.Node) bool {
	for key, value := range r.Match {
		if _, ok := slices.BinarySearch(n.Labels, key+"="+value); !ok {
			return false
		}
	}
	return true
}

// divided returns prices in the ratio of other prices, with which a whole node has a price for an hour.
func divided(hour float64, n *cluster.Node, ratio review.Price) review.Price {
	whole := ratio.Of(n.Allocatable) / review.HoursPerMonth
	if whole <= 0 || math.IsInf(whole, 0) {
		return ratio // the size of the node is not known
	}
	return review.Price{Core: ratio.Core * hour / whole, GiB: ratio.GiB * hour / whole}
}

// Assumed returns the same assumed price for all nodes.
func Assumed() review.Prices {
	p := review.AssumedPrice()
	from := fmt.Sprintf("%.4f a core-hour and %.5f a GiB-hour on all nodes", p.Core, p.GiB)
	return review.Prices{PriceSource: review.PriceSource{Currency: "USD", From: from, Assumed: true}, Default: p}
}

// Prometheus answers queries for one time.
type Prometheus interface {
	// Values returns the numbers of a query for one time by the value of a label.
	Values(ctx context.Context, query, label string, at time.Time) (map[string]float64, error)
}

// OpenCost returns the prices of nodes according to OpenCost's metrics node_cpu_hourly_cost and node_ram_hourly_cost (of a GiB) in a
// Prometheus at an address. A node without them has the median of the others. Values that cannot be a price are ignored.
func OpenCost(ctx context.Context, from Prometheus, address string, nodes []cluster.Node, now time.Time) (review.Prices, error) {
	var byNode [2]map[string]float64
	for i, metric := range [...]string{"node_cpu_hourly_cost", "node_ram_hourly_cost"} {
		values, err := from.Values(ctx, "max by (node) ("+metric+")", "node", now)
		maps.DeleteFunc(values, func(_ string, v float64) bool { return !(v >= 0 && v <= maxPrice) })
		byNode[i] = values
		if err == nil && len(byNode[i]) == 0 {
			err = errors.New("it has no series " + metric + " with a price")
		}
		if err != nil {
			return review.Prices{}, fmt.Errorf("read prices from %s: %w", address, err)
		}
	}
	core, gib := byNode[0], byNode[1]
	out := review.Prices{
		PriceSource: review.PriceSource{Currency: "USD", From: "OpenCost at " + address},
		Default:     review.Price{Core: median(core), GiB: median(gib)}, Nodes: make(map[string]review.Price, len(nodes)),
	}
	for i := range nodes {
		p := out.Default
		if v, ok := core[nodes[i].Name]; ok {
			p.Core = v
		}
		if v, ok := gib[nodes[i].Name]; ok {
			p.GiB = v
		}
		out.Nodes[nodes[i].Name] = p
	}
	return out, nil
}

func median(values map[string]float64) float64 {
	all := slices.Sorted(maps.Values(values))
	return all[len(all)/2]
}
