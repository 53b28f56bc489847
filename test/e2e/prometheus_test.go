// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
)

// Usage of the test's containers during the last eight days, which is above their present usage, and the resulting
// recommendation: the upper limits of the histogram buckets of 700m and 600Mi, plus the safety margin.
const (
	pastCores  = 0.7
	pastBytes  = 600 << 20
	pastTarget = "app cpu=813m memory=764046746"
)

const (
	pastLength = 8 * 24 * time.Hour
	pastStep   = 20 * time.Minute // three samples per rate window of an hour
	manyGone   = 300              // deleted pods of one workload
	mostMemory = 96 << 20         // limit for a recommender that reads the history of all of them
)

// naming has the names of the labels and metrics in a Prometheus.
type naming struct {
	pod, container             string // labels of usage series, besides "namespace"
	labels, job                string // metric with the labels of pods, and its job
	labelsNamespace, labelsPod string // labels of that metric
	labelPrefix                string
}

var (
	upstreamsNames = naming{
		pod: "pod_name", container: "name", labels: "up", job: "kubernetes-pods",
		labelsNamespace: "kubernetes_namespace", labelsPod: "kubernetes_pod_name", labelPrefix: "pod_label_",
	}
	todaysNames = naming{
		pod: "pod", container: "container", labels: "kube_pod_labels", job: "kube-state-metrics",
		labelsNamespace: "namespace", labelsPod: "pod", labelPrefix: "label_",
	}
)

// todaysFlags set the names that cAdvisor and kube-state-metrics use today. The defaults are upstream's older names.
var todaysFlags = []string{
	"--container-pod-name-label=pod", "--container-name-label=container",
	"--metric-for-pod-labels=kube_pod_labels[8d]", "--pod-label-prefix=label_", "--pod-namespace-label=namespace", "--pod-name-label=pod",
}

// Bearer tokens of the proxy's clients.
const (
	podfitsToken   = "podfits"
	filesToken     = "files"
	upstreamsToken = "upstreams"
)

// TestRecommender_prometheusHistory_isLearned starts recommenders that read eight days of history from a real Prometheus. Their
// first recommendation follows from the history, not from the present usage.
func TestRecommender_prometheusHistory_isLearned(t *testing.T) {
	p := newPlace(t, "prometheus")
	upstream := buildUpstream(t, p.root)
	for _, name := range []string{"live", "named", "labelled", "stranger"} {
		w := steady(name)
		w.Replicas = 1
		p.apply(w.manifest())
	}
	prometheus := p.startPrometheus()
	live := p.start("live", 1)[0].Name
	prometheus.write(t, append(p.past(upstreamsNames, live, 1), p.past(todaysNames, live, manyGone)...))
	p.eventually("all pods have metrics", measured, func(ctx context.Context) error {
		l, err := p.Metrics.MetricsV1beta1().PodMetricses(p.ns).List(ctx, metav1.ListOptions{})
		if err == nil && len(l.Items) < 4 {
			err = fmt.Errorf("%d of 4 pods have metrics", len(l.Items))
		}
		return err
	})
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(filesToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := prometheus.behindTokens(t)
	withToken := func(flag string) []string {
		return append([]string{"--prometheus-address=" + proxy.url, flag}, todaysFlags...)
	}
	t.Cleanup(func() { proxy.checkResponseSizes(t) }) // after all requests

	all := map[string]string{"live": pastTarget, "named": pastTarget, "labelled": pastTarget, "stranger": steadyTarget}
	for name, c := range map[string]struct {
		flags  []string
		logged string // in its log
		want   map[string]string
	}{
		"password": {[]string{"--prometheus-address=" + prometheus.url, "--prometheus-insecure", "--username=podfit", "--password=history"}, "complete=true", all},
		"token":    {withToken("--prometheus-bearer-token=" + podfitsToken), "complete=true", all},
		"file":     {withToken("--prometheus-bearer-token-file=" + file), "complete=true", map[string]string{"labelled": pastTarget}},
		"refused":  {withToken("--prometheus-bearer-token=wrong"), "complete=false", map[string]string{"live": steadyTarget}},
		"unverified": {
			[]string{"--prometheus-address=" + prometheus.url, "--username=podfit", "--password=history"}, "failed to verify certificate",
			map[string]string{"live": steadyTarget},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &place{T: t, world: shared, ns: p.ns}
			r := p.firstRecommends(name, c.want, func(flags []string) *bed.Podfit {
				r, err := p.Cluster.Run(t.Context(), p.binary, ofAllNamespaces().Named("history-"+name).With(c.flags...).With(flags...))
				if err != nil {
					t.Fatal(err)
				}
				return r
			})
			if !strings.Contains(r.Tail(60), c.logged) {
				t.Errorf("the log has no line %q:\n%s", c.logged, r.Tail(60))
			}
			most := mostUsed(t, r.PID())
			t.Logf("maximum memory of the recommender: %d MiB", most>>20)
			if most > mostMemory {
				t.Errorf("maximum memory is above %d MiB", mostMemory>>20)
			}
			if cs, err := p.Checkpoints(t.Context(), p.ns); err != nil || len(cs) > 0 {
				t.Errorf("there are %d checkpoints, %v", len(cs), err)
			}
		})
	}
	// With pod labels from a range query, upstream can read the history too, and recommends the same.
	t.Run("upstream", func(t *testing.T) {
		t.Parallel()
		p := &place{T: t, world: shared, ns: p.ns}
		p.firstRecommends("upstream", map[string]string{"labelled": pastTarget}, func(flags []string) *bed.Podfit {
			flags = append(flags, withToken("--prometheus-bearer-token="+upstreamsToken)...)
			return p.upstreamPart(upstream, "recommender", "history-upstream", append(flags, "--recommender-interval=5s"))
		})
	})
}

// firstRecommends starts a recommender for VPAs of its own and checks their first recommendation.
func (p *place) firstRecommends(name string, want map[string]string, start func(flags []string) *bed.Podfit) *bed.Podfit {
	p.Helper()
	for workload := range want {
		p.apply(autoscaler(workload+"-"+name, "", workload, "Off", "  recommenders: [{name: "+name+"}]"))
	}
	l, err := p.Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(p.ns).List(p.Context(), metav1.ListOptions{})
	if err != nil {
		p.Fatal(err)
	}
	ctx, cancel := bed.WithPatience(p.Context(), time.Minute)
	defer cancel()
	w, err := p.Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(p.ns).
		Watch(ctx, metav1.ListOptions{ResourceVersion: l.GetResourceVersion()})
	if err != nil {
		p.Fatal(err)
	}
	defer w.Stop()
	r := start([]string{"--recommender-name=" + name, "--storage=prometheus", "--vpa-object-namespace=" + p.ns})
	p.endsWithTest(r)
	first := map[string]string{}
	for len(first) < len(want) {
		select {
		case <-r.Done():
			p.Fatalf("%s exited: %v", r.Name, r.Err())
		case e, ok := <-w.ResultChan():
			if !ok {
				p.Fatalf("after a minute there are only the recommendations %v", first)
			}
			u, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				p.Fatalf("watch autoscalers: %v", e.Object)
			}
			a, err := readAutoscaler(u)
			if err != nil {
				p.Fatal(err)
			}
			if strings.HasSuffix(a.Name, "-"+name) && first[a.Name] == "" && targets(a) != "" {
				first[a.Name] = targets(a)
			}
		}
	}
	for workload, target := range want {
		if got := first[workload+"-"+name]; got != target {
			p.Errorf("the first recommendation for %s is %q, want %q", workload, got, target)
		}
	}
	return r
}

// mostUsed returns the maximum resident memory of a process, in bytes; 0 if the system does not report it.
func mostUsed(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(line, "kB")))
	if err != nil {
		t.Fatalf("read the memory of process %d: %v", pid, err)
	}
	return kib << 10
}

// A series is a Prometheus series over the length of the history.
type series struct {
	labels map[string]string
	rate   float64 // per second, of a counter
	value  float64 // of a gauge
	until  time.Duration
}

// past returns the history of the namespace's workloads. Each workload is identified in another way: by an existing pod, by the
// names of deleted pods, or by the labels of a pod. One of them has a pod with a similar name that belongs to another workload.
func (p *place) past(n naming, live string, gone int) (out []series) {
	usage := func(pod string, cores, bytes float64, until time.Duration) {
		for metric, s := range map[string]series{
			"container_cpu_usage_seconds_total": {rate: cores, until: until}, "container_memory_working_set_bytes": {value: bytes, until: until},
		} {
			s.labels = map[string]string{"__name__": metric, "job": "kubernetes-cadvisor", "namespace": p.ns, n.pod: pod, n.container: "app"}
			out = append(out, s)
		}
	}
	label := func(pod, app string) {
		out = append(out, series{value: 1, labels: map[string]string{
			"__name__": n.labels, "job": n.job, n.labelsNamespace: p.ns, n.labelsPod: pod, n.labelPrefix + "app": app,
		}})
	}
	usage(live, pastCores, pastBytes, 0)
	for i := range gone {
		usage("named-6d4cf56db6-"+random(i), pastCores, pastBytes, time.Hour)
	}
	usage("odd", pastCores, pastBytes, time.Hour)
	label("odd", "labelled")
	usage("stranger-6d4cf56db6-x7k9p", 3, 5<<30, time.Hour)
	label("stranger-6d4cf56db6-x7k9p", "other")
	return out
}

// random returns the random part of a pod's name.
func random(n int) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, 5)
	for i := range b {
		b[i] = alphabet[n%len(alphabet)]
		n /= len(alphabet)
	}
	return string(b)
}

// A prometheus is a real Prometheus with basic authentication and a self-signed certificate.
type prometheus struct {
	url    string
	client *http.Client
}

// The password of its only user is "history".
const passwords = "basic_auth_users: {podfit: $2b$04$aiq/sGX/jvEy1auQkpwdZe7eHjARi9rXsXIQQ8ORJ18MHJvyCi.YK}"

// buildPrometheus builds Prometheus if necessary and returns the path of its executable.
func (p *place) buildPrometheus() string {
	p.Helper()
	build := exec.CommandContext(p.Context(), "go", "run", "./cmd/localcluster", "build", "--prometheus")
	build.Dir, build.Stderr = filepath.Join(p.root, "localcluster"), os.Stderr
	out, err := build.Output()
	if err != nil {
		p.Fatalf("build Prometheus: %v", err)
	}
	lines := strings.Fields(string(out))
	return lines[slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(filepath.Base(l), "prometheus-") })]
}

func (p *place) startPrometheus() *prometheus {
	p.Helper()
	_, cert, key := certificates(p.T)
	dir := p.TempDir()
	for name, text := range map[string]string{
		"prometheus.yaml": "storage: {tsdb: {out_of_order_time_window: 30d}}\n",
		"web.yaml":        fmt.Sprintf("tls_server_config: {cert_file: %q, key_file: %q}\n%s\n", cert, key, passwords),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			p.Fatal(err)
		}
	}
	port, err := bed.FreePort()
	if err != nil {
		p.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	process, err := bed.Start(bed.Command{
		Name: "prometheus", Path: p.buildPrometheus(), Dir: dir, Log: filepath.Join(p.Dir, "prometheus-with-history.log"),
		Args: []string{
			"--config.file=prometheus.yaml", "--web.config.file=web.yaml", "--storage.tsdb.path=data", "--web.listen-address=" + address,
			"--web.enable-remote-write-receiver", "--log.level=warn",
		},
	})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if p.Failed() {
			p.Logf("prometheus\n%s", process.Tail(40))
		}
		if err := process.Stop(); err != nil {
			p.Error(err)
		}
	})
	it := &prometheus{url: "https://" + address, client: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true,
	}}}
	p.eventually("Prometheus is ready", time.Minute, func(ctx context.Context) error {
		if !process.Running() {
			return fmt.Errorf("Prometheus exited: %w", process.Err())
		}
		return it.do(ctx, http.MethodGet, "/-/ready", nil, nil)
	})
	return it
}

func (pr *prometheus) do(ctx context.Context, method, path string, header http.Header, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, method, pr.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	maps.Copy(r.Header, header)
	r.SetBasicAuth("podfit", "history")
	a, err := pr.client.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, a.Status, bytes.TrimSpace(text))
	}
	return err
}

// write stores series by remote write, one day after the other.
func (pr *prometheus) write(t *testing.T, all []series) {
	t.Helper()
	now := time.Now().Truncate(time.Minute)
	start := now.Add(-pastLength - time.Hour)
	header := http.Header{
		"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {"snappy"}, "X-Prometheus-Remote-Write-Version": {"0.1.0"},
	}
	for day := start; day.Before(now); day = day.Add(24 * time.Hour) {
		var request []byte
		for _, s := range all {
			var one []byte
			for _, name := range slices.Sorted(maps.Keys(s.labels)) {
				one = message(one, 1, message(message(nil, 1, []byte(name)), 2, []byte(s.labels[name])))
			}
			for at := day; at.Before(day.Add(24*time.Hour)) && !at.After(now.Add(-s.until)); at = at.Add(pastStep) {
				one = message(one, 2, sample(s.value+s.rate*at.Sub(start).Seconds(), at))
			}
			request = message(request, 1, one)
		}
		if err := pr.do(t.Context(), http.MethodPost, "/api/v1/write", header, snappy(request)); err != nil {
			t.Fatal(err)
		}
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

// A tokenProxy forwards requests with a known bearer token to Prometheus, and records the length of the responses.
type tokenProxy struct {
	url string

	mu      sync.Mutex
	answers map[string][]int // by token
}

func (pr *prometheus) behindTokens(t *testing.T) *tokenProxy {
	t.Helper()
	to, err := url.Parse(pr.url)
	if err != nil {
		t.Fatal(err)
	}
	p := &tokenProxy{answers: map[string][]int{podfitsToken: nil, filesToken: nil, upstreamsToken: nil}}
	through := &httputil.ReverseProxy{Transport: pr.client.Transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.SetBasicAuth("podfit", "history")
		r.Out.Header.Set("Accept-Encoding", "identity") // to measure the uncompressed length
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if _, known := p.answers[token]; !ok || !known {
			http.Error(w, "missing or unknown bearer token", http.StatusUnauthorized)
			return
		}
		counted := &countedAnswer{ResponseWriter: w}
		through.ServeHTTP(counted, r)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.answers[token] = append(p.answers[token], counted.n)
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// A countedAnswer counts the bytes of a response.
type countedAnswer struct {
	http.ResponseWriter
	n int
}

// Write implements http.ResponseWriter.
func (c *countedAnswer) Write(b []byte) (int, error) {
	c.n += len(b)
	return c.ResponseWriter.Write(b)
}

// checkResponseSizes checks that podfit requests the history in small parts.
func (p *tokenProxy) checkResponseSizes(t *testing.T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	longest := map[string]int{}
	for token, lengths := range p.answers {
		if len(lengths) == 0 {
			t.Errorf("%s was never used", token)
			return
		}
		longest[token] = slices.Max(lengths)
	}
	total := 0
	for _, n := range p.answers[podfitsToken] {
		total += n
	}
	t.Logf("podfit received %d KiB in %d responses of at most %d KiB; upstream's largest has %d KiB",
		total>>10, len(p.answers[podfitsToken]), longest[podfitsToken]>>10, longest[upstreamsToken]>>10)
	if longest[podfitsToken] > total/8 {
		t.Errorf("the largest response to podfit has %d of %d bytes", longest[podfitsToken], total)
	}
}
