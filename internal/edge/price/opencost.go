// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package price

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
)

// ErrNoPrices is returned if a Prometheus has no metrics of OpenCost.
var ErrNoPrices = errors.New("it has no series node_cpu_hourly_cost and node_ram_hourly_cost")

// openCostTimeout is the timeout of the two queries.
const openCostTimeout = 30 * time.Second

// OpenCost returns the prices of nodes according to OpenCost's metrics node_cpu_hourly_cost and node_ram_hourly_cost (of a GiB) in a
// Prometheus. A node without them has the median of the others.
func OpenCost(ctx context.Context, address string, transport http.RoundTripper, nodes []cluster.Node, now time.Time) (review.Prices, error) {
	ctx, cancel := context.WithTimeout(ctx, openCostTimeout)
	defer cancel()
	client, err := api.NewClient(api.Config{Address: address, RoundTripper: transport})
	if err != nil {
		return review.Prices{}, fmt.Errorf("read prices from %s: %w", address, err)
	}
	q := promv1.NewAPI(client)
	core, err := query(ctx, q, "max by (node) (node_cpu_hourly_cost)", now)
	if err != nil {
		return review.Prices{}, fmt.Errorf("read prices from %s: %w", address, err)
	}
	gib, err := query(ctx, q, "max by (node) (node_ram_hourly_cost)", now)
	if err != nil {
		return review.Prices{}, fmt.Errorf("read prices from %s: %w", address, err)
	}
	if len(core) == 0 || len(gib) == 0 {
		return review.Prices{}, fmt.Errorf("read prices from %s: %w", address, ErrNoPrices)
	}
	out := review.Prices{Currency: "USD", From: "OpenCost at " + address, Default: review.Price{Core: median(core), GiB: median(gib)}}
	for i := range nodes {
		p := out.Default
		if v, ok := core[nodes[i].Name]; ok {
			p.Core = v
		}
		if v, ok := gib[nodes[i].Name]; ok {
			p.GiB = v
		}
		out.Nodes = append(out.Nodes, p)
	}
	return out, nil
}

// query returns the values of an instant query by the label node. Values that cannot be a price are ignored.
func query(ctx context.Context, q promv1.API, text string, now time.Time) (map[string]float64, error) {
	value, _, err := q.Query(ctx, text, now)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", text, err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("query %s: the result must be a vector, got a %s", text, value.Type())
	}
	out := map[string]float64{}
	for _, s := range vector {
		v := float64(s.Value)
		if !math.IsNaN(v) && v >= 0 && v <= maxPrice {
			out[string(s.Metric["node"])] = v
		}
	}
	return out, nil
}

func median(values map[string]float64) float64 {
	all := make([]float64, 0, len(values))
	for _, v := range values {
		all = append(all, v)
	}
	slices.Sort(all)
	return all[len(all)/2]
}
