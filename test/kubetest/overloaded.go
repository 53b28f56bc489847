// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"cmp"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Overloaded is an API server that refuses the first write with a status and Retry-After, and passes everything else on.
type Overloaded struct {
	http.Handler // nil: Accepts
	Code         int
	RetryAfter   string // "" for none
	Body         string // of the refusal; JSON if it begins with a brace
	Start        time.Time

	mu sync.Mutex
	at []time.Duration
}

// ServeHTTP implements http.Handler.
func (o *Overloaded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	next := o.Handler
	if next == nil {
		next = http.HandlerFunc(Accepts)
	}
	if r.Method == http.MethodGet {
		next.ServeHTTP(w, r)
		return
	}
	o.mu.Lock()
	o.at = append(o.at, time.Since(o.Start))
	first := len(o.at) == 1
	o.mu.Unlock()
	if !first {
		next.ServeHTTP(w, r)
		return
	}
	if o.RetryAfter != "" {
		w.Header().Set("Retry-After", o.RetryAfter)
	}
	contentType := "text/plain"
	if strings.HasPrefix(o.Body, "{") {
		contentType = "application/json"
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(o.Code)
	_, _ = io.WriteString(w, cmp.Or(o.Body, "Too many requests, please try again later."))
}

// Accepts is an API server that accepts each request.
func Accepts(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
}

// Writes returns when the writes arrived, from the start.
func (o *Overloaded) Writes() []time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]time.Duration(nil), o.at...)
}
