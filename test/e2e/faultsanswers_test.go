// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"podfit.dev/podfit/test/e2e/bed"
)

// A door is the gate between a component and the API server.
type door struct {
	*bed.Gate
	left    atomic.Int32 // after how many stored writes atWrite is called; not positive: never
	atWrite func()       // before the component gets the answer; set before left
	hangs   atomic.Bool  // requests for leases are not answered
}

// openDoor starts the gate of a component.
func (f *faulty) openDoor(name string) {
	f.Helper()
	d := &door{}
	var err error
	d.Gate, err = f.NewGate(func(*http.Request) {
		if d.left.Add(-1) == 0 {
			d.atWrite()
		}
	})
	f.must(err)
	f.Cleanup(d.Close)
	f.doors[name] = d
	d.Refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if d.hangs.Load() && strings.Contains(r.URL.Path, "/leases") {
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}
		refuse := f.refuse.Load()
		if refuse == nil {
			return false
		}
		code := (*refuse)(r)
		switch code {
		case 0:
			return false
		case away:
			panic(http.ErrAbortHandler) // closes the connection
		}
		code, text, header := statusOf(code)
		for key := range header {
			w.Header().Set(key, header.Get(key))
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
		return true
	}
	d.Answer = func(r *http.Response) error {
		if change := f.answer.Load(); change != nil {
			return (*change)(r)
		}
		return nil
	}
}

// onAnswers returns a fault of the answers of the API server.
func onAnswers(name string, lasts time.Duration, change func(*http.Response) error) fault {
	return fault{name: name, lasts: lasts, begin: func(f *faulty) { f.answers(change) }}
}

// Answers that are no HTTP status: the API server ends the connection, or the disk of etcd is full.
const (
	away     = -1
	diskFull = -2
)

// onRequests returns a fault in which requests do not reach the API server.
func onRequests(name string, lasts time.Duration, refuse func(*http.Request) int) fault {
	return fault{name: name, lasts: lasts, begin: func(f *faulty) { f.refuse.Store(&refuse) }}
}

// statusOf returns the HTTP status, the body and the header of an error.
func statusOf(code int) (int, string, http.Header) {
	header := http.Header{"Content-Type": {"application/json"}}
	message := "a fault"
	switch code {
	case http.StatusTooManyRequests:
		header.Set("Retry-After", "1")
	case diskFull:
		code, message = http.StatusInternalServerError, "etcdserver: mvcc: database space exceeded"
	}
	return code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, code,
		map[int]string{410: "Expired", 429: "TooManyRequests", 409: "Conflict", 500: "InternalError", 503: "ServiceUnavailable"}[code], message), header
}

// status replaces an answer by an error.
func status(r *http.Response, code int) error {
	r.Body.Close()
	code, text, header := statusOf(code)
	r.StatusCode, r.Status = code, ""
	r.Header = header
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	return nil
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

func isWrite(r *http.Response) bool { return r.Request.Method != http.MethodGet }

// every returns a change of every n-th answer.
func every(n int32, change func(*http.Response) error) func(*http.Response) error {
	var count atomic.Int32
	return func(r *http.Response) error {
		if count.Add(1)%n == 0 {
			return change(r)
		}
		return nil
	}
}

func slowly(d time.Duration) func(*http.Response) error {
	return func(r *http.Response) error {
		select {
		case <-time.After(d):
		case <-r.Request.Context().Done():
		}
		return nil
	}
}

func failing(code int) func(*http.Request) int {
	return func(*http.Request) int { return code }
}

// A cut ends a stream after a time or a number of bytes.
type cut struct {
	io.ReadCloser
	left  int
	timer *time.Timer
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func (c *cut) Close() error {
	c.timer.Stop()
	return c.ReadCloser.Close()
}

func cutAfter(r *http.Response, d time.Duration, size int) {
	body := r.Body
	r.Body = &cut{body, size, time.AfterFunc(d, func() { body.Close() })}
}

// outage returns a fault in which the API server is away.
func outage(length string, lasts time.Duration, long bool) fault {
	one := onRequests("API server away for "+length, lasts, failing(away))
	one.kind, one.long = "API server away", long
	return one
}

func faultsOfAnswers() []fault {
	return []fault{
		outage("1 s", time.Second, false), outage("10 s", 10*time.Second, false), outage("1 min", time.Minute, false), outage("10 min", 10*time.Minute, true),
		onAnswers("all requests take 2 s", 20*time.Second, slowly(2*time.Second)),
		onAnswers("half of the requests take 10 s", 30*time.Second, every(2, slowly(10*time.Second))),
		onAnswers("watches end after 2 s", 20*time.Second, func(r *http.Response) error {
			if isWatch(r.Request) {
				cutAfter(r, 2*time.Second, 1<<30)
			}
			return nil
		}),
		onRequests("watches are Gone", 20*time.Second, func(r *http.Request) int {
			if isWatch(r) {
				return http.StatusGone
			}
			return 0
		}),
		onRequests("further pages of lists are Gone", 20*time.Second, func(r *http.Request) int {
			if r.URL.Query().Get("continue") != "" {
				return http.StatusGone
			}
			return 0
		}),
		onRequests("all requests 429", 20*time.Second, failing(http.StatusTooManyRequests)),
		onRequests("all requests 503", 20*time.Second, failing(http.StatusServiceUnavailable)),
		onRequests("every second request 500", 20*time.Second, func() func(*http.Request) int {
			var count atomic.Int32
			return func(*http.Request) int {
				if count.Add(1)%2 == 0 {
					return http.StatusInternalServerError
				}
				return 0
			}
		}()),
		onAnswers("writes carried out but answered 503", 20*time.Second, func(r *http.Response) error {
			if isWrite(r) {
				return status(r, http.StatusServiceUnavailable)
			}
			return nil
		}),
		onAnswers("writes carried out but never answered", 20*time.Second, func(r *http.Response) error {
			if isWrite(r) {
				return errors.New("the connection is lost")
			}
			return nil
		}),
		onAnswers("all writes conflict", 20*time.Second, func(r *http.Response) error {
			if isWrite(r) {
				return status(r, http.StatusConflict)
			}
			return nil
		}),
		onRequests("disk of etcd full: writes are refused", 20*time.Second, func(r *http.Request) int {
			switch r.Method {
			case http.MethodGet, http.MethodHead:
				return 0
			}
			return diskFull
		}),
		onAnswers("bodies end after 100 bytes", 20*time.Second, func(r *http.Response) error {
			cutAfter(r, time.Hour, 100)
			return nil
		}),
		onAnswers("empty bodies", 20*time.Second, func(r *http.Response) error {
			r.Body.Close()
			r.Body, r.ContentLength = http.NoBody, 0
			r.Header.Del("Content-Length")
			return nil
		}),
	}
}

// onMetrics returns a fault of the Metrics API: a change of its answers in JSON.
func onMetrics(name string, change func(text string) string) fault {
	return onMetricsOf(name, func(_, text string) string { return change(text) })
}

// onMetricsOf is onMetrics for a change that depends on the URI of the request.
func onMetricsOf(name string, change func(uri, text string) string) fault {
	return onAnswers("metrics: "+name, 20*time.Second, func(r *http.Response) error {
		if !strings.HasPrefix(r.Request.URL.Path, "/apis/metrics.k8s.io/") || r.StatusCode != http.StatusOK {
			return nil
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return err
		}
		text = []byte(change(r.Request.URL.RequestURI(), string(text)))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		r.Header.Set("Content-Length", fmt.Sprint(len(text)))
		return nil
	})
}

// frozen returns a change that repeats the first answer to each request.
func frozen() func(uri, text string) string {
	var first sync.Map
	return func(uri, text string) string {
		answer, _ := first.LoadOrStore(uri, text)
		return answer.(string)
	}
}

// withHalf returns a list with every second item, or the text if it is no list.
func withHalf(text string) string {
	var list map[string]any
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return text
	}
	items, ok := list["items"].([]any)
	if !ok {
		return text
	}
	var kept []any
	for i := 0; i < len(items); i += 2 {
		kept = append(kept, items[i])
	}
	list["items"] = kept
	half, err := json.Marshal(list)
	if err != nil {
		return text
	}
	return string(half)
}

var (
	usageCPU    = regexp.MustCompile(`"cpu":"[^"]*"`)
	usageMemory = regexp.MustCompile(`"memory":"[^"]*"`)
	usageTime   = regexp.MustCompile(`"timestamp":"[^"]*"`)
)

func withUsage(cpu, memory string) func(string) string {
	return func(text string) string {
		return usageMemory.ReplaceAllString(usageCPU.ReplaceAllString(text, `"cpu":"`+cpu+`"`), `"memory":"`+memory+`"`)
	}
}

func withTime(d time.Duration) func(string) string {
	return func(text string) string {
		return usageTime.ReplaceAllString(text, `"timestamp":"`+time.Now().Add(d).UTC().Format(time.RFC3339)+`"`)
	}
}

func faultsOfMetrics() []fault {
	return []fault{
		{name: "metrics-server away", lasts: 25 * time.Second, begin: func(f *faulty) { f.stopPart(bed.MetricsServer) }, end: func(f *faulty) { f.startPart(bed.MetricsServer) }},
		onMetrics("zeroes", withUsage("0", "0")),
		onMetrics("not a number", withUsage("NaN", "NaN")),
		onMetrics("negative", withUsage("-1", "-1Mi")),
		onMetrics("10^6 times too high", withUsage("300k", "200Ti")),
		onMetrics("times an hour back", withTime(-time.Hour)),
		onMetrics("times an hour ahead", withTime(time.Hour)),
		onMetrics("no items", func(text string) string {
			if i := strings.Index(text, `"items":[`); i >= 0 {
				return text[:i] + `"items":[]}`
			}
			return text
		}),
		onMetricsOf("the same answer again and again", frozen()),
		onMetrics("every second item", withHalf),
		onMetrics("half of the answer", func(text string) string { return text[:len(text)/2] }),
	}
}

// The user and the password of Prometheus.
const (
	prometheusUser     = "podfit"
	prometheusPassword = "history"
)

// A brokenPrometheus is a proxy in front of the Prometheus of the cluster, and requires a password.
type brokenPrometheus struct {
	url   string
	fault atomic.Pointer[func(http.ResponseWriter, *http.Request, http.Handler)] // answers in place of Prometheus; nil for none
	asked atomic.Int32
}

func (f *faulty) breakPrometheus() *brokenPrometheus {
	f.Helper()
	to, err := url.Parse(f.Prometheus)
	f.must(err)
	through := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Set("Accept-Encoding", "identity")
	}}
	b := &brokenPrometheus{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.asked.Add(1)
		if user, password, _ := r.BasicAuth(); user != prometheusUser || password != prometheusPassword {
			http.Error(w, "wrong user or password", http.StatusUnauthorized)
			return
		}
		if fault := b.fault.Load(); fault != nil {
			(*fault)(w, r, through)
			return
		}
		through.ServeHTTP(w, r)
	}))
	f.Cleanup(server.Close)
	b.url = server.URL
	return b
}

// onPrometheus returns a fault in which the recommender starts with --storage=prometheus, and Prometheus answers wrongly. The recommender must recommend
// by present usage. Then it is started as before.
func onPrometheus(name, password string, broken func(http.ResponseWriter, *http.Request, http.Handler)) fault {
	return fault{name: "Prometheus: " + name, kills: true, begin: func(f *faulty) {
		f.prometheus.fault.Store(&broken)
		f.prometheus.asked.Store(0)
		f.killComponents("recommender")
		flags := append([]string{
			"--storage=prometheus", "--prometheus-address=" + f.prometheus.url, "--username=" + prometheusUser, "--password=" + password, "--prometheus-query-timeout=5s",
		}, todaysFlags...)
		f.startAs("recommender", f.component("recommender").With(flags...))
		f.must(f.provoke(f.Context()))
		f.eventually("podfit recommends although Prometheus fails", recoversWithin, f.isRecommended("learnt"))
		if f.prometheus.asked.Load() == 0 {
			f.Fatal("Prometheus was not asked")
		}
	}, end: func(f *faulty) {
		f.killComponents("recommender")
		f.startComponents("recommender")
	}}
}

func faultsOfPrometheus() []fault {
	return []fault{
		onPrometheus("answers after 10 s, more than the timeout", prometheusPassword, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			select {
			case <-time.After(10 * time.Second):
			case <-r.Context().Done():
			}
			next.ServeHTTP(w, r)
		}),
		onPrometheus("half of each answer", prometheusPassword, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			whole := httptest.NewRecorder()
			next.ServeHTTP(whole, r)
			text := whole.Body.Bytes()
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			w.WriteHeader(whole.Code)
			_, _ = w.Write(text[:len(text)/2])
			panic(http.ErrAbortHandler) // ends the connection
		}),
		onPrometheus("half of the JSON, as a complete answer", prometheusPassword, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			whole := httptest.NewRecorder()
			next.ServeHTTP(whole, r)
			text := whole.Body.Bytes()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(whole.Code)
			_, _ = w.Write(text[:len(text)/2])
		}),
		onPrometheus("wrong password", "wrong", func(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) }),
	}
}
