// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package survey reads the hourly peaks of all containers of many namespaces from Prometheus, or from a server with the same HTTP
// API, without overloading it.
//
// Prometheus computes the peaks, and joins pods with their owners if a recording rule stores these. A first set of cheap queries
// counts the series and finds the scrape interval (Survey.Plan). Then the survey reads one day of some namespaces after the other
// (Survey.Read). A query is so small that Prometheus needs at most a fifth of the samples that it permits per query. If Prometheus
// rejects a query as too large, or is overloaded, the survey waits and halves the query. No query is sent again unchanged. What is
// missing in the end is a Gap. A Cache stores past days, so that the next run reads only the present day.
//
// It makes no decisions about sizes: it returns usage as it is stored.
package survey

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// Config selects a Prometheus and bounds the load of the survey on it.
type Config struct {
	Address   string            // URL, which may have a path, such as that of the service proxy of the API server
	Transport http.RoundTripper // with the credentials, such as prom.Transport returns; nil is http.DefaultTransport
	Params    url.Values        // additional parameters of each query, such as partial_response of Thanos
	Labels    []Label           // labels that the series of this cluster have, if Prometheus stores several clusters

	Tenant string // whatever else selects the data, such as a header for a tenant; days of one tenant are not read from the cache for another

	Parallel int           // queries at a time: 1 is gentle, 2 is normal; 0 is 1
	Timeout  time.Duration // of one query; 0 is 50 seconds
	MaxReply int64         // maximum length of an answer in bytes; 0 is 64 MiB
	Cache    *Cache        // nil: every day is read from Prometheus
}

// A Label is a name and a value.
type Label struct{ Name, Value string }

// defaultTimeout is below the query timeout of Prometheus, which is two minutes by default, and below the request timeout of the API
// server, which is one minute by default and applies to its service proxy.
const defaultTimeout = 50 * time.Second

// A Survey reads from one Prometheus. It runs one Plan or Read at a time.
type Survey struct {
	config Config
	client *http.Client
	base   *url.URL

	mu       sync.Mutex // guards progress
	progress Progress
}

// New returns a Survey. It sends no request.
func New(c Config) (*Survey, error) {
	base, err := url.Parse(c.Address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("the address of Prometheus must be a URL such as http://localhost:9090, got %q", c.Address)
	}
	for _, l := range c.Labels {
		if !labelName.MatchString(l.Name) {
			return nil, fmt.Errorf("%q is not a valid label name; letters, digits and _ are allowed", l.Name)
		}
	}
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.MaxReply <= 0 {
		c.MaxReply = maxReply
	}
	const maxParallel = 2 // queries at a time
	c.Parallel = min(max(c.Parallel, 1), maxParallel)
	base.Path = strings.TrimSuffix(base.Path, "/")
	base.RawQuery = ""
	base.Fragment = ""
	return &Survey{config: c, client: &http.Client{Transport: c.Transport, CheckRedirect: sameHost}, base: base}, nil
}

// sameHost follows redirects to the same host only. The transport would send the credentials to any other host, such as that of a login.
func sameHost(r *http.Request, via []*http.Request) error {
	if len(via) > 5 || r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// An Hour is the usage of a container in one hour.
type Hour struct {
	Namespace, Container string

	// Workload is the owner of the pods, if Prometheus stores it. The usage is then that of the pod that used most.
	// If Workload is zero, Pod is the pod that was measured.
	Workload cluster.Workload
	Pod      string

	End         time.Time   // end of the hour
	CPU, Memory float64     // peaks in cores and bytes; CPU is an average of a few minutes
	Has         cluster.Set // which of the two were measured
	Kills       int         // OOM kills, of all pods
	Throttled   float64     // share of the CPU periods in which the container was throttled, from 0 to 1

	KilledRequest int64 // highest memory request of a killed container in bytes; 0: not known
}

// Key returns the key of the pod. For all pods of a workload it is a key that no pod has: Kind/Name in place of the name.
func (h *Hour) Key() cluster.Key {
	if h.Workload.IsZero() {
		return cluster.Key{Namespace: h.Namespace, Name: h.Pod}
	}
	return cluster.Key{Namespace: h.Namespace, Name: h.Workload.Kind + "/" + h.Workload.Name}
}

// Sample returns the peaks as a sample at the end of the hour.
func (h *Hour) Sample() usage.Sample {
	return usage.Sample{Pod: h.Key(), Container: h.Container, At: h.End, CPU: h.CPU, Memory: h.Memory, Has: h.Has}
}

// Progress is how much of a plan is read.
type Progress struct {
	Done, Planned int       // queries; Planned grows when queries are halved
	Failed        int       // queries that failed and were halved or given up; Done includes them
	Namespaces    []string  // what is read now
	Day           time.Time // and of which day
	WaitsUntil    time.Time // the end of the last back-off; zero if there was none
}

// Progress returns the progress of the running Read. Any goroutine may call it.
func (s *Survey) Progress() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress
}

func (s *Survey) update(change func(*Progress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.progress)
}
