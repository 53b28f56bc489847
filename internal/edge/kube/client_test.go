// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/test/kubetest"
)

func TestConfig_noCluster_errorNamesSearchedPlacesAndRemedy(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hostname := filepath.Join(t.TempDir(), "hostname")
	if err := os.WriteFile(hostname, []byte("machine-7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", "/nowhere/one:/nowhere/two")
	for name, c := range map[string]struct {
		config Config
		want   []string
	}{
		"no configuration": {Config{}, []string{"does not run in a pod", "--kubeconfig is not set", "/nowhere/one, /nowhere/two", "set --kubeconfig or the environment variable KUBECONFIG"}},
		"missing file":     {Config{Kubeconfig: "/nowhere/three"}, []string{"read kubeconfig", "the file /nowhere/three does not exist"}},
		"home folder":      {Config{Kubeconfig: "~/.kube/config"}, []string{"the shell did not replace ~ with your home folder; use --kubeconfig=$HOME/.kube/config"}},
		"not a kubeconfig": {Config{Kubeconfig: hostname}, []string{hostname + " is not a kubeconfig; a kubeconfig is a YAML file of kind Config"}},
		"empty file":       {Config{Kubeconfig: empty}, []string{empty + " contains no cluster", "set --kubeconfig"}},
		"unknown context":  {Config{Context: "other"}, []string{`the kubeconfig has no context "other"; kubectl config get-contexts lists those that it has`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewClients(c.config)
			if err == nil {
				t.Fatal("no error is returned")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is not in the error %q", w, err)
				}
			}
			if strings.Contains(err.Error(), "KUBERNETES_MASTER") {
				t.Errorf("the error names KUBERNETES_MASTER, which podfit does not use: %q", err)
			}
		})
	}
}

func TestClients_readOnly_sendNoWrites(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	cs, err := NewClients(Config{Kubeconfig: kubetest.Kubeconfig(t, f.URL()), QPS: -1, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, write := range map[string]func() error{
		"create": func() error {
			_, err := cs.Core.CoreV1().Secrets("a").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
			return err
		},
		"delete": func() error { return cs.Core.CoreV1().Pods("shop").Delete(ctx, "web-1-0", metav1.DeleteOptions{}) },
		"event": func() error {
			_, err := cs.Events.CoreV1().Events("a").Create(ctx, &corev1.Event{}, metav1.CreateOptions{})
			return err
		},
		"lease": func() error {
			return (&Lease{name: "l", leases: cs.Leases.CoordinationV1().Leases("a")}).Renew(ctx, "me", metav1.Now().Time)
		},
		"status": func() error {
			return cs.Autoscalers.Patch("application/json-patch+json").AbsPath("/x").Body([]byte("[]")).Do(ctx).Error()
		},
		"own": func() error { return cs.Own.Post().AbsPath("/x").Do(ctx).Error() },
		"metadata": func() error {
			return cs.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("shop").Delete(ctx, "web-1-0", metav1.DeleteOptions{})
		},
	} {
		if err := write(); !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: error %v, want %v", name, err, ErrReadOnly)
		}
	}
	if pods, err := cs.Core.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{}); err != nil || len(pods.Items) != 3 {
		t.Errorf("cannot list pods: %v", err)
	}
	for _, r := range f.Requests() {
		if !strings.HasPrefix(r, "GET ") {
			t.Errorf("sent: %s", r)
		}
	}
}

// A dry run may ask the API server about users, and nothing else that is not a GET.
func TestClients_readOnly_reviewsAreSent(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Reply("POST /apis/authentication.k8s.io/v1/tokenreviews", http.StatusCreated, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1"}`)
	f.Reply("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", http.StatusCreated, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1"}`)
	config := f.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	clients, err := ClientsFor(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients.Core.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{}, metav1.CreateOptions{}); err != nil {
		t.Errorf("TokenReview: %v", err)
	}
	if _, err := clients.Core.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{}); err != nil {
		t.Errorf("SubjectAccessReview: %v", err)
	}
}

func TestClients_eventsLeasesAndVPAs_haveTheirOwnRateLimits(t *testing.T) {
	cs, err := ClientsFor(&rest.Config{Host: "http://127.0.0.1:1", QPS: 50, Burst: 1000})
	if err != nil {
		t.Fatal(err)
	}
	writes := cs.Core.CoreV1().RESTClient().GetRateLimiter()
	for writes.TryAccept() { // until the burst is used up
		continue
	}
	for name, limit := range map[string]interface{ TryAccept() bool }{
		"leases": cs.Leases.CoordinationV1().RESTClient().GetRateLimiter(),
		"events": cs.Events.CoreV1().RESTClient().GetRateLimiter(),
		"VPAs":   cs.Autoscalers.GetRateLimiter(), // as in upstream's components, which have one limit for built-in kinds and one for VPAs
	} {
		if !limit.TryAccept() {
			t.Errorf("%s wait because of a burst of writes", name)
		}
	}
}

func TestClients_negativeQPS_isUnlimited(t *testing.T) {
	cs, err := ClientsFor(&rest.Config{Host: "http://127.0.0.1:1", QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		if l := cs.Events.CoreV1().RESTClient().GetRateLimiter(); l != nil && !l.TryAccept() {
			t.Fatal("events are limited")
		}
		if l := cs.Core.CoreV1().RESTClient().GetRateLimiter(); l != nil && !l.TryAccept() {
			t.Fatal("requests are limited")
		}
	}
}

// clientsOf returns clients of a fake API.
func clientsOf(f *kubetest.FakeAPI) *Clients {
	cs, err := ClientsFor(f.Config())
	if err != nil {
		panic(err)
	}
	return cs
}
