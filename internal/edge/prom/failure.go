// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"

	"podfit.dev/podfit/internal/edge/prom/answer"
)

// A QueryError is a query that failed. Its text is the cause and the remedy, without the query, which is long.
type QueryError struct {
	Query   string
	Refused bool // the server read the query and did not execute it, so the query may be the cause
	Err     error
}

// Error implements error.
func (e *QueryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *QueryError) Unwrap() error { return e.Err }

func failed(query string, err error) error {
	refused, ok := errors.AsType[*refusedError](err)
	return &QueryError{Query: query, Refused: ok && refused.kind != badResponse, Err: explained(err)}
}

// IsTooLarge reports whether the server responded that a query reads too much: Prometheus refuses to execute it, is overloaded, or the query
// timed out there, or the answer is too large. The same query would fail again; one about a shorter time may succeed. It is false if the server did not respond.
func IsTooLarge(err error) bool {
	var refused *refusedError
	switch {
	case errors.Is(err, answer.ErrTooLarge):
		return true
	case errors.As(err, &refused):
		return refused.kind == "execution" || refused.kind == "timeout"
	}
	return isOverloaded(err)
}

// isOverloaded reports whether the server, or one before it, responded that it cannot answer now.
func isOverloaded(err error) bool {
	var response *responseError
	return errors.As(err, &response) && (response.status == http.StatusServiceUnavailable || response.status == http.StatusGatewayTimeout)
}

func explained(err error) error {
	var response *responseError
	var refused *refusedError
	var name *net.DNSError
	var request *url.Error
	switch {
	case errors.As(err, &response):
		return response
	case errors.Is(err, answer.ErrTooLarge):
		return fmt.Errorf("%w; read less: a shorter history, or a longer time between samples", err)
	case errors.As(err, &refused) && refused.kind == "execution":
		return fmt.Errorf("query refused by Prometheus (%w); read less: a shorter history, or a longer time between samples", refused)
	case errors.As(err, &refused) && refused.kind == "bad_data":
		return fmt.Errorf("query not understood by Prometheus (%w); check the names of labels and metrics", refused)
	case errors.As(err, &refused) && refused.kind == badResponse:
		return fmt.Errorf("the server does not answer as Prometheus does (%w); check the address", refused)
	case IsTimeout(err):
		return fmt.Errorf("no answer of Prometheus in time (%w); read less, or check the network", context.DeadlineExceeded)
	case errors.As(err, &name):
		return fmt.Errorf("the host name %s of Prometheus cannot be resolved; check the address and your network: %w", name.Name, err)
	case errors.As(err, &request):
		return fmt.Errorf("no connection to Prometheus: %w; check the address, and that it runs", request.Err)
	}
	return err
}

// badResponse is the kind of an answer that is not one of Prometheus' API.
const badResponse = "bad_response"

// A refusedError is an error in an answer. Its kinds are those of Prometheus' API.
type refusedError struct{ kind, text string }

func (e *refusedError) Error() string { return e.kind + ": " + e.text }

// A responseError is a response that is not one of Prometheus' API.
type responseError struct {
	status int
	text   string
	cause  refusedError // of Prometheus; zero if it has none
}

func (e *responseError) Error() string { return e.text }

// checked is a transport that returns an error for responses that are not those of Prometheus' API, such as the page of a login. The
// client of the API would report how the JSON in them is invalid.
type checked struct{ next http.RoundTripper }

func (c checked) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	var cause refusedError
	if response.StatusCode/100 == 5 {
		cause = causeIn(response.Body)
	}
	text := refusal(r, response, strings.TrimSuffix(": "+cause.text, ": "))
	if text == "" {
		return response, nil
	}
	response.Body.Close()
	return nil, &responseError{response.StatusCode, text, cause}
}

// refusal returns the cause and the remedy if a response cannot be used, "" otherwise. why is the error in it.
func refusal(r *http.Request, response *http.Response, why string) string {
	server := r.URL.Scheme + "://" + r.URL.Host
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // "" if it is invalid
	const credentials = "provide other credentials, or an address of Prometheus that needs none"
	switch status := response.StatusCode; {
	case status == http.StatusUnauthorized:
		return fmt.Sprintf("the server %s rejects the credentials (401 Unauthorized); %s", server, credentials)
	case status == http.StatusForbidden && r.Method == http.MethodGet: // after a POST, the client tries a GET
		return fmt.Sprintf("the server %s denies access (403 Forbidden); %s", server, credentials)
	case status == http.StatusMovedPermanently, status == http.StatusFound, status == http.StatusSeeOther: // the query of a POST would be lost
		return fmt.Sprintf("the server %s redirects to %s (%d), probably to a login; %s", server, destination(response), status, credentials)
	case status == http.StatusNotFound:
		return fmt.Sprintf("the server %s has no Prometheus API at %s (404 Not Found); check the address, and the path in it", server, r.URL.Path)
	case status/100 == 2 && kind == "text/html":
		return fmt.Sprintf("the server %s answers with a web page, not as Prometheus, probably with a login; %s", server, credentials)
	case status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return fmt.Sprintf("the server %s is overloaded or not available (%d%s); try later, or read less", server, status, why)
	case status/100 == 5:
		return fmt.Sprintf("the server %s failed (%d%s); its log has the cause", server, status, why)
	}
	return ""
}

// destination returns the address that a response redirects to, without parameters.
func destination(response *http.Response) string {
	location, err := response.Location()
	if err != nil {
		return "another page"
	}
	return location.Scheme + "://" + location.Host + location.Path
}

// causeIn returns the error in a response of Prometheus' API, zero if there is none.
func causeIn(body io.Reader) refusedError {
	var given struct {
		Kind  string `json:"errorType"`
		Error string `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(body, 1<<16)).Decode(&given); err != nil {
		return refusedError{}
	}
	text := strings.Join(strings.Fields(given.Error), " ")
	return refusedError{given.Kind, text[:min(len(text), 200)]}
}
