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

func TestServer_untilItIsRegistered_isNotReady(t *testing.T) {
	var away atomic.Bool
	away.Store(true)
	r := runAfter(t, Config{Register: true, Registration: usual, ShutdownDelay: time.Hour}, func(r *running) {
		if err := r.Ready(); !errors.Is(err, errNoCertificate) {
			t.Errorf("without a certificate: %v", err)
		}
		r.client.PrependReactor("*", "mutatingwebhookconfigurations", func(clienttesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, errors.New("the API server is away")
		})
	})
	eventually(t, "the webhook serves", func() bool { return errors.Is(r.Ready(), errNotRegistered) })
	away.Store(false)
	r.tick <- time.Time{}
	eventually(t, "the webhook is ready", func() bool { return r.Ready() == nil })

	away.Store(true)
	r.later(time.Minute)
	if err := r.Ready(); err != nil {
		t.Errorf("an API server that is away takes the webhook out of service: %v", err)
	}
	if err := r.Check(t.Context()); !errors.Is(err, errNotRegistered) {
		t.Errorf("the status lease would be renewed although the registration is not known: %v", err)
	}
	if n := testutil.ToFloat64(r.handler.metrics.registered); n != 0 {
		t.Errorf("the metric says registered: %v", n)
	}
}

func TestServer_stopping_isNotReadyAndStillAnswers(t *testing.T) {
	r := run(t, Config{Registration: usual, ShutdownDelay: time.Hour}) // its end is not awaited
	eventually(t, "ready", func() bool { return r.Ready() == nil })
	r.cancel()
	eventually(t, "not ready", func() bool { return r.Ready() != nil })
	if err := r.sendReview(t.Context()); err != nil {
		t.Errorf("a review is not answered any more: %v", err)
	}
}

func TestServer_certificateForAnotherName_isNotReady(t *testing.T) {
	files := write(t, t.TempDir(), made(t, "another.name"))
	r := run(t, Config{Files: files, Register: true, Registration: usual})
	eventually(t, "the reason is logged", func() bool { return r.log.has("its self-check failed") })
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "has not succeeded") {
		t.Errorf("ready: %v", err)
	}
}

func TestServer_expiredCertificate_isNotReady(t *testing.T) {
	files := write(t, t.TempDir(), made(t, service)) // not reloaded
	r := run(t, Config{Files: files, Register: true, Registration: usual})
	eventually(t, "ready", func() bool { return r.Ready() == nil })
	r.clock.Store(r.serving.Load().Certificate.Leaf.NotAfter.Unix() + 1)
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "expired at") {
		t.Errorf("ready with a certificate that no API server takes: %v", err)
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
