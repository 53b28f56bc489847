// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/prom/answer"
)

// maxReply is the default of the maximum length of an answer in bytes. Planned queries have answers of a few megabytes.
const maxReply = 64 << 20

type (
	series = answer.Series

	// A Warning is a remark of a server about a result.
	Warning = answer.Warning
)

// instant sends an instant query, and calls each for each series. It returns warnings of the server.
func (s *Survey) instant(ctx context.Context, query string, at time.Time, each func(labels map[string]string, value float64)) (warnings []Warning, err error) {
	return s.query(ctx, "query", query, url.Values{"time": {seconds(at)}}, func(one *series) error {
		text, ok := one.Value[1].(string)
		if !ok {
			return errors.New("a series has no value")
		}
		v, err := strconv.ParseFloat(text, 64)
		if err == nil && !math.IsNaN(v) {
			each(one.Metric, v)
		}
		return nil
	})
}

// span sends a range query with one value per hour, and calls each for each series. It returns warnings of the server.
func (s *Survey) span(ctx context.Context, query string, from, to time.Time, each func(*series) error) (warnings []Warning, err error) {
	return s.query(ctx, "query_range", query, url.Values{"start": {seconds(from)}, "end": {seconds(to)}, "step": {"3600"}}, each)
}

func seconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// query sends a query and decodes the answer one series after the other.
func (s *Survey) query(ctx context.Context, path, query string, values url.Values, each func(*series) error) (warnings []Warning, err error) {
	values.Set("query", query)
	values.Set("timeout", promDuration(s.config.Timeout))
	// Prometheus ends the query itself a little earlier. Otherwise it would go on while the next query runs.
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout+5*time.Second)
	defer cancel()
	body, err := s.get(ctx, path, values)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	a, err := answer.Decode(body, s.config.MaxReply, each)
	switch {
	case err == nil && a.Status == "success" && (a.ResultType == "scalar" || a.ResultType == "string"):
		return nil, s.failure(NotPrometheus, http.StatusOK, "the result is a "+a.ResultType)
	case err == nil && a.Status == "success":
		for i := range a.Warnings {
			a.Warnings[i].Text = shorten(a.Warnings[i].Text)
		}
		return a.Warnings, nil
	case err == nil:
		return nil, s.failure(NotPrometheus, http.StatusOK, shorten(a.Error))
	case errors.Is(err, errTooMany) || errors.Is(err, answer.ErrTooLarge):
		return nil, s.failure(TooLarge, 0, "the answer is too large")
	case ctx.Err() != nil:
		return nil, s.broken(ctx, ctx.Err())
	case answer.IsInvalid(err) && a.Status == "":
		return nil, s.failure(NotPrometheus, http.StatusOK, "")
	default:
		return nil, s.broken(ctx, err)
	}
}

// get sends a GET request. The service proxy of the API server permits a GET to users who may only read, and a POST is a create.
func (s *Survey) get(ctx context.Context, path string, values url.Values) (io.ReadCloser, error) {
	for name, all := range s.config.Params {
		for _, v := range all {
			values.Add(name, v)
		}
	}
	address := *s.base
	address.Path += "/api/v1/" + path
	address.RawQuery = values.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("query Prometheus: %w", err)
	}
	r.Header.Set("Accept", "application/json")
	a, err := s.client.Do(r)
	if err != nil {
		return nil, s.broken(ctx, err)
	}
	isPage := strings.HasPrefix(a.Header.Get("Content-Type"), "text/html")
	if a.StatusCode == http.StatusOK && !isPage {
		return a.Body, nil
	}
	defer a.Body.Close()
	return nil, s.refusal(a, isPage)
}

func (s *Survey) refusal(a *http.Response, isPage bool) error {
	text, _ := io.ReadAll(io.LimitReader(a.Body, 4096))
	var given struct{ Error, ErrorType, Message string }
	_ = json.Unmarshal(text, &given)
	detail := given.Error + given.Message // Prometheus, API server
	if detail == "" && !isPage {
		detail = strings.TrimSpace(string(text)) // Mimir and VictoriaMetrics, of wrong requests
	}
	cause := Rejected
	switch code := a.StatusCode; {
	case code == http.StatusBadRequest && isWrongPath(detail):
		cause = WrongPath
	case code < http.StatusInternalServerError && code != http.StatusUnauthorized && code != http.StatusForbidden && isLimit(detail):
		cause = TooLarge
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusProxyAuthRequired:
		cause = Unauthorized
	case code == http.StatusUnprocessableEntity || code == http.StatusRequestEntityTooLarge:
		cause = TooLarge
	case given.ErrorType == "timeout":
		cause = TimedOut // Prometheus: status 503
	case code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
		cause = Overloaded
	case isPage && code < http.StatusMultipleChoices || code >= http.StatusMultipleChoices && code < http.StatusBadRequest:
		cause = NotPrometheus
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		cause = WrongPath
	}
	e := s.failure(cause, a.StatusCode, shorten(detail))
	if after, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil && after > 0 {
		const maxRetryAfter = time.Minute // the longest pause that a server can request
		e.retryAfter = min(time.Duration(min(after, 3600))*time.Second, maxRetryAfter)
	}
	return e
}

// limits are parts of the messages with which servers report that a query exceeds a limit, whatever the status is.
var limits = []string{
	"err-mimir-max-",                                                                                   // Mimir; for example err-mimir-max-total-query-length with status 400
	"-search.max",                                                                                      // VictoriaMetrics; for example -search.maxSamplesPerQuery
	"exceeded series limit", "exceeded bytes limit", "exceeded samples limit", "exceeded chunks limit", // Thanos
	"too many samples",  // the engine of Prometheus, which Thanos and Mimir also have
	"exceeds the limit", // Cortex
}

func isLimit(detail string) bool {
	return slices.ContainsFunc(limits, func(part string) bool { return strings.Contains(detail, part) })
}

// isWrongPath reports whether VictoriaMetrics does not know a path.
func isWrongPath(detail string) bool {
	return strings.Contains(detail, "unsupported path") || strings.Contains(detail, "unsupported URL") || strings.Contains(detail, "cannot parse accountID")
}

// broken returns the error of a request without a complete response. If the context of the caller has ended, it is that error.
func (s *Survey) broken(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return context.Canceled
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the query
	}
	cause := Unreachable
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		cause = TimedOut
	}
	e := s.failure(cause, 0, shorten(err.Error()))
	e.Err = err
	return e
}

func (s *Survey) failure(cause Cause, status int, detail string) *Error {
	return &Error{Cause: cause, Address: s.base.Redacted(), Status: status, Detail: detail}
}

// shorten returns the first 300 bytes of a text of a server, without control characters.
func shorten(text string) string { return wording.Shortened(wording.OneLine(text), 300) }

var errTooMany = errors.New("the answer has too many series")
