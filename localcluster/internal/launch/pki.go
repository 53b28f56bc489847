// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// A CA is a certificate authority whose certificate and key are files.
type CA struct {
	CertFile, KeyFile string
	CertPEM           []byte

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// openCA reads the authority from the folder. It creates the authority if its key does not exist.
func openCA(dir, name string) (*CA, error) {
	ca := &CA{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
	if _, err := os.Stat(ca.KeyFile); os.IsNotExist(err) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		template := &x509.Certificate{
			SerialNumber: serial(), Subject: pkix.Name{CommonName: "localcluster " + name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			return nil, err
		}
		if err := WriteFile(ca.CertFile, encode("CERTIFICATE", der), 0o644); err != nil {
			return nil, err
		}
		if err := WriteFile(ca.KeyFile, encodeKey(key), 0o600); err != nil {
			return nil, err
		}
	}
	pair, err := tls.LoadX509KeyPair(ca.CertFile, ca.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	ca.cert = pair.Leaf
	ca.key = pair.PrivateKey.(*ecdsa.PrivateKey)
	ca.CertPEM, err = os.ReadFile(ca.CertFile)
	return ca, err
}

// client issues a client certificate for a user with these groups.
func (ca *CA) client(user string, groups ...string) (cert, key []byte, err error) {
	return ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// serving issues a serving certificate for the loopback interface and these DNS names.
func (ca *CA) serving(names ...string) (cert, key []byte, err error) {
	return ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 0, 0, 1)},
	})
}

func (ca *CA) issue(template *x509.Certificate) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial()
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().AddDate(5, 0, 0)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, private.Public(), ca.key)
	if err != nil {
		return nil, nil, fmt.Errorf("issue a certificate for %s: %w", template.Subject.CommonName, err)
	}
	return encode("CERTIFICATE", der), encodeKey(private), nil
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // the system has no random source
	}
	return n
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		panic(err) // cannot happen: P-256 keys can be marshalled
	}
	return encode("EC PRIVATE KEY", der)
}

// kubeconfig returns a kubeconfig that contains its certificates and key, so that the file can be moved.
func kubeconfig(server string, caPEM, cert, key []byte, user string) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: localcluster
contexts:
- name: localcluster
  context: {cluster: localcluster, user: %[4]q}
clusters:
- name: localcluster
  cluster:
    server: %[1]s
    certificate-authority-data: %[2]s
users:
- name: %[4]q
  user:
    client-certificate-data: %[3]s
    client-key-data: %[5]s
`, server, b64(caPEM), b64(cert), user, b64(key))
}

// WriteFile replaces a file atomically.
func WriteFile(path string, text []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if e := f.Chmod(mode); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
