// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package price

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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
	client := &http.Client{Transport: transport}
	core, err := query(ctx, client, address, "max by (node) (node_cpu_hourly_cost)", now)
	var gib map[string]float64
	if err == nil {
		gib, err = query(ctx, client, address, "max by (node) (node_ram_hourly_cost)", now)
	}
	if err == nil && (len(core) == 0 || len(gib) == 0) {
		err = ErrNoPrices
	}
	if err != nil {
		return review.Prices{}, fmt.Errorf("read prices from %s: %w", address, err)
	}
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

// maxAnswer is the maximum size of the answer to a query in bytes.
const maxAnswer = 4 << 20

// query returns the values of an instant query by the label node. Values that cannot be a price are ignored. It uses GET, because a POST
// through the API server is a write.
func query(ctx context.Context, client *http.Client, address, text string, now time.Time) (map[string]float64, error) {
	values := url.Values{"query": {text}, "time": {strconv.FormatInt(now.Unix(), 10)}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/api/v1/query?"+values.Encode(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", text, err)
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", text, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("query %s: status %s", text, response.Status)
	}
	var answer struct {
		Data struct {
			Result []struct {
				Metric struct{ Node string }
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("query %s: the answer is not that of a Prometheus: %w", text, err)
	}
	out := map[string]float64{}
	for _, s := range answer.Data.Result {
		text, _ := s.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) && v >= 0 && v <= maxPrice {
			out[s.Metric.Node] = v
		}
	}
	return out, nil
}

func median(values map[string]float64) float64 {
	all := slices.Sorted(maps.Values(values))
	return all[len(all)/2]
}
