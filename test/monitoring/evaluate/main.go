// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command evaluate evaluates PrometheusRule objects with the code of Prometheus, once a minute over a period of series, and prints the alerts that
// fire at its end as JSON. Waiting times and recording rules count, so a test can show in a second what fires after hours.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
	"go.yaml.in/yaml/v3"
)

// A series is a series of the file: its values at regular times. It is the format of test/tsdb.
type series struct {
	Labels map[string]string
	Start  int64 // of the first value, in Unix seconds
	Step   int64 // between two values, in seconds
	Values []float64
}

// A rule is an alert or a recording rule of a PrometheusRule.
type rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

// A group is evaluated in its order.
type group struct {
	Name  string
	Rules []rule
}

// An alert is a firing alert.
type alert struct {
	Labels, Annotations map[string]string
}

func main() {
	files := flag.String("rules", "", "Paths of PrometheusRule objects, separated by commas.")
	data := flag.String("series", "", "Path of a JSON file with the series, a list of objects with labels, start (Unix seconds), step (seconds) and values.")
	flag.Parse()
	if err := run(strings.Split(*files, ","), *data); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(files []string, data string) error {
	text, err := os.ReadFile(data)
	if err != nil {
		return err
	}
	var all []series
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("read %s: %w", data, err)
	}
	groups, err := groupsOf(files)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "podfit-evaluate-")
	if err != nil {
		return err
	}
	firing, err := evaluate(dir, groups, all)
	err = errors.Join(err, os.RemoveAll(dir))
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(firing)
}

// groupsOf reads the groups of PrometheusRule objects.
func groupsOf(files []string) (out []group, err error) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var object struct{ Spec struct{ Groups []group } }
		if err := yaml.Unmarshal(text, &object); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		out = append(out, object.Spec.Groups...)
	}
	return out, nil
}

// evaluate appends the series to a database in the order of time, evaluates all groups each minute, and returns what fires at the end.
func evaluate(dir string, groups []group, all []series) (firing []alert, err error) {
	const day = int64(24 * time.Hour / time.Millisecond)
	o := tsdb.DefaultOptions()
	o.MinBlockDuration, o.MaxBlockDuration = 2*day, 2*day // everything stays in memory
	db, err := tsdb.Open(dir, slog.New(slog.DiscardHandler), nil, o, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	manager := &rules.ManagerOptions{
		Context: context.Background(), QueryFunc: rules.EngineQueryFunc(engine, db), Appendable: db, Queryable: db,
		Logger: slog.New(slog.DiscardHandler), NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	}
	var evaluated []*rules.Group
	var alerting []*rules.AlertingRule
	for _, g := range groups {
		ordered, alerts, err := rulesOf(g)
		if err != nil {
			return nil, err
		}
		evaluated = append(evaluated, rules.NewGroup(rules.GroupOptions{Name: g.Name, Interval: time.Minute, Rules: ordered, Opts: manager}))
		alerting = append(alerting, alerts...)
	}
	if err := replay(db, evaluated, all); err != nil {
		return nil, err
	}
	firing = []alert{}
	for _, r := range alerting {
		for _, a := range r.ActiveAlerts() {
			if a.State == rules.StateFiring {
				firing = append(firing, alert{a.Labels.Map(), a.Annotations.Map()})
			}
		}
	}
	return firing, nil
}

// rulesOf returns the rules of a group in their order, and its alerts.
func rulesOf(g group) (ordered []rules.Rule, alerts []*rules.AlertingRule, err error) {
	for _, r := range g.Rules {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			return nil, nil, fmt.Errorf("%s%s: %w", r.Alert, r.Record, err)
		}
		if r.Record != "" {
			ordered = append(ordered, rules.NewRecordingRule(r.Record, expr, labels.FromMap(r.Labels)))
			continue
		}
		var wait model.Duration
		if r.For != "" {
			if wait, err = model.ParseDuration(r.For); err != nil {
				return nil, nil, fmt.Errorf("%s: for: %w", r.Alert, err)
			}
		}
		a := rules.NewAlertingRule(r.Alert, expr, time.Duration(wait), 0, labels.FromMap(r.Labels), labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
		ordered, alerts = append(ordered, a), append(alerts, a)
	}
	return ordered, alerts, nil
}

// replay appends the values of each minute and evaluates the groups, from the first value to the last.
func replay(db *tsdb.DB, groups []*rules.Group, all []series) error {
	if len(all) == 0 {
		return nil
	}
	first, last := all[0].Start, all[0].Start
	for i := range all {
		s := &all[i]
		if s.Step <= 0 {
			return fmt.Errorf("series %v: the step must be above 0", s.Labels)
		}
		first, last = min(first, s.Start), max(last, s.Start+s.Step*int64(len(s.Values)-1))
	}
	next := make([]int, len(all))
	for at := first; at <= last; at += 60 {
		if err := appendUntil(db, all, next, at); err != nil {
			return err
		}
		for _, g := range groups {
			g.Eval(context.Background(), time.Unix(at, 0))
			for _, r := range g.Rules() {
				if r.LastError() != nil {
					return fmt.Errorf("%s at %s: %w", r.Name(), time.Unix(at, 0).UTC(), r.LastError())
				}
			}
		}
	}
	return nil
}

// appendUntil appends the values until a time in Unix seconds that are not appended yet. next has the next value of each series.
func appendUntil(db *tsdb.DB, all []series, next []int, at int64) error {
	a := db.Appender(context.Background())
	for i := range all {
		s := &all[i]
		for ; next[i] < len(s.Values) && s.Start+s.Step*int64(next[i]) <= at; next[i]++ {
			if _, err := a.Append(0, labels.FromMap(s.Labels), 1000*(s.Start+s.Step*int64(next[i])), s.Values[next[i]]); err != nil {
				return fmt.Errorf("append to %v: %w", s.Labels, err)
			}
		}
	}
	return a.Commit()
}
