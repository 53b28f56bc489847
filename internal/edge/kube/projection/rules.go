// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the container image has no time zone database

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/promql"
)

// Limits of the annotations.
const (
	maxWindows  = 16
	maxRuleText = 4096 // bytes of an annotation
	maxQuoted   = 80   // bytes of an annotation that a message quotes
	maxReason   = 200  // bytes of the reason in a ConfigMap
	minWindow   = time.Minute
	minCanary   = time.Minute
	maxCanary   = 24 * time.Hour
)

// Rules returns the rules for changes of running pods in the annotations of an autoscaler or a namespace. It never fails: the rules
// contain the errors. If the windows have one, no pod is changed.
func Rules(annotations map[string]string) cluster.ChangeRules {
	out := cluster.ChangeRules{Frozen: isOn(annotations, rollout.AnnotationFreeze)}
	out.Settings, _ = rollout.ParseSettings(annotations)
	if text, set := annotations[rollout.AnnotationWindow]; set {
		windows, err := changeWindows(text)
		out.Windows = windows
		if err != nil {
			out.WindowProblem = err.Error()
		}
	}
	return out
}

// quoted returns what a message quotes of an annotation.
func quoted(text string) string { return wording.Shortened(wording.OneLine(text), maxQuoted) }

// isOn reports whether a switch is on. Every value except those that mean false switches it on, so that a misspelled value does not
// leave it off.
func isOn(values map[string]string, key string) bool {
	value, set := values[key]
	on, err := strconv.ParseBool(strings.ToLower(strings.TrimSpace(value)))
	return set && (on || err != nil)
}

// FreezeSwitch returns whether the ConfigMap of --freeze-configmap stops all changes in the cluster, and the reason that it has.
func FreezeSwitch(m *corev1.ConfigMap) cluster.Freeze {
	out := cluster.Freeze{By: cluster.Key{Namespace: m.Namespace, Name: m.Name}, On: isOn(m.Data, "freeze")}
	if out.On {
		out.Reason = wording.Shortened(wording.OneLine(m.Data["reason"]), maxReason)
	}
	return out
}

// changeWindows parses the annotation with the change windows: "schedule; duration; zone", separated by line breaks or "|". The zone may be
// missing and is UTC then.
func changeWindows(text string) ([]cluster.ChangeWindow, error) {
	if len(text) > maxRuleText {
		return nil, fmt.Errorf("the annotation has %d bytes, more than %d", len(text), maxRuleText)
	}
	var out []cluster.ChangeWindow
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '|' }) {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if len(out) == maxWindows {
			return nil, fmt.Errorf("there are more than %d windows", maxWindows)
		}
		w, err := changeWindow(part)
		if err != nil {
			return nil, fmt.Errorf("window %q: %w", quoted(part), err)
		}
		out = append(out, w)
	}
	if len(out) == 0 {
		return nil, errors.New("the annotation has no window")
	}
	return out, nil
}

// changeWindow parses one window.
func changeWindow(text string) (cluster.ChangeWindow, error) {
	parts := strings.Split(text, ";")
	if len(parts) < 2 || len(parts) > 3 {
		return cluster.ChangeWindow{}, errors.New(`it must have the form "schedule; duration" or "schedule; duration; time zone"`)
	}
	zone := time.UTC
	if len(parts) == 3 {
		var err error
		if zone, err = location(strings.TrimSpace(parts[2])); err != nil {
			return cluster.ChangeWindow{}, err
		}
	}
	duration, err := time.ParseDuration(strings.TrimSpace(parts[1]))
	if err != nil {
		return cluster.ChangeWindow{}, fmt.Errorf("the duration must have a form such as 4h or 90m: %w", err)
	}
	if duration < minWindow || duration > rollout.MaxWindowDuration {
		return cluster.ChangeWindow{}, fmt.Errorf("the duration must be between %v and %v, got %v", minWindow, rollout.MaxWindowDuration, duration)
	}
	out, err := schedule(strings.TrimSpace(parts[0]))
	if err != nil {
		return cluster.ChangeWindow{}, err
	}
	out.Duration = duration
	out.Zone = zone
	if _, fires := rollout.Next(time.Date(2000, time.March, 1, 0, 0, 0, 0, time.UTC), &out); !fires {
		return cluster.ChangeWindow{}, errors.New("the schedule never fires")
	}
	return out, nil
}

// zones are the time zones of change windows, by name. All windows share the memory of a zone, 4 KB. The database has about 600.
var zones sync.Map

// location returns a time zone of the IANA database. "Local" is rejected, because it would be the zone of the container.
func location(name string) (*time.Location, error) {
	clean := path.Clean(name) // one name for each file
	if known, ok := zones.Load(clean); ok {
		return known.(*time.Location), nil
	}
	if clean == "." || clean == "Local" {
		return nil, fmt.Errorf("the time zone must be a name such as Europe/Berlin or UTC, got %q", name)
	}
	zone, err := time.LoadLocation(clean)
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q; use a name such as Europe/Berlin", wording.Shortened(name, maxQuoted))
	}
	zones.Store(clean, zone)
	return zone, nil
}

// schedule parses a cron schedule of five fields.
func schedule(text string) (cluster.ChangeWindow, error) {
	fields := strings.Fields(text)
	if len(fields) != 5 || strings.Contains(text, "=") { // cron accepts a prefix with a time zone, and panics if it is incomplete
		return cluster.ChangeWindow{}, fmt.Errorf("the schedule must have 5 fields (minute, hour, day of month, month, day of week), got %d", len(fields))
	}
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	parsed, err := parser.Parse(strings.Join(fields, " "))
	if err != nil {
		return cluster.ChangeWindow{}, fmt.Errorf("parse the schedule: %w", err)
	}
	s, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return cluster.ChangeWindow{}, errors.New("the schedule is not a cron schedule")
	}
	const star = 1 << 63 // the bit with which package cron marks a field that is "*"
	return cluster.ChangeWindow{
		Minutes: s.Minute &^ star, Hours: s.Hour &^ star, Days: s.Dom &^ star, Months: s.Month &^ star, Weekdays: s.Dow &^ star,
		AnyDay: s.Dom&star != 0, AnyWeekday: s.Dow&star != 0,
	}, nil
}

// The annotations about canaries.
const (
	annotationRollout        = "podfit.dev/rollout"
	annotationCanaryDuration = "podfit.dev/canary-duration"
	annotationCanaryQuery    = "podfit.dev/canary-query"
)

// canary returns how the changes of a workload are rolled out. An invalid annotation selects the more careful way.
func canary(annotations map[string]string) cluster.Canary {
	value, set := annotations[annotationRollout]
	out := cluster.Canary{Set: set}
	out.On, out.Problem = isCanary(set, value, "annotation "+annotationRollout)
	if set && !out.On {
		return out
	}
	if text, set := annotations[annotationCanaryDuration]; set {
		watch, problem := canaryDuration(text, "annotation "+annotationCanaryDuration)
		out.Watch = watch
		out.Problem = cmp.Or(problem, out.Problem)
	}
	if text := strings.TrimSpace(annotations[annotationCanaryQuery]); text != "" {
		o, err := promql.Parse(text)
		out.Objective = cluster.Objective{Query: strings.Clone(text), Operator: o.Operator, Limit: o.Limit, Span: o.Span} // without the rest of the annotation
		if err != nil {
			out.Objective = cluster.Objective{Query: "invalid"} // the annotation may be large
			problem := fmt.Sprintf("annotation %s is invalid, so no running pod is changed after the canary: %s", annotationCanaryQuery, wording.Shortened(wording.OneLine(err.Error()), maxReason))
			out.Problem = strings.TrimPrefix(out.Problem+"; "+problem, "; ")
		}
	}
	if out.On && out.Watch == 0 {
		out.Watch = rollout.DefaultWatch
	}
	return out
}

// isCanary parses how changes are rolled out. An unknown value counts as canary.
func isCanary(set bool, value, what string) (on bool, problem string) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "canary":
		return set, ""
	case "all", "":
		return false, ""
	}
	return set, fmt.Sprintf("%s must be canary or all, got %q; it counts as canary", what, quoted(value))
}

// canaryDuration parses how long a canary is watched. It returns 0 and a problem if the text is invalid.
func canaryDuration(text, what string) (time.Duration, string) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || d < minCanary || d > maxCanary {
		return 0, fmt.Sprintf("%s must be between %v and %v, got %q; it counts as %v",
			what, minCanary, maxCanary, quoted(text), rollout.DefaultWatch)
	}
	return d, ""
}
