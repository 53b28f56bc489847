// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/webhook/registration"
)

// Config is the configuration of a Server.
type Config struct {
	Files         registration.Files  // used if they exist
	Secret        cluster.Key         // stores podfit's own certificates if they do not
	Ciphers       string              // TLS 1.2 cipher suites, separated by commas or colons; "" means Go's defaults
	MinTLSVersion string              // "tls1_2", which is the default, or "tls1_3"
	Register      bool                // keep the webhook configuration up to date
	Registration  registration.Config // how the API server calls the webhook
	ShutdownDelay time.Duration       // how long to serve after ctx has ended, until the API server does not call any more
	Standalone    bool                // do not write the Secret
	Unregister    bool                // on shutdown, delete a configuration with a URL that this process created
}

// A Server serves admission reviews over TLS, renews its certificates and keeps its webhook configuration up to date.
type Server struct {
	config    Config
	handler   *Handler
	log       *slog.Logger
	tls       *tls.Config
	name      string // under which the API server calls
	files     *registration.FileSource
	renewer   *registration.CertificateRenewer // nil if there are certificate files
	registrar *registration.Registrar          // nil if podfit does not register the webhook
	now       func() time.Time

	serving        atomic.Pointer[registration.Identity]
	address        atomic.Pointer[string]
	registered     atomic.Pointer[[]byte] // the CAs in the webhook configuration; nil if the last check failed
	everRegistered atomic.Bool            // the webhook was registered at least once
	selfChecked    atomic.Bool            // a self-check has succeeded
	stopping       atomic.Bool            // ctx has ended; reviews are served for ShutdownDelay
	problem        string                 // the error of the last pass, so that it is logged once
	corrections    int                    // consecutive passes that corrected the webhook configuration

	connections connections
}

// NewServer returns a server. It sends no request and opens no port.
func NewServer(c Config, client kubernetes.Interface, h *Handler, log *slog.Logger) (*Server, error) {
	s := &Server{config: c, handler: h, log: log, now: time.Now}
	names, err := c.Registration.Names()
	if err != nil {
		return nil, err
	}
	s.name = names[0]
	if s.tls, err = tlsConfig(c.MinTLSVersion, c.Ciphers, log); err != nil {
		return nil, err
	}
	s.tls.GetCertificate = s.certificate
	found, err := c.Files.Exist()
	if err != nil {
		return nil, err
	}
	if found {
		s.files = registration.NewFileSource(c.Files, c.Register, log)
	} else {
		if !c.Standalone {
			log.Info("No certificate files found; podfit creates its own certificates", slog.String("file", c.Files.Cert), slog.String("secret", c.Secret.String()))
		}
		s.renewer = registration.NewCertificateRenewer(client.CoreV1().Secrets(c.Secret.Namespace), c.Secret.Name, names, !c.Standalone, log)
	}
	if c.Register {
		s.registrar = registration.NewRegistrar(client.AdmissionregistrationV1().MutatingWebhookConfigurations(), c.Registration)
	}
	return s, nil
}

// tlsConfig converts upstream's two TLS flags.
func tlsConfig(version, ciphers string, log *slog.Logger) (*tls.Config, error) {
	c := &tls.Config{}
	switch version {
	case "", "tls1_2":
		c.MinVersion = tls.VersionTLS12
	case "tls1_3":
		c.MinVersion = tls.VersionTLS13
	default:
		return nil, fmt.Errorf("the minimum TLS version must be tls1_2 or tls1_3, got %q", version)
	}
	known := map[string]uint16{}
	for _, suite := range tls.CipherSuites() {
		known[suite.Name] = suite.ID
	}
	for name := range strings.FieldsFuncSeq(ciphers, func(r rune) bool { return r == ',' || r == ':' || r == ' ' }) {
		if id, ok := known[name]; ok {
			c.CipherSuites = append(c.CipherSuites, id)
		} else {
			log.Warn("Unknown or insecure TLS cipher suite ignored", slog.String("flag", "tls-ciphers"), slog.String("used", name))
		}
	}
	return c, nil
}

// Run serves on a listener until ctx ends, and then closes the listener. It updates certificates and the webhook configuration at the
// start and at each tick.
func (s *Server) Run(ctx context.Context, l net.Listener, tick <-chan time.Time) error {
	s.address.Store(new(l.Addr().String())) // package net connects to this machine if it is unspecified
	g, ctx := errgroup.WithContext(ctx)
	updatesEnded := make(chan struct{})
	g.Go(func() error { return s.serve(ctx, l, updatesEnded) })
	g.Go(func() error {
		defer close(updatesEnded)
		s.update(ctx, tick)
		return nil
	})
	return g.Wait()
}

// serve serves reviews until ShutdownDelay after ctx has ended. After the last pass has ended, it deletes the webhook configuration if configured.
func (s *Server) serve(ctx context.Context, l net.Listener, updatesEnded <-chan struct{}) error {
	server := &http.Server{
		Handler:           http.HandlerFunc(s.answer),
		TLSConfig:         s.tls,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    8 << 10,
		ConnState:         s.connections.note,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c)
		},
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 100, // a client with more requests opens another connection
			// Bounds on the data of a request body that the server buffers before the handler counts it.
			MaxReceiveBufferPerConnection: 128 << 10, MaxReceiveBufferPerStream: 64 << 10,
			WriteByteTimeout: 5 * time.Second, // closes connections of clients that do not read
		},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // mostly failed handshakes
	}
	failed := make(chan error, 1)
	go func() { failed <- server.ServeTLS(l, "", "") }()
	s.log.Info("Serving admission reviews", slog.String("address", l.Addr().String()))
	select {
	case err := <-failed:
		return fmt.Errorf("serve admission reviews: %w", err)
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	<-updatesEnded
	s.unregister(context.WithoutCancel(ctx))
	// The API server sends reviews until it has noticed that this replica is shutting down.
	if s.config.ShutdownDelay > 0 {
		s.log.Info("Shutting down; reviews are answered until the API server calls other replicas", slog.Duration("duration", s.config.ShutdownDelay))
	}
	select {
	case err := <-failed:
		return fmt.Errorf("serve admission reviews: %w", err)
	case <-time.After(s.config.ShutdownDelay):
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("shut down the webhook server: %w", err)
	}
	return nil
}

// answer answers a request, and marks its connection if the request was a review.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	if s.stopping.Load() { // the API server does not repeat a review that it sends while an idle connection is closed
		w.Header().Set("Connection", "close")
	}
	if conn, ok := r.Context().Value(connectionKey{}).(net.Conn); s.handler.serve(w, r) && ok {
		s.connections.markReviewed(conn)
	}
}

// unregister deletes the webhook configuration if configured and if this process created it. With a URL that does not answer, the API
// server would wait for the timeout at each new pod.
func (s *Server) unregister(ctx context.Context) {
	if !s.config.Unregister || s.registrar == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	change, err := s.registrar.Remove(ctx)
	configuration := slog.String("configuration", registration.ConfigurationName)
	// The shipped rights do not allow to create a configuration again, so it is emptied.
	remedy := slog.String("remedy", "kubectl patch mutatingwebhookconfiguration "+registration.ConfigurationName+` --type=merge -p '{"webhooks":[]}'`)
	switch {
	case err != nil:
		s.log.Warn("Cannot delete the webhook configuration on shutdown; the API server waits for the webhook at each new pod", configuration, slog.Any("error", err), remedy)
	case change == registration.Removed:
		s.log.Info("Deleted the webhook configuration on shutdown; new pods keep their own requests", configuration)
	case change == registration.Emptied:
		s.log.Info("Emptied the webhook configuration on shutdown; new pods keep their own requests", configuration)
	case change == registration.Absent:
		s.log.Info("No webhook configuration exists on shutdown, so there is none to delete", configuration)
	default:
		s.log.Info("Webhook configuration not deleted on shutdown because another process uses it; if none does, empty it", configuration, remedy)
	}
	s.registered.Store(nil)
}

func (s *Server) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if id := s.serving.Load(); id != nil {
		return id.Certificate, nil
	}
	return nil, errNoCertificate
}

// retryAfter is the delay after which a failed pass is repeated if no tick comes earlier.
const retryAfter = 2 * time.Second

// update runs a pass at the start, at each tick, and retryAfter a failed pass.
func (s *Server) update(ctx context.Context, tick <-chan time.Time) {
	for {
		err := s.pass(ctx)
		s.note(err)
		var retry <-chan time.Time
		if err != nil {
			retry = time.After(retryAfter)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-retry:
		}
	}
}

// note logs an error when it first occurs and when it is resolved.
func (s *Server) note(err error) {
	switch {
	case err == nil && s.problem != "":
		s.problem = ""
		s.log.Info("Certificates and webhook configuration are up to date again")
	case err != nil && err.Error() != s.problem && !errors.Is(err, context.Canceled):
		s.problem = err.Error()
		s.log.Error("Cannot update the certificates or the webhook configuration", slog.Any("error", err))
	}
}

// pass updates certificates and the webhook configuration once. The API server must trust a certificate before it is served, and the
// webhook must work before it is registered.
func (s *Server) pass(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	id, err := s.refresh(ctx)
	if err != nil {
		return err
	}
	if s.serving.Load() == nil {
		s.setIdentity(&id)
	}
	switch {
	case s.registrar != nil:
		err = s.register(ctx, id)
	case !s.selfChecked.Load():
		err = s.selfCheck(ctx)
	}
	s.setIdentity(&id)
	s.handler.metrics.registered.Set(oneIf(s.registered.Load() != nil))
	return err
}

// setIdentity makes the server use an identity for new connections.
func (s *Server) setIdentity(id *registration.Identity) {
	s.serving.Store(id)
	s.handler.metrics.expiry.Set(float64(id.Certificate.Leaf.NotAfter.Unix()))
}

// selfCheck sends a review to this server and records whether it was answered.
func (s *Server) selfCheck(ctx context.Context) error {
	err := s.sendReview(ctx)
	if err == nil {
		s.selfChecked.Store(true)
	}
	return err
}

func oneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

func (s *Server) refresh(ctx context.Context) (registration.Identity, error) {
	if s.renewer == nil {
		return s.files.Refresh()
	}
	registered := registration.Registered{Bundle: ptr.Deref(s.registered.Load(), nil), Unknown: s.registrar == nil}
	return s.renewer.Refresh(ctx, s.now(), registered)
}

func (s *Server) register(ctx context.Context, id registration.Identity) error {
	if s.registered.Load() == nil {
		if err := s.selfCheck(ctx); err != nil {
			return fmt.Errorf("webhook not registered because its self-check failed: %w", err)
		}
	}
	change, err := s.registrar.Ensure(ctx, id.Bundle)
	if err != nil {
		s.registered.Store(nil) // the configuration may have been deleted
		return err
	}
	switch change {
	case registration.Created:
		s.log.Info("Registered the webhook", slog.String("configuration", registration.ConfigurationName))
	case registration.Patched:
		s.corrections++
		const maxCorrections = 3 // in a row at which another controller is reported
		switch s.corrections {
		case 1:
			s.log.Info("Corrected the webhook configuration", slog.String("configuration", registration.ConfigurationName))
		case maxCorrections:
			s.log.Warn("Another controller keeps changing the webhook configuration; pods may be admitted without podfit",
				slog.String("configuration", registration.ConfigurationName), slog.String("remedy", "stop one of the two, or set --register-webhook=false on one"))
		}
	case registration.Unchanged, registration.Removed, registration.Emptied, registration.Absent:
		s.corrections = 0
	}
	s.registered.Store(&id.Bundle)
	s.everRegistered.Store(true)
	if s.files != nil {
		s.files.CARegistered()
	}
	return nil
}

// Ready returns nil if the API server may send reviews to this replica: it has a valid certificate, its self-check has succeeded, and it
// was registered at least once, if podfit registers it. It stays ready while the API server is not reachable. It is not ready after ctx
// has ended, although it still serves reviews for ShutdownDelay.
func (s *Server) Ready() error {
	id := s.serving.Load()
	switch {
	case s.stopping.Load():
		return errors.New("the webhook is shutting down")
	case id == nil:
		return errNoCertificate
	case s.now().After(id.Certificate.Leaf.NotAfter):
		return fmt.Errorf("the certificate of the webhook expired at %s", id.Certificate.Leaf.NotAfter.UTC().Format(time.RFC3339))
	case !s.selfChecked.Load():
		return errors.New("the self-check of the webhook has not succeeded yet")
	case s.registrar != nil && !s.everRegistered.Load():
		return errNotRegistered
	}
	return nil
}

var errNoCertificate = errors.New("the webhook has no certificate yet")

var errNotRegistered = errors.New("the webhook is not registered yet")

// Check returns nil if the webhook works: it is registered, if podfit registers it, and it answers a review.
func (s *Server) Check(ctx context.Context) error {
	if s.registrar != nil && s.registered.Load() == nil {
		return errNotRegistered
	}
	return s.sendReview(ctx)
}

// sendReview sends a review to this server over TLS, with the CAs that the API server trusts.
func (s *Server) sendReview(ctx context.Context) error {
	address := s.address.Load()
	id := s.serving.Load()
	if address == nil || id == nil {
		return errNoCertificate
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: s.clientTLS(id)}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+*address+s.handler.self, strings.NewReader(selfReview))
	if err != nil {
		return fmt.Errorf("send a review to the webhook: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("send a review to the webhook: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&review); err != nil {
		return fmt.Errorf("decode the answer of the webhook (%s): %w", response.Status, err)
	}
	if r := review.Response; r == nil || !r.Allowed || r.UID != selfUID {
		return errors.New("the webhook did not admit a pod without an owner")
	}
	return nil
}

// clientTLS returns a configuration with the CAs that the API server trusts. If another tool provides the certificates and registers
// the webhook, the CAs are not known, and the certificate is not verified.
func (s *Server) clientTLS(id *registration.Identity) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.name, Time: s.now}
	if s.renewer == nil && s.registrar == nil {
		c.InsecureSkipVerify = true
		return c
	}
	if len(id.Bundle) > 0 {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM(id.Bundle)
	}
	return c
}

// selfReview is the review of a self-check: a pod without an owner is created.
const (
	selfUID    = "podfit-self-check"
	selfReview = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"` + selfUID + `","kind":{"group":"","version":"v1","kind":"Pod"},` +
		`"resource":{"group":"","version":"v1","resource":"pods"},"operation":"CREATE","userInfo":{},` +
		`"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"podfit-self-check"},"spec":{"containers":[{"name":"c"}]}}}}`
)
