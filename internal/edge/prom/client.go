// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package prom reads usage history from Prometheus, or from a server with the same HTTP API.
//
// It queries one namespace and one time range after the other, so that neither side holds the history of the whole
// cluster in memory. It makes no decisions: it returns samples and labels as they are stored.
package prom

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Config has the address of Prometheus, the credentials, and the names of its series.
type Config struct {
	Address            string
	Insecure           bool // do not verify the server's certificate
	Token, TokenFile   string
	Username, Password string
	Timeout            time.Duration // of one query
	GetOnly            bool          // send no POST: through an API server it is a write, and needs the right to create

	Job                     string        // job label of the usage series; "" matches any job
	CPUMetric, MemoryMetric string        // a counter of CPU seconds, and a gauge of bytes
	Length, Resolution      time.Duration // how far history goes back, and the time between samples

	// The labels that identify a container in usage series.
	NamespaceLabel, PodLabel, ContainerLabel string

	// The metric whose series have the labels of pods, the prefix of these labels, and the labels that identify a pod.
	LabelsMetric, LabelPrefix            string
	LabelsNamespaceLabel, LabelsPodLabel string
}

// A Client reads from one Prometheus.
type Client struct {
	http   *http.Client
	config Config
}

// New returns a client that sends requests with Transport. It sends no request.
func New(c Config) (*Client, error) {
	transport, err := Transport(c)
	if err != nil {
		return nil, err
	}
	return NewWithTransport(c, transport)
}

// Transport returns the HTTP transport that a configuration needs, with the credentials. It adds headers to requests, "Name: value".
func Transport(c Config, headers ...string) (http.RoundTripper, error) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("connect to Prometheus: the default HTTP transport must be an *http.Transport, got %T", http.DefaultTransport)
	}
	base = base.Clone()
	if c.Insecure {
		base.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // requested by flag
	}
	return Authenticated(base, c, headers...), nil
}

// Authenticated returns a transport that adds headers and the credentials of a configuration to requests.
func Authenticated(next http.RoundTripper, c Config, headers ...string) http.RoundTripper {
	return &authenticated{next: next, config: c, headers: headers}
}

// NewWithTransport returns a client that sends requests with a transport, for example one that counts requests and passes them to
// Transport. It sends no request.
func NewWithTransport(c Config, transport http.RoundTripper) (*Client, error) {
	switch {
	case c.Length <= 0:
		return nil, fmt.Errorf("history length must be positive, got %v", c.Length)
	case c.Resolution <= 0:
		return nil, fmt.Errorf("history resolution must be positive, got %v", c.Resolution)
	case c.Token != "" && c.TokenFile != "":
		return nil, errors.New("a bearer token and a bearer token file must not both be set")
	}
	if _, err := url.Parse(c.Address); err != nil {
		return nil, fmt.Errorf("connect to Prometheus at %q: %w", c.Address, err)
	}
	return &Client{http: &http.Client{Transport: checked{transport}}, config: c}, nil
}

// authenticated adds headers and credentials to requests. It reads the token file for each request, because tokens are rotated.
type authenticated struct {
	next    http.RoundTripper
	config  Config
	headers []string
}

func (a *authenticated) RoundTrip(r *http.Request) (*http.Response, error) {
	token := a.config.Token
	if a.config.TokenFile != "" {
		data, err := os.ReadFile(a.config.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("read the bearer token for Prometheus: %w", err)
		}
		token = strings.TrimSpace(string(data))
	}
	r = r.Clone(r.Context())
	for _, header := range a.headers {
		name, value, _ := strings.Cut(header, ":")
		r.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	switch {
	case token != "":
		r.Header.Set("Authorization", "Bearer "+token)
	case a.config.Username != "" || a.config.Password != "":
		r.SetBasicAuth(a.config.Username, a.config.Password)
	}
	return a.next.RoundTrip(r)
}
