// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// Overloaded is an API server that refuses the first write with a status and Retry-After, and passes everything else on.
type Overloaded struct {
	http.Handler
	Code       int
	RetryAfter string
	Start      time.Time

	mu sync.Mutex
	at []time.Duration
}

// ServeHTTP implements http.Handler.
func (o *Overloaded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		o.Handler.ServeHTTP(w, r)
		return
	}
	o.mu.Lock()
	o.at = append(o.at, time.Since(o.Start))
	first := len(o.at) == 1
	o.mu.Unlock()
	if !first {
		o.Handler.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Retry-After", o.RetryAfter)
	w.WriteHeader(o.Code)
	_, _ = io.WriteString(w, "Too many requests, please try again later.")
}

// Writes returns when the writes arrived, from the start.
func (o *Overloaded) Writes() []time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]time.Duration(nil), o.at...)
}
