// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"errors"
	"fmt"
	"time"
)

// A Cause is why Prometheus could not be read.
type Cause uint8

// The causes.
const (
	Unreachable   Cause = iota // no connection, or it broke
	Unauthorized               // status 401 or 403
	NotPrometheus              // the answer is a web page, such as that of a login, or no answer of Prometheus
	WrongPath                  // status 404 or 405
	Rejected                   // status 400
	TooLarge                   // status 422, or an answer above the limit
	Overloaded                 // status 429 or 5xx
	TimedOut
	NoSeries        // there are no series of containers
	SeveralClusters // the series have several values of the label cluster
	GivenUp         // too many failures in a row
)

var causes = [...]struct{ text, remedy string }{
	Unreachable:     {"no connection", "check the address, and whether a port-forward is still running"},
	Unauthorized:    {"the credentials are missing or not permitted", "set --prometheus-token-file, or --prometheus-header 'X-Scope-OrgID: TENANT' for a tenant of Mimir"},
	NotPrometheus:   {"the answer is not from Prometheus but, for example, a login page", "check the address; behind a login, use a bearer token or a port-forward to the Prometheus service"},
	WrongPath:       {"there is no Prometheus API at this address", "add the path: /prometheus for Mimir, /select/0/prometheus for a VictoriaMetrics cluster"},
	Rejected:        {"Prometheus does not understand the query", "check that the server is Prometheus 2.20 or later, Thanos, Mimir or VictoriaMetrics"},
	TooLarge:        {"the query needs more samples than Prometheus permits", "increase its limit (--query.max-samples of Prometheus and Thanos, -querier.max-samples of Mimir, -search.maxSamplesPerQuery of VictoriaMetrics), or select fewer namespaces with -n"},
	Overloaded:      {"Prometheus is overloaded or not available", "try again later with a gentle load; the days that were read are cached"},
	TimedOut:        {"the query timed out", "try again later with a gentle load; the days that were read are cached"},
	NoSeries:        {"Prometheus has no series " + memoryMetric + " of these namespaces", "check the cluster labels and the namespaces, and that Prometheus scrapes cAdvisor of the kubelets"},
	SeveralClusters: {"Prometheus stores several clusters", "select one with --cluster-label, such as cluster=NAME"},
	GivenUp:         {"too many queries failed in a row", "try again later with a gentle load; the days that were read are cached"},
}

func (c Cause) String() string { return causes[c].text }

// An Error is why a request to Prometheus failed.
type Error struct {
	Cause   Cause
	Address string // of Prometheus
	Status  int    // of the HTTP response; 0 if there was none
	Detail  string // text of the server or the operating system
	Err     error  // wrapped error or nil

	retryAfter time.Duration // requested by the server
}

// Error returns the cause first. It does not contain the query, which may have thousands of characters.
func (e *Error) Error() string {
	text := fmt.Sprintf("read usage from Prometheus at %s: %s", e.Address, e.Cause)
	if e.Status != 0 {
		text += fmt.Sprintf(" (status %d)", e.Status)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// Remedy returns what the user can do.
func (e *Error) Remedy() string { return causes[e.Cause].remedy }

// causeOf returns the cause of an error, and Unreachable for errors of other types.
func causeOf(err error) Cause {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Cause
	}
	return Unreachable
}

// smallerHelps reports whether a smaller query after a pause may succeed.
func (c Cause) smallerHelps() bool {
	return c == TooLarge || c == Overloaded || c == TimedOut || c == Unreachable
}
