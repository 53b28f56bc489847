// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"podfit.dev/podfit/internal/edge/prom/answer"
	"podfit.dev/podfit/internal/promql"
)

// Objective returns the values of the expression that the query of an objective compares, at most two, from the series of a namespace only. A value that
// is not a number is NaN. It sends one request, for which the server has ten seconds.
func (c *Client) Objective(ctx context.Context, namespace, query string, now time.Time) ([]float64, error) {
	bound, err := promql.Bind(query, c.config.NamespaceLabel, namespace)
	if err != nil {
		return nil, fmt.Errorf("annotation podfit.dev/canary-query in namespace %s: %w", namespace, err)
	}
	method := http.MethodPost
	if c.config.GetOnly {
		method = http.MethodGet
	}
	const maxObjective = 1 << 20 // bytes of the answer
	var out []float64
	a, err := c.fetch(ctx, method, "query", url.Values{"query": {bound}, "time": {unix(now)}, "timeout": {"10s"}, "limit": {"2"}}, maxObjective, func(s *answer.Series) error {
		text, _ := s.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			v = math.NaN()
		}
		if len(out) < 2 {
			out = append(out, v)
		}
		return nil
	})
	for _, w := range a.Warnings {
		if err == nil && w.Partial && len(out) < 2 { // of two values, none is used
			err = errors.New("the answer may be incomplete: " + w.Text)
		}
	}
	if err == nil && a.ResultType != "vector" {
		err = fmt.Errorf("the result must be a vector, got a %s", a.ResultType)
	}
	if err != nil {
		return nil, fmt.Errorf("annotation podfit.dev/canary-query in namespace %s: %w", namespace, failed(bound, err))
	}
	return out, nil
}
