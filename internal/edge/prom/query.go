// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/prom/answer"
)

// The maximum lengths of answers in bytes. Longer ones are not read to the end, so that no server can use up the memory of podfit.
const (
	maxAnswer  = 64 << 20
	maxHistory = 16 << 20 // of samples, which are kept until they are sorted, and of names; a longer history is read in parts
)

// A span is the time of a range query.
type span struct {
	Start, End time.Time
	Step       time.Duration
}

func (c *Client) ranged(ctx context.Context, query string, r span, limit int64, each func(*answer.Series) error) error {
	values := url.Values{"query": {query}, "start": {unix(r.Start)}, "end": {unix(r.End)}, "step": {strconv.FormatFloat(r.Step.Seconds(), 'f', -1, 64)}}
	return c.query(ctx, "query_range", values, []string{"matrix"}, limit, each)
}

// instant sends a query for one time, whose result must have one of the types, and calls each for each series.
func (c *Client) instant(ctx context.Context, query string, at time.Time, types []string, each func(*answer.Series) error) error {
	return c.query(ctx, "query", url.Values{"query": {query}, "time": {unix(at)}}, types, maxAnswer, each)
}

// vector sends a query for one time, and calls each for each series and its value.
func (c *Client) vector(ctx context.Context, query string, at time.Time, each func(labels map[string]string, value float64)) error {
	return c.instant(ctx, query, at, []string{"vector"}, func(s *answer.Series) error {
		text, _ := s.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			each(s.Metric, v)
		}
		return nil
	})
}

func (c *Client) query(ctx context.Context, path string, values url.Values, types []string, limit int64, each func(*answer.Series) error) error {
	query := values.Get("query")
	a, err := c.fetch(ctx, http.MethodPost, path, values, limit, each) // because queries are long
	if err != nil {
		return failed(query, err)
	}
	if slices.Contains(types, a.ResultType) {
		return nil
	}
	return fmt.Errorf("query %s: the result must be a %s, got a %s", query, strings.Join(types, " or a "), a.ResultType)
}

// fetch sends a request with the timeout of one query. It sends a POST again as GET to a server that does not permit a POST, or at once with GetOnly.
func (c *Client) fetch(ctx context.Context, method, path string, values url.Values, limit int64, each func(*answer.Series) error) (answer.Answer, error) {
	if c.config.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, c.config.Timeout)
		defer cancel()
		ctx = limited
	}
	if c.config.GetOnly {
		method = http.MethodGet
	}
	r, err := c.request(ctx, method, path, values)
	if err != nil {
		return answer.Answer{}, err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return answer.Answer{}, err
	}
	defer response.Body.Close()
	if method == http.MethodPost {
		switch response.StatusCode {
		case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented:
			return c.fetch(ctx, http.MethodGet, path, values, limit, each)
		}
	}
	return decode(response, limit, each)
}

func (c *Client) request(ctx context.Context, method, path string, values url.Values) (*http.Request, error) {
	address := strings.TrimSuffix(c.config.Address, "/") + "/api/v1/" + path
	if method == http.MethodGet {
		return http.NewRequestWithContext(ctx, method, address+"?"+values.Encode(), http.NoBody)
	}
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(values.Encode()))
	if err == nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header["Idempotency-Key"] = nil // it may be repeated, and the header is not sent
	}
	return r, err
}

// decode decodes a response. Prometheus explains refusals with the statuses 400 and 422.
func decode(response *http.Response, limit int64, each func(*answer.Series) error) (answer.Answer, error) {
	status := response.StatusCode
	explains := status == http.StatusBadRequest || status == http.StatusUnprocessableEntity
	if status/100 != 2 && !explains {
		return answer.Answer{}, &refusedError{badResponse, "status " + response.Status}
	}
	a, err := answer.Decode(response.Body, limit, each)
	switch {
	case answer.IsInvalid(err):
		return a, &refusedError{badResponse, err.Error()}
	case err != nil:
		return a, err
	case explains || a.Status == "error":
		return a, &refusedError{a.ErrorType, a.Error}
	case a.Status != "success":
		return a, &refusedError{badResponse, fmt.Sprintf("its status is %q", a.Status)}
	}
	return a, nil
}

func unix(t time.Time) string {
	return strconv.FormatFloat(float64(t.Unix())+float64(t.Nanosecond())/1e9, 'f', -1, 64)
}

// Namespaces returns the names of the namespaces whose containers have memory usage between two times, sorted.
func (c *Client) Namespaces(ctx context.Context, from, to time.Time) ([]string, error) {
	if c.config.NamespaceLabel == "" {
		return nil, errors.New("list the namespaces in Prometheus: the label of namespaces must not be empty")
	}
	matchers := []string{c.config.ContainerLabel + `!=""`, c.config.NamespaceLabel + `!=""`}
	if c.config.Job != "" {
		matchers = append(matchers, "job="+strconv.Quote(c.config.Job))
	}
	selector := c.config.MemoryMetric + "{" + strings.Join(matchers, ", ") + "}"
	a, err := c.fetch(ctx, http.MethodGet, "label/"+url.PathEscape(c.config.NamespaceLabel)+"/values", url.Values{"match[]": {selector}, "start": {unix(from)}, "end": {unix(to)}}, maxHistory,
		func(*answer.Series) error { return nil })
	if err != nil {
		return nil, fmt.Errorf("list the namespaces in Prometheus: %w", failed(selector, err))
	}
	slices.Sort(a.Names) // Prometheus sorts them; the servers that imitate it do not promise that
	return a.Names, nil
}

// Labels are the labels of a pod as Prometheus stores them: in their names, each character other than a letter, a digit and
// an underscore is replaced by an underscore. The methods take the original names.
type Labels map[string]string

// Get returns the value of a label.
func (l Labels) Get(name string) string { return l[stored(name)] }

// Has reports whether the label exists.
func (l Labels) Has(name string) bool {
	_, ok := l.Lookup(name)
	return ok
}

// Lookup returns the value of a label and whether it exists.
func (l Labels) Lookup(name string) (string, bool) {
	value, ok := l[stored(name)]
	return value, ok
}

// stored returns the name under which Prometheus stores a label.
func stored(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_', r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			return r
		}
		return '_'
	}, name)
}

// PodLabels returns the labels of the pods of all namespaces during the history.
//
// The metric may be any selector. A selector with a range, such as kube_pod_labels{}[8d], is queried as it is. A selector
// without a range is queried over the whole history, because an instant query, which upstream sends and whose result it
// cannot read, does not return deleted pods (W-29 in docs/migrate.md).
func (c *Client) PodLabels(ctx context.Context, now time.Time) (map[cluster.Key]Labels, error) {
	query := strings.TrimSpace(c.config.LabelsMetric)
	if !strings.HasSuffix(query, "]") {
		query = "last_over_time(" + query + "[" + promDuration(c.config.Length) + "])"
	}
	out := map[cluster.Key]Labels{}
	err := c.instant(ctx, query, now, []string{"matrix", "vector"}, func(s *answer.Series) error {
		key := cluster.Key{Namespace: s.Metric[c.config.LabelsNamespaceLabel], Name: s.Metric[c.config.LabelsPodLabel]}
		if key.Name == "" || key.Namespace == "" {
			return nil
		}
		if out[key] == nil {
			out[key] = Labels{}
		}
		for name, value := range s.Metric {
			if label, ok := strings.CutPrefix(name, c.config.LabelPrefix); ok {
				out[key][label] = value
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the labels of pods: %w", err)
	}
	return out, nil
}
