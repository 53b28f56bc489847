// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/metrics"
	"podfit.dev/podfit/test/kubetest"
)

// Throttling is read only from a Prometheus that the user has named, because the default address may be another one or none.
func TestNewObserver_flags_readThrottlingOnlyIfAPrometheusIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		flags []string
		want  bool
	}{
		"no flag":         {nil, false},
		"address":         {[]string{"--prometheus-address=http://prometheus:9090"}, true},
		"default address": {[]string{"--prometheus-address=http://prometheus.monitoring.svc"}, true},
		"storage":         {[]string{"--storage=prometheus"}, true},
		"other storage":   {[]string{"--storage=checkpoint"}, false},
	} {
		config := Defaults()
		fs := pflag.NewFlagSet("recommender", pflag.ContinueOnError)
		config.Flags(fs)
		if err := fs.Parse(c.flags); err != nil {
			t.Fatal(err)
		}
		o, err := newObserver(&config, NewMetrics(prometheus.NewRegistry()), nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := config.HasPrometheus(); got != c.want || (o != nil) != c.want {
			t.Errorf("%s: a Prometheus is named: %t, observer %v, want %t", name, got, o, c.want)
		}
	}
}

// A caller that is stopped before the cluster is known gets no error, and nothing begins.
func TestAfterSync_ctxEnds_returnsNoError(t *testing.T) {
	clients, err := kube.ClientsFor(kubetest.NewFakeAPI(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	work := afterSync(watcher.NewWorld(clients, watcher.Options{Log: slog.New(slog.DiscardHandler)}), func(context.Context) { t.Error("the work began") })
	if err := work(ctx); err != nil {
		t.Error(err)
	}
}

func TestCountReading_requestsAndContainers_areCounted(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	_, _ = m.counted(metrics.Reading{}, nil)
	_, _ = m.counted(metrics.Reading{Answered: 3, Failed: 2, Unreadable: 5}, nil)
	_, _ = m.counted(metrics.Reading{Answered: 1}, nil)
	for want, c := range map[float64]prometheus.Counter{
		4: m.responses.WithLabelValues("false", "default-metrics-client"),
		2: m.responses.WithLabelValues("true", "default-metrics-client"),
		5: m.rejected.WithLabelValues("unreadable"),
	} {
		if got := testutil.ToFloat64(c); got != want {
			t.Errorf("%s is %v, want %v", c.Desc(), got, want)
		}
	}
}

func TestOriginOf_eachOrigin_isNamed(t *testing.T) {
	for want, c := range map[string]criticality.Factor{
		"the label of other pods": {Origin: derivation.FromLabel},
		"PriorityClass payments":  {Origin: derivation.FromPriorityClass, Class: "payments"},
		"the profile":             {Origin: derivation.FromProfile},
	} {
		if got := originOf(c); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Recommendations may be exported by another process than the one that makes them, so that the metrics exist without series.
func TestNewExporter_noRecommendations_hasMetricsWithoutSeries(t *testing.T) {
	reg := prometheus.NewRegistry()
	NewExporter(reg)
	families, err := reg.Gather()
	if err != nil || len(families) != 0 {
		t.Errorf("got %v, error %v", families, err)
	}
	if err := reg.Register(NewExporter(prometheus.NewRegistry())); err == nil {
		t.Error("the metrics are not registered: the same ones can be registered again")
	}
}
