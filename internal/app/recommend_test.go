// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/test/kubetest"
)

// A recorded is a Prometheus with usage of pods. It records the samples that it serves.
type recorded struct {
	mu      sync.Mutex
	pods    []string // "workload pod"
	samples map[string][]servedSample
}

type servedSample struct {
	at    int64
	pod   string
	isCPU bool
	value float64
}

// usageAt returns irregular usage: CPU in whole millicores plus a part of one, memory in bytes.
func usageAt(pod string, at int64, isCPU bool) float64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(fmt.Sprint(pod, at/3600, isCPU)) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	noise := float64(h%1000) / 1000
	if isCPU {
		return float64(100+int(400*noise))/1000 + 0.0004
	}
	return float64(int64(2e8 + 3e8*noise))
}

func (p *recorded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	w.Header().Set("Content-Type", "application/json")
	if !strings.HasSuffix(r.URL.Path, "query_range") {
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
		return
	}
	number := func(name string) int64 {
		v, _ := strconv.ParseFloat(r.Form.Get(name), 64)
		return int64(v)
	}
	isCPU := strings.Contains(r.Form.Get("query"), "cpu")
	p.mu.Lock()
	defer p.mu.Unlock()
	var result []any
	for _, name := range p.pods {
		workload, pod, _ := strings.Cut(name, " ")
		var values []any
		// A trace has CPU and memory of the same time in one sample, a Prometheus in two. So memory is measured at another time.
		start := number("start")
		if !isCPU {
			start += 60
		}
		for at := start; at <= number("end"); at += number("step") {
			v := usageAt(pod, at, isCPU)
			values = append(values, []any{at, strconv.FormatFloat(v, 'f', -1, 64)})
			p.samples[workload] = append(p.samples[workload], servedSample{at, pod, isCPU, v})
		}
		result = append(result, map[string]any{"metric": map[string]string{"namespace": "shop", "pod_name": pod, "name": "app", "pod": pod, "container": "app"}, "values": values})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": result}})
}

// trace writes the samples of a workload as a trace.
func (p *recorded) trace(t *testing.T, workload string) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	type key struct {
		at  int64
		pod string
	}
	rows := map[key][2]string{}
	for _, s := range p.samples[workload] {
		k := key{s.at, s.pod}
		row := rows[k]
		if s.isCPU {
			row[0] = strconv.FormatFloat(float64(int(s.value*1000))/1000, 'f', -1, 64) // the reader cuts off parts of a millicore
		} else {
			row[1] = strconv.FormatFloat(s.value, 'f', -1, 64)
		}
		rows[k] = row
	}
	keys := slices.SortedFunc(maps.Keys(rows), func(a, b key) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.pod, b.pod)) })
	var b strings.Builder
	b.WriteString("time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n")
	first := keys[0].at // the recommender omits the samples of this second, because its history starts within it
	for _, k := range keys {
		if k.at == first {
			continue
		}
		fmt.Fprintf(&b, "%d,shop,Deployment,%s,%s,app,%s,%s\n", k.at, workload, k.pod, rows[k][0], rows[k][1])
	}
	path := filepath.Join(t.TempDir(), workload+".csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// target is the recommendation for a container, in millicores and bytes.
type target struct{ cpu, memory int64 }

func quantities(t *testing.T, cpu, memory string) target {
	t.Helper()
	c, err := resource.ParseQuantity(cpu)
	if err != nil {
		t.Fatalf("cpu %q: %v", cpu, err)
	}
	m, err := resource.ParseQuantity(memory)
	if err != nil {
		t.Fatalf("memory %q: %v", memory, err)
	}
	return target{c.MilliValue(), m.Value()}
}

// recommended runs podfit recommend and returns the recommendation for each workload.
func recommended(t *testing.T, args ...string) map[string]target {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Main(t.Context(), append([]string{"podfit", "recommend", "-o", "json"}, args...), process.Streams{Out: &out, Err: &errs}); code != 0 {
		t.Fatalf("podfit recommend %v: got exit code %d and error %s", args, code, errs.String())
	}
	var report struct {
		Containers []struct {
			Name        string
			Confidence  string
			CPU, Memory struct{ Target string }
		}
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	got := map[string]target{}
	for _, c := range report.Containers {
		if c.Confidence != "none" {
			got[c.Name] = quantities(t, c.CPU.Target, c.Memory.Target)
		}
	}
	return got
}

// inStatus returns the recommendation in the status of a VPA.
func inStatus(t *testing.T, f *kubetest.FakeAPI, name string) (target, bool) {
	t.Helper()
	data, err := json.Marshal(f.Object(kubetest.AutoscalersPath, "shop/"+name))
	if err != nil {
		t.Fatal(err)
	}
	var vpa struct {
		Status struct {
			Recommendation struct {
				ContainerRecommendations []struct{ Target struct{ CPU, Memory string } }
			}
		}
	}
	if err := json.Unmarshal(data, &vpa); err != nil {
		t.Fatal(err)
	}
	all := vpa.Status.Recommendation.ContainerRecommendations
	if len(all) == 0 {
		return target{}, false
	}
	return quantities(t, all[0].Target.CPU, all[0].Target.Memory), true
}

// From the same samples, podfit recommend gives for every profile what the recommender writes.
func TestRecommend_sameSamples_equalWhatTheRecommenderWrites(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET /apis/metrics.k8s.io/v1beta1/pods", http.StatusOK, `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[]}`)
	prometheus := &recorded{samples: map[string][]servedSample{}}
	var names []string
	for _, p := range recommend.Builtins() {
		name := p.Name
		names = append(names, name)
		set := name + "-7d4b9c6f5d"
		f.Apply("/apis/apps/v1/deployments", fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"spec":{"replicas":2}}`, name))
		f.Apply(kubetest.ReplicaSetsPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"ownerReferences":[
			{"apiVersion":"apps/v1","kind":"Deployment","name":%q,"uid":"u","controller":true}]},"spec":{"replicas":2}}`, set, name))
		for _, suffix := range []string{"x2k9b", "x2k9c"} {
			f.ApplyPod("shop", set+"-"+suffix, "ReplicaSet", set)
			prometheus.pods = append(prometheus.pods, name+" "+set+"-"+suffix)
		}
		f.Apply(kubetest.AutoscalersPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":%q,"creationTimestamp":"2026-01-01T00:00:00Z"},
			"spec":{"recommenders":[{"name":%q}],"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":%q}}}`, name, "v-"+name, name, name))
	}
	server := httptest.NewServer(prometheus)
	defer server.Close()
	kubeconfig := kubetest.Kubeconfig(t, f.URL())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	var log bytes.Buffer
	go func() {
		ended <- Main(ctx, []string{
			"podfit", "recommender", "--kubeconfig", kubeconfig, "--address", "127.0.0.1:0", "--recommender-interval", "200ms", "--storage", "prometheus",
			"--prometheus-address", server.URL, "--history-length", "8d", "--history-resolution", "1h",
		}, process.Streams{Out: &log, Err: &log})
	}()
	written := map[string]target{}
	kubetest.Eventually(t, "all VPAs have a recommendation", func() bool {
		for _, name := range names {
			if got, ok := inStatus(t, f, name); ok {
				written[name] = got
			}
		}
		return len(written) == len(names)
	})
	cancel()
	if code := <-ended; code != 0 {
		t.Fatalf("the recommender ended with exit code %d:\n%s", code, log.String())
	}

	for _, name := range names {
		got := recommended(t, "--trace", prometheus.trace(t, name), "--profile", name)
		if got[name] != written[name] {
			t.Errorf("profile %s: got %+v, the recommender wrote %+v", name, got[name], written[name])
		}
	}
	stored := recommended(t, "--kubeconfig", kubeconfig, "--source", "cluster", "-n", "shop")
	for _, name := range names {
		if stored[name] != written[name] {
			t.Errorf("source cluster, profile %s: got %+v, the recommender wrote %+v", name, stored[name], written[name])
		}
	}
}
