// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package price

import (
	"bytes"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
)

// canned answers each request with the same body.
type canned []byte

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(c)), Request: r}, nil
}

func FuzzOpenCost_anyAnswer_pricesAreValid(f *testing.F) {
	for _, s := range []string{
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1,"0.03"]},{"metric":{},"value":[1,"NaN"]}]}}`,
		`{"data":{"result":[{"metric":{"node":"a"},"value":[1,"-1"]},{"metric":{"node":"b"},"value":[1,"1e400"]}]}}`,
		`{"data":{"result":[{"metric":{"node":"a"},"histogram":[1,{}]}]}}`, `{"data":null}`, "null", "", "<html>",
	} {
		f.Add([]byte(s))
	}
	nodes := []cluster.Node{{Name: "a"}, {Name: "b"}}
	f.Fuzz(func(t *testing.T, answer []byte) {
		prices, err := OpenCost(t.Context(), "http://prometheus.invalid", canned(answer), nodes, time.Unix(1e9, 0))
		if err != nil {
			return
		}
		for _, p := range slices.AppendSeq([]review.Price{prices.Default}, maps.Values(prices.Nodes)) {
			for _, v := range []float64{p.Core, p.GiB} {
				if math.IsNaN(v) || v < 0 || v > maxPrice {
					t.Errorf("price %v", v)
				}
			}
		}
		if len(prices.Nodes) != len(nodes) {
			t.Errorf("prices of %d nodes, want %d", len(prices.Nodes), len(nodes))
		}
	})
}
