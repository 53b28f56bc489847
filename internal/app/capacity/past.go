// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/inspection"
	"podfit.dev/podfit/internal/edge/prom"
	"podfit.dev/podfit/internal/edge/prom/discovery"
)

// An endpoint is a Prometheus.
type endpoint struct {
	address   string
	name      string // for the report
	transport http.RoundTripper
}

// The bounds of reading the past.
const (
	queryDays    = 7 // days of a query
	queryTimeout = time.Minute
)

// readPast returns the histories with the days that Prometheus has, the name of the source, and what could not be read. The days that are
// known already are kept.
func (j *job) readPast(ctx context.Context, clients *kube.Clients, s *scene, settings *capacity.Settings, allocatable bool, known map[string]*capacity.History) (map[string]*capacity.History, string, []string, error) {
	from, err := j.locate(ctx, clients)
	if err != nil {
		return nil, "", nil, err
	}
	client, err := prom.NewWithTransport(prom.Config{Address: from.address, Timeout: queryTimeout, Length: time.Hour, Resolution: time.Hour}, from.transport)
	if err != nil {
		return nil, "", nil, err
	}
	out := maps.Clone(known)
	today := capacity.DayOf(s.now)
	oldest := today - capacity.MostDays + 1
	var gaps []string
	for before := today; before > oldest; before -= queryDays {
		first := max(before-queryDays, oldest)
		hours, err := client.Requests(ctx, prom.RequestsQuery{
			From: first.Time(), To: before.Time().Add(-time.Second), Allocatable: allocatable, Matchers: j.config.matchers(),
		})
		if err != nil {
			err = fmt.Errorf("%s: %w", from.name, err)
			if before == today || ctx.Err() != nil {
				return nil, "", nil, err
			}
			gaps = append(gaps, fmt.Sprintf("requests before %s: %v", before, err))
			break
		}
		if len(hours) == 0 {
			if before == today {
				return nil, "", nil, fmt.Errorf("%s has no series kube_pod_container_resource_requests of the last %d days: it must scrape kube-state-metrics, and --cluster-label must match", from.name, queryDays)
			}
			break // nothing is stored from before
		}
		for name, days := range capacity.Collect(hours, s.world.Nodes, &settings.Rules) {
			h := out[name]
			if h == nil {
				h = new(capacity.History)
				out[name] = h
			}
			h.Fill(days, today)
		}
	}
	return out, from.name, gaps, nil
}

// matchers returns the additional matchers of series.
func (c *Config) matchers() []string {
	name, value, ok := strings.Cut(c.ClusterLabel, "=")
	if !ok {
		return nil
	}
	return []string{name + "=" + strconv.Quote(value)}
}

// locate returns the Prometheus to read: from the flag, the environment variable, or the only one among the Services of the cluster.
func (j *job) locate(ctx context.Context, clients *kube.Clients) (*endpoint, error) {
	c := &j.config
	if address := c.address(); address != "" {
		if !isURL(address) {
			return nil, fmt.Errorf("%s must be a URL such as http://localhost:9090, got %q", addressVariable, address)
		}
		base, err := prom.Transport(prom.Config{TokenFile: c.TokenFile})
		if err != nil {
			return nil, err
		}
		return &endpoint{address, "Prometheus " + withoutUser(address), &headers{base, c.Headers}}, nil
	}
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
		return nil, err // it has the remedy
	}
	address, err := inspection.ServiceProxy(clients, found.Key, found.Scheme, found.Port, found.Path)
	if err != nil {
		return nil, err
	}
	add := c.Headers
	for name, value := range found.Header {
		add = append(add, name+": "+value)
	}
	return &endpoint{address, found.Product + " " + found.Key.String(), &headers{clients.HTTP.Transport, add}}, nil
}

var userInURL = regexp.MustCompile(`//[^/@]*@`)

// withoutUser returns a URL without a user and password.
func withoutUser(url string) string { return userInURL.ReplaceAllString(url, "//") }

// headers adds headers to requests.
type headers struct {
	next http.RoundTripper
	add  []string // "Name: value"
}

// RoundTrip implements http.RoundTripper.
func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for _, header := range h.add {
		name, value, _ := strings.Cut(header, ":")
		r.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return h.next.RoundTrip(r)
}
