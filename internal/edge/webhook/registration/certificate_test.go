// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
)

const service = "vpa-webhook.kube-system.svc"

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// verifies returns the error of the API server if it does not trust the certificate. bundle contains the CAs.
func verifies(id Identity, bundle []byte, name string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := id.Certificate.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, DNSName: name, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

func renewerOf(secrets corev1client.SecretInterface) *CertificateRenewer {
	return NewCertificateRenewer(secrets, SecretName, []string{service, "vpa-webhook"}, true, discardLog)
}

// replica is one replica of the webhook. A pass reads the Secret, then registers the CA bundle, then serves the certificate.
type replica struct {
	*CertificateRenewer
	serves  Identity
	trusted []byte // the bundle of the last pass
}

func (r *replica) pass(t *testing.T, now time.Time, register func([]byte)) {
	t.Helper()
	id, err := r.Refresh(t.Context(), now, Registered{Bundle: r.trusted})
	if err != nil {
		t.Fatalf("%s: %v", now, err)
	}
	register(id.Bundle)
	r.trusted = id.Bundle
	r.serves = id
}

// fakeSecrets contains one Secret. It is faster than the fake clientset, because the test of thirty years reads the Secret often.
type fakeSecrets struct {
	corev1client.SecretInterface
	held         *corev1.Secret
	beforeCreate func() // called once, before the next creation
}

func (v *fakeSecrets) Get(context.Context, string, metav1.GetOptions) (*corev1.Secret, error) {
	if v.held == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, SecretName)
	}
	return v.held, nil
}

func (v *fakeSecrets) Create(_ context.Context, s *corev1.Secret, _ metav1.CreateOptions) (*corev1.Secret, error) {
	if f := v.beforeCreate; f != nil {
		v.beforeCreate = nil
		f()
	}
	if v.held != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, SecretName)
	}
	v.held = s
	return s, nil
}

func (v *fakeSecrets) Update(_ context.Context, s *corev1.Secret, _ metav1.UpdateOptions) (*corev1.Secret, error) {
	v.held = s
	return s, nil
}

func TestCertificateRenewer_thirtyYears_servesOnlyTrustedCertificates(t *testing.T) {
	secrets := &fakeSecrets{}
	replicas := []*replica{{CertificateRenewer: renewerOf(secrets)}, {CertificateRenewer: renewerOf(secrets)}}
	var registered []byte
	authorities := map[string]bool{}
	leaves := map[string]bool{}
	validUntil := map[string]time.Time{} // by certificate and bundle
	check := func(now time.Time) {
		for i, r := range replicas {
			if r.serves.Certificate == nil {
				continue
			}
			pair := r.serves.Certificate.Leaf.SerialNumber.String() + string(registered)
			if now.Before(validUntil[pair]) {
				continue // already verified
			}
			if err := verifies(r.serves, registered, service, now); err != nil {
				t.Fatalf("%s: replica %d is not trusted: %v", now, i, err)
			}
			validUntil[pair] = r.serves.Certificate.Leaf.NotAfter // the CA does not expire earlier
			leaves[r.serves.Certificate.Leaf.SerialNumber.String()] = true
		}
		certs, _ := readCertificates(registered)
		if len(certs) > 2 {
			t.Fatalf("%s: %d CAs are trusted at the same time", now, len(certs))
		}
		for _, c := range certs {
			authorities[c.SerialNumber.String()] = true
		}
	}
	// The second replica makes a pass only every two days. Between its passes it serves the same certificate.
	for hour := 0; hour < 30*365*24; hour += 24 {
		now := start.Add(time.Duration(hour) * time.Hour)
		for i, r := range replicas {
			if hour%(24*(i+1)) == 0 {
				r.pass(t, now, func(bundle []byte) { registered = bundle; check(now) })
				check(now)
			}
		}
	}
	// A CA is valid for 5 years and replaced after about 4. A certificate is valid for 90 days and replaced after 60.
	if n := len(authorities); n < 7 || n > 9 {
		t.Errorf("%d CAs in thirty years, want 7 to 9", n)
	}
	if n := len(leaves); n < 170 || n > 200 {
		t.Errorf("%d certificates in thirty years, want 170 to 200", n)
	}
}

func TestChain_newCA_signsOnlyAfterItIsTrusted(t *testing.T) {
	names := []string{service}
	never := Registered{}
	always := Registered{Unknown: true}
	c, _, err := chain{}.renewed(start, names, never)
	if err != nil {
		t.Fatal(err)
	}
	first := c.signer.cert
	due := first.NotAfter.Add(-caRenew + time.Hour)
	step := func(now time.Time, registered Registered) {
		t.Helper()
		if c, _, err = c.renewed(now, names, registered); err != nil {
			t.Fatal(err)
		}
	}
	step(due, never)
	if c.next.cert == nil || !c.signer.cert.Equal(first) {
		t.Fatal("there is no next CA, or it already signs")
	}
	next := c.next.cert
	step(due.Add(90*24*time.Hour), never)
	if !c.signer.cert.Equal(first) {
		t.Error("the new CA signs before it is trusted")
	}
	c, _, _ = c.renewed(due.Add(caOverlap-time.Minute), names, always)
	if !c.signer.cert.Equal(first) {
		t.Error("the new CA signs before it has been trusted for caOverlap")
	}
	step(due.Add(91*24*time.Hour), always)
	if !c.signer.cert.Equal(next) || len(c.retired) != 1 || !c.retired[0].Equal(first) {
		t.Error("the new CA does not sign, or the first CA is no longer trusted")
	}
	if c.leaf.Leaf.CheckSignatureFrom(next) != nil {
		t.Error("the served certificate is not signed by the new CA")
	}
	step(first.NotAfter.Add(time.Hour), always)
	if len(c.retired) != 0 {
		t.Error("an expired CA is trusted")
	}
}

func TestChain_serviceOrURL_isInTheCertificate(t *testing.T) {
	for name, c := range map[string]struct {
		registration Config
		valid        []string
		invalid      string
	}{
		"service":   {Config{Service: serviceKey}, []string{service, service + ".cluster.local", "vpa-webhook.kube-system", "vpa-webhook"}, "kubernetes"},
		"host":      {Config{URL: "https://vpa.example.com:8443"}, []string{"vpa.example.com"}, "example.com"},
		"IPv4":      {Config{URL: "https://127.0.0.1:8443/"}, []string{"127.0.0.1"}, "127.0.0.2"},
		"IPv6":      {Config{URL: "https://[::1]:8443"}, []string{"::1"}, "::2"},
		"long host": {Config{URL: "https://" + strings.Repeat("a", 63) + ".example.com"}, []string{strings.Repeat("a", 63) + ".example.com"}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			names, err := c.registration.Names()
			if err != nil {
				t.Fatal(err)
			}
			made, _, err := chain{}.renewed(start, names, Registered{})
			if err != nil {
				t.Fatal(err)
			}
			id := Identity{Certificate: made.leaf}
			for _, n := range c.valid {
				if err := verifies(id, made.bundle(), n, start); err != nil {
					t.Errorf("%s: %v", n, err)
				}
			}
			if err := verifies(id, made.bundle(), c.invalid, start); err == nil {
				t.Errorf("valid for %s", c.invalid)
			}
		})
	}
	for _, bad := range []string{"http://x", "https://", "ftp://x:1", "https://%zz"} {
		if _, err := (Config{URL: bad}).Names(); err == nil {
			t.Errorf("no error for the URL %q", bad)
		}
	}
}

func TestChain_newName_getsACertificateOfTheSameCA(t *testing.T) {
	c, _, err := chain{}.renewed(start, []string{"old.example.com"}, Registered{})
	if err != nil {
		t.Fatal(err)
	}
	again, changed, err := c.renewed(start, []string{"old.example.com"}, Registered{})
	if err != nil || changed || again.leaf != c.leaf {
		t.Errorf("renewed although nothing changed: %v", err)
	}
	moved, changed, err := c.renewed(start, []string{"new.example.com"}, Registered{})
	if err != nil || !changed || !moved.signer.cert.Equal(c.signer.cert) || moved.leaf.Leaf.VerifyHostname("new.example.com") != nil {
		t.Errorf("not renewed for the new name: %v", err)
	}
}

// Two webhooks with different names share the Secret, for example one in the cluster and one on another machine. They must not replace
// each other's certificate again and again.
func TestCertificateRenewer_replicasWithDifferentNames_shareOneCertificate(t *testing.T) {
	v := &fakeSecrets{}
	first := &replica{CertificateRenewer: renewerOf(v)}
	second := &replica{CertificateRenewer: renewerOf(v)}
	second.names = []string{"10.0.0.1"}
	writes := func(now time.Time, rs ...*replica) (n int) {
		for range 5 {
			for _, r := range rs {
				before := v.held
				r.pass(t, now, func([]byte) {})
				if v.held != before {
					n++
				}
			}
		}
		return n
	}
	if n := writes(start, first, second); n != 2 {
		t.Errorf("the certificate was written %d times, want twice: once per name", n)
	}
	for _, r := range []*replica{first, second} {
		for _, name := range []string{service, "vpa-webhook", "10.0.0.1"} {
			if err := verifies(r.serves, first.trusted, name, start); err != nil {
				t.Error(err)
			}
		}
	}
	later := start.Add(leafLife - leafRenew + time.Hour)
	if n := writes(later, first); n != 1 {
		t.Errorf("when it was due, the certificate was written %d times, want once", n)
	}
	if err := verifies(first.serves, first.trusted, "10.0.0.1", later); err == nil {
		t.Error("the renewed certificate contains the name of a former replica")
	}
	if err := verifies(second.serves, first.trusted, "10.0.0.1", later); err != nil {
		t.Errorf("the certificate that the second replica still serves is not trusted: %v", err)
	}
	if n := writes(later, first, second); n != 1 {
		t.Errorf("after the second replica is back, the certificate was written %d times, want once", n)
	}
	if err := verifies(second.serves, first.trusted, service, later); err != nil {
		t.Error(err)
	}
}

// upstreamCertificates returns certificates as upstream's shell script creates them: RSA keys, valid for 270 years.
func upstreamCertificates(t *testing.T) map[string][]byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "vpa_webhook_ca"}, DNSNames: []string{"vpa_webhook_ca"},
		NotBefore: start.AddDate(-1, 0, 0), NotAfter: start.AddDate(270, 0, 0), IsCA: true, BasicConstraintsValid: true,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: service}, DNSNames: []string{service},
		NotBefore: start.AddDate(-1, 0, 0), NotAfter: start.AddDate(270, 0, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	write := func(template *x509.Certificate) []byte {
		der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	keyText := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return map[string][]byte{"caCert.pem": write(ca), "caKey.pem": keyText, "serverCert.pem": write(leaf), "serverKey.pem": keyText}
}

func secretWith(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: SecretName, Namespace: "kube-system"}, Data: data}
}

func TestCertificateRenewer_upstreamsCertificates_areServedUnchanged(t *testing.T) {
	data := upstreamCertificates(t)
	client := fake.NewClientset(secretWith(data))
	id, err := renewerOf(client.CoreV1().Secrets("kube-system")).Refresh(t.Context(), start, Registered{})
	if err != nil {
		t.Fatal(err)
	}
	if string(id.Bundle) != string(data["caCert.pem"]) {
		t.Error("the bundle differs from upstream's CA")
	}
	if err := verifies(id, data["caCert.pem"], service, start); err != nil {
		t.Error(err)
	}
	for _, a := range client.Actions() {
		if a.GetVerb() != "get" {
			t.Errorf("request to the API server: %s", a.GetVerb())
		}
	}
}

func TestCertificateRenewer_otherKeysOfTheSecret_areKept(t *testing.T) {
	client := fake.NewClientset(secretWith(map[string][]byte{"ca": []byte("theirs"), "caCert.pem": []byte("nonsense"), "caKey.pem": []byte("nonsense")}))
	secrets := client.CoreV1().Secrets("kube-system")
	id, err := renewerOf(secrets).Refresh(t.Context(), start, Registered{})
	if err != nil {
		t.Fatal(err)
	}
	if err := verifies(id, id.Bundle, service, start); err != nil {
		t.Error(err)
	}
	s, err := secrets.Get(t.Context(), SecretName, metav1.GetOptions{})
	if err != nil || string(s.Data["ca"]) != "theirs" {
		t.Errorf("secret %v, %v", s.Data, err)
	}
	if again, err := renewerOf(secrets).Refresh(t.Context(), start, Registered{}); err != nil || string(again.Bundle) != string(id.Bundle) {
		t.Errorf("the written Secret cannot be read again: %v", err)
	}
}

func TestCertificateRenewer_deletedOrDamagedSecret_isRestoredWithTheSameCA(t *testing.T) {
	client := fake.NewClientset()
	secrets := client.CoreV1().Secrets("kube-system")
	k := renewerOf(secrets)
	first, err := k.Refresh(t.Context(), start, Registered{})
	if err != nil {
		t.Fatal(err)
	}
	if err := secrets.Delete(t.Context(), SecretName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second, err := k.Refresh(t.Context(), start, Registered{})
	if err != nil || string(second.Bundle) != string(first.Bundle) || second.Certificate != first.Certificate {
		t.Errorf("deleted Secret: the identity changed: %v", err)
	}
	if _, err := secrets.Update(t.Context(), secretWith(map[string][]byte{"caCert.pem": []byte("x")}), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	third, err := k.Refresh(t.Context(), start, Registered{})
	if err != nil || string(third.Bundle) != string(first.Bundle) {
		t.Errorf("damaged Secret: the CA changed: %v", err)
	}
	other, err := renewerOf(secrets).Refresh(t.Context(), start, Registered{})
	if err != nil || string(other.Bundle) != string(first.Bundle) {
		t.Errorf("another replica uses another CA: %v", err)
	}
}

func TestCertificateRenewer_concurrentStart_usesOneCertificate(t *testing.T) {
	secrets := &fakeSecrets{}
	slow := renewerOf(secrets)
	fast := renewerOf(secrets)
	var fromFast Identity
	secrets.beforeCreate = func() { // the slow replica has found no Secret and is about to create it
		var err error
		if fromFast, err = fast.Refresh(t.Context(), start, Registered{}); err != nil {
			t.Error(err)
		}
	}
	fromSlow, err := slow.Refresh(t.Context(), start, Registered{})
	if err != nil || string(fromSlow.Bundle) != string(fromFast.Bundle) || !fromSlow.Certificate.Leaf.Equal(fromFast.Certificate.Leaf) {
		t.Errorf("the replicas serve different certificates: %v", err)
	}
}

func TestCertificateRenewer_conflicts_areRetriedALimitedNumberOfTimes(t *testing.T) {
	for _, conflicts := range []int{1, 99} {
		client := fake.NewClientset(secretWith(nil))
		left := conflicts
		client.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			left--
			if left >= 0 {
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, SecretName, nil)
			}
			return false, nil, nil
		})
		_, err := renewerOf(client.CoreV1().Secrets("kube-system")).Refresh(t.Context(), start, Registered{})
		if (err == nil) != (conflicts == 1) {
			t.Errorf("%d conflicts: %v", conflicts, err)
		}
	}
}

func TestCertificateRenewer_forbiddenSecret_isReported(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, SecretName, nil)
	})
	_, err := renewerOf(client.CoreV1().Secrets("kube-system")).Refresh(t.Context(), start, Registered{})
	if err == nil || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), SecretName) {
		t.Errorf("error %v", err)
	}
}
