// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settled is the time after which the samples of a past hour no longer change, for example by remote write.
const settled = 10 * time.Minute

const clusterLabel = "cluster"

// Plan counts the series of namespaces and plans to read them between two times, extended to the start of a day in UTC and reduced
// to whole hours. Without a list of namespaces it plans to read those with usage now, so it misses a namespace whose pods run
// only at other times. A list costs no additional queries. Plan sends at most a dozen queries, one after the other, which read
// a few samples per series. The error is an *Error, or that of the context.
func (s *Survey) Plan(ctx context.Context, namespaces []string, from, to time.Time) (*Plan, error) {
	p := &Plan{From: from.UTC().Truncate(day), To: to.UTC().Truncate(time.Hour), Series: map[string]int{}}
	if !p.From.Before(p.To) {
		return nil, fmt.Errorf("the time to read must contain at least one whole hour, got %v to %v", from, to)
	}
	namespaces = slices.Compact(slices.Sorted(slices.Values(namespaces)))
	all := selector{labels: s.config.Labels, namespaces: namespaces}
	if len(strings.Join(all.namespaces, "|")) > maxNames {
		all.namespaces = nil
	}
	if err := s.count(ctx, p, all, to); err != nil {
		return nil, err
	}
	p.MaxSamples = s.maxSamples(ctx)
	if len(namespaces) == 0 {
		namespaces = slices.Sorted(maps.Keys(p.Series))
	}
	if err := s.findInterval(ctx, p, to); err != nil {
		return nil, err
	}
	if err := s.findOwners(ctx, p, all, namespaces); err != nil {
		return nil, err
	}
	for _, m := range []Measure{Kills, KilledRequest, Throttled} {
		if m == KilledRequest && slices.Contains(p.NotRecorded, Kills) {
			p.NotRecorded = append(p.NotRecorded, m)
			continue
		}
		found := false
		for metrics := m.metrics(); !found && len(metrics) > 0; metrics = metrics[1:] {
			expression := "count(" + metrics[0] + all.containers() + ")"
			if err := s.probe(ctx, expression, to, func(map[string]string, float64) { found = true }); err != nil {
				return nil, err
			}
		}
		if !found {
			p.NotRecorded = append(p.NotRecorded, m)
		}
	}
	p.layout(namespaces)
	p.notes()
	return p, nil
}

// probe sends an instant query of a plan. A plan is an estimate, so it ignores warnings.
func (s *Survey) probe(ctx context.Context, query string, at time.Time, each func(labels map[string]string, value float64)) error {
	_, err := s.instant(ctx, query, at, each)
	return err
}

// Values returns the numbers of a query for one time by the value of a label. The error is an *Error, or that of the context.
func (s *Survey) Values(ctx context.Context, query, label string, at time.Time) (map[string]float64, error) {
	out := map[string]float64{}
	return out, s.probe(ctx, query, at, func(labels map[string]string, v float64) { out[labels[label]] = v })
}

// count counts the series of each namespace. If Prometheus has no series of containers at all, another address or label is probably
// meant. If it has those of several clusters, a label must select one. Namespaces may have no series at present.
func (s *Survey) count(ctx context.Context, p *Plan, of selector, now time.Time) error {
	clusters := map[string]bool{}
	count := func(of selector) error {
		expression := "count by (namespace," + clusterLabel + ") (" + memoryMetric + of.containers() + ")"
		return s.probe(ctx, expression, now, func(labels map[string]string, n float64) {
			clusters[labels[clusterLabel]] = true
			p.Series[labels["namespace"]] += int(min(n, math.MaxInt32))
		})
	}
	err := count(of)
	if err == nil && len(p.Series) == 0 && len(of.namespaces) > 0 {
		err = count(selector{labels: of.labels})
	}
	switch {
	case err != nil:
		return err
	case len(p.Series) == 0:
		return s.failure(NoSeries, 0, "")
	case len(clusters) > 1 && len(of.labels) == 0:
		names := slices.Sorted(maps.Keys(clusters))
		return s.failure(SeveralClusters, 0, fmt.Sprintf("%q", names[:min(len(names), 10)]))
	}
	return nil
}

// maxSamples returns the maximum of samples of a query from the flags of Prometheus. Thanos and VictoriaMetrics do not have the flag.
func (s *Survey) maxSamples(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	body, err := s.get(ctx, "status/flags", url.Values{})
	if err != nil {
		return defaultMaxSamples
	}
	defer body.Close()
	var reply struct{ Data map[string]string }
	err = json.NewDecoder(io.LimitReader(body, 1<<20)).Decode(&reply)
	n, isNoNumber := strconv.Atoi(reply.Data["query.max-samples"])
	if err != nil || isNoNumber != nil || n <= 0 {
		return defaultMaxSamples
	}
	return n
}

// findInterval finds the scrape interval in the namespace with the fewest series.
func (s *Survey) findInterval(ctx context.Context, p *Plan, now time.Time) error {
	p.Interval = defaultInterval
	if len(p.Series) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(p.Series))
	smallest := slices.MinFunc(names, func(a, b string) int { return cmp.Compare(p.Series[a], p.Series[b]) })
	var err error
	p.Interval, err = s.interval(ctx, selector{namespaces: []string{smallest}, labels: s.config.Labels}, now)
	return err
}

// interval returns the scrape interval of the containers that are measured now, a default if there are none.
func (s *Survey) interval(ctx context.Context, of selector, now time.Time) (time.Duration, error) {
	const minutes = 10
	interval := defaultInterval
	expression := fmt.Sprintf("max(count_over_time(%s%s[%dm]))", memoryMetric, of.containers(), minutes)
	err := s.probe(ctx, expression, now, func(_ map[string]string, n float64) {
		if n >= 1 {
			interval = max(time.Duration(float64(minutes*time.Minute)/n).Round(time.Second), time.Second)
		}
	})
	return interval, err
}

// findOwners finds the namespaces that have pods without a stored owner at the end, in the middle or at the start. Their pods are
// read one by one, because a join would omit pods without a stored owner.
func (s *Survey) findOwners(ctx context.Context, p *Plan, all selector, namespaces []string) error {
	const rulesDelay = 5 * time.Minute // the time in which a recording rule stores the owner of a new pod
	byPod := map[string]bool{}
	expression := fmt.Sprintf("count by (namespace) (group by (namespace,pod) (%s%s offset %s) unless on (namespace,pod) last_over_time(%s%s[%s]))",
		memoryMetric, all.containers(), promDuration(rulesDelay), ownerMetric, all.matchers(`workload!=""`), promDuration(3*rulesDelay))
	for _, at := range []time.Time{p.To, p.From.Add(p.To.Sub(p.From) / 2), p.From.Add(time.Hour)} {
		err := s.probe(ctx, expression, at, func(labels map[string]string, _ float64) { byPod[labels["namespace"]] = true })
		if failed, ok := errors.AsType[*Error](err); ok && failed.Cause.smallerHelps() { // reading pods one by one is always possible
			for _, name := range namespaces {
				byPod[name] = true
			}
			break
		}
		if err != nil {
			return err
		}
	}
	p.ByPod = slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool { return !byPod[name] })
	return nil
}
