// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A Gate forwards the requests of a component to the API server, with the component's own token. After the API server has stored a write,
// the gate calls a function before the component gets the response. A test that kills the component there does so after each of its writes,
// at any speed of the machine.
type Gate struct {
	// Answer may change or delay an answer of the API server; nil for none. It is set before the component starts, and called concurrently.
	// Leases and metrics are answered in JSON.
	Answer func(*http.Response) error
	// Refuse may answer a request in place of the API server, which then does not get it; nil for none.
	Refuse func(http.ResponseWriter, *http.Request) bool

	server *httptest.Server
}

// NewGate starts a gate to the cluster's API server. stored gets the request of each successful POST, PUT, PATCH and DELETE; it may be called
// concurrently. The caller closes the gate after the component has ended.
func (c *Cluster) NewGate(stored func(*http.Request)) (*Gate, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.Kubeconfig, err)
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("address of the API server in %s: %w", c.Kubeconfig, err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, fmt.Errorf("connect a gate to %s: %w", to, err)
	}
	g := &Gate{}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, // events of a watch are forwarded at once
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			if path := r.In.URL.Path; g.Answer != nil && (strings.Contains(path, "/leases/") || strings.HasPrefix(path, "/apis/metrics.k8s.io/")) {
				r.Out.Header.Set("Accept", "application/json")
				r.Out.Header.Del("Accept-Encoding")
			}
		},
		ModifyResponse: func(r *http.Response) error {
			switch r.Request.Method {
			case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
				if r.StatusCode < http.StatusMultipleChoices {
					stored(r.Request)
				}
			}
			if g.Answer != nil {
				return g.Answer(r)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }, // also if the component has ended
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Refuse == nil || !g.Refuse(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	proxy.ErrorLog = log.New(io.Discard, "", 0) // a component that is killed while it connects is no error
	server.Config.ErrorLog = proxy.ErrorLog
	server.StartTLS()
	g.server = server
	return g, nil
}

// Interrupt ends all connections of the component, so that it begins its watches again.
func (g *Gate) Interrupt() { g.server.CloseClientConnections() }

// Close ends the gate and its connections.
func (g *Gate) Close() {
	g.server.CloseClientConnections()
	g.server.Close()
}

// certificate returns the certificate of the gate in PEM form.
func (g *Gate) certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw})
}
