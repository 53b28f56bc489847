// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/throttling"
	"podfit.dev/podfit/internal/edge/prom"
)

// PrometheusConfig is how the CPU throttling of canaries is read from Prometheus. Without an address, it is not read.
type PrometheusConfig struct {
	Address                                  string
	Insecure                                 bool
	Token, TokenFile                         string
	Username, Password                       string
	NamespaceLabel, PodLabel, ContainerLabel string
}

// prometheusDefaults returns the names of the labels that the kubelet's cAdvisor uses.
func prometheusDefaults() PrometheusConfig {
	return PrometheusConfig{NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container"}
}

// flags binds the configuration to flags with the names that the recommender has for its Prometheus. "podfit run" has the flags of the
// recommender.
func (c *PrometheusConfig) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Address, "prometheus-address", c.Address, "URL of a Prometheus that scrapes cAdvisor. The updater reads there whether the CPU of canaries is throttled "+
		"(annotation podfit.dev/rollout). Empty means that canaries are judged without it.")
	fs.BoolVar(&c.Insecure, "prometheus-insecure", c.Insecure, "If true, do not verify the TLS certificate of Prometheus.")
	fs.StringVar(&c.TokenFile, "prometheus-bearer-token-file", c.TokenFile, "Path of a file that contains the bearer token for Prometheus.")
	fs.StringVar(&c.NamespaceLabel, "container-namespace-label", c.NamespaceLabel, "Label of the usage metrics that contains the namespace.")
	fs.StringVar(&c.PodLabel, "container-pod-name-label", c.PodLabel, "Label of the usage metrics that contains the pod name.")
	fs.StringVar(&c.ContainerLabel, "container-name-label", c.ContainerLabel, "Label of the usage metrics that contains the container name.")
}

// Validate returns an error for each invalid flag.
func (c *PrometheusConfig) Validate() error {
	if c.Address == "" {
		return nil
	}
	var errs []error
	u, err := url.Parse(c.Address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		errs = append(errs, fmt.Errorf("--prometheus-address must be a URL such as http://prometheus.monitoring.svc, got %q", c.Address))
	}
	for _, l := range []struct{ flag, value string }{
		{"container-namespace-label", c.NamespaceLabel}, {"container-pod-name-label", c.PodLabel}, {"container-name-label", c.ContainerLabel},
	} {
		if l.value == "" {
			errs = append(errs, fmt.Errorf("--%s must not be empty if --prometheus-address is set", l.flag))
		}
	}
	return errors.Join(errs...)
}

// newThrottling returns an observer of canaries, or nil if there is no Prometheus.
func newThrottling(c *Config, h *process.Health, log *slog.Logger) (*throttling.Observer, error) {
	p := &c.Prometheus
	if p.Address == "" {
		return nil, nil
	}
	client, err := prom.New(prom.Config{
		Address: p.Address, Insecure: p.Insecure, Token: p.Token, TokenFile: p.TokenFile, Username: p.Username, Password: p.Password,
		Timeout: throttling.QueryTimeout, NamespaceLabel: p.NamespaceLabel, PodLabel: p.PodLabel, ContainerLabel: p.ContainerLabel,
		Length: time.Hour, Resolution: time.Minute, // of histories, which are not read
	})
	if err != nil {
		return nil, process.UsageError{Err: fmt.Errorf("--prometheus-address: %w", err)}
	}
	return throttling.New(client, c.Interval, h, log), nil
}
