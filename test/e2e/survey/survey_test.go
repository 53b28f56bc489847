// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/prom/survey"
	"podfit.dev/podfit/test/e2e/bed"
)

const (
	maxSamples = 500_000
	interval   = 75 * time.Second
	many       = 1900 // containers of one namespace; the CPU usage of a day needs more than maxSamples
)

// TestRead_prometheusPermitsFewSamples_isCompleteAndNoQueryIsRepeated reads a day from a real Prometheus, once with the limit that
// Prometheus reports, and once without.
func TestRead_prometheusPermitsFewSamples_isCompleteAndNoQueryIsRepeated(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end tests are not short")
	}
	url := start(t)
	end := time.Now().UTC().Truncate(24 * time.Hour)
	write(t, url, end.Add(-24*time.Hour), end)
	for name, hidesFlags := range map[string]bool{"limit is known": false, "limit is not known": true} {
		t.Run(name, func(t *testing.T) {
			transport := &counting{hidesFlags: hidesFlags, sent: map[string]int{}, statuses: map[int]int{}}
			s, err := survey.New(survey.Config{Address: url, Transport: transport, Parallel: 2})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := s.Plan(t.Context(), []string{"big", "joined", "kills"}, end.Add(-24*time.Hour), end)
			if err != nil {
				t.Fatal(err)
			}
			if plan.Interval != interval || !slices.Equal(plan.ByPod, []string{"big"}) || len(plan.NotRecorded) > 0 {
				t.Errorf("scrape interval %v, by pod %v, not recorded %v", plan.Interval, plan.ByPod, plan.NotRecorded)
			}
			check(t, s, plan)
			p := s.Progress()
			t.Logf("%+v; statuses %v", p, transport.statuses)
			if failed := transport.statuses[http.StatusUnprocessableEntity]; hidesFlags != (failed > 0) || failed > 10 || p.Failed != failed {
				t.Errorf("%d queries were too large", failed)
			}
			for query, n := range transport.sent {
				if n > 1 {
					t.Errorf("sent %d times: %s", n, query)
				}
			}
		})
	}
}

// check reads a plan and compares it with what was written.
func check(t *testing.T, s *survey.Survey, plan *survey.Plan) {
	t.Helper()
	hours := map[string]int{}
	kills := 0
	for part, err := range s.Read(t.Context(), plan) {
		if err != nil || len(part.Gaps) > 0 {
			t.Fatalf("error %v, gaps %+v", err, part.Gaps)
		}
		for h := range part.Hours() {
			hours[h.Namespace]++
			kills += h.Kills
			wantCPU := 0.2
			if h.Namespace == "joined" {
				wantCPU = 0.4 // of its second pod
			}
			if math.Abs(h.CPU-wantCPU) > 0.01 || h.Memory < 1e8 || h.Has != cluster.Both {
				t.Fatalf("got %+v, want %v cores", h, wantCPU)
			}
			web := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "joined", Name: "web"}
			if h.Namespace == "joined" && (h.Workload != web || h.Memory != 3e8) {
				t.Fatalf("got %+v, want the peak of Deployment web", h)
			}
			if throttled := h.Namespace == "kills"; throttled != (math.Abs(h.Throttled-0.3) < 0.02) {
				t.Fatalf("got %+v, want 30 %% throttled CPU periods only in namespace kills", h)
			}
		}
	}
	if hours["big"] != 24*many || hours["joined"] != 24 || hours["kills"] != 24 || kills != 2 {
		t.Errorf("got hours %v and %d kills, want all of a day and 2 kills", hours, kills)
	}
}

// counting counts requests and the statuses of the answers.
type counting struct {
	hidesFlags bool
	mu         sync.Mutex
	sent       map[string]int
	statuses   map[int]int
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.hidesFlags && strings.HasSuffix(r.URL.Path, "/flags") {
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: r}, nil
	}
	a, err := http.DefaultTransport.RoundTrip(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[r.URL.String()]++
	if err == nil {
		c.statuses[a.StatusCode]++
	}
	return a, err
}

// start starts a Prometheus and returns its URL.
func start(t *testing.T) string {
	t.Helper()
	root, err := bed.Root()
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "run", "./cmd/localcluster", "build", "--prometheus")
	build.Dir, build.Stderr = filepath.Join(root, "localcluster"), os.Stderr
	out, err := build.Output()
	if err != nil {
		t.Fatalf("build Prometheus: %v", err)
	}
	lines := strings.Fields(string(out))
	path := lines[slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(filepath.Base(l), "prometheus-") })]
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte("storage: {tsdb: {out_of_order_time_window: 30d}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := bed.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	process, err := bed.Start(bed.Command{
		Name: "prometheus", Path: path, Dir: dir, Log: filepath.Join(dir, "prometheus.log"),
		Args: []string{
			"--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--web.listen-address=" + address,
			"--web.enable-remote-write-receiver", "--log.level=warn", fmt.Sprintf("--query.max-samples=%d", maxSamples),
			"--storage.tsdb.min-block-duration=4d", "--storage.tsdb.max-block-duration=8d", // no compaction while the test writes old samples
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("prometheus\n%s", process.Tail(40))
		}
		if err := process.Stop(); err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		a, err := http.Get("http://" + address + "/-/ready")
		if err == nil {
			a.Body.Close()
			if a.StatusCode == http.StatusOK {
				return "http://" + address
			}
		}
		if time.Now().After(deadline) || !process.Running() {
			t.Fatalf("Prometheus is not ready: %v", err)
		}
	}
}

// A series has labels and a value at each time.
type series struct {
	labels map[string]string
	value  func(since time.Duration) float64
}

// write stores the usage of a day, and of five minutes before and after it, so that the count at the end of the day finds it. It
// writes all series in the order of time, like a scrape.
func write(t *testing.T, url string, from, to time.Time) {
	t.Helper()
	var all []series
	add := func(metric, namespace, pod string, value func(time.Duration) float64, more ...string) {
		labels := map[string]string{"__name__": metric, "namespace": namespace, "pod": pod}
		for i := 0; i < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		all = append(all, series{labels, value})
	}
	constant := func(v float64) func(time.Duration) float64 { return func(time.Duration) float64 { return v } }
	rate := func(v float64) func(time.Duration) float64 {
		return func(d time.Duration) float64 { return v * d.Seconds() }
	}
	usage := func(namespace, pod string, cores, bytes float64) {
		add("container_cpu_usage_seconds_total", namespace, pod, rate(cores), "container", "app", "cpu", "total")
		add("container_memory_working_set_bytes", namespace, pod, constant(bytes), "container", "app")
		add("container_memory_working_set_bytes", namespace, pod, constant(2*bytes), "id", "/kubepods") // of the pod
	}
	for i := range many {
		usage("big", fmt.Sprintf("pod-%d", i), 0.2, 1e8)
	}
	for i, pod := range []string{"web-1", "web-2"} {
		usage("joined", pod, 0.2*float64(i+1), 1e8*float64(2*i+1))
		add("namespace_workload_pod:kube_pod_owner:relabel", "joined", pod, constant(1), "workload", "web", "workload_type", "deployment")
	}
	usage("kills", "db-0", 0.2, 1e8)
	add("namespace_workload_pod:kube_pod_owner:relabel", "kills", "db-0", constant(1), "workload", "db", "workload_type", "statefulset")
	kills := func(d time.Duration) float64 { return math.Floor(min(d.Hours()/10, 2)) } // after 10 and 20 hours
	for _, replica := range []string{"a", "b"} {
		add("kube_pod_container_status_restarts_total", "kills", "db-0", kills, "container", "app", "instance", replica)
		add("kube_pod_container_status_last_terminated_reason", "kills", "db-0", constant(1), "container", "app", "reason", "OOMKilled", "instance", replica)
		add("kube_pod_container_resource_requests", "kills", "db-0", constant(2e8), "container", "app", "resource", "memory", "unit", "byte", "instance", replica)
	}
	add("container_cpu_cfs_periods_total", "kills", "db-0", rate(10), "container", "app")
	add("container_cpu_cfs_throttled_periods_total", "kills", "db-0", rate(3), "container", "app")
	const slice = 48 * interval // an hour
	end := to.Add(5 * time.Minute)
	for at := from.Add(-5 * time.Minute); at.Before(end); at = at.Add(slice) {
		next := at.Add(slice)
		if next.After(end) {
			next = end
		}
		send(t, url, all, from, at, next)
	}
}

// send stores the samples of series between two times by remote write. Counters are 0 five minutes before a start.
func send(t *testing.T, url string, some []series, start, from, to time.Time) {
	t.Helper()
	var request []byte
	for _, s := range some {
		var one []byte
		for _, name := range slices.Sorted(maps.Keys(s.labels)) {
			one = message(one, 1, message(message(nil, 1, []byte(name)), 2, []byte(s.labels[name])))
		}
		for at := from; at.Before(to); at = at.Add(interval) {
			one = message(one, 2, sample(s.value(at.Sub(start)+5*time.Minute), at))
		}
		request = message(request, 1, one)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/write", bytes.NewReader(snappy(request)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Content-Encoding", "snappy")
	r.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if text, _ := io.ReadAll(a.Body); a.StatusCode >= 300 {
		t.Fatalf("remote write: %s: %s", a.Status, text)
	}
}

// message appends a bytes field to a protobuf message.
func message(to []byte, field uint64, value []byte) []byte {
	to = binary.AppendUvarint(to, field<<3|2)
	to = binary.AppendUvarint(to, uint64(len(value)))
	return append(to, value...)
}

// sample returns Prometheus' protobuf message for a value and its time.
func sample(value float64, at time.Time) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{1<<3 | 1}, math.Float64bits(value))
	return binary.AppendUvarint(append(b, 2<<3), uint64(at.UnixMilli()))
}

// snappy returns a Snappy block without compression.
func snappy(b []byte) []byte {
	out := append(binary.AppendUvarint(nil, uint64(len(b))), 63<<2)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(b)-1))
	return append(out, b...)
}
