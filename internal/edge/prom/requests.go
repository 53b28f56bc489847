// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/prom/answer"
)

// requestsQuery returns the query for the requests of pods that have not finished, by node. Several instances of kube-state-metrics count
// once. matchers are additional matchers, such as cluster="prod".
func requestsQuery(res cluster.Resource, matchers []string) string {
	all := func(more string) string { return strings.Join(append([]string{more}, matchers...), ", ") }
	return fmt.Sprintf(`sum by (node) (max by (namespace, pod, container, node) (kube_pod_container_resource_requests{%s}) * on (namespace, pod) group_left () max by (namespace, pod) (kube_pod_status_phase{%s} == 1))`,
		all(`resource="`+res.String()+`"`), all(`phase=~"Pending|Running"`))
}

// capacityQuery returns the query for the capacity of nodes, or for the allocatable amounts.
func capacityQuery(res cluster.Resource, allocatable bool, matchers []string) string {
	metric := "kube_node_status_capacity"
	if allocatable {
		metric = "kube_node_status_allocatable"
	}
	return fmt.Sprintf(`max by (node) (%s{%s})`, metric, strings.Join(append([]string{`resource="` + res.String() + `"`}, matchers...), ", "))
}

// A RequestsQuery selects the history of requests.
type RequestsQuery struct {
	From, To    time.Time
	Allocatable bool     // capacity is the allocatable amount
	Matchers    []string // additional matchers of series, such as cluster="prod"
}

// Requests returns the requests on each node and its capacity, one value per hour, according to kube-state-metrics. It sends four queries.
// Without data the result is empty.
func (c *Client) Requests(ctx context.Context, q RequestsQuery) ([]capacity.NodeHour, error) {
	const maxValue = 1e15          // the largest value that is believed: a petabyte, or as many cores
	const requestsStep = time.Hour // the time between two values of the requests on a node
	type key struct {
		at   float64
		node string
	}
	found := map[key]*capacity.NodeHour{}
	add := func(query string, set func(h *capacity.NodeHour, v float64)) error {
		err := c.ranged(ctx, query, span{Start: q.From, End: q.To, Step: requestsStep}, maxAnswer, func(series *answer.Series) error {
			for _, p := range series.Values {
				if math.IsNaN(p.Value) || p.Value < 0 || p.Value > maxValue {
					continue
				}
				k := key{p.At, series.Metric["node"]}
				if found[k] == nil {
					found[k] = &capacity.NodeHour{At: p.Time(), Node: k.node}
				}
				set(found[k], p.Value)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read the requests of the pods from %s: %w", q.From.UTC().Format(time.RFC3339), err)
		}
		return nil
	}
	for _, res := range cluster.All {
		unit := cluster.Pick(res, 1000.0, 1)
		err := add(requestsQuery(res, q.Matchers), func(h *capacity.NodeHour, v float64) { h.Requested = h.Requested.Set(res, int64(math.Round(v*unit))) })
		if err == nil {
			err = add(capacityQuery(res, q.Allocatable, q.Matchers), func(h *capacity.NodeHour, v float64) { h.Capacity = h.Capacity.Set(res, int64(math.Round(v*unit))) })
		}
		if err != nil {
			return nil, err
		}
	}
	out := make([]capacity.NodeHour, 0, len(found))
	for _, h := range found {
		out = append(out, *h)
	}
	return out, nil
}
