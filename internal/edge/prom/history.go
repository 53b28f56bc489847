// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
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

// queryRange is the maximum time range of one query.
const queryRange = 24 * time.Hour

// History is HistorySince with the configured length.
func (c *Client) History(ctx context.Context, namespace string, now time.Time) iter.Seq2[usage.Sample, error] {
	return c.HistorySince(ctx, namespace, now.Add(-c.config.Length), now)
}

// Length returns the configured length of the history.
func (c *Client) Length() time.Duration { return c.config.Length }

// HistorySince yields every stored sample of the containers of a namespace between two times, sorted by time. CPU and memory are
// separate samples. It sends a query when the caller needs its samples. It ends with the error of the first query that fails, after
// the samples of the queries before.
func (c *Client) HistorySince(ctx context.Context, namespace string, from, now time.Time) iter.Seq2[usage.Sample, error] {
	return func(yield func(usage.Sample, error) bool) {
		for batch, err := range c.batches(ctx, namespace, from, now) {
			if err != nil {
				yield(usage.Sample{}, err)
				return
			}
			for i := range batch {
				if !yield(batch[i], nil) {
					return
				}
			}
		}
	}
}

// batches yields the samples of each time range of at most queryRange, sorted by time. It ends with the first error.
func (c *Client) batches(ctx context.Context, namespace string, from, now time.Time) iter.Seq2[[]usage.Sample, error] {
	step := c.config.Resolution
	stride := max(queryRange.Truncate(step), step)
	subsecond := now.Sub(now.Truncate(time.Second)) // queries start and end at whole seconds
	now = now.Add(-subsecond)
	from = from.Add(-subsecond)
	return func(yield func([]usage.Sample, error) bool) {
		for start := from; !start.After(now); start = start.Add(stride) {
			end := start.Add(stride - step)
			if end.After(now) {
				end = now
			}
			batch, err := c.batch(ctx, namespace, promv1.Range{Start: start, End: end, Step: step})
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// batch returns the samples of a namespace in a time range, sorted by time.
func (c *Client) batch(ctx context.Context, namespace string, r promv1.Range) ([]usage.Sample, error) {
	var batch []usage.Sample
	for _, q := range []struct {
		resource cluster.Resource
		query    string
	}{
		{cluster.CPU, c.usageQuery(fmt.Sprintf("rate(%s[%s])", c.selector(c.config.CPUMetric, namespace), promDuration(r.Step)))},
		{cluster.Memory, c.usageQuery(c.selector(c.config.MemoryMetric, namespace))},
	} {
		matrix, err := c.matrix(ctx, q.query, r)
		if err != nil {
			return nil, fmt.Errorf("read the %s history of namespace %s from %s: %w", q.resource, namespace, r.Start.UTC().Format(time.RFC3339), err)
		}
		batch = c.samples(batch, q.resource, namespace, matrix)
	}
	slices.SortStableFunc(batch, func(a, b usage.Sample) int {
		return cmp.Or(a.At.Compare(b.At), a.Pod.Compare(b.Pod), strings.Compare(a.Container, b.Container), cmp.Compare(a.Has, b.Has))
	})
	return batch, nil
}

// usageQuery merges all series of a container into one, such as those of two scrapers, or from before and after a restart.
func (c *Client) usageQuery(expression string) string {
	labels := []string{c.config.PodLabel, c.config.ContainerLabel}
	if c.config.NamespaceLabel != "" {
		labels = append(labels, c.config.NamespaceLabel)
	}
	return "max by (" + strings.Join(labels, ", ") + ") (" + expression + ")"
}

// selector returns a selector for the series of a metric about the containers of a namespace. It matches the same series as
// upstream.
func (c *Client) selector(metric, namespace string) string {
	var matchers []string
	if c.config.Job != "" {
		matchers = append(matchers, "job="+strconv.Quote(c.config.Job))
	}
	matchers = append(matchers, c.config.PodLabel+`=~".+"`, c.config.ContainerLabel+`!="POD"`, c.config.ContainerLabel+`!=""`)
	if c.config.NamespaceLabel != "" {
		matchers = append(matchers, c.config.NamespaceLabel+"="+strconv.Quote(namespace))
	}
	return metric + "{" + strings.Join(matchers, ", ") + "}"
}

// matrix runs a range query.
func (c *Client) matrix(ctx context.Context, query string, r promv1.Range) (model.Matrix, error) {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	value, _, err := c.api.QueryRange(ctx, query, r)
	if err != nil {
		return nil, failed(query, err)
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("query %s: the result must be a matrix, got a %s", query, value.Type())
	}
	return matrix, nil
}

// IsTimeout reports whether a query timed out. The next query would probably time out, too.
func IsTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// limited returns a context with the timeout of one query.
func (c *Client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.config.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.config.Timeout)
}

// samples appends the values of a matrix. It does not validate them; usage.Store rejects invalid values.
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
				s.CPU = math.Trunc(float64(p.Value)*1000) / 1000 // whole millicores, like upstream and the Metrics API
			} else {
				s.Memory = float64(p.Value)
			}
			to = append(to, s)
		}
	}
	return to
}

// promDuration formats a duration for PromQL.
func promDuration(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}
