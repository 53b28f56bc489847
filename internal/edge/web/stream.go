// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"time"
)

// A stream is a response whose head may be sent before the rest of the page is known.
type stream struct {
	http.ResponseWriter
	head []byte         // that was sent; nil if nothing was
	rest io.WriteCloser // compresses what follows the head; nil without compression
}

// during calls read. If that takes long, the head of the page is sent meanwhile, and the result is true. JSON and files are sent only as a
// whole.
func (h *handler) during(w http.ResponseWriter, r *http.Request, p *page, read func()) (began bool) {
	// How long a page waits for its data before the browser gets the head of the page, with which it loads style and scripts.
	const headPatience = 20 * time.Millisecond
	q := r.URL.Query()
	out, ok := w.(*stream)
	if !ok || r.Method != http.MethodGet || q.Get("format") == "json" || q.Get("save") != "" {
		read()
		return false
	}
	ended := make(chan any, 1) // the cause of a panic, or nil
	go func() {
		defer func() { ended <- recover() }()
		read()
	}()
	patience := time.NewTimer(headPatience)
	defer patience.Stop()
	var cause any
	select {
	case cause = <-ended:
	case <-patience.C:
		out.begin(r, p)
		cause = <-ended
	}
	if cause != nil {
		panic(cause)
	}
	return out.head != nil
}

// begin sends the head of a page, which does not depend on data.
func (s *stream) begin(r *http.Request, p *page) {
	p.Root = root(r)
	var head bytes.Buffer
	if err := bundled().templates.ExecuteTemplate(&head, "head", p); err != nil {
		return
	}
	s.head = head.Bytes()
	header := s.Header()
	header.Set("Content-Type", htmlType)
	header.Add("Vary", "Accept-Encoding")
	if acceptsGzip(r) {
		header.Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(s.ResponseWriter)
		s.rest = z
		_, _ = z.Write(s.head) // the client may be gone
		_ = z.Flush()
	} else {
		_, _ = s.Write(s.head)
	}
	_ = http.NewResponseController(s.ResponseWriter).Flush()
}

// end sends the rest of a page whose head was sent. Anything else, such as an error page, cannot follow it: then the connection is closed, and
// the browser shows that the page is not complete.
func (s *stream) end(body []byte) {
	rest, ok := bytes.CutPrefix(body, s.head)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	if s.rest == nil {
		_, _ = s.Write(rest)
		return
	}
	_, _ = s.rest.Write(rest)
	_ = s.rest.Close()
}
