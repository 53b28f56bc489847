// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// SecretName is where podfit keeps certificates of its own, as upstream's script does.
const SecretName = "vpa-tls-certs"

// An Identity is what the webhook serves with, and what the API server is to trust.
type Identity struct {
	Certificate *tls.Certificate
	Bundle      []byte // PEM; empty leaves the API server to what it trusts anyway
}

// A CertificateRenewer makes podfit's own certificates and renews them in time. They live in a Secret, so that every replica
// serves with the same ones; whichever replica comes first makes them.
type CertificateRenewer struct {
	client corev1client.SecretInterface
	secret string
	names  []string // of the webhook; the first is the one the API server calls
	keep   bool     // write the Secret; else what is made stays in memory
	log    *slog.Logger

	last chain // as last read or written: it heals a Secret that is deleted or spoiled
}

// refresh returns what to serve with now. It writes the Secret when something in it is due.
func (k *CertificateRenewer) Refresh(ctx context.Context, now time.Time, trusted func(*x509.Certificate) bool) (Identity, error) {
	if !k.keep {
		return k.borrow(ctx, now)
	}
	for range 5 {
		secret, err := k.client.Get(ctx, k.secret, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			secret, err = nil, nil
		}
		if err != nil {
			return Identity{}, fmt.Errorf("read secret %s with the webhook's certificates: %w", k.secret, err)
		}
		next, changed, err := k.current(secret, now).renewed(now, k.names, trusted)
		if err != nil {
			return Identity{}, err
		}
		if secret == nil || changed {
			err = k.write(ctx, secret, next)
			if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
				continue // another replica was faster: see what it made
			}
			if secret == nil && apierrors.IsForbidden(err) {
				return Identity{}, fmt.Errorf("secret %s does not exist and may not be created: kubectl apply -f deploy/15-webhook-objects.yaml "+
					"creates it empty, and podfit fills it: %w", k.secret, err)
			}
			if err != nil {
				return Identity{}, fmt.Errorf("write secret %s with the webhook's certificates: %w", k.secret, err)
			}
			k.log.Info("Renewed the webhook's certificates", slog.String("secret", k.secret), slog.Time("until", next.leaf.Leaf.NotAfter), slog.Int("authorities", len(next.trusted())))
		}
		k.last = next
		return Identity{Certificate: next.leaf, Bundle: next.bundle()}, nil
	}
	return Identity{}, fmt.Errorf("write secret %s with the webhook's certificates: others keep changing it", k.secret)
}

// borrow returns what to serve with for somebody who must not write: what is in the Secret where that is for us, and a
// certificate that nobody but this process has where it is not.
func (k *CertificateRenewer) borrow(ctx context.Context, now time.Time) (Identity, error) {
	if k.last.fresh(now) {
		return Identity{Certificate: k.last.leaf, Bundle: k.last.bundle()}, nil
	}
	var c chain
	if secret, err := k.client.Get(ctx, k.secret, metav1.GetOptions{}); err == nil {
		c, _ = readChain(secret.Data)
	}
	next, _, err := c.renewed(now, k.names, func(*x509.Certificate) bool { return false })
	if err != nil {
		return Identity{}, err
	}
	k.last = next
	return Identity{Certificate: next.leaf, Bundle: next.bundle()}, nil
}

// current returns the chain in the Secret, or the one in memory when the Secret cannot sign.
func (k *CertificateRenewer) current(secret *corev1.Secret, now time.Time) chain {
	if secret == nil {
		return k.last
	}
	c, err := readChain(secret.Data)
	if c.signer.valid(now) {
		if err != nil {
			k.log.Warn("Cannot read all of the webhook's certificates; making new ones for the rest", slog.String("secret", k.secret), slog.Any("error", err))
		}
		return c
	}
	if k.last.signer.valid(now) {
		k.log.Warn("The webhook's certificates were spoiled; writing them again", slog.String("secret", k.secret), slog.Any("error", err))
		return chain{signer: k.last.signer, next: k.last.next, retired: k.last.retired, leaf: nil}
	}
	if len(secret.Data) > 0 {
		k.log.Warn("The secret for the webhook's certificates holds no usable authority; adding one", slog.String("secret", k.secret), slog.Any("error", err))
	}
	return c
}

// write puts a chain into the Secret, beside what else is there.
func (k *CertificateRenewer) write(ctx context.Context, secret *corev1.Secret, c chain) error {
	entries, err := c.entries()
	if err != nil {
		return err
	}
	create := secret == nil
	if create {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: k.secret}}
	} else {
		secret = secret.DeepCopy()
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for name, value := range entries {
		if value == nil {
			delete(secret.Data, name)
		} else {
			secret.Data[name] = value
		}
	}
	if create {
		_, err = k.client.Create(ctx, secret, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		_, err = k.client.Update(ctx, secret, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	return err
}

// NewCertificateRenewer returns a renewer. If persist is false, it does not write the Secret.
func NewCertificateRenewer(client corev1client.SecretInterface, secret string, names []string, persist bool, log *slog.Logger) *CertificateRenewer {
	return &CertificateRenewer{client: client, secret: secret, names: names, keep: persist, log: log}
}
