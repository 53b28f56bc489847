// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package promql

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

func TestParse_comparisonsWithNumbers_areObjectives(t *testing.T) {
	for query, want := range map[string]Objective{
		"sum(rate(errors_total[5m])) / sum(rate(requests_total[10m])) < 0.01":            {"<", 0.01, 10 * time.Minute},
		`histogram_quantile(0.99, sum by (le) (rate(http_bucket{code="200"}[5m]))) <= 2`: {"<=", 2, 5 * time.Minute},
		"up > -1": {">", -1, 5 * time.Minute},
		"max_over_time(queue_length[1m] offset 10m) >= (+3)": {">=", 3, 11 * time.Minute},
		"(a or b * on (pod) group_left () c) < 1":            {"<", 1, 5 * time.Minute},
	} {
		if got, err := Parse(query); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", query, got, err, want)
		}
	}
}

func TestParse_whatIsNotAllowed_isNamed(t *testing.T) {
	for query, want := range map[string]string{
		"":                                       "no expression",
		"errors_total":                           "must be a comparison",
		"a == 1":                                 "must be a comparison",
		"a < bool 1":                             "must be a comparison",
		"a < b":                                  "must be a comparison",
		"a < NaN":                                "must be a comparison",
		"a < +Inf":                               "must be a comparison",
		"1 < bool a":                             "must be a comparison",
		"vector(1) < 2":                          "reads 0 metrics",
		strings.Repeat("a + ", 10) + "a < 1":     "reads 11 metrics",
		`{__name__="a"} < 1`:                     "must begin with the name",
		`{__name__=~"a.*"} < 1`:                  "must begin with the name",
		`{"a or secret"} < 1`:                    "must begin with the name",
		"a @ 0 < 1":                              "modifier @",
		"a @ end() < 1":                          "modifier @",
		"a offset -5m < 1":                       "at least 0",
		"rate(a[2h]) < 1":                        "at most 1h0m0s",
		"rate(a[30m] offset 31m) < 1":            "at most 1h0m0s",
		"rate(a[290y] offset 290y) < 1":          "at most 1h0m0s",
		"max_over_time(rate(a[5m])[30m:1m]) < 1": "a subquery",
		`label_replace(a, "x", "$1", "y", ".*") < 1`: "function label_replace",
		"absent(a) < 1":                "function absent",
		"info(a) < 1":                  "info",
		"(((":                          "unclosed",
		strings.Repeat("(", 990) + "a": "unclosed",
		strings.Repeat("a", 1001):      "1001 bytes",
		`a{b=~"(?i)x{10}"} < 1`:        `"{10"`,
		"a{b=~`x{1,999}`} < 1":         `"{1,99`,
		"a{b=~`x{10,}`} < 1":           `"{10"`,
		`a{b=~"\\pL"} < 1`:             "classes",
		"a{b=~`\\PL`} < 1":             "classes",
		`a{b=~"x\x7b999}"} < 1`:        "by their number",
		`a{b=~"x{\u0039\u0039}"} < 1`:  "by their number",
		`a{b=~"x\173999}"} < 1`:        "by their number",
	} {
		if _, err := Parse(query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
		if text, err := Bind(query, "namespace", "shop"); err == nil {
			t.Errorf("%s: bound as %s", query, text)
		}
	}
}

// Each update of a VPA is parsed by three components, and the parser compiles regular expressions. A tenant must not keep them busy with that.
func TestParse_costlyRegularExpressions_areBounded(t *testing.T) {
	for _, unit := range []string{`(?i)\pL{999}`, `(?i)\pL`, `[^a]{1000}`, `(((.{9}){9}){9})`, `((((?i:k|s){9}){9}){9})`, `\w`, `(a|b)?`, `.*a`, `(foo|bar)`} {
		query := "a{b=~`" + strings.Repeat(unit, 980/len(unit)) + "`} < 1"
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse(query)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
			t.Errorf("%s: %d MiB, error %v", unit, got>>20, err)
		}
	}
	if _, err := Parse("sum(rate(a{code=~`5[0-9]{2}`, path!~\"/a/.+|/b\\\\d\"}[5m])) < 1"); err != nil {
		t.Error(err)
	}
}

func TestBind_eachSelector_selectsTheNamespaceOnly(t *testing.T) {
	got, err := Bind(`sum(rate(errors_total{namespace="bank"}[5m])) / (a - on (pod) b) < 0.01`, "namespace", `sh"op`)
	want := `sum(rate(errors_total{namespace="bank",namespace="sh\"op"}[5m])) / (a{namespace="sh\"op"} - on (pod) b{namespace="sh\"op"})`
	if err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
}

func FuzzBind(f *testing.F) {
	for _, query := range []string{
		"sum(rate(errors_total[5m])) < 1", `a{b="c", namespace=~".*"} - on (pod) group_left (x) b < -1`, `a{"quoted label"="x"} < 1`, "count_values(\"v\", a) < 1",
		"topk(3, a) and b unless c offset 1m > 2", "a{} # comment\n < 1", `a{b='\'} or secret{x="'} < 1`,
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		text, err := Bind(query, "namespace", "shop")
		if err != nil {
			return
		}
		again, err := language.ParseExpr(text)
		if err != nil {
			t.Fatalf("%q is bound as %q: %v", query, text, err)
		}
		for _, s := range selectors(again) {
			if !slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool {
				return m.Type == labels.MatchEqual && m.Name == "namespace" && m.Value == "shop"
			}) {
				t.Errorf("%q is bound as %q", query, text)
			}
		}
	})
}
