// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// A tenant may create a Deployment with the labels of podfit.
func TestInCharge_deploymentsWithPodfitsLabel_thoseOfTheLeaseCount(t *testing.T) {
	for name, c := range map[string]struct {
		programs []string          // namespaces of Deployments named vpa-updater
		holders  map[string]string // of the lease vpa-updater, by namespace
		webhook  string            // namespace of the service of the webhook
		status   int               // of leases that do not exist; 0 is 404
		want     []string
	}{
		"a tenant's beside that in kube-system":       {programs: []string{"kube-system", "tenant"}, want: []string{"kube-system"}},
		"a tenant holds a lease of its own":           {programs: []string{"kube-system", "tenant"}, holders: map[string]string{"tenant": "vpa-updater-7d9-x_1"}, want: []string{"kube-system"}},
		"podfit is in the namespace of the webhook":   {programs: []string{"podfit", "tenant"}, webhook: "podfit", holders: map[string]string{"tenant": "vpa-updater-7d9-x_1"}, want: []string{"podfit"}},
		"podfit holds the lease in another namespace": {programs: []string{"podfit", "tenant"}, holders: map[string]string{"podfit": "vpa-updater-7d9-x_1"}, want: []string{"podfit"}},
		"a tenant's alone":                            {programs: []string{"tenant"}},
		"another pod holds the lease":                 {programs: []string{"tenant"}, holders: map[string]string{"tenant": "web-1_2"}},
		"leases may not be read":                      {programs: []string{"podfit"}, status: http.StatusForbidden, want: []string{"podfit"}},
		"none":                                        {},
	} {
		t.Run(name, func(t *testing.T) {
			f := kubetest.NewFakeAPI(t)
			if c.webhook != "" {
				f.Reply("GET /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vpa-webhook-config", http.StatusOK, fmt.Sprintf(
					`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":"vpa-webhook-config"},"webhooks":[{"name":"vpa.k8s.io","clientConfig":{"service":{"namespace":%q,"name":"vpa-webhook"}}}]}`, c.webhook))
			}
			var programs []kube.Program
			for _, ns := range c.programs {
				programs = append(programs, kube.Program{Deployment: ns + "/vpa-updater", Namespace: ns})
				for _, lease := range []string{"vpa-updater", "vpa-updater-lease"} {
					path := "GET /apis/coordination.k8s.io/v1/namespaces/" + ns + "/leases/" + lease
					if holder := c.holders[ns]; holder != "" && lease == "vpa-updater" {
						f.Reply(path, http.StatusOK, fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q},"spec":{"holderIdentity":%q}}`, lease, holder))
					} else if c.status != 0 {
						f.Reply(path, c.status, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":%d}`, c.status))
					}
				}
			}
			clients, err := kube.ClientsFor(f.Config())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range clients.InCharge(t.Context(), programs, "updater", "kube-system") {
				got = append(got, p.Namespace)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("in charge: %v, want %v", got, c.want)
			}
		})
	}
}
