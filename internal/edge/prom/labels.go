// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"podfit.dev/podfit/internal/core/cluster"
)

// Labels are the labels of a pod as Prometheus stores them: every character of a name that is not a letter, a digit or
// an underscore has become an underscore. Look them up by their real names.
type Labels map[string]string

// Get returns the value of a label.
func (l Labels) Get(name string) string { return l[stored(name)] }

// Has reports whether there is a label.
func (l Labels) Has(name string) bool { _, ok := l[stored(name)]; return ok }

// Lookup returns the value of a label and whether there is one.
func (l Labels) Lookup(name string) (string, bool) { v, ok := l[stored(name)]; return v, ok }

func stored(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_', r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			return r
		}
		return '_'
	}, name)
}

// PodLabels returns the labels that pods had during the history, of every namespace.
//
// The metric may be any selector. One with a range, such as kube_pod_labels{}[8d], is asked as it is; one without is
// asked over the whole history, because a plain instant query, which upstream sends and cannot read the answer of,
// knows no pod that has gone (W-29).
func (c *Client) PodLabels(ctx context.Context, now time.Time) (map[cluster.Key]Labels, error) {
	query := strings.TrimSpace(c.config.LabelsMetric)
	if !strings.HasSuffix(query, "]") {
		query = "last_over_time(" + query + "[" + promDuration(c.config.Length) + "])"
	}
	ctx, cancel := c.limited(ctx)
	defer cancel()
	value, _, err := c.api.Query(ctx, query, now)
	if err != nil {
		return nil, fmt.Errorf("read the labels of pods: query %s: %w", query, err)
	}
	out := map[cluster.Key]Labels{}
	switch v := value.(type) {
	case model.Matrix:
		for _, s := range v {
			c.addLabels(out, s.Metric)
		}
	case model.Vector:
		for _, s := range v {
			c.addLabels(out, s.Metric)
		}
	default:
		return nil, fmt.Errorf("read the labels of pods: query %s: the answer is a %s, neither matrix nor vector", query, value.Type())
	}
	return out, nil
}

func (c *Client) addLabels(to map[cluster.Key]Labels, m model.Metric) {
	key := cluster.Key{
		Namespace: string(m[model.LabelName(c.config.LabelsNamespaceLabel)]),
		Name:      string(m[model.LabelName(c.config.LabelsPodLabel)]),
	}
	if key.Name == "" || key.Namespace == "" {
		return
	}
	l := to[key]
	if l == nil {
		l = Labels{}
		to[key] = l
	}
	for name, value := range m {
		if n, ok := strings.CutPrefix(string(name), c.config.LabelPrefix); ok {
			l[n] = string(value)
		}
	}
}
