// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
)

func TestRequests_seriesOfNodes_areJoinedByHour(t *testing.T) {
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	var queries []string
	c := serve(t, func(_ *http.Request, query string) (string, any) {
		queries = append(queries, query)
		sample := func(node, value string) map[string]any {
			return map[string]any{"metric": map[string]string{"node": node}, "values": []any{[]any{at.Unix(), value}}}
		}
		switch {
		case strings.Contains(query, "requests") && strings.Contains(query, `"cpu"`):
			return "matrix", []any{sample("n1", "1.5"), sample("", "0.25"), sample("n2", "NaN"), sample("n3", "1e300"), sample("n4", "-1")}
		case strings.Contains(query, "requests"):
			return "matrix", []any{sample("n1", "2147483648")}
		case strings.Contains(query, `"cpu"`):
			return "matrix", []any{sample("n1", "64")}
		}
		return "matrix", []any{}
	})
	got, err := c.Requests(t.Context(), RequestsQuery{From: at.Add(-time.Hour), To: at, Allocatable: true, Matchers: []string{`cluster="prod"`}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i].At = got[i].At.UTC()
	}
	slices.SortFunc(got, func(a, b capacity.NodeHour) int { return cmp.Compare(a.Node, b.Node) })
	want := []capacity.NodeHour{
		{At: at, Requested: cluster.Resources{CPU: 250, Has: cluster.Of(cluster.CPU)}},
		{At: at, Node: "n1", Requested: cluster.Amounts(1500, 2<<30), Capacity: cluster.Resources{CPU: 64_000, Has: cluster.Of(cluster.CPU)}},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(queries) != 4 {
		t.Errorf("%d queries", len(queries))
	}
	for _, q := range queries {
		if strings.Count(q, `cluster="prod"`) == 0 || strings.Contains(q, "kube_node_status_capacity") {
			t.Errorf("query %s", q)
		}
	}
}
