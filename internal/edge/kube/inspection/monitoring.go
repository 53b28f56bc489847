// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package inspection

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// maxMonitoring is the maximum of Services or Prometheus objects that are read.
const maxMonitoring = 500

// Services lists the Services of all namespaces that label selectors select. A Service that several of them select is returned
// several times.
func Services(ctx context.Context, c *kube.Clients, selectors []string) ([]cluster.Service, error) {
	var out []cluster.Service
	for _, selector := range selectors {
		list, err := c.Core.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: maxMonitoring})
		if err != nil {
			return nil, fmt.Errorf("list Services: %w", err)
		}
		out = append(out, cluster.Each(list.Items, serviceOf)...)
	}
	return out, nil
}

func serviceOf(s *corev1.Service) cluster.Service {
	out := cluster.Service{Key: cluster.Key{Namespace: s.Namespace, Name: s.Name}, Labels: s.Labels}
	for _, p := range s.Spec.Ports {
		if p.Protocol == corev1.ProtocolTCP || p.Protocol == "" {
			out.Ports = append(out.Ports, cluster.ServicePort{Name: p.Name, Number: p.Port})
		}
	}
	return out
}

// Prometheuses returns the route prefixes of the objects of kind Prometheus of monitoring.coreos.com. Without this kind, or without
// the permission to list it, there are none.
func Prometheuses(ctx context.Context, c *kube.Clients) (map[cluster.Key]string, error) {
	data, err := c.Core.CoreV1().RESTClient().Get().AbsPath("/apis/monitoring.coreos.com/v1/prometheuses").
		Param("limit", strconv.Itoa(maxMonitoring)).SetHeader("Accept", "application/json").DoRaw(ctx)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name, Namespace string }
			Spec     struct{ RoutePrefix string }
		}
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("list objects of kind Prometheus: %w", err)
	}
	out := map[cluster.Key]string{}
	for _, item := range list.Items {
		out[cluster.Key{Namespace: item.Metadata.Namespace, Name: item.Metadata.Name}] = item.Spec.RoutePrefix
	}
	return out, nil
}

// ServiceProxy returns the URL at which the API server forwards requests to a port of a Service. Requests need the transport of
// c.HTTP. The user needs the permission to get services/proxy.
func ServiceProxy(c *kube.Clients, service cluster.Key, scheme string, port int32, path string) (string, error) {
	host, _, err := rest.DefaultServerUrlFor(c.Config)
	if err != nil {
		return "", fmt.Errorf("find the address of the API server: %w", err)
	}
	name := scheme + ":" + net.JoinHostPort(service.Name, strconv.Itoa(int(port)))
	base := url.URL{Scheme: host.Scheme, Host: host.Host, Path: strings.TrimSuffix(host.Path, "/")}
	return base.JoinPath("api/v1/namespaces", service.Namespace, "services", name, "proxy", path).String(), nil
}

// ClusterUID returns the UID of the namespace kube-system, which identifies a cluster.
func ClusterUID(ctx context.Context, c *kube.Clients) (string, error) {
	namespace, err := c.Core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("identify the cluster by its namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(namespace.UID), nil
}
