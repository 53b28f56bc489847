// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/packing"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/wording"
)

// mostOf has the largest value of each part of --nodes. That of the replicas bounds the time that packing takes.
var mostOf = map[string]float64{"memory": 1e15, "cpu": 1e15, "pods": 1e15, "replicas": 100, "copies": 100}

// shapes returns the nodes of --nodes.
func (c *Config) shapes() (out []packing.Shape, err error) {
	if len(c.Nodes) > 0 && c.Output == "csv" {
		return nil, errors.New("--output csv does not contain the results of --nodes; use table, wide, json or html")
	}
	for _, nodes := range c.Nodes {
		s, err := shapeOf(nodes)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func shapeOf(nodes string) (packing.Shape, error) {
	given := map[string]float64{}
	for part := range strings.SplitSeq(nodes, ",") {
		name, value, _ := strings.Cut(part, "=")
		amount, err := resource.ParseQuantity(value)
		n := amount.AsApproximateFloat64()
		isCount := name == "pods" || name == "replicas" || name == "copies"
		if err != nil || !(n > 0 && n <= mostOf[name]) || given[name] > 0 || isCount && n != math.Trunc(n) {
			return packing.Shape{}, fmt.Errorf("--nodes must be memory=QUANTITY,cpu=QUANTITY[,pods=N][,replicas=N][,copies=N], such as memory=64Gi,cpu=16, with at most %g replicas or copies, got %q", mostOf["replicas"], part)
		}
		given[name] = n
	}
	if given["memory"] == 0 || given["cpu"] == 0 {
		return packing.Shape{}, fmt.Errorf("--nodes requires memory and cpu, such as memory=64Gi,cpu=16, got %q", nodes)
	}
	return packing.Shape{
		Memory: given["memory"], CPU: given["cpu"], Pods: int(cmp.Or(given["pods"], packing.DefaultPods)), Copies: int(cmp.Or(given["replicas"], 1)), OnNode: int(cmp.Or(given["copies"], 1)),
	}, nil
}

// pack packs the pods of a comparison on nodes of each shape.
func (c *Config) pack(ctx context.Context, comparison *replay.Comparison) (out []packing.Report, err error) {
	shapes, err := c.shapes()
	if err != nil || len(shapes) == 0 {
		return nil, err
	}
	trace := packing.Of(comparison)
	for _, shape := range shapes {
		shuffle := rand.New(rand.NewPCG(1, 1)).Shuffle // the same halves for each shape and in each run
		out = append(out, trace.Measure(shape, shuffle, func() bool { return ctx.Err() != nil }))
	}
	return out, ctx.Err()
}

// sizedFor returns a profile for nodes of each shape: one for each amount of memory and number of copies, which are in its name if there are several shapes. A profile that
// does not size pods for nodes stays as it is.
func sizedFor(p recommend.Profile, shapes []packing.Shape) (out []recommend.Profile) {
	if !p.Packs() {
		return []recommend.Profile{p}
	}
	for _, s := range shapes {
		sized := p.For(criticality.Declared{}, s.Sizes())
		if len(shapes) > 1 {
			sized.Name += fmt.Sprintf(" (%s)", wording.Measured(cluster.Memory, s.Memory))
			if s.OnNode > 1 {
				sized.Name += fmt.Sprintf(" × %d", s.OnNode)
			}
		}
		if !slices.ContainsFunc(out, func(o recommend.Profile) bool { return o.PackedFor() == sized.PackedFor() }) {
			out = append(out, sized)
		}
	}
	return out
}
