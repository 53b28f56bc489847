// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// countedSecrets counts writes.
type countedSecrets struct {
	fakeSecrets
	writes int
}

func (v *countedSecrets) Create(ctx context.Context, s *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error) {
	v.writes++
	return v.fakeSecrets.Create(ctx, s, o)
}

func (v *countedSecrets) Update(ctx context.Context, s *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error) {
	v.writes++
	return v.fakeSecrets.Update(ctx, s, o)
}

// Replicas whose clocks differ agree on certificates that are valid by both clocks, instead of replacing each other's in every pass.
func TestCertificateRenewer_clocksOfReplicasDiffer_certificatesConverge(t *testing.T) {
	const day = 24 * time.Hour
	for name, ahead := range map[string]time.Duration{
		"two hours": 2 * time.Hour, "59 days": 59 * day, "61 days": 61 * day, "400 days": 400 * day, "four and a half years": 1640 * day,
		"almost the life of a CA": caLife - 20*day, "six years": 2200 * day, "since 1970": 56 * 365 * day,
	} {
		for _, first := range []int{0, 1} {
			secrets := &countedSecrets{}
			var log bytes.Buffer
			replicas := make([]*replica, 2)
			names := []string{service, "vpa-webhook.example.com"}
			for i := range replicas {
				replicas[i] = &replica{CertificateRenewer: NewCertificateRenewer(secrets, SecretName, names[i:i+1], true, slog.New(slog.NewTextHandler(&log, nil)))}
			}
			var registered []byte
			settled := 0 // writes of the first two days
			for hour := range 5 * 24 {
				if hour == 48 {
					settled = secrets.writes
				}
				for i := range replicas {
					at := (i + first) % 2
					now := start.Add(time.Duration(hour) * time.Hour)
					if at == 1 {
						now = now.Add(ahead)
					}
					replicas[at].pass(t, now, func(bundle []byte) { registered = bundle })
					for n, r := range replicas {
						if r.serves.Certificate == nil || ahead > caLife { // a CA that expired long ago by one clock is replaced
							continue
						}
						if err := verifies(r.serves, registered, names[n], r.serves.Certificate.Leaf.NotBefore.Add(clockSlack)); err != nil {
							t.Fatalf("%s ahead, replica %d first, hour %d: the certificate of replica %d is not trusted: %v", name, first, hour, n, err)
						}
					}
				}
			}
			if secrets.writes != settled || secrets.writes > 12 {
				t.Errorf("%s ahead, replica %d first: %d writes in two days, %d in five", name, first, settled, secrets.writes)
			}
			for clock, now := range map[string]time.Time{"the first": start.Add(5 * day), "the second": start.Add(5*day + ahead)} {
				for n, r := range replicas {
					if err := verifies(r.serves, registered, names[n], now); err != nil {
						t.Errorf("%s ahead, replica %d first: by %s clock, replica %d is not trusted: %v", name, first, clock, n, err)
					}
				}
			}
			if warnings := strings.Count(log.String(), "clocks"); warnings == 0 && ahead > day || warnings > 4 {
				t.Errorf("%s ahead, replica %d first: %d warnings about the clocks, want 1 to 4:\n%s", name, first, warnings, &log)
			}
		}
	}
}
