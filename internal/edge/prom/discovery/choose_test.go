// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
)

func service(name, labels string, ports ...cluster.ServicePort) cluster.Service {
	s := cluster.Service{Key: cluster.Key{Namespace: "monitoring", Name: name}, Labels: map[string]string{}, Ports: ports}
	for _, l := range strings.Fields(labels) {
		k, v, _ := strings.Cut(l, "=")
		s.Labels[k] = v
	}
	return s
}

func port(name string, number int32) cluster.ServicePort {
	return cluster.ServicePort{Name: name, Number: number}
}

func TestChoose_oneCandidate_isChosen(t *testing.T) {
	type services = []cluster.Service
	object := map[cluster.Key]string{{Namespace: "monitoring", Name: "k8s"}: "/prom/"}
	for name, tt := range map[string]struct {
		services services
		objects  map[cluster.Key]string
		want     string // name, scheme, port, path
	}{
		"kube-prometheus-stack": {services{
			service("kps-prometheus", "app=kube-prometheus-stack-prometheus", port("reloader-web", 8080), port("http-web", 9090)),
			service("kps-operator", "app=kube-prometheus-stack-operator", port("https", 443)),
		}, object, "kps-prometheus http 9090 "},
		"kube-prometheus": {services{
			service("prometheus-k8s", "app.kubernetes.io/name=prometheus app.kubernetes.io/component=prometheus", port("web", 9090), port("reloader-web", 8080)),
		}, object, "prometheus-k8s http 9090 "},
		"community chart": {services{
			service("prometheus-server", "app.kubernetes.io/name=prometheus app.kubernetes.io/component=server", port("http", 80)),
			service("prometheus-server-headless", "app.kubernetes.io/name=prometheus app.kubernetes.io/component=server", port("http", 80)),
		}, nil, "prometheus-server http 80 "},
		"found by two selectors": {services{
			service("p", "app=prometheus component=server", port("", 80)), service("p", "app=prometheus component=server", port("", 80)),
		}, nil, "p http 80 "},
		"Thanos":                  {services{service("thanos-query", "app.kubernetes.io/name=thanos app.kubernetes.io/component=query", port("grpc", 10901), port("http", 9090))}, nil, "thanos-query http 9090 "},
		"OpenShift":               {services{service("thanos-querier", "app=thanos-querier", port("https", 9091))}, nil, "thanos-querier https 9091 "},
		"VictoriaMetrics":         {services{service("vmsingle", "app.kubernetes.io/name=vmsingle", port("http", 8429))}, nil, "vmsingle http 8429 "},
		"VictoriaMetrics cluster": {services{service("vmselect", "app=vmselect", port("", 8481))}, nil, "vmselect http 8481 /select/0/prometheus"},
		"Mimir": {services{service("mimir-query-frontend", "app.kubernetes.io/name=mimir app.kubernetes.io/component=query-frontend",
			port("http-metrics", 8080), port("grpc", 9095))}, nil, "mimir-query-frontend http 8080 /prometheus"},
		"only an object": {nil, object, "prometheus-operated http 9090 /prom"},
		"no usable port": {services{service("a", "app=prometheus-server", port("x", 1), port("y", 2)), service("b", "app=prometheus-server", port("z", 3))}, nil, "b http 3 "},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Choose(tt.services, tt.objects)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s %s %d %s", c.Name, c.Scheme, c.Port, c.Path)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if needs := c.Product == "Mimir"; needs != (c.Header["X-Scope-OrgID"] != "") {
				t.Errorf("headers are %v", c.Header)
			}
		})
	}
}

func TestChoose_severalOrNone_isAnErrorThatListsThem(t *testing.T) {
	two := []cluster.Service{
		service("z-thanos", "app=thanos-query", port("http", 9090)), service("a-prom", "app=prometheus-server", port("http", 80)),
	}
	_, err := Choose(two, nil)
	var several Several
	if !errors.As(err, &several) || len(several.Candidates) != 2 ||
		!strings.Contains(err.Error(), "monitoring/a-prom (Prometheus), monitoring/z-thanos (Thanos); choose one with --prometheus") {
		t.Errorf("error is %v, want a list", err)
	}
	_, err = Choose(nil, map[cluster.Key]string{{Namespace: "a", Name: "x"}: "", {Namespace: "b", Name: "y"}: ""})
	if !errors.As(err, &several) || !strings.Contains(err.Error(), "a/prometheus-operated (Prometheus x), b/prometheus-operated (Prometheus y)") {
		t.Errorf("error is %v, want a list of two objects", err)
	}
	_, err = Choose([]cluster.Service{service("web", "app=web", port("", 80))}, nil)
	if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "--prometheus") {
		t.Errorf("error is %v, want ErrNone", err)
	}
}

func TestSelectors_rules_areSelected(t *testing.T) {
	want := []string{
		"app in (kube-prometheus-stack-prometheus,prometheus,prometheus-operator-prometheus,prometheus-prometheus,prometheus-server,rancher-monitoring-prometheus,thanos-querier,thanos-query,vmselect)",
		"app.kubernetes.io/name in (mimir,prometheus,thanos,thanos-query,victoria-metrics-single,vmselect,vmsingle)",
	}
	if diff := cmp.Diff(want, Selectors()); diff != "" {
		t.Errorf("selectors (-want +got):\n%s", diff)
	}
}
