// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// Config says where Prometheus is, how to authenticate, and how its series are named.
type Config struct {
	Address            string
	Insecure           bool // do not verify the server's certificate
	Token, TokenFile   string
	Username, Password string
	Timeout            time.Duration // of one query

	Job                     string        // of the series with usage; "" is any
	CPUMetric, MemoryMetric string        // a counter of CPU seconds, and a gauge of bytes
	Length, Resolution      time.Duration // how far back, and how finely

	// The labels by which usage series name a container.
	NamespaceLabel, PodLabel, ContainerLabel string

	// The series that carry the labels of pods, the prefix that pod labels have there, and the labels that name the pod.
	LabelsMetric, LabelPrefix            string
	LabelsNamespaceLabel, LabelsPodLabel string

	// Wrap, if set, is put around the connection, to count requests.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// A Client reads from one Prometheus.
type Client struct {
	api    promv1.API
	config Config
}

// New returns a client. It sends nothing yet.
func New(c Config) (*Client, error) {
	switch {
	case c.Length <= 0:
		return nil, fmt.Errorf("length of history is %v: it must be above 0", c.Length)
	case c.Resolution <= 0:
		return nil, fmt.Errorf("resolution of history is %v: it must be above 0", c.Resolution)
	case c.Token != "" && c.TokenFile != "":
		return nil, errors.New("a bearer token and a file with one exclude each other")
	}
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default HTTP transport has been replaced")
	}
	base = base.Clone()
	if c.Insecure {
		base.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // asked for by flag
	}
	var rt http.RoundTripper = &authenticated{next: base, config: c}
	if c.Wrap != nil {
		rt = c.Wrap(rt)
	}
	client, err := api.NewClient(api.Config{Address: c.Address, RoundTripper: rt})
	if err != nil {
		return nil, fmt.Errorf("connect to Prometheus at %q: %w", c.Address, err)
	}
	return &Client{api: promv1.NewAPI(client), config: c}, nil
}

// authenticated adds credentials to requests. A token file is read for every request: tokens are renewed.
type authenticated struct {
	next   http.RoundTripper
	config Config
}

// RoundTrip implements http.RoundTripper.
func (a *authenticated) RoundTrip(r *http.Request) (*http.Response, error) {
	token := a.config.Token
	if a.config.TokenFile != "" {
		data, err := os.ReadFile(a.config.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("read the bearer token for Prometheus: %w", err)
		}
		token = strings.TrimSpace(string(data))
	}
	switch {
	case token != "":
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	case a.config.Username != "" || a.config.Password != "":
		r = r.Clone(r.Context())
		r.SetBasicAuth(a.config.Username, a.config.Password)
	}
	return a.next.RoundTrip(r)
}
