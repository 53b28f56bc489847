// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// Answers in the form in which Thanos, Mimir and VictoriaMetrics send them.
const (
	thanosPartial = `{"status":"success","data":{"resultType":"matrix","result":[],"analysis":{}},` +
		`"warnings":["No StoreAPIs matched for this query","receive series from Addr: 10.2.0.7:10901 LabelSets: {replica=\"a\"}: rpc error: code = Unavailable desc = connection refused"]}`
	thanosLimit = `{"status":"error","errorType":"execution","error":"expanding series: proxy Series(): rpc error: code = ResourceExhausted desc = exceeded series limit: limit 1000 violated (got 1001)"}`

	mimirNoTenant = "no org id\n"
	mimirChunks   = `{"status":"error","errorType":"execution","error":"the query exceeded the maximum number of chunks (limit: 2000000 chunks) (err-mimir-max-chunks-per-query). Consider reducing the time range and/or number of series selected by the query."}`
	mimirLength   = `{"status":"error","errorType":"bad_data","error":"the total query time range exceeds the limit (query length: 25h0m0s, limit: 12h0m0s) (err-mimir-max-total-query-length)"}`
	mimirBusy     = `{"status":"error","errorType":"too_many_requests","error":"too many outstanding requests"}`

	victoriaPartial = `{"status":"success","isPartial":true,"data":{"resultType":"matrix","result":[]},"stats":{"seriesFetched":"0","executionTimeMsec":1}}`
	victoriaSamples = `{"status":"error","errorType":"422","error":"error when executing query=\"x\" on the time range: cannot select more than -search.maxSamplesPerQuery=1000000000 samples; possible solutions: to increase it"}`
	victoriaSeries  = `{"status":"error","errorType":"400","error":"the number of matching timeseries exceeds 300000; either narrow down the search or increase -search.maxUniqueTimeseries command-line flag value"}`
	victoriaPath    = `unsupported path requested: "/api/v1/query"` + "\n"

	prometheusTimeout = `{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}`

	promQLWarning = `{"status":"success","data":{"resultType":"matrix","result":[]},"warnings":["PromQL warning: encountered a mix of histograms and floats for metric name x"]}`
)

func TestPlan_failureOfAnotherProduct_hasCauseAndRemedy(t *testing.T) {
	for name, tt := range map[string]struct {
		answer         *http.Response
		cause          Cause
		detail, remedy string
	}{
		"Thanos, series limit":          {reply(422, "application/json", thanosLimit), TooLarge, "exceeded series limit", "--query.max-samples"},
		"Mimir without a tenant":        {reply(401, "text/plain; charset=utf-8", mimirNoTenant), Unauthorized, "no org id", "--prometheus-header 'X-Scope-OrgID: TENANT'"},
		"Mimir, chunks":                 {reply(422, "application/json", mimirChunks), TooLarge, "err-mimir-max-chunks-per-query", "-querier.max-samples"},
		"Mimir, length":                 {reply(400, "application/json", mimirLength), TooLarge, "err-mimir-max-total-query-length", ""},
		"Mimir, queue":                  {reply(429, "application/json", mimirBusy), Overloaded, "too many outstanding requests", "later"},
		"Prometheus, time-out":          {reply(503, "application/json", prometheusTimeout), TimedOut, "query timed out", "later"},
		"VictoriaMetrics, samples":      {reply(422, "application/json", victoriaSamples), TooLarge, "maxSamplesPerQuery", "-search.maxSamplesPerQuery"},
		"VictoriaMetrics, series":       {reply(400, "application/json", victoriaSeries), TooLarge, "maxUniqueTimeseries", ""},
		"VictoriaMetrics, without path": {reply(400, "text/plain; charset=utf-8", victoriaPath), WrongPath, "unsupported path", "/select/0/prometheus"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Config{Address: "http://prometheus.invalid", Transport: answering(func(*http.Request) (*http.Response, error) { return tt.answer, nil })})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Plan(t.Context(), nil, now.AddDate(0, 0, -1), now)
			checkFailure(t, err, tt.cause, tt.detail)
			if failed, ok := err.(*Error); ok && !strings.Contains(failed.Remedy(), tt.remedy) {
				t.Errorf("remedy %q, want %q", failed.Remedy(), tt.remedy)
			}
		})
	}
}

// A limit of another product is met by smaller queries, like that of Prometheus.
func TestRead_limitOfAnotherProduct_queriesAreHalved(t *testing.T) {
	for name, answer := range map[string]func() *http.Response{
		"Thanos":                  func() *http.Response { return reply(422, "application/json", thanosLimit) },
		"Mimir, chunks":           func() *http.Response { return reply(422, "application/json", mimirChunks) },
		"Mimir, length":           func() *http.Response { return reply(400, "application/json", mimirLength) },
		"VictoriaMetrics samples": func() *http.Response { return reply(422, "application/json", victoriaSamples) },
		"VictoriaMetrics series":  func() *http.Response { return reply(400, "application/json", victoriaSeries) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"a": 3, "b": 4, "c": 2})
				f.fails = func(q *asked) *http.Response {
					if q.hours() > 6 {
						return answer()
					}
					return nil
				}
				r := read(t, f.survey(t), 1)
				r.checkComplete(t, f, "a", "b", "c")
				if again := f.unchanged(); len(again) > 0 {
					t.Errorf("repeated: %v", again)
				}
			})
		})
	}
}

func TestRead_warnings_onlyThoseOfMissingSeriesArePartial(t *testing.T) {
	for name, tt := range map[string]struct {
		answer         string
		partial, notes int
	}{
		"Thanos, a store is down":     {thanosPartial, 2, 0},
		"VictoriaMetrics, isPartial":  {victoriaPartial, 1, 0},
		"Prometheus, about the query": {promQLWarning, 0, 1},
	} {
		f := newFake(map[string]int{"a": 1})
		f.fails = func(*asked) *http.Response { return reply(200, "application/json", tt.answer) }
		r := read(t, f.survey(t), 1)
		if len(r.partial) != tt.partial || len(r.notes) != tt.notes {
			t.Errorf("%s: partial %q, notes %q, want %d and %d", name, r.partial, r.notes, tt.partial, tt.notes)
		}
	}
}

func TestQuery_parameters_areSentWithEachRequest(t *testing.T) {
	f := newFake(map[string]int{"shop": 1})
	n := 0
	s := f.survey(t, func(c *Config) {
		c.Params = url.Values{"dedup": {"false"}, "extra_filters[]": {`{env="a"}`, `{env="b"}`}}
		c.Parallel = 1
		c.Transport = answering(func(r *http.Request) (*http.Response, error) {
			n++
			if v := r.URL.Query(); v.Get("dedup") != "false" || !slices.Equal(v["extra_filters[]"], []string{`{env="a"}`, `{env="b"}`}) {
				t.Errorf("parameters are %v", v)
			}
			return f.RoundTrip(r)
		})
	})
	r := read(t, s, 1)
	r.checkComplete(t, f, "shop")
	if n == 0 {
		t.Error("no request")
	}
}
