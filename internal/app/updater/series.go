// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/core/cluster"
)

// seriesTTL is how long the metric series of an autoscaler are served after its deletion, so that every scraper gets their
// last values.
const seriesTTL = 15 * time.Minute

// autoscalerSeries are the metrics that have an autoscaler's name among their labels.
type autoscalerSeries struct {
	vectors []*prometheus.MetricVec
	seen    map[cluster.Key]time.Time // when each autoscaler existed last
}

// retain deletes the series of autoscalers that were deleted seriesTTL ago.
func (s *autoscalerSeries) retain(now time.Time, all []*cluster.Autoscaler) {
	if s.seen == nil {
		s.seen = make(map[cluster.Key]time.Time, len(all))
	}
	for _, a := range all {
		s.seen[a.Key] = now
	}
	for key, last := range s.seen {
		if now.Sub(last) < seriesTTL {
			continue
		}
		delete(s.seen, key)
		for _, v := range s.vectors {
			v.DeletePartialMatch(prometheus.Labels{"vpa_name": key.Name, "vpa_namespace": key.Namespace})
		}
	}
}
