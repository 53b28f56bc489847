// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// slice is how much of the history one query asks for.
const slice = 24 * time.Hour

// History is HistorySince for as much as the configuration says.
func (c *Client) History(ctx context.Context, namespace string, now time.Time, each func(usage.Sample)) error {
	return c.HistorySince(ctx, namespace, now.Add(-c.config.Length), now, each)
}

// Length returns how far history goes back.
func (c *Client) Length() time.Duration { return c.config.Length }

// HistorySince calls each for every stored sample of the containers of a namespace from one time until another, in the order of
// time. CPU and memory of a container come as samples of their own. It stops at the first query that fails; what was read until
// then was handed on.
func (c *Client) HistorySince(ctx context.Context, namespace string, from, now time.Time, each func(usage.Sample)) error {
	step := c.config.Resolution
	lead := now.Sub(now.Truncate(time.Second))
	now = now.Add(-lead)
	for from := from.Add(-lead); !from.After(now); from = from.Add(max(slice.Truncate(step), step)) {
		to := from.Add(max(slice.Truncate(step), step) - step)
		if to.After(now) {
			to = now
		}
		var batch []usage.Sample
		for _, q := range []struct {
			resource cluster.Resource
			query    string
		}{
			{cluster.CPU, c.usageQuery(fmt.Sprintf("rate(%s[%s])", c.selector(c.config.CPUMetric, namespace), promDuration(step)))},
			{cluster.Memory, c.usageQuery(c.selector(c.config.MemoryMetric, namespace))},
		} {
			matrix, err := c.queryRange(ctx, q.query, promv1.Range{Start: from, End: to, Step: step})
			if err != nil {
				return fmt.Errorf("read the %s history of namespace %s from %s: %w", q.resource, namespace, from.UTC().Format(time.RFC3339), err)
			}
			batch = c.samples(batch, q.resource, namespace, matrix)
		}
		slices.SortStableFunc(batch, func(a, b usage.Sample) int {
			return cmp.Or(a.At.Compare(b.At), a.Pod.Compare(b.Pod), strings.Compare(a.Container, b.Container), cmp.Compare(a.Has, b.Has))
		})
		for i := range batch {
			each(batch[i])
		}
	}
	return nil
}

// usageQuery makes one series of those that say the same of one container, such as those of two scrapers or of a
// container before and after a restart.
func (c *Client) usageQuery(expression string) string {
	by := []string{c.config.PodLabel, c.config.ContainerLabel}
	if c.config.NamespaceLabel != "" {
		by = append(by, c.config.NamespaceLabel)
	}
	return "max by (" + strings.Join(by, ", ") + ") (" + expression + ")"
}

// selector selects the series of a metric that are about containers of a namespace, as upstream does.
func (c *Client) selector(metric, namespace string) string {
	var m []string
	if c.config.Job != "" {
		m = append(m, "job="+strconv.Quote(c.config.Job))
	}
	m = append(m, c.config.PodLabel+`=~".+"`, c.config.ContainerLabel+`!="POD"`, c.config.ContainerLabel+`!=""`)
	if c.config.NamespaceLabel != "" {
		m = append(m, c.config.NamespaceLabel+"="+strconv.Quote(namespace))
	}
	return metric + "{" + strings.Join(m, ", ") + "}"
}

func (c *Client) queryRange(ctx context.Context, query string, r promv1.Range) (model.Matrix, error) {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	value, _, err := c.api.QueryRange(ctx, query, r)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query, err)
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("query %s: the answer is a %s, not a matrix", query, value.Type())
	}
	return matrix, nil
}

// IsTimeout reports whether a query failed because it took too long: the next one probably would, too.
func IsTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

func (c *Client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.config.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.config.Timeout)
}

// samples adds the values of a matrix. What is not a number of cores or bytes is for the book to refuse.
func (c *Client) samples(to []usage.Sample, res cluster.Resource, namespace string, matrix model.Matrix) []usage.Sample {
	for _, series := range matrix {
		pod := cluster.Key{Namespace: namespace, Name: string(series.Metric[model.LabelName(c.config.PodLabel)])}
		container := string(series.Metric[model.LabelName(c.config.ContainerLabel)])
		if pod.Name == "" || container == "" {
			continue
		}
		for _, p := range series.Values {
			s := usage.Sample{Pod: pod, Container: container, At: p.Timestamp.Time(), Has: cluster.Of(res)}
			if res == cluster.CPU {
				s.CPU = math.Trunc(float64(p.Value)*1000) / 1000 // whole millicores, as upstream and the Metrics API count
			} else {
				s.Memory = float64(p.Value)
			}
			to = append(to, s)
		}
	}
	return to
}

// promDuration writes a duration as PromQL reads it.
func promDuration(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}
