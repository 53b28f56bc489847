// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/internal/core/packing"
)

// mostReplicas bounds the time that packing takes.
const mostReplicas = 100

// shape returns the node of --nodes, the zero value if it is not set.
func (c *Config) shape() (packing.Shape, error) {
	switch {
	case c.Nodes == "" && c.given["nodes"]:
		return packing.Shape{}, errors.New("--nodes must not be empty")
	case c.Nodes == "":
		return packing.Shape{}, nil
	case c.Output == "csv":
		return packing.Shape{}, errors.New("--output csv has no figures of --nodes; use table, wide, json or html")
	}
	s := packing.Shape{Pods: packing.DefaultPods, Copies: 1}
	given := map[string]bool{}
	for part := range strings.SplitSeq(c.Nodes, ",") {
		name, value, _ := strings.Cut(part, "=")
		amount, err := resource.ParseQuantity(value)
		if n := amount.AsApproximateFloat64(); err != nil || !(n > 0 && n <= 1e15) || given[name] || !set(&s, name, n) {
			return s, fmt.Errorf("--nodes must be memory=QUANTITY,cpu=QUANTITY[,pods=N][,replicas=N], such as memory=64Gi,cpu=16, with at most %d replicas, got %q", mostReplicas, part)
		}
		given[name] = true
	}
	if !given["memory"] || !given["cpu"] {
		return s, fmt.Errorf("--nodes requires memory and cpu, such as memory=64Gi,cpu=16, got %q", c.Nodes)
	}
	return s, nil
}

// set sets a part of a shape; false if there is no such part, or it must be a whole number and is not.
func set(s *packing.Shape, name string, n float64) bool {
	switch name {
	case "memory":
		s.Memory = n
	case "cpu":
		s.CPU = n
	case "pods":
		s.Pods = int(n)
		return n == float64(s.Pods)
	case "replicas":
		s.Copies = int(n)
		return n == float64(s.Copies) && n <= mostReplicas
	default:
		return false
	}
	return true
}
