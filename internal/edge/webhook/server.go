// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/webhook/registration"
)

// Config is how the webhook serves and is found.
type Config struct {
	Files         registration.Files  // used when they exist
	Secret        cluster.Key         // where podfit keeps certificates of its own when they do not
	Ciphers       string              // TLS 1.2 cipher suites, separated by commas or colons; "" is Go's choice
	MinTLSVersion string              // "tls1_2", which is the default, or "tls1_3"
	Register      bool                // keep the webhook registered
	Registration  registration.Config // also says by which name the API server calls
	ShutdownDelay time.Duration       // how long to go on serving when told to stop, until nobody asks any more
	Standalone    bool                // write no Secret: nobody calls, or nothing may be changed
	Unregister    bool                // at the end, take a registration by URL back that this process has made
}

// A Server serves admission over TLS, keeps its certificates fresh and keeps itself registered.
type Server struct {
	config    Config
	handler   *Handler
	log       *slog.Logger
	tls       *tls.Config
	name      string // by which the API server calls
	files     *registration.FileSource
	renewer   *registration.CertificateRenewer // nil when there are files
	registrar *registration.Registrar          // nil when somebody else registers
	now       func() time.Time

	serving    atomic.Pointer[registration.Identity]
	address    atomic.Pointer[string]
	registered atomic.Pointer[[]byte] // the bundle the API server was last told to trust; nil while that is not certain
	trusted    atomic.Bool            // it has been registered since the start
	works      atomic.Bool            // a review sent the way the API server sends it has been answered since the start
	ending     atomic.Bool            // it goes on serving for a while, and then stops
	problem    string                 // the last pass's error, so that it is logged once
	corrected  int                    // how often the registration had to be corrected in a row

	connections connections
}

// NewServer returns a server. It asks nothing of the cluster and opens no port yet.
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
			log.Info("There are no certificate files; the webhook makes its own certificates", slog.String("file", c.Files.Cert), slog.String("secret", c.Secret.String()))
		}
		s.renewer = registration.NewCertificateRenewer(client.CoreV1().Secrets(c.Secret.Namespace), c.Secret.Name, names, !c.Standalone, log)
	}
	if c.Register {
		s.registrar = registration.NewRegistrar(client.AdmissionregistrationV1().MutatingWebhookConfigurations(), c.Registration)
	}
	return s, nil
}

// tlsConfig reads upstream's two TLS flags.
func tlsConfig(version, ciphers string, log *slog.Logger) (*tls.Config, error) {
	c := &tls.Config{}
	switch version {
	case "", "tls1_2":
		c.MinVersion = tls.VersionTLS12
	case "tls1_3":
		c.MinVersion = tls.VersionTLS13
	default:
		return nil, fmt.Errorf("the least TLS version is %q: give tls1_2 or tls1_3", version)
	}
	known := map[string]uint16{}
	for _, suite := range tls.CipherSuites() {
		known[suite.Name] = suite.ID
	}
	for name := range strings.FieldsFuncSeq(ciphers, func(r rune) bool { return r == ',' || r == ':' || r == ' ' }) {
		if id, ok := known[name]; ok {
			c.CipherSuites = append(c.CipherSuites, id)
		} else {
			log.Warn("Left out an unknown or insecure TLS cipher suite", slog.String("name", name))
		}
	}
	return c, nil
}

// Run serves on a listener and keeps certificates and registration, once at the start and then at every tick, until
// ctx ends. The listener is closed.
func (s *Server) Run(ctx context.Context, l net.Listener, tick <-chan time.Time) error {
	address := reachable(l.Addr())
	s.address.Store(&address)
	g, ctx := errgroup.WithContext(ctx)
	kept := make(chan struct{})
	g.Go(func() error { return s.serve(ctx, l, kept) })
	changed := make(chan struct{}, 1)
	if s.files != nil && s.config.Files.Reload {
		g.Go(func() error { return s.config.Files.Watch(ctx, changed) })
	}
	g.Go(func() error {
		defer close(kept)
		s.keep(ctx, tick, changed)
		return nil
	})
	return g.Wait()
}

// reachable returns how this process reaches itself where it listens.
func reachable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "::1"
		if ip.To4() != nil {
			host = "127.0.0.1"
		}
	}
	return net.JoinHostPort(host, port)
}

// serve answers until ctx ends, and then for a while; when nobody keeps the registration any more it may be taken back.
func (s *Server) serve(ctx context.Context, l net.Listener, kept <-chan struct{}) error {
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
			// What a body may send ahead before the handler has counted it.
			MaxReceiveBufferPerConnection: 128 << 10, MaxReceiveBufferPerStream: 64 << 10,
			WriteByteTimeout: 5 * time.Second, // for a client that does not read at all
		},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // failed handshakes, mostly
	}
	failed := make(chan error, 1)
	go func() { failed <- server.ServeTLS(l, "", "") }()
	s.log.Info("Serving admission", slog.String("address", l.Addr().String()))
	select {
	case err := <-failed:
		return fmt.Errorf("serve admission: %w", err)
	case <-ctx.Done():
	}
	s.ending.Store(true)
	<-kept
	s.takeBack(context.WithoutCancel(ctx))
	// The API server may send reviews until it has heard that this replica is leaving.
	if s.config.ShutdownDelay > 0 {
		s.log.Info("Shutting down; reviews are answered until the API server calls other replicas", slog.String("for", s.config.ShutdownDelay.String()))
	}
	linger := time.NewTimer(s.config.ShutdownDelay)
	defer linger.Stop()
	select {
	case err := <-failed:
		return fmt.Errorf("serve admission: %w", err)
	case <-linger.C:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("stop serving admission: %w", err)
	}
	return nil
}

// answer answers a request, and notes over which connections reviews come.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	if conn, ok := r.Context().Value(connectionKey{}).(net.Conn); s.handler.serve(w, r) && ok {
		s.connections.prove(conn)
	}
}

// takeBack takes the registration back, if that is wanted and it is this process' own. A registration by URL that nobody
// serves any more makes new pods wait in vain.
func (s *Server) takeBack(ctx context.Context) {
	if !s.config.Unregister || s.registrar == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	switch did, err := s.registrar.Remove(ctx); {
	case err != nil:
		s.log.Warn("Cannot take back the registration of the webhook; new pods wait for it in vain", slog.Any("error", err), slog.String("remedy", withdrawal))
	case did == registration.Removed:
		s.log.Info("Took back the registration of the webhook; new pods get their size no more", slog.String("configuration", registration.ConfigurationName))
	default:
		s.log.Info("The registration of the webhook is not this process' alone, so it stays; if nobody serves it, take it back",
			slog.String("configuration", registration.ConfigurationName), slog.String("remedy", withdrawal))
	}
	s.registered.Store(nil)
}

const withdrawal = "kubectl delete mutatingwebhookconfiguration " + registration.ConfigurationName

func (s *Server) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if id := s.serving.Load(); id != nil {
		return id.Certificate, nil
	}
	return nil, errNoCertificate
}

// retryAfter is how soon a failed pass is repeated, should the tick be slower.
const retryAfter = 2 * time.Second

func (s *Server) keep(ctx context.Context, tick <-chan time.Time, changed <-chan struct{}) {
	for {
		err := s.pass(ctx)
		s.note(err)
		var again <-chan time.Time
		if err != nil {
			again = time.After(retryAfter)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-changed:
		case <-again:
		}
	}
}

// note logs a problem when it appears and when it goes, not at every tick in between.
func (s *Server) note(err error) {
	switch {
	case err == nil && s.problem != "":
		s.problem = ""
		s.log.Info("The webhook's certificates and registration are in order again")
	case err != nil && err.Error() != s.problem && !errors.Is(err, context.Canceled):
		s.problem = err.Error()
		s.log.Error("Cannot keep the webhook's certificates and registration", slog.Any("error", err))
	}
}

// pass brings certificates and registration up to date, once. The order matters: what is to be served must be
// trusted first, and what is registered must work.
func (s *Server) pass(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	id, err := s.refresh(ctx)
	if err != nil {
		return err
	}
	if s.serving.Load() == nil {
		s.present(&id)
	}
	switch {
	case s.registrar != nil:
		err = s.register(ctx, id)
	case !s.works.Load():
		err = s.prove(ctx)
	}
	s.present(&id)
	s.handler.metrics.registered.Set(oneIf(s.registered.Load() != nil))
	return err
}

// present serves with an identity from now on.
func (s *Server) present(id *registration.Identity) {
	s.serving.Store(id)
	if leaf := id.Certificate.Leaf; leaf != nil {
		s.handler.metrics.expiry.Set(float64(leaf.NotAfter.Unix()))
	}
}

// prove sends a review to itself, and notes when it is answered.
func (s *Server) prove(ctx context.Context) error {
	err := s.ask(ctx)
	if err == nil {
		s.works.Store(true)
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
	return s.renewer.Refresh(ctx, s.now(), s.trusts)
}

// trusts reports whether the API server was told to trust a CA.
func (s *Server) trusts(ca *x509.Certificate) bool {
	if s.registrar == nil {
		return true // nobody here can tell; the time it had must do
	}
	bundle := s.registered.Load()
	if bundle == nil {
		return false
	}
	return registration.Trusts(*bundle, ca)
}

func (s *Server) register(ctx context.Context, id registration.Identity) error {
	if s.registered.Load() == nil {
		if err := s.prove(ctx); err != nil {
			return fmt.Errorf("not registering a webhook that does not work: %w", err)
		}
	}
	did, err := s.registrar.Ensure(ctx, id.Bundle)
	if err != nil {
		s.registered.Store(nil) // it may be gone: nobody shall count on it
		return err
	}
	switch did {
	case registration.Created:
		s.log.Info("Registered the webhook", slog.String("configuration", registration.ConfigurationName))
	case registration.Patched:
		if s.corrected++; s.corrected == 1 {
			s.log.Info("Corrected the registration of the webhook", slog.String("configuration", registration.ConfigurationName))
		} else if s.corrected == 3 {
			s.log.Warn("Somebody else keeps changing the registration of the webhook: new pods go now here, now there. "+
				"End one of the two, or give it --register-webhook=false", slog.String("configuration", registration.ConfigurationName))
		}
	case registration.Unchanged:
		s.corrected = 0
	}
	s.registered.Store(&id.Bundle)
	s.trusted.Store(true)
	if s.files != nil {
		s.files.CARegistered()
	}
	return nil
}

// Ready returns nil when the API server may send reviews here: the webhook has a certificate, it has answered a review sent
// the way the API server sends it, and it has been registered, if it is podfit that registers it. An API server that is away
// does not end that, because the webhook goes on to work; a certificate that has expired does, and being told to stop, although
// reviews are answered for a while.
func (s *Server) Ready() error {
	id := s.serving.Load()
	switch {
	case s.ending.Load():
		return errors.New("the webhook is shutting down")
	case id == nil:
		return errNoCertificate
	case id.Certificate.Leaf != nil && s.now().After(id.Certificate.Leaf.NotAfter):
		return fmt.Errorf("the webhook's certificate expired at %s", id.Certificate.Leaf.NotAfter.UTC().Format(time.RFC3339))
	case !s.works.Load():
		return errors.New("the webhook has not answered its own review yet")
	case s.registrar != nil && !s.trusted.Load():
		return errNotRegistered
	}
	return nil
}

var errNoCertificate = errors.New("the webhook has no certificate yet")

var errNotRegistered = errors.New("the webhook is not registered yet")

// Check returns nil when the webhook works: it is registered, if it is podfit that registers it, and a review sent
// the way the API server sends it is answered.
func (s *Server) Check(ctx context.Context) error {
	if s.registrar != nil && s.registered.Load() == nil {
		return errNotRegistered
	}
	return s.ask(ctx)
}

// ask sends a review over TLS, trusting what the API server trusts.
func (s *Server) ask(ctx context.Context) error {
	address, id := s.address.Load(), s.serving.Load()
	if address == nil || id == nil {
		return errNoCertificate
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: s.clientTLS(id)}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+*address+s.handler.self, bytes.NewReader(selfReview()))
	if err != nil {
		return fmt.Errorf("ask the webhook: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	reply, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("ask the webhook: %w", err)
	}
	defer func() { _ = reply.Body.Close() }()
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(io.LimitReader(reply.Body, 1<<20)).Decode(&review); err != nil {
		return fmt.Errorf("read the webhook's answer (%s): %w", reply.Status, err)
	}
	if r := review.Response; r == nil || !r.Allowed || r.UID != selfUID {
		return errors.New("the webhook's answer to a pod without an owner is not that it may pass")
	}
	return nil
}

// clientTLS trusts what the API server trusts. When somebody else registers the webhook, with certificates of
// theirs, what that is cannot be known.
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

const selfUID = "podfit-self-check"

func selfReview() []byte {
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: admissionv1.SchemeGroupVersion.String()},
		Request: &admissionv1.AdmissionRequest{
			UID:       selfUID,
			Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Operation: admissionv1.Create,
			Object:    runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"podfit-self-check"},"spec":{"containers":[{"name":"c"}]}}`)},
		},
	})
	if err != nil {
		panic(err) // constant values
	}
	return review
}
