// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// A countedBody is the body of a failure: an error whose text has 16 MiB.
type countedBody struct {
	io.Reader
	read int
}

func (b *countedBody) Read(to []byte) (int, error) {
	n, err := b.Reader.Read(to)
	b.read += n
	return n, err
}

func (b *countedBody) Close() error { return nil }

func TestChecked_hugeBodyOfAFailure_isReadInPart(t *testing.T) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		body := &countedBody{Reader: strings.NewReader(`{"error":"` + strings.Repeat("x", 16<<20) + `"}`)}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://prometheus/api/v1/query", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		_, err = checked{failing{status, body}}.RoundTrip(request)
		if err == nil || len(err.Error()) > 500 {
			t.Errorf("%d: error %.600v, want a short one", status, err)
		}
		if body.read > 1<<16 {
			t.Errorf("%d: %d bytes of the body are read, want at most %d", status, body.read, 1<<16)
		}
	}
}

// A failing is a transport whose responses have a status and a body.
type failing struct {
	status int
	body   io.ReadCloser
}

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: f.status, Body: f.body, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}, nil
}
