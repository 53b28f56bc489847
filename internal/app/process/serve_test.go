// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener that accepts the connections of dial.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.accepted <- server
	return client, nil
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// At the end, open requests may take a few seconds. Those that take longer are ended, and that is no failure of podfit.
func TestServe_requestIsOpenAtTheEnd_isEndedWithoutAnError(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		whole bool // the client gets the response
	}{"short": {3 * time.Second, true}, "long": {time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				l := newPipes()
				began := make(chan struct{})
				handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					close(began)
					select {
					case <-time.After(c.takes):
						_, _ = io.WriteString(w, "done")
					case <-r.Context().Done():
					}
				})
				ended := make(chan error)
				go func() { ended <- Serve(ctx, l, &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}) }()
				whole := make(chan bool)
				go func() {
					client := &http.Client{Transport: &http.Transport{DialContext: l.dial, DisableKeepAlives: true}}
					request, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://podfit/", http.NoBody)
					response, err := client.Do(request)
					if err == nil {
						response.Body.Close()
					}
					whole <- err == nil
				}()
				<-began
				from := time.Now()
				stop()
				if err := <-ended; err != nil {
					t.Errorf("got error %v", err)
				}
				if took := time.Since(from); took > 5*time.Second {
					t.Errorf("the server ended after %v", took)
				}
				if got := <-whole; got != c.whole {
					t.Errorf("the client got the response: %v, want %v", got, c.whole)
				}
			})
		})
	}
}
