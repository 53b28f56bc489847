// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// Where podfit registers itself in the defaults of its flags.
const (
	webhookLease  = "vpa-admission-controller"
	webhookConfig = "vpa-webhook-config"
	freezeSwitch  = "podfit-freeze"
)

// registrations reads the leases, the webhook configuration and the freeze of podfit.
type registrations struct{ clients *kube.Clients }

// Registrations reads all of them. What podfit may not read is named in the facts.
func (r registrations) Registrations(ctx context.Context) (overview.Facts, error) {
	var f overview.Facts
	c, failure := r.clients.Core.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, webhookConfig, metav1.GetOptions{})
	registered := failure == nil && len(c.Webhooks) > 0
	namespace := process.OwnNamespace("")
	if registered && c.Webhooks[0].ClientConfig.Service != nil {
		namespace = c.Webhooks[0].ClientConfig.Service.Namespace // in which podfit is installed
	}
	// The updater has the right to list this name. If the list fails, the page says nothing about a freeze.
	switches, err := r.clients.Core.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + freezeSwitch})
	if err == nil && len(switches.Items) == 1 {
		f.Freeze = projection.FreezeSwitch(&switches.Items[0])
	}
	for _, name := range overview.ElectionLeases() {
		lease, err := r.lease(ctx, namespace, name)
		if apierrors.IsForbidden(err) {
			f.Problem = "podfit may not read all leases of leader election, so it is not known who leads."
			continue
		}
		if err != nil {
			return f, err
		}
		f.Leases = append(f.Leases, lease)
	}
	switch {
	case apierrors.IsForbidden(failure):
		f.Webhook.Problem = "podfit may not read the webhook configuration " + webhookConfig + "."
		return f, nil
	case failure != nil && !apierrors.IsNotFound(failure):
		return f, fmt.Errorf("read the webhook configuration: %w", failure)
	}
	f.Webhook.Known = true
	if registered {
		f.Webhook.Registered = true
		f.Webhook.Until = lastExpiry(c.Webhooks[0].ClientConfig.CABundle)
	}
	if f.Webhook.Lease, err = r.lease(ctx, namespace, webhookLease); apierrors.IsForbidden(err) {
		f.Webhook.Problem, err = "podfit may not read its lease.", nil
	}
	return f, err
}

// lease returns a lease, which may not exist.
func (r registrations) lease(ctx context.Context, namespace, name string) (overview.Lease, error) {
	l, err := r.clients.Leases.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return overview.Lease{Name: name}, nil
	}
	if err != nil {
		return overview.Lease{Name: name}, fmt.Errorf("read lease %s/%s: %w", namespace, name, err)
	}
	return overview.Lease{
		Name: l.Name, Found: true, Holder: ptr.Deref(l.Spec.HolderIdentity, ""),
		Renewed:  ptr.Deref(l.Spec.RenewTime, metav1.MicroTime(l.CreationTimestamp)).Time,
		Duration: time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second,
	}, nil
}

// lastExpiry returns when the last certificate of a bundle expires; zero if there is none that can be read.
func lastExpiry(bundle []byte) (last time.Time) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	return last
}

func (s *source) addHealth(ctx context.Context, parts *[]overview.Part, now time.Time) {
	facts, ok, err := s.own.get(ctx, freshHealth, s.registrations)
	if !ok && err != nil {
		facts.Problem = "The API server did not answer who leads."
		facts.Webhook.Problem = "The API server did not answer whether it is registered."
	}
	if !ok && err == nil {
		return // it is still read
	}
	facts.Now = now
	_, _, facts.Read = s.own.peek()
	if s.process != nil {
		facts.Leading, facts.Loops = s.process.IsLeading(), s.process.Loops()
	}
	if stored, known, at := s.stored.peek(); known {
		facts.Stored = stored.updated
		facts.Looked = at
	}
	*parts = overview.HealthOf(&facts)
}
