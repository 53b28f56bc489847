// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubelet reads the usage of containers from the kubelets of their nodes, at /metrics/resource, as metrics-server does, and the memory pressure of
// nodes. It decides nothing.
package kubelet

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/guard"
	"podfit.dev/podfit/internal/core/usage"
)

// maxBody is the number of bytes of a response that are read. One of 500 containers has 0.3 MB.
const maxBody = 8 << 20

// maxNode is likewise that of a summary. What is before the pods has some kilobytes.
const maxNode = 256 << 10

// metrics are CPU seconds since the start, bytes of memory, and the start.
var metrics = [...]string{"container_cpu_usage_seconds_total", "container_memory_working_set_bytes", "container_start_time_seconds"}

// A Client reads from kubelets. It follows no redirects, because another server would get the token.
type Client struct{ transport http.RoundTripper }

// New returns a client with the credentials and the authority of a configuration for the API server. An insecure one trusts any certificate.
func New(cfg *rest.Config, insecure bool) (*Client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ServerName = ""
	cfg.Insecure = insecure
	if insecure {
		cfg.CAFile = ""
		cfg.CAData = nil
	}
	transport, err := rest.TransportFor(cfg)
	return &Client{transport}, err
}

// Read returns readings of the containers of some pods: memory, and the mean CPU since the start of the container if that is known. The address is
// that of the kubelet with its port.
func (c *Client) Read(ctx context.Context, address string, pods map[cluster.Key]*cluster.Pod) ([]usage.Sample, error) {
	body, err := c.get(ctx, "https://"+address+"/metrics/resource", maxBody)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return parse(body, pods)
}

// get requests a URL, and returns the beginning of the body, which the caller closes.
func (c *Client) get(ctx context.Context, url string, most int64) (io.ReadCloser, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := c.transport.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("get %s: %s", q.URL, response.Status)
	}
	return http.MaxBytesReader(nil, response.Body, most), nil
}

// nodeStats are fields of a node in stats/v1alpha1 of the kubelet. Avg60 is a percentage, and Total a time since the start of the node.
type nodeStats struct {
	Memory struct {
		Time time.Time
		PSI  struct {
			Full struct{ Total, Avg60 float64 }
		}
	}
}

// Pressures returns the memory pressure of those nodes whose kubelets report it (KEP-4205), and the error of one that could not be read. Kubelets before
// Kubernetes 1.33 do not report it, and on kernels without PSI they report 0. All are read at the same time.
func (c *Client) Pressures(ctx context.Context, nodes []cluster.Node) (map[string]guard.Pressure, error) {
	known := map[string]guard.Pressure{}
	var mu sync.Mutex
	var all errgroup.Group
	for i := range nodes {
		all.Go(func() error {
			body, err := c.get(ctx, "https://"+nodes[i].Kubelet+"/stats/summary?only_cpu_and_memory=true", maxNode)
			if err != nil {
				return err
			}
			defer body.Close()
			p, reported, err := pressureIn(body)
			if err != nil {
				return fmt.Errorf("read the summary of node %s: %w", nodes[i].Name, err)
			}
			if reported {
				mu.Lock()
				defer mu.Unlock()
				known[nodes[i].Name] = p
			}
			return nil
		})
	}
	return known, all.Wait()
}

// pressureIn reads a summary up to its pods.
func pressureIn(body io.Reader) (p guard.Pressure, reported bool, err error) {
	summary := json.NewDecoder(body)
	for _, want := range [...]json.Token{json.Delim('{'), "node"} { // kubelets write the node first
		if got, err := summary.Token(); got != want {
			return p, false, errors.Join(errors.New("the summary of the kubelet must begin with the field node"), err)
		}
	}
	var node nodeStats
	if err := summary.Decode(&node); err != nil {
		return p, false, err
	}
	full := node.Memory.PSI.Full
	if full.Avg60 < 0 || full.Avg60 > 100 {
		return p, false, fmt.Errorf("memory pressure must be between 0 and 100 %%, got %v", full.Avg60)
	}
	return guard.Pressure{At: node.Memory.Time, Share: full.Avg60 / 100}, full.Total > 0, nil
}

// A report is what a kubelet reports of a container.
type report struct {
	usage.Sample
	seconds       float64    // CPU since the start
	read, started model.Time // of seconds, and of the container; 0: not known
}

// parse reads one line after the other, so that it holds one beside the result.
func parse(body io.Reader, pods map[cluster.Key]*cluster.Pod) (out []usage.Sample, err error) {
	lines := bufio.NewScanner(body)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	reports := map[[3]string]*report{}
	for lines.Scan() {
		name, _, _ := strings.Cut(lines.Text(), "{")
		if !slices.Contains(metrics[:], name) {
			continue
		}
		families, err := parser.TextToMetricFamilies(strings.NewReader(lines.Text() + "\n"))
		if err != nil {
			return nil, err
		}
		values, _ := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, families[name]) // a metric of no type is a value
		for _, v := range values {
			id := [3]string{string(v.Metric["namespace"]), string(v.Metric["pod"]), string(v.Metric["container"])}
			p := pods[cluster.Key{Namespace: id[0], Name: id[1]}]
			if p == nil || !slices.ContainsFunc(p.Containers, func(c cluster.Container) bool { return c.Name == id[2] }) {
				continue
			}
			r := cmp.Or(reports[id], &report{Sample: usage.Sample{Pod: p.Key, Container: id[2], Reading: true}})
			reports[id] = r
			switch {
			case name == metrics[2]:
				r.started = model.TimeFromUnixNano(int64(v.Value * 1e9))
			case v.Timestamp == 0: // the age of the value is not known
			case name == metrics[1]:
				r.Memory = float64(v.Value)
				r.At = v.Timestamp.Time()
			default:
				r.seconds = float64(v.Value)
				r.read = v.Timestamp
			}
		}
	}
	for _, r := range reports {
		if age := r.read.Sub(r.started); r.started > 0 && age >= time.Second { // the times are not exact
			r.CPU = r.seconds / age.Seconds()
		}
		if !r.At.IsZero() {
			out = append(out, r.Sample)
		}
	}
	return out, lines.Err()
}
