// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package inspection reads what no watch delivers, when a person asks for it: the labels of pods, the Services and Prometheus
// objects of the cluster and the way to them through the API server, the UID of the cluster, and the rights of a viewer of the web page.
//
// Each function sends its requests when it is called and stores nothing. It changes nothing in the cluster.
package inspection

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// Labels reads the labels of a pod, each as "key=value", sorted.
func Labels(ctx context.Context, c *kube.Clients, key cluster.Key) ([]string, error) {
	p, err := c.Core.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get pod %s: %w", key, err)
	}
	return projection.Pairs(p.Labels, nil), nil
}

// PodLabels returns the pods that a label selector selects, with the value of one label, "" if a pod does not have it. Namespace "" means
// all namespaces. It reads only the metadata of pods.
func PodLabels(ctx context.Context, c *kube.Clients, namespace, selector, label string) (map[cluster.Key]string, error) {
	out := map[cluster.Key]string{}
	o := metav1.ListOptions{LabelSelector: selector, Limit: kube.PageSize}
	pods := c.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace)
	err := kube.EachPage(ctx, o, pods.List, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			m := &page.Items[i]
			out[cluster.Key{Namespace: m.Namespace, Name: m.Name}] = m.Labels[label]
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list labels of pods: %w", err)
	}
	return out, nil
}

// Rights asks the API server who a user is and what the user may read.
type Rights struct{ Client kubernetes.Interface }

// Authenticate returns the user of a token. ok is false if the API server refuses the token.
func (r *Rights) Authenticate(ctx context.Context, token string) (u overview.User, ok bool, err error) {
	review, err := r.Client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return u, false, fmt.Errorf("review a token: %w", err)
	}
	if !review.Status.Authenticated || review.Status.User.Username == "" {
		return u, false, nil
	}
	user := &review.Status.User
	u = overview.User{Name: user.Username, UID: user.UID, Groups: user.Groups, Extra: make(map[string][]string, len(user.Extra))}
	for key, values := range user.Extra {
		u.Extra[key] = values
	}
	return u, true, nil
}

// MayList reports whether a user may list VPAs and pods in a namespace, or in all namespaces if it is "": pages show both, and name pods.
func (r *Rights) MayList(ctx context.Context, u *overview.User, namespace string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{User: u.Name, UID: u.UID, Groups: u.Groups, Extra: make(map[string]authorizationv1.ExtraValue, len(u.Extra))}
	for key, values := range u.Extra {
		spec.Extra[key] = values
	}
	for _, of := range []authorizationv1.ResourceAttributes{{Group: v1.GroupVersion().Group, Resource: v1.ResourceAutoscalers}, {Resource: "pods"}} {
		of.Namespace, of.Verb = namespace, "list"
		spec.ResourceAttributes = &of
		review, err := r.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("review the rights of user %s: %w", u.Name, err)
		}
		if !review.Status.Allowed || review.Status.Denied {
			return false, nil
		}
	}
	return true, nil
}

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
