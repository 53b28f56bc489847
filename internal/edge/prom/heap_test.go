// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"podfit.dev/podfit/internal/core/runtimeguard"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// heapPart is one series of the answer about a heap.
func heapPart(part, value string) any {
	return map[string]any{"metric": map[string]string{partLabel: part}, "value": []any{1, value}}
}

func TestHeapUsage_allParts_areReadWithOneQuery(t *testing.T) {
	var queries []string
	c := serve(t, func(_ *http.Request, query string) (string, any) {
		queries = append(queries, query)
		return "vector", []any{
			heapPart("hours", "30"), heapPart("collected", "100"), heapPart("collections", "3"), heapPart("lowest", "140"), heapPart("ceiling", "1000"),
			heapPart("nonheap", "90"), heapPart("beside", "150"), heapPart("gc", "0.02"), heapPart("unknown", "7"),
		}
	})
	got, err := c.HeapUsage(t.Context(), HeapQuery{Namespace: "shop", Pods: []string{"cart-0"}, Container: "app"}, time.Now())
	want := runtimeguard.HeapUsage{Hours: 30, Collected: 100, Collections: 3, Lowest: 140, Ceiling: 1000, NonHeap: 90, Beside: 150, GCShare: 0.02}
	if diff := cmp.Diff(want, got); err != nil || len(queries) != 1 || diff != "" {
		t.Errorf("%d queries, error %v (-want +got):\n%s", len(queries), err, diff)
	}
}

func TestHeapUsage_someParts_othersAreNotANumber(t *testing.T) {
	c := serve(t, func(*http.Request, string) (string, any) {
		return "vector", []any{heapPart("hours", "30"), heapPart("gc", "NaN")}
	})
	nan := math.NaN()
	got, err := c.HeapUsage(t.Context(), HeapQuery{Namespace: "shop", Pods: []string{"cart-0"}, Container: "app"}, time.Now())
	want := runtimeguard.HeapUsage{Hours: 30, Collected: nan, Collections: nan, Lowest: nan, Ceiling: nan, NonHeap: nan, Beside: nan, GCShare: nan}
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	wrong := serve(t, func(*http.Request, string) (string, any) { return "scalar", []any{1, "7"} })
	_, err = wrong.HeapUsage(t.Context(), HeapQuery{Namespace: "shop", Container: "app"}, time.Now())
	if err == nil || !strings.Contains(err.Error(), "read the heap of container app in namespace shop: ") {
		t.Errorf("error %v", err)
	}
}

// The module test/monitoring evaluates the golden query with the code of Prometheus.
func TestHeapQuery_container_isTheGoldenQuery(t *testing.T) {
	c := &Client{config: Config{NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container"}}
	got := c.heapQuery(HeapQuery{Namespace: "shop", Pods: []string{"cart-0", "cart.1"}, Container: "app", Only: true, Matchers: []string{`cluster="prod"`}})
	const path = "testdata/heap.promql"
	if *update {
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(got, " or label_replace", " or\nlabel_replace")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Join(strings.Fields(string(want)), " "), got); diff != "" {
		t.Errorf("the query is not that of %s (-update) (-want +got):\n%s", path, diff)
	}
}

func TestHeapQuery_manyPodsAndSeveralJVMs_isBoundedAndExact(t *testing.T) {
	q := HeapQuery{Namespace: "shop", Container: "app"}
	for i := range 100 {
		q.Pods = append(q.Pods, fmt.Sprintf("cart-%d", i))
	}
	got := new(Client).heapQuery(q)
	if strings.Contains(got, "cart-20") || !strings.Contains(got, "cart-19") || strings.Contains(got, `"|app"`) {
		t.Errorf("query %s", got)
	}
}
