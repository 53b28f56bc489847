// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/prom"
)

// The bounds of reading the past.
const (
	queryDays    = 7 // days of a query
	queryTimeout = time.Minute
)

// readPast returns the histories with the days that Prometheus has, the name of the source, and what could not be read. The days that are
// known already are kept.
func (j *job) readPast(ctx context.Context, clients *kube.Clients, s *scene, settings *capacity.Settings, allocatable bool, known map[string]*capacity.History) (map[string]*capacity.History, string, []string, error) {
	from, err := j.locate(ctx, clients)
	if err != nil {
		return nil, "", nil, err
	}
	client, err := prom.NewWithTransport(prom.Config{Address: from.Address, Timeout: queryTimeout, Length: time.Hour, Resolution: time.Hour}, from.Transport)
	if err != nil {
		return nil, "", nil, err
	}
	out := maps.Clone(known)
	today := capacity.DayOf(s.now)
	oldest := today - capacity.MostDays + 1
	var gaps []string
	for before := today; before > oldest; before -= queryDays {
		first := max(before-queryDays, oldest)
		hours, err := client.Requests(ctx, prom.RequestsQuery{
			From: first.Time(), To: before.Time().Add(-time.Second), Allocatable: allocatable, Matchers: j.config.matchers(),
		})
		if err != nil {
			err = fmt.Errorf("%s: %w", from.Name, err)
			if before == today || ctx.Err() != nil {
				return nil, "", nil, err
			}
			gaps = append(gaps, fmt.Sprintf("requests before %s: %v", before, err))
			break
		}
		if len(hours) == 0 {
			if before == today {
				return nil, "", nil, fmt.Errorf("%s has no series kube_pod_container_resource_requests of the last %d days: it must scrape kube-state-metrics, and --cluster-label must match", from.Name, queryDays)
			}
			break // nothing is stored from before
		}
		for name, days := range capacity.Collect(hours, s.world.Nodes, &settings.Rules) {
			h := out[name]
			if h == nil {
				h = new(capacity.History)
				out[name] = h
			}
			h.Fill(days, today)
		}
	}
	return out, from.Name, gaps, nil
}

// matchers returns the additional matchers of series.
func (c *Config) matchers() []string {
	name, value, ok := strings.Cut(c.ClusterLabel, "=")
	if !ok {
		return nil
	}
	return []string{name + "=" + strconv.Quote(value)}
}

// locate returns the Prometheus to read: from the flag, the environment variable, or the only one among the Services of the cluster.
func (j *job) locate(ctx context.Context, clients *kube.Clients) (*process.PrometheusEndpoint, error) {
	if given, err := j.config.Given(); given != nil || err != nil {
		return given, err
	}
	return j.config.Found(ctx, clients)
}
