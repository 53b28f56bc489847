// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"podfit.dev/podfit/internal/core/cluster"
)

// Validity and renewal of certificates. The API server trusts a new CA for some time before the CA signs a served certificate, and
// trusts the old CA until it expires. So it never sees a served certificate that it does not trust.
const (
	caLife     = 5 * 365 * 24 * time.Hour
	caRenew    = 365 * 24 * time.Hour // remaining validity at which a new CA is created
	caOverlap  = 24 * time.Hour       // minimum time for which a new CA is trusted before it signs
	leafLife   = 90 * 24 * time.Hour
	leafRenew  = 30 * 24 * time.Hour // remaining validity at which a new certificate is created
	clockSlack = time.Hour           // how far certificates are backdated, because clocks differ
)

// An authority is a CA certificate, with its key if it still signs.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// A chain is the serving certificate and the CAs that the API server trusts. It is a value: renewed returns a new one.
type chain struct {
	signer  authority           // signs the serving certificate
	next    authority           // is trusted and will sign later; cert is nil if there is none
	retired []*x509.Certificate // trusted, but do not sign any more
	leaf    *tls.Certificate    // the serving certificate
}

// renewed returns the chain that is needed at a time, and whether it differs from c. names are the DNS names and IP addresses of
// the webhook; the API server calls the first one. The next CA signs only after it is registered.
//
// A certificate that is not valid yet is from a replica whose clock is ahead. It is replaced by one that is valid by both clocks, so
// that the replicas do not replace each other's in turn, and stays trusted.
func (c chain) renewed(now time.Time, names []string, registered Registered) (chain, bool, error) {
	before := c
	c, err := c.renewedSigner(now, registered)
	if err != nil {
		return before, false, err
	}
	if !c.fresh(now) || c.leaf.Leaf.VerifyHostname(names[0]) != nil {
		// A replica with another name may share the Secret. If only the name is missing, or the clocks differ, the new certificate keeps
		// the names of the other replica, so that the two do not replace each other's certificate in turn. A certificate that is due
		// for renewal does not keep them, so that names of former replicas disappear.
		until := now.Add(leafLife)
		isEarly := c.leaf != nil && early(c.leaf.Leaf, now)
		if isEarly {
			until = cluster.Latest(until, c.leaf.Leaf.NotAfter)
		}
		if isEarly || c.fresh(now) {
			names = append(slices.Clone(names), otherNames(c.leaf.Leaf, names)...)
		}
		leaf, err := c.signer.sign(now, until, names)
		if err != nil {
			return before, false, err
		}
		c.leaf = leaf
	}
	changed := c.leaf != before.leaf || c.signer.cert != before.signer.cert || c.next.cert != before.next.cert || len(c.retired) != len(before.retired)
	return c, changed, nil
}

// renewedSigner returns the chain with the CAs that are needed at a time.
func (c chain) renewedSigner(now time.Time, registered Registered) (chain, error) {
	c.retired = slices.DeleteFunc(slices.Clone(c.retired), func(r *x509.Certificate) bool { return now.After(r.NotAfter) })
	if !c.signer.valid(now) {
		var err error
		if c, err = c.replacedSigner(now); err != nil {
			return c, err
		}
	}
	if c.next.cert != nil && !c.next.valid(now) && !early(c.next.cert, now) {
		c.next = authority{}
	}
	if c.next.cert == nil && c.signer.cert.NotAfter.Sub(now) < caRenew {
		a, err := newAuthority(now, now.Add(caLife))
		if err != nil {
			return c, err
		}
		c.next = a
	}
	if c.next.cert != nil && now.Sub(c.next.cert.NotBefore.Add(clockSlack)) >= caOverlap && registered.trusts(c.next.cert) {
		c.retire(c.signer.cert)
		c.signer = c.next
		c.next = authority{}
	}
	return c, nil
}

// replacedSigner returns the chain with another signer, because the signer is not valid. CAs that are not valid yet stay trusted.
func (c chain) replacedSigner(now time.Time) (chain, error) {
	next := c.next
	c.next = authority{}
	until := now.Add(caLife)
	for _, a := range []authority{next, c.signer} {
		if a.cert != nil && early(a.cert, now) {
			until = cluster.Latest(until, a.cert.NotAfter)
			c.retire(a.cert)
		}
	}
	if next.valid(now) {
		c.signer = next
		return c, nil
	}
	var err error
	c.signer, err = newAuthority(now, until)
	return c, err
}

// retire keeps a CA trusted that does not sign any more.
func (c *chain) retire(cert *x509.Certificate) {
	const maxRetired = 16 // CAs that are trusted and do not sign; bounds the bundle if a clock jumps again and again
	c.retired = append([]*x509.Certificate{cert}, c.retired...)
	c.retired = c.retired[:min(len(c.retired), maxRetired)]
}

// early reports whether a certificate is not valid yet: it is from a replica whose clock is ahead by more than clockSlack.
func early(cert *x509.Certificate, now time.Time) bool { return now.Before(cert.NotBefore) }

// notBefore returns the time from which all certificates of the chain that do not only stay trusted are valid.
func (c chain) notBefore() time.Time {
	var from time.Time
	if c.leaf != nil {
		from = c.leaf.Leaf.NotBefore
	}
	for _, cert := range []*x509.Certificate{c.signer.cert, c.next.cert} {
		if cert != nil {
			from = cluster.Latest(from, cert.NotBefore)
		}
	}
	return from
}

// Registered is the CAs in the webhook configuration, which the API server trusts.
type Registered struct {
	Bundle  []byte // CAs in PEM; empty if the webhook is not registered yet
	Unknown bool   // podfit does not register the webhook; the minimum time for which a CA is trusted has to suffice
}

func (r Registered) trusts(ca *x509.Certificate) bool { return r.Unknown || contains(r.Bundle, ca) }

// valid reports whether the CA can sign.
func (a authority) valid(now time.Time) bool {
	return a.cert != nil && a.key != nil && a.cert.IsCA && !now.Before(a.cert.NotBefore) && now.Before(a.cert.NotAfter)
}

// fresh reports whether the serving certificate is signed by the signer and is not due for renewal.
func (c chain) fresh(now time.Time) bool {
	if c.leaf == nil {
		return false
	}
	x := c.leaf.Leaf
	left := min(leafRenew, x.NotAfter.Sub(x.NotBefore)/3)
	if x.NotAfter.Equal(c.signer.cert.NotAfter) {
		left = 0 // a new certificate would not be valid for longer
	}
	return x.CheckSignatureFrom(c.signer.cert) == nil && !early(x, now) && x.NotAfter.Sub(now) >= left
}

// otherNames returns the names of a certificate that are not in names.
func otherNames(x *x509.Certificate, names []string) []string {
	has := slices.Concat(x.DNSNames, cluster.Each(x.IPAddresses, func(ip *net.IP) string { return ip.String() }))
	return slices.DeleteFunc(has, func(n string) bool { return slices.Contains(names, n) })
}

// bundle returns the CAs that the API server trusts, in PEM, the signer first.
func (c chain) bundle() []byte {
	text, _ := certutil.EncodeCertificates(c.trusted()...) // the error is that of a buffer
	return text
}

func (c chain) trusted() []*x509.Certificate {
	all := append([]*x509.Certificate{c.signer.cert, c.next.cert}, c.retired...)
	return slices.DeleteFunc(all, func(cert *x509.Certificate) bool { return cert == nil })
}

func newAuthority(now, until time.Time) (authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "vpa_webhook_ca"},
		NotAfter:              until,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	return authority{}.issue(template, now, "CA", "")
}

// sign returns a new serving certificate for DNS names and IP addresses. It is valid until a time, or until the CA expires.
func (a authority) sign(now, until time.Time, names []string) (*tls.Certificate, error) {
	if a.cert.NotAfter.Before(until) {
		until = a.cert.NotAfter
	}
	template := &x509.Certificate{
		NotAfter:    until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if len(names[0]) <= 64 { // the maximum length of a common name
		template.Subject.CommonName = names[0]
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	leaf, err := a.issue(template, now, "certificate", " for "+names[0])
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.cert.Raw}, PrivateKey: leaf.key, Leaf: leaf.cert}, nil
}

// issue returns a certificate with a new key. The zero authority issues a CA, which signs itself. kind and purpose are for errors.
func (a authority) issue(template *x509.Certificate, now time.Time, kind, purpose string) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, fmt.Errorf("create the key of a %s: %w", kind, err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return authority{}, fmt.Errorf("create a serial number: %w", err)
	}
	template.NotBefore = now.Add(-clockSlack)
	if a.cert == nil {
		// Clients that look up an issuer by its subject distinguish CAs by the serial number.
		template.Subject.SerialNumber = template.SerialNumber.Text(16)
		a = authority{cert: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return authority{}, fmt.Errorf("create a %s%s: %w", kind, purpose, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return authority{}, fmt.Errorf("parse the new %s: %w", kind, err)
	}
	return authority{cert: cert, key: key}, nil
}

// The keys of the Secret. Upstream's certificate script uses the same ones, except nextCaKey.pem.
const (
	entryCA      = "caCert.pem"    // all trusted CAs, the signer first
	entryCAKey   = "caKey.pem"     // the signer's key
	entryNextKey = "nextCaKey.pem" // the key of the next CA, if there is one
	entryCert    = "serverCert.pem"
	entryKey     = "serverKey.pem"
)

// entries encodes a chain as data of a Secret. A nil value means that the key is to be removed.
func (c chain) entries() (map[string][]byte, error) {
	out := map[string][]byte{entryCA: c.bundle(), entryNextKey: nil}
	var err error
	if out[entryCAKey], err = keyPEM(c.signer.key); err != nil {
		return nil, err
	}
	if c.next.cert != nil {
		if out[entryNextKey], err = keyPEM(c.next.key); err != nil {
			return nil, err
		}
	}
	if out[entryKey], err = keyPEM(c.leaf.PrivateKey); err != nil {
		return nil, err
	}
	for _, der := range c.leaf.Certificate {
		out[entryCert] = append(out[entryCert], pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return out, nil
}

func keyPEM(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// readChain decodes the data of a Secret. It returns the parts that are valid, and an error for each part that is not.
func readChain(data map[string][]byte) (c chain, errs error) {
	certs, err := readCertificates(data[entryCA])
	errs = errors.Join(errs, err)
	var keys []crypto.Signer // of the signer and of the next CA
	for _, entry := range []string{entryCAKey, entryNextKey} {
		k, err := readKey(data[entry])
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s: %w", entry, err))
		}
		keys = append(keys, k)
	}
	for _, cert := range certs {
		switch {
		case c.signer.cert == nil && belongs(keys[0], cert):
			c.signer = authority{cert: cert, key: keys[0]}
		case c.next.cert == nil && belongs(keys[1], cert):
			c.next = authority{cert: cert, key: keys[1]}
		default:
			c.retired = append(c.retired, cert)
		}
	}
	if len(data[entryCert]) == 0 {
		return c, errs
	}
	leaf, err := tls.X509KeyPair(data[entryCert], data[entryKey])
	if err != nil {
		return c, errors.Join(errs, fmt.Errorf("%s: %w", entryCert, err))
	}
	c.leaf = &leaf
	return c, errs
}

func belongs(key crypto.Signer, cert *x509.Certificate) bool {
	if key == nil {
		return false
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(cert.PublicKey)
}

func readCertificates(text []byte) ([]*x509.Certificate, error) {
	if len(text) == 0 {
		return nil, nil
	}
	certs, err := certutil.ParseCertsPEM(text)
	if err != nil {
		return certs, fmt.Errorf("%s: %w", entryCA, err)
	}
	return certs, nil
}

func contains(bundle []byte, ca *x509.Certificate) bool {
	certs, _ := readCertificates(bundle)
	return slices.ContainsFunc(certs, ca.Equal)
}

// readKey decodes a private key in PKCS #1, SEC 1 or PKCS #8 format. It returns nil for an empty text.
func readKey(text []byte) (crypto.Signer, error) {
	if len(text) == 0 {
		return nil, nil
	}
	key, err := keyutil.ParsePrivateKeyPEM(text)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("key type %T cannot sign", key)
	}
	return signer, nil
}
