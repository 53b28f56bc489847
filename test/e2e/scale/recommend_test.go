// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/kubetest"
)

const (
	pods = 3 // of each workload
	days = 14

	ahead = 3 * time.Hour // samples exist until then, because writing them takes minutes
)

// The size of the cluster. With samples every 30 seconds the blocks of 5,000 workloads have 4 GB.
var (
	workloadCount  = flag.Int("workloads", 5000, "number of workloads")
	sampleInterval = flag.Duration("interval", 5*time.Minute, "time between two samples of Prometheus")
)

// BenchmarkRecommend_prometheusWith5000Workloads runs the binary against a simulated API server with 5,000 Deployments, 15,000 pods and 22,500
// containers, and a real Prometheus with 14 days of their usage, one sample in five minutes: without a cache, and with one. The flags -workloads
// and -interval of the test select another size. It fails beyond the budget of 5,000 workloads, and reports the time, the peak memory of the
// process, and the queries and samples that Prometheus counts. The time depends on what else the machine does, so it also reports the processor
// time of podfit and of Prometheus.
//
// The blocks of Prometheus are written by test/tsdb, which takes minutes. TSDB_BLOCKS is a folder with blocks that were written before.
func BenchmarkRecommend_prometheusWith5000Workloads(b *testing.B) {
	root, err := bed.Root()
	if err != nil {
		b.Fatal(err)
	}
	binary := filepath.Join(b.TempDir(), "podfit")
	build := exec.CommandContext(b.Context(), "go", "build", "-buildvcs=false", "-trimpath", "-o", binary, ".")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build podfit: %v: %s", err, out)
	}
	url := prometheus(b, root)
	config := cluster(b)
	for _, load := range []string{"gentle", "normal"} {
		b.Run(load, func(b *testing.B) {
			for b.Loop() {
				cache := b.TempDir()
				measured(b, "cold", binary, url, cache, "--kubeconfig="+config, "--prometheus="+url, "--load="+load, "-o=json", "--quiet")
				measured(b, "cached", binary, url, cache, "--kubeconfig="+config, "--prometheus="+url, "--load="+load, "-o=json", "--quiet")
			}
		})
	}
}

// measured runs podfit recommend and reports what it needs.
func measured(b *testing.B, name, binary, url, cache string, args ...string) {
	b.Helper()
	before := counters(b, url)
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(b.Context(), binary, append([]string{"recommend"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
	start := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s: %v: %s", name, err, errs.String())
	}
	took := time.Since(start)
	var report struct {
		Complete   bool
		Containers []struct{ Confidence string }
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		b.Fatal(err)
	}
	without := slices.ContainsFunc(report.Containers, func(c struct{ Confidence string }) bool { return c.Confidence != "high" })
	if want := *workloadCount * 3 / 2; len(report.Containers) != want || !report.Complete || without {
		b.Errorf("%s: %d containers, want %d, complete: %v, all with high confidence: %v", name, len(report.Containers), want, report.Complete, !without)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		b.Fatal("the system reports no peak memory")
	}
	if took > budget[name] {
		b.Errorf("%s: it took %v, want at most %v", name, took, budget[name])
	}
	if usage.Maxrss*1024 > mostResident {
		b.Errorf("%s: podfit had %d MB, want at most %d", name, usage.Maxrss*1024/1_000_000, mostResident/1_000_000)
	}
	after := counters(b, url)
	b.ReportMetric(took.Seconds(), name+"-s")
	b.ReportMetric((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), name+"-cpu-s")
	b.ReportMetric(float64(usage.Maxrss)/1024, name+"-peak-MiB")
	b.ReportMetric(after.cpu-before.cpu, name+"-prometheus-cpu-s")
	b.ReportMetric(after.queries-before.queries, name+"-queries")
	b.ReportMetric((after.samples-before.samples)/1e6, name+"-Msamples")
}

// The budget of 5,000 workloads: the time without a cache and with one, and the resident memory of podfit.
var budget = map[string]time.Duration{"cold": 4 * time.Minute, "cached": 20 * time.Second}

const mostResident = 300_000_000

// A count is what Prometheus counts.
type count struct{ queries, samples, cpu float64 }

// counters reads the metrics of Prometheus.
func counters(b *testing.B, url string) (out count) {
	b.Helper()
	a, err := http.Get(url + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer a.Body.Close()
	lines := bufio.NewScanner(a.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		v, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case strings.HasPrefix(name, "prometheus_http_requests_total{") && strings.Contains(name, `"/api/v1/query`):
			out.queries += v
		case name == "prometheus_engine_query_samples_total":
			out.samples = v
		case name == "process_cpu_seconds_total":
			out.cpu = v
		}
	}
	return out
}

// prometheus starts a Prometheus with the usage of all workloads and returns its URL.
func prometheus(b *testing.B, root string) string {
	b.Helper()
	dir := b.TempDir()
	blocks := os.Getenv("TSDB_BLOCKS")
	if blocks == "" {
		blocks = filepath.Join(dir, "data")
		write := exec.CommandContext(b.Context(), "go", "run", ".", "-dir="+blocks, fmt.Sprintf("-workloads=%d", *workloadCount), fmt.Sprintf("-days=%d", days+1),
			"-interval="+sampleInterval.String(), fmt.Sprintf("-end=%d", time.Now().Add(ahead).Unix()))
		write.Dir = filepath.Join(root, "test", "tsdb")
		if out, err := write.CombinedOutput(); err != nil {
			b.Fatalf("write the blocks of Prometheus: %v: %s", err, out)
		}
	}
	build := exec.CommandContext(b.Context(), "go", "run", "./cmd/localcluster", "build", "--prometheus")
	build.Dir = filepath.Join(root, "localcluster")
	out, err := build.Output()
	if err != nil {
		b.Fatalf("build Prometheus: %v", err)
	}
	built := strings.Fields(string(out))
	path := built[slices.IndexFunc(built, func(s string) bool { return strings.HasPrefix(filepath.Base(s), "prometheus-") })]
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yaml"), nil, 0o600); err != nil {
		b.Fatal(err)
	}
	port, err := bed.FreePort()
	if err != nil {
		b.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	process, err := bed.Start(bed.Command{
		Name: "prometheus", Path: path, Dir: dir, Log: filepath.Join(dir, "prometheus.log"),
		Args: []string{
			"--config.file=prometheus.yaml", "--storage.tsdb.path=" + blocks, "--web.listen-address=" + address, "--log.level=warn",
			"--storage.tsdb.retention.time=1y", "--storage.tsdb.min-block-duration=1d", "--storage.tsdb.max-block-duration=1d",
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := process.Stop(); err != nil {
			b.Error(err)
		}
	})
	url := "http://" + address
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		a, err := http.Get(url + "/-/ready")
		if err == nil {
			a.Body.Close()
			if a.StatusCode == http.StatusOK {
				return url
			}
		}
		if time.Now().After(deadline) || !process.Running() {
			b.Fatalf("Prometheus is not ready: %v\n%s", err, process.Tail(20))
		}
	}
}

// cluster starts a simulated API server with the workloads that test/tsdb writes, and returns the path of a kubeconfig.
func cluster(b *testing.B) string {
	b.Helper()
	f := kubetest.NewFakeAPI(b)
	f.Apply("/api/v1/namespaces", `{"metadata":{"name":"kube-system","uid":"6f4c1c1e-0000-4000-8000-000000000001"}}`) // names the cache
	for i := range *workloadCount / 5 {
		f.Apply("/api/v1/nodes", fmt.Sprintf(`{"metadata":{"name":"node-%d"},"status":{"allocatable":{"cpu":"32","memory":"128Gi"},"conditions":[{"type":"Ready","status":"True"}]}}`, i))
	}
	for i := range *workloadCount {
		namespace, name := fmt.Sprintf("team-%d", i%50), fmt.Sprintf("w%d", i)
		containers := `{"name":"app","image":"x","resources":{"requests":{"cpu":"1","memory":"2Gi"}}}`
		if i%2 == 1 {
			containers += `,{"name":"proxy","image":"x","resources":{"requests":{"cpu":"100m","memory":"128Mi"}}}`
		}
		f.Apply("/apis/apps/v1/deployments", fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q},"spec":{"replicas":%d,"template":{"spec":{"containers":[%s]}}}}`, namespace, name, pods, containers))
		set := name + "-7d4b9c6f5d"
		f.Apply(kubetest.ReplicaSetsPath, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":%q,"uid":"u","controller":true}]},"spec":{"replicas":%d}}`,
			namespace, set, name, pods))
		for k := range pods {
			pod := fmt.Sprintf("%s-x2k9%c", set, "bcd"[k])
			f.Apply(kubetest.PodsPath, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":%q,"creationTimestamp":"2026-01-01T00:00:00Z","ownerReferences":[
				{"apiVersion":"apps/v1","kind":"ReplicaSet","name":%q,"uid":"u","controller":true}]},"spec":{"nodeName":"node-%d","containers":[%s]},"status":{"phase":"Running"}}`,
				namespace, pod, pod, set, (3*i+k)%(*workloadCount/5), containers))
		}
	}
	return kubetest.Context{Name: "large"}.Kubeconfig(b, f.URL())
}
