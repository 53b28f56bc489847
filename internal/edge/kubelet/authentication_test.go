// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// An authority signs serving certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "kubernetes"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, key := sign(t, template, nil)
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// sign returns a certificate and its key. Without an authority it is self-signed.
func sign(t *testing.T, template *x509.Certificate, by *authority) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer); err != nil {
		t.Fatal(err)
	}
	return der, key
}

// authenticating serves a kubelet that requires the token "right", with a certificate of the authority for an IP address. It counts the requests.
func authenticating(t *testing.T, by *authority, ip string) (address string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Header.Get("Authorization") != "Bearer right" {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, page)
	}))
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.ParseIP(ip)},
	}
	der, key := sign(t, template, by)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), requests
}

// A kubelet whose certificate is not trusted gets no request, so that it does not see the token.
func TestRead_kubeletAuthenticates_tokenAndCertificateMustBeValid(t *testing.T) {
	cluster, other := newAuthority(t), newAuthority(t)
	signed, signedRequests := authenticating(t, cluster, "127.0.0.1")
	elsewhere, elsewhereRequests := authenticating(t, cluster, "192.0.2.1")
	self, selfRequests := authenticating(t, nil, "127.0.0.1")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("right\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	of := func(a *authority, token string) rest.Config {
		return rest.Config{Host: "https://api.example.com", BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: a.pem}}
	}
	inPod := of(cluster, "")
	inPod.BearerTokenFile = token
	for name, c := range map[string]struct {
		address  string
		requests *atomic.Int32
		cfg      rest.Config
		insecure bool
		want     string // the error
		refused  bool   // by podfit, before a request
	}{
		"right token":                              {address: signed, requests: signedRequests, cfg: of(cluster, "right")},
		"token of a file, as in a pod":             {address: signed, requests: signedRequests, cfg: inPod},
		"wrong token":                              {address: signed, requests: signedRequests, cfg: of(cluster, "wrong"), want: "401 Unauthorized"},
		"no token":                                 {address: signed, requests: signedRequests, cfg: of(cluster, ""), want: "401 Unauthorized"},
		"certificate of another authority":         {address: signed, requests: signedRequests, cfg: of(other, "right"), want: "unknown authority", refused: true},
		"certificate of another address":           {address: elsewhere, requests: elsewhereRequests, cfg: of(cluster, "right"), want: "192.0.2.1", refused: true},
		"self-signed certificate":                  {address: self, requests: selfRequests, cfg: of(cluster, "right"), want: "unknown authority", refused: true},
		"self-signed certificate, insecure":        {address: self, requests: selfRequests, cfg: of(cluster, "right"), insecure: true},
		"certificate of another address, insecure": {address: elsewhere, requests: elsewhereRequests, cfg: of(cluster, "right"), insecure: true},
		"wrong token, insecure":                    {address: self, requests: selfRequests, cfg: of(cluster, "wrong"), insecure: true, want: "401 Unauthorized"},
	} {
		before := c.requests.Load()
		samples, err := read(t, c.address, &c.cfg, c.insecure)
		if c.want == "" && (err != nil || len(samples) != 3) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || len(samples) > 0) {
			t.Errorf("%s: %d samples, error %v", name, len(samples), err)
		}
		if n := c.requests.Load() - before; n > 0 == c.refused {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}
