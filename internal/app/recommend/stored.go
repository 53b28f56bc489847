// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

// A stored has the usage history that a recommender, podfit's or upstream's, has stored in the cluster.
type stored struct {
	checkpoints map[checkpoint.Key]usage.Checkpoint
	histories   map[cluster.Workload][]usage.History
}

// readStored reads the stored usage history. Parts that the cluster does not have are absent.
func readStored(ctx context.Context, clients *kube.Clients, namespace string, s *scene) (stored, error) {
	o := checkpoint.StorageOptions{Namespace: namespace}
	var out stored
	var err error
	if out.checkpoints, err = checkpoint.NewCheckpoints(clients, o).Load(ctx); err != nil {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		s.missing = append(s.missing, fmt.Sprintf("checkpoints of VPAs: %v", err))
	}
	histories, err := checkpoint.NewHistories(clients, o)
	if err != nil {
		return out, err
	}
	out.histories, err = histories.Load(ctx)
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case err != nil && !errors.Is(err, kube.ErrUnsupported):
		s.missing = append(s.missing, fmt.Sprintf("usage histories: %v", err))
	}
	return out, nil
}

// restore adds the stored history of reviewed workloads to a book.
func (b *book) restore(from stored) {
	for _, key := range sortedKeys(from.checkpoints) {
		c := from.checkpoints[key]
		w := b.scene.byVPA(key.Autoscaler)
		if w == nil || !c.Workload.IsZero() && c.Workload != w.key {
			continue
		}
		for _, h := range from.histories[w.key] {
			if h.Container == key.Container {
				c.History = h
			}
		}
		_ = b.store.Restore(w.key, key.Container, c) // what cannot be restored is not used, and the container has no evidence
	}
	for _, w := range b.scene.workloads {
		for _, h := range from.histories[w.key] {
			_ = b.store.Recall(w.key, h) // as above; does nothing if the checkpoint already had it
		}
	}
	b.workloads.SkipRestore()
	b.track()
}

func sortedKeys(checkpoints map[checkpoint.Key]usage.Checkpoint) []checkpoint.Key {
	keys := make([]checkpoint.Key, 0, len(checkpoints))
	for key := range checkpoints {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(x, y checkpoint.Key) int {
		if c := x.Autoscaler.Compare(y.Autoscaler); c != 0 {
			return c
		}
		return strings.Compare(x.Container, y.Container)
	})
	return keys
}

// byVPA returns the reviewed workload that a VPA governs, or nil.
func (s *scene) byVPA(key cluster.Key) *workload {
	if s.vpas == nil {
		s.vpas = map[cluster.Key]*workload{}
		for _, w := range s.workloads {
			if w.vpa != nil {
				s.vpas[w.vpa.Key] = w
			}
		}
	}
	return s.vpas[key]
}

// adviseStored returns the recommendation for a workload from what the cluster has stored: the status of its VPA, or for another profile
// what the stored model state leads to.
func (b *book) adviseStored(w *workload) []cluster.Advice {
	if b.usesOwn(w) {
		return w.vpa.Advice
	}
	advice := b.advise(w)
	if !b.scene.catalog.Of(b.sizedBy[w.key]).Edition.ModelState {
		return advice
	}
	return slices.DeleteFunc(advice, func(a cluster.Advice) bool {
		series := b.store.Series(w.key, a.Container)
		return series == nil || !series.Recalled()
	})
}

// storedEvidence returns what the stored history of a container shows.
func (b *book) storedEvidence(w *workload, container string) review.Evidence {
	var e review.Evidence
	series := b.store.Series(w.key, container)
	switch {
	case w.vpa == nil:
		e.Lack = "no VPA: the cluster stores no usage of it; use --source prometheus or metrics"
		return e
	case series == nil:
		e.Lack = "the cluster stores no usage of it"
		return e
	}
	for _, res := range cluster.All {
		seen := series.Seen(res)
		if seen.Count == 0 {
			continue
		}
		if e.From.IsZero() || seen.First.Before(e.From) {
			e.From = seen.First
		}
		if seen.Last.After(e.To) {
			e.To = seen.Last
		}
		e.Samples = max(e.Samples, seen.Count)
	}
	if e.Samples == 0 && w.vpa.AdviceFor(container) != nil { // the recommender reads history from Prometheus, and stores none
		e.From, e.To, e.Hours = w.vpa.Created, b.scene.now, min(int(b.scene.now.Sub(w.vpa.Created).Hours()), unknownHours)
		return e
	}
	e.Hours = min(int(e.To.Sub(e.From).Hours()+0.5), e.Samples/samplesPerHour)
	if peaks := memoryPeaks(series); peaks != nil {
		dayPeaks(&e, peaks, b.scene.now)
	}
	if at, _ := series.LastOOM(); !at.IsZero() {
		e.Kill(at, 1)
	}
	return e
}

// unknownHours is the maximum number of hours of usage that a recommendation counts for if the history behind it is not stored, so that
// its confidence is low.
const unknownHours = 24

// samplesPerHour is the number of samples of one container in an hour: a recommender reads one in a minute. Half of them is enough.
const samplesPerHour = 30

// memoryPeaks returns the memory peaks of the last hours in the model state of a container, nil if it has none.
func memoryPeaks(series *usage.ContainerHistory) *hourly.Peaks {
	switch m := series.Extension().(type) {
	case *recommend.Memo:
		return &m.Memory
	case *recommend.Busy:
		return &m.Memory
	}
	return nil
}

// dayPeaks sets the memory peaks of the last days.
func dayPeaks(e *review.Evidence, peaks *hourly.Peaks, now time.Time) {
	hour := int(now.Unix() / 3600)
	for d := range review.PeakDays {
		e.DayPeaks[d] = int64(peaks.Max(hour+1-24*(d+1), hour+1-24*d).Amount())
	}
}
