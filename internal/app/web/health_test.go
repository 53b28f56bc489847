// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// authority returns a certificate authority in PEM.
func authority(t *testing.T, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: until.AddDate(-10, 0, 0), NotAfter: until, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// The leases and the webhook configuration show who leads, whether the webhook is registered, and until when its authority is valid.
func TestRegistrations_cluster_leasesAndCertificateAreRead(t *testing.T) {
	api := kubetest.NewFakeAPI(t)
	clients, err := kube.ClientsFor(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	reader := registrations{clients}
	now := time.Now().UTC().Truncate(time.Second)
	got, err := reader.Registrations(t.Context())
	if err != nil || got.Webhook.Registered || !got.Webhook.Known || got.Problem != "" {
		t.Errorf("of an empty cluster: %+v, error %v", got, err)
	}
	for _, name := range []string{"podfit", webhookLease} {
		api.Reply("GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+name, http.StatusOK, fmt.Sprintf(`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"namespace":"kube-system","name":%q},
			"spec":{"holderIdentity":"podfit-1","leaseDurationSeconds":15,"renewTime":%q}}`, name, now.Format("2006-01-02T15:04:05.000000Z")))
	}
	until := now.AddDate(1, 0, 0)
	bundle := append(authority(t, now.AddDate(0, 0, 1)), authority(t, until)...)
	api.Reply("GET /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vpa-webhook-config", http.StatusOK, fmt.Sprintf(`{"kind":"MutatingWebhookConfiguration","apiVersion":"admissionregistration.k8s.io/v1",
		"metadata":{"name":"vpa-webhook-config"},"webhooks":[{"name":"vpa.k8s.io","clientConfig":{"caBundle":%q}}]}`, base64.StdEncoding.EncodeToString(bundle)))
	got, err = reader.Registrations(t.Context())
	if err != nil || !got.Webhook.Registered || !got.Webhook.Until.Equal(until) || got.Webhook.Lease.Holder != "podfit-1" {
		t.Errorf("facts %+v, error %v", got, err)
	}
	found := 0
	for _, l := range got.Leases {
		if l.Found {
			found++
			if l.Name != "podfit" || !l.Renewed.Equal(now) || l.Duration != 15*time.Second {
				t.Errorf("lease %+v", l)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d leases were found", found)
	}
	const refused = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
	api.Reply("GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+webhookLease, http.StatusForbidden, refused)
	got, err = reader.Registrations(t.Context())
	if got.Now = now; err != nil || overview.HealthOf(&got)[2].Condition != overview.NotKnown {
		t.Errorf("without the right to the lease of the webhook: %+v, error %v", overview.HealthOf(&got)[2], err)
	}
	api.Reply("GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/podfit", http.StatusForbidden, refused)
	api.Reply("GET /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vpa-webhook-config", http.StatusForbidden, refused)
	if got, err = reader.Registrations(t.Context()); err != nil || got.Problem == "" || got.Webhook.Problem == "" {
		t.Errorf("without rights: %+v, error %v", got, err)
	}
}

// An installation in another namespace than kube-system has its leases there, and the webhook configuration names it.
func TestRegistrations_otherNamespace_leasesAreThoseOfTheWebhook(t *testing.T) {
	api := kubetest.NewFakeAPI(t)
	clients, err := kube.ClientsFor(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	api.Reply("GET /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vpa-webhook-config", http.StatusOK, `{"kind":"MutatingWebhookConfiguration","apiVersion":"admissionregistration.k8s.io/v1",
		"metadata":{"name":"vpa-webhook-config"},"webhooks":[{"name":"vpa.k8s.io","clientConfig":{"service":{"namespace":"sizing","name":"vpa-webhook"}}}]}`)
	for _, name := range []string{"podfit", webhookLease} {
		api.Reply("GET /apis/coordination.k8s.io/v1/namespaces/sizing/leases/"+name, http.StatusOK, fmt.Sprintf(`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"namespace":"sizing","name":%q},
			"spec":{"holderIdentity":"podfit-1","leaseDurationSeconds":15,"renewTime":%q}}`, name, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")))
	}
	facts, err := registrations{clients}.Registrations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	facts.Now = time.Now()
	for _, part := range overview.HealthOf(&facts) {
		if part.Condition != overview.Healthy {
			t.Errorf("%+v", part)
		}
	}
}

func TestRegistrations_freeze_isShownWhereItMayBeRead(t *testing.T) {
	const list = `{"kind":"ConfigMapList","apiVersion":"v1","items":[{"metadata":{"namespace":"kube-system","name":"podfit-freeze"},"data":{"freeze":%q,"reason":"release\nweek"}}]}`
	for name, tt := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"frozen":     {http.StatusOK, fmt.Sprintf(list, "true"), "frozen: ConfigMap kube-system/podfit-freeze stops all changes of running pods (release week), unless --freeze-configmap names another one. podfit-1 leads"},
		"not frozen": {http.StatusOK, fmt.Sprintf(list, "false"), "healthy: podfit-1 leads"},
		"failing":    {http.StatusInternalServerError, "{}", "healthy: podfit-1 leads"},
		"forbidden":  {http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`, "healthy: podfit-1 leads"},
	} {
		api := kubetest.NewFakeAPI(t)
		clients, err := kube.ClientsFor(api.Config())
		if err != nil {
			t.Fatal(err)
		}
		api.Reply("GET /api/v1/namespaces/kube-system/configmaps", tt.status, tt.body)
		api.Reply("GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/podfit", http.StatusOK, fmt.Sprintf(`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1",
			"metadata":{"namespace":"kube-system","name":"podfit"},"spec":{"holderIdentity":"podfit-1","leaseDurationSeconds":15,"renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")))
		facts, err := registrations{clients}.Registrations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		facts.Now = time.Now()
		updater := overview.HealthOf(&facts)[1]
		if got := string(updater.Condition) + ": " + updater.Text; !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// Health is read rarely however many viewers look, and a page without it is shown.
func TestHealth_apiServerFails_pageSaysItIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{facts: overview.Facts{Leases: []overview.Lease{{Name: "podfit", Found: true, Holder: "p", Renewed: time.Now(), Duration: 15 * time.Second}}}}
		s := sourceOf(f)
		parts := s.State(t.Context()).Health
		if len(parts) != 3 || parts[0].Condition != overview.Healthy || !strings.HasPrefix(parts[0].Text, "p leads") {
			t.Errorf("health %+v", parts)
		}
		f.mu.Lock()
		f.err = errors.New("no route")
		f.mu.Unlock()
		for range 40 {
			s.State(t.Context())
			time.Sleep(5 * time.Second)
		}
		parts = s.State(t.Context()).Health
		if len(parts) != 3 || parts[1].Condition != overview.NotKnown || !strings.Contains(parts[1].Text, "did not answer") {
			t.Errorf("health after an outage %+v", parts)
		}
	})
}

// A page that nobody has looked at shows the last reading first. A lease that was renewed then was not renewed since, as far as the page knows:
// that says nothing about the part that holds it.
func TestHealth_pageWasIdle_leasesCountFromTheReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := func(name string) overview.Lease {
			return overview.Lease{Name: name, Found: true, Holder: "p", Renewed: time.Now(), Duration: 15 * time.Second}
		}
		f := &fake{}
		f.facts.Webhook.Known, f.facts.Webhook.Registered = true, true
		renew := func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.facts.Leases, f.facts.Webhook.Lease = []overview.Lease{lease("podfit")}, lease(webhookLease)
		}
		s := sourceOf(f)
		for _, idle := range []time.Duration{0, 16 * time.Second, time.Minute, 119 * time.Second} {
			time.Sleep(idle)
			renew()
			for _, part := range s.State(t.Context()).Health {
				if part.Condition != overview.Healthy {
					t.Errorf("after %v: %+v", idle, part)
				}
			}
			synctest.Wait()
		}
	})
}
