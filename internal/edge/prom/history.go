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

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/prom/answer"
)

const queryRange = 24 * time.Hour

// Length returns the configured length of the history.
func (c *Client) Length() time.Duration { return c.config.Length }

// HistorySince yields every stored sample of the containers of a namespace between two times, sorted by time. CPU and memory are
// separate samples. It sends a query when the caller needs its samples. It ends with the error of the first query that fails, after
// the samples of the queries before. A query reads at most queryRange: longer ones are no faster. If one is too
// large, for podfit or for Prometheus, queries read half of the time from then on, instead of the same query again. If the server was overloaded, they
// get longer again.
func (c *Client) HistorySince(ctx context.Context, namespace string, from, now time.Time) iter.Seq2[usage.Sample, error] {
	return c.since(from, now, func(r span) ([]usage.Sample, error) { return c.batch(ctx, namespace, r) })
}

// PeakMetric is the highest memory of a container in bytes, which the kernel counts (memory.peak).
const PeakMetric = "container_memory_max_usage_bytes"

// PeaksSince yields the highest memory of each container of the pods of CronJobs in a namespace between two times, as HistorySince. Such a pod may have
// ended before the next sample of usage. Where the metric does not exist, there are none.
func (c *Client) PeaksSince(ctx context.Context, namespace string, from, now time.Time) iter.Seq2[usage.Sample, error] {
	const cronJobPods = ".+-[0-9]{8,11}-[a-z0-9]{5}" // matches the names of the pods of CronJobs
	return c.since(from, now, func(r span) (batch []usage.Sample, err error) {
		query := c.usageQuery(fmt.Sprintf("max_over_time(%s[%s])", c.selector(PeakMetric, namespace, cronJobPods), promDuration(r.Step)))
		err = c.ranged(ctx, query, r, maxHistory, func(s *answer.Series) error {
			batch = c.samples(batch, cluster.Memory, namespace, s)
			return nil
		})
		for i := range batch {
			batch[i].Peak = true
		}
		if err != nil {
			err = fmt.Errorf("read the peak memory of CronJobs of namespace %s from %s: %w", namespace, r.Start.UTC().Format(time.RFC3339), err)
		}
		return batch, err
	})
}

// since yields the samples of the batches between two times.
func (c *Client) since(from, now time.Time, read func(span) ([]usage.Sample, error)) iter.Seq2[usage.Sample, error] {
	step := c.config.Resolution
	most := max(queryRange.Truncate(step), step)
	subsecond := now.Sub(now.Truncate(time.Second)) // queries start and end at whole seconds
	now = now.Add(-subsecond)
	from = from.Add(-subsecond)
	return func(yield func(usage.Sample, error) bool) {
		stride := most
		overloaded := false // and not the query is too large, so that longer ones may succeed again
		for start := from; !start.After(now); {
			end := cluster.Earliest(start.Add(stride-step), now)
			batch, err := read(span{Start: start, End: end, Step: step})
			if half := (stride / 2).Truncate(step); half > 0 && IsTooLarge(err) {
				stride, overloaded = half, isOverloaded(err)
				continue
			}
			if err != nil {
				yield(usage.Sample{}, err)
				return
			}
			for i := range batch {
				if !yield(batch[i], nil) {
					return
				}
			}
			start = start.Add(stride)
			if overloaded {
				stride = min(2*stride, most)
			}
		}
	}
}

// batch returns the samples of a namespace in a time range, sorted by time.
func (c *Client) batch(ctx context.Context, namespace string, r span) ([]usage.Sample, error) {
	var batch []usage.Sample
	for _, q := range []struct {
		resource cluster.Resource
		query    string
	}{
		{cluster.CPU, c.usageQuery(fmt.Sprintf("rate(%s[%s])", c.selector(c.config.CPUMetric, namespace, ".+"), promDuration(r.Step)))},
		{cluster.Memory, c.usageQuery(c.selector(c.config.MemoryMetric, namespace, ".+"))},
	} {
		err := c.ranged(ctx, q.query, r, maxHistory, func(s *answer.Series) error {
			batch = c.samples(batch, q.resource, namespace, s)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read the %s history of namespace %s from %s: %w", q.resource, namespace, r.Start.UTC().Format(time.RFC3339), err)
		}
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

// selector returns a selector for the series of a metric about the containers of a namespace, in pods whose names match. With any name, it matches
// the same series as upstream.
func (c *Client) selector(metric, namespace, pods string) string {
	var matchers []string
	if c.config.Job != "" {
		matchers = append(matchers, "job="+strconv.Quote(c.config.Job))
	}
	matchers = append(matchers, c.config.PodLabel+"=~"+strconv.Quote(pods), c.config.ContainerLabel+`!="POD"`, c.config.ContainerLabel+`!=""`)
	if c.config.NamespaceLabel != "" {
		matchers = append(matchers, c.config.NamespaceLabel+"="+strconv.Quote(namespace))
	}
	return metric + "{" + strings.Join(matchers, ", ") + "}"
}

// IsTimeout reports whether a query timed out. The next query would probably time out, too.
func IsTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// samples appends the values of a series. It does not validate them; usage.Store rejects invalid values.
func (c *Client) samples(to []usage.Sample, res cluster.Resource, namespace string, series *answer.Series) []usage.Sample {
	pod := cluster.Key{Namespace: namespace, Name: series.Metric[c.config.PodLabel]}
	container := series.Metric[c.config.ContainerLabel]
	if pod.Name == "" || container == "" {
		return to
	}
	to = slices.Grow(to, len(series.Values))
	for _, p := range series.Values {
		s := usage.Sample{Pod: pod, Container: container, At: p.Time(), Has: cluster.Of(res)}
		if res == cluster.CPU {
			s.CPU = math.Trunc(p.Value*1000) / 1000 // whole millicores, like upstream and the Metrics API
		} else {
			s.Memory = p.Value
		}
		to = append(to, s)
	}
	return to
}

func promDuration(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}
