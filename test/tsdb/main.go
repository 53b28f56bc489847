// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command tsdb writes the usage of many workloads as blocks of a Prometheus, much faster than by remote write. Each workload has three pods, and
// every second one has two containers. With --series it writes the series of a file instead.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

func main() {
	c := config{}
	flag.StringVar(&c.dir, "dir", "", "Folder of the blocks.")
	flag.IntVar(&c.workloads, "workloads", 5000, "Number of workloads.")
	flag.IntVar(&c.days, "days", 14, "Number of days before --end.")
	flag.DurationVar(&c.interval, "interval", 5*time.Minute, "Time between two samples.")
	end := flag.Int64("end", time.Now().Unix(), "Time of the last sample, in seconds. It may be in the future.")
	file := flag.String("series", "", "Path of a JSON file with the series to write, a list of objects with labels, start (Unix seconds), step (seconds) and values. Excludes --workloads, --days, --interval and --end.")
	flag.Parse()
	if *file != "" {
		if err := writeFile(c.dir, *file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	c.end = time.Unix(*end, 0).Truncate(c.interval)
	if err := c.write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type config struct {
	dir             string
	workloads, days int
	interval        time.Duration
	end             time.Time
}

// A series is one series and how its value changes.
type series struct {
	labels labels.Labels
	ref    storage.SeriesRef
	rate   float64 // cores of a counter of CPU seconds
	level  float64 // bytes of a gauge; 1 of a recording rule
	swing  float64 // bytes by which the gauge changes in a day
}

// all returns the series of all workloads.
func (c *config) all() []series {
	var out []series
	for i := range c.workloads {
		namespace, name := fmt.Sprintf("team-%d", i%50), fmt.Sprintf("w%d", i)
		for k := range 3 {
			pod := fmt.Sprintf("%s-7d4b9c6f5d-x2k9%c", name, "bcd"[k])
			for _, container := range []string{"app", "proxy"}[:1+i%2] {
				of := func(metric string) labels.Labels {
					return labels.FromStrings("__name__", metric, "namespace", namespace, "pod", pod, "container", container, "node", fmt.Sprintf("node-%d", (3*i+k)%1000))
				}
				out = append(out,
					series{labels: of("container_cpu_usage_seconds_total"), rate: 0.05 + float64(i%40)/100},
					series{labels: of("container_memory_working_set_bytes"), level: float64(100+i%900) * (1 << 20), swing: 50 << 20})
			}
			out = append(out, series{level: 1, labels: labels.FromStrings("__name__", "namespace_workload_pod:kube_pod_owner:relabel", "namespace", namespace, "pod", pod, "workload", name, "workload_type", "deployment")})
		}
	}
	return out
}

// value returns the value at a time.
func (s *series) value(at time.Time) float64 {
	if s.rate > 0 {
		return s.rate * float64(at.Unix())
	}
	if s.swing > 0 {
		return math.Round(s.level + s.swing*math.Sin(float64(at.Unix()%86400)/86400*2*math.Pi))
	}
	return s.level
}

// write writes one block for each day.
func (c *config) write() error {
	all := c.all()
	start := c.end.AddDate(0, 0, -c.days)
	samples := 0
	for from := start; from.Before(c.end); {
		to := from.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		if to.After(c.end) {
			to = c.end
		}
		n, err := c.block(all, from, to)
		if err != nil {
			return fmt.Errorf("write the block of %s: %w", from, err)
		}
		samples += n
		from = to
	}
	fmt.Printf("%d series, %d samples\n", len(all), samples)
	return nil
}

// block writes the samples between two times.
func (c *config) block(all []series, from, to time.Time) (samples int, err error) {
	ctx := context.Background()
	w, err := tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), c.dir, int64(24*time.Hour/time.Millisecond))
	if err != nil {
		return 0, err
	}
	for i := range all {
		all[i].ref = 0
	}
	for at := from; at.Before(to); at = at.Add(c.interval) {
		a := w.Appender(ctx)
		for i := range all {
			s := &all[i]
			if s.ref, err = a.Append(s.ref, s.labels, at.UnixMilli(), s.value(at)); err != nil {
				return 0, err
			}
		}
		if err := a.Commit(); err != nil {
			return 0, err
		}
		samples += len(all)
	}
	if _, err := w.Flush(ctx); err != nil {
		return 0, err
	}
	return samples, w.Close()
}
