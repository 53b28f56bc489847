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

// Labels are the labels of a pod as Prometheus stores them: in their names, each character other than a letter, a digit and
// an underscore is replaced by an underscore. The methods take the original names.
type Labels map[string]string

// Get returns the value of a label.
func (l Labels) Get(name string) string { return l[stored(name)] }

// Has reports whether the label exists.
func (l Labels) Has(name string) bool {
	_, ok := l[stored(name)]
	return ok
}

// Lookup returns the value of a label and whether it exists.
func (l Labels) Lookup(name string) (string, bool) {
	value, ok := l[stored(name)]
	return value, ok
}

// stored returns the name under which Prometheus stores a label.
func stored(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_', r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			return r
		}
		return '_'
	}, name)
}

// PodLabels returns the labels of the pods of all namespaces during the history.
//
// The metric may be any selector. A selector with a range, such as kube_pod_labels{}[8d], is queried as it is. A selector
// without a range is queried over the whole history, because an instant query, which upstream sends and whose result it
// cannot read, does not return deleted pods (W-29 in docs/migrate.md).
func (c *Client) PodLabels(ctx context.Context, now time.Time) (map[cluster.Key]Labels, error) {
	query := strings.TrimSpace(c.config.LabelsMetric)
	if !strings.HasSuffix(query, "]") {
		query = "last_over_time(" + query + "[" + promDuration(c.config.Length) + "])"
	}
	ctx, cancel := c.limited(ctx)
	defer cancel()
	value, _, err := c.api.Query(ctx, query, now)
	if err != nil {
		return nil, fmt.Errorf("read the labels of pods: %w", failed(query, err))
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
		return nil, fmt.Errorf("read the labels of pods: query %s: the result must be a matrix or a vector, got a %s", query, value.Type())
	}
	return out, nil
}

// addLabels adds the labels of one series.
func (c *Client) addLabels(to map[cluster.Key]Labels, m model.Metric) {
	key := cluster.Key{
		Namespace: string(m[model.LabelName(c.config.LabelsNamespaceLabel)]),
		Name:      string(m[model.LabelName(c.config.LabelsPodLabel)]),
	}
	if key.Name == "" || key.Namespace == "" {
		return
	}
	labels := to[key]
	if labels == nil {
		labels = Labels{}
		to[key] = labels
	}
	for name, value := range m {
		label, ok := strings.CutPrefix(string(name), c.config.LabelPrefix)
		if ok {
			labels[label] = string(value)
		}
	}
}
