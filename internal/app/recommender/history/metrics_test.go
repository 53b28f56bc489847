// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// The number of namespaces does not change, so each scrape must see that number, even if namespaces change their state meanwhile.
func TestMetrics_scrapeWhilePublishing_seesOneCompleteSet(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	const namespaces = 10
	m.publishBackfill(map[BackfillState]int{BackfillPending: namespaces})
	stop := make(chan struct{})
	var publisher sync.WaitGroup
	publisher.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				m.publishBackfill(map[BackfillState]int{BackfillState(i % 3): namespaces})
			}
		}
	})
	defer publisher.Wait()
	defer close(stop)
	for scrape := range 200 {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, f := range families {
			for _, s := range f.GetMetric() {
				sum += s.GetGauge().GetValue() // the backfill has the only gauge
			}
		}
		if sum != namespaces {
			t.Fatalf("scrape %d: the values sum up to %v, want %d", scrape, sum, namespaces)
		}
	}
}
