// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// Reach lists at most one pod in a namespace; "" means all namespaces. Its error is one line with the server, the user, the cause and the
// remedy. Unlike Preflight, it needs no VPAs.
func (c *Clients) Reach(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	err := c.Core.CoreV1().RESTClient().Get().NamespaceIfScoped(namespace, namespace != "").Resource("pods").
		Param("limit", "1").MaxRetries(0).Do(ctx).Into(&metav1.PartialObjectMetadataList{})
	if err != nil {
		return c.unusable(err)
	}
	return nil
}

// ClusterName returns the name of the context in the kubeconfig, "" if the configuration has no context.
func (c Config) ClusterName() string {
	if c.Context != "" {
		return c.Context
	}
	if c.Kubeconfig == "" && InCluster() {
		return ""
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	loaded, err := rules.Load()
	if err != nil {
		return ""
	}
	return loaded.CurrentContext
}
