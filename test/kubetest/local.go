// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"io"
	"net/http"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// NewLocalAPI returns a FakeAPI without a network connection, for tests with synctest. LocalConfig returns the configuration of its clients.
func NewLocalAPI(t testing.TB) *FakeAPI { return newFakeAPI(t) }

// LocalConfig returns the configuration of a client whose requests the handler serves in this process.
func LocalConfig(h http.Handler) *rest.Config {
	return &rest.Config{Host: "http://local", QPS: -1, Transport: localTransport{h}}
}

// A localTransport is a round tripper that calls a handler.
type localTransport struct{ handler http.Handler }

func (t localTransport) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Body == nil {
		q.Body = http.NoBody
	}
	body, writer := io.Pipe()
	w := &localResponse{header: http.Header{}, body: writer, started: make(chan struct{})}
	go func() {
		defer q.Body.Close()
		t.handler.ServeHTTP(w, q)
		w.WriteHeader(http.StatusOK)
		_ = writer.Close()
	}()
	select {
	case <-q.Context().Done():
		_ = body.CloseWithError(q.Context().Err())
		return nil, q.Context().Err()
	case <-w.started:
	}
	return &http.Response{StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.sent, Body: body, ContentLength: -1, Request: q}, nil
}

// A localResponse is the response of the handler. Its body is read while the handler writes it.
type localResponse struct {
	header  http.Header
	body    *io.PipeWriter
	started chan struct{} // closed with the header
	once    sync.Once
	status  int
	sent    http.Header
}

func (w *localResponse) Header() http.Header { return w.header }

func (w *localResponse) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.started)
	})
}

func (w *localResponse) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

func (w *localResponse) Flush() { w.WriteHeader(http.StatusOK) }
