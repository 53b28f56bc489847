// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

// SecretName is the name of the Secret that stores podfit's own certificates. Upstream's certificate script uses the same name.
const SecretName = "vpa-tls-certs"

// An Identity is the serving certificate and the CAs that the API server must trust.
type Identity struct {
	Certificate *tls.Certificate
	Bundle      []byte // CAs in PEM; if empty, the API server uses its own roots
}

// A CertificateRenewer creates and renews podfit's own certificates. It stores them in a Secret, so that all replicas use the same
// ones. The first replica creates them.
type CertificateRenewer struct {
	client  corev1client.SecretInterface
	secret  string
	names   []string // of the webhook; the API server calls the first one
	persist bool     // write the Secret; otherwise new certificates stay in memory
	log     *slog.Logger

	last chain // as last read or written; restores a Secret that was deleted or damaged

	warnedEarly bool // the Secret has certificates that are not valid yet, and this has been logged
}

// Refresh returns the current identity. It writes the Secret if a certificate in it is due for renewal.
func (r *CertificateRenewer) Refresh(ctx context.Context, now time.Time, registered Registered) (Identity, error) {
	const maxWriteAttempts = 5 // how often a write that conflicts with the write of another replica is repeated
	if !r.persist {
		return r.refreshReadOnly(ctx, now)
	}
	for range maxWriteAttempts {
		secret, err := r.client.Get(ctx, r.secret, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			secret, err = nil, nil
		}
		if err != nil {
			return Identity{}, fmt.Errorf("read secret %s with the certificates of the webhook: %w", r.secret, err)
		}
		chain := r.current(secret, now)
		r.warnEarly(chain, now)
		next, changed, err := chain.renewed(now, r.names, registered)
		if err != nil {
			return Identity{}, err
		}
		if secret == nil || changed {
			err = r.write(ctx, secret, next)
			if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
				continue // another replica has written the Secret: read it again
			}
			if secret == nil && apierrors.IsForbidden(err) {
				return Identity{}, fmt.Errorf("secret %s does not exist and podfit may not create it; create it with kubectl apply -f deploy/15-webhook-objects.yaml: %w", r.secret, err)
			}
			if err != nil {
				return Identity{}, fmt.Errorf("write secret %s with the certificates of the webhook: %w", r.secret, err)
			}
			r.log.Info("Renewed the certificates of the webhook", slog.String("secret", r.secret), slog.Time("until", next.leaf.Leaf.NotAfter), slog.Int("authorities", len(next.trusted())))
		}
		r.last = next
		return Identity{Certificate: next.leaf, Bundle: next.bundle()}, nil
	}
	return Identity{}, fmt.Errorf("write secret %s with the certificates of the webhook: it was changed by others during each of %d attempts", r.secret, maxWriteAttempts)
}

// refreshReadOnly returns the current identity without writing the Secret: the certificate in the Secret if it is valid for the
// names of this webhook, otherwise one that only this process has.
func (r *CertificateRenewer) refreshReadOnly(ctx context.Context, now time.Time) (Identity, error) {
	if r.last.fresh(now) {
		return Identity{Certificate: r.last.leaf, Bundle: r.last.bundle()}, nil
	}
	var c chain
	if secret, err := r.client.Get(ctx, r.secret, metav1.GetOptions{}); err == nil {
		c, _ = readChain(secret.Data)
	}
	next, _, err := c.renewed(now, r.names, Registered{})
	if err != nil {
		return Identity{}, err
	}
	r.last = next
	return Identity{Certificate: next.leaf, Bundle: next.bundle()}, nil
}

// current returns the chain in the Secret, or the one in memory if the Secret has no CA that can sign.
func (r *CertificateRenewer) current(secret *corev1.Secret, now time.Time) chain {
	if secret == nil {
		return r.last
	}
	c, err := readChain(secret.Data)
	if c.signer.valid(now) || c.signer.cert != nil && early(c.signer.cert, now) {
		if err != nil {
			r.log.Warn("Some certificates in the Secret are invalid; they are created again", slog.String("secret", r.secret), slog.Any("error", err))
		}
		return c
	}
	if r.last.signer.valid(now) {
		r.log.Warn("The certificates in the Secret were damaged; they are restored from memory", slog.String("secret", r.secret), slog.Any("error", err))
		return chain{signer: r.last.signer, next: r.last.next, retired: r.last.retired, leaf: nil}
	}
	if len(secret.Data) > 0 {
		r.log.Warn("The Secret contains no usable CA; a new CA is added", slog.String("secret", r.secret), slog.Any("error", err))
	}
	return c
}

// warnEarly logs that the Secret contains certificates that are not valid yet.
func (r *CertificateRenewer) warnEarly(c chain, now time.Time) {
	isEarly := now.Before(c.notBefore())
	if isEarly && !r.warnedEarly {
		r.log.Warn("Certificates of the webhook are not valid yet; the clocks of the replicas differ, or a clock was set back",
			slog.String("secret", r.secret), slog.Time("until", c.notBefore()), slog.String("remedy", "synchronize the clocks of the nodes"))
	}
	r.warnedEarly = isEarly
}

// write stores a chain in the Secret and keeps its other keys.
func (r *CertificateRenewer) write(ctx context.Context, secret *corev1.Secret, c chain) error {
	entries, err := c.entries()
	if err != nil {
		return err
	}
	create := secret == nil
	if create {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: r.secret}}
	} else {
		secret = secret.DeepCopy()
	}
	for name, value := range entries {
		if value == nil {
			delete(secret.Data, name)
		} else {
			cluster.Put(&secret.Data, name, value)
		}
	}
	if create {
		_, err = r.client.Create(ctx, secret, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		_, err = r.client.Update(ctx, secret, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	return err
}

// NewCertificateRenewer returns a renewer. If persist is false, it does not write the Secret.
func NewCertificateRenewer(client corev1client.SecretInterface, secret string, names []string, persist bool, log *slog.Logger) *CertificateRenewer {
	return &CertificateRenewer{client: client, secret: secret, names: names, persist: persist, log: log}
}
