// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/prom"
	report "podfit.dev/podfit/internal/edge/report/capacity"
)

// The bounds of reading the past.
const (
	queryDays    = 7 // days of a query
	queryTimeout = time.Minute
)

// readPast adds the days that Prometheus has to the histories, and the name of the source and what could not be read to the report. The
// days that are known already are kept.
func (c *Config) readPast(ctx context.Context, clients *kube.Clients, s *scene, histories map[string]*capacity.History, r *report.Report) error {
	from, err := c.Given()
	if from == nil && err == nil {
		from, err = c.Found(ctx, clients) // the only one among the Services of the cluster
	}
	if err != nil {
		return err
	}
	r.Source = from.Name
	client, err := prom.NewWithTransport(prom.Config{Address: from.Address, GetOnly: from.Proxied, Timeout: queryTimeout, Length: time.Hour, Resolution: time.Hour}, from.Transport)
	if err != nil {
		return err
	}
	today := capacity.DayOf(s.now)
	oldest := today - capacity.MostDays + 1
	for before := today; before > oldest; before -= queryDays {
		first := max(before-queryDays, oldest)
		hours, err := client.Requests(ctx, prom.RequestsQuery{
			From: first.Time(), To: before.Time().Add(-time.Second), Allocatable: s.world.Allocatable, Matchers: c.Matchers(),
		})
		switch {
		case err != nil && (before == today || ctx.Err() != nil):
			return fmt.Errorf("%s: %w", from.Name, err)
		case err != nil:
			r.Missing = append(r.Missing, fmt.Sprintf("requests before %s: %s: %v", before, from.Name, err))
			return nil
		case len(hours) == 0 && before == today:
			return fmt.Errorf("%s has no series kube_pod_container_resource_requests of the last %d days: it must scrape kube-state-metrics, and --cluster-label must match", from.Name, queryDays)
		case len(hours) == 0: // nothing is stored from before
			return nil
		}
		for name, days := range capacity.Collect(hours, s.world.Nodes, &s.world.Rules) {
			histories[name] = cmp.Or(histories[name], new(capacity.History))
			histories[name].Fill(days, today)
		}
	}
	return nil
}
