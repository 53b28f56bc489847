// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/packing"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/edge/kube"
)

// defaultPods is the kubelet's default of pods per node.
const defaultPods = 110

// shapes returns the values of --nodes.
func (c *Config) shapes() ([]packing.Shape, error) {
	var out []packing.Shape
	for _, text := range c.Nodes {
		s, err := shapeOf(text)
		if err != nil {
			return nil, fmt.Errorf("--nodes %q: %w; an example is memory=64Gi,cpu=16", text, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// shapeOf reads a shape such as memory=64Gi,cpu=16.
func shapeOf(text string) (packing.Shape, error) {
	s := packing.Shape{Pods: defaultPods, Copies: 1}
	for part := range strings.SplitSeq(text, ",") {
		name, amount, _ := strings.Cut(part, "=")
		q, err := kube.ParseQuantity(amount)
		if err != nil {
			return s, fmt.Errorf("%s is not a name and an amount: %w", part, err)
		}
		v := q.AsApproximateFloat64()
		isCount := v >= 1 && v <= 1000 && v == math.Trunc(v)
		switch {
		case name == "memory" && v >= 1<<20 && v <= 1<<50:
			s.Memory = v
		case name == "cpu" && v >= 0.1 && v <= 1e5:
			s.CPU = v
		case name == "pods" && isCount:
			s.Pods = int(v)
		case name == "replicas" && isCount:
			s.Copies = int(v)
		default:
			return s, fmt.Errorf("%s is not memory, cpu, pods or replicas with an amount that a node can have", part)
		}
	}
	if s.Memory == 0 || s.CPU == 0 {
		return s, errors.New("memory and cpu are required")
	}
	return s, nil
}

// pack measures the comparison on each shape of --nodes.
func (c *Config) pack(comparison *replay.Comparison) []packing.Report {
	shapes, _ := c.shapes() // validated
	if len(shapes) == 0 {
		return nil
	}
	pods := packing.Of(comparison)
	return cluster.Each(shapes, func(s *packing.Shape) packing.Report { return pods.Measure(*s) })
}
