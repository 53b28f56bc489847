// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"maps"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"
)

// sawtooth are the values of 36 hours, one every 5 minutes, of a heap that grows from low to high between two collections.
func sawtooth(low, high int) string {
	return strings.Repeat(fmt.Sprintf("%d+%dx5 ", low, (high-low)/5), 12*36/6)
}

func always(v string) string { return v + "x432" }

// Micrometer has a series for each pool of the heap, and client_java and the JMX exporter one for the heap. The query of podfit explain gives
// the same for both. Other pods, namespaces and clusters do not count, and the series of two scrapers count once.
func TestHeapQuery_namesOfTheExporters_giveTheSameValues(t *testing.T) {
	query, err := os.ReadFile(root + "/internal/edge/prom/testdata/heap.promql")
	if err != nil {
		t.Fatal(err)
	}
	const of = `namespace="shop",pod="cart-0",container="app",cluster="prod"`
	common := []series{
		{`container_memory_working_set_bytes{` + of + `,id="a"}`, always("700")},
		{`container_memory_working_set_bytes{namespace="shop",pod="cart-0",container="proxy",cluster="prod"}`, always("9000")},
		{`jvm_memory_used_bytes{` + of + `,area="nonheap",id="Metaspace"}`, always("60")},
		{`jvm_memory_used_bytes{` + of + `,area="nonheap",id="CodeCache"}`, always("20")},
		{`jvm_memory_used_bytes{namespace="shop",pod="other-0",container="app",cluster="prod",area="heap",id="G1 Old Gen"}`, always("5000")},
		{`jvm_memory_used_bytes{namespace="shop",pod="cart-0",container="app",cluster="test",area="heap",id="G1 Old Gen"}`, always("5000")},
		{`jvm_memory_max_bytes{namespace="web",pod="cart-0",container="app",cluster="prod",area="heap",id="G1 Old Gen"}`, always("5000")},
	}
	want := map[string]float64{"hours": 36, "collected": 130, "collections": 1, "lowest": 150, "ceiling": 1000, "nonheap": 80, "beside": 50, "gc": 0.02}
	for name, c := range map[string]struct {
		series []series
		want   map[string]float64
	}{
		"Micrometer": {[]series{
			{`jvm_memory_used_bytes{` + of + `,area="heap",id="G1 Eden Space"}`, sawtooth(0, 500)},
			{`jvm_memory_used_bytes{` + of + `,area="heap",id="G1 Eden Space",job="second"}`, sawtooth(0, 500)},
			{`jvm_memory_used_bytes{` + of + `,area="heap",id="G1 Old Gen"}`, always("150")},
			{`jvm_memory_max_bytes{` + of + `,area="heap",id="G1 Eden Space"}`, always("-1")},
			{`jvm_memory_max_bytes{` + of + `,area="heap",id="G1 Old Gen"}`, always("1000")},
			{`jvm_gc_live_data_size_bytes{` + of + `}`, "120x300 130x132"},
			{`jvm_gc_pause_seconds_sum{` + of + `,gc="G1 Young Generation",action="end of minor GC",cause="a"}`, "0+4.5x432"},
			{`jvm_gc_pause_seconds_sum{` + of + `,gc="G1 Young Generation",action="end of minor GC",cause="b"}`, "0+1.5x432"},
		}, nil},
		"client_java without the label of the container": {[]series{
			{`jvm_memory_used_bytes{namespace="shop",pod="cart-0",cluster="prod",area="heap"}`, sawtooth(150, 650)},
			{`jvm_memory_max_bytes{namespace="shop",pod="cart-0",cluster="prod",area="heap"}`, always("1000")},
			{`jvm_memory_pool_collection_used_bytes{namespace="shop",pod="cart-0",cluster="prod",pool="G1 Old Gen"}`, "120x300 130x132"},
			{`jvm_memory_pool_collection_used_bytes{namespace="shop",pod="cart-0",cluster="prod",pool="G1 Eden Space"}`, always("800")},
			{`jvm_gc_collection_seconds_sum{namespace="shop",pod="cart-0",cluster="prod",gc="G1 Young Generation"}`, "0+6x432"},
		}, nil},
		"the JMX exporter before version 1": {[]series{
			{`jvm_memory_bytes_used{` + of + `,area="heap"}`, sawtooth(150, 650)},
			{`jvm_memory_bytes_max{` + of + `,area="heap"}`, always("1000")},
			{`jvm_gc_collection_seconds_sum{` + of + `,gc="Copy"}`, "0+6x432"},
		}, map[string]float64{"collected": math.NaN(), "collections": math.NaN()}},
	} {
		t.Run(name, func(t *testing.T) {
			text := "load 5m\n"
			for _, s := range append(c.series, common...) {
				text += "  " + s.name + " " + s.values + "\n"
			}
			storage := promqltest.LoadedStorage(t, text)
			defer storage.Close()
			q, err := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery).NewInstantQuery(t.Context(), storage, nil, string(query), time.Unix(0, 0).Add(36*time.Hour-time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			vector, err := q.Exec(t.Context()).Vector()
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]float64{}
			for _, s := range vector {
				got[s.Metric.Get("podfit_part")] = s.F
			}
			wanted := maps.Clone(want)
			maps.Copy(wanted, c.want)
			for part, v := range wanted {
				if found, ok := got[part]; math.IsNaN(v) == ok || ok && math.Abs(found-v) > 1e-6*v {
					t.Errorf("%s is %v (%t), want %v", part, found, ok, v)
				}
			}
		})
	}
}
