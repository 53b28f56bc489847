// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/edge/web"
	"podfit.dev/podfit/test/webtest"
)

// slow is a source whose state is known when a channel is closed.
type slow struct {
	*webtest.Source
	known chan struct{} // nil: at once
	late  chan struct{} // likewise, of the stored usage
	fails bool
}

func (s *slow) State(ctx context.Context) *web.State {
	if s.known != nil {
		<-s.known
	}
	if s.fails {
		panic("no state")
	}
	return s.Source.State(ctx)
}

// History implements web.Source.
func (s *slow) History(ctx context.Context, row *overview.Row) (overview.History, error) {
	if s.late != nil {
		<-s.late
	}
	return s.Source.History(ctx, row)
}

// While data are read, a viewer already gets the head of the page. The whole page is the same as if the data were known.
func TestStream_dataAreNotKnownYet_headArrivesBeforeThem(t *testing.T) {
	for _, path := range []string{"/", "/workloads?sort=memory", "/nodes", "/activity", "/profiles", "/about", "/workloads/shop/Deployment/cart"} {
		for _, compressed := range []bool{true, false} {
			wait := make(chan struct{})
			source := &slow{Source: webtest.Small(), known: wait}
			if strings.Count(path, "/") > 1 {
				source.known, source.late = nil, wait // whether there is a workload decides about the status
			}
			server := httptest.NewServer(web.New(web.Config{Cluster: "prod-eu", Source: source}))
			client := &http.Client{Transport: &http.Transport{DisableCompression: !compressed}}
			r, err := client.Get(server.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(r.Body)
			head := ""
			for !strings.Contains(head, "app.js") && !strings.Contains(head, "app-") {
				line, err := lines.ReadString('\n')
				if err != nil {
					t.Fatalf("%s: %v after %q", path, err, head)
				}
				head += line
			}
			close(wait)
			rest, err := io.ReadAll(lines)
			if err != nil {
				t.Fatal(err)
			}
			whole, err := client.Get(server.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			want, err := io.ReadAll(whole.Body)
			if err != nil || whole.ContentLength < 0 && !compressed {
				t.Errorf("%s: length %d, error %v", path, whole.ContentLength, err)
			}
			if got := head + string(rest); got != string(want) || r.Header.Get("Content-Security-Policy") == "" || !strings.Contains(got, "</html>") {
				t.Errorf("%s: the page is\n%s\nwant\n%s", path, got, want)
			}
			_, _ = r.Body.Close(), whole.Body.Close()
			server.Close()
		}
	}
}

// If the page fails after its head was sent, the response is not complete, so that no proxy or browser takes it for a page.
func TestStream_failureAfterHead_responseIsNotComplete(t *testing.T) {
	source := &slow{Source: webtest.Small(), known: make(chan struct{}), fails: true}
	server := httptest.NewServer(web.New(web.Config{Source: source}))
	defer server.Close()
	r, err := http.Get(server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	close(source.known)
	if text, err := io.ReadAll(r.Body); err == nil {
		t.Errorf("the response is complete: %s", text)
	}
}
