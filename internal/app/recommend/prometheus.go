// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/inspection"
	"podfit.dev/podfit/internal/edge/prom/discovery"
	"podfit.dev/podfit/internal/edge/prom/survey"
)

// locate returns the Prometheus to read: from the flag, the environment variable, or a Service of the cluster. It returns nil if there is
// none, unless --source prometheus requires one.
func (j *job) locate(ctx context.Context, clients *kube.Clients) (*process.PrometheusEndpoint, error) {
	required := j.source() == sourcePrometheus
	if !required && j.source() != sourceAuto {
		return nil, nil
	}
	if given, err := j.Given(); given != nil || err != nil {
		return given, err
	}
	found, err := j.Found(ctx, clients)
	var several discovery.Several
	if err != nil && !required && !errors.As(err, &several) && ctx.Err() == nil {
		return nil, nil // no right to list Services, or none is known
	}
	return found, err
}

// newHistory returns a reader of the usage that a Prometheus stores.
func (j *job) newHistory(ctx context.Context, clients *kube.Clients, from *process.PrometheusEndpoint) (*survey.Survey, error) {
	c := survey.Config{Address: from.Address, Transport: from.Transport, Params: url.Values{}, Parallel: 1, Tenant: strings.Join(from.Headers, "\n")}
	if j.Load == "normal" {
		c.Parallel = 2
	}
	for _, p := range j.Params {
		name, value, _ := strings.Cut(p, "=")
		c.Params.Add(name, value)
	}
	if name, value, ok := strings.Cut(j.ClusterLabel, "="); ok {
		c.Labels = []survey.Label{{Name: name, Value: value}}
	}
	if !j.NoCache {
		c.Cache = openCache(ctx, clients)
	}
	return survey.New(c)
}

// openCache returns the cache of a cluster. It only saves time, so a cause why there is none is a note of the report.
func openCache(ctx context.Context, clients *kube.Clients) *survey.Cache {
	uid, err := inspection.ClusterUID(ctx, clients)
	if err != nil {
		return survey.WithoutCache(err)
	}
	dir, err := survey.DefaultDir()
	if err != nil {
		return survey.WithoutCache(err)
	}
	return survey.OpenCache(dir, uid)
}

// readHistory returns the subjects according to recorded usage. It returns what was read until ctx ends. Whole days are read, because these are
// cached, and what is older than the window does not count.
func (j *job) readHistory(ctx context.Context, from *survey.Survey, s *scene) ([]review.Subject, error) {
	since := s.Now.Add(-j.window())
	plan, err := from.Plan(ctx, s.namespaces(), since, s.Now)
	if err != nil {
		return nil, explained(err)
	}
	s.Notes = append(s.Notes, plan.Notes...)
	c := newCollector(s, j.books(s))
	c.throttling = !slices.Contains(plan.NotRecorded, survey.Throttled)
	stop := j.showProgress(ctx, from)
	defer stop()
	var gaps []survey.Gap
	for part, err := range from.Read(ctx, plan) {
		for hour := range part.Hours() {
			if hour.End.After(since) {
				c.observeHour(&hour)
			}
		}
		gaps = append(gaps, part.Gaps...)
		s.Notes = append(s.Notes, part.Notes...)
		for _, text := range part.Partial {
			s.Missing = append(s.Missing, "the server may have omitted series: "+text)
		}
		if err != nil && ctx.Err() == nil && len(c.evidence) == 0 {
			return nil, explained(err)
		}
	}
	gaps = slices.DeleteFunc(gaps, func(g survey.Gap) bool { return !g.To.After(since) })
	s.Missing = append(s.Missing, missing(survey.Merge(gaps))...)
	return j.subjects(c), nil
}

func explained(err error) error {
	var e *survey.Error
	if errors.As(err, &e) && e.Remedy() != "" {
		return fmt.Errorf("%w; %s", err, e.Remedy())
	}
	return err
}

// mostGaps is the maximum number of gaps that a report describes.
const mostGaps = 10

func missing(gaps []survey.Gap) []string {
	var out []string
	for i := range gaps {
		if i == mostGaps {
			return append(out, fmt.Sprintf("%d more gaps", len(gaps)-mostGaps))
		}
		g := &gaps[i]
		text := fmt.Sprintf("%s of namespace %s from %s to %s", g.Measure, g.Namespace, g.From.UTC().Format("2 Jan 15:04"), g.To.UTC().Format("2 Jan 15:04"))
		var e *survey.Error
		switch {
		case errors.As(g.Err, &e):
			text += ": " + e.Cause.String()
		case errors.Is(g.Err, context.Canceled):
			text += ": interrupted"
		case g.Err != nil:
			text += ": " + g.Err.Error()
		}
		out = append(out, text)
	}
	return out
}

// showProgress shows the progress of reading until stop is called.
func (j *job) showProgress(ctx context.Context, from *survey.Survey) (stop func()) {
	const progressInterval = 200 * time.Millisecond // the time between two updates of the bar while queries are answered
	bar := j.newProgress(true)
	ctx, cancel := context.WithCancel(ctx)
	var shown sync.WaitGroup
	shown.Go(func() {
		for kube.Sleep(ctx, progressInterval) {
			if p := from.Progress(); p.Planned > 0 {
				bar.show(float64(p.Done)/float64(p.Planned), progressText(&p, time.Now()))
			}
		}
	})
	return func() {
		cancel()
		shown.Wait()
		bar.clear()
	}
}

func progressText(p *survey.Progress, now time.Time) string {
	text := fmt.Sprintf("%d of %d queries", p.Done, p.Planned)
	if len(p.Namespaces) > 0 {
		text += " · " + p.Namespaces[0]
		if n := len(p.Namespaces) - 1; n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		text += ", " + p.Day.Format("2 Jan")
	}
	if p.WaitsUntil.After(now) {
		text += " · Prometheus is busy, waiting"
	}
	return text
}

// observeHour adds the usage of a container in an hour.
func (c *collector) observeHour(h *survey.Hour) {
	c.observe(h.Sample(), h.Workload)
	as := c.tracked[usage.PodContainer{Pod: h.Key(), Container: h.Container}]
	if as.to == nil {
		return
	}
	if h.Kills > 0 { // as the recommender adds those that it observes: as a memory peak above the request that was not enough
		as.to.Kill(h.End, h.Kills)
		request := cmp.Or(h.KilledRequest, c.requestSince(as.to.ref, h.End.Add(-time.Hour)))
		for _, b := range c.books {
			b.store.ObserveOOM(usage.OOM{Pod: as.pod, Container: h.Container, At: h.End, Memory: request})
		}
	}
	if c.throttling && h.Has.Has(cluster.CPU) {
		as.to.throttled += h.Throttled
		as.to.throttledHours++
	}
}

// requestSince returns the highest memory request of a container in the live pods that were created before a time, 0 if there are none.
func (c *collector) requestSince(of usage.Ref, created time.Time) int64 {
	w := c.scene.byKey[of.Workload]
	if w == nil {
		return 0
	}
	highest := int64(0)
	for _, p := range w.live {
		if x := p.Container(of.Container); x != nil && !p.Created.IsZero() && !p.Created.After(created) {
			requests, _ := x.Running()
			highest = max(highest, requests.Memory)
		}
	}
	return highest
}
