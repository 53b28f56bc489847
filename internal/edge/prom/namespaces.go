// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Namespaces returns the names of the namespaces whose containers have memory usage between two times, sorted.
func (c *Client) Namespaces(ctx context.Context, from, to time.Time) ([]string, error) {
	if c.config.NamespaceLabel == "" {
		return nil, errors.New("list the namespaces in Prometheus: the label of namespaces must not be empty")
	}
	matchers := []string{c.config.ContainerLabel + `!=""`, c.config.NamespaceLabel + `!=""`}
	if c.config.Job != "" {
		matchers = append(matchers, "job="+strconv.Quote(c.config.Job))
	}
	selector := c.config.MemoryMetric + "{" + strings.Join(matchers, ", ") + "}"
	ctx, cancel := c.limited(ctx)
	defer cancel()
	values, _, err := c.api.LabelValues(ctx, c.config.NamespaceLabel, []string{selector}, from, to)
	if err != nil {
		return nil, fmt.Errorf("list the namespaces in Prometheus: %w", failed(selector, err))
	}
	return sorted(values), nil
}

// sorted returns values as strings. Prometheus sorts them; the servers that imitate it do not promise that.
func sorted(values model.LabelValues) []string {
	var names []string
	for _, value := range values {
		names = append(names, string(value))
	}
	slices.Sort(names)
	return names
}
