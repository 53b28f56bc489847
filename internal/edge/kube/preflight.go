// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	v1 "podfit.dev/podfit/api/v1"
)

// Preflight lists at most one VPA and reports whether there is one in the namespace; "" means all namespaces. Its error is one line with
// the server, the user, the cause and the remedy.
func (c *Clients) Preflight(ctx context.Context, namespace string) (found bool, err error) {
	var list AutoscalerList
	if err := listOne(ctx, c.Autoscalers, namespace, v1.ResourceAutoscalers).Into(&list); err != nil {
		return false, c.unusable(err)
	}
	return len(list.Items) > 0, nil
}

func listOne(ctx context.Context, client rest.Interface, namespace, resource string) rest.Result {
	const preflightTimeout = 8 * time.Second // so that a user waits less than ten seconds for the result of Preflight
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	return client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Param("limit", "1").MaxRetries(0).Do(ctx)
}

// Responds returns an error if the API server does not respond, or rejects these credentials. It sends one request, whose result does not matter: the user may
// lack the right to list VPAs, and the cluster may have no VPA.
func (c *Clients) Responds(ctx context.Context) error {
	err := listOne(ctx, c.Autoscalers, "", v1.ResourceAutoscalers).Error()
	if err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return c.unusable(err)
}

// unusable returns an error with the server, the user, the cause and the remedy.
func (c *Clients) unusable(err error) error {
	account := ""
	if c.Account != "" {
		account = " (" + c.Account + ")"
	}
	return fmt.Errorf("cannot use the cluster at %s%s: %w", c.Config.Host, account, Explained(err))
}

// Explained returns an error with the cause of a failed list, and the remedy.
func Explained(err error) error {
	var authority x509.UnknownAuthorityError
	var name *net.DNSError
	switch {
	case apierrors.IsUnauthorized(err):
		return errors.New("the API server rejects the credentials (401 Unauthorized); renew them, or choose others with --kubeconfig and --context")
	case apierrors.IsForbidden(err):
		return errors.New(strings.Join(strings.Fields(err.Error()), " ") + "; grant this permission, choose another user with --context or --as, or select a namespace that you may read with -n NAMESPACE")
	case apierrors.IsNotFound(err):
		return errors.New("it has no kind VerticalPodAutoscaler; install the CRDs: podfit crds | kubectl apply --server-side --force-conflicts -f -")
	case errors.As(err, &authority):
		return errors.New("the certificate of the server has an unknown authority; check certificate-authority in the kubeconfig")
	case errors.As(err, &name):
		return fmt.Errorf("the host name %s cannot be resolved; check server in the kubeconfig, and your network", name.Name)
	case errors.Is(err, context.DeadlineExceeded), utilnet.IsTimeout(err):
		return errors.New("no response in time; check your network or VPN, and server in the kubeconfig")
	case isUnreachable(err):
		return fmt.Errorf("no connection (%w); check that the API server runs, and server in the kubeconfig", lastCause(err))
	}
	return err
}

// lastCause returns the innermost error, for example "connection refused" without the URL of the request.
func lastCause(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// Reach lists at most one pod in a namespace; "" means all namespaces. Its error is one line with the server, the user, the cause and the
// remedy. Unlike Preflight, it needs no VPAs.
func (c *Clients) Reach(ctx context.Context, namespace string) error {
	if err := listOne(ctx, c.Core.CoreV1().RESTClient(), namespace, "pods").Into(&metav1.PartialObjectMetadataList{}); err != nil {
		return c.unusable(err)
	}
	return nil
}

// ClusterName returns the name of the context in the kubeconfig, or else the host of the API server.
func (c Config) ClusterName(clients *Clients) string {
	host := strings.TrimPrefix(strings.TrimPrefix(clients.Config.Host, "https://"), "http://")
	name, _ := c.selected()
	return cmp.Or(name, strings.TrimSuffix(host, "/"))
}
