// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// A given is a series of a file: its values at regular times.
type given struct {
	Labels map[string]string
	Start  int64 // of the first value, in Unix seconds
	Step   int64 // between two values, in seconds
	Values []float64
}

// writeFile writes the series of a JSON file as one block per day.
func writeFile(dir, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var all []given
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	const day = 24 * 60 * 60
	days := map[int64]bool{}
	for i := range all {
		s := &all[i]
		if s.Step <= 0 || len(s.Values) == 0 {
			return fmt.Errorf("read %s: series %d must have values and a step above 0", path, i)
		}
		for d := s.Start / day; d <= (s.Start+s.Step*int64(len(s.Values)-1))/day; d++ {
			days[d] = true
		}
	}
	samples := 0
	for d := range days {
		n, err := writeDay(dir, all, d*day, (d+1)*day)
		if err != nil {
			return fmt.Errorf("write the block of %s: %w", time.Unix(d*day, 0).UTC().Format(time.DateOnly), err)
		}
		samples += n
	}
	fmt.Printf("%d series, %d samples\n", len(all), samples)
	return nil
}

// writeDay writes the block with the values in [from, to), in Unix seconds.
func writeDay(dir string, all []given, from, to int64) (samples int, err error) {
	ctx := context.Background()
	w, err := tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, int64(24*time.Hour/time.Millisecond))
	if err != nil {
		return 0, err
	}
	byTime := map[int64][]int{} // the series with a value at a time
	for i := range all {
		s := &all[i]
		for k := max(0, (from-s.Start+s.Step-1)/s.Step); k < int64(len(s.Values)) && s.Start+k*s.Step < to; k++ {
			byTime[s.Start+k*s.Step] = append(byTime[s.Start+k*s.Step], i)
		}
	}
	refs := make([]storage.SeriesRef, len(all))
	for _, at := range slices.Sorted(maps.Keys(byTime)) { // a block is written in the order of time
		a := w.Appender(ctx)
		for _, i := range byTime[at] {
			s := &all[i]
			if refs[i], err = a.Append(refs[i], labels.FromMap(s.Labels), 1000*at, s.Values[(at-s.Start)/s.Step]); err != nil {
				return 0, err
			}
			samples++
		}
		if err := a.Commit(); err != nil {
			return 0, err
		}
	}
	if samples > 0 {
		if _, err := w.Flush(ctx); err != nil {
			return 0, err
		}
	}
	return samples, w.Close()
}
