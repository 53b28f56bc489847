// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/inspection"
	"podfit.dev/podfit/internal/edge/prom"
	"podfit.dev/podfit/internal/edge/prom/discovery"
)

// PrometheusVariable is the environment variable with the URL of Prometheus.
const PrometheusVariable = "PROMETHEUS_URL"

// A PrometheusConfig says which Prometheus a command on a terminal reads, and with which requests.
type PrometheusConfig struct {
	Prometheus   string   // URL; "" means that of the environment variable, or a Service of the cluster
	Headers      []string // "Name: value"
	TokenFile    string
	ClusterLabel string // "name=value", "" for none
}

// Flags binds the configuration to flags. of says which metrics the Prometheus must have.
func (c *PrometheusConfig) Flags(f *pflag.FlagSet, of string) {
	f.StringVar(&c.Prometheus, "prometheus", c.Prometheus, "URL of a Prometheus with the metrics of "+of+".")
	f.StringArrayVar(&c.Headers, "prometheus-header", c.Headers, "HTTP header for requests to Prometheus, such as 'X-Scope-OrgID: shop'. Can be repeated.")
	f.StringVar(&c.TokenFile, "prometheus-token-file", c.TokenFile, "Path of a file that contains a bearer token for Prometheus.")
	f.StringVar(&c.ClusterLabel, "cluster-label", c.ClusterLabel, "Label and value of the series of this cluster, such as cluster=prod, in a Prometheus with several clusters.")
}

// Validate returns all invalid flags as one error.
func (c *PrometheusConfig) Validate() error {
	var errs Problems
	errs.AddIf(c.Prometheus != "" && !IsURL(c.Prometheus), "--prometheus must be a URL such as http://localhost:9090, got %q", c.Prometheus)
	for _, h := range c.Headers {
		name, _, ok := strings.Cut(h, ":")
		errs.AddIf(!ok || strings.TrimSpace(name) == "" || strings.ContainsAny(h, "\r\n"), "--prometheus-header must be 'Name: value', got %q", h)
	}
	name, _, ok := strings.Cut(c.ClusterLabel, "=")
	errs.AddIf(c.ClusterLabel != "" && (!ok || !model.LegacyValidation.IsValidLabelName(name)), "--cluster-label must be a label and a value such as cluster=prod, got %q", c.ClusterLabel)
	return errors.Join(errs...)
}

// Matchers returns the additional matchers of series.
func (c *PrometheusConfig) Matchers() []string {
	name, value, ok := strings.Cut(c.ClusterLabel, "=")
	if !ok {
		return nil
	}
	return []string{name + "=" + strconv.Quote(value)}
}

// IsURL reports whether s is an HTTP or HTTPS URL with a host.
func IsURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// GivenURL returns the URL in the flag or the environment variable, "" if neither is set.
func (c *PrometheusConfig) GivenURL() string {
	return cmp.Or(c.Prometheus, os.Getenv(PrometheusVariable))
}

// A PrometheusEndpoint is a Prometheus to read.
type PrometheusEndpoint struct {
	Address   string
	Name      string // for people; without a password
	Transport http.RoundTripper
	Proxied   bool     // it is read through the API server
	Headers   []string // that Transport adds, "Name: value"
}

// Given returns the Prometheus of the flag or the environment variable, or nil if neither is set.
func (c *PrometheusConfig) Given() (*PrometheusEndpoint, error) {
	address := c.GivenURL()
	if address == "" {
		return nil, nil
	}
	if !IsURL(address) {
		return nil, fmt.Errorf("%s must be a URL such as http://localhost:9090, got %q", PrometheusVariable, address)
	}
	transport, err := c.Transport()
	if err != nil {
		return nil, err
	}
	return &PrometheusEndpoint{Address: address, Name: "Prometheus " + withoutUser(address), Transport: transport, Headers: c.Headers}, nil
}

// Transport returns a round tripper with the headers and the token of the flags.
func (c *PrometheusConfig) Transport() (http.RoundTripper, error) {
	return prom.Transport(prom.Config{TokenFile: c.TokenFile}, c.Headers...)
}

// Found returns the only Prometheus among the Services of the cluster, read through the API server. The error has the remedy, and is a
// discovery.Several if there is more than one.
func (c *PrometheusConfig) Found(ctx context.Context, clients *kube.Clients) (*PrometheusEndpoint, error) {
	services, err := inspection.Services(ctx, clients, discovery.Selectors())
	if err != nil {
		return nil, fmt.Errorf("search for Prometheus: %w; set --prometheus", err)
	}
	objects, err := inspection.Prometheuses(ctx, clients)
	if err != nil {
		return nil, fmt.Errorf("search for Prometheus: %w; set --prometheus", err)
	}
	found, err := discovery.Choose(services, objects)
	if err != nil {
		return nil, err
	}
	address, err := inspection.ServiceProxy(clients, found.Key, found.Scheme, found.Port, found.Path)
	if err != nil {
		return nil, fmt.Errorf("address of Prometheus %s: %w", found.Key, err)
	}
	add := slices.Clone(c.Headers)
	for name, value := range found.Header {
		if !c.setsHeader(name) {
			add = append(add, name+": "+value)
		}
	}
	transport := prom.Authenticated(clients.HTTP.Transport, prom.Config{}, add...)
	return &PrometheusEndpoint{Address: address, Name: found.Product + " " + found.Key.String(), Transport: transport, Proxied: true, Headers: add}, nil
}

func (c *PrometheusConfig) setsHeader(name string) bool {
	return slices.ContainsFunc(c.Headers, func(h string) bool {
		given, _, _ := strings.Cut(h, ":")
		return strings.EqualFold(strings.TrimSpace(given), name)
	})
}

var userInURL = regexp.MustCompile(`//[^/@]*@`)

// withoutUser returns a URL without a user and password.
func withoutUser(address string) string { return userInURL.ReplaceAllString(address, "//") }
