// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/model"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/prom"
)

// historySource reads past usage.
type historySource interface {
	// Length is the length of the history that is read.
	Length() time.Duration
	// PodLabels returns the labels of all pods of that time.
	PodLabels(ctx context.Context, now time.Time) (map[cluster.Key]prom.Labels, error)
	// HistorySince yields the samples of a namespace, the oldest first. It ends with the first error.
	HistorySince(ctx context.Context, namespace string, from, now time.Time) iter.Seq2[usage.Sample, error]
}

// client returns a Prometheus client as the flags configure it.
func (h *HistoryConfig) client(m *Metrics) (*prom.Client, error) {
	var durations [3]time.Duration
	for i, f := range []struct{ flag, value string }{
		{"history-length", h.Length}, {"history-resolution", h.Resolution}, {"prometheus-query-timeout", h.QueryTimeout},
	} {
		d, err := model.ParseDuration(f.value)
		if err != nil || d <= 0 {
			return nil, process.UsageError{Err: fmt.Errorf("--%s must be a duration such as 5m, 1h or 8d, got %q", f.flag, f.value)}
		}
		durations[i] = time.Duration(d)
	}
	config := prom.Config{
		Address: h.Address, Insecure: h.Insecure, Token: h.Token, TokenFile: h.TokenFile, Username: h.Username, Password: h.Password,
		Job: h.Job, CPUMetric: h.CPUMetric, MemoryMetric: h.MemoryMetric, Length: durations[0], Resolution: durations[1], Timeout: durations[2],
		NamespaceLabel: h.ContainerNamespaceLabel, PodLabel: h.ContainerPodLabel, ContainerLabel: h.ContainerNameLabel,
		LabelsMetric: h.PodLabelsMetric, LabelPrefix: h.PodLabelPrefix, LabelsNamespaceLabel: h.PodNamespaceLabel, LabelsPodLabel: h.PodNameLabel,
	}
	transport, err := prom.Transport(config)
	if err != nil {
		return nil, process.UsageError{Err: fmt.Errorf("--storage=prometheus: %w", err)}
	}
	transport = promhttp.InstrumentRoundTripperDuration(m.durations, promhttp.InstrumentRoundTripperCounter(m.requests, transport))
	c, err := prom.NewWithTransport(config, transport)
	if err != nil {
		return nil, process.UsageError{Err: fmt.Errorf("--storage=prometheus: %w", err)}
	}
	return c, nil
}
