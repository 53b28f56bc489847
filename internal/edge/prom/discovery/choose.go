// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package discovery chooses the Service of a Prometheus, Thanos, VictoriaMetrics or Mimir among the Services of a cluster. It sends
// no requests.
package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
)

// A Candidate is a Service that serves the HTTP API of Prometheus.
type Candidate struct {
	cluster.Key
	Product string // such as Thanos
	Scheme  string // http or https
	Port    int32
	Path    string            // before /api/v1; "" or with a slash at the start and none at the end
	Header  map[string]string // that its requests need
}

// String returns "namespace/name (product)".
func (c *Candidate) String() string { return c.Key.String() + " (" + c.Product + ")" }

// ErrNone is the error if no Service serves the API of Prometheus. It has the remedy.
var ErrNone = errors.New("no Service of Prometheus, Thanos, VictoriaMetrics or Mimir was found in the cluster; set --prometheus")

// Several is the error if there are several candidates. podfit does not choose, because they may have different data.
type Several struct{ Candidates []Candidate }

// Error lists the candidates.
func (s Several) Error() string {
	names := cluster.Each(s.Candidates, (*Candidate).String)
	return fmt.Sprintf("%d Services that may be a Prometheus were found: %s; choose one with --prometheus", len(names), strings.Join(names, ", "))
}

// A rule recognises the Services of a product. The labels are those of the usual Helm charts and operators.
type rule struct {
	labels  [][2]string
	product string
	ports   []string // names of the port, preferred first
	number  int32    // of the port, if no name matches
	path    string
	header  map[string]string
}

const (
	nameLabel      = "app.kubernetes.io/name"
	componentLabel = "app.kubernetes.io/component"
)

var (
	webPorts    = []string{"http-web", "web", "https-web", "http", "https", "http-query"}
	vmPath      = "/select/0/prometheus"
	mimirTenant = map[string]string{"X-Scope-OrgID": "anonymous"}
)

var rules = []rule{
	{[][2]string{{"app", "kube-prometheus-stack-prometheus"}}, "Prometheus", webPorts, 9090, "", nil},
	{[][2]string{{"app", "prometheus"}, {"component", "server"}}, "Prometheus", webPorts, 80, "", nil},
	{[][2]string{{"app", "prometheus-server"}}, "Prometheus", webPorts, 80, "", nil},
	{[][2]string{{"app", "prometheus-operator-prometheus"}}, "Prometheus", webPorts, 9090, "", nil},
	{[][2]string{{"app", "rancher-monitoring-prometheus"}}, "Prometheus", webPorts, 9090, "", nil},
	{[][2]string{{"app", "prometheus-prometheus"}}, "Prometheus", webPorts, 9090, "", nil},
	{[][2]string{{nameLabel, "prometheus"}, {componentLabel, "server"}}, "Prometheus", webPorts, 80, "", nil},
	{[][2]string{{nameLabel, "prometheus"}, {componentLabel, "prometheus"}}, "Prometheus", webPorts, 9090, "", nil},
	{[][2]string{{nameLabel, "thanos"}, {componentLabel, "query"}}, "Thanos", webPorts, 9090, "", nil},
	{[][2]string{{nameLabel, "thanos-query"}}, "Thanos", webPorts, 9090, "", nil},
	{[][2]string{{"app", "thanos-query"}}, "Thanos", webPorts, 9090, "", nil},
	{[][2]string{{"app", "thanos-querier"}}, "Thanos", webPorts, 9090, "", nil},
	{[][2]string{{nameLabel, "vmsingle"}}, "VictoriaMetrics", webPorts, 8429, "", nil},
	{[][2]string{{nameLabel, "victoria-metrics-single"}}, "VictoriaMetrics", webPorts, 8428, "", nil},
	{[][2]string{{nameLabel, "vmselect"}}, "VictoriaMetrics", webPorts, 8481, vmPath, nil},
	{[][2]string{{"app", "vmselect"}}, "VictoriaMetrics", webPorts, 8481, vmPath, nil},
	{[][2]string{{nameLabel, "mimir"}, {componentLabel, "query-frontend"}}, "Mimir", []string{"http-metrics", "http"}, 8080, "/prometheus", mimirTenant},
}

// Operated is the Service that the Prometheus operator creates for the Prometheus objects of a namespace.
const Operated = "prometheus-operated"

// Selectors are label selectors that select all Services that Choose may choose, and some others.
func Selectors() []string {
	values := map[string][]string{}
	for _, r := range rules {
		name := r.labels[0][0]
		value := r.labels[0][1]
		if !slices.Contains(values[name], value) {
			values[name] = append(values[name], value)
		}
	}
	var out []string
	for name, v := range values {
		slices.Sort(v)
		out = append(out, name+" in ("+strings.Join(v, ",")+")")
	}
	slices.Sort(out)
	return out
}

// Choose returns the only candidate among Services and objects of kind Prometheus of monitoring.coreos.com. objects has their route
// prefixes. An object counts only if no other candidate is in its namespace, because that is probably the same Prometheus. The error
// is ErrNone or Several.
func Choose(services []cluster.Service, objects map[cluster.Key]string) (Candidate, error) {
	var found []Candidate
	for i := range services {
		if c, ok := candidate(&services[i]); ok {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b Candidate) int { return a.Key.Compare(b.Key) })
	found = slices.CompactFunc(found, func(a, b Candidate) bool { return a.Key == b.Key })
	found = withoutHeadless(found)
	labelled := found
	for key, prefix := range objects {
		if slices.ContainsFunc(labelled, func(c Candidate) bool { return c.Namespace == key.Namespace && c.Product == "Prometheus" }) {
			continue
		}
		found = append(found, Candidate{
			Key: cluster.Key{Namespace: key.Namespace, Name: Operated}, Product: "Prometheus " + key.Name, Scheme: "http", Port: 9090,
			Path: strings.TrimSuffix(prefix, "/"),
		})
	}
	switch len(found) {
	case 0:
		return Candidate{}, ErrNone
	case 1:
		return found[0], nil
	}
	slices.SortFunc(found, func(a, b Candidate) int { return cmp.Or(a.Key.Compare(b.Key), strings.Compare(a.Product, b.Product)) })
	return Candidate{}, Several{found}
}

func candidate(s *cluster.Service) (Candidate, bool) {
	for _, r := range rules {
		if slices.ContainsFunc(r.labels, func(l [2]string) bool { return s.Labels[l[0]] != l[1] }) {
			continue
		}
		c := Candidate{Key: s.Key, Product: r.product, Scheme: "http", Path: r.path, Header: r.header}
		port := portOf(s, &r)
		if port == nil {
			return Candidate{}, false
		}
		c.Port = port.Number
		if strings.HasPrefix(port.Name, "https") || port.Number == 443 {
			c.Scheme = "https"
		}
		return c, true
	}
	return Candidate{}, false
}

// portOf returns the port of the HTTP API: one with a usual name, or with the usual number, or else the only one; nil if there is none.
func portOf(s *cluster.Service, r *rule) *cluster.ServicePort {
	for _, name := range r.ports {
		if p := cluster.Find(s.Ports, func(p *cluster.ServicePort) bool { return p.Name == name }); p != nil {
			return p
		}
	}
	return cluster.Find(s.Ports, func(p *cluster.ServicePort) bool { return p.Number == r.number || len(s.Ports) == 1 })
}

// withoutHeadless removes Services whose name is that of another candidate of the namespace and "-headless": charts create both.
func withoutHeadless(all []Candidate) []Candidate {
	return slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool {
		base, ok := strings.CutSuffix(c.Name, "-headless")
		return ok && slices.ContainsFunc(all, func(o Candidate) bool { return o.Namespace == c.Namespace && o.Name == base })
	})
}
