// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// An api is a plain HTTP client of the API server with administrator rights.
type api struct {
	server string
	client *http.Client
}

func newAPI(server string, ca, cert, key []byte) (*api, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &api{server: server, client: &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}, ForceAttemptHTTP2: true},
	}}, nil
}

// do sends a request and decodes the response into v. An empty body and a nil v are allowed.
func (a *api) do(ctx context.Context, method, path, contentType string, body []byte, v any) error {
	q, err := http.NewRequestWithContext(ctx, method, a.server+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if contentType != "" {
		q.Header.Set("Content-Type", contentType)
	}
	reply, err := a.client.Do(q)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	if reply.StatusCode >= 300 {
		return &statusError{reply.StatusCode, fmt.Sprintf("%s %s: %s: %s", method, path, reply.Status, strings.TrimSpace(string(text)))}
	}
	if v != nil {
		return json.Unmarshal(text, v)
	}
	return nil
}

type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

func (a *api) get(ctx context.Context, path string, v any) error {
	return a.do(ctx, http.MethodGet, path, "", nil, v)
}

// apply creates or updates an object by server-side apply.
func (a *api) apply(ctx context.Context, path, yaml string) error {
	return a.do(ctx, http.MethodPatch, path+"?fieldManager=localcluster&force=true", "application/apply-patch+yaml", []byte(yaml), nil)
}

// create creates an object unless one with that name exists.
func (a *api) create(ctx context.Context, path string, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	err = a.do(ctx, http.MethodPost, path, "application/json", text, nil)
	if e := (*statusError)(nil); errors.As(err, &e) && e.code == http.StatusConflict {
		return nil
	}
	return err
}
