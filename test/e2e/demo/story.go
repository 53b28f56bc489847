// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A story records what happened to the workloads: podfit's actions, and OOM kills.
type story struct {
	owner  map[string]string // workload by pod name, also for deleted pods
	before map[string]map[string]int64
	seen   map[string]bool
	acts   map[string]*acts
	log    *logReader
	news   []string // lines that were not printed yet
}

// acts records what happened to one workload.
type acts struct {
	Evicted, Resized int
	Why              string    // podfit's reason for the last action
	KilledBefore     int       // OOM kills with the requests of the manifest
	KilledAfter      int       // OOM kills with requests set by podfit
	LastKill         time.Time // when the last OOM kill was seen
}

func newStory(shape []workload, updaterLog string) *story {
	s := &story{
		owner: map[string]string{}, before: map[string]map[string]int64{},
		seen: map[string]bool{}, acts: map[string]*acts{}, log: &logReader{path: updaterLog},
	}
	for _, w := range shape {
		s.acts[w.Name] = &acts{}
		s.before[w.Name] = map[string]int64{}
		for _, c := range w.Containers {
			s.before[w.Name][c.Name] = c.Before.Memory
		}
	}
	return s
}

// Reasons of podfit's events; upstream has the same.
const (
	evictedEvent = "EvictedByVPA"
	resizedEvent = "InPlaceResizedByVPA"
)

// update processes the log, events and pods since the last call.
func (s *story) update(now time.Time, v view) {
	for i := range v.pods {
		s.owner[v.pods[i].Name] = v.pods[i].Labels[appLabel]
	}
	for _, d := range s.log.decisions() {
		_, name, _ := strings.Cut(d.Pod, "/")
		if a := s.acts[s.owner[name]]; a != nil && d.Reason != "" {
			a.Why = d.Reason
		}
	}
	for i := range v.events {
		s.event(&v.events[i])
	}
	for i := range v.pods {
		s.kills(now, &v.pods[i])
	}
}

func (s *story) event(e *corev1.Event) {
	if e.InvolvedObject.Kind != "Pod" || e.Reason != evictedEvent && e.Reason != resizedEvent {
		return
	}
	a := s.acts[s.owner[e.InvolvedObject.Name]]
	if a == nil {
		return
	}
	count := max(1, int(e.Count))
	if e.Series != nil {
		count = max(count, int(e.Series.Count))
	}
	for n := 1; n <= count; n++ {
		if !s.first(fmt.Sprintf("%s#%d", e.UID, n)) {
			continue
		}
		verb := "resized in place"
		if e.Reason == evictedEvent {
			a.Evicted++
			verb = "evicted"
		} else {
			a.Resized++
		}
		s.report("%s: %s %s", s.owner[e.InvolvedObject.Name], e.InvolvedObject.Name, withReason(verb, a.Why))
	}
}

func withReason(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// kills counts the OOM kills of a pod's containers.
func (s *story) kills(now time.Time, p *corev1.Pod) {
	a := s.acts[p.Labels[appLabel]]
	if a == nil {
		return
	}
	has := map[string]int64{}
	for _, c := range p.Spec.Containers {
		has[c.Name] = c.Resources.Requests.Memory().Value()
	}
	for _, c := range p.Status.ContainerStatuses {
		for _, t := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if t == nil || t.Reason != "OOMKilled" || !s.first(fmt.Sprintf("%s/%s@%s", p.UID, c.Name, t.FinishedAt)) {
				continue
			}
			a.LastKill = now
			size := "the requests of its manifest"
			if has[c.Name] == s.before[p.Labels[appLabel]][c.Name] {
				a.KilledBefore++
			} else {
				a.KilledAfter++
				size = "requests set by podfit"
			}
			s.report("%s: %s OOM killed with %s", p.Labels[appLabel], p.Name, size)
		}
	}
}

// first reports whether the key is seen for the first time.
func (s *story) first(key string) bool {
	if s.seen[key] {
		return false
	}
	s.seen[key] = true
	return true
}

func (s *story) report(format string, args ...any) {
	s.news = append(s.news, fmt.Sprintf(format, args...))
}

// unreported returns the lines since the last call.
func (s *story) unreported() []string {
	n := s.news
	s.news = nil
	return n
}

// total returns the sums over all workloads.
func (s *story) total() acts {
	var t acts
	for _, name := range slices.Sorted(maps.Keys(s.acts)) {
		a := s.acts[name]
		t.Evicted += a.Evicted
		t.Resized += a.Resized
		t.KilledBefore += a.KilledBefore
		t.KilledAfter += a.KilledAfter
	}
	return t
}

// String returns a summary of the actions.
func (a *acts) String() string {
	var parts []string
	count := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d×", what, n))
		}
	}
	count(a.KilledBefore+a.KilledAfter, "OOM-killed")
	count(a.Resized, "resized in place")
	count(a.Evicted, "evicted")
	text := strings.Join(parts, ", ")
	if a.Why != "" && text != "" {
		text += "; last reason: " + a.Why
	}
	return text
}

// A decision is a line of the updater's log about an action on a pod.
type decision struct {
	Pod    string `json:"pod"` // namespace/name
	Action string `json:"action"`
	Reason string `json:"reason"`
}

// A logReader reads the updater's log as it grows.
type logReader struct {
	path   string
	offset int64
}

// decisions returns the decisions logged since the last call.
func (r *logReader) decisions() []decision {
	f, err := os.Open(r.path)
	if err != nil {
		return nil // not started yet
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() <= r.offset {
		return nil
	}
	b := make([]byte, info.Size()-r.offset)
	n, err := f.ReadAt(b, r.offset)
	if err != nil {
		return nil
	}
	end := strings.LastIndexByte(string(b[:n]), '\n') + 1
	r.offset += int64(end)
	var out []decision
	for line := range strings.SplitSeq(string(b[:end]), "\n") {
		var d decision
		if json.Unmarshal([]byte(line), &d) == nil && d.Pod != "" && d.Action != "" && d.Action != "leave" {
			out = append(out, d)
		}
	}
	return out
}
