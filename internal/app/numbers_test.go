// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/test/kubetest"
)

// A lockedBuffer is written by a command while the test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var pageAddress = regexp.MustCompile(`http://127\.0\.0\.1:\d+/`)

// servePage runs "podfit web" for an API server, and returns the address of the page.
func servePage(t *testing.T, server string, flags ...string) string {
	t.Helper()
	log := new(lockedBuffer)
	root := Root(Streams{Out: io.Discard, Err: log})
	root.SetArgs(append([]string{"web", "--web-address=127.0.0.1:0", "--kubeconfig=" + kubetest.Kubeconfig(t, server)}, flags...))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	address := ""
	kubetest.Eventually(t, "the page is served", func() bool {
		_, after, served := strings.Cut(log.String(), "Serving the web page")
		address = pageAddress.FindString(after)
		return served && address != ""
	})
	return address
}

// readPage returns the body of a page, for the holder of a token if one is given.
func readPage(t *testing.T, url string, token ...string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.Join(token, ""))
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A sizedPod is a pod of a Deployment with one container.
type sizedPod struct{ cpu, memory string }

// applySized creates a Deployment with pods, and its VPA with a target unless cpu is "".
func applySized(f *kubetest.FakeAPI, name, cpu, memory string, pods ...sizedPod) {
	f.Apply(deployments, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"spec":{"replicas":%d}}`, name, len(pods)))
	f.Apply(replicaSets, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"%[1]s-7d9f","ownerReferences":[
		{"apiVersion":"apps/v1","kind":"Deployment","name":%[1]q,"uid":"d","controller":true}]},"spec":{"replicas":%[2]d}}`, name, len(pods)))
	for i, p := range pods {
		f.Apply(podsPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"%[1]s-7d9f-%[2]d","uid":"u-%[1]s-%[2]d","creationTimestamp":"2026-11-0%[3]dT00:00:00Z","ownerReferences":[
			{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"%[1]s-7d9f","uid":"r","controller":true}]},
			"spec":{"nodeName":"n1","containers":[{"name":"app","resources":{"requests":{"cpu":%[4]q,"memory":%[5]q}}}]},"status":{"phase":"Running"}}`, name, i, i+1, p.cpu, p.memory))
	}
	if cpu == "" {
		return
	}
	f.Apply(vpasPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%[1]q,"uid":"v-%[1]s","creationTimestamp":"2026-10-01T00:00:00Z"},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":%[1]q}},
		"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":%[2]q,"memory":%[3]q},
		"lowerBound":{"cpu":%[2]q,"memory":%[3]q},"upperBound":{"cpu":%[2]q,"memory":%[3]q}}]}}}`, name, cpu, memory))
}

// milli and bytesOf parse a quantity; "" is 0.
func milli(t *testing.T, text string) int64   { return parsed(t, text).MilliValue() }
func bytesOf(t *testing.T, text string) int64 { return parsed(t, text).Value() }

func parsed(t *testing.T, text string) *resource.Quantity {
	t.Helper()
	if text == "" {
		text = "0"
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		t.Fatal(err)
	}
	return &q
}

// An amountPair is CPU in millicores and memory in bytes.
type amountPair struct{ CPU, Memory int64 }

// The numbers of the page are those of "podfit recommend --source cluster": the targets, the requests that could be freed, of each workload
// and of the cluster, and the memory in manifests, which is in whole MiB.
func TestPage_sameCluster_numbersEqualThoseOfRecommend(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyNode("n1", "64", "256Gi")
	applySized(f, "rises", "633m", "1341234567", sizedPod{"500m", "1Gi"}, sizedPod{"500m", "1Gi"})
	applySized(f, "falls", "650m", "2123456789", sizedPod{"3", "8Gi"}, sizedPod{"3", "8Gi"}, sizedPod{"3", "8Gi"})
	applySized(f, "half-done", "2", "2123456789", sizedPod{"3", "8Gi"}, sizedPod{"1", "1Gi"})
	applySized(f, "one-each-way", "200m", "3Gi", sizedPod{"1", "1Gi"})
	applySized(f, "scaled", "100m", "300Mi", sizedPod{"1", "1Gi"}, sizedPod{"500m", "1Gi"})
	f.Apply(hpasPath, `{"metadata":{"namespace":"shop","name":"scaled"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"scaled"},"maxReplicas":9,
		"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}`)
	applySized(f, "without-vpa", "", "", sizedPod{"1", "1Gi"})

	var out, errs bytes.Buffer
	if code := Main(t.Context(), []string{"podfit", "recommend", "--kubeconfig", kubetest.Kubeconfig(t, f.URL()), "--source", "cluster", "-o", "json"}, Streams{Out: &out, Err: &errs}); code != 0 {
		t.Fatalf("got exit code %d and error %s", code, errs.String())
	}
	type quantities struct{ CPU, Memory string }
	var report struct {
		Summary    struct{ RequestsFreed quantities }
		Containers []struct {
			Name, Confidence string
			RequestsFreed    quantities
			CPU, Memory      struct{ Target, NewRequest, Kept string }
		}
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}

	root := servePage(t, f.URL())
	var page struct{ RequestsFreed quantities }
	kubetest.Eventually(t, "the page has read the cluster", func() bool {
		text := readPage(t, root)
		return strings.Contains(text, "Could be given back") && !strings.Contains(text, "still reading the cluster")
	})
	if err := json.Unmarshal([]byte(readPage(t, root+"?format=json")), &page); err != nil {
		t.Fatal(err)
	}
	pairOf := func(q quantities) amountPair { return amountPair{milli(t, q.CPU), bytesOf(t, q.Memory)} }
	total := amountPair{milli(t, report.Summary.RequestsFreed.CPU), bytesOf(t, report.Summary.RequestsFreed.Memory)}
	if pairOf(page.RequestsFreed) != total {
		t.Errorf("could be freed: the page has %+v, the report %+v", page.RequestsFreed, total)
	}
	compared := 0
	for i := range report.Containers {
		c := &report.Containers[i]
		var w struct {
			RequestsFreed quantities
			Containers    []struct {
				CPU, Memory struct{ Target, Kept string }
			}
			Patch string
		}
		if err := json.Unmarshal([]byte(readPage(t, root+"workloads/shop/Deployment/"+c.Name+"?format=json")), &w); err != nil {
			t.Fatal(err)
		}
		if c.Confidence == "none" {
			if c.Name != "without-vpa" {
				t.Errorf("%s has no recommendation in the report", c.Name)
			}
			continue
		}
		compared++
		target := amountPair{milli(t, c.CPU.Target), bytesOf(t, c.Memory.Target)}
		freed := amountPair{max(0, milli(t, c.RequestsFreed.CPU)), max(0, bytesOf(t, c.RequestsFreed.Memory))}
		shown := &w.Containers[0]
		if pairOf(quantities{shown.CPU.Target, shown.Memory.Target}) != target || pairOf(w.RequestsFreed) != freed {
			t.Errorf("%s: the page has %+v, the report the target %+v and %+v", c.Name, w, target, freed)
		}
		if shown.CPU.Kept != c.CPU.Kept {
			t.Errorf("%s: the page keeps %q, the report %q", c.Name, shown.CPU.Kept, c.CPU.Kept)
		}
		if !strings.Contains(w.Patch, "memory: "+c.Memory.NewRequest+"\n") {
			t.Errorf("%s: the patch of the page is %s, the report requests %s", c.Name, w.Patch, c.Memory.NewRequest)
		}
	}
	if compared != 5 || total.CPU == 0 || total.Memory == 0 {
		t.Errorf("%d workloads were compared, %+v could be freed", compared, total)
	}
}
