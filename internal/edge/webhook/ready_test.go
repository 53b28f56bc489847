// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

func TestServer_notRegistered_isNotReady(t *testing.T) {
	var unavailable atomic.Bool
	unavailable.Store(true)
	r := runAfter(t, Config{Register: true, Registration: usual, ShutdownDelay: time.Hour}, func(r *running) {
		if err := r.Ready(); !errors.Is(err, errNoCertificate) {
			t.Errorf("without a certificate: %v", err)
		}
		r.client.PrependReactor("*", "mutatingwebhookconfigurations", func(clienttesting.Action) (bool, runtime.Object, error) {
			return unavailable.Load(), nil, errors.New("the API server is unavailable")
		})
	})
	eventually(t, "the webhook serves", func() bool { return errors.Is(r.Ready(), errNotRegistered) })
	unavailable.Store(false)
	r.tick <- time.Time{}
	eventually(t, "the webhook is ready", func() bool { return r.Ready() == nil })

	unavailable.Store(true)
	r.later(time.Minute)
	if err := r.Ready(); err != nil {
		t.Errorf("not ready while the API server is unavailable: %v", err)
	}
	if err := r.Check(t.Context()); !errors.Is(err, errNotRegistered) {
		t.Errorf("the check does not fail although the registration cannot be read: %v", err)
	}
	if n := testutil.ToFloat64(r.handler.metrics.registered); n != 0 {
		t.Errorf("the metric for registered is %v, want 0", n)
	}
}

func TestServer_stopping_isNotReadyAndStillResponds(t *testing.T) {
	r := run(t, Config{Registration: usual, ShutdownDelay: time.Hour}) // the test ends first
	eventually(t, "ready", func() bool { return r.Ready() == nil })
	r.cancel()
	eventually(t, "not ready", func() bool { return r.Ready() != nil })
	if err := r.sendReview(t.Context()); err != nil {
		t.Errorf("no response to a review: %v", err)
	}
}

func TestServer_certificateForAnotherName_isNotReady(t *testing.T) {
	files := writeFiles(t, t.TempDir(), newCertificates(t, "another.name"))
	r := run(t, Config{Files: files, Register: true, Registration: usual})
	eventually(t, "the reason is logged", func() bool { return r.log.has("its self-check failed") })
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "has not succeeded") {
		t.Errorf("ready: %v", err)
	}
}

func TestServer_expiredCertificate_isNotReady(t *testing.T) {
	files := writeFiles(t, t.TempDir(), newCertificates(t, service)) // not reloaded
	r := run(t, Config{Files: files, Register: true, Registration: usual})
	eventually(t, "ready", func() bool { return r.Ready() == nil })
	r.clock.Store(r.serving.Load().Certificate.Leaf.NotAfter.Unix() + 1)
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "expired at") {
		t.Errorf("ready with an expired certificate: %v", err)
	}
}

func TestMetrics_servingAndRegistered_containCertificateExpiry(t *testing.T) {
	r := run(t, Config{Register: true, Registration: usual})
	m := r.handler.metrics
	m.Watch(r)
	eventually(t, "ready", func() bool { return r.Ready() == nil })
	r.later(0)
	want := float64(r.serving.Load().Certificate.Leaf.NotAfter.Unix())
	if got := testutil.ToFloat64(m.expiry); got != want || testutil.ToFloat64(m.registered) != 1 {
		t.Errorf("expiry %v, want %v; registered %v", got, want, testutil.ToFloat64(m.registered))
	}
	r.later(80 * 24 * time.Hour)
	if got := testutil.ToFloat64(m.expiry); got <= want {
		t.Errorf("expiry %v after the renewal, before %v", got, want)
	}
}
