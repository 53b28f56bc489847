// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/webhook"
)

func runGiven(t *testing.T, flags ...string) *runConfig {
	t.Helper()
	c := runDefaults()
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	fs.SetNormalizeFunc(dashes)
	c.Flags(fs)
	if err := fs.Parse(flags); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	c.share()
	return &c
}

// What a dry run means, all three jobs must know: the tests of each show what it does then.
func TestADryRunIsOneForAllThreeJobs(t *testing.T) {
	dry := runGiven(t, "--dry-run", "--leader-elect", "--register-by-url", "--webhook-address=10.0.0.1")
	for name, is := range map[string]bool{
		"the connection": dry.dryRun, "recommender": dry.Recommender.dryRun, "updater": dry.Updater.dryRun && dry.Updater.DryRun, "webhook": dry.Admission.dryRun,
	} {
		if !is {
			t.Errorf("%s does not know of it", name)
		}
	}
	if dry.Election.Enabled || dry.Admission.Register || dry.Updater.UseStatus || dry.Admission.takesBack() {
		t.Errorf("it elects %t, registers %t, waits for the webhook %t", dry.Election.Enabled, dry.Admission.Register, dry.Updater.UseStatus)
	}
	wet := runGiven(t, "--leader-elect")
	if wet.dryRun || wet.Recommender.dryRun || wet.Admission.dryRun || !wet.Election.Enabled || !wet.Admission.Register || !wet.Updater.UseStatus {
		t.Error("without the flag it is a dry run")
	}
	updater := updaterGiven(t, "--dry-run", "--leader-elect")
	if updater.settle(); !updater.dryRun || updater.Election.Enabled || !updater.UseStatus {
		t.Errorf("the updater alone: dry run %t, elects %t, waits for the webhook %t", updater.dryRun, updater.Election.Enabled, updater.UseStatus)
	}
}

func TestADryRunStoresNothingAndRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "balanced"
		b.autoscale("gone", b.deployment("gone", 1, "app")).Recommender = "balanced"
		b.run(20 * time.Minute)
		writes, remembered := b.storeWrites, b.remembered.writes
		if writes == 0 || remembered == 0 {
			t.Fatal("nothing is stored otherwise")
		}
		b.autoscalers = b.autoscalers[:1]
		b.autoscale("new", b.deployment("new", 1, "app"))
		b.config.dryRun = true
		r := b.run(2 * time.Hour)
		r.end(context.WithoutCancel(t.Context()))
		if b.storeWrites != writes || b.remembered.writes != remembered || len(b.stored) != 2 || len(b.remembered.stored) != 2 {
			t.Errorf("%d checkpoints and %d histories were written, %d and %d are left",
				b.storeWrites-writes, b.remembered.writes-remembered, len(b.stored), len(b.remembered.stored))
		}
		if b.advice("new", "app").Target.CPU < 300 {
			t.Error("nothing is recommended")
		}
	})
}

func TestADryRunSaysWhatItWouldRecommendWhenItHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		b := newBench(t)
		b.config.dryRun = true
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app"))
		r := newRecommender(b.config, b, b, b.storage(), newRecommenderMetrics(prometheus.NewRegistry()), NewHealth(time.Hour),
			slog.New(slog.NewTextHandler(&text, nil)))
		start := time.Now()
		pass := func() {
			time.Sleep(time.Minute)
			r.pass(t.Context(), time.Now())
		}
		for time.Since(start) < time.Hour {
			pass()
		}
		if n := strings.Count(text.String(), `"Would recommend" vpa=shop/web container=app target=`); n != 1 {
			t.Errorf("of steady usage it is said %d times:\n%s", n, text.String())
		}
		text.Reset()
		b.use["app"] = cluster.Amounts(1200, 200<<20)
		for time.Since(start) < 2*time.Hour {
			pass()
		}
		if n := strings.Count(text.String(), "Would recommend"); n < 1 || n > 30 {
			t.Errorf("of usage four times as high it is said %d times", n)
		}
	})
}

// Certificates in the cluster, and the status lease by which updaters know that new pods are sized, are those of a webhook
// that somebody may call. An administrator who registers it has made certificates for it, or runs it behind the service.
func TestAWebhookThatNobodyCallsLeavesNoTrace(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"cert", "key"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := []string{"--tls-cert-file=" + filepath.Join(dir, "cert"), "--tls-private-key=" + filepath.Join(dir, "key")}
	none := []string{"--tls-cert-file=" + filepath.Join(dir, "none"), "--tls-private-key=" + filepath.Join(dir, "none")}
	byURL := []string{"--register-by-url", "--webhook-address=10.0.0.1"}
	for name, c := range map[string]struct {
		flags                 []string
		pod, alone, takesBack bool
	}{
		"registers by service":                      {flags: none},
		"registers by service, in a pod":            {flags: none, pod: true},
		"registers by URL":                          {flags: append(byURL, none...), takesBack: true},
		"registers by URL, in a pod":                {flags: append(byURL, none...), pod: true},
		"registers by URL, pods are refused":        {flags: append([]string{"--webhook-failure-policy-fail"}, append(byURL, none...)...)},
		"registered elsewhere, with certificates":   {flags: append([]string{"--register-webhook=false"}, files...)},
		"registered elsewhere, in a pod":            {flags: append([]string{"--register-webhook=false"}, none...), pod: true},
		"not registered":                            {flags: append([]string{"--register-webhook=false"}, none...), alone: true},
		"not registered, by URL":                    {flags: append([]string{"--register-webhook=false"}, append(byURL, none...)...), alone: true},
		"not registered, in a pod of another":       {flags: append([]string{"--register-webhook=false", "--kubeconfig=theirs"}, none...), pod: true, alone: true},
		"a dry run, with certificates":              {flags: append([]string{"--dry-run"}, files...), alone: true},
		"a dry run, registered elsewhere, in a pod": {flags: append([]string{"--dry-run", "--register-webhook=false"}, none...), pod: true, alone: true},
		"a dry run, to be registered by URL":        {flags: append([]string{"--dry-run"}, append(byURL, none...)...), alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			if c.pod {
				t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
				t.Setenv("KUBERNETES_SERVICE_PORT", "443")
			}
			a := runGiven(t, c.flags...).Admission
			alone, err := a.alone(webhook.Files{CA: a.ClientCAFile, Cert: a.CertFile, Key: a.KeyFile})
			if err != nil || alone != c.alone {
				t.Errorf("nobody calls it: %t, %v", alone, err)
			}
			if got := a.takesBack(); got != c.takesBack {
				t.Errorf("it takes its registration back: %t", got)
			}
		})
	}
}
