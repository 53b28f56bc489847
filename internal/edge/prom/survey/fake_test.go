// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// now is the time of the tests, and the time at which synctest starts is later.
var now = time.Date(1999, 12, 10, 9, 20, 0, 0, time.UTC)

// A fake is a transport that responds like a Prometheus. Each container has 0.25 cores and 64Mi plus its number in each hour.
type fake struct {
	containers map[string]int // by namespace
	byPod      []string       // namespaces without stored owners
	noOwners   *http.Response // answer to the query for pods without stored owners; nil: byPod
	interval   time.Duration
	maxSamples string // flag; "" is not found
	unrecorded []string
	killed     []string // namespaces with OOM kills; nil: all
	clusters   []string // values of the label cluster; none: the label does not exist
	delay      time.Duration

	// fails returns an answer instead of the usual one, or nil. q is a range query.
	fails func(q *asked) *http.Response
	// down answers instant queries instead, unless it is nil.
	down func() *http.Response

	mu      sync.Mutex
	ranges  []*asked
	urls    map[string]int
	probes  []string
	running int
	most    int // queries at a time
}

// An asked is a range query that a fake received.
type asked struct {
	query      string
	namespaces []string
	measure    Measure
	from, to   time.Time // evaluation times
	at         time.Time
}

func (q *asked) hours() int { return int(q.to.Sub(q.from)/time.Hour) + 1 }

// samples returns the samples of a scrape each interval.
func (q *asked) samples(f *fake) (n int) {
	for _, name := range q.namespaces {
		n += f.containers[name]
	}
	return n * q.hours() * int(time.Hour/f.interval)
}

func newFake(containers map[string]int) *fake {
	return &fake{containers: containers, interval: 30 * time.Second, urls: map[string]int{}}
}

var namespacesOf = regexp.MustCompile(`[{,]namespace(=~?)"([^"]*)"`)

// RoundTrip implements http.RoundTripper.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.urls[r.URL.String()]++
	f.running++
	f.most = max(f.most, f.running)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.running--
		f.mu.Unlock()
	}()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(f.delay):
	}
	if r.Method != http.MethodGet || len(r.URL.String()) > 7000 {
		return reply(http.StatusMethodNotAllowed, "text/plain", "no"), nil
	}
	v := r.URL.Query()
	if strings.HasSuffix(r.URL.Path, "/status/flags") {
		if f.maxSamples == "" {
			return reply(http.StatusNotFound, "text/plain", "404 page not found"), nil
		}
		return reply(http.StatusOK, "application/json", `{"status":"success","data":{"query.max-samples":"`+f.maxSamples+`"}}`), nil
	}
	if strings.HasSuffix(r.URL.Path, "/query") {
		f.mu.Lock()
		f.probes = append(f.probes, v.Get("query"))
		down := f.down
		f.mu.Unlock()
		if down != nil {
			return down(), nil
		}
		return f.instant(v.Get("query")), nil
	}
	q := ask(v)
	f.mu.Lock()
	f.ranges = append(f.ranges, q)
	f.mu.Unlock()
	if f.fails != nil {
		if a := f.fails(q); a != nil {
			a.Request = r
			return a, nil
		}
	}
	read, write := io.Pipe()
	go func() { write.CloseWithError(f.matrix(write, q)) }()
	a := reply(http.StatusOK, "application/json", "")
	a.Body = read
	return a, nil
}

func ask(v url.Values) *asked {
	q := &asked{query: v.Get("query"), at: time.Now()}
	m := namespacesOf.FindStringSubmatch(q.query)
	q.namespaces = strings.Split(m[2], "|")
	switch {
	case strings.Contains(q.query, memoryMetric):
		q.measure = Memory
	case strings.Contains(q.query, requestsMetric):
		q.measure = KilledRequest
	case strings.Contains(q.query, restartsMetric):
		q.measure = Kills
	case strings.Contains(q.query, throttledMetric):
		q.measure = Throttled
	}
	from, _ := strconv.ParseInt(v.Get("start"), 10, 64)
	to, _ := strconv.ParseInt(v.Get("end"), 10, 64)
	q.from, q.to = time.Unix(from, 0).UTC(), time.Unix(to, 0).UTC()
	return q
}

func (f *fake) instant(query string) *http.Response {
	var result []any
	add := func(labels map[string]string, v int) {
		result = append(result, map[string]any{"metric": labels, "value": []any{1, strconv.Itoa(v)}})
	}
	switch {
	case strings.Contains(query, `reason="OOMKilled"`):
		for _, name := range strings.Split(namespacesOf.FindStringSubmatch(query)[2], "|") {
			if f.killed == nil || slices.Contains(f.killed, name) {
				add(map[string]string{"namespace": name}, 1)
			}
		}
	case strings.Contains(query, "unless") && f.noOwners != nil:
		return f.noOwners
	case strings.Contains(query, "unless"):
		for _, name := range f.byPod {
			add(map[string]string{"namespace": name}, 1)
		}
	case strings.Contains(query, "count_over_time"):
		add(map[string]string{}, int(10*time.Minute/f.interval))
	case strings.HasPrefix(query, "count by (namespace,cluster)"):
		only := namespacesOf.FindStringSubmatch(query)
		for _, name := range slices.Sorted(maps.Keys(f.containers)) {
			if len(only) == 3 && only[2] != "" && !slices.Contains(strings.Split(only[2], "|"), name) {
				continue
			}
			add(map[string]string{"namespace": name}, f.containers[name])
			for _, c := range f.clusters {
				add(map[string]string{"namespace": name, "cluster": c}, 1)
			}
		}
	default:
		if !slices.ContainsFunc(f.unrecorded, func(m string) bool { return strings.Contains(query, m) }) {
			add(map[string]string{}, 1)
		}
	}
	data, _ := json.Marshal(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": result}})
	return reply(http.StatusOK, "application/json; charset=utf-8", string(data))
}

// matrix writes the answer to a range query.
func (f *fake) matrix(to io.Writer, q *asked) error {
	value := func(i int) string {
		switch q.measure {
		case CPU:
			return "0.25"
		case Memory:
			return strconv.Itoa(64<<20 + i)
		case Kills:
			return "2"
		case KilledRequest:
			return strconv.Itoa(96 << 20)
		default:
			return "0.5"
		}
	}
	var b bytes.Buffer
	b.WriteString(`{"status":"success","data":{"resultType":"matrix","result":[`)
	comma := ""
	for _, name := range q.namespaces {
		for i := range f.containers[name] {
			if (q.measure == Kills || q.measure == KilledRequest) && i > 0 {
				break
			}
			who := fmt.Sprintf(`"workload":"w%d","workload_type":"deployment"`, i)
			if !strings.Contains(q.query, ownerMetric) {
				who = fmt.Sprintf(`"pod":"w%d-0"`, i)
			}
			fmt.Fprintf(&b, `%s{"metric":{"namespace":%q,%s,"container":"app"},"values":[`, comma, name, who)
			comma = ","
			v := value(i)
			sep := ""
			for at := q.from.Unix(); at <= q.to.Unix(); at += 3600 {
				b.WriteString(sep + "[" + strconv.FormatInt(at, 10) + `,"` + v + `"]`)
				sep = ","
			}
			b.WriteString("]}")
			if b.Len() > 1<<16 {
				if _, err := b.WriteTo(to); err != nil {
					return err
				}
			}
		}
	}
	b.WriteString("]}}")
	_, err := b.WriteTo(to)
	return err
}

func reply(code int, kind, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Header: http.Header{"Content-Type": {kind}},
		Body: io.NopCloser(strings.NewReader(body)),
	}
}

// status returns an answer with an error of Prometheus.
func status(code int) *http.Response {
	return reply(code, "application/json", `{"status":"error","errorType":"execution","error":"query processing would load too many samples"}`)
}

// unchanged returns the requests that were sent more than once.
func (f *fake) unchanged() (out []string) {
	for address, n := range f.urls {
		if n > 1 {
			out = append(out, address)
		}
	}
	return out
}

// survey returns a survey of the fake.
func (f *fake) survey(t testing.TB, change ...func(*Config)) *Survey {
	t.Helper()
	c := Config{Address: "http://prometheus.invalid/base", Transport: f, Parallel: 2}
	for _, do := range change {
		do(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A result is everything that a survey yielded.
type result struct {
	plan  *Plan
	hours []Hour
	gaps  []Gap
	notes []string

	partial []string
	parts   int
	err     error
}

// read plans and reads some days.
func read(t testing.TB, s *Survey, days int, namespaces ...string) (r result) {
	t.Helper()
	plan, err := s.Plan(t.Context(), namespaces, now.AddDate(0, 0, -days), now)
	if err != nil {
		t.Fatal(err)
	}
	return readPlan(t.Context(), s, plan)
}

func readPlan(ctx context.Context, s *Survey, plan *Plan) (r result) {
	r.plan = plan
	for part, err := range s.Read(ctx, plan) {
		r.parts++
		r.hours = slices.AppendSeq(r.hours, part.Hours())
		r.gaps = append(r.gaps, part.Gaps...)
		r.notes = append(r.notes, part.Notes...)
		r.partial = append(r.partial, part.Partial...)
		r.err = err
	}
	r.gaps = Merge(r.gaps)
	return r
}

// complete checks that the hours are those of all containers of a fake, each exactly once, with both resources.
func (r *result) checkComplete(t testing.TB, f *fake, namespaces ...string) {
	t.Helper()
	want := 0
	for _, name := range namespaces {
		want += f.containers[name]
	}
	want *= int(r.plan.To.Sub(r.plan.From) / time.Hour)
	type key struct {
		namespace, who string
		at             int64
	}
	seen := map[key]bool{}
	for _, h := range r.hours {
		k := key{h.Namespace, h.Key().Name, h.End.Unix()}
		if seen[k] {
			t.Fatalf("%v is yielded twice", k)
		}
		seen[k] = true
		if h.Has != cluster.Both || h.CPU != 0.25 || h.Memory < 64<<20 {
			t.Fatalf("got %+v, want both resources", h)
		}
	}
	if len(seen) != want || len(r.gaps) > 0 || r.err != nil {
		t.Errorf("got %d hours, gaps %v, error %v, want %d hours, no gap and no error", len(seen), r.gaps, r.err, want)
	}
}
