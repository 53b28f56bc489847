// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/webhook/registration"
)

const service = "vpa-webhook.kube-system.svc"

var usual = registration.Config{Service: cluster.Key{Namespace: "kube-system", Name: "vpa-webhook"}, Timeout: 30}

// running is a server on a local port, with the fake API server that it uses.
type running struct {
	*Server
	client *fake.Clientset
	log    *logBuffer
	tick   chan time.Time
	clock  atomic.Int64
	cancel func()
	stop   func() error
}

func run(t *testing.T, c Config) *running {
	t.Helper()
	return runAfter(t, c, func(*running) {})
}

// runAfter calls before, and then does the same as run.
func runAfter(t *testing.T, c Config, before func(*running)) *running {
	t.Helper()
	return runOn(t, clientThatSetsUIDs(), c, before)
}

// runOn is runAfter with an API server.
func runOn(t *testing.T, client *fake.Clientset, c Config, before func(*running)) *running {
	t.Helper()
	r := &running{client: client, log: &logBuffer{}, tick: make(chan time.Time)}
	r.clock.Store(time.Now().Unix())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if c.Registration.URL == "self" {
		c.Registration.URL = "https://" + l.Addr().String()
	}
	c.Secret = cluster.Key{Namespace: "kube-system", Name: registration.SecretName}
	if r.Server, err = NewServer(c, r.client, handler(worldOf(), Options{}), r.log.logger()); err != nil {
		t.Fatal(err)
	}
	r.now = func() time.Time { return time.Unix(r.clock.Load(), 0) }
	before(r)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, l, r.tick) }()
	r.cancel = cancel
	r.stop = func() error { cancel(); return <-ended }
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("run: %v", err)
			}
		default:
		}
	})
	return r
}

// later moves the clock and makes the server check everything once.
func (r *running) later(d time.Duration) {
	r.clock.Add(int64(d / time.Second))
	r.tick <- time.Time{}
	r.tick <- time.Time{} // received only after the first check has ended
}

// served returns the certificate that a client receives that trusts the registered CA bundle.
func (r *running) served(t *testing.T) (*x509.Certificate, error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(registered(t, r.client).Webhooks[0].ClientConfig.CABundle)
	c, err := tls.Dial("tcp", *r.address.Load(), &tls.Config{RootCAs: roots, ServerName: r.name, Time: r.now})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return c.ConnectionState().PeerCertificates[0], nil
}

func registered(t *testing.T, client *fake.Clientset) *admissionregistrationv1.MutatingWebhookConfiguration {
	t.Helper()
	c, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "vpa-webhook-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// overwrite changes the webhook configuration as another controller does.
func overwrite(t *testing.T, client *fake.Clientset, config registration.Config) {
	t.Helper()
	r := registration.NewRegistrar(client.AdmissionregistrationV1().MutatingWebhookConfigurations(), config)
	if _, err := r.Ensure(t.Context(), []byte("CA")); err != nil {
		t.Fatal(err)
	}
}

// clientThatSetsUIDs returns a client whose API server sets a UID in each object that it creates.
func clientThatSetsUIDs() *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if m, err := meta.Accessor(a.(clienttesting.CreateAction).GetObject()); err == nil {
			m.SetUID("1")
		}
		return false, nil, nil
	})
	return client
}

func verbs(client *fake.Clientset) (out []string) {
	for _, a := range client.Actions() {
		out = append(out, a.GetVerb())
	}
	return out
}

// verifies returns the error of the API server if it does not trust the certificate. bundle contains the CAs.
func verifies(id registration.Identity, bundle []byte, name string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := id.Certificate.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, DNSName: name, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

func TestServer_noCertificateFiles_servesAndRegisters(t *testing.T) {
	for name, registration := range map[string]registration.Config{"by service": usual, "by URL": {URL: "self", Timeout: 10}} {
		t.Run(name, func(t *testing.T) {
			r := run(t, Config{Register: true, Registration: registration})
			eventually(t, "the check succeeds", func() bool { return r.Check(t.Context()) == nil })
			if _, err := r.served(t); err != nil {
				t.Error(err)
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			if err := r.Check(context.WithoutCancel(t.Context())); err == nil {
				t.Error("the check succeeds after the server has stopped")
			}
		})
	}
}

func TestServer_deletedConfiguration_isCreatedAgain(t *testing.T) {
	r := run(t, Config{Register: true, Registration: usual})
	eventually(t, "registered", func() bool { return r.Check(t.Context()) == nil })
	configurations := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if err := configurations.Delete(t.Context(), registration.ConfigurationName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.later(10 * time.Second)
	registered(t, r.client)
	if slices.Contains(verbs(r.client)[1:], "update") {
		t.Error("the configuration was replaced by an update")
	}
}

func TestServer_anotherControllerChangesTheConfiguration_isReportedOnce(t *testing.T) {
	r := run(t, Config{Register: true, Registration: usual})
	eventually(t, "registered", func() bool { return r.Check(t.Context()) == nil })
	for range 10 {
		overwrite(t, r.client, registration.Config{URL: "https://10.0.0.1", Timeout: 10})
		r.tick <- time.Time{} // one check
		eventually(t, "corrected", func() bool { return registered(t, r.client).Webhooks[0].ClientConfig.Service != nil })
	}
	for _, line := range []string{"Corrected the webhook configuration", "Another controller keeps changing the webhook configuration"} {
		if n := strings.Count(r.log.String(), line); n != 1 {
			t.Errorf("%q is logged %d times, want 1", line, n)
		}
	}
}

func TestServer_configurationUnreadable_failsTheCheck(t *testing.T) {
	r := run(t, Config{Register: true, Registration: usual})
	eventually(t, "registered", func() bool { return r.Check(t.Context()) == nil })
	var broken atomic.Bool
	broken.Store(true)
	r.client.PrependReactor("get", "mutatingwebhookconfigurations", func(clienttesting.Action) (bool, runtime.Object, error) {
		return broken.Load(), nil, errors.New("forbidden")
	})
	r.later(time.Minute)
	if err := r.Check(t.Context()); err == nil {
		t.Error("the check succeeds")
	}
	broken.Store(false)
	r.later(time.Minute)
	if err := r.Check(t.Context()); err != nil {
		t.Errorf("after the API server responds again: %v", err)
	}
	for _, line := range []string{"Cannot update the certificates or the webhook configuration", "up to date again"} {
		if n := strings.Count(r.log.String(), line); n != 1 {
			t.Errorf("%q is logged %d times, want 1", line, n)
		}
	}
}

func TestServer_sixYears_renewsCertificatesWithoutRestart(t *testing.T) {
	r := run(t, Config{Register: true, Registration: usual})
	eventually(t, "registered", func() bool { return r.Check(t.Context()) == nil })
	var seen []string
	issuers := map[string]bool{}
	for range 6 * 365 / 10 {
		r.later(10 * 24 * time.Hour)
		cert, err := r.served(t)
		if err != nil {
			t.Fatalf("%s: %v", r.now(), err)
		}
		if n := cert.SerialNumber.String(); !slices.Contains(seen, n) {
			seen = append(seen, n)
		}
		issuers[cert.Issuer.SerialNumber] = true
	}
	if len(seen) < 30 || len(issuers) != 2 {
		t.Errorf("%d certificates of %d CAs in six years, want at least 30 of 2", len(seen), len(issuers))
	}
}

func TestServer_failedSelfCheck_isNotRegistered(t *testing.T) {
	files := writeFiles(t, t.TempDir(), newCertificates(t, "another.name"))
	r := run(t, Config{Files: files, Register: true, Registration: usual})
	eventually(t, "the reason is logged", func() bool { return r.log.has("its self-check failed") })
	if verbs := verbs(r.client); len(verbs) > 0 {
		t.Errorf("requests to the API server: %v", verbs)
	}
	if err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "not registered") {
		t.Errorf("check: %v", err)
	}
}

// newCertificates returns the entries of a Secret with certificates for a name.
func newCertificates(t *testing.T, name string) map[string][]byte {
	t.Helper()
	secrets := fake.NewClientset().CoreV1().Secrets("kube-system")
	renewer := registration.NewCertificateRenewer(secrets, registration.SecretName, []string{name}, true, discardLog)
	if _, err := renewer.Refresh(t.Context(), time.Now(), registration.Registered{Unknown: true}); err != nil {
		t.Fatal(err)
	}
	secret, err := secrets.Get(t.Context(), registration.SecretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return secret.Data
}

// writeFiles writes certificates to a folder as Kubernetes mounts a Secret: each file is a link into ..data, which is a link to a folder.
func writeFiles(t *testing.T, dir string, entries map[string][]byte) registration.Files {
	t.Helper()
	version, err := os.MkdirTemp(dir, "..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"caCert.pem", "serverCert.pem", "serverKey.pem"} {
		if err := os.WriteFile(filepath.Join(version, name), entries[name], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "..tmp")
	if err := os.Symlink(filepath.Base(version), link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	return registration.Files{CA: filepath.Join(dir, "caCert.pem"), Cert: filepath.Join(dir, "serverCert.pem"), Key: filepath.Join(dir, "serverKey.pem")}
}

func TestServer_changedCertificateFiles_areReloaded(t *testing.T) {
	dir := t.TempDir()
	files := writeFiles(t, dir, newCertificates(t, service))
	files.Reload = true
	r := run(t, Config{Files: files, Register: true, Registration: usual})
	eventually(t, "registered", func() bool { return r.Check(t.Context()) == nil })
	before, err := r.served(t)
	if err != nil {
		t.Fatal(err)
	}
	second := newCertificates(t, service)
	writeFiles(t, dir, second)
	r.tick <- time.Time{}
	eventually(t, "the new CA is registered", func() bool { return r.log.has("Successfully patched webhook with new client CA") })
	for _, line := range []string{"New certificate found, reloading", "New client CA found, reloading and patching webhook"} {
		if !r.log.has(line) {
			t.Errorf("not logged: %q in\n%s", line, r.log)
		}
	}
	var after *x509.Certificate
	eventually(t, "the new certificate is served", func() bool {
		after, err = r.served(t)
		return err == nil && !after.Equal(before)
	})
	if got := registered(t, r.client).Webhooks[0].ClientConfig.CABundle; string(got) != string(second["caCert.pem"]) {
		t.Error("the registered CA bundle differs from the file")
	}
	for _, a := range r.client.Actions() {
		if a.GetResource().Resource == "secrets" {
			t.Errorf("the server accessed a Secret: %s", a.GetVerb())
		}
	}
}

func TestServer_registrationDisabled_needsNoCA(t *testing.T) {
	files := writeFiles(t, t.TempDir(), newCertificates(t, "whatever"))
	files.CA = filepath.Join(t.TempDir(), "none")
	r := run(t, Config{Files: files, Registration: usual})
	eventually(t, "the check succeeds", func() bool { return r.Check(t.Context()) == nil })
	if verbs := verbs(r.client); len(verbs) > 0 {
		t.Errorf("requests to the API server: %v", verbs)
	}
}

func TestNewServer_keyFileMissing_returnsError(t *testing.T) {
	dir := t.TempDir()
	files := writeFiles(t, dir, newCertificates(t, service))
	files.Key = filepath.Join(dir, "none")
	if _, err := NewServer(Config{Files: files, Registration: usual}, fake.NewClientset(), handler(worldOf(), Options{}), discardLog); err == nil {
		t.Error("no error is returned")
	}
	for _, none := range []registration.Files{{}, {CA: "/none/a", Cert: "/none/b", Key: "/none/c"}} {
		s, err := NewServer(Config{Files: none, Registration: usual}, fake.NewClientset(), handler(worldOf(), Options{}), discardLog)
		if err != nil || s.renewer == nil {
			t.Errorf("%+v: %v", none, err)
		}
	}
}

func TestTLSConfig_versionAndCiphers_areApplied(t *testing.T) {
	for name, c := range map[string]struct {
		version, ciphers string
		min              uint16
		suites           []uint16
		invalid          bool
	}{
		"default": {min: tls.VersionTLS12},
		"1.2":     {version: "tls1_2", min: tls.VersionTLS12},
		"1.3":     {version: "tls1_3", min: tls.VersionTLS13},
		"1.1":     {version: "tls1_1", invalid: true},
		"commas":  {ciphers: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", min: tls.VersionTLS12, suites: []uint16{0xc02c, 0xc030}},
		"colons":  {ciphers: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384:nonsense:TLS_RSA_WITH_RC4_128_SHA", min: tls.VersionTLS12, suites: []uint16{0xc02c}},
	} {
		got, err := tlsConfig(c.version, c.ciphers, discardLog)
		if (err != nil) != c.invalid {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !c.invalid && (got.MinVersion != c.min || !slices.Equal(got.CipherSuites, c.suites)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	r := run(t, Config{MinTLSVersion: "tls1_3", Registration: usual})
	eventually(t, "serving", func() bool { return r.Check(t.Context()) == nil })
	if c, err := tls.Dial("tcp", *r.address.Load(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		_ = c.Close()
		t.Error("TLS 1.2 is accepted")
	}
}

func TestServer_stopping_respondsUntilTheShutdownDelay(t *testing.T) {
	r := run(t, Config{Registration: usual, ShutdownDelay: time.Hour}) // the test ends first
	eventually(t, "serving", func() bool { return r.Check(t.Context()) == nil })
	r.cancel()
	for range 50 { // without the delay, the server stops after the first few
		if err := r.Check(t.Context()); err != nil {
			t.Fatalf("no response to a review: %v", err)
		}
	}
}

// The API server calls webhooks by HTTP/1.1, and keeps connections. It does not repeat a review on a connection that the server closes.
func TestServer_stopping_closesEachConnectionAfterAResponse(t *testing.T) {
	r := run(t, Config{Registration: usual, ShutdownDelay: time.Hour}) // the test ends first
	eventually(t, "serving", func() bool { return r.Check(t.Context()) == nil })
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}}}
	closes := func() bool {
		reply, err := client.Post("https://"+*r.address.Load(), "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		if _, err := io.Copy(io.Discard, reply.Body); err != nil {
			t.Fatal(err)
		}
		return reply.Close
	}
	if closes() {
		t.Error("the connection is closed before the process was told to stop")
	}
	r.cancel()
	eventually(t, "connections are closed", closes)
}

func TestServer_standalone_writesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*running)
		exists bool // the Secret exists and can be read
	}{
		"no Secret":              {before: func(*running) {}},
		"Secret forbidden":       {before: func(r *running) { r.client.PrependReactor("get", "secrets", refuse) }},
		"Secret of another name": {func(r *running) { mustCreate(t, r.client, newCertificates(t, "theirs.example.com")) }, true},
		"own Secret":             {func(r *running) { mustCreate(t, r.client, newCertificates(t, service)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := runAfter(t, Config{Standalone: true, Registration: usual}, c.before)
			eventually(t, "the check succeeds", func() bool { return r.Check(t.Context()) == nil })
			first := *r.serving.Load()
			for range 100 {
				r.later(24 * time.Hour)
			}
			if err := r.Check(t.Context()); err != nil {
				t.Errorf("a hundred days later: %v", err)
			}
			if err := verifies(*r.serving.Load(), r.serving.Load().Bundle, service, r.now()); err != nil {
				t.Error(err)
			}
			for _, v := range verbs(r.client) {
				if v != "get" && !(v == "create" && c.exists) { // before creates the Secret
					t.Errorf("request to the API server: %s", v)
				}
			}
			if c.exists {
				kept, err := r.client.CoreV1().Secrets("kube-system").Get(t.Context(), registration.SecretName, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if err := verifies(first, kept.Data["caCert.pem"], service, time.Now()); err != nil {
					t.Errorf("the CA in the Secret does not verify the served certificate: %v", err)
				}
			}
		})
	}
}

func refuse(clienttesting.Action) (bool, runtime.Object, error) {
	return true, nil, errors.New("forbidden")
}

func mustCreate(t *testing.T, client *fake.Clientset, entries map[string][]byte) {
	t.Helper()
	_, err := client.CoreV1().Secrets("kube-system").Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: registration.SecretName}, Data: entries}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestServer_unregister_deletesTheConfigurationOnShutdown(t *testing.T) {
	for unregister, want := range map[bool]string{true: "Deleted the webhook configuration on shutdown", false: ""} {
		r := run(t, Config{Register: true, Registration: registration.Config{URL: "self", Timeout: 10}, Unregister: unregister})
		eventually(t, "registered", func() bool { return r.Check(t.Context()) == nil })
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		_, err := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(context.WithoutCancel(t.Context()), registration.ConfigurationName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) != unregister || !r.log.has(want) {
			t.Errorf("unregister %t: %v\n%s", unregister, err, r.log)
		}
	}
}

// With the rights of deploy/, podfit can create and delete neither the webhook configuration nor the Secret, which deploy/ creates empty. So no
// stop may leave a cluster in which the next start cannot register the webhook.
func TestServer_shippedRights_startAfterEachWayOfStoppingWorks(t *testing.T) {
	applied := func(t *testing.T, client *fake.Clientset) { // kubectl apply -f deploy/15-webhook-objects.yaml
		t.Helper()
		c := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: registration.ConfigurationName, UID: "7"}}
		if err := client.Tracker().Add(c); err != nil {
			t.Fatal(err)
		}
	}
	configurations := admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")
	for name, c := range map[string]struct {
		killed    bool // the process does nothing at its end
		meanwhile func(t *testing.T, client *fake.Clientset)
		said      string // on shutdown
		missing   bool   // the next start waits until the configuration is applied again
	}{
		"SIGTERM or a lost lease": {said: "Emptied the webhook configuration on shutdown"},
		"SIGKILL":                 {killed: true},
		"deleted by someone before the stop": {meanwhile: func(t *testing.T, client *fake.Clientset) {
			t.Helper()
			if err := client.Tracker().Delete(configurations, "", registration.ConfigurationName); err != nil {
				t.Fatal(err)
			}
		}, said: "No webhook configuration exists on shutdown", missing: true},
		"emptied by someone before the stop": {meanwhile: func(t *testing.T, client *fake.Clientset) {
			t.Helper()
			live := registered(t, client)
			live.Webhooks = nil
			if err := client.Tracker().Update(configurations, live, ""); err != nil {
				t.Fatal(err)
			}
		}, said: "Webhook configuration not deleted on shutdown"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: registration.SecretName}})
			for _, verb := range []string{"create", "delete", "update"} {
				client.PrependReactor(verb, "mutatingwebhookconfigurations", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(configurations.GroupResource(), registration.ConfigurationName, errors.New("not granted"))
				})
			}
			client.PrependReactor("create", "secrets", refuse)
			applied(t, client)
			config := Config{Register: true, Registration: registration.Config{URL: "self", Timeout: 10}, Unregister: !c.killed}
			first := runOn(t, client, config, func(*running) {})
			eventually(t, "registered", func() bool { return first.Check(t.Context()) == nil })
			if c.meanwhile != nil {
				c.meanwhile(t, client)
			}
			if err := first.stop(); err != nil {
				t.Error(err)
			}
			if !first.log.has(c.said) || first.log.has("Deleted the webhook") {
				t.Errorf("the log does not say %q:\n%s", c.said, first.log)
			}
			next := runOn(t, client, config, func(*running) {})
			if c.missing {
				eventually(t, "the missing configuration is reported", func() bool { return next.log.has("kubectl apply -f deploy/15-webhook-objects.yaml") })
				applied(t, client)
			}
			eventually(t, "registered again", func() bool { return next.Check(t.Context()) == nil && len(registered(t, client).Webhooks) == 1 })
			if err := next.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
