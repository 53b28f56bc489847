// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"syscall"
	"time"
)

// serve starts the control API on a loopback port, for tests and demos:
//
//	GET  /cluster                       the Info
//	GET  /parts                         the State of every part
//	POST /parts/{name}/stop, .../start  stops or starts a part; returns when it is stopped or ready
//	POST /parts/{name}/kill             kills a part with SIGKILL; the cluster keeps running
//	GET  /kubeconfig?user=U&group=G     a kubeconfig for a user with any number of groups
//	POST /quit                          stops the cluster
//
// Requests to /containers, /clock, /demands/... and /scenario are forwarded to the nodes.
func (c *Cluster) serve() error {
	nodes := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", c.Info.Ports.Nodes)})
	mux := http.NewServeMux()
	for _, path := range []string{"/containers", "/clock", "/demands", "/demands/", "/scenario"} {
		mux.Handle(path, nodes)
	}
	mux.HandleFunc("GET /cluster", func(w http.ResponseWriter, _ *http.Request) {
		info := c.Info
		info.Parts = c.states()
		answer(w, info)
	})
	mux.HandleFunc("GET /parts", func(w http.ResponseWriter, _ *http.Request) { answer(w, c.states()) })
	mux.HandleFunc("POST /parts/{name}/{do}", func(w http.ResponseWriter, q *http.Request) {
		p, err := c.find(q.PathValue("name"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		if err := c.direct(q.Context(), p, q.PathValue("do")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, p.State())
	})
	mux.HandleFunc("GET /kubeconfig", func(w http.ResponseWriter, q *http.Request) {
		user := q.URL.Query().Get("user")
		if user == "" {
			http.Error(w, "query parameter user is required", http.StatusBadRequest)
			return
		}
		text, err := c.Kubeconfig(user, q.URL.Query()["group"]...)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(text)
	})
	mux.HandleFunc("POST /quit", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case c.quit <- struct{}{}:
		default:
		}
		w.WriteHeader(http.StatusAccepted)
	})

	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", c.Info.Ports.Control))
	if err != nil {
		return err
	}
	c.server = &http.Server{Handler: localOnly(mux), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = c.server.Serve(listener) }()
	return nil
}

// direct stops, kills or starts a part.
func (c *Cluster) direct(ctx context.Context, p *Part, do string) error {
	switch do {
	case "stop":
		p.Stop()
		return nil
	case "kill":
		p.kill(syscall.SIGKILL)
		p.Stop()
		return nil
	case "start":
		if err := p.Start(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, c.options.StartTimeout, fmt.Errorf("not ready after %v", c.options.StartTimeout))
		defer cancel()
		return p.Ready(ctx)
	}
	return fmt.Errorf("action must be stop, kill or start, got %q", do)
}

// localOnly refuses requests that a web page makes through a browser on this machine, also by a DNS name that resolves to
// 127.0.0.1, because the control API gives administrator rights.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		host, _, err := net.SplitHostPort(q.Host)
		if err != nil || host != "127.0.0.1" && host != "localhost" || q.Header.Get("Origin") != "" {
			http.Error(w, "only programs on this machine may use the control API", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, q)
	})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v)
}
