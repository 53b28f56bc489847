// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/guard"
)

// summaryOf is what a kubelet of Kubernetes 1.36 serves, with some memory statistics.
func summaryOf(memory string) string {
	return `{"node": {"nodeName": "n1", "systemContainers": [{"name": "kubelet", "startTime": "2026-03-01T10:00:00Z", "cpu": {"time": "2026-03-01T11:59:50Z", "psi": {"full": {"total": 1, "avg60": 7}}},
  "memory": {"time": "2026-03-01T11:59:51Z", "psi": {"full": {"total": 1, "avg10": 3, "avg60": 4, "avg300": 5}}}}], "startTime": "2026-03-01T09:00:00Z",
  "cpu": {"time": "2026-03-01T11:59:52Z", "psi": {"full": {"total": 1, "avg60": 8}}}, "memory": ` + memory + `, "swap": {"time": "2026-03-01T11:59:52Z"}},
 "pods": [{"podRef": {"name": "web-0", "namespace": "shop", "uid": "1"}, "containers": []}]}`
}

func memoryOf(full string) string {
	return `{"time": "2026-03-01T11:59:52Z", "workingSetBytes": 5, "psi": {"full": ` + full + `, "some": {"total": 9, "avg10": 90, "avg60": 91, "avg300": 92}}}`
}

func readPressure(ctx context.Context, t *testing.T, address string, cfg *rest.Config) (guard.Pressure, bool, error) {
	t.Helper()
	c, err := New(cfg, false)
	if err != nil {
		t.Fatal(err)
	}
	known, err := c.Pressures(ctx, []cluster.Node{{Name: "n1", Kubelet: address}})
	p, reported := known["n1"]
	return p, reported, err
}

func TestPressure_kubelet_reportsThatOfTheNode(t *testing.T) {
	at := time.Date(2026, time.March, 1, 11, 59, 52, 0, time.UTC)
	for name, c := range map[string]struct {
		memory   string
		want     guard.Pressure
		reported bool
	}{
		"pressure":                  {memoryOf(`{"total": 123456, "avg10": 20, "avg60": 12.5, "avg300": 3}`), guard.Pressure{At: at, Share: 0.125}, true},
		"none now":                  {memoryOf(`{"total": 123456, "avg10": 0, "avg60": 0, "avg300": 0}`), guard.Pressure{At: at}, true},
		"before Kubernetes 1.33":    {`{"time": "2026-03-01T11:59:52Z", "workingSetBytes": 5}`, guard.Pressure{At: at}, false},
		"kernel without PSI":        {memoryOf(`{"total": 0, "avg10": 0, "avg60": 0, "avg300": 0}`), guard.Pressure{At: at}, false},
		"empty":                     {`{}`, guard.Pressure{}, false},
		"nothing":                   {`null`, guard.Pressure{}, false},
		"no time":                   {`{"time": null, "psi": {"full": {"total": 1, "avg60": 50}}}`, guard.Pressure{Share: 0.5}, true}, // package guard does not count it
		"total below zero":          {memoryOf(`{"total": -1, "avg60": 50}`), guard.Pressure{}, false},
		"only a total":              {memoryOf(`{"total": 5}`), guard.Pressure{At: at}, true},
		"pressure without its past": {memoryOf(`{"avg60": 50}`), guard.Pressure{At: at, Share: 0.5}, false},
	} {
		address, cfg := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.String() != "/stats/summary?only_cpu_and_memory=true" || r.Header.Get("Authorization") != "Bearer secret" {
				t.Errorf("request %s with %q", r.URL, r.Header)
			}
			_, _ = io.WriteString(w, summaryOf(c.memory))
		})
		if got, reported, err := readPressure(t.Context(), t, address, cfg); err != nil || reported != c.reported || reported && (!got.At.Equal(c.want.At) || got.Share != c.want.Share) {
			t.Errorf("%s: %+v, reported %v, error %v; want %+v, %v", name, got, reported, err, c.want, c.reported)
		}
	}
}

// What follows the node, such as the pods, is not read.
func TestPressure_manyPods_areNotRead(t *testing.T) {
	written := make(chan int, 1)
	address, cfg := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		head, _, _ := strings.Cut(summaryOf(memoryOf(`{"total": 1, "avg60": 12}`)), `[{"podRef"`)
		n, _ := io.WriteString(w, head+"[")
		pod := []byte(strings.Repeat(`{"podRef": {}},`, 1000))
		for range 10_000 { // 150 MB
			more, err := w.Write(pod)
			n += more
			if err != nil {
				break
			}
		}
		written <- n
	})
	if p, reported, err := readPressure(t.Context(), t, address, cfg); err != nil || !reported || p.Share != 0.12 {
		t.Errorf("%+v, reported %v, error %v", p, reported, err)
	}
	if n := <-written; n > 32<<20 {
		t.Errorf("the kubelet could write %d bytes", n)
	}
}

func TestPressure_kubeletRefusesOrAnswerIsHostile_isAnError(t *testing.T) {
	for want, answers := range map[string][]string{
		"memory pressure must be between 0 and 100 %, got": {
			summaryOf(memoryOf(`{"total": 1, "avg60": -1}`)), summaryOf(memoryOf(`{"total": 1, "avg60": 1e308}`)), summaryOf(memoryOf(`{"total": 1, "avg60": 100.01}`)),
		},
		"read the summary of node n1": {
			summaryOf(memoryOf(`{"total": 1, "avg60": NaN}`)), summaryOf(memoryOf(`{"total": 1, "avg60": 1e999}`)),
			summaryOf(memoryOf(`{"total": 1, "avg60": "12"}`)), summaryOf(`{"time": "yesterday"}`), summaryOf(`[]`), summaryOf(strings.Repeat(`{"a":`, 20_000)),
			summaryOf(strings.Repeat("[", 20_000)), `{"node": {"memory": `, `{"node": "` + strings.Repeat("x", maxNode) + `"}`, strings.Repeat(" ", maxNode+1), "", "no JSON",
			`{"` + strings.Repeat("x", maxNode) + `": 1}`,
		},
		"the summary of the kubelet must begin with the field node": {
			`{}`, `[]`, `null`, `{"pods": []}`, `{"Node": {}}`, strings.Repeat("[", maxNode), `"node"`,
		},
	} {
		for _, answer := range answers {
			address, cfg := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
			if p, reported, err := readPressure(t.Context(), t, address, cfg); err == nil || !strings.Contains(err.Error(), want) || reported || p != (guard.Pressure{}) {
				t.Errorf("%.80q: %+v, reported %v, error %v, want %q", answer, p, reported, err, want)
			}
		}
	}
	for status, text := range map[int]string{http.StatusForbidden: "403 Forbidden", http.StatusUnauthorized: "401 Unauthorized", http.StatusNotFound: "404 Not Found", http.StatusTemporaryRedirect: "307 Temporary Redirect"} {
		address, cfg := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://127.0.0.1:1/")
			w.WriteHeader(status)
		})
		if _, reported, err := readPressure(t.Context(), t, address, cfg); err == nil || reported || !strings.Contains(err.Error(), text) {
			t.Errorf("%d: reported %v, error %v", status, reported, err)
		}
	}
}

// The time for a node bounds also a body that never ends.
func TestPressure_kubeletIsSlow_endsWithTheContext(t *testing.T) {
	address, cfg := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"node": {`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, reported, err := readPressure(ctx, t, address, cfg); err == nil || reported {
		t.Errorf("reported %v, error %v", reported, err)
	}
}

// One of many nodes that fails or hangs does not keep the others from being read.
func TestPressures_manyNodes_areReadAtTheSameTime(t *testing.T) {
	var open, most atomic.Int32
	address, cfg := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for now := open.Add(1); ; {
			if old := most.Load(); now <= old || most.CompareAndSwap(old, now) {
				break
			}
		}
		for most.Load() < 18 && r.Context().Err() == nil {
			runtime.Gosched()
		}
		_, _ = io.WriteString(w, summaryOf(memoryOf(`{"total": 1, "avg60": 12}`)))
	})
	hangs, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c, err := New(cfg, true)
	if err != nil {
		t.Fatal(err)
	}
	nodes := []cluster.Node{{Name: "hangs", Kubelet: hangs}, {Name: "no kubelet", Kubelet: "127.0.0.1:1"}}
	for i := range 18 {
		nodes = append(nodes, cluster.Node{Name: fmt.Sprint("n", i), Kubelet: address})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	known, err := c.Pressures(ctx, nodes)
	if len(known) != 18 || known["n3"].Share != 0.12 || err == nil || most.Load() != 18 {
		t.Errorf("%d nodes are read, %d at the same time, error %v", len(known), most.Load(), err)
	}
}

func FuzzPressure(f *testing.F) {
	for _, memory := range []string{memoryOf(`{"total": 1, "avg60": 12.5}`), `{}`, `null`} {
		f.Add([]byte(summaryOf(memory)))
	}
	f.Add([]byte("{" + strings.Repeat(`"node":{`, 100)))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, reported, err := pressureIn(bytes.NewReader(data))
		if !(p.Share >= 0 && p.Share <= 1) || err != nil && reported {
			t.Errorf("%+v, reported %v, error %v", p, reported, err)
		}
	})
}
