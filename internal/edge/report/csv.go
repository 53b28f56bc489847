// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/csv"
	"io"
	"strconv"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
)

// WriteTimeline writes the requests over time as CSV: one row per change, grouped by recommender, container and
// resource, and sorted by time within each group. Requests are in cores and bytes.
func WriteTimeline(w io.Writer, c *replay.Comparison) error {
	out := csv.NewWriter(w)
	out.Write([]string{"time", "namespace", "kind", "name", "container", "recommender", "resource", "request"})
	for i, recommender := range c.Recommenders {
		for k := range c.Workloads {
			workload := &c.Workloads[k]
			for container, name := range workload.Containers {
				for _, res := range cluster.All {
					for _, change := range replay.ChangesOf(workload.Changes[i], container, res) {
						out.Write([]string{
							strconv.FormatInt(change.At, 10), workload.Key.Namespace, workload.Key.Kind, workload.Key.Name,
							name, recommender.Name, res.String(), strconv.FormatFloat(res.InUnits(change.Request), 'f', -1, 64),
						})
					}
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// WriteCSV writes one row per workload, recommender and resource. The rows with empty names are over all workloads.
func WriteCSV(w io.Writer, c *replay.Comparison) error {
	out := csv.NewWriter(w)
	header := []string{"namespace", "kind", "name", "recommender", "resource", "container_days"}
	for _, f := range figures {
		header = append(header, f.name)
	}
	out.Write(append(header, "footprint", "money_per_month", "mean_pods"))
	for k := range c.Workloads {
		writeOutcomes(out, c, c.Workloads[k].Key, c.Workloads[k].Outcomes)
	}
	writeOutcomes(out, c, cluster.Workload{}, c.Total)
	out.Flush()
	return out.Error()
}

func writeOutcomes(out *csv.Writer, c *replay.Comparison, key cluster.Workload, outcomes []replay.Outcome) {
	for i, outcome := range outcomes {
		for _, res := range cluster.All {
			s := summary(outcome, res)
			if s.Days == 0 {
				continue
			}
			row := []string{key.Namespace, key.Kind, key.Name, c.Recommenders[i].Name, res.String(), strconv.Itoa(s.Days)}
			for _, f := range figures {
				cell := ""
				if f.only == 0 || f.only == res {
					cell = strconv.FormatFloat(f.value(s), 'g', 6, 64)
				}
				row = append(row, cell)
			}
			row = append(row,
				strconv.FormatFloat(s.Footprint, 'f', -1, 64),
				strconv.FormatFloat(money(c.Prices, res, s), 'f', 4, 64),
				strconv.FormatFloat(s.Pods, 'g', 6, 64))
			out.Write(row)
		}
	}
}
