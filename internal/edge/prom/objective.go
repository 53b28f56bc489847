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

	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/prom/answer"
	"podfit.dev/podfit/internal/promql"
)

// Objective returns the values of the expression that the query of an objective compares, at most two, from the series of a namespace only. A value that
// is not a number is NaN. It sends one request, for which the server has five seconds. refused is why the query cannot be executed, "" if it was.
func (c *Client) Objective(ctx context.Context, namespace, query string, now time.Time) (values []float64, refused string, err error) {
	bound, err := promql.Bind(query, c.config.NamespaceLabel, namespace)
	if err != nil {
		return nil, err.Error(), nil
	}
	const maxObjective = 1 << 20 // bytes of the answer
	a, err := c.fetch(ctx, http.MethodPost, "query", url.Values{"query": {bound}, "time": {unix(now)}, "timeout": {"5s"}, "limit": {"2"}, "lookback_delta": {promDuration(promql.Lookback)}}, maxObjective, func(s *answer.Series) error {
		text, _ := s.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			v = math.NaN()
		}
		if len(values) < 2 {
			values = append(values, v)
		}
		return nil
	})
	for _, w := range a.Warnings {
		if err == nil && w.Partial && len(values) < 2 { // of two values, none is used
			err = errors.New("the answer may be incomplete: " + w.Text)
		}
	}
	if err == nil && a.ResultType != "vector" {
		err = fmt.Errorf("the result must be a vector, got a %s", a.ResultType)
	}
	if err == nil || len(values) == 2 && errors.Is(err, answer.ErrTooLarge) { // a server without the parameter limit
		return values, "", nil
	}
	if response, ok := errors.AsType[*responseError](err); ok && response.cause.kind == "timeout" { // Prometheus answers so with the status 503
		err = &response.cause
	}
	if r, ok := errors.AsType[*refusedError](err); ok && r.kind != badResponse || errors.Is(err, answer.ErrTooLarge) {
		return nil, wording.Shortened(wording.OneLine(err.Error()), maxRefusal), nil
	}
	return nil, "", fmt.Errorf("read the objective of canaries in namespace %s: %w", namespace, failed(bound, err))
}

// maxRefusal bounds the error in an answer to the query of an objective, in bytes.
const maxRefusal = 200
