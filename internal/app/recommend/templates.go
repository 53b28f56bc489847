// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/kube"
	report "podfit.dev/podfit/internal/edge/report/review"
)

// readTemplates reads the pod templates of workloads, adds the CronJobs of which no Job runs, and notes the other workloads that have no pods.
func (s *scene) readTemplates(ctx context.Context, c *Config, clients *kube.Clients) {
	all, failed := clients.Templates(ctx, c.onlyNamespace())
	for _, resource := range slices.Sorted(maps.Keys(failed)) {
		s.Missing = append(s.Missing, fmt.Sprintf("pod templates of %s: %v", resource, failed[resource]))
	}
	s.templates = make(map[cluster.Workload]*kube.Template, len(all))
	for i := range all {
		s.templates[all[i].Workload] = &all[i]
	}
	if s.selected != nil { // a selector selects pods, so it selects no workload without pods
		return
	}
	for _, t := range all {
		if t.Workload.Kind == "CronJob" && !t.Suspended && s.byKey[t.Workload] == nil && c.includes(t.Workload) {
			w := s.add(t.Workload)
			for k := range t.Containers {
				w.addContainer(t.Containers[k].Name)
			}
		}
	}
	s.sort()
	s.noteIdle(c, all)
}

// noteIdle adds notes about workloads that the report omits because they have no live pods.
func (s *scene) noteIdle(c *Config, all []kube.Template) {
	omitted := cluster.Where(all, func(t *kube.Template) bool { return s.byKey[t.Workload] == nil && c.includes(t.Workload) })
	byCause := cluster.GroupBy(omitted, idle)
	for _, cause := range slices.Sorted(maps.Keys(byCause)) {
		names := cluster.Each(byCause[cause], func(t **kube.Template) string { return report.ShortName((*t).Workload) })
		slices.Sort(names)
		s.Notes = append(s.Notes, leftOut(cause, names))
	}
}

// noteUnmeasured returns notes about the CronJobs that the report omits because no Job runs and no usage of one is recorded.
func (s *scene) noteUnmeasured(subjects []review.Subject) []string {
	var names []string
	for _, w := range s.workloads {
		if s.isIdle(w) && !slices.ContainsFunc(subjects, func(x review.Subject) bool { return x.Workload == w.key }) {
			names = append(names, report.ShortName(w.key))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{leftOut("no Job runs now, and the usage of earlier ones is not known", names)}
}

// isIdle reports whether a workload is a CronJob without a live pod.
func (s *scene) isIdle(w *workload) bool { return len(w.live) == 0 && s.templates[w.key] != nil }

func leftOut(cause string, names []string) string {
	const mostNames = 5 // the maximum number of names in a note
	subject := wording.Count(len(names), "workload") + wording.Form(len(names), " is", " are")
	return fmt.Sprintf("%s not in this report (%s): %s.", subject, cause, wording.List(names, mostNames))
}

// idle returns why a workload has no live pods.
func idle(t *kube.Template) string {
	switch {
	case t.Suspended:
		return "suspended"
	case t.Replicas.Known && t.Replicas.Replicas == 0:
		return "0 replicas"
	}
	return "no live pods"
}

// whyIdle returns the reason why a workload that the user named has no live pods, with a semicolon before it; "" if it does not exist.
func (s *scene) whyIdle(name string) string {
	for w, t := range s.templates {
		if isNamed(name, w) {
			return "; it exists and has none: " + idle(t)
		}
	}
	return ""
}
