// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// preflightTimeout bounds the request of Preflight, so that a user waits less than ten seconds for its result.
const preflightTimeout = 8 * time.Second

// Preflight lists at most one VPA and reports whether there is one in the namespace; "" means all namespaces. Its error is one line with
// the server, the user, the cause and the remedy.
func (c *Clients) Preflight(ctx context.Context, namespace string) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	var list AutoscalerList
	err = c.Autoscalers.Get().NamespaceIfScoped(namespace, namespace != "").Resource("verticalpodautoscalers").
		Param("limit", "1").MaxRetries(0).Do(ctx).Into(&list)
	if err != nil {
		return false, c.unusable(err)
	}
	return len(list.Items) > 0, nil
}

// Responds returns an error if the API server does not respond, or rejects these credentials. It sends one request, whose result does not matter: the user may
// lack the right to list VPAs, and the cluster may have no VPA.
func (c *Clients) Responds(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	err := c.Autoscalers.Get().Resource("verticalpodautoscalers").Param("limit", "1").MaxRetries(0).Do(ctx).Error()
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
	return fmt.Errorf("cannot use the cluster at %s%s: %w", c.Config.Host, account, explained(err))
}

// explained returns an error with the cause of a failed list of VPAs, and the remedy.
func explained(err error) error {
	var authority x509.UnknownAuthorityError
	var name *net.DNSError
	switch {
	case apierrors.IsUnauthorized(err):
		return errors.New("the API server rejects the credentials (401 Unauthorized); renew them, or choose others with --kubeconfig and --context")
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; grant this permission, or choose another user with --context or --as", plainStatus(err))
	case apierrors.IsNotFound(err):
		return errors.New("it has no kind VerticalPodAutoscaler; install the CRDs: podfit crds | kubectl apply --server-side --force-conflicts -f -")
	case errors.As(err, &authority):
		return errors.New("the certificate of the server has an unknown authority; check certificate-authority in the kubeconfig")
	case errors.As(err, &name):
		return fmt.Errorf("the host name %s cannot be resolved; check server in the kubeconfig, and your network", name.Name)
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return fmt.Errorf("no response within %v; check your network or VPN, and server in the kubeconfig", preflightTimeout)
	case isUnreachable(err):
		return fmt.Errorf("no connection (%w); check that the API server runs, and server in the kubeconfig", lastCause(err))
	}
	return err
}

// plainStatus returns the message of the API server on one line.
func plainStatus(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
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
