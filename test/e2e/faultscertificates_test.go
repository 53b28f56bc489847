// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/test/e2e/bed"
)

// The objects of the webhook.
const (
	certificateSecret    = "vpa-tls-certs"
	webhookConfiguration = "vpa-webhook-config"
)

// A signer is a certificate authority.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue returns a certificate with a new key that the authority signs, or itself if it has none.
func (f *faulty) issue(by *signer, template *x509.Certificate) *signer {
	f.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	f.must(err)
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	f.must(err)
	if by == nil {
		by = &signer{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, &key.PublicKey, by.key)
	f.must(err)
	cert, err := x509.ParseCertificate(der)
	f.must(err)
	return &signer{cert, key}
}

// foreignAuthority returns an authority that podfit has not created.
func (f *faulty) foreignAuthority() *signer {
	f.Helper()
	return f.issue(nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "another_ca"}, NotBefore: time.Now().Add(-100 * time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	})
}

// leaf returns a serving certificate of the webhook.
func (f *faulty) leaf(by *signer, from, until time.Time) *signer {
	f.Helper()
	return f.issue(by, &x509.Certificate{
		Subject: pkix.Name{CommonName: "127.0.0.1"}, NotBefore: from, NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

func (s *signer) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.cert.Raw})
}

func (f *faulty) keyPEM(s *signer) []byte {
	f.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(s.key)
	f.must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// storedAuthority returns the authority in podfit's Secret.
func (f *faulty) storedAuthority() *signer {
	f.Helper()
	secret, err := f.CoreV1().Secrets(bed.Namespace).Get(f.Context(), certificateSecret, metav1.GetOptions{})
	f.must(err)
	cert, _ := pem.Decode(secret.Data["caCert.pem"])
	key, _ := pem.Decode(secret.Data["caKey.pem"])
	if cert == nil || key == nil {
		f.Fatal("the Secret has no authority")
	}
	s := &signer{}
	s.cert, err = x509.ParseCertificate(cert.Bytes)
	f.must(err)
	parsed, err := x509.ParsePKCS8PrivateKey(key.Bytes)
	f.must(err)
	s.key = parsed.(*ecdsa.PrivateKey)
	return s
}

// storeChain replaces the certificates in the Secret.
func (f *faulty) storeChain(ca, leaf *signer) {
	f.Helper()
	patch, err := json.Marshal(map[string]any{"data": map[string]any{
		"caCert.pem": ca.pem(), "caKey.pem": f.keyPEM(ca), "serverCert.pem": leaf.pem(), "serverKey.pem": f.keyPEM(leaf), "nextCaKey.pem": nil,
	}})
	f.must(err)
	_, err = f.CoreV1().Secrets(bed.Namespace).Patch(f.Context(), certificateSecret, types.MergePatchType, patch, metav1.PatchOptions{})
	f.must(err)
}

func faultsOfCertificates() []fault {
	restart := func(f *faulty) { f.startComponents("admission-controller") }
	expired := func(f *faulty, ca *signer) {
		f.storeChain(ca, f.leaf(ca, time.Now().Add(-48*time.Hour), time.Now().Add(-time.Hour)))
	}
	return []fault{
		{name: "expired certificate in the Secret, admission controller restarted", kind: "certificate expired", lasts: 5 * time.Second, kills: true, begin: func(f *faulty) {
			f.killComponents("admission-controller")
			expired(f, f.storedAuthority())
		}, end: restart},
		{name: "expired certificate in the Secret while the webhook runs", kind: "certificate expired", lasts: 15 * time.Second, begin: func(f *faulty) { expired(f, f.storedAuthority()) }},
		{name: "valid certificates of another CA in the Secret", kind: "CA replaced", lasts: 15 * time.Second, begin: func(f *faulty) {
			ca := f.foreignAuthority()
			f.storeChain(ca, f.leaf(ca, time.Now().Add(-time.Hour), time.Now().Add(90*24*time.Hour)))
		}},
		{name: "caBundle of another CA in the webhook configuration", kind: "CA replaced", lasts: 15 * time.Second, begin: func(f *faulty) {
			bundle, err := json.Marshal(f.foreignAuthority().pem())
			f.must(err)
			patch := fmt.Sprintf(`[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":%s}]`, bundle)
			_, err = f.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(f.Context(), webhookConfiguration, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
			f.must(err)
		}},
	}
}
