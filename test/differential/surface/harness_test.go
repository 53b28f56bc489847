// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package surface

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admission "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/config"
	recommender "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/config"
	updater "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/config"
	metrics_admission "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/metrics/admission"
	metrics_quality "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/metrics/quality"
	metrics_recommender "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/metrics/recommender"
	metrics_resources "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/metrics/resources"
	metrics_updater "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/metrics/updater"
	"k8s.io/component-base/config"
	"k8s.io/component-base/config/options"

	"podfit.dev/podfit/test/contract"
)

// componentVariable is the environment variable that makes a process of this test report one of upstream's components.
const componentVariable = "PODFIT_UPSTREAMS_COMPONENT"

// A part is one of the three components.
type part struct {
	flags   func() []contract.Flag
	metrics func() []contract.Metric
	start   func() // the setup in upstream's main function
}

var parts = map[string]part{
	"recommender": {contract.RecommenderFlags, contract.RecommenderMetrics, func() {
		election("vpa-recommender-lease")
		recommender.InitRecommenderFlags()
		metrics_recommender.Register()
		metrics_quality.Register()
		metrics_resources.Register()
	}},
	"updater": {contract.UpdaterFlags, contract.UpdaterMetrics, func() {
		election("vpa-updater")
		updater.InitUpdaterFlags()
		metrics_updater.Register()
	}},
	"admission-controller": {contract.AdmissionFlags, contract.AdmissionMetrics, func() {
		admission.InitAdmissionControllerFlags()
		metrics_admission.Register()
	}},
}

// election registers the flags of leader election with the defaults of upstream's main function.
func election(lease string) {
	options.BindLeaderElectionFlags(&config.LeaderElectionConfiguration{
		LeaseDuration: metav1.Duration{Duration: 15 * time.Second}, RenewDeadline: metav1.Duration{Duration: 10 * time.Second},
		RetryPeriod:  metav1.Duration{Duration: 2 * time.Second},
		ResourceLock: "leases", ResourceName: lease, ResourceNamespace: "kube-system",
	}, pflag.CommandLine)
}

// A component has the flags and metrics of one of upstream's components.
type component struct {
	Flags   map[string]flag
	Metrics map[string]contract.Metric
}

// A flag has a default, and the result for each of the values.
type flag struct {
	Default, Type string
	NeedsNoValue  bool
	Reads         map[string]string // by value; a missing value is refused
}

// values are set for every flag.
var values = []string{
	"", "0", "1", "-1", "7", "00", "1.5", "-0.5", "1e3", "100.5", ".5", "0x10", "1_000", "9223372036854775807", "9223372036854775808",
	"NaN", "Inf", "true", "T", "false", "yes", "90s", "1h30m", "-5m", "8d", "100m", "1Gi", "2k", "1.2.3", "x", "a,b", "a:b,c:d", "a=b",
	"InPlace=true", "AllAlpha=true,InPlace=false", "NoSuchGate=true", " 1 ",
}

// read returns the description of a flag.
func read(f *pflag.Flag) flag {
	out := flag{Default: f.DefValue, Type: f.Value.Type(), NeedsNoValue: f.NoOptDefVal != "", Reads: map[string]string{}}
	before := f.Value.String()
	for _, v := range values {
		if f.Value.Set(v) == nil {
			out.Reads[v] = f.Value.String()
		}
		_ = f.Value.Set(before)
	}
	return out
}

// collected is a registry that only records the collectors.
type collected map[string]contract.Metric

func (c collected) Register(m prometheus.Collector) error {
	ds := make(chan *prometheus.Desc, 64)
	m.Describe(ds)
	close(ds)
	for d := range ds {
		between := func(from, to string) string {
			_, rest, _ := strings.Cut(d.String(), from)
			v, _, _ := strings.Cut(rest, to)
			return v
		}
		out := contract.Metric{Name: between(`fqName: "`, `"`)}
		if labels := between("variableLabels: {", "}"); labels != "" {
			out.Labels = strings.Split(labels, ",")
		}
		one, err := child(m, len(out.Labels))
		if err != nil {
			return fmt.Errorf("%s: %w", out.Name, err)
		}
		switch {
		case one.Counter != nil:
			out.Type = "counter"
		case one.Gauge != nil:
			out.Type = "gauge"
		case one.Histogram != nil:
			out.Type = "histogram"
			for _, b := range one.Histogram.GetBucket() {
				out.Buckets = append(out.Buckets, b.GetUpperBound())
			}
		}
		c[out.Name] = out
	}
	return nil
}

// child returns a metric of a collector with n labels.
func child(c prometheus.Collector, labels int) (*dto.Metric, error) {
	values := make([]string, labels)
	var m prometheus.Metric
	switch c := c.(type) {
	case *prometheus.CounterVec:
		m = c.WithLabelValues(values...)
	case *prometheus.GaugeVec:
		m = c.WithLabelValues(values...)
	case *prometheus.HistogramVec:
		m = c.WithLabelValues(values...).(prometheus.Metric)
	case prometheus.Metric:
		m = c
	default:
		return nil, fmt.Errorf("unsupported collector type %T", c)
	}
	var out dto.Metric
	return &out, m.Write(&out)
}

func (c collected) MustRegister(ms ...prometheus.Collector) {
	for _, m := range ms {
		if err := c.Register(m); err != nil {
			panic(err)
		}
	}
}

func (c collected) Unregister(prometheus.Collector) bool { return false }

func TestMain(m *testing.M) {
	name := os.Getenv(componentVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	c := component{map[string]flag{}, map[string]contract.Metric{}}
	prometheus.DefaultRegisterer = collected(c.Metrics)
	os.Args = os.Args[:1]
	parts[name].start()
	pflag.CommandLine.VisitAll(func(f *pflag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") && !strings.HasPrefix(f.Name, "rapid.") {
			c.Flags[f.Name] = read(f)
		}
	})
	if err := json.NewEncoder(os.Stdout).Encode(c); err != nil {
		panic(err)
	}
}

// upstream returns the description of one of upstream's components.
func upstream(t *testing.T, name string) (c component) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), componentVariable+"="+name)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	if err := json.Unmarshal(out.Bytes(), &c); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return c
}
