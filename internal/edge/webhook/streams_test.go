// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"testing"
)

// frame returns an HTTP/2 frame.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	out := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(out, stream), payload...)
}

// headers returns header fields without compression.
func headers(fields ...string) []byte {
	var out []byte
	text := func(s string) {
		n := len(s)
		if n < 127 {
			out = append(out, byte(n))
		} else {
			out = append(out, 127)
			for n -= 127; n >= 128; n >>= 7 {
				out = append(out, byte(n)|128)
			}
			out = append(out, byte(n))
		}
		out = append(out, s...)
	}
	for i := 0; i < len(fields); i += 2 {
		out = append(out, 0)
		text(fields[i])
		text(fields[i+1])
	}
	return out
}

// unread opens a connection with many requests whose responses it does not accept: its flow-control window is zero.
func unread(t *testing.T, r *running, streams int, contentType string) io.Closer {
	t.Helper()
	c, err := tls.Dial("tcp", *r.address.Load(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	out := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	out = append(out, frame(4, 0, 0, []byte{0, 4, 0, 0, 0, 0})...) // SETTINGS: an initial window of 0 bytes
	ask := headers(":method", "POST", ":scheme", "https", ":authority", "a", ":path", "/", "content-type", contentType, "x", strings.Repeat("x", 7000))
	body := []byte(`{"request":{"uid":"u"}}`)
	for i := range streams {
		id := uint32(2*i + 1)
		out = append(out, frame(1, 4, id, ask)...)
		out = append(out, frame(0, 1, id, body)...)
	}
	out = append(out, frame(6, 0, 0, make([]byte, 8))...) // PING
	go func() { _, _ = c.Write(out) }()
	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(c, head); err != nil {
			return c // the server closed it, because there were too many connections
		}
		length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, c, length); err != nil {
			return c
		}
		if head[3] == 6 && head[4] == 1 { // the response to PING: the server has started all requests
			return c
		}
	}
}

func TestServer_unreadResponses_useBoundedMemoryAndBlockNoReviews(t *testing.T) {
	for _, contentType := range []string{"application/json", "text/plain"} {
		t.Run(contentType, func(t *testing.T) {
			r := run(t, Config{Registration: usual})
			eventually(t, "serving", func() bool { return r.Check(t.Context()) == nil })
			before := runtime.NumGoroutine()
			for range 25 {
				c := unread(t, r, 250, contentType)
				t.Cleanup(func() { _ = c.Close() })
			}
			const most = smallBytes/reviewCost + 500
			eventually(t, "no more requests are in progress than the intake admits", func() bool {
				return runtime.NumGoroutine()-before < most
			})
			if err := r.Check(t.Context()); err != nil {
				t.Errorf("reviews of the API server get no response: %v", err)
			}
		})
	}
}
