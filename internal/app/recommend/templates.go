// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	report "podfit.dev/podfit/internal/edge/report/review"
)

// readTemplates reads the pod templates of workloads, and notes the workloads that have no pods.
func (s *scene) readTemplates(ctx context.Context, c *Config, clients *kube.Clients) {
	all, failed := clients.Templates(ctx, c.onlyNamespace())
	for _, resource := range slices.Sorted(maps.Keys(failed)) {
		s.Missing = append(s.Missing, fmt.Sprintf("pod templates of %s: %v", resource, failed[resource]))
	}
	s.templates = make(map[cluster.Workload]*kube.Template, len(all))
	for i := range all {
		s.templates[all[i].Workload] = &all[i]
	}
	if s.selected == nil { // a selector selects pods, so it selects no workload without pods
		s.noteIdle(c, all)
	}
}

// mostNames is the maximum number of names in a note.
const mostNames = 5

// noteIdle adds notes about workloads that the report omits because they have no live pods.
func (s *scene) noteIdle(c *Config, all []kube.Template) {
	byCause := map[string][]string{}
	for i := range all {
		t := &all[i]
		if s.byKey[t.Workload] == nil && c.includes(t.Workload) {
			cause := idle(t)
			byCause[cause] = append(byCause[cause], report.ShortName(t.Workload))
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(byCause)) {
		names := byCause[cause]
		slices.Sort(names)
		s.Notes = append(s.Notes, leftOut(cause, names))
	}
}

func leftOut(cause string, names []string) string {
	subject := fmt.Sprintf("%d workloads are", len(names))
	if len(names) == 1 {
		subject = "1 workload is"
	}
	text := fmt.Sprintf("%s not in this report (%s): %s", subject, cause, strings.Join(names[:min(len(names), mostNames)], ", "))
	if more := len(names) - mostNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + "."
}

// idle returns why a workload has no live pods.
func idle(t *kube.Template) string {
	switch {
	case t.Suspended:
		return "suspended"
	case t.Workload.Kind == "CronJob":
		return "no Job runs now"
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
