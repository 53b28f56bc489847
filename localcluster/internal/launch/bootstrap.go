// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
)

// metricsServerObjects returns the objects that metrics-server needs, by API path. Its Service is an ExternalName for the
// loopback interface, so that the API server reaches it without a proxy.
func metricsServerObjects(port int, ca []byte) map[string]string {
	const (
		cluster = "/apis/rbac.authorization.k8s.io/v1/"
		subject = "subjects: [{kind: ServiceAccount, name: metrics-server, namespace: kube-system}]\n"
	)
	role := func(kind, name string) string {
		return fmt.Sprintf("roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %q}\n", kind, name)
	}
	object := func(apiVersion, kind, name, rest string) string {
		return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %q, labels: {k8s-app: metrics-server%s}}\n", apiVersion, kind, name, rest)
	}
	const rbac = "rbac.authorization.k8s.io/v1"
	return map[string]string{
		"/api/v1/namespaces/kube-system/serviceaccounts/metrics-server": object("v1", "ServiceAccount", "metrics-server", ""),
		cluster + "clusterroles/system:aggregated-metrics-reader": object(rbac, "ClusterRole", "system:aggregated-metrics-reader",
			", rbac.authorization.k8s.io/aggregate-to-view: 'true', rbac.authorization.k8s.io/aggregate-to-edit: 'true', rbac.authorization.k8s.io/aggregate-to-admin: 'true'") +
			"rules: [{apiGroups: [metrics.k8s.io], resources: [pods, nodes], verbs: [get, list, watch]}]\n",
		cluster + "clusterroles/system:metrics-server": object(rbac, "ClusterRole", "system:metrics-server", "") +
			"rules: [{apiGroups: [''], resources: [nodes/metrics], verbs: [get]}, {apiGroups: [''], resources: [pods, nodes], verbs: [get, list, watch]}]\n",
		cluster + "clusterrolebindings/system:metrics-server": object(rbac, "ClusterRoleBinding", "system:metrics-server", "") +
			role("ClusterRole", "system:metrics-server") + subject,
		cluster + "clusterrolebindings/metrics-server:system:auth-delegator": object(rbac, "ClusterRoleBinding", "metrics-server:system:auth-delegator", "") +
			role("ClusterRole", "system:auth-delegator") + subject,
		cluster + "namespaces/kube-system/rolebindings/metrics-server-auth-reader": object(rbac, "RoleBinding", "metrics-server-auth-reader", "") +
			role("Role", "extension-apiserver-authentication-reader") + subject,
		"/api/v1/namespaces/kube-system/services/metrics-server": object("v1", "Service", "metrics-server", "") +
			fmt.Sprintf("spec: {type: ExternalName, externalName: localhost, ports: [{name: https, port: %d, protocol: TCP}]}\n", port),
		"/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io": object("apiregistration.k8s.io/v1", "APIService", "v1beta1.metrics.k8s.io", "") +
			fmt.Sprintf("spec: {group: metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, caBundle: %s, service: {name: metrics-server, namespace: kube-system, port: %d}}\n",
				base64.StdEncoding.EncodeToString(ca), port),
	}
}

// metricsServerUser is the user in the certificate of metrics-server. The bindings above refer to it as a service account.
const metricsServerUser = "system:serviceaccount:kube-system:metrics-server"

var serviceAccountGroups = []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}

// node returns the Node object to create before the kubelet starts. A kubelet would not choose the address 127.0.0.1 itself;
// with --cloud-provider=external it keeps the addresses of the existing object.
func node(name string) any {
	type m = map[string]any
	return m{
		"apiVersion": "v1", "kind": "Node",
		"metadata": m{"name": name, "labels": m{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
		"status":   m{"addresses": []m{{"type": "InternalIP", "address": "127.0.0.1"}}},
	}
}

type conditions struct {
	Status struct {
		Conditions []struct{ Type, Status, Message string } `json:"conditions"`
	} `json:"status"`
}

// is returns nil if a condition of the object is true, and otherwise an error with the reason.
func (a *api) is(ctx context.Context, path, condition string) error {
	var object conditions
	if err := a.get(ctx, path, &object); err != nil {
		return err
	}
	for _, c := range object.Status.Conditions {
		if c.Type == condition && c.Status == "True" {
			return nil
		}
		if c.Type == condition {
			return fmt.Errorf("%s is not %s: %s", path[strings.LastIndexByte(path, '/')+1:], condition, c.Message)
		}
	}
	return fmt.Errorf("%s is not %s yet", path[strings.LastIndexByte(path, '/')+1:], condition)
}
